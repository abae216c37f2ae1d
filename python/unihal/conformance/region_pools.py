"""Cases of roi_pool and its gradient."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .case import Array, Case, Expected, Operand, Values, written
from .layout import IMAGE_LAYOUTS
from .reference.region_pools import MAX, roi_pool, roi_pool_backward
from .sweep import FLOATING, sweep
from .tolerance import summation_roundings
from .values import integers, listed, normal


def _boxes(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Also partly outside, in steps that no dtype rounds, halves among them."""
    corners = generator.integers(-8, 24, (shape[0], 2)) / 4
    return np.concatenate([corners, corners + generator.integers(0, 24, corners.shape) / 4], axis=1)


@dataclass(frozen=True)
class _Problem:
    name: str
    x: tuple[int, int, int, int]  # its channels are those of y
    images: tuple[int, ...]
    bins: tuple[int, int]
    boxes: Values = _boxes

    def shape(self, mode: int) -> tuple[int, ...]:
        bins = self.bins[0] * self.bins[1]
        return self.x if mode == MAX else (self.x[0], self.x[1] * bins, *self.x[2:])

    @property
    def y(self) -> tuple[int, ...]:
        return (len(self.images), self.x[1], *self.bins)


# Numbers of bins that float32 divides by exactly: whether a bin has a pixel more hangs on a rounding of others.
_PROBLEMS = (
    _Problem("few", (2, 3, 8, 9), (0, 1, 1, 0, 1), (2, 2)),
    _Problem("one-bin", (2, 3, 8, 9), (1, 0), (1, 1)),
    _Problem("many-bins", (1, 2, 6, 5), (0, 0), (8, 4)),
    _Problem("one-pixel", (2, 3, 1, 1), (0, 1, 0), (2, 4)),
    _Problem("images-that-are-not-there", (2, 3, 5, 6), (0, 2, -1, 1, 2**31 - 1), (2, 2)),
    _Problem("far-outside", (1, 2, 5, 6), (0, 0, 0), (2, 2), listed([90, 2, 95, 4, -60, -60, -50, 3, 1, 1, 3, 300])),
    _Problem("turned", (1, 2, 6, 6), (0, 0), (2, 2), listed([4, 4, 1, 1, 5, 0, 2, 3])),
    _Problem("no-boxes", (2, 3, 4, 4), (), (2, 2)),
    _Problem("no-channels", (2, 0, 4, 4), (0, 1), (2, 2)),
    _Problem("no-pixels", (2, 3, 0, 4), (0, 1), (2, 2)),
    _Problem("no-bins", (2, 3, 4, 4), (0, 1), (0, 2)),
    _Problem("large", (2, 8, 31, 33), tuple(i % 2 for i in range(25)), (8, 8)),
)
_BEYOND = _Problem("not-finite", (1, 2, 5, 6), (0, 0), (2, 2), listed([np.nan, 1, 3, 3, 1, 1, np.inf, 3]))


def _case(dtype: str, problem: _Problem, layout: str, *, backward: bool, mode: int, scale: float, places: str) -> Case:
    shape = problem.shape(mode)
    attributes: dict[str, Any] = {"mode": mode, "scale": scale}
    pixels = max(1, shape[2] * shape[3])

    def forward(inputs: Sequence[Any]) -> list[Expected | None]:
        given, boxes, images = inputs
        y, indices = roi_pool(given, boxes, images, problem.y, **attributes)
        if mode == MAX:
            return [Expected(y, 0), Expected(indices, 0)] if places else [Expected(y, 0)]
        magnitude, _ = roi_pool(np.abs(given), boxes, images, problem.y, **attributes)
        return [Expected(y, summation_roundings(pixels) + 1, magnitude)]

    def gradient(inputs: Sequence[Any]) -> list[Expected | None]:
        dy, boxes, images = inputs[:3]
        indices = inputs[3] if mode == MAX else None

        def of(dy: Array) -> Array:
            return roi_pool_backward(dy, boxes, images, indices, shape, **attributes)

        terms = max(1, int(np.prod(problem.y)))
        return [Expected(of(dy), summation_roundings(terms) + 1, of(np.abs(dy)))]

    boxes = (
        Operand(dtype, (len(problem.images), 4), problem.boxes),
        Operand("int32", (len(problem.images),), listed(problem.images or (0,))),
    )
    x, y = Operand(dtype, shape, normal(), layout), Operand(dtype, problem.y, normal(), layout)
    inputs: tuple[Operand, ...] = (y if backward else x, *boxes)
    outputs: tuple[Operand, ...] = (written(dtype, shape if backward else problem.y, layout),)
    if mode == MAX and backward:
        inputs = (*inputs, Operand(places, problem.y, integers(-1, pixels)))
    elif mode == MAX and places:
        outputs = (*outputs, written(places, problem.y, layout))
    op = "roi_pool_backward" if backward else "roi_pool"
    variant = "/".join(
        (f"{('max', 'average')[mode]}-by-{scale:g}", *[places] * bool(places), problem.name, dtype, layout)
    )
    return Case(op, variant, dtype, inputs, outputs, gradient if backward else forward, attributes)


def cases(seed: int) -> Iterator[Case]:
    """All cases of both kinds."""
    for backward in (False, True):
        for mode, scale, places in ((0, 1.0, "int64"), (0, 0.5, "int32"), (0, 0.25, ""), (1, 0.5, ""), (1, 1.0, "")):
            if backward and mode == MAX and not places:
                continue
            build = partial(_case, backward=backward, mode=mode, scale=scale, places=places)
            if (mode, scale) in ((0, 1.0), (1, 0.5)):
                yield from sweep(build, seed, dtypes=FLOATING, shapes=_PROBLEMS, layouts=IMAGE_LAYOUTS, draws=8)
            else:
                yield from (build("float32", problem, "contiguous") for problem in _PROBLEMS)
            yield build("float32", _BEYOND, "contiguous")
