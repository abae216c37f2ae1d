"""What belongs to a matrix product or a convolution is part of it, and gives what the single ops give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import unihal
from compare import CPU, DEVICE
from graphs import PRODUCTS, fused_ops

pytestmark = pytest.mark.usefixtures("soft_placement")

layers = keras.layers
DRAW = np.random.default_rng(7)
GRADIENT = "UnihalConvolutionFilterGrad"
TOLERANCES = {"float32": 1e-5, "float64": 1e-12, "mixed_float16": 4e-3, "mixed_bfloat16": 4e-2}


def normal(*shape: int) -> np.ndarray:
    return DRAW.normal(size=shape).astype("float32")


def gradients(
    make: Callable[[], Any], inputs: list[np.ndarray], call: Callable[..., Any]
) -> tuple[list[list[np.ndarray]], Counter[str]]:
    """For each input the result, the input's gradient and those of the weights; and the ops of ours.

    Several inputs have one graph, which does not know the size of batches.
    """
    keras.utils.set_random_seed(3)
    layer = make()
    layer.build((None, *inputs[0].shape[1:]))
    for number, weight in enumerate(layer.trainable_variables):  # biases are zeros at first
        weight.assign(np.random.default_rng(number).normal(size=weight.shape) * 0.3)

    batch = inputs[0].shape[0] if len(inputs) == 1 else None

    @tf.function(input_signature=[tf.TensorSpec((batch, *inputs[0].shape[1:]), layer.compute_dtype)])
    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = call(layer, x)
            loss = tf.reduce_sum(tf.sin(tf.cast(y, tf.float64 if y.dtype == tf.float64 else tf.float32)))
        return y, tape.gradient(loss, [x, *(weight.value for weight in layer.trainable_variables)])

    def run() -> list[list[np.ndarray]]:
        results = [tf.nest.flatten(step(tf.cast(tf.constant(x), layer.compute_dtype))) for x in inputs]
        return [[tf.cast(value, tf.float64).numpy() for value in result] for result in results]

    results, ops = fused_ops(run, products=True)
    return results, Counter({op: ops[op] for op in PRODUCTS if ops[op]})


def assert_same(actual: list[list[np.ndarray]], expected: list[list[np.ndarray]], tolerance: float) -> None:
    for results, wanted in zip(actual, expected, strict=True):
        for a, e in zip(results, wanted, strict=True):
            assert a.shape == e.shape
            scale = max(1.0, float(np.abs(e).max(initial=0)))
            np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance * scale)


IMAGES, DEPTH = (6, 7, 4), (4, 5, 4, 3)
CONVOLUTION = {"UnihalConvolution": 1, GRADIENT: 1}
LAYERS: dict[str, tuple[Callable[[], Any], tuple[int, ...], dict[str, int]]] = {
    "dense": (lambda: layers.Dense(5), (6,), {"UnihalMatMul": 1}),
    **{
        f"dense with {name}": (partial(layers.Dense, 5, name), (6,), {"UnihalMatMul": 1})
        for name in ("relu", "relu6", "tanh", "sigmoid", "gelu", "silu")
    },
    "dense of one column": (lambda: layers.Dense(1), (6,), {"UnihalMatMul": 1}),
    "dense on sequences": (lambda: layers.Dense(5, "relu"), (3, 6), {"UnihalMatMul": 1}),
    "heads": (
        lambda: layers.EinsumDense("abc,cde->abde", (None, 2, 4), bias_axes="de"),
        (3, 6),
        {"UnihalMatMul": 1},
    ),
    "convolution": (lambda: layers.Conv2D(5, 3), IMAGES, CONVOLUTION),
    "convolution with relu": (lambda: layers.Conv2D(5, 3, 2, "same", activation="relu"), IMAGES, CONVOLUTION),
    "convolution with tanh": (lambda: layers.Conv2D(5, 3, activation="tanh"), IMAGES, CONVOLUTION),
    "groups": (lambda: layers.Conv2D(6, 3, groups=2), IMAGES, CONVOLUTION),
    "convolution of three axes": (lambda: layers.Conv3D(5, 2, activation="relu6"), DEPTH, CONVOLUTION),
    "depthwise with relu": (
        lambda: layers.DepthwiseConv2D(3, activation="relu"),
        IMAGES,
        {"UnihalDepthwiseConvolution": 1},
    ),
}
DISTINCT = {"dense with relu", "dense on sequences", "heads", "convolution with relu", "depthwise with relu"}


@pytest.mark.parametrize(
    "policy", [policy if policy in ("float32", "mixed_bfloat16") else pytest.param(policy, marks=pytest.mark.whole)
               for policy in TOLERANCES]
)  # fmt: skip
@pytest.mark.parametrize("name", [name if name in DISTINCT else pytest.param(name, marks=pytest.mark.whole)
                                  for name in LAYERS])  # fmt: skip
def test_layers(name: str, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, shape, expected = LAYERS[name]
    keras.config.set_dtype_policy(policy)
    inputs = [normal(batch, *shape) for batch in (4, 1, 3)]
    with tf.device(DEVICE):
        fused, ops = gradients(make, inputs, lambda layer, x: layer(x))
        monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", "0")
        plain, none = gradients(make, inputs, lambda layer, x: layer(x))
    assert dict(ops) == expected
    assert not none
    if policy.startswith("mixed") and "relu" in name:  # a rounding decides on which side of 0 the slope is taken
        fused, plain = [result[:1] for result in fused], [result[:1] for result in plain]
    assert_same(fused, plain, TOLERANCES[policy])
    if policy == "float32" and name != "groups":  # which TensorFlow's CPU has not
        with tf.device(CPU):
            reference, _ = gradients(make, inputs, lambda layer, x: layer(x))
        assert_same(fused, reference, TOLERANCES[policy])


def run(function: Callable[..., Any], *operands: np.ndarray) -> tuple[list[np.ndarray], Counter[str], Counter[str]]:
    """The results on the device, the ops of ours, and what was launched."""
    with tf.device(DEVICE), unihal.profile() as recording:
        constants = [tf.constant(operand) for operand in operands]
        results, ops = fused_ops(
            lambda: [v.numpy() for v in tf.nest.flatten(tf.function(function)(*constants))], products=True
        )
    launched = Counter({total.op: total.calls for total in recording.totals if not total.op.startswith("copy")})
    return results, ops, launched


def test_one_launch() -> None:
    x, w, bias = normal(4, 6), normal(6, 5), normal(5)
    (y,), ops, launched = run(lambda x, w, b: tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w), b)), x, w, bias)
    assert ops == {"UnihalMatMul": 1}
    assert launched == {"matmul": 1}
    np.testing.assert_allclose(y, np.maximum(x @ w + bias, 0), rtol=1e-5, atol=1e-5)


def test_dilations_and_explicit_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w, bias = normal(2, 6, 7, 4), normal(2, 2, 4, 5), normal(5)

    def layer(x: tf.Tensor, w: tf.Tensor, b: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w, b])
            y = tf.nn.conv2d(x, w, 1, [[0, 0], [1, 0], [2, 1], [0, 0]], dilations=2)
            y = tf.nn.relu(tf.nn.bias_add(y, b))
            loss = tf.reduce_sum(tf.sin(y))
        return y, tape.gradient(loss, [x, w, b])

    results, ops, launched = run(layer, x, w, bias)
    assert ops == CONVOLUTION
    assert launched["convolution"] == launched["convolution_backward_filter"] == 1
    assert launched["reduce"] == 0
    monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", "0")  # the CPU has no gradients of dilated convolutions
    expected, none, _ = run(layer, x, w, bias)
    assert not none
    assert_same([results], [expected], 1e-5)


def test_a_value_that_is_read_elsewhere_stays() -> None:
    """The product's, that of the sum, and that of a reshape in between."""
    x, w, bias = normal(4, 6), normal(6, 5), normal(5)

    def of_product(x: tf.Tensor, w: tf.Tensor, b: tf.Tensor) -> Any:
        product = tf.matmul(x, w)
        return tf.nn.bias_add(product, b), product

    def of_sum(x: tf.Tensor, w: tf.Tensor, b: tf.Tensor) -> Any:
        total = tf.nn.bias_add(tf.matmul(x, w), b)
        return tf.nn.relu(total), total

    def of_shape(x: tf.Tensor, w: tf.Tensor, b: tf.Tensor) -> Any:
        shaped = tf.reshape(tf.matmul(x, w), (2, 2, 5))
        return shaped + b, tf.sin(shaped)

    product = x @ w
    for function, expected, count in (
        (of_product, (product + bias, product), 0),
        (of_sum, (np.maximum(product + bias, 0), product + bias), 1),
        (of_shape, ((product + bias).reshape(2, 2, 5), np.sin(product).reshape(2, 2, 5)), 0),
    ):
        results, ops, _ = run(function, x, w, bias)
        assert ops["UnihalMatMul"] == count
        for actual, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-5)


