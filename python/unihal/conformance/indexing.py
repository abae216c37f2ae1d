"""Cases of gathers, scatters and one_hot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .case import Array, Case, Expected, Operand, Values
from .layout import CONTIGUOUS, LAYOUTS, output_layout, repeats
from .number_format import is_complex, is_inexact
from .reference import indexing as reference
from .reference.enums import Reduction
from .sweep import ALL_DTYPES, FLOAT8, FLOATING, REAL, shape_name, sweep
from .tolerance import summation_roundings
from .values import bit_patterns, complex_normal, integers, listed, normal, wide

_SPECIAL = listed([1.0, float("nan"), -2.0, float("inf")])
_REDUCTIONS = {"none": 0, "sum": 1, "product": 3, "maximum": 4, "minimum": 5}


@dataclass(frozen=True)
class _Problem:
    """What is looked up where. ``variant`` is the end of the kind's name: "", "_nd" or "_elements"."""

    variant: str
    table: tuple[int, ...]
    indices: tuple[int, ...]
    axis: int = 0
    batch: int = 0
    #: The bounds of the indices, beside those that exist, and what becomes of those that do not.
    reach: int = 0
    negative_wraps: int = 0
    ignore_out_of_range: int = 0

    def __str__(self) -> str:
        parts = [f"{shape_name(self.table)}-at-{shape_name(self.indices)}"]
        if self.axis:
            parts.append(f"axis{self.axis}")
        if self.batch:
            parts.append(f"batch{self.batch}")
        if self.negative_wraps:
            parts.append("wraps")
        if self.reach > 0:
            parts.append("ignored" if self.ignore_out_of_range else "out_of_range")
        return "-".join(parts)

    @property
    def attributes(self) -> dict[str, int]:
        return {
            "axis": self.axis,
            "batch_dimensions": self.batch,
            "negative_wraps": self.negative_wraps,
            "ignore_out_of_range": self.ignore_out_of_range,
        }

    @property
    def rows(self) -> tuple[int, ...]:
        """The shape of gather's output and scatter's updates."""
        if self.variant == "_elements":
            return self.indices
        if self.variant == "_nd":
            return (*self.indices[:-1], *self.table[self.indices[-1] :])
        return (*self.table[: self.axis], *self.indices[self.batch :], *self.table[self.axis + 1 :])

    @property
    def stream_error(self) -> str:
        return "OUT_OF_RANGE" if self.reach > 0 and not self.ignore_out_of_range else ""

    def index_values(self, layout: str) -> Values:
        """Indices below the lengths of the axes that they address; beyond them by ``reach`` on both sides."""
        lengths = self.table[: self.indices[-1]] if self.variant == "_nd" else (self.table[self.axis],)
        if repeats(layout):
            # One element may be the index into several axes.
            lengths = (min(lengths, default=0),) * len(lengths)

        def make(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
            low = -self.reach - (np.array(lengths) if self.negative_wraps else 0)
            made = generator.integers(low, np.array(lengths) + self.reach, shape)
            if self.reach and made.size:
                made.flat[-1] = lengths[-1] + self.reach
            return np.asarray(made)

        return make

    def positions(self, indices: Array) -> reference.Positions:
        if self.variant == "_elements":
            return reference.positions_of_elements(indices, self.axis)
        if self.variant == "_nd":
            return reference.positions_nd(self.table, indices)
        return reference.positions_along_axis(self.table, indices, self.axis, self.batch)


_ALONG_AXIS = (
    _Problem("", (5, 7, 3), (2, 3), 1),
    _Problem("", (5, 7, 3), (4,)),
    _Problem("", (2, 5, 3), (2, 4), 1, 1),
    _Problem("", (3, 2, 5, 4), (3, 2, 6), 2, 2),
    _Problem("", (5,), ()),
    _Problem("", (5, 3), (0,)),
    _Problem("", (5, 0), (4,)),
    _Problem("", (0, 3), (0,)),
    _Problem("", (1, 2, 1, 3, 1, 2, 3, 1, 2), (1, 2), 3),
    _Problem("", (70001, 2), (301,)),
    _Problem("", (1003, 65), (4099,)),
    _Problem("", (67, 257), (4099,)),
)
_ND = (
    _Problem("_nd", (5, 7, 3), (4, 2)),
    _Problem("_nd", (5, 7, 3), (6, 3)),
    _Problem("_nd", (5, 7), (3, 2, 2)),
    _Problem("_nd", (5,), (4, 1)),
    _Problem("_nd", (5, 3), (2, 0)),
    _Problem("_nd", (4, 5), (0, 2)),
    _Problem("_nd", (70001, 2), (301, 1)),
    _Problem("_nd", (61, 67, 65), (4099, 2)),
)
_ELEMENTS = (
    _Problem("_elements", (5, 7, 3), (5, 4, 3), 1),
    _Problem("_elements", (5, 7), (2, 7)),
    _Problem("_elements", (9,), (3,)),
    _Problem("_elements", (4, 5), (4, 0), 1),
    _Problem("_elements", (2, 70001), (2, 301), 1),
    _Problem("_elements", (601, 515), (601, 509), 1),
)
_PROBLEMS = (_ALONG_AXIS, _ND, _ELEMENTS)

#: Where an index that is repeated sends all updates into one element.
_INTO_ONE = (_Problem("", (5,), (37,)), _Problem("_nd", (5,), (37, 1)), _Problem("_elements", (5,), (37,)))

#: (shape of the indices, classes, axis)
_ONE_HOT = (((3, 5), 7, 2), ((3, 5), 7, 0), ((3, 5), 1, 1), ((), 4, 0), ((0,), 4, 1), ((5,), 0, 1), ((1000,), 301, 1))


def cases(seed: int) -> Iterator[Case]:
    """The cases of all kinds of the family."""
    for problems in _PROBLEMS:
        yield from sweep(_gather, seed, dtypes=(*ALL_DTYPES, *FLOAT8), shapes=problems, draws=12)
        for name in _REDUCTIONS:

            def scatter(dtype: str, problem: _Problem, layout: str, name: str = name) -> Case:
                return _scatter(dtype, problem, layout, name)

            has_complex = name in ("none", "sum", "product")
            yield from sweep(scatter, seed, dtypes=ALL_DTYPES if has_complex else REAL, shapes=problems, draws=4)
        first = problems[0]
        for index_dtype in ("int32", "int64"):
            for problem in (
                replace(first, negative_wraps=1),
                replace(first, reach=3),
                replace(first, reach=3, negative_wraps=1),
                replace(first, reach=3, ignore_out_of_range=1),
            ):
                yield _gather("float32", problem, CONTIGUOUS, index_dtype)
                for name in _REDUCTIONS:
                    yield _scatter("float32", problem, CONTIGUOUS, name, index_dtype)
        for dtype in ("int64", "uint64"):
            yield _gather(dtype, first, CONTIGUOUS, values=wide(dtype), special="/wide")
            for name in ("none", "sum", "maximum", "minimum"):
                yield _scatter(dtype, first, CONTIGUOUS, name, values=wide(dtype, 58), special="/wide")
        for dtype in FLOATING:
            for layout in (CONTIGUOUS, "transposed"):
                for case in (_gather("float32", first, layout), _scatter("float32", first, layout, "none")):
                    yield _of_bits(case, dtype)
            for name in ("maximum", "minimum"):
                yield _scatter(dtype, first, CONTIGUOUS, name, values=_SPECIAL, special="/special")
    for problem in _INTO_ONE:
        for dtype in ALL_DTYPES:
            for name in _REDUCTIONS if dtype in REAL else ("none", "sum", "product"):
                yield _scatter(dtype, problem, "broadcast", name, special="/into_one", updates_layout=CONTIGUOUS)
    yield from sweep(_one_hot, seed, dtypes=ALL_DTYPES, shapes=_ONE_HOT, layouts=LAYOUTS, draws=12)


def _numbers(dtype: str) -> Values:
    if is_complex(dtype):
        return complex_normal(3)
    return normal(3) if is_inexact(dtype) else integers(0, 100)


def _of_bits(case: Case, dtype: str) -> Case:
    """The case with elements of all sorts of bits, which must be moved as they are."""

    def changed(operand: Operand | None) -> Operand | None:
        if operand is None or operand.dtype != "float32":
            return operand
        return replace(operand, dtype=dtype, values=operand.values and bit_patterns(dtype), bits=True)

    return replace(
        case,
        variant=f"{case.variant}/bits-of-{dtype}",
        dtype=dtype,
        inputs=tuple(map(changed, case.inputs)),
        outputs=tuple(map(changed, case.outputs)),
    )


def _gather(
    dtype: str,
    problem: _Problem,
    layout: str,
    index_dtype: str = "int32",
    values: Values | None = None,
    special: str = "",
) -> Case:
    def expected(inputs: Sequence[Array]) -> list[Expected]:
        table, indices = inputs
        rows = reference.gather(table, problem.positions(indices), problem.rows, bool(problem.negative_wraps))
        return [Expected(rows, roundings=0)]

    return Case(
        f"gather{problem.variant}",
        f"{dtype}/{problem}/{index_dtype}/{layout}{special}",
        dtype,
        (
            Operand(dtype, problem.table, values or _numbers(dtype), layout),
            Operand(index_dtype, problem.indices, problem.index_values(layout), layout),
        ),
        (Operand(dtype, problem.rows, layout=output_layout(layout)),),
        expected,
        problem.attributes,
        stream_error=problem.stream_error,
    )


def _scatter(
    dtype: str,
    problem: _Problem,
    layout: str,
    name: str,
    index_dtype: str = "int32",
    values: Values | None = None,
    special: str = "",
    updates_layout: str = "",
) -> Case:
    reduction = _REDUCTIONS[name]

    def expected(inputs: Sequence[Array]) -> list[Expected]:
        indices, updates, table = inputs
        positions = problem.positions(indices)
        wraps = bool(problem.negative_wraps)
        result = reference.scatter(table, positions, updates, reduction, wraps)
        if reduction not in (Reduction.SUM, Reduction.PRODUCT) or not is_inexact(dtype):
            # Which of two zeros is the larger is open, so that the sign of a zero is not looked at.
            return [Expected(result, roundings=0.5 if reduction else 0)]
        ones = np.ones(updates.shape)
        most = int(np.max(reference.scatter(np.ones(table.shape), positions, ones, Reduction.SUM, wraps), initial=1))
        magnitude = reference.scatter(np.abs(table), positions, np.abs(updates), reduction, wraps)
        # Relative to the modulus of a complex product, one of its products counts three.
        product = 3 * most if is_complex(dtype) else most
        return [Expected(result, summation_roundings(most) if reduction == Reduction.SUM else product, magnitude)]

    filled = values or (_factors(dtype) if name == "product" else _numbers(dtype))
    return Case(
        f"scatter{problem.variant}",
        f"{name}/{dtype}/{problem}/{index_dtype}/{layout}{special}",
        dtype,
        (
            Operand(index_dtype, problem.indices, problem.index_values(layout), layout),
            Operand(dtype, problem.rows, filled, updates_layout or layout),
        ),
        (Operand(dtype, problem.table, filled, output_layout(layout)),),
        expected,
        {**problem.attributes, "reduction": reduction},
        stream_error=problem.stream_error,
    )


def _factors(dtype: str) -> Values:
    """Numbers whose products stay in range."""
    if is_complex(dtype):
        return listed([1.0, -0.5j, 1 + 1j, 1.25, -1.0, 0.5 - 0.5j])
    return listed([1.0, -0.5, 1.5, 1.25, -1.0, 0.75]) if is_inexact(dtype) else integers(0, 3)


def _one_hot(dtype: str, shape: tuple[tuple[int, ...], int, int], layout: str) -> Case:
    indices_shape, classes, axis = shape
    full = (*indices_shape[:axis], classes, *indices_shape[axis:])

    def expected(inputs: Sequence[Array]) -> list[Expected]:
        coordinates = np.indices(full, sparse=True)[axis]
        return [Expected(coordinates == np.expand_dims(inputs[0], axis), roundings=0)]

    index_dtype = "int64" if dtype in ("float64", "int64") else "int32"
    return Case(
        "one_hot",
        f"{dtype}/{shape_name(indices_shape)}-of-{classes}/axis{axis}/{layout}",
        dtype,
        # One index below and one above the classes: neither is an error.
        (Operand(index_dtype, indices_shape, integers(-1, classes + 1), layout),),
        (Operand(dtype, full, layout=output_layout(layout)),),
        expected,
        {"axis": axis},
    )
