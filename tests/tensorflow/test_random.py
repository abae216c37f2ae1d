"""Random numbers are those of the CPU."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from compare import CPU, DEVICE, FLOATS

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
