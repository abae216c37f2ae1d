"""Cases of resample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .case import Array, Case, Expected, Operand, Values, written
from .layout import CONTIGUOUS, LAYOUTS
from .sweep import FLOATING, sweep
from .tolerance import summation_roundings
from .values import listed, normal


@dataclass(frozen=True)
class _Problem:
    name: str
    x: tuple[int, ...]
    axis: int
    outputs: int
    taps: int
    #: The pixels that weights begin with: by default from well before x to well behind it.
    first: Values | None = None
    #: Weights that are 0, at every so many-th tap, where x may be infinite.
    sparse: bool = False

    @property
    def y(self) -> tuple[int, ...]:
        y = list(self.x)
        y[self.axis] = self.outputs
        return tuple(y)

    def starts(self) -> Values:
        if self.first is not None:
            return self.first
        reach = self.taps + 3
        return lambda generator, shape: generator.integers(-reach, self.x[self.axis] + reach, shape)


_PROBLEMS = (
    _Problem("middle-axis", (3, 7, 5), 1, 9, 4),
    _Problem("first-axis", (6, 5), 0, 4, 3),
    _Problem("last-axis", (3, 4, 11), 2, 6, 5),
    _Problem("images", (2, 3, 9, 8), 2, 5, 6),
    _Problem("three-inside", (2, 9, 3), 1, 7, 4),
    _Problem("four-inside", (2, 9, 4), 1, 7, 4),
    _Problem("one-axis", (17,), 0, 5, 3),
    _Problem("one-tap", (3, 7, 5), 1, 9, 1),
    _Problem("no-taps", (3, 7, 5), 1, 9, 0),
    _Problem("nothing-to-read", (3, 0, 5), 1, 4, 2),
    _Problem("no-outputs", (3, 7, 5), 1, 0, 2),
    _Problem("no-rows", (0, 7, 5), 1, 3, 2),
    _Problem("longer-than-x", (2, 3, 4), 1, 5, 9),
    _Problem("far-outside", (2, 5, 3), 1, 6, 2, listed([-(2**31), 2**31 - 1, -2, 4, 5, 0])),
    _Problem("zeros-meet-infinity", (2, 8, 3), 1, 6, 4, sparse=True),
    _Problem("many-axes", (1, 2, 3, 2, 3, 2, 1, 2), 3, 4, 3),
    _Problem("large", (3, 70, 513), 1, 41, 5),
    _Problem("large-last-axis", (130, 301), 1, 207, 4),
)


def resample(x: Array, first: Array, weights: Array, axis: int) -> Array:
    """The sums by their definition."""
    rows = np.moveaxis(x, axis, 0)
    y = np.zeros((weights.shape[0], *rows.shape[1:]))
    for i, t in np.ndindex(*weights.shape):
        at = int(first[i]) + t
        if 0 <= at < rows.shape[0] and weights[i, t] != 0:
            y[i] += weights[i, t] * rows[at]
    return np.moveaxis(y, 0, axis)


def _case(dtype: str, problem: _Problem, layout: str, *, weights: str = "") -> Case:
    def reference(inputs: Sequence[Any]) -> list[Expected]:
        x, first, table = inputs
        values = resample(x, first, table, problem.axis)
        magnitude = resample(np.abs(x), first, np.abs(table), problem.axis)
        return [Expected(values, summation_roundings(problem.taps) + 1, magnitude)]

    x, tables = normal(), normal()
    if problem.sparse:
        # Even elements of x are infinite, and even taps, which begin at even places, are 0.
        x, tables = listed(np.where(np.arange(48) // 3 % 2 == 0, np.inf, 1.5)), listed([0.0, 0.75, 0.0, -2.0])
        problem = replace(problem, first=listed([0, 2, -2, 4, 6, 8]))
    inputs = (
        Operand(dtype, problem.x, x, layout),
        Operand("int32", (problem.outputs,), problem.starts(), CONTIGUOUS),
        Operand(weights or dtype, (problem.outputs, problem.taps), tables, layout),
    )
    variant = f"{problem.name}/{dtype}{weights and '-' + weights}/{layout}"
    return Case(
        "resample",
        variant,
        "mixed" if weights else dtype,
        inputs,
        (written(dtype, problem.y, layout),),
        reference,
        {"axis": problem.axis},
    )


def cases(seed: int) -> Iterator[Case]:
    """All cases of the kind."""
    yield from sweep(_case, seed, dtypes=FLOATING, shapes=_PROBLEMS, layouts=LAYOUTS, draws=20)
    # Weights are a table of their own, in float32 for images of any dtype.
    for dtype in ("float16", "bfloat16", "float64"):
        build = partial(_case, weights="float32")
        yield from (build(dtype, problem, CONTIGUOUS) for problem in _PROBLEMS[:4])
