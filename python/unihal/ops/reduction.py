"""Reductions, scans, sorting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, Union

from .. import _core, dtypes
from ..arguments import whole_numbers
from ..buffer import Buffer
from ..stream import Stream
from .launch import axis_of, index_dtype, launch, output

Reduction = Literal[
    "sum",
    "mean",
    "product",
    "maximum",
    "minimum",
    "all",
    "any",
    "sum_of_squares",
    "l1_norm",
    "l2_norm",
    "log_sum_exp",
]

#: Numbers of uhal_reduction.
REDUCTIONS: dict[str, int] = {
    "none": 0,
    "sum": 1,
    "mean": 2,
    "product": 3,
    "maximum": 4,
    "minimum": 5,
    "all": 6,
    "any": 7,
    "sum_of_squares": 8,
    "l1_norm": 9,
    "l2_norm": 10,
    "log_sum_exp": 11,
}

_KEEPS_DTYPE = frozenset(("maximum", "minimum"))
_FLOATING = frozenset(("mean", "l1_norm", "l2_norm", "log_sum_exp"))
_DESCENDING = 1

#: Axes to reduce: one, several, or all (None).
Axes = Union[int, Sequence[int], None]


def reduce(
    x: Buffer,
    reduction: Reduction,
    axis: Axes = None,
    *,
    keep_axes: bool = False,
    dtype: str | None = None,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """Combines the elements along axes; without ``keep_axes`` the result is a view without them."""
    if out is None:
        queue = None if stream is None else stream._handle
        number = dtypes.number(dtype or _reduced_dtype(x.dtype, reduction))
        made = _core.reduce(Buffer, x, axis, REDUCTIONS[reduction], keep_axes, number, queue)
        if made is not None:
            return made
    axes = set(range(x.ndim)) if axis is None else {axis_of(x, entry) for entry in whole_numbers(axis)}
    kept = [1 if i in axes else length for i, length in enumerate(x.shape)]
    short = [length for i, length in enumerate(x.shape) if i not in axes]
    result = output(kept if keep_axes else short, dtype or _reduced_dtype(x.dtype, reduction), x, out, stream)
    target = result
    for position in sorted(axes) if not keep_axes else ():
        target = target[(slice(None),) * position + (None,)]
    launch("reduce", [x], [target], {"reduction": REDUCTIONS[reduction]}, stream=stream)
    return result


def _reduced_dtype(dtype: str, reduction: Reduction) -> str:
    if reduction in ("all", "any"):
        return "bool"
    if reduction in _FLOATING:
        return dtypes.floating(dtype)
    if reduction in _KEEPS_DTYPE or dtype not in dtypes.INTEGERS:
        return dtype
    # Sums of small integers would overflow.
    return "uint64" if dtype.startswith("uint") else "int64"


class NamedReduction(Protocol):
    """`reduce` with its reduction chosen."""

    def __call__(
        self,
        x: Buffer,
        axis: Axes = None,
        *,
        keep_axes: bool = False,
        dtype: str | None = None,
        out: Buffer | None = None,
        stream: Stream | None = None,
    ) -> Buffer:
        """Reduces along axes; as `reduce`."""
        ...


def _named(name: str, reduction: Reduction, text: str) -> NamedReduction:
    def function(
        x: Buffer,
        axis: Axes = None,
        *,
        keep_axes: bool = False,
        dtype: str | None = None,
        out: Buffer | None = None,
        stream: Stream | None = None,
    ) -> Buffer:
        return reduce(x, reduction, axis, keep_axes=keep_axes, dtype=dtype, out=out, stream=stream)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


sum = _named("sum", "sum", "The sum along axes; integers are summed in 64 bits.")
mean = _named("mean", "mean", "The mean along axes.")
product = _named("product", "product", "The product along axes; integers are multiplied in 64 bits.")
max = _named("max", "maximum", "The greatest along axes; NaN wins.")
min = _named("min", "minimum", "The smallest along axes; NaN wins.")
all = _named("all", "all", "Whether all elements along axes are true.")
any = _named("any", "any", "Whether any element along axes is true.")


def _arg_reduce(x: Buffer, axis: int, flags: int, dtype: str, keep_axes: bool, stream: Stream | None) -> Buffer:
    queue = None if stream is None else stream._handle
    number = dtypes.number(index_dtype(dtype))
    made = _core.arg_reduce(Buffer, x, axis, flags, keep_axes, number, queue)
    if made is not None:
        return made
    axis = axis_of(x, axis)
    kept = output((*x.shape[:axis], 1, *x.shape[axis + 1 :]), dtype, x, stream=stream)
    launch("arg_reduce", [x], [kept], {"axis": axis, "flags": flags}, stream=stream)
    return kept if keep_axes else kept.reshape(*x.shape[:axis], *x.shape[axis + 1 :])


def argmax(
    x: Buffer, axis: int, *, keep_axes: bool = False, dtype: str = "int64", stream: Stream | None = None
) -> Buffer:
    """Where the greatest is along an axis; the first of equals."""
    return _arg_reduce(x, axis, _DESCENDING, dtype, keep_axes, stream)


def argmin(
    x: Buffer, axis: int, *, keep_axes: bool = False, dtype: str = "int64", stream: Stream | None = None
) -> Buffer:
    """Where the smallest is along an axis; the first of equals."""
    return _arg_reduce(x, axis, 0, dtype, keep_axes, stream)


def scan(
    x: Buffer,
    axis: int,
    reduction: Literal["sum", "product", "maximum", "minimum", "log_sum_exp"] = "sum",
    *,
    exclusive: bool = False,
    reverse: bool = False,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """The running sum, product, maximum, minimum or, of floating dtypes, log_sum_exp along an axis."""
    result = output(x.shape, x.dtype, x, out, stream)
    attributes = {
        "axis": axis_of(x, axis),
        "reduction": REDUCTIONS[reduction],
        "exclusive": int(exclusive),
        "reverse": int(reverse),
    }
    launch("scan", [x], [result], attributes, stream=stream)
    return result


def running_extreme(
    x: Buffer,
    axis: int,
    reduction: Literal["maximum", "minimum"] = "maximum",
    *,
    reverse: bool = False,
    dtype: str = "int64",
    stream: Stream | None = None,
) -> tuple[Buffer, Buffer]:
    """The running maximum or minimum along an axis, and where each was last. NaN counts as the extreme."""
    values = output(x.shape, x.dtype, x, stream=stream)
    indices = output(x.shape, index_dtype(dtype), x, stream=stream)
    attributes = {"axis": axis_of(x, axis), "reduction": REDUCTIONS[reduction], "reverse": int(reverse)}
    launch("scan", [x], [values, indices], attributes, stream=stream)
    return values, indices


def sort(
    x: Buffer, axis: int = -1, *, descending: bool = False, dtype: str = "int64", stream: Stream | None = None
) -> tuple[Buffer, Buffer]:
    """The sorted elements along an axis, and where each was. Stable."""
    return _order("sort", x, x.shape, axis_of(x, axis), descending, dtype, stream)


def top_k(
    x: Buffer, k: int, axis: int = -1, *, largest: bool = True, dtype: str = "int64", stream: Stream | None = None
) -> tuple[Buffer, Buffer]:
    """The k largest (or smallest) along an axis in order, and where each was."""
    axis = axis_of(x, axis)
    return _order("top_k", x, (*x.shape[:axis], k, *x.shape[axis + 1 :]), axis, largest, dtype, stream)


def _order(
    kind: str, x: Buffer, shape: Sequence[int], axis: int, descending: bool, dtype: str, stream: Stream | None
) -> tuple[Buffer, Buffer]:
    values = output(shape, x.dtype, x, stream=stream)
    indices = output(shape, index_dtype(dtype), x, stream=stream)
    flags = _DESCENDING if descending else 0
    launch(kind, [x], [values, indices], {"axis": axis, "flags": flags}, stream=stream)
    return values, indices
