"""Gather, scatter, one-hot, segments."""

import numpy as np
import pytest
import tensorflow as tf
from compare import DEVICE, FLOATS, check, integers, on, random

RAW = tf.raw_ops


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_gather(dtype: str, index: str) -> None:
    x, i = random(5, 4, 3), integers(2, 3, high=3, dtype=index)
    for axis in (0, 1, 2):
        check(lambda a, b, ax=axis: tf.gather(a, b, axis=ax), x, i, dtype=dtype, gradients=dtype == "float32")
    check(lambda a, b: tf.gather(a, b, batch_dims=1, axis=2), x[:2], i, dtype=dtype)
    check(
        lambda a, b: tf.gather_nd(a, b),
        x,
        integers(4, 2, high=3, dtype=index),
        dtype=dtype,
        gradients=dtype == "float32",
    )
    check(lambda a, b: tf.gather(a, b), integers(5, 4), i)


def test_an_index_outside_reads_as_zero() -> None:
    (result,) = on(DEVICE, lambda a, b: tf.gather(a, b), [np.arange(3.0), np.array([0, 7, 2])], ["float32", "int64"])
    np.testing.assert_array_equal(result.numpy(), [0.0, 0.0, 2.0])


@pytest.mark.parametrize("dtype", FLOATS)
def test_scatter(dtype: str) -> None:
    rows = np.array([[1], [4], [1]])
    check(lambda i, u: tf.scatter_nd(i, u, [6, 3]), rows, random(3, 3), dtype=dtype)
    tensor, updates, once = random(6, 3), random(2, 3, seed=1), np.array([[1], [4]])
    for function in (
        tf.tensor_scatter_nd_update,
        tf.tensor_scatter_nd_add,
        tf.tensor_scatter_nd_sub,
        tf.tensor_scatter_nd_max,
        tf.tensor_scatter_nd_min,
    ):
        check(lambda t, i, u, f=function: f(t, i, u), tensor, once, updates, dtype=dtype)


def test_segments() -> None:
    data, ids = random(6, 3), np.array([0, 2, 2, -1, 4, 0])
    for function in (
        tf.math.unsorted_segment_sum,
        tf.math.unsorted_segment_prod,
        tf.math.unsorted_segment_max,
        tf.math.unsorted_segment_min,
    ):
        check(lambda d, i, f=function: f(d, i, 5), data, ids)
        check(lambda d, i, f=function: f(d, i, 5), integers(6, 3), ids)
    check(lambda d, i: tf.math.unsorted_segment_sum(d, i, 4), random(2, 3, 5), integers(2, 3, high=4), gradients=True)


def test_one_hot() -> None:
    i = np.array([[0, 2, 5], [-1, 1, 3]])
    for axis in (-1, 0, 1):
        check(lambda a, ax=axis: tf.one_hot(a, 4, axis=ax), i)
    check(lambda a: tf.one_hot(a, 4, on_value=3, off_value=-2, dtype=tf.int64), i)


def test_errors() -> None:
    with tf.device(DEVICE):
        with pytest.raises(tf.errors.InvalidArgumentError, match="do not fit a tensor of shape"):
            tf.tensor_scatter_nd_add(tf.zeros([4, 2]), [[0]], tf.zeros([1, 3]))
        with pytest.raises(tf.errors.InvalidArgumentError, match="does not start with segment_ids"):
            RAW.UnsortedSegmentSum(data=tf.zeros([4]), segment_ids=[1, 2], num_segments=3)
        with pytest.raises(tf.errors.InvalidArgumentError, match="must not exceed the rank"):
            RAW.GatherNd(params=tf.zeros([4]), indices=[[1, 2]])


PLACES = np.array([[0, 1], [1, 0], [1, 2]])


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("change", [((1, 1), 3), ((0, 0), -1), ((2, 0), 0), ((1, 0), 0)], ids=str)
@pytest.mark.parametrize("in_order", [True, False])
def test_places_of_sparse_to_dense(index: str, change: tuple[tuple[int, int], int], in_order: bool) -> None:
    """What the CPU refuses (places outside, out of order or repeated), the device refuses in the same words."""
    places = PLACES.copy()
    places[change[0]] = change[1]

    def dense(device: str) -> object:
        with tf.device(device):
            try:
                return RAW.SparseToDense(
                    sparse_indices=tf.constant(places, index),
                    output_shape=tf.constant([2, 3], index),
                    sparse_values=tf.constant([1.0, 2.0, 3.0]),
                    default_value=tf.constant(0.5),
                    validate_indices=in_order,
                ).numpy()
            except tf.errors.InvalidArgumentError as error:
                return error.message.partition("}} ")[2].partition(" [Op:")[0]

    ours, cpus = dense(DEVICE), dense("CPU")
    assert isinstance(ours, str) == isinstance(cpus, str)
    if not isinstance(cpus, str):
        np.testing.assert_array_equal(ours, cpus)
    elif in_order:
        assert ours == cpus
    else:
        assert "out of bounds" in ours


def test_sparse_places_outside_their_shape() -> None:
    outside = tf.constant([[0, 1], [5, 0]], tf.int64)
    values, shape = tf.constant([1.0, 2.0]), tf.constant([2, 3], tf.int64)
    with tf.device(DEVICE):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\(1, 0\) is invalid: 5 >= 2"):
            RAW.SparseFillEmptyRows(indices=outside, values=values, dense_shape=shape, default_value=0.0)
        with pytest.raises(tf.errors.InvalidArgumentError, match="1 of 2 sparse indices are out of bounds of shape"):
            RAW.SparseSplit(split_dim=0, indices=outside, values=values, shape=shape, num_split=2)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[1\] is out of range"):
            RAW.DynamicStitch(indices=[[0], [-1]], data=[[1.0], [2.0]])
        rows = RAW.SparseReshape(input_indices=outside, input_shape=shape, new_shape=[3, 2]).output_indices
        np.testing.assert_array_equal(rows, [[0, 1], [7, 1]])
