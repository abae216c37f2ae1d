"""What operands are filled with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .case import Array, Values


def uniform(low: float, high: float) -> Values:
    """Numbers spread evenly over [low, high)."""
    return lambda generator, shape: generator.uniform(low, high, shape)


def normal(deviation: float = 1.0) -> Values:
    """Normally distributed numbers around 0."""
    return lambda generator, shape: generator.normal(0, deviation, shape)


def integers(low: int, high: int) -> Values:
    """Whole numbers in [low, high), also for floating operands."""
    return lambda generator, shape: generator.integers(low, high, shape)


def listed(values: Sequence[complex] | Array) -> Values:
    """The given values in row-major order, again and again until the shape is full."""
    return lambda generator, shape: np.resize(np.asarray(values), shape)


def constant(value: complex) -> Values:
    """One value everywhere."""
    return lambda generator, shape: np.full(shape, value)


def distinct(scale: float = 1.0) -> Values:
    """All whole multiples of ``scale`` around 0, each once, in random order: no ties."""

    def make(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        count = int(np.prod(shape, dtype=np.int64))
        return scale * (generator.permutation(count) - count // 2).reshape(shape)

    return make
