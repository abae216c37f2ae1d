"""UHAL_OP_RANDOM_DISTRIBUTION in float64: the algorithms of csrc/tables/random_distributions.h from their papers, for
arrays. What is drawn comes with the margin of the closest decision on its way: below that of a device's arithmetic the
device may decide otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Callable

import numpy as np
from numpy.typing import NDArray

from .random_numbers import philox
from .special import lgamma

Array = NDArray[Any]

GAMMA, POISSON, BINOMIAL = range(3)

_ATTEMPTS = 256


@dataclass
class Drawn:
    """Numbers, and how far the decisions behind each were from the other outcome."""

    values: Array
    margin: Array = field(default_factory=lambda: np.array(np.inf))


class Uniforms:
    """The four uniform numbers of each attempt of some elements: the middles of 2^23 (or 2^52) equal parts."""

    def __init__(self, key: int, counter: Sequence[int], count: int, wide: bool) -> None:
        self._key = key
        self._first = counter[0] + (counter[1] << 64)
        self._count = count
        self._wide = wide

    def __call__(self, attempt: int) -> Array:
        """Of an attempt: (elements, 4)."""
        if not self._wide:
            return np.asarray(((self._words(attempt) >> np.uint64(9)).astype(np.float64) + 0.5) * 2.0**-23)
        words = np.concatenate([self._words(2 * attempt), self._words(2 * attempt + 1)], axis=1)
        bits = (words[:, 0::2] << np.uint64(32) | words[:, 1::2]) >> np.uint64(12)
        return np.asarray((bits.astype(np.float64) + 0.5) * 2.0**-52)

    def _words(self, block: int) -> Array:
        start = (self._first + (block << 96)) % 2**128
        return philox(self._key, (start % 2**64, start >> 64), self._count)


def draw(distribution: int, uniforms: Uniforms, p: Array, q: Array | None) -> Drawn:
    """Numbers of one row of parameters."""
    with np.errstate(all="ignore"):
        if distribution == GAMMA:
            return _gamma(uniforms, p)
        if distribution == POISSON:
            return _poisson(uniforms, p)
        assert q is not None
        return _binomial(uniforms, np.floor(p), q)


#: Gets the uniform numbers of an attempt; gives what it proposes, whether that is accepted, and the margin of that.
_Attempt = Callable[[Array], "tuple[Array, Array, Array]"]


def _until_accepted(uniforms: Uniforms, wanted: Array, attempt: _Attempt) -> Drawn:
    values = np.zeros(len(wanted))
    margin = np.full(len(wanted), np.inf)
    open_ = wanted.copy()
    for number in range(_ATTEMPTS):
        if not open_.any():
            break
        proposed, accepted, near = attempt(uniforms(number))
        values = np.where(open_, proposed, values)
        margin = np.where(open_, np.minimum(margin, near), margin)
        open_ &= ~accepted
    return Drawn(values, margin)


def _gamma(uniforms: Uniforms, shape: Array) -> Drawn:
    small = shape < 1
    d = np.where(small, shape + 1, shape) - 1 / 3
    c = 1 / np.sqrt(9 * d)
    boosts = np.ones(len(shape))

    def attempt(u: Array) -> tuple[Array, Array, Array]:
        x = np.sqrt(-2 * np.log(u[:, 0])) * np.cos(2 * np.pi * u[:, 1])
        v = (1 + c * x) ** 3
        squeeze = 1 - 0.0331 * x**4 - u[:, 2]
        exact = x * x / 2 + d - d * v + d * np.log(v) - np.log(u[:, 2])
        inside = v > 0
        boosts[:] = np.exp(np.log(u[:, 3]) / shape)
        # Where the squeeze accepts, the exact test does too: only that one decides.
        near = np.where(inside, np.where(squeeze > 0, np.inf, np.abs(exact)), np.abs(1 + c * x))
        return np.where(small, boosts, 1) * d * v, inside & ((squeeze > 0) | (exact > 0)), near

    drawn = _until_accepted(uniforms, shape > 0, attempt)
    drawn.values = np.where(shape == 0, 0, np.where(shape > 0, drawn.values, np.nan))
    return drawn


def _inverted(u: Array, first: Array, ratio: Callable[[int], Array], most: Array) -> Drawn:
    """The number of probabilities, each the last one times ratio(k), whose sum does not reach u."""
    k = np.zeros(len(u))
    margin = np.full(len(u), np.inf)
    rest, probability = u.copy(), first.copy()
    open_ = np.ones(len(u), bool)
    for number in range(1, 202):
        margin = np.where(open_, np.minimum(margin, np.abs(rest - probability)), margin)
        open_ &= (rest > probability) & (k < most)
        if not open_.any():
            break
        rest = np.where(open_, rest - probability, rest)
        k = np.where(open_, k + 1, k)
        probability = np.where(open_, probability * ratio(number), probability)
    return Drawn(k, margin)


def _whole(x: Array) -> tuple[Array, Array]:
    """The floor, and the distance from another one, relative to the number."""
    floor = np.floor(x)
    return floor, np.minimum(x - floor, floor + 1 - x) / np.maximum(np.abs(x), 1)


def _chosen(condition: Array, first: Drawn, second: Drawn) -> Drawn:
    return Drawn(np.where(condition, first.values, second.values), np.where(condition, first.margin, second.margin))


def _poisson(uniforms: Uniforms, mean: Array) -> Drawn:
    u = uniforms(0)[:, 0]
    few = _inverted(u, np.exp(-mean), lambda k: mean / k, np.full(len(mean), 100.0))
    b = 0.931 + 2.53 * np.sqrt(mean)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    surely = 0.9277 - 3.6224 / (b - 2)

    def attempt(u: Array) -> tuple[Array, Array, Array]:
        centred, v = u[:, 0] - 0.5, u[:, 1]
        us = 0.5 - np.abs(centred)
        k, near_whole = _whole((2 * a / us + b) * centred + mean + 0.43)
        quick = (us >= 0.07) & (v <= surely)
        refused = (k < 0) | ((us < 0.013) & (v > us))
        exact = k * np.log(mean) - mean - lgamma(k + 1) - np.log(v * inverse_alpha / (a / (us * us) + b))
        near = np.minimum(near_whole, np.where(quick | refused, np.inf, np.abs(exact)))
        near = np.minimum(near, np.minimum(np.abs(us - 0.07), np.abs(v - surely)))
        return k, quick | (~refused & (exact >= 0)), near

    many = _until_accepted(uniforms, mean >= 10, attempt)
    drawn = _chosen(mean < 10, few, many)
    drawn.values = np.where(mean == 0, 0, np.where(mean > 0, drawn.values, np.nan))
    return drawn


def _binomial(uniforms: Uniforms, n: Array, probability: Array) -> Drawn:
    flipped = probability > 0.5
    p = np.where(flipped, 1 - probability, probability)
    q = 1 - p
    u = uniforms(0)[:, 0]
    few = _inverted(u, np.exp(n * np.log1p(-p)), lambda k: p / q * ((n - k + 1) / k), np.minimum(n, 200))
    deviation = np.sqrt(n * p * q)
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    surely = 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * deviation

    def log_probability(k: Array) -> Array:
        return np.asarray(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * np.log(p) + (n - k) * np.log1p(-p))

    mode = np.floor((n + 1) * p)

    def attempt(u: Array) -> tuple[Array, Array, Array]:
        centred, v = u[:, 0] - 0.5, u[:, 1]
        us = 0.5 - np.abs(centred)
        k, near_whole = _whole((2 * a / us + b) * centred + n * p + 0.5)
        quick = (us >= 0.07) & (v <= surely)
        refused = (k < 0) | (k > n)
        inside = np.clip(k, 0, n)
        exact = log_probability(inside) - log_probability(mode) - np.log(v * alpha / (a / (us * us) + b))
        near = np.minimum(near_whole, np.where(quick | refused, np.inf, np.abs(exact)))
        near = np.minimum(near, np.minimum(np.abs(us - 0.07), np.abs(v - surely)))
        return k, quick | (~refused & (exact >= 0)), near

    many = _until_accepted(uniforms, n * p >= 10, attempt)
    drawn = _chosen(n * p < 10, few, many)
    values = np.where((n == 0) | (p == 0), 0, drawn.values)
    values = np.where(flipped, n - values, values)
    drawn.values = np.where((n >= 0) & (probability >= 0) & (probability <= 1), values, np.nan)
    return drawn
