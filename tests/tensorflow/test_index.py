"""Gather, scatter, one-hot, segments."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from compare import AT_ONCE, CPU, DEVICE, FLOATS, check, integers, on, random

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


def test_an_index_outside() -> None:
    arrays = [np.arange(3.0), np.array([0, 7, 2])]
    if AT_ONCE:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[1\] = 7 is not in \[0, 3\)"):
            on(DEVICE, tf.gather, arrays, ["float32", "int64"])
    else:
        (result,) = on(DEVICE, tf.gather, arrays, ["float32", "int64"])
        np.testing.assert_array_equal(result.numpy(), [0.0, 0.0, 2.0])


@pytest.mark.skipif(not AT_ONCE, reason="nobody waits for what the device finds")
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tf.gather_nd(tf.ones([3, 4]), [[0, 1], [2, 4]]), "indices[1] = [2, 4] does not index into "),
        (lambda: tf.scatter_nd([[0], [3]], tf.ones([2]), [3]), "indices[1] = [3] does not index into shape [3]"),
        (
            lambda: tf.math.unsorted_segment_sum(tf.ones([3]), [0, -1, 2], 2),
            "segment_ids[2] = 2 is out of range [0, 2)",
        ),
        (lambda: tf.math.segment_max(tf.ones([3]), [0, 2, 1]), "segment ids are not increasing"),
        (lambda: tf.math.bincount([0, -1, 2], minlength=3, maxlength=3), "must be non-negative!"),
        (lambda: tf.reverse_sequence(tf.ones([2, 3]), [1, 4], seq_axis=1, batch_axis=0), "seq_lens(1) > input.dims("),
        (
            lambda: tf.nn.sparse_softmax_cross_entropy_with_logits([0, 5], tf.ones([2, 5])),
            "Received a label value of 5 which is outside the valid range of [0, 5).  Label values: 0 5",
        ),
        (
            lambda: tf.Variable(tf.ones([3, 2])).scatter_add(tf.IndexedSlices(tf.ones([1, 2]), [3])),
            "indices[0] = 3 is not in [0, 3)",
        ),
    ],
)
def test_numbers_outside_are_refused_in_the_words_of_the_cpu(call: Callable[[], Any], words: str) -> None:
    for device in (CPU, DEVICE):
        with tf.device(device), pytest.raises(tf.errors.InvalidArgumentError) as caught:
            call()
        assert words in str(caught.value)
    with tf.device(DEVICE):  # nothing is left of it
        assert tf.gather(tf.range(3.0), [2]).numpy() == [2]


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
