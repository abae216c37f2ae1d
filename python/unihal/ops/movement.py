"""Data movement and indexing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from .. import dtypes
from ..buffer import Buffer
from ..device import DeviceLike
from ..stream import Stream
from .launch import axis_of, launch, output
from .reduction import REDUCTIONS

#: How a scattered update meets the element that is there.
Combination = Literal["none", "sum", "mean", "product", "maximum", "minimum"]


def copy(x: Buffer, *, out: Buffer | None = None, stream: Stream | None = None) -> Buffer:
    """A copy of ``x``, row-major; or its elements, broadcast, in ``out``."""
    result = out if out is not None else output(x.shape, x.dtype, x, stream=stream)
    launch("copy", [x], [result], stream=stream)
    return result


def cast(x: Buffer, dtype: str, *, out: Buffer | None = None, stream: Stream | None = None) -> Buffer:
    """The elements as another dtype; integers truncate toward zero, bool is ``x != 0``."""
    result = output(x.shape, dtype, x, out, stream)
    launch("cast", [x], [result], stream=stream)
    return result


def fill(out: Buffer, value: float, *, stream: Stream | None = None) -> Buffer:
    """Sets all elements of ``out``."""
    integer = int(value) if out.dtype in dtypes.INTEGERS else 0
    launch("fill", [], [out], {"value": float(value), "integer_value": _signed(integer)}, stream=stream)
    return out


def iota(
    length: int, dtype: str, on: DeviceLike, start: float = 0, step: float = 1, *, stream: Stream | None = None
) -> Buffer:
    """``start + i * step`` for i below ``length``."""
    result = Buffer((length,), dtype, on, stream=stream)
    if dtype in dtypes.INTEGERS:
        attributes: dict[str, float] = {"integer_start": _signed(int(start)), "integer_step": int(step)}
    else:
        attributes = {"start": start, "step": step}
    launch("iota", [], [result], attributes, stream=stream)
    return result


def triangular(
    x: Buffer, *, upper: bool = False, diagonal: int = 0, out: Buffer | None = None, stream: Stream | None = None
) -> Buffer:
    """The lower (or upper) triangle of the last two axes, zero elsewhere."""
    result = output(x.shape, x.dtype, x, out, stream)
    launch("triangular", [x], [result], {"upper": int(upper), "diagonal": diagonal}, stream=stream)
    return result


def gather(
    x: Buffer,
    indices: Buffer,
    axis: int = 0,
    *,
    batch_dimensions: int = 0,
    negative_wraps: bool = False,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """The slices of ``x`` along ``axis`` that ``indices`` names."""
    axis = axis_of(x, axis)
    shape = x.shape[:axis] + indices.shape[batch_dimensions:] + x.shape[axis + 1 :]
    result = output(shape, x.dtype, x, out, stream)
    attributes = {"axis": axis, "batch_dimensions": batch_dimensions, "negative_wraps": int(negative_wraps)}
    launch("gather", [x, indices], [result], attributes, stream=stream)
    return result


def scatter(
    y: Buffer,
    indices: Buffer,
    updates: Buffer,
    axis: int = 0,
    *,
    combine: Combination = "none",
    stream: Stream | None = None,
) -> Buffer:
    """Writes ``updates`` to the slices of ``y`` along ``axis`` that ``indices`` names; returns ``y``."""
    attributes = {"axis": axis_of(y, axis), "reduction": REDUCTIONS[combine]}
    launch("scatter", [indices, updates], [y], attributes, stream=stream)
    return y


def gather_nd(x: Buffer, indices: Buffer, *, out: Buffer | None = None, stream: Stream | None = None) -> Buffer:
    """The elements or slices of ``x`` at the coordinates along the last axis of ``indices``."""
    shape = indices.shape[:-1] + x.shape[indices.shape[-1] :]
    result = output(shape, x.dtype, x, out, stream)
    launch("gather_nd", [x, indices], [result], stream=stream)
    return result


def scatter_nd(
    y: Buffer, indices: Buffer, updates: Buffer, *, combine: Combination = "none", stream: Stream | None = None
) -> Buffer:
    """Writes ``updates`` into ``y`` at the coordinates along the last axis of ``indices``; returns ``y``."""
    launch("scatter_nd", [indices, updates], [y], {"reduction": REDUCTIONS[combine]}, stream=stream)
    return y


def gather_elements(
    x: Buffer, indices: Buffer, axis: int = 0, *, out: Buffer | None = None, stream: Stream | None = None
) -> Buffer:
    """One element of ``x`` for each index, at the index's own position but along ``axis``."""
    result = output(indices.shape, x.dtype, x, out, stream)
    launch("gather_elements", [x, indices], [result], {"axis": axis_of(x, axis)}, stream=stream)
    return result


def scatter_elements(
    y: Buffer,
    indices: Buffer,
    updates: Buffer,
    axis: int = 0,
    *,
    combine: Combination = "none",
    stream: Stream | None = None,
) -> Buffer:
    """The inverse of ``gather_elements``: writes into ``y`` and returns it."""
    attributes = {"axis": axis_of(y, axis), "reduction": REDUCTIONS[combine]}
    launch("scatter_elements", [indices, updates], [y], attributes, stream=stream)
    return y


def one_hot(
    indices: Buffer,
    depth: int,
    dtype: str = "float32",
    axis: int = -1,
    *,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """1 where the coordinate along a new axis equals the index, else 0."""
    axis = axis % (indices.ndim + 1)
    shape: Sequence[int] = (*indices.shape[:axis], depth, *indices.shape[axis:])
    result = output(shape, dtype, indices, out, stream)
    launch("one_hot", [indices], [result], {"axis": axis}, stream=stream)
    return result


def _signed(value: int) -> int:
    """The bits of a uint64 as the int64 that the ABI takes."""
    return value - 2**64 if value >= 2**63 else value
