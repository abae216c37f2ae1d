"""Elementwise ops: values, gradients, broadcasting, dtypes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from compare import CPU, DEVICE, FLOATS, assert_close, check, integers, random

RAW = tf.raw_ops

# name: (function, lowest, highest argument)
UNARY: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "Abs": (tf.abs, -2, 2),
    "Neg": (tf.negative, -2, 2),
    "Sign": (tf.sign, -2, 2),
    "Square": (tf.square, -2, 2),
    "Reciprocal": (tf.math.reciprocal, 0.5, 2),
    "Floor": (tf.floor, -3, 3),
    "Ceil": (tf.math.ceil, -3, 3),
    "Rint": (tf.math.rint, -3, 3),
    "Round": (tf.round, -3, 3),
    "Exp": (tf.exp, -2, 2),
    "Expm1": (tf.math.expm1, -2, 2),
    "Log": (tf.math.log, 0.1, 3),
    "Log1p": (tf.math.log1p, -0.5, 3),
    "Sqrt": (tf.sqrt, 0.1, 3),
    "Rsqrt": (tf.math.rsqrt, 0.1, 3),
    "Sin": (tf.sin, -2, 2),
    "Cos": (tf.cos, -2, 2),
    "Tan": (tf.tan, -1, 1),
    "Asin": (tf.asin, -0.9, 0.9),
    "Acos": (tf.acos, -0.9, 0.9),
    "Atan": (tf.atan, -2, 2),
    "Sinh": (tf.sinh, -2, 2),
    "Cosh": (tf.cosh, -2, 2),
    "Tanh": (tf.tanh, -2, 2),
    "Asinh": (tf.asinh, -2, 2),
    "Acosh": (tf.acosh, 1.1, 3),
    "Atanh": (tf.atanh, -0.9, 0.9),
    "Erf": (tf.math.erf, -2, 2),
    "Erfc": (tf.math.erfc, -2, 2),
    "Sigmoid": (tf.sigmoid, -4, 4),
    "Relu": (tf.nn.relu, -2, 2),
    "Relu6": (tf.nn.relu6, -2, 8),
    "LeakyRelu": (lambda x: tf.nn.leaky_relu(x, alpha=0.3), -2, 2),
    "Elu": (tf.nn.elu, -2, 2),
    "Selu": (tf.nn.selu, -2, 2),
    "Softplus": (tf.nn.softplus, -30, 50),
    "Softsign": (tf.nn.softsign, -2, 2),
    "Lgamma": (tf.math.lgamma, 0.1, 9),
    "Lgamma of negative": (tf.math.lgamma, -2.9, -2.1),
    "Digamma": (tf.math.digamma, 0.1, 9),
    "BesselI0": (tf.math.special.bessel_i0, -9, 9),
    "BesselI0e": (tf.math.special.bessel_i0e, -9, 9),
    "BesselI1": (tf.math.special.bessel_i1, -9, 9),
    "BesselI1e": (tf.math.special.bessel_i1e, -9, 9),
    "Erfinv": (tf.math.erfinv, -0.9, 0.9),
    "Ndtri": (tf.math.ndtri, 0.05, 0.95),
}

#: Dtypes for which TensorFlow's CPU has no kernel to compare with.
NOT_ON_THE_CPU = {
    **dict.fromkeys(("Rint", "Erfinv", "Ndtri"), ("float16", "bfloat16")),
    **dict.fromkeys(("Lgamma", "Lgamma of negative", "Digamma"), ("bfloat16",)),
    **dict.fromkeys(("BesselI0", "BesselI0e", "BesselI1", "BesselI1e"), ("bfloat16",)),
}

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "AddV2": tf.add,
    "Sub": tf.subtract,
    "Mul": tf.multiply,
    "RealDiv": tf.divide,
    "DivNoNan": tf.math.divide_no_nan,
    "MulNoNan": tf.math.multiply_no_nan,
    "FloorDiv": tf.math.floordiv,
    "FloorMod": tf.math.floormod,
    "Maximum": tf.maximum,
    "Minimum": tf.minimum,
    "SquaredDifference": tf.math.squared_difference,
    "Atan2": tf.atan2,
    "Xdivy": tf.math.xdivy,
}

COMPARISONS = [tf.equal, tf.not_equal, tf.less, tf.less_equal, tf.greater, tf.greater_equal]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, dtype: str) -> None:
    if dtype in NOT_ON_THE_CPU.get(name, ()):
        pytest.skip("TensorFlow's CPU has no such kernel to compare with")
    function, low, high = UNARY[name]
    # Gradients of reduced floats chain several roundings, so they are checked in full precision.
    check(function, random(3, 5, 7, low=low, high=high), dtype=dtype, gradients=dtype in ("float32", "float64"))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, dtype: str) -> None:
    x, y = random(4, 1, 6), random(5, 6, seed=1)
    if dtype in ("float16", "bfloat16") and name in ("FloorDiv", "FloorMod"):
        x, y = np.round(x * 4), np.round(y * 4) + 0.5  # away from where a rounding changes the quotient
    check(BINARY[name], x, y, dtype=dtype, gradients=dtype in ("float32", "float64"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_functions_of_two(dtype: str) -> None:
    """The CPU's own errors are larger than ours in places: its series stop early, and its powers are chains."""
    tolerance = 1e-9 if dtype == "float64" else 1e-4
    x, y = random(4, 1, 6, low=0.2, high=4), random(5, 6, low=0.2, high=4, seed=1)
    for function in (tf.math.igamma, tf.math.igammac):
        check(function, x, y, dtype=dtype, gradients=True, tolerance=tolerance)
    check(tf.math.zeta, x + 1, y, dtype=dtype, tolerance=tolerance)
    check(tf.math.polygamma, integers(4, 1, 6, high=4).astype(np.float64), y, dtype=dtype, tolerance=tolerance)
    check(lambda a, s: RAW.RandomGammaGrad(alpha=a, sample=s), x, y, dtype=dtype, tolerance=tolerance)
    check(lambda a, b: RAW.NextAfter(x1=a, x2=b), x, y, dtype=dtype, tolerance=0)


