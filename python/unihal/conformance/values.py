"""What operands are filled with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .case import Array, Values
from .number_format import FORMATS, storage


def uniform(low: float, high: float) -> Values:
    """Numbers spread evenly over [low, high)."""
    return lambda generator, shape: generator.uniform(low, high, shape)


def normal(deviation: float = 1.0) -> Values:
    """Normally distributed numbers around 0."""
    return lambda generator, shape: generator.normal(0, deviation, shape)


def integers(low: int, high: int) -> Values:
    """Whole numbers in [low, high), also for floating operands."""
    return lambda generator, shape: generator.integers(low, high, shape)


def complex_normal(deviation: float = 1.0) -> Values:
    """Complex numbers whose parts are independent and normally distributed around 0."""
    return lambda generator, shape: generator.normal(0, deviation, shape) + 1j * generator.normal(0, deviation, shape)


def around_the_unit_circle() -> Values:
    """Complex numbers with a modulus near 1, whose products stay in range."""
    return lambda generator, shape: generator.uniform(0.75, 1.25, shape) * np.exp(1j * generator.uniform(-4, 4, shape))


def complex_integers(low: int, high: int) -> Values:
    """Complex numbers whose parts are whole numbers in [low, high)."""
    return lambda generator, shape: generator.integers(low, high, shape) + 1j * generator.integers(low, high, shape)


def listed(values: Sequence[complex] | Array) -> Values:
    """The given values in row-major order, again and again until the shape is full."""
    return lambda generator, shape: np.resize(np.asarray(values), shape)


def constant(value: complex) -> Values:
    """One value everywhere."""
    return lambda generator, shape: np.full(shape, value)


def wide(dtype: str, bits: int = 60) -> Values:
    """Odd integers of a 64-bit dtype with more digits than float64 has, below 2^bits, of both signs."""

    def make(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        numbers = generator.integers(1 << 54, 1 << bits, shape, dtype=np.uint64) | np.uint64(1)
        if dtype == "uint64":
            return np.asarray(numbers)
        return np.where(generator.integers(0, 2, shape) == 1, 1, -1) * numbers.astype(np.int64)

    return make


def bit_patterns(dtype: str) -> Values:
    """Bits of NaN of both kinds, with payloads, of subnormal numbers and zeros of both signs, and of any others."""
    width = 8 * storage(dtype).itemsize
    fraction = FORMATS[dtype].bits - 1
    infinity = (1 << (width - 1)) - (1 << fraction)
    special = [1, fraction, 0x2A, (1 << (fraction - 1)) - 1, (1 << (fraction - 1)) + 3, (1 << fraction) - 1]
    patterns = [base + low for base in (infinity, 0) for low in special] + [infinity, 0, infinity // 2 + 5]
    signed = [pattern + sign for pattern in patterns for sign in (0, 1 << (width - 1))]
    return listed(np.array(signed, np.uint64))


def distinct(scale: float = 1.0) -> Values:
    """All whole multiples of ``scale`` around 0, each once, in random order: no ties."""

    def make(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        count = int(np.prod(shape, dtype=np.int64))
        return scale * (generator.permutation(count) - count // 2).reshape(shape)

    return make