def test_what_is_no_bias_stays_a_sum() -> None:
    """A row for each matrix, a number, a column, and a bias of columns that a reshape split otherwise."""
    x, w = normal(3, 4, 6), normal(3, 6, 4)
    for other in (normal(3, 1, 4), normal(1), normal(4, 1), normal(3, 4, 4)):
        (y,), ops, _ = run(lambda x, w, b: tf.matmul(x, w) + b, x, w, other)
        assert not ops["UnihalMatMul"]
        np.testing.assert_allclose(y, x @ w + other, rtol=1e-5, atol=1e-5)
    (y,), ops, _ = run(lambda x, w, b: tf.reshape(tf.matmul(x, w), (6, 8)) + b, x, w, normal(8))
    assert not ops["UnihalMatMul"]


def test_no_columns_in_common() -> None:
    """Of a product over nothing the bias is left."""
    bias = normal(5)
    for activation, expected in ((tf.nn.relu, np.maximum(bias, 0)), (tf.nn.relu6, np.clip(bias, 0, 6))):
        (y,), ops, _ = run(
            lambda x, w, b, act=activation: act(tf.nn.bias_add(tf.matmul(x, w), b)), normal(4, 0), normal(0, 5), bias
        )
        if ops:  # TensorFlow may replace the product itself
            assert ops == {"UnihalMatMul": 1}
        np.testing.assert_allclose(y, np.broadcast_to(expected, (4, 5)), rtol=1e-6)