def test_powers_and_logarithms() -> None:
    x, y = random(9, low=0.2, high=3), random(9, seed=1)
    check(tf.pow, x, y, gradients=True)
    check(tf.pow, integers(9, low=-4, high=5), integers(9, high=6))
    zeros_and_ones = np.array([0.0, 0.0, 1.0, 2.0])
    check(tf.math.xlogy, zeros_and_ones, np.array([0.0, 3.0, 2.0, 0.5]))
    check(tf.math.xlog1py, zeros_and_ones, np.array([-1.0, 3.0, 2.0, 0.5]))


@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "int16", "int64", "uint8"])
def test_comparisons(dtype: str) -> None:
    x = np.array([[1, 2, 3], [3, 2, 1]]).astype("float64" if dtype in FLOATS else dtype)
    y = np.array([2, 2, 2]).astype(x.dtype)
    for function in COMPARISONS:
        check(function, x, y, dtype=dtype)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_integer_arithmetic(dtype: str) -> None:
    x, y = integers(7, low=1, high=9, dtype=dtype), integers(7, low=1, high=5, dtype=dtype, seed=2)
    for function in (tf.add, tf.subtract, tf.multiply, tf.math.floordiv, tf.maximum, tf.minimum, tf.math.floormod):
        check(function, x, y)
    for function in (tf.bitwise.bitwise_and, tf.bitwise.bitwise_or, tf.bitwise.bitwise_xor, tf.bitwise.left_shift):
        check(function, x, y)
    check(tf.bitwise.invert, x)


def test_division_of_negative_integers() -> None:
    x, y = np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2])
    check(tf.math.floordiv, x, y)
    check(tf.math.floormod, x, y)
    check(lambda a, b: RAW.TruncateDiv(x=a, y=b), x, y)
    check(lambda a, b: RAW.TruncateMod(x=a, y=b), x, y)


def test_logic_and_select() -> None:
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    check(tf.logical_and, a, b)
    check(tf.logical_or, a, b)
    check(tf.logical_not, a)
    for dtype in FLOATS:
        check(tf.where, a[:, None], random(4, 3), random(3, seed=1), dtype=dtype)
    check(tf.where, a, integers(4, dtype="int32"), integers(4, dtype="int32", seed=1))
    check(lambda c, x, y: RAW.Select(condition=c, x=x, y=y), a, random(4, 3), random(4, 3, seed=1))


@pytest.mark.parametrize("dtype", FLOATS)
def test_not_a_number(dtype: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -1.5])
    for function in (tf.math.is_nan, tf.math.is_inf, tf.math.is_finite):
        check(function, x, dtype=dtype)
    check(tf.maximum, x, np.zeros(5), dtype=dtype)
    check(tf.nn.relu, np.array([np.nan, -1.0, 2.0]), dtype=dtype)


def test_sums_and_clips() -> None:
    parts = [random(3, 4, seed=i) for i in range(4)]
    check(lambda *xs: tf.add_n(xs), *parts, gradients=True)
    check(lambda x: tf.clip_by_value(x, -0.5, 0.75), random(50), gradients=True)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (1, 1, 1, 1, 1, 1, 1, 1), (3, 1, 4, 1, 5)])
def test_shapes(shape: tuple[int, ...]) -> None:
    check(lambda x, y: (x + y, tf.exp(x)), random(*shape), random(*shape, seed=1))


def test_an_input_stays_what_it_was() -> None:
    """An output may take over an input's memory only where nobody else reads it."""
    with tf.device(DEVICE):
        x = tf.constant([1.0, 2.0, 3.0])
        y = tf.exp(x)
        z = x + y
    np.testing.assert_array_equal(x.numpy(), [1.0, 2.0, 3.0])
    np.testing.assert_allclose(y.numpy(), np.exp([1.0, 2.0, 3.0]), rtol=1e-6)
    np.testing.assert_allclose(z.numpy(), np.exp([1.0, 2.0, 3.0]) + np.arange(1, 4), rtol=1e-6)


def test_chained_in_a_graph() -> None:
    """In graphs buffers are forwarded from op to op."""

    @tf.function
    def chain(x: Any) -> Any:
        y = x
        for _ in range(20):
            y = tf.tanh(y * 1.1 + 0.1) - x * 0.01
        return y, x * 1.0

    for device in (CPU, DEVICE):
        with tf.device(device):
            result = chain(tf.constant(random(17), tf.float32))
        if device == CPU:
            expected = result
    for a, e in zip(result, expected, strict=True):
        assert_close(a, e)


def test_incompatible_shapes() -> None:
    with (
        tf.device(DEVICE),
        pytest.raises(tf.errors.InvalidArgumentError, match=r"Incompatible shapes: \[2\] vs. \[3\]"),
    ):
        tf.add(tf.zeros(2), tf.zeros(3))
    with tf.device(DEVICE):
        equal = RAW.Equal(x=tf.zeros(2), y=tf.zeros(3), incompatible_shape_error=False)
        differs = RAW.NotEqual(x=tf.zeros(2), y=tf.zeros(3), incompatible_shape_error=False)
    assert not equal.numpy()
    assert differs.numpy()
