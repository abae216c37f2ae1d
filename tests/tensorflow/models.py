"""The models of the training tests."""

from __future__ import annotations

import os
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

# The strict stub shows what it has to show in few steps, and so does hardware: each takes longer there.
STEPS = 6 if os.environ.get("UNIHAL_STUB") == "strict" or os.environ["UNIHAL_BACKEND"] != "stub" else 20


def digits_cnn() -> keras.Model:
    return keras.Sequential(
        [
            layers.Input((8, 8, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.AveragePooling2D(2),
            layers.Flatten(),
            layers.Dropout(0.2),
            layers.Dense(10),
        ]
    )


def _residual_block(x: Any, width: int, stride: int) -> Any:
    shortcut = x
    y = layers.Conv2D(width, 3, stride, padding="same", use_bias=False)(x)
    y = layers.ReLU()(layers.BatchNormalization()(y))
    y = layers.Conv2D(width, 3, padding="same", use_bias=False)(y)
    y = layers.BatchNormalization()(y)
    if stride != 1 or x.shape[-1] != width:
        shortcut = layers.Conv2D(width, 1, stride, use_bias=False)(x)
        shortcut = layers.BatchNormalization()(shortcut)
    return layers.ReLU()(layers.Add()([y, shortcut]))


def resnet18(width: int = 8) -> keras.Model:
    """ResNet-18 for 32x32 images, with fewer channels."""
    inputs = layers.Input((32, 32, 3))
    x = layers.Conv2D(width, 3, padding="same", use_bias=False)(inputs)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    for stage in range(4):
        for block in range(2):
            x = _residual_block(x, width << stage, 2 if stage > 0 and block == 0 else 1)
    return keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))


class Attention(layers.Layer):
    """Self-attention from matrix products and softmax."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.depth = width // heads
        self.project_in = layers.Dense(3 * width)
        self.project_out = layers.Dense(width)

    def call(self, x: Any) -> Any:
        length = x.shape[1]
        qkv = tf.reshape(self.project_in(x), [-1, length, 3, self.heads, self.depth])
        q, k, v = tf.unstack(tf.transpose(qkv, [2, 0, 3, 1, 4]))
        scores = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * self.depth**-0.5)
        y = tf.transpose(tf.matmul(scores, v), [0, 2, 1, 3])
        return self.project_out(tf.reshape(y, [-1, length, self.heads * self.depth]))


def transformer(vocabulary: int = 50, length: int = 12, width: int = 32) -> keras.Model:
    """Two encoder layers over token embeddings."""
    inputs = layers.Input((length,), dtype="int32")
    x = layers.Embedding(vocabulary, width)(inputs)
    for _ in range(2):
        x = x + layers.Dropout(0.1)(Attention(width, 4)(layers.LayerNormalization()(x)))
        y = layers.Dense(2 * width, activation="gelu")(layers.LayerNormalization()(x))
        x = x + layers.Dropout(0.1)(layers.Dense(width)(y))
    return keras.Model(inputs, layers.Dense(10)(layers.LayerNormalization()(x)[:, 0]))


def batches(name: str, size: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """STEPS batches of inputs that determine their labels."""
    generator = np.random.default_rng(7)
    labels = generator.integers(0, 10, STEPS * size)
    if name == "transformer":
        tokens = generator.integers(0, 50, (len(labels), 12)).astype("int32")
        tokens[:, 0] = labels
        return tokens, labels
    shape = (8, 8, 1) if name == "digits_cnn" else (32, 32, 3)
    prototypes = generator.normal(size=(10, *shape))
    return (prototypes[labels] + 0.3 * generator.normal(size=(len(labels), *shape))).astype(dtype), labels


def build(name: str, dtype: str) -> tuple[keras.Model, keras.optimizers.Optimizer]:
    """A model and the optimizer that it is trained with."""
    keras.utils.set_random_seed(11)
    keras.config.set_dtype_policy(dtype)
    if name == "digits_cnn":
        return digits_cnn(), keras.optimizers.Adam(1e-3)
    if name == "resnet18":
        # At four times this rate rounding grows ten times as much in 20 steps: on some processors too much.
        return resnet18(), keras.optimizers.SGD(0.0005, momentum=0.9)
    return transformer(), keras.optimizers.AdamW(1e-3)
