"""Cases of roi_align and its gradient."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .case import Array, Case, Expected, Operand, Values, written
from .layout import IMAGE_LAYOUTS
from .reference.regions import roi_align, roi_align_backward
from .sweep import FLOATING, sweep
from .tolerance import summation_roundings
from .values import listed, normal


def _boxes(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Also partly outside, in steps that no dtype rounds, with sizes of 2^-2 to 10."""
    corners = generator.integers(-12, 40, (shape[0], 2)) / 4
    return np.concatenate([corners, corners + generator.integers(1, 40, corners.shape) / 4], axis=1)


@dataclass(frozen=True)
class _Problem:
    name: str
    x: tuple[int, int, int, int]
    images: tuple[int, ...]
    bins: tuple[int, int]
    boxes: Values = _boxes

    @property
    def y(self) -> tuple[int, ...]:
        return (len(self.images), self.x[1], *self.bins)


_PROBLEMS = (
    _Problem("few", (2, 3, 8, 9), (0, 1, 1, 0, 1), (2, 2)),
    _Problem("one-bin", (2, 3, 8, 9), (1, 0), (1, 1)),
    _Problem("many-bins", (1, 2, 6, 5), (0, 0), (7, 5)),
    _Problem("one-pixel", (2, 3, 1, 1), (0, 1, 0), (2, 3)),
    _Problem("many-channels", (1, 67, 5, 6), (0, 0, 0), (3, 2)),
    _Problem("images-that-are-not-there", (2, 3, 5, 6), (0, 2, -1, 1, 2**31 - 1), (2, 2)),
    _Problem("far-outside", (1, 2, 5, 6), (0, 0, 0), (2, 2), listed([90, 2, 95, 4, -60, -60, -50, 3, 1, 1, 3, 300])),
    _Problem("edges", (1, 2, 4, 4), (0, 0, 0), (4, 4), listed([0, 0, 4, 4, -1, -1, 3, 3, 2, 2, 6, 6])),
    _Problem("turned", (1, 2, 6, 6), (0, 0), (2, 2), listed([4, 4, 1, 1, 5, 0, 2, 3])),
    _Problem("empty", (1, 2, 6, 6), (0, 0), (2, 2), listed([2, 2, 2, 2, 3, 1, 3, 5])),
    _Problem("no-boxes", (2, 3, 4, 4), (), (2, 2)),
    _Problem("no-channels", (2, 0, 4, 4), (0, 1), (2, 2)),
    _Problem("no-pixels", (2, 3, 0, 4), (0, 1), (2, 2)),
    _Problem("no-bins", (2, 3, 4, 4), (0, 1), (0, 2)),
    _Problem("large", (2, 8, 31, 33), tuple(i % 2 for i in range(25)), (7, 7)),
)

_BEYOND = _Problem(
    "not-finite", (1, 2, 5, 6), (0, 0, 0), (2, 2), listed([np.nan, 1, 3, 3, 1, 1, np.inf, 3, -np.inf, 1, np.inf, 1e30])
)
_HUGE = _Problem("huge", (1, 2, 5, 6), (0, 0), (2, 2), listed([-(2.0**24), 1, 2.0**24, 3, 1, 1, 2.0**40, 3]))

#: (samples, aligned, scale).
_SETTINGS = ((0, 0, 1.0), (2, 1, 0.5), (0, 1, 0.25), (3, 0, 1.0))

#: Roundings of a weight, a product of two, and of a mean.
_WEIGHT_ROUNDINGS = 8


def _case(
    dtype: str, problem: _Problem, layout: str, *, backward: bool, samples: int, aligned: int, scale: float
) -> Case:
    attributes: dict[str, Any] = {"samples": samples, "aligned": aligned, "scale": scale}

    def reference(inputs: Sequence[Any]) -> list[Expected]:
        given, boxes, images = inputs
        forward = partial(roi_align, boxes=boxes, images=images, bins=problem.bins, **attributes)
        gradient = partial(roi_align_backward, boxes=boxes, images=images, shape=problem.x, **attributes)
        function = gradient if backward else forward
        terms = 8 * max(1, int(np.prod(problem.y)) if backward else int(np.prod(problem.x[2:])))
        # A weight has the rounding of a position, which is one of the image's length.
        magnitude = np.full(problem.x if backward else problem.y, np.max(function(np.abs(given)), initial=0))
        roundings = summation_roundings(terms) + _WEIGHT_ROUNDINGS * max(problem.x[2:])
        return [Expected(function(given), roundings, magnitude)]

    source, target = (problem.y, problem.x) if backward else (problem.x, problem.y)
    inputs = (
        Operand(dtype, source, normal(), layout),
        Operand(dtype, (len(problem.images), 4), problem.boxes),
        Operand("int32", (len(problem.images),), listed(problem.images or (0,))),
    )
    variant = f"{samples}-samples/{('plain', 'aligned')[aligned]}/{problem.name}/{dtype}/{layout}"
    op = "roi_align_backward" if backward else "roi_align"
    return Case(op, variant, dtype, inputs, (written(dtype, target, layout),), reference, attributes)


def cases(seed: int) -> Iterator[Case]:
    """All cases of both kinds."""
    for backward in (False, True):
        for samples, aligned, scale in _SETTINGS:
            build = partial(_case, backward=backward, samples=samples, aligned=aligned, scale=scale)
            if (samples, aligned) == (0, 0):
                yield from sweep(build, seed, dtypes=FLOATING, shapes=_PROBLEMS, layouts=IMAGE_LAYOUTS, draws=8)
                yield build("float32", _HUGE, "contiguous")
            else:
                yield from (build("float32", problem, "contiguous") for problem in _PROBLEMS)
            yield build("float32", _BEYOND, "contiguous")
