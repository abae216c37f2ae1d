"""UHAL_OP_CROSS_ENTROPY and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .softmax import softmax


def _distribution(
    labels: NDArray[Any], classes: int, axis: int, has_ignore: int, ignore_index: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """(the distribution that labels stand for, 1 where they count and 0 where they are ignored).

    Sparse labels have length 1 along the axis and become one-hot; soft ones are distributions and always count.
    """
    if labels.dtype.kind == "f":
        return labels, np.ones((1,) * labels.ndim)
    ignored = labels == ignore_index if has_ignore else np.zeros(labels.shape, bool)
    numbers = np.arange(classes).reshape([-1 if i == axis % labels.ndim else 1 for i in range(labels.ndim)])
    return np.where(ignored, 0, numbers == labels).astype(np.float64), np.where(ignored, 0.0, 1.0)


def cross_entropy(
    logits: NDArray[Any],
    labels: NDArray[Any],
    weights: NDArray[Any] | None = None,
    *,
    axis: int = -1,
    has_ignore: int = 0,
    ignore_index: int = 0,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(loss, probabilities, gradient).

    loss = -sum(weight * label * log_softmax(logits)) along the axis; gradient = probabilities - label, of the
    unweighted loss; both are zero where the label is ignored.
    """
    label, counts = _distribution(labels, logits.shape[axis], axis, has_ignore, ignore_index)
    weighted = label
    if weights is not None:
        weighted = label * weights.reshape([-1 if i == axis % logits.ndim else 1 for i in range(logits.ndim)])
    # Where a label is 0 its term is, however unlikely the class.
    logarithm = softmax(logits, axis=axis, logarithm=1)
    loss = -np.sum(np.where(weighted == 0, 0, weighted * logarithm), axis=axis, keepdims=True)
    probabilities = softmax(logits, axis=axis)
    return loss, probabilities, (probabilities - label) * counts


def cross_entropy_backward(
    probabilities: NDArray[Any],
    labels: NDArray[Any],
    dloss: NDArray[Any],
    *,
    axis: int = -1,
    has_ignore: int = 0,
    ignore_index: int = 0,
) -> NDArray[Any]:
    """dlogits = (probabilities - label) * dloss, zero where the label is ignored."""
    label, counts = _distribution(labels, probabilities.shape[axis], axis, has_ignore, ignore_index)
    return np.asarray((probabilities - label) * counts * dloss)
