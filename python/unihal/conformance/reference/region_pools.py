"""UHAL_OP_ROI_POOL and its gradient: whole pixels of the bins of regions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: uhal_roi_pool_mode.
MAX, AVERAGE_BY_POSITION = 0, 1


def _rounded(value: float) -> float:
    """Halves away from 0."""
    if math.isnan(value):
        return 0.0
    value = min(max(value, -1e9), 1e9)
    return math.copysign(math.floor(abs(value) + 0.5), value)


def _pixels(low: float, high: float, bins: int, length: int, mode: int, scale: float) -> list[range]:
    """The pixels of each bin along an axis."""
    if mode == MAX:
        start = _rounded(low * scale)
        size = max(_rounded(high * scale) - start + 1, 1)
    else:
        start = _rounded(low) * scale
        size = max((_rounded(high) + 1) * scale - start, 0.1)
    found = []
    for b in range(bins):
        begin, end = math.floor(b * size / bins + start), math.ceil((b + 1) * size / bins + start)
        found.append(range(min(max(begin, 0), length), min(max(end, 0), length)))
    return found


def _bins(
    x: tuple[int, ...], y: tuple[int, ...], boxes: NDArray[Any], images: NDArray[Any], mode: int, scale: float
) -> Iterator[tuple[tuple[int, ...], tuple[int, int], range, range]]:
    """(element of y, image and channel of x, rows, columns) of all bins that have pixels."""
    for r, (x0, y0, x1, y1) in enumerate(np.asarray(boxes, np.float64).reshape(-1, 4)):
        if not 0 <= images[r] < x[0]:
            continue
        down = _pixels(y0, y1, y[2], x[2], mode, scale)
        across = _pixels(x0, x1, y[3], x[3], mode, scale)
        for d, row, column in np.ndindex(*y[1:]):
            if len(down[row]) and len(across[column]):
                channel = d if mode == MAX else (d * y[2] + row) * y[3] + column
                yield (r, d, row, column), (int(images[r]), channel), down[row], across[column]


def roi_pool(
    x: NDArray[Any], boxes: NDArray[Any], images: NDArray[Any], shape: tuple[int, ...], mode: int, scale: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """y of a shape, and indices, -1 where there are none."""
    y, indices = np.zeros(shape), np.full(shape, -1, np.int64)
    for at, plane, rows, columns in _bins(x.shape, shape, boxes, images, mode, scale):
        values = x[plane][rows.start : rows.stop, columns.start : columns.stop].astype(np.float64)
        if mode == AVERAGE_BY_POSITION:
            y[at] = values.mean()
            continue
        numbers = np.where(np.isnan(values), -np.inf, values)
        y[at] = numbers.max()
        if y[at] > -np.inf:
            row, column = divmod(int(numbers.argmax()), len(columns))
            indices[at] = (rows[row]) * x.shape[3] + columns[column]
    return y, indices


def roi_pool_backward(
    dy: NDArray[Any],
    boxes: NDArray[Any],
    images: NDArray[Any],
    indices: NDArray[Any] | None,
    shape: tuple[int, ...],
    mode: int,
    scale: float,
) -> NDArray[Any]:
    """dx of a shape. An index counts where its pixel is one of the bin's."""
    dx = np.zeros(shape)
    for at, plane, rows, columns in _bins(shape, dy.shape, boxes, images, mode, scale):
        if indices is None:
            dx[plane][rows.start : rows.stop, columns.start : columns.stop] += dy[at] / (len(rows) * len(columns))
        elif indices[at] >= 0 and indices[at] // shape[3] in rows and indices[at] % shape[3] in columns:
            dx[plane].flat[indices[at]] += dy[at]
    return dx
