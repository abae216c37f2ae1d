"""Cases of pool and its gradient."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .case import Array, Case, Expected, Operand, Values, written
from .layout import IMAGE_LAYOUTS
from .number_format import is_inexact, round_to
from .reference.enums import PoolMode
from .reference.pooling import pool, pool_backward
from .sweep import FLOATING, INTEGERS, sweep
from .tolerance import summation_roundings
from .values import integers, listed, normal

_ONE, _ZERO = (1, 1, 1), (0, 0, 0)


@dataclass(frozen=True)
class _Problem:
    """x's shape, and attributes by the names of uhal_pool_attributes."""

    name: str
    x: tuple[int, ...]
    window: tuple[int, ...] = _ONE
    stride: tuple[int, ...] = _ONE
    pad_before: tuple[int, ...] = _ZERO
    pad_after: tuple[int, ...] = _ZERO
    #: y's spatial lengths where windows reach beyond x and its padding, or where they adapt.
    outputs: tuple[int, ...] = ()
    adaptive: int = 0

    @property
    def y(self) -> tuple[int, ...]:
        if self.outputs:
            return (*self.x[:2], *self.outputs)
        lengths = (
            (length + self.pad_before[i] + self.pad_after[i] - self.window[i]) // self.stride[i] + 1
            for i, length in enumerate(self.x[2:])
        )
        return (*self.x[:2], *(max(0, length) for length in lengths))

    @property
    def attributes(self) -> dict[str, Any]:
        names = ("window", "stride", "pad_before", "pad_after", "adaptive")
        return {name: getattr(self, name) for name in names}

    @property
    def largest_window(self) -> int:
        if self.adaptive:
            return int(np.prod([length // output + 2 for length, output in zip(self.x[2:], self.y[2:])]))
        return int(np.prod(self.window[: len(self.x) - 2]))


_PROBLEMS = (
    _Problem("plain", (2, 3, 7, 9), (3, 2), (1, 1)),
    _Problem("stride", (2, 3, 8, 9), (2, 3), (2, 3)),
    _Problem("stride-beyond-window", (2, 3, 11, 10), (2, 1), (4, 3)),
    _Problem("padding", (2, 3, 7, 6), (3, 3), (2, 2), (1, 1), (1, 1)),
    _Problem("asymmetric-padding", (2, 3, 7, 6), (3, 4), (2, 1), (2, 0), (0, 3)),
    _Problem("ceil", (2, 3, 8, 9), (3, 2), (2, 4), (0, 0), (0, 0), (4, 3)),
    _Problem("ceil-padding", (2, 3, 6, 7), (3, 3), (2, 3), (1, 1), (1, 0), (4, 3)),
    _Problem("one-axis", (2, 3, 31), (5,), (2,), (1,), (2,)),
    _Problem("three-axes", (2, 3, 4, 5, 6), (2, 3, 2), (1, 2, 3), (0, 1, 1), (1, 1, 0)),
    _Problem("window-is-image", (2, 3, 5, 6), (5, 6), (1, 1)),
    _Problem("window-is-one", (2, 3, 5, 6), (1, 1), (1, 1)),
    _Problem("remainder", (1, 2, 9, 8), (3, 3), (4, 5)),
    _Problem("adaptive", (2, 3, 7, 10), outputs=(3, 4), adaptive=1),
    _Problem("adaptive-global", (2, 3, 7, 10), outputs=(1, 1), adaptive=1),
    _Problem("adaptive-larger", (2, 3, 3, 5), outputs=(5, 7), adaptive=1),
    _Problem("adaptive-one-axis", (2, 3, 31), outputs=(7,), adaptive=1),
    _Problem("adaptive-three-axes", (1, 2, 5, 6, 7), outputs=(2, 4, 3), adaptive=1),
    _Problem("one-element", (1, 1, 1, 1), (1, 1), (1, 1)),
    _Problem("no-images", (0, 3, 7, 9), (3, 2), (1, 1)),
    _Problem("no-channels", (2, 0, 7, 9), (3, 2), (1, 1)),
    _Problem("no-outputs", (2, 3, 2, 9), (3, 2), (1, 1)),
    _Problem("many-channels", (2, 133, 9, 8), (3, 3), (2, 2), (1, 1), (1, 1)),
    _Problem("larger", (8, 32, 33, 35), (3, 3), (2, 2), (1, 1), (1, 1)),
    _Problem("more-than-65536-channels", (1, 65537, 2, 3), (2, 2), (1, 1)),
    _Problem("more-than-65536-images", (65537, 1, 3), (2,), (1,)),
)

#: Windows that lie in the padding, outside x.
_ALL_PADDING = _Problem("window-in-padding", (1, 2, 3, 4), (2, 2), (2, 2), (2, 2), (2, 2))


def _forward_case(dtype: str, problem: _Problem, layout: str, *, mode: PoolMode, index: str | None = None) -> Case:
    maximum = mode == PoolMode.MAXIMUM
    attributes = {**problem.attributes, "mode": int(mode)}

    def reference(inputs: Sequence[Any]) -> list[Expected | None]:
        (x,) = inputs
        y, indices = pool(x, problem.y[2:], **attributes)
        if maximum:
            return [Expected(y, 0), Expected(indices, 0) if index else None]
        magnitude, _ = pool(np.abs(x), problem.y[2:], **attributes)
        return [Expected(y, summation_roundings(problem.largest_window) + 1, magnitude), None]

    # Few different numbers: the first of equals is what the indices must name.
    values = normal() if not maximum else integers(0 if dtype.startswith("u") else -3, 4)
    return Case(
        op="pool",
        variant=f"{mode.name.lower()}/{problem.name}/{dtype}/{layout}" + (f"/{index}" if index else ""),
        dtype=dtype,
        inputs=(Operand(dtype, problem.x, values, layout),),
        outputs=(written(dtype, problem.y, layout), written(index, problem.y, layout) if index else None),
        reference=reference,
        attributes=attributes,
    )


def _padding_case(dtype: str, mode: PoolMode) -> Case:
    """A maximum over nothing is the neutral element, an average over nothing 0; where it was, nobody says."""
    problem = _ALL_PADDING
    attributes = {**problem.attributes, "mode": int(mode)}

    def reference(inputs: Sequence[Any]) -> list[Expected]:
        (x,) = inputs
        beyond = np.pad(x, [(0, 0), (0, 0), (2, 2), (2, 2)], constant_values=-np.inf)
        windows = np.lib.stride_tricks.sliding_window_view(beyond, (2, 2), axis=(2, 3))[:, :, ::2, ::2]
        if mode == PoolMode.MAXIMUM:
            return [Expected(windows.max(axis=(-1, -2)), 0)]
        y, _ = pool(x, problem.y[2:], **attributes)
        magnitude, _ = pool(np.abs(x), problem.y[2:], **attributes)
        return [Expected(y, 5, magnitude)]

    return Case(
        op="pool",
        variant=f"{mode.name.lower()}/{problem.name}/{dtype}",
        dtype=dtype,
        inputs=(Operand(dtype, problem.x, normal()),),
        outputs=(Operand(dtype, problem.y),),
        reference=reference,
        attributes=attributes,
    )


def _nan_case(dtype: str) -> Case:
    """NaN wins, and its place is that of the first one."""
    problem = _Problem("nan", (1, 1, 8), (4,), (2,))
    row = (1.0, np.nan, 3, np.nan, 2, np.inf, -np.inf, 0)
    attributes = {**problem.attributes, "mode": int(PoolMode.MAXIMUM)}
    return Case(
        op="pool",
        variant=f"maximum/nan/{dtype}",
        dtype=dtype,
        inputs=(Operand(dtype, problem.x, listed(row)),),
        outputs=(Operand(dtype, problem.y), Operand("int64", problem.y)),
        reference=lambda inputs: [Expected(array, 0) for array in pool(inputs[0], problem.y[2:], **attributes)],
        attributes=attributes,
    )


def _image(problem: _Problem, dtype: str) -> Array:
    """The same image whenever it is asked for, with ties."""
    values = np.random.default_rng(problem.x).integers(-3, 4, problem.x).astype(np.float64)
    return round_to(values, dtype) if is_inexact(dtype) else values


def _backward_case(dtype: str, problem: _Problem, layout: str, *, mode: PoolMode) -> Case:
    maximum = mode == PoolMode.MAXIMUM
    attributes = {**problem.attributes, "mode": int(mode)}

    def reference(inputs: Sequence[Any]) -> list[Expected]:
        dy = inputs[0]
        x = inputs[1] if maximum else None
        values = pool_backward(dy, x, problem.x, **attributes)
        magnitude = pool_backward(np.abs(dy), x, problem.x, **attributes)
        return [Expected(values, summation_roundings(problem.largest_window) + 1, magnitude)]

    def pooled(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return pool(_image(problem, dtype), problem.y[2:], **attributes)[0]

    image: Values = lambda generator, shape: _image(problem, dtype)  # noqa: E731
    # Repeating layouts would change x after y was made of it.
    of_image = "contiguous" if layout in ("broadcast", "overlapping") else layout
    return Case(
        op="pool_backward",
        variant=f"{mode.name.lower()}/{problem.name}/{dtype}/{layout}",
        dtype=dtype,
        inputs=(
            Operand(dtype, problem.y, normal(), layout),
            Operand(dtype, problem.x, image, of_image) if maximum else None,
            Operand(dtype, problem.y, pooled, of_image) if maximum else None,
        ),
        outputs=(written(dtype, problem.x, layout),),
        reference=reference,
        attributes=attributes,
    )


def cases(seed: int) -> Iterator[Case]:
    """All cases of both kinds."""
    for mode in PoolMode:
        if mode == PoolMode.MAXIMUM:
            for index in (None, "int32", "int64"):
                forward = partial(_forward_case, mode=mode, index=index)
                dtypes = (*FLOATING, *INTEGERS)
                yield from sweep(forward, seed, dtypes=dtypes, shapes=_PROBLEMS, layouts=IMAGE_LAYOUTS, draws=24)
        else:
            forward = partial(_forward_case, mode=mode)
            yield from sweep(forward, seed, dtypes=FLOATING, shapes=_PROBLEMS, layouts=IMAGE_LAYOUTS, draws=24)
        backward = partial(_backward_case, mode=mode)
        yield from sweep(backward, seed, dtypes=FLOATING, shapes=_PROBLEMS, layouts=IMAGE_LAYOUTS, draws=24)
    for dtype in FLOATING:
        yield _nan_case(dtype)
        for mode in PoolMode:
            yield _padding_case(dtype, mode)
