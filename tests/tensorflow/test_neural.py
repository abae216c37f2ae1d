"""Matrix products, convolutions, pooling, softmax, normalization."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from compare import DEVICE, FLOATS, check, integers, random

RAW = tf.raw_ops


@pytest.mark.parametrize("dtype", FLOATS)
def test_matmul(dtype: str) -> None:
    gradients = dtype in ("float32", "float64")
    a, b = random(5, 7), random(7, 3, seed=1)
    check(tf.matmul, a, b, dtype=dtype, gradients=gradients)
    check(lambda x, y: tf.matmul(x, y, transpose_a=True), a.T, b, dtype=dtype, gradients=gradients)
    check(lambda x, y: tf.matmul(x, y, transpose_b=True), a, b.T, dtype=dtype, gradients=gradients)
    batch, other = random(2, 3, 4, 5), random(3, 5, 6, seed=1)
    check(tf.matmul, batch, other, dtype=dtype, gradients=gradients)
    check(lambda x, y: tf.matmul(x, y, transpose_b=True), batch, random(2, 3, 6, 5), dtype=dtype, gradients=gradients)


def test_matmul_of_nothing() -> None:
    check(tf.matmul, random(3, 0), random(0, 2))
    check(tf.matmul, random(0, 4), random(4, 2))


@pytest.mark.parametrize("dtype", FLOATS)
def test_bias(dtype: str) -> None:
    gradients = dtype in ("float32", "float64")
    check(tf.nn.bias_add, random(4, 3), random(3), dtype=dtype, gradients=gradients)
    check(tf.nn.bias_add, random(2, 5, 4, 3), random(3), dtype=dtype, gradients=gradients)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("padding", ["SAME", "VALID", [[0, 0], [1, 2], [0, 1], [0, 0]]])
@pytest.mark.parametrize("strides", [1, 2])
def test_convolution(dtype: str, padding: Any, strides: int) -> None:
    x, w = random(2, 7, 9, 3), random(3, 2, 3, 4, seed=1)
    gradients = dtype in ("float32", "float64")
    check(lambda a, b: tf.nn.conv2d(a, b, strides, padding), x, w, dtype=dtype, gradients=gradients)


def test_dilated_and_one_by_one_convolution() -> None:
    x = random(2, 9, 9, 4)
    check(lambda a, b: tf.nn.conv2d(a, b, 1, "SAME", dilations=2), x, random(3, 3, 4, 5, seed=1))
    check(lambda a, b: tf.nn.conv2d(a, b, 2, "VALID"), x, random(1, 1, 4, 5, seed=1), gradients=True)


@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize("strides", [1, 2])
def test_depthwise_convolution(multiplier: int, strides: int) -> None:
    x, w = random(2, 8, 7, 3), random(3, 3, 3, multiplier, seed=1)
    check(lambda a, b: tf.nn.depthwise_conv2d(a, b, [1, strides, strides, 1], "SAME"), x, w, gradients=True)


def test_grouped_convolution_is_that_of_its_parts() -> None:
    """TensorFlow's CPU has no gradient of grouped convolutions, so the parts are the reference."""
    x, w = random(2, 6, 6, 4), random(3, 3, 2, 6, seed=1)

    def run(a: Any, b: Any) -> Any:
        if "CPU" in a.device:
            parts = zip(tf.split(a, 2, 3), tf.split(b, 2, 3), strict=True)
            return tf.concat([tf.nn.conv2d(p, q, 1, "SAME") for p, q in parts], 3)
        return tf.nn.conv2d(a, b, 1, "SAME")

    check(run, x, w, gradients=True)


def test_convolution_in_three_dimensions() -> None:
    x, w = random(2, 5, 6, 4, 3), random(3, 2, 3, 3, 4, seed=1)
    check(lambda a, b: tf.nn.conv3d(a, b, [1, 1, 2, 1, 1], "SAME"), x, w, gradients=True)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_pooling(dtype: str, padding: str) -> None:
    x = random(2, 7, 9, 3)
    gradients = dtype in ("float32", "float64")
    for window, stride in ((2, 2), (3, 2), (3, 1)):
        for function in (tf.nn.max_pool2d, tf.nn.avg_pool2d):
            check(lambda a, f=function, w=window, s=stride: f(a, w, s, padding), x, dtype=dtype, gradients=gradients)


def test_pooling_in_three_dimensions() -> None:
    x = random(1, 5, 4, 6, 2)
    check(lambda a: tf.nn.max_pool3d(a, 2, 2, "VALID"), x, gradients=True)
    check(lambda a: tf.nn.avg_pool3d(a, 2, 2, "SAME"), x, gradients=True)


def test_a_maximum_that_occurs_twice_gets_the_gradient_once() -> None:
    check(lambda a: tf.nn.max_pool2d(a, 2, 2, "VALID"), np.ones((1, 4, 4, 1)), gradients=True)


