"""Data movement, casts and constants."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from compare import DEVICE, FLOATS, check, integers, on, random

RAW = tf.raw_ops
# int32 stays in host memory, where our kernels must move it all the same.
DTYPES = [*FLOATS, "int32", "int64", "uint8", "bool", "complex64"]


def values(*shape: int, dtype: str) -> np.ndarray:
    if dtype in FLOATS:
        return random(*shape)
    return integers(*shape, high=100, dtype="int64").astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_moves(dtype: str) -> None:
    x = values(3, 4, 5, dtype=dtype)
    functions = [
        lambda a: tf.transpose(a, [2, 0, 1]),
        lambda a: tf.transpose(a, [0, 2, 1]),
        lambda a: tf.broadcast_to(a[:, :1], [2, 3, 4, 5]),
        lambda a: tf.tile(a, [2, 1, 3]),
        lambda a: tf.reverse(a, [0, 2]),
        lambda a: tf.stack([a, a[::-1], a], axis=1),
        lambda a: tf.unstack(a, axis=1),
        lambda a: tf.concat([a, a[:, :2], a[:, :0]], axis=1),
        lambda a: tf.split(a, 2, axis=1),
        lambda a: tf.split(a, [1, -1, 2], axis=2),
        lambda a: tf.slice(a, [1, 0, 2], [2, -1, 2]),
        lambda a: tf.pad(a, [[1, 0], [0, 2], [3, 1]]),
    ]
    for function in functions:
        check(function, x, dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_constants_of_the_host(dtype: str) -> None:
    for shape in ((), (0,), (3,), (2, 0, 3), (70000,), (301, 101), (*[1] * 12, 2)):
        x = np.asarray(np.rint(4 * random(*shape)) / 4 if dtype in FLOATS else values(*shape, dtype=dtype))
        with tf.device(DEVICE):
            for tensor in (tf.constant(x, dtype), tf.constant(x.tolist(), dtype, shape), tf.convert_to_tensor(x)):
                assert tensor.device.endswith(DEVICE)
                np.testing.assert_array_equal(tensor.numpy(), x.astype(tensor.dtype.as_numpy_dtype))


def test_a_constant_is_not_the_array_that_it_was_made_of() -> None:
    for count in (8, 100000):
        x = np.zeros(count, "float32")
        with tf.device(DEVICE):
            tensor = tf.convert_to_tensor(x)
            x[:] = 1
            np.testing.assert_array_equal(tensor.numpy(), np.zeros(count))


SLICES: list[Any] = [
    np.s_[1],
    np.s_[-1, ..., 0],
    np.s_[::-1],
    np.s_[:, 1:-1:2],
    np.s_[..., 4:0:-2],
    np.s_[:, tf.newaxis, 2, :],
    np.s_[2:1],
    np.s_[-100:100, :, -2:],
    np.s_[tf.newaxis, ..., tf.newaxis],
]


@pytest.mark.parametrize("index", SLICES, ids=str)
def test_slices_are_those_of_numpy(index: Any) -> None:
    x = random(3, 4, 5)
    (result,) = on(DEVICE, lambda a: a[index], [x], ["float64"])
    numpy_index = index if not isinstance(index, tuple) else tuple(index)
    np.testing.assert_array_equal(result.numpy(), x[numpy_index])
    check(lambda a: a[index], x, gradients=x[numpy_index].size > 0)
    check(lambda a: a[index], integers(3, 4, 5, dtype="int32"))


def test_gradients_of_moves() -> None:
    x, y = random(3, 4), random(3, 4, seed=1)
    functions = [
        lambda a, b: tf.concat([a, b], 0) ** 2,
        lambda a, b: tf.stack([a, b], 1) ** 2,
        lambda a, b: tf.tile(a, [2, 3]) * 2 + tf.tile(b, [2, 3]),
        lambda a, b: tf.pad(a, [[1, 1], [0, 2]]) * tf.pad(b, [[1, 1], [0, 2]]),
        lambda a, b: tf.reverse(a, [1]) * b,
        lambda a, b: tf.transpose(a) * tf.transpose(b),
        lambda a, b: tf.split(a, 2, 1) + tf.unstack(b, axis=0),
    ]
    for function in functions:
        check(function, x, y, gradients=True)


@pytest.mark.parametrize("source", DTYPES)
def test_casts(source: str) -> None:
    x = values(31, dtype=source) if source != "bool" else values(31, dtype="int64") > 50
    for target in ("float32", "float64", "float16", "bfloat16", "int32", "int64", "bool"):
        check(lambda a, t=target: tf.cast(a, t), x, dtype=source)


def test_casts_of_int32_to_itself_stay_in_host_memory() -> None:
    for x in (integers(4, 2, high=1000, dtype="int32"), np.int32(7), np.zeros((0, 3), "int32")):
        check(lambda a: RAW.Cast(x=a, DstT=tf.int32), x)
        check(tf.function(lambda a: tf.reshape(a, [-1]) + tf.reshape(RAW.Cast(x=a, DstT=tf.int32), [-1])), x)
        with tf.device(DEVICE):
            assert RAW.Cast(x=tf.constant(x), DstT=tf.int32).backing_device.endswith("CPU:0")
    check(lambda a: RAW.Cast(x=tf.cast(a, tf.int32), DstT=tf.int32), random(3, 4))  # of what the device computed
    check(lambda a: tf.repeat(a, 2, 0), random(3, 4))


def test_casts_round_half_to_even_and_truncate() -> None:
    halves = np.array([2049.0, 2051.0, 1.00048828125, -2049.0])
    check(lambda a: tf.cast(a, "float16"), halves)
    check(lambda a: tf.cast(a, "int64"), np.array([1.9, -1.9, 0.5, -0.5, 2.5]))


def test_bitcast() -> None:
    check(lambda a: tf.bitcast(a, tf.int64), integers(4, 2, high=1000, dtype="int32"))
    check(lambda a: tf.bitcast(a, tf.uint8), random(3))
    check(lambda a: tf.bitcast(a, tf.uint32), random(3))


def test_constants() -> None:
    for dtype in (tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int64, tf.bool, tf.uint8):
        check(lambda d=dtype: (tf.fill([2, 3], tf.cast(1, d)), tf.fill([0, 3], tf.cast(1, d))))
        check(lambda d=dtype: (tf.zeros_like(tf.cast([3, 4], d)), tf.ones_like(tf.cast([3, 4], d))))
    check(lambda: tf.range(2.0, 9.0, 1.5))
    for dtype in FLOATS:  # the number of elements is rounded as the type is
        check(lambda dtype=dtype: tf.range(tf.constant(0, dtype), tf.constant(1, dtype), tf.constant(0.0001, dtype)))
    check(lambda: tf.range(tf.constant(9, tf.int64), -3, -2))
    check(lambda: tf.range(tf.constant(2**62, tf.int64), 2**62 + 7, 3))  # numbers that no float64 has
    check(lambda: RAW.Range(start=tf.constant([1.0]), limit=4.0, delta=tf.constant([0.5])))
    check(lambda: tf.range(3.0, 3.0))


# Of int32, in host memory, and of more axes than a view has.
def test_constants_like_int32() -> None:
    for shape in ([3, 4], [0, 3], [], [2, 1, 2] * 5):
        check(lambda shape=shape: (RAW.ZerosLike(x=tf.fill(shape, 7)), RAW.OnesLike(x=tf.fill(shape, 7))))
    check(lambda a: (RAW.ZerosLike(x=tf.cast(a, tf.int32)), RAW.OnesLike(x=tf.cast(a, tf.int32))), random(3, 4))


def test_band_part() -> None:
    for lower, upper in [(0, 0), (1, -1), (-1, 1), (-1, -1), (2, 1)]:
        check(lambda a, lo=lower, up=upper: tf.linalg.band_part(a, lo, up), random(2, 4, 6))


def test_errors() -> None:
    invalid = tf.errors.InvalidArgumentError
    with tf.device(DEVICE):
        x = tf.zeros([2, 3])
        with pytest.raises(invalid, match="is not a permutation"):
            RAW.Transpose(x=x, perm=[0, 0])
        with pytest.raises(invalid, match="shapes of all inputs must match"):
            RAW.Pack(values=[x, tf.zeros([3, 2])], axis=0)
        with pytest.raises(invalid, match="Dimensions of inputs should match"):
            tf.concat([x, tf.zeros([3, 2])], 0)
        with pytest.raises(invalid, match="axis 5 is out of range; expected -2 to 1"):
            tf.concat([x, x], 5)
        with pytest.raises(invalid, match="reach outside shape"):
            RAW.Slice(input=x, begin=[0, 2], size=[2, 2])
        with pytest.raises(invalid, match="slice index 7 of dimension 0 out of bounds"):
            x[7]
        with pytest.raises(invalid, match="should evenly divide"):
            tf.split(x, 2, axis=1)
        with pytest.raises(invalid, match="negative"):
            tf.fill([-1, 2], 1.0)
        with pytest.raises(invalid, match="Incompatible shapes"):
            tf.broadcast_to(x, [4, 3])
        with pytest.raises(invalid, match="must be scalars, got shape"):
            RAW.Range(start=[0.0, 1.0], limit=4.0, delta=1.0)
        with pytest.raises(invalid, match="delta must be non-zero"):
            RAW.Range(start=tf.constant(0, tf.int64), limit=tf.constant(4, tf.int64), delta=tf.constant(-1, tf.int64))
        for start, limit in [(float("nan"), 4.0), (0.0, float("inf"))]:
            with pytest.raises(invalid, match="more than a tensor can have"):
                RAW.Range(start=tf.constant(start), limit=tf.constant(limit), delta=tf.constant(1.0))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int64", "bool", "complex64"])
def test_roll(dtype: str) -> None:
    x = np.arange(60).reshape(3, 4, 5).astype(dtype)
    for shift, axis in ((1, 0), (-2, 1), (7, -1), ([1, -1], [0, 2]), ([1, 1, 3], [0, 0, 1]), (0, 1)):
        check(lambda a, s=shift, ax=axis: tf.roll(a, s, ax), x, dtype=dtype)
    check(lambda a: tf.roll(a, [1, 2], [0, 1]), np.zeros((0, 3), dtype), dtype=dtype)


def test_gradient_of_roll() -> None:
    check(lambda a: tf.roll(a, [1, -2], [0, 1]), random(3, 5), gradients=True)
