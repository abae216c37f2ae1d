"""What all runs share: the images, the order in which they are shown, and the initial weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

CLASSES = 10
IMAGE_SIZE = 8
BATCH = 64
LEARNING_RATE = 2e-3

#: Channels of the two convolutions.
CHANNELS = (16, 32)

#: Both poolings halve the image's sides.
POOLED_SIZE = IMAGE_SIZE // 4

# All batches are full: 22 batches of 64, and 389 images are held out.
_TRAINING_IMAGES = 22 * BATCH

_SEED = 20

Images = NDArray[np.float32]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Digits:
    """scikit-learn's handwritten digits: 1797 images of 8x8, those for training and those held out."""

    train_images: Images
    train_labels: Labels
    test_images: Images
    test_labels: Labels


def load_digits() -> Digits:
    """The images as (N, 8, 8) between 0 and 1, split in a fixed way."""
    from sklearn.datasets import load_digits as load

    digits = load()
    order = np.random.default_rng(_SEED).permutation(len(digits.target))
    images = (digits.images / 16).astype(np.float32)[order]
    labels = digits.target.astype(np.int64)[order]
    split = _TRAINING_IMAGES
    return Digits(images[:split], labels[:split], images[split:], labels[split:])


def batches(epoch: int) -> list[NDArray[Any]]:
    """Indices of each batch of an epoch, shuffled by the epoch's number."""
    order = np.random.default_rng((_SEED, epoch)).permutation(_TRAINING_IMAGES)
    return np.split(order, _TRAINING_IMAGES // BATCH)


@dataclass(frozen=True)
class Weights:
    """Initial weights: filters as (output, input, height, width), the dense layer's over (channel, height, width)."""

    filter1: Images
    filter2: Images
    dense: Images

    @property
    def biases(self) -> tuple[Images, Images, Images]:
        """Zeros for each layer."""
        return tuple(np.zeros(n, np.float32) for n in (*CHANNELS, CLASSES))  # type: ignore[return-value]


def initial_weights() -> Weights:
    """The same numbers for every run (He's initialization)."""
    random = np.random.default_rng(_SEED)

    def normal(shape: tuple[int, ...], inputs: int) -> Images:
        return random.normal(0, np.sqrt(2 / inputs), shape).astype(np.float32)

    first, second = CHANNELS
    features = second * POOLED_SIZE * POOLED_SIZE
    return Weights(
        filter1=normal((first, 1, 3, 3), 9),
        filter2=normal((second, first, 3, 3), 9 * first),
        dense=normal((features, CLASSES), features),
    )
