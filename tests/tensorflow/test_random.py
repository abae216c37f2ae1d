"""Random numbers are those of the CPU."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from compare import CPU, DEVICE, FLOATS
from tensorflow.python.eager import context, execute

RAW = tf.raw_ops


def check_equal(function: Any, ulps: int = 0) -> None:
    results = []
    for device in (DEVICE, CPU):
        with tf.device(device):
            results.append(tf.nest.flatten(function()))
    for actual, expected in zip(*results, strict=True):
        assert actual.dtype == expected.dtype
        if ulps == 0:
            np.testing.assert_array_equal(actual.numpy(), expected.numpy())
        else:
            np.testing.assert_array_max_ulp(actual.numpy(), expected.numpy(), ulps)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(7,), (33, 5), (0, 3), ()])
def test_stateless(dtype: str, shape: tuple[int, ...]) -> None:
    check_equal(lambda: tf.random.stateless_uniform(shape, [3, -7], dtype=dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_distributions(dtype: str) -> None:
    # Box-Muller goes through log, sin and cos, whose last bits are the library's.
    check_equal(lambda: tf.random.stateless_normal([101, 7], [1, 2], dtype=dtype), ulps=64)
    check_equal(lambda: tf.random.stateless_truncated_normal([101, 7], [1, 2], dtype=dtype), ulps=64)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers(dtype: str) -> None:
    check_equal(lambda: tf.random.stateless_uniform([50], [5, 6], minval=-5, maxval=1000, dtype=dtype))
    check_equal(lambda: tf.random.stateless_uniform([50], [5, 6], minval=None, maxval=None, dtype=dtype))


def test_seeded_by_attributes() -> None:
    check_equal(lambda: RAW.RandomUniform(shape=[9], dtype=tf.float32, seed=3, seed2=4))
    check_equal(lambda: RAW.RandomUniformInt(shape=[9], minval=3, maxval=77, seed=3, seed2=4))
    check_equal(lambda: RAW.RandomStandardNormal(shape=[9], dtype=tf.float32, seed=3, seed2=4), ulps=64)
    with tf.device(DEVICE):
        first, second = tf.random.uniform([64]), tf.random.uniform([64])
    assert np.any(first.numpy() != second.numpy())


@pytest.mark.parametrize("dtype", FLOATS)
def test_classes(dtype: str) -> None:
    logits = tf.constant([[0.5, 1.0, float("-inf"), 2.0, 0.0], [3.0, float("nan"), 1.0, 1.0, 1.0]], dtype)
    for kind in ("int32", "int64"):
        check_equal(lambda: RAW.StatelessMultinomial(logits=logits, num_samples=41, seed=[3, 4], output_dtype=kind))
    check_equal(lambda: RAW.Multinomial(logits=logits, num_samples=7, seed=3, seed2=4))
    check_equal(lambda: RAW.Multinomial(logits=logits, num_samples=0, seed=3, seed2=4))
    check_equal(lambda: tf.random.stateless_categorical(logits, 9, [1, 2]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_truncated_normal_distributions(dtype: str) -> None:
    """Moments of the kinds of limits, in units of their own: in the middle, on one side, in either tail, far out."""
    count = 20000
    means, deviations = [1.0, -2.0, 0.0, 0.0, 0.0], [2.0, 0.5, 1.0, 1.0, 1.0]
    low, high = [-1.0, float("-inf"), 2.0, -5.0, 50.0], [3.0, -2.0, float("inf"), -3.0, 51.0]
    with tf.device(DEVICE):
        given = [tf.constant(v, dtype) for v in (means, deviations, low, high)]
        names = ("means", "stdevs", "minvals", "maxvals")
        drawn = RAW.ParameterizedTruncatedNormal(shape=[5, count], **dict(zip(names, given, strict=True)), seed=1)
    assert DEVICE in drawn.device and drawn.dtype == dtype
    for row, mean, deviation, least, most in zip(drawn.numpy().astype("float64"), means, deviations, low, high):
        assert row.min() >= least and row.max() <= most
        # By Simpson's rule on the density, in a range outside of which nothing is.
        z = np.linspace(max((least - mean) / deviation, -9), min((most - mean) / deviation, 60), 200001)
        weights = np.exp((z[np.abs(z).argmin()] ** 2 - z**2) / 2)
        weights /= weights.sum()
        expected, spread = (z * weights).sum(), (z**2 * weights).sum()
        variance = spread - expected**2
        scaled = (row - mean) / deviation
        assert abs(scaled.mean() - expected) < 5 * np.sqrt(variance / count) + 1e-6 * abs(expected)
        assert abs(scaled.var() - variance) < 5 * variance * np.sqrt(8 / count) + 1e-5 * expected**2


def stochastic_cast_to_int(value: tf.Tensor, kind: str) -> tf.Tensor:
    """TensorFlow has no function of it in Python."""
    state = [tf.constant([3], tf.uint64), tf.constant([4, 5], tf.uint64), tf.constant(1)]
    types = ("Tin", value.dtype.as_datatype_enum, "Tout", tf.as_dtype(kind).as_datatype_enum)
    (result,) = execute.execute(b"StochasticCastToInt", 1, [value, *state], types, context.context())
    return result


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", ["int8", "int16", "int32"])
def test_stochastic_casts(dtype: str, kind: str) -> None:
    # What has no fraction, or no whole number, is no matter of chance.
    whole = tf.cast(tf.constant([0.0, -0.0, 3.0, -7.0, 127.0, -128.0, 1e4, -1e4, np.nan]), dtype)
    check_equal(lambda: stochastic_cast_to_int(tf.identity(whole), kind))
    count = 20000
    with tf.device(DEVICE):
        for value in (2.25, -2.25):
            drawn = stochastic_cast_to_int(tf.fill([count], tf.constant(value, dtype)), kind)
            assert DEVICE in drawn.device
            numbers, counts = np.unique(np.abs(drawn.numpy()), return_counts=True)
            assert numbers.tolist() == [2, 3] and np.all(np.sign(drawn) == np.sign(value))
            assert abs(counts[1] / count - 0.25) < 5 * np.sqrt(0.25 * 0.75 / count)


def test_generators() -> None:
    def draw() -> Any:
        generator = tf.random.Generator.from_seed(5)
        first = generator.uniform([5])
        generator.skip(7)
        whole = generator.uniform([4], minval=0, maxval=10, dtype=tf.int32)
        state = tf.identity(generator.state)
        raw = RAW.StatefulUniform(resource=generator.state.handle, algorithm=1, shape=[3], dtype=tf.float32)
        return first, whole, state, raw, generator.state.read_value()

    check_equal(draw)


def test_errors() -> None:
    with tf.device(DEVICE):
        with pytest.raises(tf.errors.InvalidArgumentError, match="Need minval < maxval, got 5 >= 5"):
            tf.random.stateless_uniform([2], [1, 2], minval=5, maxval=5, dtype=tf.int64)
        # Another generator is left to the CPU's kernel, which has none.
        with pytest.raises(tf.errors.InvalidArgumentError, match="Unsupported algorithm id: 2"):
            RAW.StatelessRandomUniformV2(
                shape=[2], key=tf.zeros(1, tf.uint64), counter=tf.zeros(2, tf.uint64), alg=2, dtype=tf.float32
            )


@pytest.mark.parametrize(
    ("low", "high"),
    [(2**60, 2**60 + 10), (-(2**63), 2**63 - 1), (2**62, 2**63 - 1), (0, 2**53 + 1), (-(2**63), -(2**63) + 3)],
)
def test_integers_that_no_double_holds(low: int, high: int) -> None:
    check_equal(lambda: tf.random.stateless_uniform([50], [5, 6], minval=low, maxval=high, dtype="int64"))
    bounds = {"minval": tf.constant(low, "int64"), "maxval": tf.constant(high, "int64")}
    check_equal(lambda: RAW.RandomUniformInt(shape=[9], seed=3, seed2=4, **bounds))
    check_equal(lambda: tf.random.Generator.from_seed(1).uniform([9], low, high, "int64"))


@pytest.mark.parametrize(("shape", "first", "second"), [((3,), (1,), (1,)), ((2, 3), (2, 1), (1,)), ((3,), (2,), ())])
def test_shapes_end_with_those_of_the_parameters(
    shape: tuple[int, ...], first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    p, q = tf.ones(first), tf.fill(second, 0.5)
    calls = [
        lambda: tf.random.stateless_gamma(shape, [1, 2], p),
        lambda: tf.random.stateless_poisson(shape, [1, 2], p),
        lambda: tf.random.stateless_binomial(shape, [1, 2], p, q),
    ]
    for call in calls:
        for device in (CPU, DEVICE):
            with tf.device(device), pytest.raises(tf.errors.InvalidArgumentError):
                call()
    with tf.device(DEVICE):
        assert tf.random.stateless_binomial([4, 2, 3], [1, 2], tf.ones([2, 1]), tf.fill([3], 0.5)).shape == (4, 2, 3)
