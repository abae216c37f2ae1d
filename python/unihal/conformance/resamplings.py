"""Cases of resize and its gradient."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .case import Case, Expected, Operand, written
from .layout import IMAGE_LAYOUTS
from .reference.enums import ResizeMode
from .reference.resampling import resize, resize_backward
from .sweep import FLOATING, sweep
from .tolerance import summation_roundings
from .values import normal


@dataclass(frozen=True)
class _Problem:
    """Shapes, and the scale where it is not that of the sizes."""

    name: str
    x: tuple[int, ...]
    outputs: tuple[int, ...]
    scale: tuple[float, ...] = ()

    @property
    def y(self) -> tuple[int, ...]:
        return (*self.x[:2], *self.outputs)


_PROBLEMS = (
    _Problem("larger", (2, 3, 5, 6), (9, 13)),
    _Problem("smaller", (2, 3, 9, 13), (4, 5)),
    _Problem("larger-and-smaller", (2, 3, 5, 12), (11, 5)),
    _Problem("twice", (2, 3, 4, 5), (8, 10)),
    _Problem("half", (2, 3, 8, 10), (4, 5)),
    _Problem("same", (2, 3, 5, 6), (5, 6)),
    _Problem("to-one", (2, 3, 5, 6), (1, 1)),
    _Problem("from-one", (2, 3, 1, 1), (4, 5)),
    _Problem("one-axis", (2, 3, 7), (12,)),
    _Problem("three-axes", (1, 2, 3, 4, 5), (5, 3, 8)),
    _Problem("scale", (2, 3, 5, 6), (8, 9), (0.6, 0.7)),
    _Problem("scale-of-one-axis", (2, 3, 5, 6), (8, 9), (0, 0.5)),
    _Problem("scale-beyond-float32", (2, 3, 5, 6), (3, 4), (1e39, 1e300)),
    # Where a rounding decides between two pixels at one distance.
    _Problem("ties", (1, 2, 7, 9), (30, 31), (0.2, 0.3)),
    _Problem("ties-of-many", (1, 1, 70, 60), (100, 100), (0.7, 0.6)),
    _Problem("ties-of-sizes", (1, 2, 2, 3), (98, 147)),
    _Problem("ties-when-smaller", (1, 1, 98, 141), (14, 47), (7, 3)),
    _Problem("ties-of-large-steps", (1, 1, 21, 33), (9, 11), (2.3, 3.1)),
    _Problem("no-images", (0, 3, 5, 6), (9, 13)),
    _Problem("no-outputs", (2, 3, 5, 6), (0, 4)),
    _Problem("many-channels", (1, 67, 5, 6), (9, 7)),
    _Problem("more-than-65536-channels", (1, 65537, 2, 2), (3, 3)),
    _Problem("large", (2, 16, 33, 35), (66, 71)),
)

#: (align_corners, half_pixel_centers).
_GRIDS = {"corners": (1, 0), "half-pixels": (0, 1), "edges": (0, 0)}

#: Roundings of a tap's weight, polynomials of the third degree in up to three fractions, and of a position.
_WEIGHT_ROUNDINGS = 24
_POSITION_ROUNDINGS = 3


def _attributes(problem: _Problem, mode: ResizeMode, grid: str) -> dict[str, Any]:
    align_corners, half_pixel_centers = _GRIDS[grid]
    return {
        "mode": int(mode),
        "align_corners": align_corners,
        "half_pixel_centers": half_pixel_centers,
        "scale": (*problem.scale, 0.0, 0.0, 0.0)[:3],
    }


def _case(dtype: str, problem: _Problem, layout: str, *, mode: ResizeMode, grid: str, backward: bool) -> Case:
    attributes = _attributes(problem, mode, grid)
    taps = (1, 2, 4)[mode] ** len(problem.outputs)

    def reference(inputs: Sequence[Any]) -> list[Expected]:
        (given,) = inputs
        if backward:
            values = resize_backward(given, problem.x[2:], **attributes)
            terms = taps * max(1, int(np.prod(problem.y[2:]))) // max(1, int(np.prod(problem.x[2:]))) + taps
        else:
            values = resize(given, problem.y[2:], **attributes)
            terms = taps
        if mode == ResizeMode.NEAREST and not backward:
            return [Expected(values, 0)]
        if mode == ResizeMode.NEAREST:
            return [
                Expected(
                    values, summation_roundings(terms), resize_backward(np.abs(given), problem.x[2:], **attributes)
                )
            ]
        # Weights may be negative (cubic) or vanish (linear, on a pixel): their error is relative to a pixel's value. A
        # position has roundings of its own, relative to the length of an axis.
        largest = np.max(np.abs(given), initial=0) * (terms if backward else 1)
        longest = max((1, *problem.x[2:], *problem.outputs))
        roundings = summation_roundings(terms) + _WEIGHT_ROUNDINGS + _POSITION_ROUNDINGS * longest
        return [Expected(values, roundings, np.full(values.shape, largest))]

    source, target = (problem.y, problem.x) if backward else (problem.x, problem.y)
    return Case(
        op="resize_backward" if backward else "resize",
        variant=f"{mode.name.lower()}/{grid}/{problem.name}/{dtype}/{layout}",
        dtype=dtype,
        inputs=(Operand(dtype, source, normal(), layout),),
        outputs=(written(dtype, target, layout),),
        reference=reference,
        attributes=attributes,
    )


def cases(seed: int) -> Iterator[Case]:
    """All cases of both kinds."""
    for backward in (False, True):
        for mode in ResizeMode:
            for grid in _GRIDS:
                build = partial(_case, mode=mode, grid=grid, backward=backward)
                yield from sweep(build, seed, dtypes=FLOATING, shapes=_PROBLEMS, layouts=IMAGE_LAYOUTS, draws=10)
