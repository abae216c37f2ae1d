"""Activations that ops can fuse (uhal_activation)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .enums import Activation

_erf = np.frompyfunc(math.erf, 1, 1)


def erf(x: NDArray[Any]) -> NDArray[Any]:
    """The error function, which NumPy has none of."""
    return np.asarray(_erf(x)).astype(np.float64)


def _sigmoid(x: NDArray[Any]) -> NDArray[Any]:
    # exp of nothing positive cannot overflow.
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, small) / (1 + small))


def activate(x: NDArray[Any], activation: int) -> NDArray[Any]:
    """activation(x), with the expressions of elementwise.def: relu, gelu_erf, gelu_tanh, sigmoid, tanh, silu, relu6."""
    if activation == Activation.RELU:
        return np.asarray(np.maximum(x, 0))
    if activation == Activation.GELU_ERF:
        return np.asarray(0.5 * x * (1 + erf(x / math.sqrt(2))))
    if activation == Activation.GELU_TANH:
        return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))
    if activation == Activation.SIGMOID:
        return _sigmoid(x)
    if activation == Activation.TANH:
        return np.asarray(np.tanh(x))
    if activation == Activation.SILU:
        return np.asarray(x * _sigmoid(x))
    if activation == Activation.RELU6:
        return np.asarray(np.clip(x, 0, 6))
    return x