@pytest.mark.parametrize(("axes", "is_fused"), [([0], True), ([0, 1], False), ([1], False), ([-3], True)])
def test_which_sums_of_products(axes: list[int], is_fused: bool) -> None:
    x, y = normal(4, 3, 5), normal(4, 3, 2)
    (total,), ops, _ = run(lambda x, y: tf.reduce_sum(tf.matmul(x, y, transpose_a=True), axes), x, y)
    assert ops["UnihalMatMulSum"] == is_fused
    np.testing.assert_allclose(total, (np.swapaxes(x, 1, 2) @ y).sum(tuple(axes)), rtol=1e-4, atol=1e-5)


def test_matrices_that_are_broadcast_are_not_summed_as_one() -> None:
    x, y = normal(4, 3, 5), normal(1, 3, 2)
    (total,), ops, _ = run(lambda x, y: tf.reduce_sum(tf.matmul(x, y, transpose_a=True), 0), x, y)
    assert not ops["UnihalMatMulSum"]
    np.testing.assert_allclose(total, (np.swapaxes(x, 1, 2) @ y).sum(0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("inputs", [[normal(2, 5, 8)], [normal(2, 5, 8), normal(3, 5, 8)]], ids=["known", "unknown"])
def test_attention_of_keras(inputs: list[np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the size of batches is not known, TensorFlow computes over which axes a weight's gradient is summed."""

    def make() -> Any:
        layer = layers.MultiHeadAttention(2, 4)
        build = layer.build
        layer.build = lambda shape: build(shape, shape)
        return layer

    with tf.device(DEVICE):
        fused, ops = gradients(make, inputs, lambda layer, x: layer(x, x))
        monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", "0")
        plain, none = gradients(make, inputs, lambda layer, x: layer(x, x))
    assert dict(ops) == {"UnihalMatMul": 4} | ({"UnihalMatMulSum": 4} if len(inputs) == 1 else {})
    assert not none
    assert_same(fused, plain, 1e-5)
