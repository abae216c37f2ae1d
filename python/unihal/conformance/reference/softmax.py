"""UHAL_OP_SOFTMAX and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def softmax(x: NDArray[Any], *, axis: int = -1, logarithm: int = 0) -> NDArray[Any]:
    """exp(x) / sum(exp(x)) along the axis, or the logarithm of it."""
    if x.size == 0:
        return x
    shifted = x - np.max(x, axis=axis, keepdims=True)
    log_sum = np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))
    return np.asarray(shifted - log_sum if logarithm else np.exp(shifted - log_sum))


def softmax_backward(y: NDArray[Any], dy: NDArray[Any], *, axis: int = -1, logarithm: int = 0) -> NDArray[Any]:
    """dx = y * (dy - sum(y * dy)), of the logarithm dy - exp(y) * sum(dy); y is the forward's output."""
    if logarithm:
        return np.asarray(dy - np.exp(y) * np.sum(dy, axis=axis, keepdims=True))
    return np.asarray(y * (dy - np.sum(y * dy, axis=axis, keepdims=True)))
