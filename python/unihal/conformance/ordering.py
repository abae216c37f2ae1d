"""Cases of arg_reduce, sort and top_k."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from .case import Array, Case, Expected, Operand, Values, written
from .reference.enums import AXIS_DESCENDING
from .reference.order import arg_reduce, sort, top_k
from .sweep import FLOATING, REAL, shape_name, sweep
from .values import integers, listed

#: (shape, axis).
_Problem = tuple[tuple[int, ...], int]

_PROBLEMS: tuple[_Problem, ...] = (
    ((3, 5, 7), 1),
    ((3, 5, 7), 0),
    ((3, 5, 7), 2),
    ((1,), 0),
    ((31,), 0),
    ((3, 0, 5), 0),
    ((2, 1031), 1),
    ((70001, 2), 0),
    ((1, 2, 1, 3, 1, 2, 3, 1, 2, 3), 3),
)
_EMPTY_AXIS: tuple[_Problem, ...] = (((3, 0, 5), 1), ((0,), 0))

#: The k of top_k: none, the first, some, all.
_LARGEST_K, _ALL = 3, 1 << 20

_NAN, _INFINITY = float("nan"), float("inf")

#: Rows of eight: NaN among infinities, zeros of both signs (equal, so they keep their order), many equals.
_SPECIAL_ROWS: dict[str, tuple[float, ...]] = {
    "nan": (3, _NAN, -_INFINITY, _INFINITY, _NAN, -1, 0, 2),
    "signed-zeros": (0.0, -0.0, 0.0, -0.0, 1, -1, -0.0, 0.0),
    "all-nan": (_NAN,) * 8,
    "equals": (2, 2, 1, 1, 2, 1, 2, 2),
    "only-infinities": (_INFINITY, -_INFINITY) * 4,
}


def _values(dtype: str) -> Values:
    """Few different numbers, so that there are equals in every row."""
    if dtype == "bool":
        return integers(0, 2)
    return integers(0, 20) if dtype.startswith("u") else integers(-10, 11)


def _neighbours(dtype: str) -> Values:
    """Integers around a few that float64 would make one."""
    centres = np.array([2**62, 2**54 + 2**20] + ([2**63 + 2**33] if dtype == "uint64" else [-(2**62)]), object)
    return lambda generator, shape: (generator.choice(centres, shape) + generator.integers(-3, 4, shape)).astype(dtype)


def _name(flags: int) -> str:
    return "descending" if flags & AXIS_DESCENDING else "ascending"


def _exact(arrays: Sequence[Array]) -> list[Expected]:
    return [Expected(array, 0) for array in arrays]


def _arg_reduce_case(
    dtype: str, problem: _Problem, layout: str, *, flags: int, index: str, values: Values | None = None, name: str = ""
) -> Case:
    shape, axis = problem
    attributes = {"axis": axis, "flags": flags}
    return Case(
        op="arg_reduce",
        variant=f"{_name(flags)}/{dtype}/{name or shape_name(shape)}/axis-{axis}/{layout}/{index}",
        dtype=dtype,
        inputs=(Operand(dtype, shape, values or _values(dtype), layout),),
        outputs=(written(index, (*shape[:axis], 1, *shape[axis + 1 :]), layout),),
        reference=lambda inputs: _exact([arg_reduce(inputs[0], **attributes)]),
        attributes=attributes,
    )


def _sort_case(
    dtype: str,
    problem: _Problem,
    layout: str,
    *,
    flags: int,
    index: str | None,
    values: Values | None = None,
    name: str = "",
) -> Case:
    shape, axis = problem
    attributes = {"axis": axis, "flags": flags}
    return Case(
        op="sort",
        variant=f"{_name(flags)}/{dtype}/{name or shape_name(shape)}/axis-{axis}/{layout}/{index or 'values'}",
        dtype=dtype,
        inputs=(Operand(dtype, shape, values or _values(dtype), layout),),
        outputs=(written(dtype, shape, layout), written(index, shape, layout) if index else None),
        reference=lambda inputs: [*_exact(sort(inputs[0], **attributes)[: 2 if index else 1]), *[None][: not index]],
        attributes=attributes,
    )


def _top_k_case(
    dtype: str,
    problem: _Problem,
    layout: str,
    *,
    flags: int,
    index: str,
    k: int,
    values: Values | None = None,
    name: str = "",
) -> Case:
    shape, axis = problem
    wanted = str(k) if k <= _LARGEST_K else "all"
    k = min(k, shape[axis])
    attributes = {"axis": axis, "flags": flags}
    result = (*shape[:axis], k, *shape[axis + 1 :])
    return Case(
        op="top_k",
        variant=f"{_name(flags)}/{dtype}/{name or shape_name(shape)}/axis-{axis}/k-{wanted}/{layout}/{index}",
        dtype=dtype,
        inputs=(Operand(dtype, shape, values or _values(dtype), layout),),
        outputs=(written(dtype, result, layout), written(index, result, layout)),
        reference=lambda inputs: _exact(top_k(inputs[0], k, **attributes)),
        attributes=attributes,
    )


def _special_cases(flags: int) -> Iterator[Case]:
    problem = ((2, 8), 1)
    for dtype in FLOATING:
        for name, row in _SPECIAL_ROWS.items():
            special: Any = {"flags": flags, "values": listed(row), "name": name}
            yield _arg_reduce_case(dtype, problem, "contiguous", index="int64", **special)
            yield _sort_case(dtype, problem, "contiguous", index="int64", **special)
            yield _top_k_case(dtype, problem, "contiguous", index="int32", k=_LARGEST_K, **special)


def cases(seed: int) -> Iterator[Case]:
    """All cases of the three kinds."""
    sizes = _PROBLEMS + _EMPTY_AXIS
    for flags in (0, AXIS_DESCENDING):
        for index in ("int64", "int32"):
            yield from sweep(partial(_arg_reduce_case, flags=flags, index=index), seed, dtypes=REAL, shapes=_PROBLEMS)
        for optional in ("int64", "int32", None):
            yield from sweep(partial(_sort_case, flags=flags, index=optional), seed, dtypes=REAL, shapes=sizes)
        for k, index in ((1, "int64"), (_LARGEST_K, "int32"), (0, "int64"), (_ALL, "int64")):
            yield from sweep(partial(_top_k_case, flags=flags, index=index, k=k), seed, dtypes=REAL, shapes=sizes)
        yield from _special_cases(flags)
        for dtype in ("int64", "uint64"):
            # More digits than float64 has, and neighbours that it cannot tell apart.
            values, problem = _neighbours(dtype), ((2, 31), 1)
            unlike: Any = {"flags": flags, "index": "int64", "values": values, "name": "wide"}
            yield _arg_reduce_case(dtype, problem, "contiguous", **unlike)
            yield _sort_case(dtype, problem, "contiguous", **unlike)
            yield _top_k_case(dtype, problem, "contiguous", k=_LARGEST_K, **unlike)
