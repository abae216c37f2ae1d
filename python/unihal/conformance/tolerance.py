"""How far a result may lie from the reference, for all cases.

A value v that was computed with k roundings in a compute type C, each relative to at most m, and then stored in a dtype
D may be off by

    u(D) |v|  +  k u(C) m  +  e  +  s

* u is the unit roundoff, half the distance from 1 to the next number: the largest relative error of one rounding to
  nearest (N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., theorem 2.2).
* C is float64 if any operand is float64, else float32 (include/unihal/op.h, "Arithmetic"). The reference is computed in
  float64 as well, so for C = float64 the second term counts twice.
* k is what the case says. A sum of n terms in any order has an error of at most (n - 1) u sum|x| (Higham, section 4.2),
  and with rounding errors that are independent of each other a small multiple of sqrt(n) u sum|x| with overwhelming
  probability (Higham and Mary, A new approach to probabilistic rounding error analysis, 2019): ``summation_roundings``.
  Where operands repeat their elements (stride 0, overlapping windows), roundings repeat too and add up: then k counts
  for k^2 / 16, the n of its square root.
  Elementary functions count as many roundings as OpenCL C 1.2, section 7.4, grants a device (twice its ulps).
* m is the value's own magnitude, or what the case says: for a sum, the sum of the absolute terms.
* e is an absolute error that the case brings along, such as that of a finite difference, of the factors that an op's
  math mode lets be rounded (``factor_error``), or of a sum that may be rounded before its activation in 16 bits
  (``early_rounding_error``).
* s is half the least subnormal number of D, and the least normal number of C: devices may flush subnormal results to
  zero. Exact results (k = 0) have no such allowance.

Of complex numbers each part is compared so, with |v| the modulus. Inexact ones are infinite if one of their parts is,
which must agree then, and NaN if not and one of their parts is NaN (C11, annex G).

A result with k = 0 must be the correctly rounded one, with the sign of zero. NaN must be NaN and nothing else. A value
beyond the largest number of D must be infinite; where the error above covers the edge, either side will do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .case import Array, Expected
from .number_format import FORMATS, is_inexact, round_to
from .reference.enums import MathMode

#: The factor before sqrt(n). The error of one sum of independent roundings exceeds it with a probability of at most
#: 2 exp(-4^2 / 2) < 0.001 even where every rounding is as large as it can be; real ones are a third of that.
_DEVIATIONS = 4


def summation_roundings(terms: int) -> float:
    """The roundings that a sum of so many terms counts for."""
    return min(float(terms), _DEVIATIONS * math.sqrt(terms)) if terms > 1 else 1.0


#: Of TF32, whose mantissa has 10 bits and the one that is not stored.
_TF32_ROUNDOFF = 2.0**-11


def factor_error(attributes: Mapping[str, Any], dtype: str, magnitude: Callable[[], Array]) -> Array | float:
    """The error of sums of products whose two factors may be rounded first, as the math mode among an op's attributes
    allows for operands of one dtype. ``magnitude`` gives the sums of the absolute products."""
    allows_tf32 = attributes.get("math_mode", MathMode.STRICT) == MathMode.ALLOW_TF32 and dtype == "float32"
    return 2 * _TF32_ROUNDOFF * magnitude() if allows_tf32 else 0.0


def early_rounding_error(dtype: str, *values: Array) -> Array | float:
    """The error of one rounding to ``dtype`` of any one of some intermediate values: op.h allows that for 16 bits."""
    if dtype not in ("float16", "bfloat16"):
        return 0.0
    stored = FORMATS[dtype]
    size = np.fmax.reduce([np.minimum(np.abs(value), stored.largest) for value in values])
    return np.asarray(stored.unit_roundoff * np.nan_to_num(size) + stored.smallest_subnormal / 2)


def compute_type(dtypes: Iterable[str]) -> str:
    """The floating type in which an op on operands of these dtypes computes."""
    return "float64" if {"float64", "complex128"} & set(dtypes) else "float32"


def unit_roundoff(dtype: str) -> float:
    """The largest relative error of rounding to a floating dtype."""
    return FORMATS[dtype].unit_roundoff


@dataclass(frozen=True)
class Arithmetic:
    """How an op computes, as far as its errors depend on it."""

    #: float32 or float64.
    computed_in: str
    #: Elements of an operand repeat.
    repeating: bool = False


def error_bound(expected: Expected, dtype: str, arithmetic: Arithmetic) -> Array:
    """The largest error of an inexact result that is stored in ``dtype``."""
    stored, computed = FORMATS[dtype], FORMATS[arithmetic.computed_in]
    # No larger than numbers can be: an infinite result has no infinite tolerance.
    size = np.minimum(np.abs(expected.values), stored.largest)
    roundings = expected.roundings
    if arithmetic.repeating:
        roundings = max(roundings, (roundings / _DEVIATIONS) ** 2)
    roundings *= 2 if arithmetic.computed_in == "float64" else 1
    magnitude = size if expected.magnitude is None else np.minimum(np.abs(expected.magnitude), computed.largest)
    least = computed.smallest_normal + stored.smallest_subnormal / 2
    with np.errstate(invalid="ignore", over="ignore"):
        bound = stored.unit_roundoff * size + roundings * computed.unit_roundoff * magnitude + expected.error + least
    return np.asarray(bound)


def mismatches(actual: Array, expected: Expected, dtype: str, arithmetic: Arithmetic) -> Array:
    """True where an output is wrong; ``actual`` are its decoded elements."""
    values = np.broadcast_to(expected.values, actual.shape)
    if not is_inexact(dtype):
        wrong = np.asarray(actual != round_to(values, dtype))
    elif expected.roundings == 0:
        wrong = ~_identical(actual, round_to(values, dtype))
    else:
        bound = np.broadcast_to(error_bound(expected, dtype, arithmetic), actual.shape)
        wrong = ~_close(actual, values, bound, dtype)
    return np.asarray(wrong if expected.unspecified is None else wrong & ~expected.unspecified)


def _identical(actual: Array, values: Array) -> Array:
    if np.iscomplexobj(actual):
        return np.logical_and(_identical(actual.real, values.real), _identical(actual.imag, values.imag))
    same = (actual == values) & (np.signbit(actual) == np.signbit(values))
    return np.asarray(same | (np.isnan(actual) & np.isnan(values)))


def _close(actual: Array, values: Array, bound: Array, dtype: str) -> Array:
    if np.iscomplexobj(actual):
        real = _close(actual.real, values.real, bound, dtype)
        imaginary = _close(actual.imag, values.imag, bound, dtype)
        infinite = np.isinf(values)
        # Whatever is beside an infinite part, and its sign beside NaN: C leaves them open, libraries differ.
        beside = (real | ~np.isinf(values.real)) & (imaginary | ~np.isinf(values.imag))
        beside |= np.isnan(values) & (np.isinf(actual.real) == np.isinf(values.real)) & np.isinf(actual)
        return np.asarray(np.where(infinite, beside, np.where(np.isnan(values), np.isnan(actual), real & imaginary)))
    largest = FORMATS[dtype].largest
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(actual - values)
    if np.max(np.abs(values), initial=0) <= largest and np.isfinite(np.max(distance, initial=0)):
        # All are numbers of the format, for which the rest comes to this.
        return np.asarray(distance <= bound)
    with np.errstate(invalid="ignore", over="ignore"):
        # An infinite result stands for anything from the largest number on.
        seen = np.where(np.isinf(actual), np.copysign(largest, actual), actual)
        wanted = np.clip(values, -largest, largest)
        close = np.abs(seen - wanted) <= bound
        # Away from the edge of the range, infinite and finite are different things.
        far = np.abs(np.abs(values) - largest) > bound + FORMATS[dtype].unit_roundoff * largest
        beyond = np.abs(values) > largest
    close &= ~far | (np.isinf(actual) == beyond)
    return np.where(np.isnan(values), np.isnan(actual), close & ~np.isnan(actual))
