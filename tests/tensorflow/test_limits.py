"""What the ABI cannot say in one op: ranks above its own, several diagonals, many repeated axes, repeated labels.

hostile.py has some of it, too; here it is forbidden to fall back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from compare import CPU, DEVICE, check, integers, random
from tensorflow.python.framework import config

RAW = tf.raw_ops
DEEP = (2, 1, 3, 1, 2, 1, 1, 2, 1, 1, 2, 1)

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "unary": lambda a: tf.abs(a),
    "cast": lambda a: tf.cast(a, tf.float64),
    "add": lambda a: a + a,
    "add a scalar": lambda a: a + 1,
    "broadcast along some axes": lambda a: a * tf.reshape(a, [6, 8])[0, 0] + tf.ones([1] * 12),
    "compare": lambda a: tf.less(a, a + 0.5),
    "add_n": lambda a: tf.add_n([a, a, a]),
    "clip": lambda a: tf.clip_by_value(a, -1, 1),
    "zeros": tf.zeros_like,
    "fill": lambda a: tf.fill(DEEP, 3.0),
    "sum": lambda a: tf.reduce_sum(a, [2, 4]),
    "sum, keeping axes": lambda a: tf.reduce_sum(a, [0, 1, 2], keepdims=True),
    "sum, taking turns": lambda a: tf.reduce_sum(tf.tile(a, [2] * 12), [0, 2, 4, 6, 8, 10]),
    "mean, taking turns": lambda a: tf.reduce_mean(tf.tile(a, [2] * 12), [1, 3, 5, 7, 9, 11], keepdims=True),
    "mean of all": lambda a: tf.reduce_mean(a),
    "l2": tf.nn.l2_loss,
    "bitcast": lambda a: tf.bitcast(a, tf.int32),
    "random": lambda a: tf.random.stateless_normal(DEEP, [1, 2]),
    "tile": lambda a: tf.tile(a, [1, 2] * 6),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_ranks_above_the_abi(name: str) -> None:
    value = random(*DEEP).astype("float32")

    def run(device: str) -> list[tf.Tensor]:
        with tf.device(device):
            return tf.nest.flatten(FUNCTIONS[name](tf.constant(value)))

    for actual, expected in zip(run(DEVICE), run(CPU), strict=True):
        assert DEVICE in actual.device
        assert actual.shape == expected.shape
        np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=2e-5, atol=1e-5)


def test_other_ranks_say_what_is_wrong() -> None:
    with tf.device(DEVICE):
        x = tf.zeros([1] * 12)
        with pytest.raises(tf.errors.UnimplementedError, match="rank 12, more than 10"):
            tf.concat([x, x], 0)


def test_variables_of_many_axes() -> None:
    def run(device: str) -> list[np.ndarray]:
        with tf.device(device):
            variable = tf.Variable(random(*DEEP).astype("float32"))
            slot = tf.Variable(tf.zeros(DEEP))
            variable.assign_add(tf.ones(DEEP))
            RAW.ResourceApplyMomentum(
                var=variable.handle, accum=slot.handle, lr=0.5, grad=tf.ones(DEEP), momentum=0.9, use_nesterov=False
            )
            return [variable.numpy(), slot.numpy()]

    for actual, expected in zip(run(DEVICE), run(CPU), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_upsampling_of_volumes_trains() -> None:
    layer = keras.layers.UpSampling3D(2)
    check(layer, random(1, 2, 2, 3, 2), gradients=True)


@pytest.mark.parametrize("axes", [5, 6, 7])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_tile_along_many_axes(axes: int, dtype: str) -> None:
    value = integers(*[2] * axes, dtype="int32").astype(dtype)
    with tf.device(DEVICE):
        result = tf.tile(tf.constant(value), [2, 3] * (axes // 2) + [2] * (axes % 2))
    np.testing.assert_array_equal(result.numpy(), np.tile(value, [2, 3] * (axes // 2) + [2] * (axes % 2)))


@pytest.mark.parametrize("align", ["LEFT_LEFT", "LEFT_RIGHT", "RIGHT_LEFT", "RIGHT_RIGHT"])
@pytest.mark.parametrize("shape", [(2, 3, 4), (4, 3), (3, 3)])
@pytest.mark.parametrize("k", [(-1, 1), (-2, 0), (0, 2), (1, 2), (-2, -1)])
def test_several_diagonals(k: tuple[int, int], shape: tuple[int, ...], align: str) -> None:
    matrices = random(*shape)
    check(lambda a: tf.linalg.diag_part(a, k=k, padding_value=7.0, align=align), matrices)
    rows = tf.linalg.diag_part(matrices, k=k, align=align).numpy()
    check(lambda a: tf.linalg.diag(a, k=k, padding_value=7.0, align=align), rows)
    check(lambda a, d: tf.linalg.set_diag(a, d, k=k, align=align), matrices, rows)


def test_empty_matrices() -> None:
    for shape in ((0, 3), (3, 0), (2, 0, 0)):
        check(tf.linalg.diag_part, random(*shape))
        check(lambda a: tf.linalg.set_diag(a, tf.linalg.diag_part(a)), random(*shape))
    check(tf.linalg.diag, random(2, 0))


def test_a_label_twice_in_an_einsum_output() -> None:
    check(lambda a: RAW.Einsum(inputs=[a], equation="a->aa"), random(4))
    for equation in ("ab,bc->aac", "ab,bc->cac"):
        check(lambda a, b, e=equation: RAW.Einsum(inputs=[a, b], equation=e), random(3, 4), random(4, 2))


@pytest.mark.parametrize("dtype", ["int16", "uint16", "int32", "int64"])
def test_argmax_to(dtype: str) -> None:
    check(lambda a: tf.argmax(a, 1, output_type=dtype), random(3, 5))


def test_equal_limits_of_nothing() -> None:
    with tf.device(DEVICE):
        assert RAW.RandomUniformInt(shape=[0], minval=3, maxval=3).shape == [0]
        assert tf.random.stateless_uniform([0], [1, 2], 3, 3, tf.int32).shape == [0]


def test_quantized_bits() -> None:
    with tf.device(DEVICE):
        for dtype in (tf.quint16, tf.qint16):
            result = RAW.Bitcast(input=tf.constant([1, 65535], tf.uint16), type=dtype)
            assert result.dtype == dtype
        assert RAW.Bitcast(input=tf.constant([1, 258], tf.uint16), type=tf.quint8).shape == [2, 2]


def test_determinism_demands_a_seed() -> None:
    config.enable_op_determinism()
    try:
        for device in (CPU, DEVICE):
            with (
                tf.device(device),
                pytest.raises(tf.errors.InvalidArgumentError, match="must have a seed"),
            ):
                RAW.TruncatedNormal(shape=tf.constant([2], tf.int64), dtype=tf.float64)
    finally:
        config.disable_op_determinism()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RAW.TopKV2(input=tf.zeros([3]), k=-7), "k must not be negative, got -7"),
        (
            lambda: tf.math.unsorted_segment_sum(tf.zeros([3]), tf.zeros([3], tf.int64), -2),
            "num_segments must not be negative, got -2",
        ),
        (lambda: tf.zeros([2, 3, 4])[..., :, ...], "Multiple ellipses"),
        (lambda: tf.broadcast_to(tf.zeros([1, 2]), [-1, 2]), "Incompatible shapes|negative"),
        (lambda: RAW.RandomUniform(shape=[-1, 2], dtype=tf.float32), "negative dimension"),
        (lambda: tf.fill([2**31 - 1] * 4, 1.0), "more elements than a tensor can have"),
    ],
)
def test_messages(call: Callable[[], Any], message: str) -> None:
    with tf.device(DEVICE), pytest.raises((tf.errors.InvalidArgumentError, IndexError, ValueError), match=message):
        call()


@pytest.mark.parametrize("again", range(2))
def test_a_refused_attribute_leaves_no_operand_behind(again: int) -> None:
    """TensorFlow sends a number of the host to the device by a name that the next op's may have: whoever fails before
    it has taken its own leaves it to that one."""

    def scaled(size: list[int], kernel_type: str) -> tf.Tensor:
        # Computed on the device, so that it is sent and not a constant of the op.
        sizes = tf.abs(tf.constant(size))
        return tf.raw_ops.ScaleAndTranslate(
            images=tf.ones([1, 4, 4, 2]),
            size=sizes,
            scale=tf.constant([1.0, 1.0]),
            translation=tf.constant([0.0, 0.0]),
            kernel_type=kernel_type,
        )

    with tf.device(DEVICE):
        with pytest.raises(tf.errors.InvalidArgumentError, match="Unrecognized kernel type: nonesuch"):
            scaled([5, 6], "nonesuch")
        assert scaled([2, 3], "lanczos3").shape == (1, 2, 3, 2)
        with pytest.raises(tf.errors.InvalidArgumentError, match="nonesuch"):
            tf.function(lambda: scaled([7, 7], "nonesuch"))()
        counts = tf.raw_ops.DenseBincount(
            input=tf.constant([1, 2, 2]), size=tf.abs(tf.constant(4)), weights=tf.constant([], tf.int32)
        )
        assert counts.numpy().tolist() == [0, 1, 2, 0]
