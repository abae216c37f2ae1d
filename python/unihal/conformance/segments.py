"""Cases of segment_reduce."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .case import Array, Case, Expected, Operand, Values, written
from .layout import CONTIGUOUS
from .number_format import is_inexact, round_to
from .reference import segment as reference
from .reference.enums import Reduction, SegmentForm
from .sweep import FLOATING, REAL, shape_name, sweep
from .tolerance import summation_roundings
from .values import constant, integers, listed, normal, wide

_REDUCTIONS = {"sum": 1, "mean": 2, "product": 3, "maximum": 4, "minimum": 5}
_SPECIAL = listed([1.0, float("nan"), -2.0, float("inf"), 0.5])


@dataclass(frozen=True)
class _Problem:
    #: The shape of x.
    x: tuple[int, ...]
    segments: int
    form: SegmentForm = SegmentForm.UNSORTED
    #: How many elements are looked up in x; None: they are the rows of x.
    indices: int | None = None
    weights: bool = False
    counts: bool = True
    index_dtype: str = "int32"
    #: Every element in one segment, or its neighbour.
    skewed: bool = False
    #: Ids and indices reach so far beyond what there is, to both sides or below 0 only.
    reach: int = 0
    below: bool = False
    ignored: bool = False
    empty: int = 0

    def __str__(self) -> str:
        parts = [shape_name(self.x), f"{self.segments}-{self.form.name.lower()}", self.index_dtype]
        if self.indices is not None:
            parts.append(f"at{self.indices}")
        for name in ("weights", "counts", "skewed", "below", "ignored"):
            if getattr(self, name):
                parts.append(name)
        if self.reach:
            parts.append("out_of_range")
        if self.empty:
            parts.append(f"empty{self.empty}")
        return "-".join(parts)

    @property
    def elements(self) -> int:
        return self.x[0] if self.indices is None else self.indices

    @property
    def stream_error(self) -> str:
        return "OUT_OF_RANGE" if self.reach and not self.ignored else ""

    def _numbers(self, limit: int) -> Values:
        """Numbers below a limit, and beyond it by the reach; the last one is outside if there is a reach."""

        def make(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
            made = generator.integers(-self.reach, max(limit + (0 if self.below else self.reach), 1), shape)
            if self.skewed:
                made = limit // 2 + (made == 0)
            if self.reach and made.size:
                made.flat[-1] = -self.reach if self.below else limit + self.reach - 1
            return np.asarray(made)

        return make

    def ids(self) -> Values:
        if self.form == SegmentForm.UNSORTED:
            return self._numbers(self.segments)
        if self.form == SegmentForm.SORTED:
            numbers = self._numbers(self.segments)
            return lambda generator, shape: np.sort(numbers(generator, shape))
        return lambda generator, shape: np.sort(generator.integers(0, self.elements + 1, shape))

    def operands(self, dtype: str, values: Values, weights: Values, layout: str) -> tuple[Operand | None, ...]:
        ids = self.segments + 1 if self.form == SegmentForm.OFFSETS else self.elements
        indices = weight = None
        if self.indices is not None:
            indices = Operand(self.index_dtype, (self.indices,), self._numbers(self.x[0]), layout)
        if self.weights:
            weight = Operand(dtype, (self.elements,), weights, layout)
        return (
            Operand(dtype, self.x, values, layout),
            Operand(self.index_dtype, (ids,), self.ids(), layout),
            indices,
            weight,
        )


_UNSORTED, _SORTED, _OFFSETS = SegmentForm
_PROBLEMS = (
    _Problem((31, 5), 7),
    _Problem((31, 5), 7, _SORTED, counts=False),
    _Problem((31, 5), 7, _OFFSETS, index_dtype="int64"),
    _Problem((17, 5), 7, indices=31),
    _Problem((17, 5), 7, _SORTED, indices=31, weights=True, index_dtype="int64"),
    _Problem((17, 5), 7, _OFFSETS, indices=31, weights=True),
    _Problem((31,), 40, weights=True, empty=-3),
    _Problem((31, 2, 3), 5, _SORTED, empty=7),
    _Problem((9, 1, 2, 1, 3, 1, 2, 3, 1, 2), 4, weights=True),
    _Problem((0, 5), 7, empty=2),
    _Problem((0, 5), 7, _OFFSETS),
    _Problem((5, 0), 3),
    _Problem((5, 3), 0, ignored=True, reach=1),
    _Problem((0,), 3, indices=0),
    _Problem((1,), 1),
    _Problem((70001,), 13),
    _Problem((70001,), 13, skewed=True),
    _Problem((70001,), 60013, _SORTED, weights=True),
    _Problem((70001, 3), 301),
    _Problem((300007,), 11, weights=True),
    _Problem((301, 33), 503, indices=4003),
    _Problem((301, 33), 5003, _OFFSETS, indices=20011, weights=True),
    _Problem((4099, 67), 301, skewed=True),
    _Problem((4099, 67), 301, _SORTED),
    _Problem((2003, 64), 301, _SORTED),
    _Problem((4099, 9), 3001, _SORTED, weights=True),
    _Problem((301, 12), 5003, _OFFSETS, indices=20011, weights=True),
    _Problem((301, 127), 503, _OFFSETS, indices=4003),
    _Problem((1200007,), 70001, weights=True, counts=False),
)
_MISFITS = tuple(
    replace(problem, reach=3, below=below, ignored=ignored)
    for problem in (
        _Problem((31, 5), 7),
        _Problem((17, 5), 7, _SORTED, indices=31, weights=True, index_dtype="int64"),
        _Problem((4099, 9), 301, _SORTED),
        _Problem((17,), 9, _OFFSETS, indices=31),
    )
    for below in (False, True)
    for ignored in (False, True)
)


def cases(seed: int) -> Iterator[Case]:
    """All cases."""
    for name in _REDUCTIONS:

        def build(dtype: str, problem: _Problem, layout: str, name: str = name) -> Case:
            return _case(dtype, problem, layout, name)

        yield from sweep(build, seed, dtypes=REAL, shapes=_PROBLEMS, draws=10)
        for problem in _MISFITS:
            yield _case("float32", problem, CONTIGUOUS, name)
        for dtype in FLOATING:
            for problem in _PROBLEMS[:3]:
                yield _case(dtype, problem, CONTIGUOUS, name, _SPECIAL, "/special")
    for dtype in ("int64", "uint64"):
        for name in ("sum", "maximum", "minimum"):
            yield _case(dtype, _PROBLEMS[0], CONTIGUOUS, name, wide(dtype, 58), "/wide")
    # How often each number occurs.
    for dtype in ("int64", "int32", "uint8", "bool", "float32"):
        for problem in (
            _Problem((31,), 7),
            _Problem((31,), 40, empty=7),
            _Problem((70001,), 13),
            _Problem((300007,), 300, counts=False, index_dtype="int64"),
            _Problem((70001,), 4099),
            _Problem((70001,), 5003, reach=3, ignored=True),
            _Problem((31,), 7, reach=3),
            _Problem((31,), 7, reach=3, ignored=True),
        ):
            yield _case(dtype, problem, "broadcast-x", "sum", constant(1), "/ones")


def _numbers(dtype: str) -> Values:
    return normal(3) if is_inexact(dtype) else integers(0, 2 if dtype == "bool" else 10)


def _factors(dtype: str) -> Values:
    """Numbers whose products stay in range."""
    return listed([1.0, -0.5, 2.0, 1.0, -1.0, 1.0, 0.5]) if is_inexact(dtype) else integers(1, 3)


def _case(
    dtype: str, problem: _Problem, layout: str, name: str, values: Values | None = None, special: str = ""
) -> Case:
    reduction = _REDUCTIONS[name]
    ones = layout == "broadcast-x"
    layout = CONTIGUOUS if ones else layout

    def expected(inputs: Sequence[Array]) -> list[Expected | None]:
        x, ids, indices, weights = inputs
        exact = not is_inexact(dtype)
        if exact:
            wide_dtype = np.uint64 if dtype == "uint64" else np.int64
            x = x.astype(wide_dtype)
            weights = None if weights is None else weights.astype(wide_dtype)
        segment = reference.segments_of(ids, problem.form, problem.elements)
        rows = np.arange(len(x)) if indices is None else indices.astype(np.int64)
        empty = problem.empty % 2**64 if dtype == "uint64" else problem.empty
        arguments = (segment, rows, weights, problem.segments, reduction, empty)
        result, counts = reference.segment_reduce(x, *arguments)
        shown = Expected(counts, roundings=0) if problem.counts else None
        if exact:
            own = result != 0 if dtype == "bool" else result.astype(dtype)
            return [Expected(own, roundings=0), shown]
        most = int(counts.max(initial=1))
        if reduction in (Reduction.MAXIMUM, Reduction.MINIMUM):
            # Which of two zeros is the larger is open, so that the sign of a zero is not looked at.
            return [Expected(result, 1 if problem.weights else 0.5), shown]
        if reduction == Reduction.PRODUCT:
            return [Expected(result, 2 * most), shown]
        absolute = (segment, rows, None if weights is None else np.abs(weights), *arguments[3:])
        magnitude, _ = reference.segment_reduce(np.abs(x), *absolute)
        return [Expected(result, summation_roundings(most) + 2, np.abs(magnitude)), shown]

    filled = values or (_factors(dtype) if name == "product" else _numbers(dtype))
    inputs = problem.operands(dtype, filled, _factors(dtype), layout)
    if ones:
        inputs = (Operand(dtype, problem.x, filled, "broadcast"), *inputs[1:])
    counts = written("int64" if problem.index_dtype == "int32" else "int32", (problem.segments,), layout)
    return Case(
        "segment_reduce",
        f"{name}/{dtype}/{problem}/{layout}{special}",
        dtype,
        inputs,
        (written(dtype, (problem.segments, *problem.x[1:]), layout), counts if problem.counts else None),
        expected,
        {
            "reduction": reduction,
            "form": int(problem.form),
            "ignore_negative": int(problem.ignored and problem.below),
            "ignore_out_of_range": int(problem.ignored and not problem.below),
            "empty": round_to(np.array(float(problem.empty)), dtype).item() if is_inexact(dtype) else 0.0,
            "integer_empty": 0 if is_inexact(dtype) else problem.empty,
        },
        stream_error=problem.stream_error,
    )
