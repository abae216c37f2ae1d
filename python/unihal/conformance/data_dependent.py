"""Cases of results whose size depends on data, and of searches: nonzero, compact, search_sorted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .case import Array, Case, Expected, Operand, Values, written
from .layout import CONTIGUOUS, LAYOUTS, output_layout
from .number_format import is_complex, is_inexact
from .sweep import ALL_DTYPES, FLOAT8, FLOATING, LARGE, REAL, SHAPES, shape_name, sweep
from .values import bit_patterns, complex_normal, integers, listed, wide

_NAN, _INFINITY = float("nan"), float("inf")


def cases(seed: int) -> Iterator[Case]:
    """The cases of all kinds."""
    yield from sweep(_nonzero, seed, dtypes=("bool", *REAL), shapes=_MASKS, draws=24)
    for dtype in FLOATING:
        # Zeros of both signs are 0; NaN, infinities and subnormal numbers are not.
        special = listed([0.0, -0.0, _NAN, _INFINITY, -_INFINITY, 1e-7, -0.0, 2.0])
        yield _nonzero(dtype, _Mask((5, 16)), CONTIGUOUS, values=special, special="/special")
    for dtype in ("int64", "uint64"):
        high = listed(np.array([0, 1 << 32, 0, 1 << 62], np.uint64))
        yield _nonzero(dtype, _Mask((4, 9)), CONTIGUOUS, values=high, special="/wide")
    yield from sweep(_compact, seed, dtypes=(*ALL_DTYPES, *FLOAT8), shapes=_SELECTIONS, draws=24)
    yield from sweep(_search, seed, dtypes=REAL, shapes=_SEARCHES, layouts=_SEARCH_LAYOUTS, draws=12)
    for dtype in ("int64", "uint64"):
        yield _search(dtype, _Search((301,), (97,)), CONTIGUOUS, values=wide(dtype), special="/wide")
    for dtype in FLOATING:
        for right in (0, 1):
            special = listed([1.0, _NAN, -2.0, _INFINITY, 0.0, -_INFINITY, -0.0, _NAN, 3.0])
            yield _search(dtype, _Search((31,), (19,), right), CONTIGUOUS, values=special, special="/special")


# -- nonzero


@dataclass(frozen=True)
class _Mask:
    shape: tuple[int, ...]
    #: Of 8 elements so many are not 0.
    eighths: float = 4
    coordinates: bool = False
    #: Rows of the indices beyond the elements of the mask; None: no indices. Negative: too few for all.
    room: int | None = 0
    index_dtype: str = "int64"

    def __str__(self) -> str:
        form = "count" if self.room is None else f"{'coordinates' if self.coordinates else 'numbers'}{self.room:+d}"
        return f"{shape_name(self.shape)}-{self.eighths:g}of8-{form}-{self.index_dtype}"


_MASKS = (
    *(_Mask(shape, coordinates=coordinates) for shape in SHAPES for coordinates in (False, True)),
    _Mask((3, 5, 7), index_dtype="int32"),
    _Mask((3, 5, 7), coordinates=True, index_dtype="int32"),
    _Mask((3, 5, 7), room=None),
    _Mask((513, 515), room=None, index_dtype="int32"),
    _Mask((3, 5, 7), room=4),
    _Mask((3, 5, 7), coordinates=True, room=-80),
    _Mask((513, 515), room=-200000),
    _Mask((31,), room=-31),
    _Mask((), room=-1),
    _Mask((0,), room=2),
    _Mask((40, 51), 0),
    _Mask((40, 51), 8, True),
    _Mask((70001,), 1),
    _Mask((70001,), 8),
    _Mask((140001,), 0.1),
    _Mask((140001,), 0.5, room=-133000),
    _Mask(LARGE, 4),
    _Mask(LARGE, 1, True),
)


def _flags(eighths: float, dtype: str) -> Values:
    def make(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return (generator.uniform(0, 8, shape) < eighths) * generator.integers(1, 2 if dtype == "bool" else 100, shape)

    return make


def _nonzero(dtype: str, mask: _Mask, layout: str, values: Values | None = None, special: str = "") -> Case:
    elements = int(np.prod(mask.shape, dtype=np.int64))

    def expected(inputs: Sequence[Array]) -> list[Expected | None]:
        found = np.argwhere(inputs[0]) if mask.coordinates else np.flatnonzero(inputs[0])
        count = Expected(np.array([np.count_nonzero(inputs[0])]), roundings=0)
        if mask.room is None:
            return [count, None]
        indices = np.array(inputs[1])
        kept = min(len(found), len(indices))
        indices[:kept] = found[:kept]
        return [count, Expected(indices, roundings=0)]

    indices = None
    if mask.room is not None:
        rows = max(elements + mask.room, 0)
        shape = (rows, len(mask.shape)) if mask.coordinates else (rows,)
        # What lies beyond the count must stay.
        indices = Operand(mask.index_dtype, shape, integers(-9, 0), output_layout(layout))
    return Case(
        "nonzero",
        f"{dtype}/{mask}/{layout}{special}",
        dtype,
        (Operand(dtype, mask.shape, values or _flags(mask.eighths, dtype), layout),),
        (written(mask.index_dtype, (1,), layout), indices),
        expected,
    )


# -- compact


@dataclass(frozen=True)
class _Selection:
    shape: tuple[int, ...]
    #: Of 8 elements of the mask so many are not 0.
    eighths: float = 4
    mask_dtype: str = "bool"
    #: Elements that there is room for beyond those of x. Negative: too few for all.
    room: int = 0
    count_dtype: str | None = "int64"

    def __str__(self) -> str:
        count = self.count_dtype or "uncounted"
        return f"{shape_name(self.shape)}-{self.eighths:g}of8-{self.mask_dtype}{self.room:+d}-{count}"


_SELECTIONS = (
    *(_Selection(shape) for shape in SHAPES),
    _Selection((3, 5, 7), mask_dtype="float32", count_dtype="int32"),
    _Selection((3, 5, 7), mask_dtype="int64", room=4),
    _Selection((3, 5, 7), count_dtype=None),
    _Selection((513, 515), room=-200000),
    _Selection((31,), room=-31),
    _Selection((), room=-1),
    _Selection((0,), room=2),
    _Selection((0,), room=2, count_dtype=None),
    _Selection((40, 51), 0),
    _Selection((40, 51), 8),
    _Selection((70001,), 1, "uint8"),
    _Selection((70001,), 8),
    # Few in thousands, and as many as fit where their bits do, or nearly.
    _Selection((140001,), 0.1),
    _Selection((140001,), 0.25),
    _Selection((140001,), 0.1, room=-139000),
    _Selection(LARGE, 4),
)


def _compact(dtype: str, selection: _Selection, layout: str) -> Case:
    def expected(inputs: Sequence[Array]) -> list[Expected | None]:
        x, mask, values = inputs[0], inputs[1] != 0, np.array(inputs[2])
        kept = x[mask][: len(values)]
        values[: len(kept)] = kept
        count = Expected(np.array([np.count_nonzero(mask)]), roundings=0)
        return [Expected(values, roundings=0), count if selection.count_dtype else None]

    def elements(shape: tuple[int, ...], layout: str) -> Operand:
        if is_inexact(dtype) and not is_complex(dtype):
            # All sorts of bits, which must be moved as they are.
            return Operand(dtype, shape, bit_patterns(dtype), layout, bits=True)
        return Operand(dtype, shape, complex_normal() if is_complex(dtype) else integers(0, 100), layout)

    room = max(int(np.prod(selection.shape, dtype=np.int64)) + selection.room, 0)
    mask = Operand(selection.mask_dtype, selection.shape, _flags(selection.eighths, selection.mask_dtype), layout)
    return Case(
        "compact",
        f"{dtype}/{selection}/{layout}",
        dtype,
        (elements(selection.shape, layout), mask),
        # What lies beyond the count must stay.
        (
            elements((room,), output_layout(layout)),
            written(selection.count_dtype, (1,), layout) if selection.count_dtype else None,
        ),
        expected,
    )


# -- search_sorted


@dataclass(frozen=True)
class _Search:
    sorted: tuple[int, ...]
    values: tuple[int, ...]
    right: int = 0
    index_dtype: str = "int64"

    def __str__(self) -> str:
        side = "right" if self.right else "left"
        return f"{shape_name(self.values)}-in-{shape_name(self.sorted)}-{side}-{self.index_dtype}"


_SEARCHES = (
    _Search((31,), (3, 5)),
    _Search((31,), (3, 5), 1, "int32"),
    _Search((3, 31), (3, 7)),
    _Search((2, 3, 5), (2, 3, 4), 1),
    _Search((31,), ()),
    _Search((31,), (1, 2, 1, 3, 1, 2, 3, 1, 2, 3)),
    _Search((0,), (4,)),
    _Search((3, 0), (3, 2), 1),
    _Search((5,), (0,)),
    _Search((1,), (9,), 1),
    _Search((70001,), (1003,)),
    _Search((2, 513), (2, 70001), 1, "int32"),
    _Search((97,), (3, 7001)),
    _Search((4096,), (1200007,), 1),
)

# Of overlapping windows over a run not each can be in order.
_SEARCH_LAYOUTS = tuple(layout for layout in LAYOUTS if layout != "overlapping")


def _numbers(dtype: str) -> Values:
    # Few of them, so that there are equal ones.
    return integers(-20 if is_inexact(dtype) or dtype.startswith("int") else 0, 2 if dtype == "bool" else 100)


def _in_order(values: Values) -> Values:
    return lambda generator, shape: np.sort(np.broadcast_to(values(generator, shape), shape), axis=-1)


def _search(dtype: str, search: _Search, layout: str, values: Values | None = None, special: str = "") -> Case:
    numbers = values or _numbers(dtype)

    def expected(inputs: Sequence[Array]) -> list[Expected]:
        table, wanted = inputs
        side: Literal["left", "right"] = "right" if search.right else "left"
        if table.ndim == 1:
            return [Expected(np.asarray(np.searchsorted(table, wanted, side)), roundings=0)]
        found = np.empty(wanted.shape, np.int64)
        for row in np.ndindex(table.shape[:-1]):
            found[row] = np.searchsorted(table[row], wanted[row], side)
        return [Expected(found, roundings=0)]

    return Case(
        "search_sorted",
        f"{dtype}/{search}/{layout}{special}",
        dtype,
        (
            Operand(dtype, search.sorted, _in_order(numbers), layout),
            Operand(dtype, search.values, numbers, layout),
        ),
        (written(search.index_dtype, search.values, layout),),
        expected,
        {"right": search.right},
    )
