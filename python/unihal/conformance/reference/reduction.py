"""UHAL_OP_REDUCE and UHAL_OP_SCAN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .enums import Reduction


def neutral(reduction: int, dtype: np.dtype[Any]) -> Any:
    """What combining nothing gives: 0, 1, or the extreme of the elements' dtype (an infinity where it has them)."""
    if reduction in (Reduction.PRODUCT, Reduction.ALL):
        return 1
    if reduction in (Reduction.MAXIMUM, Reduction.MINIMUM):
        sign = -1 if reduction == Reduction.MAXIMUM else 1
        if dtype == np.bool_:
            return sign > 0
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            return limits.max if sign > 0 else limits.min
        return sign * np.inf
    return -np.inf if reduction == Reduction.LOG_SUM_EXP else 0


def reduce(
    x: NDArray[Any], shape: Sequence[int], *, reduction: int = Reduction.SUM, elements: np.dtype[Any] | None = None
) -> NDArray[Any]:
    """Combines x along each axis where ``shape`` has length 1.

    ``elements`` is the dtype of the op's operand, whose extremes are the neutral elements of maximum and minimum; by
    default x's. The mean of integers divides in integers, toward zero; the mean of nothing is NaN, of no integers 0.
    """
    axes = tuple(axis for axis, length in enumerate(shape) if length == 1 != x.shape[axis])
    if not axes:
        return _of_single_elements(x, reduction)
    count = int(np.prod([x.shape[axis] for axis in axes]))
    if reduction in (Reduction.MAXIMUM, Reduction.MINIMUM):
        if count == 0:
            return np.full(shape, neutral(reduction, elements or x.dtype))
        extreme = np.max if reduction == Reduction.MAXIMUM else np.min  # both give NaN where there is one
        return np.asarray(extreme(x, axis=axes, keepdims=True))
    if reduction == Reduction.SUM:
        return np.asarray(np.sum(x, axis=axes, keepdims=True))
    if reduction == Reduction.MEAN:
        total = np.asarray(np.sum(x, axis=axes, keepdims=True))
        if x.dtype.kind in "iu":
            return np.asarray(np.sign(total) * (np.abs(total) // max(1, count)))
        return total / count if count else np.full(shape, np.nan)
    if reduction == Reduction.PRODUCT:
        return np.asarray(np.prod(x, axis=axes, keepdims=True))
    if reduction == Reduction.ALL:
        return np.asarray(np.all(x != 0, axis=axes, keepdims=True).astype(x.dtype))
    if reduction == Reduction.ANY:
        return np.asarray(np.any(x != 0, axis=axes, keepdims=True).astype(x.dtype))
    if reduction == Reduction.SUM_OF_SQUARES:
        return np.asarray(np.sum(x * x, axis=axes, keepdims=True))
    if reduction == Reduction.L1_NORM:
        return np.asarray(np.sum(np.abs(x), axis=axes, keepdims=True))
    if reduction == Reduction.L2_NORM:
        return np.asarray(np.sqrt(np.sum(x * x, axis=axes, keepdims=True)))
    if reduction == Reduction.LOG_SUM_EXP:
        if count == 0:
            return np.full(shape, -np.inf)
        shift = np.max(x, axis=axes, keepdims=True)
        shift = np.where(np.isfinite(shift), shift, 0)  # infinity - infinity would be NaN
        with np.errstate(divide="ignore", over="ignore"):
            return np.asarray(np.log(np.sum(np.exp(x - shift), axis=axes, keepdims=True)) + shift)
    raise ValueError(f"{reduction} is no uhal_reduction")


def _of_single_elements(x: NDArray[Any], reduction: int) -> NDArray[Any]:
    if reduction in (Reduction.ALL, Reduction.ANY):
        return np.asarray((x != 0).astype(x.dtype))
    if reduction == Reduction.SUM_OF_SQUARES:
        return np.asarray(x * x)
    if reduction in (Reduction.L1_NORM, Reduction.L2_NORM):
        return np.asarray(np.abs(x))
    return x


_RUNNING = {
    Reduction.SUM: np.add,
    Reduction.PRODUCT: np.multiply,
    Reduction.MAXIMUM: np.maximum,
    Reduction.MINIMUM: np.minimum,
    Reduction.LOG_SUM_EXP: np.logaddexp,
}


def scan(
    x: NDArray[Any],
    *,
    axis: int = 0,
    reduction: int = Reduction.SUM,
    exclusive: int = 0,
    reverse: int = 0,
    elements: np.dtype[Any] | None = None,
) -> NDArray[Any]:
    """y[i] = x[0] + ... + x[i] along the axis (without x[i] if exclusive, from the other end if reverse).

    An exclusive scan begins with the neutral element; ``elements`` is as in ``reduce``.
    """
    rows = np.moveaxis(x, axis, -1)
    if reverse:
        rows = rows[..., ::-1]
    if rows.size:
        running = _RUNNING[Reduction(reduction)].accumulate(rows, axis=-1)
        if exclusive:
            first = np.full((*rows.shape[:-1], 1), neutral(reduction, elements or x.dtype))
            running = np.concatenate([first, running[..., :-1]], axis=-1)
    else:
        running = rows
    if reverse:
        running = running[..., ::-1]
    return np.moveaxis(running, -1, axis)
