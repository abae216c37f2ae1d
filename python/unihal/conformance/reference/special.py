"""UHAL_OP_MAP: the special functions, from their definitions, in the widest floating type of the machine.

They are slow on purpose: series and recurrences that are plain to see, in np.longdouble, whose errors are far below
those of float64 (on x86 it has 64 bits of mantissa). Where it is no wider than float64 they are good to about 1e-14.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_WIDE = np.longdouble
_PI = _WIDE("3.14159265358979323846264338327950288")
#: The recurrences go up by so much before an expansion for large numbers takes over.
_SHIFT = 30


@cache
def _bernoulli(count: int) -> tuple[Fraction, ...]:
    """B0, B1, ..., by their recurrence."""
    numbers: list[Fraction] = [Fraction(1)]
    for n in range(1, count):
        numbers.append(-sum((math.comb(n + 1, k) * numbers[k] for k in range(n)), Fraction(0)) / (n + 1))
    return tuple(numbers)


def _wide(value: Fraction) -> Any:
    return _WIDE(value.numerator) / _WIDE(value.denominator)


def _far(x: Array, term: Callable[[int, Fraction], Fraction]) -> Array:
    """The sum of term(k, B2k) / x^(2k - 1) over k = 1, ..., 12."""
    numbers = _bernoulli(25)
    total = np.zeros_like(x)
    for k in range(12, 0, -1):
        total = total / (x * x) + _wide(term(k, numbers[2 * k]))
    return np.asarray(total / x)


def _arguments(*given: Array | float) -> list[Array]:
    return [np.array(x, _WIDE) for x in np.broadcast_arrays(*given)]


def _lgamma_right(x: Array) -> Array:
    """log(Gamma(x)) of x > 0."""
    shifted = x + _SHIFT
    product = np.ones_like(x)
    for k in range(_SHIFT):
        product *= np.where(x < 1e30, x + k, 1)
    stirling = (shifted - _WIDE(0.5)) * np.log(shifted) - shifted + np.log(2 * _PI) / 2
    near = stirling + _far(shifted, lambda k, b: b / (2 * k * (2 * k - 1))) - np.log(product)
    return np.asarray(np.where(x < 1e30, near, x * (np.log(x) - 1)))


def lgamma(x: Array) -> Array:
    """log|Gamma(x)|."""
    (x,) = _arguments(x)
    distance = np.abs(x - np.rint(x))
    right = _lgamma_right(np.where(x > 0, x, 1 - np.where(np.isinf(x), 0, x)))
    reflected = np.log(_PI / np.sin(_PI * distance)) - right
    result = np.where(x > 0, right, np.where(distance == 0, np.inf, reflected))
    return np.asarray(np.where(np.isinf(x), np.inf, result), np.float64)


def lgamma_terms(x: Array) -> Array:
    """The largest term of lgamma's reflection, for whose cancellation its zeros stand."""
    size = np.where((x < -0.5) & np.isfinite(x), -x, 1.0)
    return np.asarray(np.abs(lgamma(x)) + np.where(x < -0.5, np.abs(lgamma(size)) + np.log(size) + 1, 0))


def _digamma(x: Array) -> Array:
    right = np.where(x > 0, x, 1 - x)
    total = np.zeros_like(right)
    for k in range(_SHIFT):
        total += 1 / (right + k)
    shifted = right + _SHIFT
    result = np.log(shifted) - 1 / (2 * shifted) - _far(shifted, lambda k, b: b / (2 * k)) / shifted - total
    distance = x - np.rint(x)
    reflected = np.where(distance == 0, np.nan, result - _PI / np.tan(_PI * distance))
    reflected = np.where(x == 0, np.copysign(np.inf, -x), reflected)
    return np.asarray(np.where(x > 0, result, reflected))


def digamma(x: Array) -> Array:
    """The derivative of lgamma."""
    return np.asarray(_digamma(*_arguments(x)), np.float64)


def digamma_terms(x: Array) -> Array:
    """What the terms of digamma are about, whose sum has zeros."""
    return np.asarray(np.abs(digamma(x)) + 2)


