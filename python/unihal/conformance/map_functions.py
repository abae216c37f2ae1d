"""The functions of UHAL_OP_MAP: what each must give, on which numbers it is tried, and how exact it must be.

The rows follow csrc/tables/elementwise.def. Exact functions choose or test, or round by IEEE's rules: they have one
right answer. Others count roundings: two for each ulp that OpenCL C 1.2, section 7.4, grants an elementary function,
one for each operation of arithmetic. A ``conditioned`` one may also be what the formula gives for operands and
parameters that are themselves off by so many roundings (mixed stability: Higham, section 1.5), as inner results are
rounded too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, Callable

import numpy as np

from .. import _core
from .case import Array, Values
from .reference import elementwise as e
from .reference import special as s
from .reference import special_integrals as i
from .values import integers, listed, normal, uniform


@cache
def known_functions() -> dict[str, dict[str, Any]]:
    """What the library says of each function."""
    return _core.map_functions()


# What operands are filled with.
_ANY = normal(2)
_POSITIVE = uniform(0.1, 4)
_UNIT = uniform(-0.95, 0.95)
_PROBABILITY = uniform(0.05, 0.95)
_ABOVE_ONE = uniform(1.1, 5)
_FEW = integers(-3, 4)
_BITS = integers(0, 9)


@dataclass(frozen=True)
class MapFunction:
    """A row of the table."""

    name: str
    #: Gets the operands, then the parameters as numbers; gives one array or a tuple of them.
    reference: Callable[..., Any]
    #: Of each operand.
    values: tuple[Values, ...]
    parameters: tuple[float, ...] = ()
    #: The parameters for integer operands, if others.
    integer_parameters: tuple[int, ...] | None = None
    roundings: float = 0
    conditioned: bool = False
    #: What the roundings are relative to, where terms of the formula cancel; gets what the reference gets.
    magnitude: Callable[..., Array] | None = None
    #: NaN, infinities and zeros give what C's functions give (C11, annex F); else only zeros and NaN are tried.
    special: bool = True
    #: The result is true or false.
    test: bool = False
    #: Defined on integers only.
    bits: bool = False
    #: The reference gets its operands in the type that the function computes in, not in float64.
    in_compute_type: bool = False
    #: Takes the reference's place where the result is a bool.
    bool_reference: Callable[..., Array] | None = None


def _exact(name: str, reference: Callable[..., Any], *values: Values, **fields: Any) -> MapFunction:
    return MapFunction(name, reference, values or (_ANY,), **fields)


def _rounded(name: str, roundings: float, reference: Callable[..., Any], *values: Values, **fields: Any) -> MapFunction:
    return MapFunction(name, reference, values or (_ANY,), roundings=roundings, **fields)


def _composed(
    name: str, roundings: float, reference: Callable[..., Any], *values: Values, **fields: Any
) -> MapFunction:
    return MapFunction(name, reference, values or (_ANY,), roundings=roundings, special=False, **fields)


def _test(name: str, reference: Callable[..., Any], *values: Values) -> MapFunction:
    return MapFunction(name, reference, values, test=True)


def _bits(name: str, reference: Callable[..., Any], *values: Values, **fields: Any) -> MapFunction:
    return MapFunction(name, reference, values, bits=True, **fields)


def _where(condition: Array, yes: Any, no: Any) -> Array:
    return np.asarray(np.where(condition, yes, no))


def _leaky_relu_backward(x: Array, g: Array, slope: float, passes_at_zero: float) -> Array:
    return _where((x > 0) | ((x == 0) & (passes_at_zero != 0)), g, g * slope)


def _chosen(mine: Array, tie: Array, g: Array, share: float) -> Array:
    return _where(mine, g, _where(tie, g * share, 0.0))


# What the second operand gets where both are equal.
_TIES: dict[str, Any] = {"parameters": (0.25,)}
_SELU = (1.0507009873554805, 1.6732632423543772)
_HARD_SWISH = (6, 6, 3)
_RATE = uniform(0.01, 0.1)
_ADAM_VALUES = (normal(), normal(), normal(0.3), uniform(0.05, 1), _RATE, _PROBABILITY, _PROBABILITY)

_ARITHMETIC = (
    _exact("identity", lambda x: x),
    _exact("negative", lambda x: -x),
    _exact("absolute", e.absolute),
    _exact("sign", e.sign),
    _exact("replace_negative_zero", e.replace_negative_zero, parameters=(-0.5,), integer_parameters=(-5,)),
    _rounded("square", 1, lambda x: x * x),
    _rounded("reciprocal", 5, lambda x: 1 / x, _POSITIVE),
    _rounded(
        "scale", 2, lambda x, a, b: x * a + b, parameters=(1.75, -2.5), integer_parameters=(3, 2), conditioned=True
    ),
    _rounded(
        "add_then_scale",
        2,
        lambda x, a, b: (x + b) * a,
        parameters=(1.75, -2.5),
        integer_parameters=(3, 2),
        conditioned=True,
    ),
    _exact("clip", e.clip, parameters=(-0.5, 0.75), integer_parameters=(1, 5)),
    _rounded("add", 1, lambda x, y: x + y, _ANY, _ANY),
    _rounded("subtract", 1, lambda x, y: x - y, _ANY, _ANY),
    _rounded("multiply", 1, lambda x, y: x * y, _ANY, _ANY),
    _rounded("divide", 5, lambda x, y: e.truncate_divide(x, y) if e.is_integer(x) else x / y, _ANY, _ANY),
    _rounded("divide_no_nan", 5, lambda x, y: _where(y == 0, 0.0, x / y), _ANY, _FEW),
    _rounded("multiply_no_nan", 1, lambda x, y: _where(y == 0, 0.0, x * y), _ANY, _FEW),
    _rounded("floor_divide", 5, e.floor_divide, normal(8), _ANY, conditioned=True),
    _rounded("floor_divide_exact", 5, e.floor_divide_exact, normal(8), _ANY, conditioned=True),
    _rounded("floor_mod", 1, e.floor_mod, normal(8), _ANY, magnitude=lambda x, y: _where(np.isinf(y), 0, y)),
    _rounded("truncate_divide", 5, e.truncate_divide, normal(8), _ANY, conditioned=True),
    _exact("truncate_mod", e.truncate_mod, normal(8), _ANY),
    _rounded("maximum", 0.5, e.maximum, _ANY, _ANY),
    _rounded("minimum", 0.5, np.minimum, _ANY, _ANY),
    _rounded("squared_difference", 3, lambda x, y: (x - y) * (x - y), _ANY, _ANY),
    _rounded("power", 32, e.power, _POSITIVE, _ANY),
    _rounded(
        "power_scalar",
        32,
        lambda x, p: e.power(x, np.asarray(p, x.dtype)),
        _POSITIVE,
        parameters=(2.5,),
        integer_parameters=(3,),
    ),
    _rounded("multiply_add", 2, lambda x, y, z: x * y + z, _ANY, _ANY, _ANY, conditioned=True),
    _composed("linear_interpolation", 3, lambda x, y, z: x + z * (y - x), _ANY, _ANY, _PROBABILITY, conditioned=True),
    _exact("select", lambda x, y, z: _where(x != 0, y, z), _FEW, _ANY, _ANY),
)

#: Of complex numbers, as real ones have them; complex_functions.py has the rest.
_PARTS = (
    _exact("conjugate", lambda x: x),
    _exact("real", lambda x: x),
    _exact("imaginary", np.zeros_like),
    _rounded("angle", 12, lambda x: _where(x < 0, np.pi, _where(x == x, 0.0, x))),
    _exact("complex", lambda x, y: x, _ANY, _ANY),
    _composed("polar", 9, lambda x, y: x * np.cos(y), _ANY, _ANY),
    _rounded("multiply_conjugate", 1, lambda x, y: x * y, _ANY, _ANY),
    _rounded("divide_conjugate", 5, lambda x, y: x / y, _ANY, _ANY),
    _exact("angle_backward", lambda x, g: _where((x == x) & (g == g), 0.0, x + g), _ANY, _ANY),
)

_ROUNDING = (
    _exact("floor", np.floor),
    _exact("ceil", np.ceil),
    _exact("round_half_to_even", np.rint),
    _exact("round_half_away", e.round_half_away),
    _exact("truncate", np.trunc),
)

_ELEMENTARY = (
    _rounded("exp", 6, np.exp),
    _rounded("expm1", 6, np.expm1),
    _rounded("log", 6, np.log, _POSITIVE),
    _rounded("log1p", 4, np.log1p, _POSITIVE),
    _rounded("log2", 6, np.log2, _POSITIVE),
    _rounded("log10", 6, np.log10, _POSITIVE),
    _rounded("sqrt", 6, np.sqrt, _POSITIVE),
    _rounded("rsqrt", 7, lambda x: 1 / np.sqrt(x), _POSITIVE),
    _rounded("sin", 8, np.sin),
    _rounded("cos", 8, np.cos),
    _rounded("tan", 10, np.tan),
    _rounded("asin", 8, np.arcsin, _UNIT),
    _rounded("acos", 8, np.arccos, _UNIT),
    _rounded("atan", 10, np.arctan),
    _rounded("sinh", 8, np.sinh),
    _rounded("cosh", 8, np.cosh),
    _rounded("tanh", 10, np.tanh),
    _rounded("asinh", 8, np.arcsinh),
    _rounded("acosh", 8, np.arccosh, _ABOVE_ONE),
    _rounded("atanh", 10, np.arctanh, _UNIT),
    _rounded("atan2", 12, np.arctan2, _ANY, _ANY),
    _rounded("erf", 32, e.erf),
    _rounded("erfc", 32, e.erfc),
)

_ACTIVATIONS = (
    _exact("relu", lambda x: _where(x < 0, x.dtype.type(0), x)),
    _exact("relu6", lambda x: e.clip(x, 0, 6), normal(4)),
    _rounded("leaky_relu", 2, lambda x, p: _where(x < 0, x * p, x), parameters=(0.1,)),
    _composed("elu", 8, lambda x, p: _where(x < 0, p * np.expm1(x), x), parameters=(1.25,)),
    _composed("selu", 12, lambda x, p, q: _where(x < 0, p * q * np.expm1(x), p * x), parameters=_SELU),
    _rounded("sigmoid", 14, e.sigmoid),
    _composed("log_sigmoid", 12, lambda x: -e.softplus(-x)),
    _composed("silu", 15, lambda x: x * e.sigmoid(x)),
    _composed("swish", 16, lambda x, p: x * e.sigmoid(p * x), parameters=(1.7,), conditioned=True),
    _composed("gelu_erf", 36, lambda x: x * e.normal_distribution(x), conditioned=True, magnitude=np.abs),
    _composed("gelu_tanh", 20, e.gelu_tanh, conditioned=True, magnitude=np.abs),
    _composed(
        "softplus",
        16,
        lambda x, p, q: _where(x * p > q, x, e.softplus(x * p) / p),
        parameters=(0.75, 20),
        conditioned=True,
    ),
    _composed("softsign", 7, lambda x: x / (1 + np.abs(x))),
    _composed("mish", 24, lambda x: x * np.tanh(e.softplus(x))),
    _composed("hard_sigmoid", 2, lambda x, p, q: e.clip(x * p + q, 0, 1), parameters=(1 / 6, 0.5), conditioned=True),
    _composed(
        "hard_swish", 8, lambda x, p, q, r: x * e.clip(x + r, 0, p) / q, parameters=_HARD_SWISH, conditioned=True
    ),
    _exact("hard_tanh", e.clip, parameters=(-1, 1)),
    _exact("hard_shrink", lambda x, p: _where((x <= p) & (x >= -p), 0.0, x), parameters=(0.5,)),
    _rounded(
        "soft_shrink",
        1,
        lambda x, p: _where(x > p, x - p, _where(x < -p, x + p, _where(x == x, 0.0, x))),
        parameters=(0.5,),
    ),
    _exact("thresholded_relu", lambda x, p, q: _where(x <= p, q, x), parameters=(1, 0.25)),
)

_TESTS = (
    _test("is_nan", lambda x: x != x, _ANY),
    _test("is_infinite", np.isinf, _ANY),
    _test("is_finite", np.isfinite, _ANY),
    _test("equal", lambda x, y: x == y, _FEW, _FEW),
    _test("not_equal", lambda x, y: x != y, _FEW, _FEW),
    _test("less", lambda x, y: x < y, _FEW, _FEW),
    _test("less_equal", lambda x, y: x <= y, _FEW, _FEW),
    _test("greater", lambda x, y: x > y, _FEW, _FEW),
    _test("greater_equal", lambda x, y: x >= y, _FEW, _FEW),
    _test("logical_not", lambda x: x == 0, _FEW),
    _test("logical_and", lambda x, y: (x != 0) & (y != 0), _FEW, _FEW),
    _test("logical_or", lambda x, y: (x != 0) | (y != 0), _FEW, _FEW),
    _test("logical_xor", lambda x, y: (x != 0) ^ (y != 0), _FEW, _FEW),
    _bits("bitwise_not", lambda x: ~x, _BITS, bool_reference=lambda x: x == 0),
    _bits("bitwise_and", lambda x, y: x & y, _BITS, _BITS),
    _bits("bitwise_or", lambda x, y: x | y, _BITS, _BITS),
    _bits("bitwise_xor", lambda x, y: x ^ y, _BITS, _BITS),
    _bits("shift_left", e.shift_left, _BITS, _BITS),
    _bits("shift_right", e.shift_right, integers(-100, 100), _BITS),
)

_GRADIENTS = (
    _exact("relu_backward", lambda x, g: _where(x > 0, g, 0.0), _ANY, _ANY),
    _exact("relu6_backward", lambda x, g: _where((x > 0) & (x < 6), g, 0.0), normal(4), _ANY),
    _rounded("leaky_relu_backward", 2, _leaky_relu_backward, _ANY, _ANY, parameters=(0.1, 1.0)),
    _composed("elu_backward", 9, lambda x, g, p: g * _where(x > 0, 1, p * np.exp(x)), _ANY, _ANY, parameters=(1.25,)),
    _composed(
        "selu_backward",
        5,
        lambda y, g, p, q: g * _where(y > 0, p, y + p * q),
        uniform(-1.7, 3),
        _ANY,
        parameters=_SELU,
        conditioned=True,
    ),
    _composed("sigmoid_backward", 4, lambda y, g: g * y * (1 - y), _PROBABILITY, _ANY, conditioned=True),
    _composed("tanh_backward", 4, lambda y, g: g * (1 - y**2), _UNIT, _ANY, conditioned=True),
    _composed("log_sigmoid_backward", 15, lambda x, g: g * e.sigmoid(-x), _ANY, _ANY),
    _composed(
        "silu_backward",
        30,
        lambda x, g: g * e.swish_derivative(x, 1),
        _ANY,
        _ANY,
        magnitude=lambda x, g: g * (1 + np.abs(x)),
    ),
    _composed(
        "swish_backward",
        34,
        lambda x, g, p: g * e.swish_derivative(x, p),
        _ANY,
        _ANY,
        parameters=(1.7,),
        conditioned=True,
        magnitude=lambda x, g, p: g * (1 + np.abs(p * x)),
    ),
    _composed(
        "gelu_erf_backward",
        40,
        lambda x, g: g * (e.normal_distribution(x) + x * e.normal_density(x)),
        _ANY,
        _ANY,
        magnitude=lambda x, g: g * (1 + x * x),
    ),
    _composed(
        "gelu_tanh_backward",
        40,
        lambda x, g: g * e.gelu_tanh_derivative(x),
        _ANY,
        _ANY,
        conditioned=True,
        magnitude=lambda x, g: g * (1 + np.abs(x) + np.abs(x) ** 3 / 8),
    ),
    _composed(
        "softplus_backward",
        16,
        lambda x, g, p, q: g * _where(x * p > q, 1, e.sigmoid(x * p)),
        _ANY,
        _ANY,
        parameters=(0.75, 20),
        conditioned=True,
    ),
    _composed("softsign_backward", 9, lambda x, g: g / (1 + np.abs(x)) ** 2, _ANY, _ANY),
    _rounded(
        "hard_sigmoid_backward",
        2,
        lambda y, g, p, q: _where((y > 0) & (y < 1), g * p, 0.0),
        uniform(-0.2, 1.2),
        _ANY,
        parameters=(1 / 6, 0.5),
    ),
    _composed(
        "hard_swish_backward",
        8,
        lambda x, g, p, q, r: _where(x + r <= 0, 0.0, _where(x + r >= p, g * (p / q), g * (2 * x + r) / q)),
        normal(4),
        _ANY,
        parameters=_HARD_SWISH,
        conditioned=True,
    ),
    _exact("hard_tanh_backward", lambda x, g, p, q: _where((x > p) & (x < q), g, 0.0), _ANY, _ANY, parameters=(-1, 1)),
    _exact("clip_backward", lambda x, g, p, q: _where((x >= p) & (x <= q), g, 0.0), _FEW, _ANY, parameters=(-1, 2)),
    _composed("sqrt_backward", 7, lambda y, g: g / (2 * y), _POSITIVE, _ANY),
    _composed("rsqrt_backward", 4, lambda y, g: -g * y**3 / 2, _POSITIVE, _ANY),
    _composed("reciprocal_backward", 2, lambda y, g: -g * y**2, _POSITIVE, _ANY),
    _composed("square_backward", 2, lambda x, g: 2 * g * x, _ANY, _ANY),
    _exact("absolute_backward", lambda x, g: _where(x > 0, g, _where(x < 0, -g, _where(x == x, 0.0, x))), _ANY, _ANY),
    _composed("sin_backward", 9, lambda x, g: g * np.cos(x), _ANY, _ANY),
    _composed("cos_backward", 9, lambda x, g: -g * np.sin(x), _ANY, _ANY),
    _composed(
        "erf_backward", 10, lambda x, g: g * 2 / math.sqrt(math.pi) * np.exp(-x * x), _ANY, _ANY, conditioned=True
    ),
    _composed("power_scalar_backward", 35, lambda x, g, p: g * p * x ** (p - 1), _POSITIVE, _ANY, parameters=(2.5,)),
    _composed("divide_backward_divisor", 8, lambda x, y, g: -g * (x / y) / y, _ANY, _POSITIVE, _ANY),
    _rounded(
        "maximum_backward_first", 1, lambda x, y, g, p: _chosen(x > y, x == y, g, 1 - p), _FEW, _FEW, _ANY, **_TIES
    ),
    _rounded("maximum_backward_second", 1, lambda x, y, g, p: _chosen(x < y, x == y, g, p), _FEW, _FEW, _ANY, **_TIES),
    _rounded(
        "minimum_backward_first", 1, lambda x, y, g, p: _chosen(x < y, x == y, g, 1 - p), _FEW, _FEW, _ANY, **_TIES
    ),
    _rounded("minimum_backward_second", 1, lambda x, y, g, p: _chosen(x > y, x == y, g, p), _FEW, _FEW, _ANY, **_TIES),
)

_OPTIMIZERS = (
    _composed("sgd", 3, lambda x, g, rate: x - rate * g, _ANY, _ANY, _RATE, conditioned=True),
    _composed("momentum", 8, e.momentum, _ANY, _ANY, _ANY, _RATE, parameters=(0.9, 1, 0.01, 0.5), conditioned=True),
    _composed("adam", 16, e.adam, *_ADAM_VALUES, parameters=(0.9, 0.99, 1e-7, 0.01, 0.5), conditioned=True),
    _composed(
        "adam_corrected",
        16,
        e.adam_corrected,
        *_ADAM_VALUES[:5],
        parameters=(0.9, 0.99, 1e-7, 0.01, 0.6),
        conditioned=True,
    ),
    _composed(
        "adam_amsgrad",
        16,
        e.adam_amsgrad,
        *_ADAM_VALUES,
        uniform(0.05, 1),
        parameters=(0.9, 0.99, 1e-7, 0.01, 0.5),
        conditioned=True,
    ),
    _composed(
        "adam_epsilon_hat", 16, e.adam_epsilon_hat, *_ADAM_VALUES, parameters=(0.9, 0.99, 1e-7), conditioned=True
    ),
    _composed("adagrad", 16, e.adagrad, _ANY, _ANY, _POSITIVE, _RATE, parameters=(1e-7,), conditioned=True),
    _composed(
        "rmsprop",
        16,
        e.rmsprop,
        _ANY,
        _ANY,
        _POSITIVE,
        normal(0.1),
        _RATE,
        parameters=(0.9, 0.8, 1e-7),
        conditioned=True,
    ),
    _composed(
        "momentum_with_rate", 8, e.momentum_with_rate, _ANY, _ANY, _ANY, _RATE, parameters=(0.9, 1), conditioned=True
    ),
    _composed(
        "adam_by_difference",
        16,
        e.adam_by_difference,
        *_ADAM_VALUES[:5],
        parameters=(0.1, 0.01, 1e-7),
        conditioned=True,
    ),
    _composed(
        "adamw_by_difference",
        18,
        e.adamw_by_difference,
        *_ADAM_VALUES[:5],
        _RATE,
        parameters=(0.1, 0.01, 1e-7),
        conditioned=True,
    ),
    _composed(
        "rmsprop_centered",
        18,
        e.rmsprop_centered,
        _ANY,
        uniform(-1, 1),
        uniform(2, 4),
        normal(0.1),
        _RATE,
        uniform(-0.5, 0.5),
        parameters=(0.9, 0.8, 1e-3),
        conditioned=True,
    ),
    _composed(
        "adadelta", 24, e.adadelta, _ANY, _ANY, _POSITIVE, _POSITIVE, _RATE, parameters=(0.9, 1e-3), conditioned=True
    ),
    _composed("adamax", 16, e.adamax, *_ADAM_VALUES[:6], parameters=(0.9, 0.99, 1e-3), conditioned=True),
    _composed(
        "adam_amsgrad_epsilon_hat",
        16,
        e.adam_amsgrad_epsilon_hat,
        *_ADAM_VALUES,
        uniform(0.05, 1),
        parameters=(0.9, 0.99, 1e-3),
        conditioned=True,
    ),
    _composed(
        "adamax_epsilon_outside",
        16,
        e.adamax_epsilon_outside,
        *_ADAM_VALUES[:6],
        parameters=(0.9, 0.99, 1e-3),
        conditioned=True,
    ),
    # A linear term well beyond the limit, so that rounding does not choose between 0 and a number.
    _composed(
        "ftrl",
        60,
        e.ftrl,
        _ANY,
        _ANY,
        _POSITIVE,
        uniform(4, 8),
        _RATE,
        parameters=(0.1, 0.2, -0.5, 0.01, 1),
        conditioned=True,
    ),
    _composed(
        "add_sign", 12, e.add_sign, _ANY, _POSITIVE, _POSITIVE, _RATE, parameters=(0.9, 1, 0.5), conditioned=True
    ),
    _composed(
        "power_sign", 20, e.power_sign, _ANY, _POSITIVE, _POSITIVE, _RATE, parameters=(0.9, 0.5), conditioned=True
    ),
    _composed(
        "proximal_gradient_descent",
        12,
        e.proximal_gradient_descent,
        _ANY,
        _ANY,
        _RATE,
        parameters=(0.1, 0.2),
        conditioned=True,
    ),
    _composed(
        "proximal_adagrad",
        16,
        e.proximal_adagrad,
        _ANY,
        _ANY,
        _POSITIVE,
        _RATE,
        parameters=(0.1, 0.2),
        conditioned=True,
    ),
    _composed("asgd", 10, e.asgd, _ANY, _ANY, _RATE, _ANY, _ANY, integers(1, 30), conditioned=True),
    _composed(
        "rprop",
        4,
        e.rprop,
        _ANY,
        _FEW,
        _FEW,
        _POSITIVE,
        _PROBABILITY,
        _ABOVE_ONE,
        _PROBABILITY,
        _ABOVE_ONE,
        conditioned=True,
    ),
    _composed(
        "lamb_direction",
        20,
        e.lamb_direction,
        *_ADAM_VALUES[:4],
        *_ADAM_VALUES[5:],
        parameters=(0.9, 0.99, 1e-3, 0.01),
        conditioned=True,
    ),
    _composed("lamb_rate", 6, e.lamb_rate, _RATE, _FEW, _FEW),
    _composed(
        "nadam_schedule", 100, e.nadam_schedule, _PROBABILITY, _PROBABILITY, parameters=(0.9, 0.25), conditioned=True
    ),
    _composed(
        "nadam",
        20,
        e.nadam,
        *_ADAM_VALUES[:5],
        _POSITIVE,
        _POSITIVE,
        _PROBABILITY,
        parameters=(0.9, 0.99, 1e-3),
        conditioned=True,
    ),
    # The second range is on both sides of where the step gets a rectification, and away from there.
    _composed(
        "radam_schedule",
        40,
        e.radam_schedule,
        _PROBABILITY,
        uniform(0.05, 0.5),
        listed([1.0, 150.0]),
        parameters=(0.9, 0.99),
        conditioned=True,
    ),
    _composed("radam", 20, e.radam, *_ADAM_VALUES[:6], _ANY, parameters=(0.9, 0.99, 1e-3), conditioned=True),
    _composed("adam_rate", 75, e.adam_rate, _RATE, integers(1, 30), parameters=(0.9, 0.99), conditioned=True),
)

_PRODUCTS = (
    _rounded("x_divided_by_y", 5, lambda x, y: _where(x == 0, 0.0, x / y), _FEW, _POSITIVE),
    _rounded("x_log_y", 7, lambda x, y: _where(x == 0, 0.0, x * np.log(y)), _FEW, _POSITIVE),
    _rounded("x_log1p_y", 5, lambda x, y: _where(x == 0, 0.0, x * np.log1p(y)), _FEW, _POSITIVE),
)

# Of either sign, but not large where they turn into unsigned integers: what overflows has no gradient.
_ARGUMENTS = uniform(-0.95, 12)
_SHAPES_AND_LIMITS = (_POSITIVE, _POSITIVE)

_SPECIAL_FUNCTIONS = (
    _rounded("lgamma", 32, s.lgamma, normal(4), magnitude=s.lgamma_terms),
    _rounded("digamma", 32, s.digamma, normal(4), magnitude=s.digamma_terms, conditioned=True),
    _rounded("zeta", 40, s.zeta, _ABOVE_ONE, _POSITIVE, magnitude=s.zeta_terms, conditioned=True),
    _rounded("polygamma", 48, s.polygamma, integers(0, 4), _POSITIVE, magnitude=s.polygamma_terms, conditioned=True),
    _rounded("igamma", 64, s.igamma, *_SHAPES_AND_LIMITS, conditioned=True),
    _rounded("igammac", 64, s.igammac, *_SHAPES_AND_LIMITS, conditioned=True),
    _rounded("bessel_i0", 24, s.bessel_i0, _ARGUMENTS, conditioned=True),
    _rounded("bessel_i0e", 24, s.bessel_i0e, _ARGUMENTS, conditioned=True),
    _rounded("bessel_i1", 24, s.bessel_i1, _ARGUMENTS, conditioned=True),
    _rounded("bessel_i1e", 24, s.bessel_i1e, _ARGUMENTS, conditioned=True),
    _rounded("erfinv", 40, s.erfinv, _UNIT),
    _rounded("ndtri", 40, s.ndtri, _PROBABILITY),
    _exact("nextafter", np.nextafter, _ANY, _ANY, in_compute_type=True),
    _exact("ldexp", s.ldexp, _ANY, _FEW),
    _exact("copysign", np.copysign, _ANY, _ANY),
    _exact("heaviside", s.heaviside, _FEW, _ANY),
    _bits("gcd", np.gcd, integers(-60, 100), integers(-60, 100)),
    _bits("lcm", np.lcm, integers(-60, 100), integers(-60, 100)),
    _exact("fmax", s.fmax, _ANY, _ANY),
    _exact("fmin", s.fmin, _ANY, _ANY),
    _composed(
        "lgamma_backward",
        33,
        lambda x, g: g * s.digamma(x),
        normal(4),
        _ANY,
        magnitude=lambda x, g: g * s.digamma_terms(x),
        conditioned=True,
    ),
    _composed(
        "digamma_backward",
        49,
        lambda x, g: g * s.polygamma(np.asarray(1.0), x),
        normal(4),
        _ANY,
        magnitude=lambda x, g: g * s.polygamma_terms(np.asarray(1.0), x),
        conditioned=True,
    ),
    _composed(
        "polygamma_backward",
        49,
        lambda n, x, g: g * s.polygamma(n + 1, x),
        integers(0, 4),
        _POSITIVE,
        _ANY,
        magnitude=lambda n, x, g: g * s.polygamma_terms(n + 1, x),
        conditioned=True,
    ),
    *(
        _composed(name, 64, reference, *_SHAPES_AND_LIMITS, _ANY, conditioned=True)
        for name, reference in (
            ("igamma_backward_first", lambda a, x, g: g * s.igamma_slope_a(a, x)),
            ("igamma_backward_second", lambda a, x, g: g * s.igamma_slope(a, x)),
            ("igammac_backward_first", lambda a, x, g: -g * s.igamma_slope_a(a, x)),
            ("igammac_backward_second", lambda a, x, g: -g * s.igamma_slope(a, x)),
            ("gamma_sample_backward", lambda a, x, g: g * s.gamma_sample_slope(a, x)),
        )
    ),
    _composed("bessel_i0_backward", 25, lambda x, g: g * s.bessel_i1(x), _ARGUMENTS, _ANY, conditioned=True),
    _composed(
        "bessel_i0e_backward",
        26,
        lambda x, g: g * (s.bessel_i1e(x) - e.sign(x) * s.bessel_i0e(x)),
        _ARGUMENTS,
        _ANY,
        magnitude=lambda x, g: 2 * g * s.bessel_i0e(x),
    ),
    _composed(
        "bessel_i1_backward",
        28,
        lambda x, g: g * (s.bessel_i0(x) - s.bessel_ratio(x, False)),
        _ARGUMENTS,
        _ANY,
        conditioned=True,
        magnitude=lambda x, g: 2 * g * s.bessel_i0(x),
    ),
    _composed(
        "bessel_i1e_backward",
        28,
        lambda x, g: g * (s.bessel_i0e(x) - s.bessel_ratio(x, True) - np.abs(s.bessel_i1e(x))),
        _ARGUMENTS,
        _ANY,
        magnitude=lambda x, g: 3 * g * s.bessel_i0e(x),
    ),
    _composed(
        "erfinv_backward",
        9,
        lambda y, g: g * math.sqrt(math.pi) / 2 * np.exp(y * y),
        _ANY,
        _ANY,
        conditioned=True,
    ),
    _composed(
        "ndtri_backward",
        9,
        lambda y, g: g * math.sqrt(2 * math.pi) * np.exp(y * y / 2),
        _ANY,
        _ANY,
        conditioned=True,
    ),
    _exact(
        "copysign_backward",
        lambda x, y, g: _where(x == 0, 0.0, g * np.copysign(1, x) * np.copysign(1, y)),
        _ANY,
        _ANY,
        _ANY,
    ),
    _exact("heaviside_backward_second", lambda x, g: _where(x == 0, g, 0.0), _FEW, _ANY),
    _exact("fmax_backward_first", lambda x, y, g: _where((x >= y) | (y != y), g, 0.0), _FEW, _FEW, _ANY),
    _exact("fmax_backward_second", lambda x, y, g: _where((x >= y) | (y != y), 0.0, g), _FEW, _FEW, _ANY),
    _exact("fmin_backward_first", lambda x, y, g: _where((x <= y) | (y != y), g, 0.0), _FEW, _FEW, _ANY),
    _exact("fmin_backward_second", lambda x, y, g: _where((x <= y) | (y != y), 0.0, g), _FEW, _FEW, _ANY),
)


def _quantized(x: Array, scale: Array, zero: Array, least: float, largest: float) -> Array:
    q = np.rint(x / scale) + zero
    return _where(q < least, least, _where(q > largest, largest, q))


def _nudged(low: Array, high: Array, least: float, largest: float) -> tuple[Array, Array, Array]:
    """The step, and the range moved so that 0 is one of the quantized numbers."""
    step = (high - low) / (largest - least)
    at = least - low / step
    zero = _where(at < least, least, _where(at > largest, largest, np.trunc(at + np.copysign(0.5, at))))
    return step, (least - zero) * step, (largest - zero) * step


def _fake_quantized_by_range(x: Array, low: Array, high: Array, least: float, largest: float) -> Array:
    step, bottom, top = _nudged(low, high, least, largest)
    inside = _where(x < bottom, bottom, _where(x > top, top, x))
    numbers = np.floor((inside - bottom) * (1 / step) - np.floor(0.5 - bottom * (1 / step)) + 0.5)
    return _where((low == 0) & (high == 0), 0.0, numbers * step)


def _fake_quantize_range_backward(
    x: Array, low: Array, high: Array, g: Array, least: float, largest: float
) -> tuple[Array, Array, Array]:
    _, bottom, top = _nudged(low, high, least, largest)
    nothing = (low == 0) & (high == 0)
    return (
        _where(nothing | ((x >= bottom) & (x <= top)), g, 0.0),
        _where(~nothing & (x < bottom), g, 0.0),
        _where(~nothing & (x > top), g, 0.0),
    )


def _quantized_in_range(
    x: Array, low: Array, high: Array, least: float, largest: float, cuts: float, up: float
) -> Array:
    # Where neither side of the range has a number on its own side of 0, the factor is the largest of the compute type.
    most = float(np.finfo(x.dtype).max)
    x, low, high = (operand.astype(np.float64) for operand in (x, low, high))
    by_low = _where(least * low > 0, least / low, most)
    by_high = _where(largest * high > 0, largest / high, most)
    lower = by_low < by_high
    step = _where(lower, low / least, high / largest)
    bottom, top = _where(lower, low, least * step), _where(lower, largest * step, high)
    inside = np.maximum(np.minimum(x, top), bottom) if cuts else x
    places = inside * np.minimum(by_low, by_high)
    places = _where(np.abs(places) > most, np.copysign(np.inf, places), places)
    return np.asarray((np.floor(places + 0.5) if up else np.rint(places)) * step)


def _population_count(x: Array) -> Array:
    unsigned = x if x.dtype == np.uint64 else x.astype(np.int64).view(np.uint64)
    return np.asarray(sum((unsigned >> np.uint64(bit)) & np.uint64(1) for bit in range(64)), x.dtype)


# Quotients are exact, or far from the middle between two whole numbers.
_NUMBERS = integers(-300, 301)
_SCALES = listed([1, 2, 4, 8])
_ZERO_POINTS = integers(-5, 6)
_BYTES = (-128, 127)
_RANGE = (integers(-10, 11), listed([-4, -8]), listed([4, 8, 6]))

_QUANTIZATION = (
    _exact("quantize_linear", _quantized, _NUMBERS, _SCALES, _ZERO_POINTS, parameters=_BYTES, special=False),
    _composed("dequantize_linear", 2, lambda x, y, z: (x - z) * y, _NUMBERS, _ANY, _ZERO_POINTS, conditioned=True),
    _composed(
        "fake_quantize_linear",
        2,
        lambda x, y, z, *limits: (_quantized(x, y, z, *limits) - z) * y,
        _NUMBERS,
        _SCALES,
        _ZERO_POINTS,
        parameters=_BYTES,
    ),
    _exact(
        "fake_quantize_linear_backward",
        lambda x, y, z, g, *limits: _where(_quantized(x, y, z, *limits) == np.rint(x / y) + z, g, 0.0),
        _NUMBERS,
        _SCALES,
        _ZERO_POINTS,
        _ANY,
        parameters=_BYTES,
    ),
    _composed("fake_quantize_range", 4, _fake_quantized_by_range, *_RANGE, parameters=(0, 8)),
    _exact("fake_quantize_range_backward", _fake_quantize_range_backward, *_RANGE, _ANY, parameters=(0, 8)),
    _composed(
        "quantize_dequantize_range",
        6,
        _quantized_in_range,
        *_RANGE,
        parameters=(-128, 127, 1, 0),
        conditioned=True,
        in_compute_type=True,
    ),
    _bits("population_count", _population_count, integers(-60, 200)),
)

_SECOND_KIND = uniform(0.05, 12)
_PROPER = uniform(-0.95, 3.5)

_SPECIAL_INTEGRALS = (
    *(
        _rounded(
            f"bessel_j{n}",
            48,
            lambda x, n=n: i.bessel_j(x, n),
            _ARGUMENTS,
            magnitude=lambda x: i.bessel_size(x),
            conditioned=True,
        )
        for n in (0, 1)
    ),
    *(
        _rounded(
            f"bessel_y{n}",
            48,
            lambda x, n=n: i.bessel_y(x, n),
            _SECOND_KIND,
            magnitude=lambda x, n=n: i.bessel_y_terms(x, n),
            conditioned=True,
        )
        for n in (0, 1)
    ),
    *(
        _rounded(
            f"bessel_k{n}{'e' if scaled else ''}",
            64,
            lambda x, n=n, scaled=scaled: i.bessel_k(x, n, scaled),
            _SECOND_KIND,
            conditioned=True,
        )
        for n in (0, 1)
        for scaled in (False, True)
    ),
    _rounded("dawson", 32, i.dawson, _PROPER, conditioned=True),
    _rounded("expint", 32, i.expint, _ARGUMENTS, magnitude=i.expint_terms, conditioned=True),
    _rounded("fresnel_sin", 48, lambda x: i.fresnel(x, True), _PROPER, conditioned=True),
    _rounded("fresnel_cos", 48, lambda x: i.fresnel(x, False), _PROPER, conditioned=True),
    _rounded("spence", 32, i.spence, _POSITIVE, conditioned=True),
    _composed("betainc", 64, i.betainc, *_SHAPES_AND_LIMITS, _PROBABILITY, conditioned=True),
    _composed(
        "truncated_normal_quantile",
        64,
        i.truncated_normal_quantile,
        _PROBABILITY,
        uniform(-0.95, 0.5),
        uniform(1.05, 3),
        conditioned=True,
    ),
)

_LSTM_CELL = (1.0, 0.75)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _lstm_cell(
    of_i: Array, of_g: Array, of_f: Array, cell: Array, pi: Array, pf: Array, bias: float, clip: float
) -> tuple[Array, ...]:
    gate, fresh, forget = _sigmoid(of_i + cell * pi), np.tanh(of_g), _sigmoid(of_f + bias + cell * pf)
    return gate, fresh, forget, np.clip(fresh * gate + forget * cell, -clip, clip)


def _lstm_output(of_o: Array, cell: Array, po: Array) -> tuple[Array, ...]:
    gate, tanh = _sigmoid(of_o + cell * po), np.tanh(cell)
    return gate, tanh, tanh * gate


def _lstm_output_backward(
    o: Array, tanh: Array, dh: Array, dh2: Array, dc: Array, dc2: Array, po: Array
) -> tuple[Array, ...]:
    of_gate = o * (1 - o) * (dh + dh2) * tanh
    return of_gate, (1 - tanh * tanh) * (dh + dh2) * o + dc + dc2 + of_gate * po


def _lstm_cell_backward(
    dc: Array, gate: Array, fresh: Array, f: Array, cell: Array, pi: Array, pf: Array
) -> tuple[Array, ...]:
    of_i, of_f = gate * (1 - gate) * dc * fresh, f * (1 - f) * dc * cell
    return of_i, (1 - fresh * fresh) * dc * gate, of_f, dc * f + of_i * pi + of_f * pf


_CELLS = (
    _composed("lstm_cell", 24, _lstm_cell, *(_ANY,) * 6, parameters=_LSTM_CELL, conditioned=True),
    _composed("lstm_output", 24, _lstm_output, *(_ANY,) * 3, conditioned=True),
    _composed("lstm_output_backward", 12, _lstm_output_backward, _PROBABILITY, _UNIT, *(_ANY,) * 5, conditioned=True),
    _composed(
        "lstm_cell_backward",
        12,
        _lstm_cell_backward,
        _ANY,
        _PROBABILITY,
        _UNIT,
        _PROBABILITY,
        *(_ANY,) * 3,
        conditioned=True,
    ),
)

_BOXES = (_composed("box_overlap", 5, e.box_overlap, *(integers(-4, 5),) * 8, parameters=(1,)),)

#: All functions by name.
FUNCTIONS: dict[str, MapFunction] = {
    function.name: function
    for group in (
        _ARITHMETIC,
        _PARTS,
        _ROUNDING,
        _ELEMENTARY,
        _ACTIVATIONS,
        _TESTS,
        _GRADIENTS,
        _OPTIMIZERS,
        _PRODUCTS,
        _SPECIAL_FUNCTIONS,
        _QUANTIZATION,
        _SPECIAL_INTEGRALS,
        _CELLS,
        _BOXES,
    )
    for function in group
}
