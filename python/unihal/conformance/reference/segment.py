"""segment_reduce, from its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .enums import Reduction, SegmentForm

Array = NDArray[Any]


def segments_of(ids: Array, form: int, elements: int) -> Array:
    """The segment of each element; a number below 0 or too large stands for none."""
    if form != SegmentForm.OFFSETS:
        return ids.astype(np.int64)
    # As many offsets lie at or before an element as there are segments up to its own.
    return np.searchsorted(ids, np.arange(elements), side="right").astype(np.int64) - 1


def segment_reduce(
    x: Array, segment: Array, rows: Array, weights: Array | None, segments: int, reduction: int, empty: float
) -> tuple[Array, Array]:
    """Element i is row ``rows[i]`` of x times its weight; the reduction of each segment, and its elements."""
    inside = (segment >= 0) & (segment < segments)
    there = (rows >= 0) & (rows < len(x))
    elements = np.zeros((len(rows), *x.shape[1:]), x.dtype)
    elements[there] = x[rows[there]]
    if weights is not None:
        elements = elements * weights.reshape(-1, *[1] * (x.ndim - 1))
    counts = np.bincount(segment[inside], minlength=segments)
    combine: Any = {
        Reduction.SUM: np.add,
        Reduction.MEAN: np.add,
        Reduction.PRODUCT: np.multiply,
        Reduction.MAXIMUM: np.maximum,
        Reduction.MINIMUM: np.minimum,
    }[Reduction(reduction)]
    result = np.zeros((segments, *x.shape[1:]), x.dtype)
    chosen, values = segment[inside], elements[inside]
    numbers, first = np.unique(chosen, return_index=True)
    result[numbers] = values[first]
    rest = np.ones(len(chosen), bool)
    rest[first] = False
    combine.at(result, chosen[rest], values[rest])
    if reduction == Reduction.MEAN:
        divisors = np.maximum(counts, 1).reshape(-1, *[1] * (x.ndim - 1))
        if x.dtype.kind == "f":
            result = result / divisors
        else:
            # Cut toward zero.
            result = np.sign(result) * (np.abs(result) // divisors.astype(x.dtype))
    result[counts == 0] = empty
    return result, counts
