"""UHAL_OP_POOL and its gradient: a loop over the windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .enums import PoolMode

_ONE = (1, 1, 1)
_ZERO = (0, 0, 0)


def _windows(
    spatial: Sequence[int],
    outputs: Sequence[int],
    window: Sequence[int],
    stride: Sequence[int],
    pad_before: Sequence[int],
    adaptive: int,
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Each output position, and the pixels of the image under its window."""
    for place in np.ndindex(*outputs):
        under = []
        for i, position in enumerate(place):
            if adaptive:
                first = position * spatial[i] // outputs[i]
                last = -(-(position + 1) * spatial[i] // outputs[i])
            else:
                first = position * stride[i] - pad_before[i]
                last = first + window[i]
            under.append(slice(min(max(first, 0), spatial[i]), min(max(last, 0), spatial[i])))
        yield place, tuple(under)


def _last(index: Sequence[Any]) -> tuple[Any, ...]:
    """An index of the last axes."""
    return (..., *index)


def _divisor(mode: int, adaptive: int, window: Sequence[int], under: Sequence[slice]) -> int:
    """What a window's sum is divided by: all of the window where padding counts, else the pixels under it."""
    if mode == PoolMode.AVERAGE_INCLUDE_PADDING and not adaptive:
        return int(np.prod(window[: len(under)]))
    return max(1, int(np.prod([pixels.stop - pixels.start for pixels in under])))


def pool(
    x: NDArray[Any],
    outputs: Sequence[int],
    *,
    window: Sequence[int] = _ONE,
    stride: Sequence[int] = _ONE,
    pad_before: Sequence[int] = _ZERO,
    pad_after: Sequence[int] = _ZERO,
    mode: int = PoolMode.MAXIMUM,
    adaptive: int = 0,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """(y, indices): the maximum or average under each window, and the flat index of the first maximum.

    ``outputs`` are y's spatial lengths, which ``pad_after`` and ceil mode lead to. NaN is a maximum.
    """
    spatial = x.shape[2:]
    y = np.zeros((*x.shape[:2], *outputs), x.dtype)
    indices = np.zeros(y.shape, np.int64)
    numbers = np.arange(int(np.prod(spatial))).reshape(spatial)
    for place, under in _windows(spatial, outputs, window, stride, pad_before, adaptive):
        pixels = x[_last(under)].reshape(*x.shape[:2], numbers[under].size)
        at = _last(place)
        if mode == PoolMode.MAXIMUM:
            first = np.argmax(pixels, axis=-1)
            y[at] = np.max(pixels, axis=-1)
            indices[at] = numbers[under].reshape(-1)[first]
        else:
            y[at] = pixels.sum(axis=-1) / _divisor(mode, adaptive, window, under)
    return y, indices


def pool_backward(
    dy: NDArray[Any],
    x: NDArray[Any] | None,
    x_shape: Sequence[int],
    *,
    window: Sequence[int] = _ONE,
    stride: Sequence[int] = _ONE,
    pad_before: Sequence[int] = _ZERO,
    pad_after: Sequence[int] = _ZERO,
    mode: int = PoolMode.MAXIMUM,
    adaptive: int = 0,
) -> NDArray[Any]:
    """dx: each output's gradient goes to the first maximum of its window, or in equal shares to the pixels under it."""
    spatial = x_shape[2:]
    dx = np.zeros(tuple(x_shape))
    for place, under in _windows(spatial, dy.shape[2:], window, stride, pad_before, adaptive):
        share = dy[_last(place)]
        target = dx[_last(under)]
        if mode == PoolMode.MAXIMUM:
            assert x is not None
            pixels = x[_last(under)]
            count = int(np.prod(pixels.shape[2:]))
            first = np.argmax(pixels.reshape(*x_shape[:2], count), axis=-1)
            chosen = np.arange(count) == first[..., None]
            target += np.where(chosen, share[..., None], 0).reshape(target.shape)
        else:
            target += share.reshape(*share.shape, *[1] * len(under)) / _divisor(mode, adaptive, window, under)
    return dx
