"""Cases of grid_sample and its gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from .case import Array, Case, Expected, Operand, Values, written
from .layout import IMAGE_LAYOUTS
from .reference import sampling
from .reference.enums import GridSampleMode, GridSamplePadding
from .sweep import FLOATING, sweep
from .tolerance import summation_roundings
from .values import listed, normal


def _coordinates(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Also well outside, in steps that no dtype rounds: positions are exact, edges and halves among them."""
    return generator.integers(-100, 101, shape) / 64


def _positions(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """The same in pixels."""
    return generator.integers(-100, 400, shape) / 64


@dataclass(frozen=True)
class _Problem:
    name: str
    x: tuple[int, ...]
    outputs: tuple[int, ...]
    grid: Values = _coordinates
    #: The image of each grid, where they are named.
    images: tuple[int, ...] | None = None

    @property
    def grids(self) -> int:
        return self.x[0] if self.images is None else len(self.images)

    @property
    def y(self) -> tuple[int, ...]:
        return (self.grids, self.x[1], *self.outputs)

    @property
    def places(self) -> tuple[int, ...]:
        return (self.grids, *self.outputs, len(self.outputs))


_PROBLEMS = (
    _Problem("two-axes", (2, 3, 4, 6), (5, 7)),
    _Problem("three-axes", (2, 3, 2, 4, 3), (3, 2, 5)),
    _Problem("one-channel", (3, 1, 8, 8), (9, 4)),
    _Problem("many-channels", (1, 67, 5, 4), (3, 5)),
    _Problem("one-pixel", (2, 3, 1, 1), (4, 3)),
    _Problem("one-place", (2, 5, 4, 4), (1, 1)),
    _Problem("many-places-of-a-pixel", (2, 3, 2, 1), (40, 50)),
    _Problem("edges", (2, 3, 4, 4), (4, 4), listed([-1, 1, -0.75, 0.75, 0, -1.25, 1.25, 0.5])),
    _Problem("far-outside", (1, 2, 4, 4), (3, 4), listed([-40.5, 3, 65, -3, 17.25, 0.25, -12])),
    _Problem("not-finite", (1, 2, 4, 4), (3, 3), listed([np.nan, 0, 0.25, np.inf, -np.inf, np.nan, 0.5, 0.75])),
    _Problem("no-images", (0, 3, 4, 6), (5, 7)),
    _Problem("no-channels", (2, 0, 4, 6), (5, 7)),
    _Problem("no-places", (2, 3, 4, 6), (0, 7)),
    _Problem("named-images", (3, 2, 4, 5), (3, 4), images=(2, 0, 2, 2, 1)),
    _Problem("images-that-are-not-there", (2, 3, 4, 5), (2, 3), images=(1, -1, 0, 2, 2**31 - 1)),
    _Problem("named-volumes", (2, 2, 2, 3, 4), (2, 2, 3), images=(1, 1, 0)),
    _Problem("no-grids", (2, 2, 4, 5), (3, 4), images=()),
    _Problem("large", (2, 8, 17, 19), (15, 16)),
)

#: Problems that are about where places lie, which is what the other attributes change.
_OF_POSITIONS = ("two-axes", "three-axes", "one-pixel", "edges", "far-outside", "not-finite")

#: Attributes that are tried with all problems, dtypes and layouts.
_WHOLE = (
    (GridSampleMode.LINEAR, GridSamplePadding.BORDER, 0, 0),
    (GridSampleMode.NEAREST, GridSamplePadding.ZEROS, 1, 0),
    (GridSampleMode.CUBIC, GridSamplePadding.REFLECTION, 0, 0),
)

#: Roundings of a weight, a product of up to three, and of what a coordinate is scaled with. Terms of a cubic's
#: weights are larger than these.
_WEIGHT_ROUNDINGS = {GridSampleMode.NEAREST: 6, GridSampleMode.LINEAR: 6, GridSampleMode.CUBIC: 40}


def _case(
    dtype: str,
    problem: _Problem,
    layout: str,
    *,
    op: str,
    mode: int,
    padding: int,
    corners: int,
    edges: int,
    pixels: int = 0,
) -> Case:
    attributes: dict[str, Any] = {"mode": mode, "padding": padding, "align_corners": corners, "edge_gradient": edges}
    attributes["in_pixels"] = pixels
    taps = (4 if mode == GridSampleMode.CUBIC else 2) ** len(problem.outputs)

    def forward(inputs: Sequence[Any]) -> list[Expected]:
        values = sampling.grid_sample(*inputs, **attributes)
        if mode == GridSampleMode.NEAREST:
            return [Expected(values, 0)]
        magnitude = sampling.grid_sample(np.abs(inputs[0]), *inputs[1:], absolute=True, **attributes)
        return [Expected(values, summation_roundings(taps) + _WEIGHT_ROUNDINGS[GridSampleMode(mode)], magnitude)]

    def backward_data(inputs: Sequence[Any]) -> list[Expected]:
        values = sampling.backward_data(*inputs, shape=problem.x, **attributes)
        terms = taps * max(1, problem.grids * int(np.prod(problem.outputs)))
        magnitude = sampling.backward_data(np.abs(inputs[0]), *inputs[1:], shape=problem.x, absolute=True, **attributes)
        return [Expected(values, summation_roundings(terms) + _WEIGHT_ROUNDINGS[GridSampleMode(mode)], magnitude)]

    def backward_grid(inputs: Sequence[Any]) -> list[Expected]:
        values = sampling.backward_grid(*inputs, **attributes)
        terms = taps * max(1, problem.x[1])
        magnitude = sampling.backward_grid(*inputs, absolute=True, **attributes)
        return [Expected(values, summation_roundings(terms) + _WEIGHT_ROUNDINGS[GridSampleMode(mode)], magnitude)]

    x, y = Operand(dtype, problem.x, normal(), layout), Operand(dtype, problem.y, normal(), layout)
    grid = Operand(dtype, problem.places, problem.grid, "contiguous" if layout == "channels_last" else layout)
    inputs: tuple[Operand, ...]
    inputs, shape, reference = {
        "grid_sample": ((x, grid), problem.y, forward),
        "grid_sample_backward_data": ((y, grid), problem.x, backward_data),
        "grid_sample_backward_grid": ((y, x, grid), problem.places, backward_grid),
    }[op]
    if problem.images is not None:
        inputs = (*inputs, Operand("int32", (problem.grids,), listed(problem.images or (0,))))
    outputs = (written(dtype, shape, grid.layout if op == "grid_sample_backward_grid" else layout),)
    names = (GridSampleMode(mode).name, GridSamplePadding(padding).name, ("edges", "corners")[corners])
    variant = "/".join(
        (*map(str.lower, names), ("flat", "sloping")[edges], *["pixels"] * pixels, problem.name, dtype, layout)
    )
    return Case(op, variant, dtype, inputs, outputs, reference, attributes)


def _problems(mode: int) -> tuple[_Problem, ...]:
    """Those that a mode takes: cubics have two axes."""
    return tuple(p for p in _PROBLEMS if mode != GridSampleMode.CUBIC or len(p.outputs) == 2)


def cases(seed: int) -> Iterator[Case]:
    """All cases of the three kinds."""
    ops = ("grid_sample", "grid_sample_backward_data", "grid_sample_backward_grid")
    for op, mode, padding, corners, edges in product(ops, GridSampleMode, GridSamplePadding, (0, 1), (0, 1)):
        if edges == 1 and (op != "grid_sample_backward_grid" or mode != GridSampleMode.LINEAR):
            continue  # they change the gradient of places, which is 0 where the nearest pixel counts
        build = partial(_case, op=op, mode=int(mode), padding=int(padding), corners=corners, edges=edges)
        problems = _problems(mode)
        if (mode, padding, corners, edges) in _WHOLE:
            yield from sweep(build, seed, dtypes=FLOATING, shapes=problems, layouts=IMAGE_LAYOUTS)
        else:
            yield from (
                build("float32", problem, "contiguous") for problem in problems if problem.name in _OF_POSITIONS
            )
    for op, mode, padding in product(ops, GridSampleMode, GridSamplePadding):
        build = partial(_case, op=op, mode=int(mode), padding=int(padding), corners=1, edges=0, pixels=1)
        for problem in _problems(mode):
            if problem.name in ("two-axes", "named-images", "far-outside", "edges"):
                inside = replace(problem, grid=_positions) if problem.grid is _coordinates else problem
                yield build("float32", inside, "contiguous")