def _zeta(s: Array, q: Array, term: Callable[[Array], Array]) -> Array:
    """Hurwitz' zeta function by Euler and Maclaurin's formula; ``term`` is applied to each power."""
    total = np.zeros_like(q)
    # Far enough for the powers and orders that are tried, and past 0 for negative q.
    for k in range(60):
        total += term(np.where(q + k == 0, np.inf, (q + k) ** -s))
    a = q + 60
    power = a**-s
    rest = np.zeros_like(q)
    for k in range(12, 0, -1):
        rest = rest * (s + 2 * k - 1) * (s + 2 * k) / (a * a) + _wide(_bernoulli(25)[2 * k] / math.factorial(2 * k))
    tail = power * (a / (s - 1) + _WIDE(0.5) + rest * s / a)
    return np.asarray(total + np.where(power > 0, tail, 0))


def _zeta_of(s: Array, q: Array, term: Callable[[Array], Array]) -> Array:
    s, q = _arguments(s, q)
    whole = np.floor(q) == q
    result = _zeta(s, q, term)
    result = np.where(q <= 0, np.where(whole, np.inf, np.where(np.floor(s) == s, result, np.nan)), result)
    result = np.where(np.isinf(q), np.where(q > 0, 0, np.inf), result)
    # Of an infinite power the term of the least base is left, for a positive one.
    first = np.where(q < 1, np.inf, np.where(q == 1, 1, 0))
    result = np.where(np.isposinf(s), np.where(q > 0, first, np.where(whole, np.inf, np.nan)), result)
    result = np.where(s == 1, np.inf, np.where(s < 1, np.nan, result))
    return np.asarray(np.where(np.isnan(s) | np.isnan(q), np.nan, result), np.float64)


def zeta(s: Array, q: Array) -> Array:
    """The sum of (q + k)^-s over k >= 0."""
    return _zeta_of(s, q, lambda power: power)


def zeta_terms(s: Array, q: Array) -> Array:
    """The sum of the absolute terms."""
    return _zeta_of(s, q, np.abs)


def _polygamma(n: Array, x: Array, of: Callable[[Array, Array], Array], zeroth: Callable[[Array], Array]) -> Array:
    n, x = np.broadcast_arrays(n, x)
    # Orders whose factorial is a number of the type; none between 34 and 171 are tried.
    valid = (n >= 0) & (np.floor(n) == n) & (n <= 34)
    order = np.where(valid, n, 0)
    factorial = np.vectorize(lambda k: float(math.factorial(int(k))), otypes=[np.float64])(order)
    higher = np.where(order % 2 == 1, 1, -1) * factorial * of(order + 1, x)
    return np.where(np.isnan(x) | ~valid, np.nan, np.where(order == 0, zeroth(x), higher))


def polygamma(n: Array, x: Array) -> Array:
    """The derivative of order n of digamma."""
    return _polygamma(n, x, zeta, digamma)


def polygamma_terms(n: Array, x: Array) -> Array:
    """The sum of the absolute terms."""
    return np.abs(_polygamma(n, x, zeta_terms, digamma_terms))


def _where(needed: Array, function: Callable[..., Array], *arguments: Array) -> Array:
    """``function(*arguments)`` where it is needed, for they take long; 0 elsewhere."""
    result = np.zeros(needed.shape, _WIDE)
    result[needed] = function(*(np.broadcast_to(argument, needed.shape)[needed] for argument in arguments))
    return result


def _series(following: Callable[..., Array], terms: int, *arguments: Array) -> Array:
    """The sum of 1 and the terms that follow it: ``following(term, n, *arguments)`` is the next one, positive and at
    last smaller and smaller. An element is set aside once its terms change its sum no more, for a few take long."""
    result = np.ones(arguments[0].shape, _WIDE)
    sums = result.reshape(-1)
    left = np.arange(sums.size)
    given = [np.reshape(argument, -1) for argument in arguments]
    term, total = np.ones_like(sums), np.ones_like(sums)
    for n in range(1, terms):
        term = following(term, n, *given)
        total = total + term
        if n % 16 == 0:
            sums[left] = total
            goes_on = ~(term < 1e-22 * total)
            left, term, total = left[goes_on], term[goes_on], total[goes_on]
            given = [argument[goes_on] for argument in given]
            if left.size == 0:
                break
    sums[left] = total
    return result


def _power_series(a: Array, x: Array) -> Array:
    """igamma(a, x) over x^a exp(-x) / Gamma(a + 1)."""
    return _series(lambda term, n, a, x: term * x / (a + n), 800, a, x)


