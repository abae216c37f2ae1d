"""UHAL_OP_ARG_REDUCE, UHAL_OP_SORT and UHAL_OP_TOP_K."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .enums import AXIS_DESCENDING


def arg_reduce(x: NDArray[Any], *, axis: int = 0, flags: int = 0) -> NDArray[Any]:
    """Where the smallest (with AXIS_DESCENDING the greatest) is: the first of equals, a NaN before all."""
    choose = np.argmax if flags & AXIS_DESCENDING else np.argmin
    return np.asarray(choose(x, axis=axis, keepdims=True))


def sort(x: NDArray[Any], *, axis: int = 0, flags: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """(values, indices) in order along the axis; equals keep theirs; NaN is last, first when descending."""
    if flags & AXIS_DESCENDING:
        # Ascending order of the reversed row, read from its end, keeps the order of equals.
        backwards = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
        indices = x.shape[axis] - 1 - np.flip(backwards, axis)
    else:
        indices = np.argsort(x, axis=axis, kind="stable")
    return np.take_along_axis(x, indices, axis=axis), indices


def top_k(x: NDArray[Any], k: int, *, axis: int = 0, flags: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """(values, indices) of the k first along the axis in the order of ``sort``."""
    values, indices = sort(x, axis=axis, flags=flags)
    first = np.arange(k)
    return np.take(values, first, axis=axis), np.take(indices, first, axis=axis)
