"""Batch, layer, group and RMS norm, and their gradients.

All normalize over some axes: y = scale * n + bias with n = (x - mean) / sqrt(variance + epsilon) and the biased
variance. With g = scale * dy and means over the normalized axes, the chain rule gives
dx = (g - mean(g) - n * mean(g * n)) / sqrt(variance + epsilon), of which constant statistics leave the first term.
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .activation import activate

_Optional = Optional[NDArray[Any]]


def _per_channel(vector: _Optional, rank: int, otherwise: float) -> NDArray[Any]:
    """A vector (C) that broadcasts against (N, C, ...)."""
    if vector is None:
        return np.full((1,) * rank, otherwise)
    return vector.reshape(1, -1, *[1] * (rank - 2))


def _axes_from(axis: int, rank: int) -> tuple[int, ...]:
    return tuple(range(axis % rank, rank))


def _gradient(
    x: NDArray[Any],
    g: NDArray[Any],
    mean: NDArray[Any] | float,
    inverse: NDArray[Any],
    axes: tuple[int, ...],
    *,
    through_mean: bool = True,
) -> NDArray[Any]:
    """dx as the module's docstring has it; without ``through_mean`` the mean is no function of x."""
    normalized = (x - mean) * inverse
    result = g - normalized * np.mean(g * normalized, axis=axes, keepdims=True)
    if through_mean:
        result = result - np.mean(g, axis=axes, keepdims=True)
    return np.asarray(result * inverse)


def batch_norm(
    x: NDArray[Any],
    scale: _Optional,
    bias: _Optional,
    running_mean: _Optional = None,
    running_variance: _Optional = None,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    inference: int = 0,
    unbiased_running: int = 0,
    activation: int = 0,
) -> tuple[NDArray[Any], _Optional, _Optional, _Optional, _Optional]:
    """(y, mean, variance, running_mean, running_variance) over all axes but C; in inference only y."""
    axes = (0, *range(2, x.ndim))
    if inference:
        assert running_mean is not None and running_variance is not None
        mean, variance = running_mean, running_variance
    else:
        mean, variance = x.mean(axis=axes), x.var(axis=axes)
    inverse = 1 / np.sqrt(variance + epsilon)
    normalized = (x - _per_channel(mean, x.ndim, 0)) * _per_channel(inverse, x.ndim, 1)
    y = activate(normalized * _per_channel(scale, x.ndim, 1) + _per_channel(bias, x.ndim, 0), activation)
    if inference:
        return y, None, None, None, None
    count = x.size // max(1, x.shape[1])
    spread = variance * (count / max(1, count - 1)) if unbiased_running else variance
    new_mean = None if running_mean is None else momentum * running_mean + (1 - momentum) * mean
    new_variance = None if running_variance is None else momentum * running_variance + (1 - momentum) * spread
    return y, mean, variance, new_mean, new_variance