def _continued_fraction(a: Array, x: Array) -> Array:
    """igammac(a, x) over x^a exp(-x) / Gamma(a), for x > a + 1: from the far end."""
    fraction = np.zeros_like(a)
    for n in range(150, 0, -1):
        fraction = n * (a - n) / (x + 2 * n + 1 - a + fraction)
    return np.asarray(1 / (x + 1 - a + fraction))


def _igamma_both(a: Array, x: Array) -> tuple[Array, Array]:
    """The lower and the upper incomplete gamma function, regularized, of positive numbers: by the power series left of
    a + 1, by the continued fraction right of it, and each as what the other leaves."""
    density = np.exp(a * np.log(x) - x - _lgamma_right(a + 1))
    left = np.asarray(x < a + 1)
    low = density * _where(left, _power_series, a, x)
    high = density * a * _where(~left, _continued_fraction, a, x)
    return np.where(left, low, 1 - high), np.where(left, 1 - low, high)


def _igamma_of(a: Array, x: Array, upper: int) -> Array:
    a, x = _arguments(a, x)
    usual = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    result = _where(usual, lambda a, x: _igamma_both(a, x)[upper], a, x)
    edge = np.where(np.isinf(a) | (x == 0), 0.0, 1.0)
    edge = np.where((a < 0) | (x < 0) | ((a == 0) & (x == 0)) | (np.isinf(a) & np.isinf(x)), np.nan, edge)
    edge = np.where(np.isnan(a) | np.isnan(x), np.nan, edge)
    return np.asarray(np.where(usual, result, 1 - edge if upper else edge))


def igamma(a: Array, x: Array) -> Array:
    """The distribution function of the gamma distribution of shape a."""
    return _igamma_of(a, x, 0).astype(np.float64)


def igammac(a: Array, x: Array) -> Array:
    """What igamma leaves of 1."""
    return _igamma_of(a, x, 1).astype(np.float64)


def _gamma_edges(a: Array, x: Array, of: Callable[[Array, Array], Array], at_zero: Array | float) -> Array:
    """A derivative of igamma with its values at the edges of the domain."""
    inside = np.asarray((a > 0) & (x > 0))
    result = _where(inside, of, a, x)
    edge = np.where(x == 0, at_zero, 0.0)
    edge = np.where((a < 0) | (x < 0) | ((a == 0) & (x == 0)) | np.isnan(a) | np.isnan(x), np.nan, edge)
    return np.asarray(np.where(inside, result, edge), np.float64)


def _density(a: Array, x: Array) -> Array:
    return np.asarray(np.exp((a - 1) * np.log(x) - x - _lgamma_right(a)))


def _slope_a(a: Array, x: Array) -> Array:
    """By the product rule, with differences of order six for the series and for the fraction."""
    step = np.minimum(a, 1) * _WIDE(0.001)

    left = np.asarray(x < a + 2)

    def both(function: Callable[[Array, Array], Array], needed: Array) -> tuple[Array, Array]:
        """The function and its derivative by a."""
        beside = a + np.arange(-3, 4).reshape(-1, *[1] * a.ndim) * step
        values = _where(np.broadcast_to(needed, beside.shape), function, beside, x)
        parts = [values[3 + k] - values[3 - k] for k in (1, 2, 3)]
        slope = (45 * parts[0] - 9 * parts[1] + parts[2]) / (60 * step)
        return values[3], np.asarray(slope)

    logarithmic = np.log(x) - _digamma(a)  # of the density
    series, series_slope = both(_power_series, left)
    fraction, fraction_slope = both(_continued_fraction, ~left)
    low = series * (logarithmic - 1 / a) + series_slope
    high = fraction * logarithmic + fraction_slope
    return np.asarray(_density(a, x) * np.where(left, low * x / a, -high * x))


def igamma_slope(a: Array, x: Array) -> Array:
    """The density of the gamma distribution."""
    a, x = _arguments(a, x)
    return _gamma_edges(a, x, _density, np.where(a > 1, 0.0, np.where(a == 1, 1.0, np.inf)))


def igamma_slope_a(a: Array, x: Array) -> Array:
    """The derivative of igamma by a."""
    a, x = _arguments(a, x)
    return _gamma_edges(a, x, _slope_a, 0.0)


def gamma_sample_slope(a: Array, x: Array) -> Array:
    """The derivative of a number x of the gamma distribution by the shape a, its place in the distribution held."""
    a, x = _arguments(a, x)
    return _gamma_edges(a, x, lambda a, x: np.asarray(-_slope_a(a, x) / _density(a, x)), 0.0)


