"""UHAL_OP_MAP: Bessel functions, and integrals of exponentials and of waves, from their definitions.

As special.py's, they are slow on purpose, and computed in the widest floating type of the machine: power series where
all terms are positive, and integrals as sums over even distances, which converge like exp(-c / distance) where the
integrand is periodic or dies out on both sides (Trefethen and Weideman, The exponentially convergent trapezoidal rule,
2014).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .special import _lgamma_right, _series, _where, ndtri

Array = NDArray[Any]
_WIDE = np.longdouble
_PI = _WIDE("3.14159265358979323846264338327950288")
_GAMMA = _WIDE("0.57721566490153286060651209008240243")


def _inside(x: Array, low: float, high: float, of: Callable[[Array], Array]) -> Array:
    """``of(x)`` where x lies between the limits; NaN elsewhere."""
    x = np.asarray(x, _WIDE)
    valid = (x >= low) & (x <= high)
    return np.asarray(np.where(valid, of(np.where(valid, x, 1)), np.nan), np.float64)


def _waves(x: Array, order: int) -> Array:
    """J(x): the mean of cos(n a - x sin(a)) over half a turn."""
    count = 96 + int(np.max(np.abs(x), initial=0))
    return (
        np.asarray(sum(np.cos(order * a - x * np.sin(a)) for a in (np.arange(count) + _WIDE(0.5)) * _PI / count))
        / count
    )


def bessel_j(x: Array, order: int) -> Array:
    """The Bessel function of the first kind, of numbers up to 1100."""
    result = _inside(x, -1100, 1100, lambda x: _waves(x, order))
    return np.where((x == 0) & (order == 1), x, result)


def _second(x: Array, order: int) -> Array:
    """Y(x) from J(x) and its series (Abramowitz and Stegun, 9.1.11 and 9.1.13)."""
    square = x * x / 4
    term = np.ones_like(x)
    total = np.zeros_like(x) if order == 0 else np.ones_like(x)
    harmonic = _WIDE(0)
    for k in range(1, 60):
        harmonic += _WIDE(1) / k
        term = -term * square / (k * (k + order))
        total = total + term * (harmonic if order == 0 else 2 * harmonic + _WIDE(1) / (k + 1))
    logarithm = (np.log(x / 2) + _GAMMA) * _waves(x, order)
    return np.asarray(2 / _PI * (logarithm - (total if order == 0 else 1 / x + x * total / 4)))


def _second_far(x: Array, order: int) -> Array:
    """Y(x) of x > 30 by Hankel's expansion (Abramowitz and Stegun, 9.2.6, 9.2.9 and 9.2.10)."""
    term, even, odd = np.ones_like(x), np.ones_like(x), np.zeros_like(x)
    for k in range(1, 24):
        term = term * (4 * order * order - (2 * k - 1) ** 2) / (8 * k * x)
        if k % 2:
            odd = odd + (-1) ** (k // 2) * term
        else:
            even = even + (-1) ** (k // 2) * term
    angle = x - (2 * order + 1) * _PI / 4
    return np.asarray(np.sqrt(2 / (_PI * x)) * (even * np.sin(angle) + odd * np.cos(angle)))


def bessel_y(x: Array, order: int) -> Array:
    """The Bessel function of the second kind, of positive numbers up to 13 or above 30."""
    near = _inside(x, 1e-300, 13, lambda x: _second(x, order))
    result = np.where(x > 13, _inside(x, 30, 1e300, lambda x: _second_far(x, order)), near)
    return np.where(x == 0, -np.inf, result)


def bessel_size(x: Array) -> Array:
    """What errors beside zeros of J and Y are relative to."""
    size = np.abs(np.where(np.isfinite(x) & (x != 0), x, 1.0))
    return np.minimum(1.0, np.sqrt(2 / (np.pi * size)))


def bessel_y_terms(x: Array, order: int) -> Array:
    """The same of Y, which has a pole at 0."""
    return np.asarray(np.maximum(bessel_size(x), np.abs(np.nan_to_num(bessel_y(x, order), nan=1, posinf=1, neginf=1))))


def bessel_k(x: Array, order: int, scaled: bool) -> Array:
    """The modified Bessel function of the second kind, of positive numbers; times exp(x) if it is scaled."""

    def of(x: Array) -> Array:
        step = 1 / (8 * np.sqrt(1 + x))  # the integrand dies out beyond 1 / sqrt(x)
        total = np.full_like(x, _WIDE(0.5))
        for k in range(1, 400):
            t = k * step
            term = np.exp(-2 * x * np.sinh(t / 2) ** 2) * np.cosh(order * t)
            total = total + term
            if np.all(term < 1e-24 * total):
                break
        return np.asarray(total * step * (1 if scaled else np.exp(-x)))

    result = _inside(x, 1e-15, 11000, of)
    return np.where(x == 0, np.inf, np.where(np.isposinf(x), 0.0, result))


def dawson(x: Array) -> Array:
    """exp(-x^2) times the integral of exp(t^2) from 0 to x; beyond 8 by its expansion for large numbers."""

    def far(x: Array) -> Array:
        total = np.ones_like(x)
        for k in range(40, 0, -1):
            total = 1 + total * (2 * k - 1) / (2 * x * x)
        return np.asarray(total / (2 * x))

    def of(x: Array) -> Array:
        term, total = x, x
        for k in range(1, 260):
            term = term * x * x / k
            total = total + term / (2 * k + 1)
        return np.asarray(np.exp(-x * x) * total)

    size = np.abs(x)
    result = np.where(size > 8, np.copysign(_inside(size, 8, 1e300, far), x), _inside(x, -8, 8, of))
    return np.where(np.isinf(x), np.copysign(0.0, x), np.where(x == 0, x, result))


def expint(x: Array) -> Array:
    """Ei(x): by its power series from -1 to 45, beyond by its expansion, left of -1 from an integral over the logarithm
    of u, of exp(-u) / (u - x)."""

    def left(x: Array) -> Array:
        step = _WIDE(1) / 16
        logarithms = np.exp(np.arange(-800, 90) * step)
        far = np.minimum(x, -1)
        return np.asarray(-np.exp(far) * step * sum(u * np.exp(-u) / (u - far) for u in logarithms))

    def right(x: Array) -> Array:
        total = np.ones_like(x)
        for k in range(40, 0, -1):
            total = 1 + total * k / x
        return np.asarray(np.exp(x) / x * total)

    def of(x: Array) -> Array:
        term, total = np.ones_like(x), np.zeros_like(x)
        for k in range(1, 160):
            term = term * x / k
            total = total + term / k
        return np.asarray(_GAMMA + np.log(np.abs(np.where(x == 0, 1, x))) + total)

    result = np.where(x > 45, _inside(x, 45, 11000, right), _inside(x, -1, 45, of))
    result = np.where(x < -1, _inside(x, -11000, -1, left), result)
    return np.where(x == 0, -np.inf, np.where(np.isposinf(x), np.inf, np.where(np.isneginf(x), -0.0, result)))


def expint_terms(x: Array) -> Array:
    """What the terms of the series are about, whose sum has a zero."""
    size = np.abs(np.where((x == 0) | ~np.isfinite(x), 1.0, x))
    return np.asarray(np.abs(np.log(size)) + 0.6 + np.abs(np.nan_to_num(expint(x), nan=0, posinf=0, neginf=0)))


def fresnel(x: Array, sine: bool) -> Array:
    """The integral of cos or sin of pi t^2 / 2 from 0 to x: by Gauss' rule up to 4, beyond from the auxiliary functions
    (Abramowitz and Stegun, 7.3.9, 7.3.10 and 7.3.21)."""
    nodes, weights = np.polynomial.legendre.leggauss(64)

    def of(x: Array) -> Array:
        wave = np.sin if sine else np.cos
        places = zip((_WIDE(1) + nodes) / 2, weights, strict=True)
        return np.asarray(x * sum(w * wave(_PI / 2 * (x * t) ** 2) for t, w in places) / 2)

    def far(x: Array) -> Array:
        step = _WIDE(1) / 16
        slow, fast = np.full_like(x, _WIDE(0.5)), np.zeros_like(x)
        for y in np.arange(1, 100) * step:
            weight = np.exp(-_PI / 2 * y * y) / (1 + (y / x) ** 4)
            slow, fast = slow + weight, fast + weight * (y / x) ** 2
        scale = np.sqrt(_WIDE(2)) * step / (_PI * x)
        angle = _PI / 2 * np.fmod(x * x, 4)
        if sine:
            return np.asarray(0.5 - scale * (slow * np.cos(angle) + fast * np.sin(angle)))
        return np.asarray(0.5 + scale * (slow * np.sin(angle) - fast * np.cos(angle)))

    size = np.abs(x)
    result = np.where(size > 4, np.copysign(_inside(size, 4, 1e6, far), x), _inside(x, -4, 4, of))
    return np.where(np.isinf(x), np.copysign(0.5, x), np.where(x == 0, x, result))


def _dilogarithm(z: Array) -> Array:
    """The sum of z^k / k^2 for |z| <= 1/2."""
    total = np.zeros_like(z)
    for k in range(64, 0, -1):
        total = total * z + _WIDE(1) / (k * k)
    return np.asarray(total * z)


def _spence(x: Array) -> Array:
    """The dilogarithm of 1 - x, for 0 < x <= 3/2."""
    low = x < 0.5
    given = np.where(low, x, 0.25)
    reflected = _PI**2 / 6 - np.log(given) * np.log1p(-given) - _dilogarithm(given)
    return np.asarray(np.where(low, reflected, _dilogarithm(np.where(low, 0, 1 - x))))


def spence(x: Array) -> Array:
    """The integral of log(t) / (1 - t) from 1 to x."""

    def of(x: Array) -> Array:
        high = x > 1.5
        return np.asarray(
            np.where(high, -(np.log(x) ** 2) / 2 - _spence(np.where(high, 1 / x, 1)), _spence(np.where(high, 1, x)))
        )

    result = _inside(x, 1e-300, 1e300, of)
    return np.where(x == 0, float(_PI**2 / 6), result)


def _beta(a: Array, b: Array, x: Array) -> Array:
    """The regularized incomplete beta function for x <= 1/2 (Abramowitz and Stegun, 26.5.4)."""
    total = _series(lambda term, n, a, b, x: term * (a + b + n - 1) / (a + n) * x, 4000, a, b, x)
    beta = _lgamma_right(a) + _lgamma_right(b) - _lgamma_right(a + b)
    return np.asarray(np.exp(a * np.log(x) + b * np.log1p(-x) - beta) / a * total)


def betainc(a: Array, b: Array, x: Array) -> Array:
    """The integral of t^(a - 1) (1 - t)^(b - 1) from 0 to x over that to 1; NaN but for a, b > 0 and 0 <= x <= 1."""
    valid = (a > 0) & (b > 0) & (x > 0) & (x < 1) & np.isfinite(a) & np.isfinite(b)
    a, b, x = (np.asarray(v, _WIDE) for v in np.broadcast_arrays(a, b, x))
    low, high = np.asarray(valid & (x <= 0.5)), np.asarray(valid & (x > 0.5))
    result = np.where(high, 1 - _where(high, _beta, b, a, 1 - x), _where(low, _beta, a, b, x))
    edge = np.where((a > 0) & (b > 0) & ((x == 0) | (x == 1)), x, np.nan)
    return np.asarray(np.where(valid, result, edge), np.float64)


def _normal(z: Array) -> Array:
    return np.asarray(np.vectorize(lambda v: math.erfc(-v / math.sqrt(2)) / 2, otypes=[np.float64])(z))


def truncated_normal_quantile(u: Array, low: Array, high: Array) -> Array:
    """The number of a normal distribution cut to [low, high] below which a part u of it lies; NaN but for
    0 <= u <= 1 and low < high."""
    right = low > 0  # whose tail is small on the left
    valid = (u >= 0) & (u <= 1) & (low < high)
    a, b = np.where(right, -high, low), np.where(right, -low, high)
    below, above = _normal(np.where(valid, a, 0)), _normal(np.where(valid, b, 0))
    place = np.where(right, 1 - u, u)
    lower, upper = below + place * (above - below), _normal(np.where(valid, -b, 0)) + (1 - place) * (above - below)
    tail = np.where(valid, np.minimum(lower, upper), 0.5)
    # Python's approximation to the quantile ends with the numbers of float64, at 37.
    found = np.where(tail < 1e-290, -np.inf, ndtri(np.where(tail < 1e-290, 0.5, tail)))
    inside = np.minimum(np.maximum(np.where(lower > 0.5, -found, found), a), b)
    return np.asarray(np.where(valid, np.where(right, -inside, inside), np.nan))
