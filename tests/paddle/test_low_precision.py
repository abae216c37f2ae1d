"""Fake quantization against Paddle's CPU, and random distributions with parameters against their moments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest
from comparison import DEVICE, on
from paddle import _C_ops

X = np.random.default_rng(1).standard_normal((4, 5, 6)).astype("float32")
COUNT = 40000


def check(function: Callable[..., Any], *arrays: Any) -> None:
    results = []
    for place in (DEVICE, "cpu"):
        with on(place):
            given = function(*[paddle.to_tensor(array) for array in arrays])
            results.append([tensor.numpy() for tensor in (given if isinstance(given, (tuple, list)) else [given])])
    for actual, expected in zip(*results, strict=True):
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("round_type", (0, 1))
@pytest.mark.parametrize("bits", (4, 8))
def test_fake_quantization_is_that_of_the_cpu(bits: int, round_type: int) -> None:
    for x in (X, np.zeros((3, 4), "float32"), X[0, 0]):
        check(lambda t: _C_ops.fake_quantize_abs_max(t, bits, round_type), x)
        check(lambda t: _C_ops.fake_quantize_dequantize_abs_max(t, bits, round_type), x)
    for axis in (0, 1):
        check(lambda t: _C_ops.fake_channel_wise_quantize_abs_max(t, bits, round_type, axis, False), X)
        check(lambda t: _C_ops.fake_channel_wise_quantize_dequantize_abs_max(t, bits, round_type, axis), X)
    check(lambda t, scale: _C_ops.fake_dequantize_max_abs(t, scale, 127.0), X, np.array([3.5], "float32"))


@pytest.mark.parametrize("scale", [0.5, 50.0])
def test_a_first_step_of_a_range(scale: float) -> None:
    """The magnitudes that it keeps for later steps are not compared: the CPU leaves others as memory was."""

    def step(x: Any, scale: Any, steps: Any) -> Any:
        return _C_ops.fake_quantize_range_abs_max(x, scale, steps, 5, 8, False, 0)[:2]

    check(step, X, np.array([scale], "float32"), np.array([0]))


@pytest.mark.unihal_no_fallback
@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize(("name", "is_test"), [("quantize", True), ("quantize", False), ("dequantize", True)])
def test_quantized_models_in_graphs(name: str, is_test: bool, axis: int) -> None:
    """Only graphs of the new representation have these ops; those of old programs are in old_programs.py."""
    scales = np.random.default_rng(2).random(1 if axis < 0 else X.shape[axis], "float32") + 2
    feed = {"x": 30 * X, "scale": scales, "zero": np.zeros_like(scales), "sum": scales[:1], "weight": scales[:1] + 1}
    results = []
    paddle.enable_static()
    try:
        for place in (paddle.CustomPlace(DEVICE, 0), paddle.CPUPlace()):
            program = paddle.static.Program()
            with paddle.static.program_guard(program):
                x, *others = (paddle.static.data(key, array.shape, "float32") for key, array in feed.items())
                y = getattr(_C_ops, f"{name}_linear")(x, *others, axis, 8, -128, 127, 0, is_test, False)[0]
                results.append(paddle.static.Executor(place).run(program, feed=feed, fetch_list=[y])[0])
    finally:
        paddle.disable_static()
    np.testing.assert_allclose(*results, rtol=2e-6, atol=2e-6)


def test_gradients_of_fake_quantization_pass_straight_through() -> None:
    with on(DEVICE):
        for function in (
            lambda t: _C_ops.fake_quantize_dequantize_abs_max(t, 8, 1)[0],
            lambda t: _C_ops.fake_channel_wise_quantize_dequantize_abs_max(t, 8, 1, 1)[0],
        ):
            x = paddle.to_tensor(X, stop_gradient=False)
            (function(x) * paddle.to_tensor(2 * X)).sum().backward()
            np.testing.assert_array_equal(x.grad.numpy(), 2 * X)


@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_distributions_have_their_moments(dtype: str) -> None:
    """Means and variances within five of their standard deviations, for numbers of a kurtosis of at most 9."""

    def agree(sample: Any, mean: float, variance: float) -> None:
        drawn = sample.numpy().astype("float64")
        assert abs(drawn.mean() - mean) < 5 * math.sqrt(variance / drawn.size)
        assert abs(drawn.var() - variance) < 5 * variance * math.sqrt(8 / drawn.size)

    def full(value: float) -> Any:
        return paddle.full([COUNT], value, dtype)

    with on(DEVICE):
        for shape in (1.0, 4.5):
            agree(_C_ops.standard_gamma(full(shape)), shape, shape)
        for mean in (1.5, 30.0):
            agree(paddle.poisson(full(mean)), mean, mean)
        for trials, probability in ((20, 0.3), (200, 0.75)):
            sample = paddle.binomial(full(trials), full(probability))
            assert sample.dtype == paddle.int64
            agree(sample, trials * probability, trials * probability * (1 - probability))
        parts = _C_ops.dirichlet(paddle.to_tensor([[1.0, 2.0, 3.0]] * 10000, dtype)).numpy()
        np.testing.assert_allclose(parts.sum(-1), 1, rtol=1e-6)
        np.testing.assert_allclose(parts.mean(0), [1 / 6, 2 / 6, 3 / 6], atol=0.01)
        rate = paddle.full([3], 2.0)
        rate.stop_gradient = False
        paddle.poisson(rate).sum().backward()
        assert not rate.grad.numpy().any()


def test_multinomial() -> None:
    weights = np.array([0.2, 0.0, 1.2, 0.6], "float32")
    with on(DEVICE):
        drawn = paddle.multinomial(paddle.to_tensor(weights), 20000, replacement=True)
        assert drawn.dtype == paddle.int64
        np.testing.assert_allclose(np.bincount(drawn.numpy(), minlength=4) / 20000, weights / 2, atol=0.02)
        rows = paddle.multinomial(paddle.to_tensor(np.tile(weights, (8000, 1))), 2).numpy()
        assert rows.shape == (8000, 2) and (rows[:, 0] != rows[:, 1]).all() and not (rows == 1).any()
        np.testing.assert_allclose(np.bincount(rows[:, 0], minlength=4) / 8000, weights / 2, atol=0.025)
        # The second one as if the first class were not there: of 1 and 3 to 7, of 1 and 6 to 4, of 2 and 12 to 14.
        after_2 = rows[rows[:, 0] == 2, 1]
        np.testing.assert_allclose(np.mean(after_2 == 3), 0.75, atol=0.03)


@pytest.mark.parametrize("weights, count, replacement", (([0.1, 0.0, 0.6], 3, False), ([0.1, -1.0], 1, True)))
def test_what_the_cpu_refuses_is_refused(weights: list[float], count: int, replacement: bool) -> None:
    for place in (DEVICE, "cpu"):
        with on(place), pytest.raises(ValueError):
            paddle.multinomial(paddle.to_tensor(weights), count, replacement)