def _bessel(x: Array, order: int, scaled: bool) -> Array:
    """The power series, whose terms are all positive; beyond 50, where it would be long, the expansion for large
    numbers, whose smallest term is below 1e-40 there."""
    (x,) = _arguments(x)
    size = np.minimum(np.where(np.isnan(x), 0, np.abs(x)), 50)
    square = size * size / 4
    term = (size / 2) ** order
    total = term
    for k in range(1, 200):
        term = term * (square / (k * (k + order)))
        total = total + term
    large = np.maximum(np.where(np.isnan(x), 50, np.abs(x)), 50)
    far_term = far = 1 / np.sqrt(2 * _PI * large)
    for k in range(1, 40):
        far_term = far_term * ((2 * k - 1) ** 2 - 4 * order * order) / (8 * k * large)
        far = far + far_term
    if scaled:
        total = total * np.exp(-size)
    else:
        far = np.where(np.isinf(large), np.inf, np.exp(np.minimum(large, 11000)) * far)
    result = np.where(np.abs(x) > 50, far, total)
    result = np.where(np.isnan(x), np.nan, result)
    return np.asarray(np.copysign(result, x) if order else result, np.float64)


def bessel_i0(x: Array) -> Array:
    """The modified Bessel function of the first kind of order 0."""
    return _bessel(x, 0, False)


def bessel_i0e(x: Array) -> Array:
    """exp(-|x|) bessel_i0(x)."""
    return _bessel(x, 0, True)


def bessel_i1(x: Array) -> Array:
    """The modified Bessel function of the first kind of order 1."""
    return _bessel(x, 1, False)


def bessel_i1e(x: Array) -> Array:
    """exp(-|x|) bessel_i1(x)."""
    return _bessel(x, 1, True)


def bessel_ratio(x: Array, scaled: bool) -> Array:
    """bessel_i1(x) / x, or that of bessel_i1e."""
    x = np.asarray(x)
    return np.where(x == 0, 0.5, _bessel(x, 1, scaled) / np.where(x == 0, 1, x))


def _erfinv_of_one(x: float) -> float:
    if not abs(x) < 1:
        return math.copysign(math.inf, x) if abs(x) == 1 else math.nan
    if abs(x) > 0.5:
        return math.copysign(_tail((1 - abs(x)) / 2) / math.sqrt(2), x)
    y = x * math.sqrt(math.pi) / 2
    for _ in range(6):  # Newton's method
        y -= (math.erf(y) - x) * math.sqrt(math.pi) / 2 * math.exp(y * y)
    return y


def _tail(p: float) -> float:
    """The positive number that a normally distributed one is above with a probability of p: a step of Newton's method
    behind Python's approximation."""
    y = -NormalDist().inv_cdf(p)
    return y + (math.erfc(y / math.sqrt(2)) / 2 - p) * math.sqrt(2 * math.pi) * math.exp(y * y / 2)


def _ndtri_of_one(p: float) -> float:
    if not 0 < p < 1:
        return -math.inf if p == 0 else math.inf if p == 1 else math.nan
    if abs(p - 0.5) <= 0.25:
        return math.sqrt(2) * _erfinv_of_one(2 * p - 1)
    return -_tail(p) if p < 0.5 else _tail(1 - p)


erfinv = np.vectorize(_erfinv_of_one, otypes=[np.float64])
ndtri = np.vectorize(_ndtri_of_one, otypes=[np.float64])


# -- numbers as they are stored


def ldexp(x: Array, n: Array) -> Array:
    """x * 2^n; n is rounded toward zero."""
    exponent = np.trunc(np.clip(np.nan_to_num(n, nan=0.0, posinf=5000.0, neginf=-5000.0), -5000, 5000))
    return np.where(np.isnan(n), np.nan, np.ldexp(x, exponent.astype(np.int32)))


def heaviside(x: Array, y: Array) -> Array:
    """0 left of 0 and of NaN, y at 0, 1 right of it."""
    one = x.dtype.type(1)
    return np.where(x == 0, y, np.where(x > 0, one, one - one))


def fmax(x: Array, y: Array) -> Array:
    """The larger one, or the one that is a number."""
    return np.where((x >= y) | (y != y), x, y)


def fmin(x: Array, y: Array) -> Array:
    """The smaller one, or the one that is a number."""
    return np.where((x <= y) | (y != y), x, y)