@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax(dtype: str) -> None:
    x = random(4, 3, 9, low=-8, high=8)
    gradients = dtype in ("float32", "float64")
    check(tf.nn.softmax, x, dtype=dtype, gradients=gradients)
    check(tf.nn.log_softmax, x, dtype=dtype, gradients=gradients)


@pytest.mark.parametrize("labels", ["int32", "int64"])
def test_cross_entropy(labels: str) -> None:
    logits = random(6, 5, low=-4, high=4)
    sparse = integers(6, high=5, dtype=labels)
    check(lambda x, y: tf.nn.sparse_softmax_cross_entropy_with_logits(y, x), logits, sparse, gradients=True)
    dense = random(6, 5, low=0.1, high=1)
    dense /= dense.sum(1, keepdims=True)
    check(lambda x, y: tf.nn.softmax_cross_entropy_with_logits(tf.stop_gradient(y), x), logits, dense, gradients=True)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("factor", [1.0, 0.1])
def test_batch_norm(training: bool, factor: float) -> None:
    x, scale, offset = random(4, 5, 6, 3), random(3, seed=1), random(3, seed=2)
    mean, variance = random(3, seed=3), random(3, seed=4, low=0.5, high=2)

    def normalize(a: Any, s: Any, o: Any, m: Any, v: Any) -> Any:
        if training and factor == 1.0:
            m = v = tf.zeros([0])
        result = RAW.FusedBatchNormV3(
            x=a, scale=s, offset=o, mean=m, variance=v, is_training=training, exponential_avg_factor=factor
        )
        return result[:3]

    check(normalize, x, scale, offset, mean, variance)

    def gradient(a: Any, s: Any, m: Any, v: Any) -> Any:
        out = RAW.FusedBatchNormGradV3(
            y_backprop=tf.sin(a),
            x=a,
            scale=s,
            reserve_space_1=m,
            reserve_space_2=v,
            reserve_space_3=v,
            is_training=training,
        )
        return out[:3]

    if training:
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    check(gradient, x, scale, mean, variance, tolerance=1e-4)


def test_errors() -> None:
    invalid = tf.errors.InvalidArgumentError
    with tf.device(DEVICE):
        with pytest.raises(invalid, match="Matrix size-incompatible"):
            tf.matmul(tf.zeros([2, 3]), tf.zeros([2, 3]))
        with pytest.raises(invalid, match="must be a multiple"):
            RAW.Conv2D(
                input=tf.zeros([1, 4, 4, 3]), filter=tf.zeros([3, 3, 2, 4]), strides=[1, 1, 1, 1], padding="SAME"
            )
        with pytest.raises(invalid, match="the bias must have the length of axis 1"):
            RAW.BiasAdd(value=tf.zeros([2, 3]), bias=tf.zeros([4]))
        with pytest.raises(invalid, match="logits and labels do not fit"):
            RAW.SparseSoftmaxCrossEntropyWithLogits(features=tf.zeros([2, 3]), labels=[1, 2, 3])


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("ij,kj->ki", [(3, 4), (5, 4)]),
        ("abc,cde->abde", [(2, 3, 4), (4, 2, 5)]),
        ("aecd,abcd->acbe", [(2, 3, 2, 4), (2, 5, 2, 4)]),
        ("acbe,aecd->abcd", [(2, 2, 5, 3), (2, 3, 2, 4)]),
        ("abcd,cde->abe", [(2, 3, 2, 4), (2, 4, 5)]),
        ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
        ("i,j->ji", [(3,), (4,)]),
        ("i,i->", [(6,), (6,)]),
        ("bij->bji", [(2, 3, 4)]),
        ("bij->b", [(2, 3, 4)]),
        ("bij,bk->bk", [(2, 3, 4), (2, 5)]),
        ("ij,ij->ij", [(3, 4), (3, 4)]),
    ],
)
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    operands = [random(*shape, seed=i) for i, shape in enumerate(shapes)]
    check(lambda *xs: RAW.Einsum(inputs=xs, equation=equation), *operands, gradients=True)


def test_einsum_along_a_diagonal() -> None:
    check(lambda x: RAW.Einsum(inputs=[x], equation="ii->i"), random(4, 4))
    check(lambda x, y: RAW.Einsum(inputs=[x, y], equation="aab,b->a"), random(3, 3, 2), random(2, seed=1))


def test_einsum_errors() -> None:
    with tf.device(DEVICE):
        with pytest.raises(tf.errors.InvalidArgumentError, match="do not fit equation"):
            RAW.Einsum(inputs=[tf.zeros([2, 3]), tf.zeros([2, 3])], equation="ij,jk->ik")
        with pytest.raises(tf.errors.InvalidArgumentError):
            RAW.Einsum(inputs=[tf.zeros([2, 3, 4])], equation="ij->ji")
