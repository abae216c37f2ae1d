"""Positions, segments, counts, searches and sparse products."""

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from compare import DEVICE, FLOATS, check, integers, on, random

RAW = tf.raw_ops


@pytest.mark.parametrize("dtype", ["bool", "int32", "uint8", "float32", "float64"])
def test_where(dtype: str) -> None:
    for shape in ((7,), (3, 5), (2, 3, 4), (0,), (3, 0)):
        check(lambda x, d=dtype: tf.where(tf.cast(x, d)), integers(*shape, high=2))
    check(lambda x, m: tf.boolean_mask(x, m), random(4, 3), np.array([True, False, True, True]), gradients=True)


@pytest.mark.parametrize("dtype", [*FLOATS, "int64"])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_sorted_segments(dtype: str, index: str) -> None:
    data = integers(6, 3, high=4) if dtype == "int64" else random(6, 3)
    ids = np.array([0, 0, 2, 2, 2, 5], index)
    for function in (tf.math.segment_sum, tf.math.segment_mean, tf.math.segment_prod):
        check(lambda d, i, f=function: f(d, i), data, ids, dtype=dtype)
    for function in (tf.math.segment_max, tf.math.segment_min):
        check(lambda d, i, f=function: f(d, i), data, np.array([0, 0, 1, 1, 1, 2], index), dtype=dtype)
    check(lambda d, i: tf.math.segment_sum(d, i), data[:0], ids[:0], dtype=dtype)


def complex_numbers(*shape: int, dtype: str, seed: int = 0) -> np.ndarray:
    return (random(*shape, seed=seed) + 1j * random(*shape, seed=seed + 1)).astype(dtype)


def check_complex(function: Callable[..., tf.Tensor], *arrays: np.ndarray) -> None:
    check(lambda *a: [part(function(*a)) for part in (tf.math.real, tf.math.imag)], *arrays)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_sorted_segments_of_complex_numbers(dtype: str, index: str) -> None:
    ids = np.array([0, 0, 2, 2, 2, 5], index)
    for shape in ((6,), (6, 3), (6, 2, 1, 3), (6, 0)):
        data = complex_numbers(*shape, dtype=dtype)
        for function in (tf.math.segment_sum, tf.math.segment_mean, tf.math.segment_prod):
            check_complex(function, data, ids)
            check_complex(function, data[:0], ids[:0])


def test_gradients_of_segments() -> None:
    ids = np.array([0, 0, 1, 2, 2, 2])
    for function in (tf.math.segment_sum, tf.math.segment_mean, tf.math.segment_max):
        check(lambda d, i, f=function: f(d, i), random(6, 3), ids, gradients=True)


def test_counts() -> None:
    x = integers(40, high=7)
    for weights in (random(40), integers(40, high=3), np.zeros(0), np.zeros(0, np.int64)):
        check(lambda i, w: RAW.DenseBincount(input=i, size=9, weights=w, binary_output=False), x, weights)
        check(lambda i, w: RAW.DenseBincount(input=i, size=4, weights=w, binary_output=False), x, weights)
    check(lambda i: tf.math.bincount(i, minlength=12, maxlength=12), x.astype(np.int32))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_histograms(dtype: str) -> None:
    """Places at the edges of thousands of bins tell in which type they are computed."""
    x = 4 * np.random.default_rng(0).normal(size=50001)
    x[:6] = [3, 3, 3, -3, -3, -3]
    x = x.astype(dtype)
    if x.dtype.kind == "f":
        x[6:9] = [np.inf, -np.inf, np.nextafter(x.dtype.type(3), x.dtype.type(0))]
    for bins in (1, 2, 5, 7777):
        check(lambda v, n=bins: tf.histogram_fixed_width(v, tf.constant([-3, 3], v.dtype), n), x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_searches(dtype: str) -> None:
    table, values = np.sort(integers(3, 9, high=8), axis=-1), integers(3, 5, low=-1, high=9, seed=1)
    for side in ("left", "right"):
        for out in (tf.int32, tf.int64):
            check(
                lambda a, b, s=side, o=out: tf.searchsorted(tf.cast(a, dtype), tf.cast(b, dtype), s, o), table, values
            )


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_sparse_products(dtype: str) -> None:
    places = np.array([[0, 2], [0, 0], [3, 1], [3, 2], [1, 1]])
    for adjoint_a in (False, True):
        for adjoint_b in (False, True):
            inner = 4 if adjoint_a else 3
            b = random(5, inner) if adjoint_b else random(inner, 5)

            def product(
                i: tf.Tensor, v: tf.Tensor, b: tf.Tensor, a: bool = adjoint_a, t: bool = adjoint_b
            ) -> tf.Tensor:
                return RAW.SparseTensorDenseMatMul(
                    a_indices=i, a_values=v, a_shape=[4, 3], b=b, adjoint_a=a, adjoint_b=t
                )

            check(product, places, random(5, seed=2), b, dtype=dtype, gradients=dtype == "float32")


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("adjoint_a", [False, True])
@pytest.mark.parametrize("adjoint_b", [False, True])
def test_sparse_products_of_complex_numbers(adjoint_b: bool, adjoint_a: bool, dtype: str) -> None:
    places = np.array([[0, 2], [0, 0], [3, 1], [3, 2], [1, 1]])
    inner = 4 if adjoint_a else 3
    for columns in (5, 1, 0):
        for count in (5, 0):
            check_complex(
                lambda i, v, b: RAW.SparseTensorDenseMatMul(
                    a_indices=i, a_values=v, a_shape=[4, 3], b=b, adjoint_a=adjoint_a, adjoint_b=adjoint_b
                ),
                places[:count],
                complex_numbers(count, dtype=dtype, seed=2),
                complex_numbers(*((columns, inner) if adjoint_b else (inner, columns)), dtype=dtype),
            )


def test_errors() -> None:
    with tf.device(DEVICE):
        with pytest.raises(tf.errors.InvalidArgumentError, match="segment_ids should be a vector"):
            tf.math.segment_sum(tf.zeros([4, 2]), tf.constant([0, 1]))
        with pytest.raises(tf.errors.InvalidArgumentError, match="size must be non-negative"):
            RAW.DenseBincount(input=tf.constant([1]), size=-1, weights=tf.zeros([0]), binary_output=False)
        with pytest.raises(tf.errors.InvalidArgumentError, match="inner dimension does not match"):
            RAW.SparseTensorDenseMatMul(
                a_indices=tf.constant([[0, 0]], tf.int64), a_values=tf.ones([1]), a_shape=[2, 3], b=tf.ones([2, 2])
            )


def test_numbers_above_are_not_counted() -> None:
    (result,) = on(
        DEVICE,
        lambda i: RAW.DenseBincount(input=i, size=3, weights=tf.zeros([0], tf.int64), binary_output=False),
        [np.array([0, 2, 3, 7, 2])],
        ["int64"],
    )
    np.testing.assert_array_equal(result.numpy(), [1, 0, 2])
