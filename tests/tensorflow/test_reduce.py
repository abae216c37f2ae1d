"""Reductions, arg-reductions, scans, top-k."""

import numpy as np
import pytest
import tensorflow as tf
from compare import DEVICE, FLOATS, check, integers, random

RAW = tf.raw_ops
REDUCTIONS = {
    "Sum": tf.reduce_sum,
    "Mean": tf.reduce_mean,
    "Prod": tf.reduce_prod,
    "Max": tf.reduce_max,
    "Min": tf.reduce_min,
    "EuclideanNorm": tf.math.reduce_euclidean_norm,
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, dtype: str) -> None:
    function = REDUCTIONS[name]
    x = random(3, 5, 4, low=0.5, high=1.5)
    full = dtype in ("float32", "float64")
    for axis in (None, 0, 1, -1, [0, 2], []):
        for keep in (False, True):
            check(
                lambda a, ax=axis, k=keep: function(a, axis=ax, keepdims=k),
                x,
                dtype=dtype,
                gradients=full and name != "Prod" and axis != [],
            )


def test_reductions_over_nothing() -> None:
    x = random(0, 3)
    for function in (tf.reduce_sum, tf.reduce_prod, tf.reduce_max, tf.reduce_min):
        check(lambda a, f=function: f(a, axis=0), x)
    check(lambda a: tf.reduce_sum(a, axis=1), x)


def test_long_sums_keep_their_precision() -> None:
    check(tf.reduce_sum, random(100_003, low=0, high=1))
    check(tf.reduce_mean, random(4099, 33, low=0, high=1), dtype="bfloat16")


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "int8"])
def test_integers(dtype: str) -> None:
    x = integers(4, 5, high=4, dtype=dtype)
    for function in (tf.reduce_sum, tf.reduce_prod, tf.reduce_max, tf.reduce_min):
        check(lambda a, f=function: f(a, axis=1), x)


def test_truth() -> None:
    x = integers(4, 5, high=2).astype(bool)
    check(lambda a: tf.reduce_all(a, axis=1), x)
    check(lambda a: tf.reduce_any(a, axis=0, keepdims=True), x)
    check(tf.reduce_all, x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_arg_reductions(dtype: str) -> None:
    x = np.round(random(6, 7, 3) * 4)  # with ties: the first wins
    for axis in (0, 1, -1):
        for output in (tf.int32, tf.int64):
            check(lambda a, ax=axis, o=output: tf.argmax(a, ax, output_type=o), x, dtype=dtype)
            check(lambda a, ax=axis, o=output: tf.argmin(a, ax, output_type=o), x, dtype=dtype)


def test_scans_and_top_k() -> None:
    x = random(4, 7)
    for exclusive in (False, True):
        for reverse in (False, True):
            check(lambda a, e=exclusive, r=reverse: tf.cumsum(a, 1, e, r), x, gradients=True)
            check(lambda a, e=exclusive, r=reverse: tf.math.cumprod(a, 0, e, r), x)
    check(lambda a: tf.math.top_k(a, 3), np.round(x * 2))
    check(lambda a: tf.nn.l2_loss(a), x, gradients=True)


def test_errors() -> None:
    with tf.device(DEVICE):
        with pytest.raises(tf.errors.InvalidArgumentError, match="axis 3 is out of range; expected -2 to 1"):
            RAW.Sum(input=tf.zeros([2, 3]), axis=[3])
        with pytest.raises(tf.errors.InvalidArgumentError, match="has no elements"):
            tf.argmax(tf.zeros([2, 0]), 1)


@pytest.mark.parametrize("dtype", FLOATS)
def test_running_log_sum_exp(dtype: str) -> None:
    x = 20 * random(3, 40)
    for axis in (0, 1, -1):
        for exclusive in (False, True):
            for reverse in (False, True):
                check(
                    lambda a, ax=axis, e=exclusive, r=reverse: tf.math.cumulative_logsumexp(
                        a, axis=ax, exclusive=e, reverse=r
                    ),
                    x,
                    dtype=dtype,
                    gradients=dtype in ("float32", "float64") and not exclusive,
                )


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8"])
def test_nth_element(dtype: str) -> None:
    x = integers(4, 7, high=90).astype(dtype) if dtype in ("int64", "uint8") else random(4, 7)
    for n in (0, 3, 6):
        for reverse in (False, True):
            check(lambda a, n=n, r=reverse: RAW.NthElement(input=a, n=n, reverse=r), x, dtype=dtype)


def test_in_top_k() -> None:
    rows = np.float32([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4], [np.nan, 0.1, 0.9], [np.inf, 0.1, 0.9], [0.1, 0.2, 0.3]])
    for targets in ([2, 0, 2, 1, 5], [0, 1, 1, 0, -1]):
        for dtype in ("int32", "int64"):
            for k in (0, 1, 2, 3):
                given = np.array(targets, dtype)
                check(lambda p, t, k=k: tf.math.in_top_k(t, p, k), rows, given)
                check(lambda p, t, k=k: RAW.InTopK(predictions=p, targets=t, k=k), rows, given)


@pytest.mark.parametrize("dtype", [*FLOATS, "complex64", "complex128"])
def test_means_of_nothing(dtype: str) -> None:
    for shape, axis in (((0,), None), ((0,), 0), ((2, 0), 1), ((2, 0), 0), ((0, 3), 0), ((0, 0), None), ((0, 2), [])):
        check(lambda s=shape, a=axis: tf.reduce_mean(tf.zeros(s, dtype), a))
