"""Fake quantization against TensorFlow's CPU, and random distributions with parameters against their moments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from compare import CPU, DEVICE

RAW = tf.raw_ops
GENERATOR = np.random.default_rng(1)
X = (GENERATOR.standard_normal((7, 9)) * 4).astype("float32")
DY = GENERATOR.standard_normal((7, 9)).astype("float32")
LOW = -3 * np.abs(GENERATOR.standard_normal(9)).astype("float32")
HIGH = 3 * np.abs(GENERATOR.standard_normal(9)).astype("float32")
LOW[3] = HIGH[3] = 0
COUNT = 40000


def check(function: Callable[[], Any]) -> None:
    results = []
    for device in (DEVICE, CPU):
        with tf.device(device):
            results.append([tensor.numpy() for tensor in tf.nest.flatten(function())])
    for actual, expected in zip(*results, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("bits, narrow", ((8, False), (8, True), (4, False), (12, False), (2, True)))
def test_fake_quantization_is_that_of_the_cpu(bits: int, narrow: bool) -> None:
    how = {"num_bits": bits, "narrow_range": narrow}
    check(lambda: RAW.FakeQuantWithMinMaxArgs(inputs=X, min=-3.3, max=5.1, **how))
    check(lambda: RAW.FakeQuantWithMinMaxArgsGradient(gradients=DY, inputs=X, min=-3.3, max=5.1, **how))
    for low, high in ((-3.3, 5.1), (0.0, 6.0), (-1.0, 0.0), (0.0, 0.0), (1.0, 4.0)):
        check(lambda: RAW.FakeQuantWithMinMaxVars(inputs=X, min=low, max=high, **how))
        check(lambda: RAW.FakeQuantWithMinMaxVarsGradient(gradients=DY, inputs=X, min=low, max=high, **how))
    limits = {"min": LOW, "max": HIGH}
    check(lambda: RAW.FakeQuantWithMinMaxVarsPerChannel(inputs=X, **limits, **how))
    check(lambda: RAW.FakeQuantWithMinMaxVarsPerChannelGradient(gradients=DY, inputs=X, **limits, **how))
    check(lambda: RAW.FakeQuantWithMinMaxVars(inputs=X[:0], min=-1.0, max=1.0))


@pytest.mark.parametrize(
    "function, message",
    (
        (lambda: RAW.FakeQuantWithMinMaxVars(inputs=X, min=[1.0, 2.0], max=3.0), "`min` must be rank 0"),
        (lambda: RAW.FakeQuantWithMinMaxVarsPerChannel(inputs=X, min=[1.0], max=[3.0]), "min has incorrect size"),
        (lambda: RAW.FakeQuantWithMinMaxArgs(inputs=X, min=3.0, max=1.0), "min has to be smaller than max"),
        (lambda: RAW.FakeQuantWithMinMaxArgs(inputs=X, min=-3.0, max=1.0, num_bits=17), "num_bits must be between"),
        (
            lambda: RAW.FakeQuantWithMinMaxVarsGradient(gradients=DY[:3], inputs=X, min=0.0, max=1.0),
            "gradient and input must be the same size",
        ),
        (lambda: tf.random.stateless_gamma([4], [1, 2], alpha=[1.0, 2.0, 3.0]), "Shape passed in must end with"),
        (lambda: tf.random.stateless_poisson([4], [1, 2], lam=[1.0, 2.0, 3.0]), "Shape passed in must end with"),
        (lambda: tf.random.stateless_binomial([4], [1, 2], [3.0, 4.0, 5.0], 0.5), "Shape passed in must end with"),
    ),
)
def test_what_the_cpu_refuses_is_refused(function: Callable[[], Any], message: str) -> None:
    for device in (DEVICE, CPU):
        with tf.device(device), pytest.raises(tf.errors.InvalidArgumentError, match=message):
            function()


@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_distributions_have_their_moments(dtype: str) -> None:
    """Means and variances within five of their standard deviations, for numbers of a kurtosis of at most 9."""

    def agree(sample: Any, means: list[float], variances: list[float]) -> None:
        drawn = sample.numpy().astype("float64")
        assert drawn.shape == (COUNT, 2)
        for column, mean, variance in zip(drawn.T, means, variances, strict=True):
            assert abs(column.mean() - mean) < 5 * math.sqrt(variance / COUNT)
            assert abs(column.var() - variance) < 5 * variance * math.sqrt(8 / COUNT)

    shape = [COUNT, 2]
    with tf.device(DEVICE):
        alpha, rate = tf.constant([1.0, 4.5], dtype), tf.constant([1.5, 30.0], dtype)
        agree(tf.random.stateless_gamma(shape, [1, 2], alpha, dtype=dtype), [1, 4.5], [1, 4.5])
        agree(RAW.StatelessRandomGammaV2(shape=shape, seed=[1, 2], alpha=alpha), [1, 4.5], [1, 4.5])
        agree(tf.random.gamma([COUNT], alpha, dtype=dtype, seed=3), [1, 4.5], [1, 4.5])
        agree(tf.random.stateless_poisson(shape, [1, 2], rate, dtype="int32"), [1.5, 30], [1.5, 30])
        agree(tf.random.poisson([COUNT], rate, dtype=dtype, seed=3), [1.5, 30], [1.5, 30])
        counts, probabilities = tf.constant([20.0, 200.0], dtype), tf.constant([0.3, 0.75], dtype)
        drawn = tf.random.stateless_binomial(shape, [1, 2], counts, probabilities, output_dtype="int64")
        agree(drawn, [6, 150], [4.2, 37.5])
        again = tf.random.stateless_binomial(shape, [1, 2], counts, probabilities, output_dtype="int64")
        np.testing.assert_array_equal(drawn.numpy(), again.numpy())