def batch_norm_backward(
    x: NDArray[Any],
    dy: NDArray[Any],
    scale: _Optional,
    mean: NDArray[Any],
    variance: NDArray[Any],
    *,
    epsilon: float = 1e-5,
    inference: int = 0,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(dx, dscale, dbias)."""
    axes = (0, *range(2, x.ndim))
    inverse = _per_channel(1 / np.sqrt(variance + epsilon), x.ndim, 1)
    centre = _per_channel(mean, x.ndim, 0)
    g = dy * _per_channel(scale, x.ndim, 1)
    dx = g * inverse if inference else _gradient(x, g, centre, inverse, axes)
    return dx, (dy * (x - centre) * inverse).sum(axis=axes), dy.sum(axis=axes)


def layer_norm(
    x: NDArray[Any],
    scale: _Optional = None,
    bias: _Optional = None,
    *,
    epsilon: float = 1e-5,
    axis: int = -1,
    activation: int = 0,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(y, mean, variance) over all axes from ``axis`` on."""
    axes = _axes_from(axis, x.ndim)
    mean, variance = x.mean(axis=axes, keepdims=True), x.var(axis=axes, keepdims=True)
    y = (x - mean) / np.sqrt(variance + epsilon)
    if scale is not None:
        y = y * scale
    if bias is not None:
        y = y + bias
    return activate(y, activation), mean, variance


def layer_norm_backward(
    x: NDArray[Any],
    dy: NDArray[Any],
    scale: _Optional,
    mean: NDArray[Any],
    variance: NDArray[Any],
    *,
    epsilon: float = 1e-5,
    axis: int = -1,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(dx, dscale, dbias)."""
    axes = _axes_from(axis, x.ndim)
    others = tuple(range(axes[0]))
    inverse = 1 / np.sqrt(variance + epsilon)
    dx = _gradient(x, dy if scale is None else dy * scale, mean, inverse, axes)
    return dx, (dy * (x - mean) * inverse).sum(axis=others), dy.sum(axis=others)


def group_norm(
    x: NDArray[Any],
    scale: _Optional = None,
    bias: _Optional = None,
    *,
    epsilon: float = 1e-5,
    groups: int = 1,
    activation: int = 0,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(y, mean (N, groups), variance (N, groups)) over the channels of a group and all spatial axes."""
    grouped = x.reshape(x.shape[0], groups, _group_size(x, groups))
    mean, variance = grouped.mean(axis=2), grouped.var(axis=2)
    normalized = (grouped - mean[..., None]) / np.sqrt(variance[..., None] + epsilon)
    y = normalized.reshape(x.shape) * _per_channel(scale, x.ndim, 1) + _per_channel(bias, x.ndim, 0)
    return activate(y, activation), mean, variance


def group_norm_backward(
    x: NDArray[Any],
    dy: NDArray[Any],
    scale: _Optional,
    mean: NDArray[Any],
    variance: NDArray[Any],
    *,
    epsilon: float = 1e-5,
    groups: int = 1,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(dx, dscale (C), dbias (C))."""
    shape = (x.shape[0], groups, _group_size(x, groups))
    inverse = 1 / np.sqrt(variance + epsilon)[..., None]
    grouped = x.reshape(shape)
    g = (dy * _per_channel(scale, x.ndim, 1)).reshape(shape)
    dx = _gradient(grouped, g, mean[..., None], inverse, (2,)).reshape(x.shape)
    normalized = ((grouped - mean[..., None]) * inverse).reshape(x.shape)
    axes = (0, *range(2, x.ndim))
    return dx, (dy * normalized).sum(axis=axes), dy.sum(axis=axes)


def _group_size(x: NDArray[Any], groups: int) -> int:
    return int(np.prod(x.shape[1:])) // groups


def rms_norm(
    x: NDArray[Any], scale: _Optional = None, *, epsilon: float = 1e-5, axis: int = -1, activation: int = 0
) -> tuple[NDArray[Any], NDArray[Any]]:
    """(y, inverse_rms): y = scale * x * inverse_rms, inverse_rms = 1 / sqrt(mean(x^2) + epsilon)."""
    inverse = 1 / np.sqrt(np.mean(x * x, axis=_axes_from(axis, x.ndim), keepdims=True) + epsilon)
    y = x * inverse
    return activate(y if scale is None else y * scale, activation), inverse


def rms_norm_backward(
    x: NDArray[Any], dy: NDArray[Any], scale: _Optional, inverse_rms: NDArray[Any], *, axis: int = -1
) -> tuple[NDArray[Any], NDArray[Any]]:
    """(dx, dscale)."""
    axes = _axes_from(axis, x.ndim)
    g = dy if scale is None else dy * scale
    dx = _gradient(x, g, 0.0, inverse_rms, axes, through_mean=False)
    return dx, (dy * x * inverse_rms).sum(axis=tuple(range(axes[0])))
