"""UHAL_OP_GATHER and UHAL_OP_SCATTER with their nd and elements variants.

All are one thing: for each element of the rows (gather's output, scatter's updates) a position in the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .enums import Reduction

Array = NDArray[Any]

#: For each axis of the table the coordinates of each row element, as arrays that broadcast to the rows' shape.
Positions = list[Array]

_COMBINE: dict[int, np.ufunc] = {
    Reduction.SUM: np.add,
    Reduction.PRODUCT: np.multiply,
    Reduction.MAXIMUM: np.maximum,
    Reduction.MINIMUM: np.minimum,
}


def _counting(length: int, axis: int, rank: int) -> Array:
    return np.arange(length).reshape([length if i == axis else 1 for i in range(rank)])


def positions_along_axis(shape: Sequence[int], indices: Array, axis: int, batch_dimensions: int) -> Positions:
    """Of gather and scatter."""
    own = indices.ndim - batch_dimensions
    rank = len(shape) - 1 + own
    before = [*indices.shape[:batch_dimensions], *[1] * (axis - batch_dimensions)]
    after = [1] * (len(shape) - axis - 1)
    addressed = indices.reshape([*before, *indices.shape[batch_dimensions:], *after])
    leading = [_counting(shape[i], i, rank) for i in range(axis)]
    trailing = [_counting(shape[i], i - 1 + own, rank) for i in range(axis + 1, len(shape))]
    return [*leading, addressed, *trailing]


def positions_nd(shape: Sequence[int], indices: Array) -> Positions:
    """Of gather_nd and scatter_nd."""
    depth = indices.shape[-1]
    outer, inner = indices.ndim - 1, len(shape) - depth
    addressed = [indices[..., i].reshape([*indices.shape[:-1], *[1] * inner]) for i in range(depth)]
    return addressed + [_counting(shape[depth + i], outer + i, outer + inner) for i in range(inner)]


def positions_of_elements(indices: Array, axis: int) -> Positions:
    """Of gather_elements and scatter_elements."""
    positions = [_counting(length, i, indices.ndim) for i, length in enumerate(indices.shape)]
    positions[axis] = indices
    return positions


def _resolve(
    positions: Positions, shape: Sequence[int], rows_shape: Sequence[int], negative_wraps: bool
) -> tuple[Array, Array]:
    """Flat positions in the table, in the rows' order, and which of them exist."""
    flat = np.zeros(rows_shape, np.int64)
    valid = np.ones(rows_shape, bool)
    for position, length in zip(positions, shape):
        position = position.astype(np.int64)
        if negative_wraps:
            position = np.where(position < 0, position + length, position)
        inside = (position >= 0) & (position < length)
        valid &= inside
        flat = flat * length + np.where(inside, position, 0)
    return flat.ravel(), valid.ravel()


def gather(table: Array, positions: Positions, rows_shape: Sequence[int], negative_wraps: bool = False) -> Array:
    """The table's elements; 0 where there is none."""
    flat, valid = _resolve(positions, table.shape, rows_shape, negative_wraps)
    rows = np.zeros(len(flat), table.dtype)
    rows[valid] = table.ravel()[flat[valid]]
    return rows.reshape(rows_shape)


def scatter(table: Array, positions: Positions, updates: Array, reduction: int, negative_wraps: bool = False) -> Array:
    """The table with its elements combined with the updates, one after the other in row-major order."""
    flat, valid = _resolve(positions, table.shape, updates.shape, negative_wraps)
    result = (table.astype(np.int64) if table.dtype == bool else table.copy()).ravel()
    chosen, values = flat[valid], updates.ravel()[valid]
    if reduction == Reduction.NONE:
        result[chosen] = values
    else:
        _COMBINE[reduction].at(result, chosen, values)
    return np.asarray(result.reshape(table.shape))
