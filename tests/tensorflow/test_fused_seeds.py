"""What the seeds of Keras' random layers become for the generator is one op, and draws the same numbers."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from compare import CPU, DEVICE
from graphs import fused_lists, graph_ops

pytestmark = pytest.mark.usefixtures("soft_placement")

layers = keras.layers


def noisy() -> keras.Model:
    return keras.Sequential(
        [layers.Input((8,)), layers.Dropout(0.5), layers.GaussianNoise(1.0), layers.Dropout(0.25), layers.Dropout(0.1)]
    )


def draws(device: str) -> list[np.ndarray]:
    """What a model of random layers makes of ones, in three steps."""
    keras.utils.set_random_seed(4)
    with tf.device(device):
        model = noisy()
        step = tf.function(lambda x: model(x, training=True))
        return [np.asarray(step(tf.ones((4, 8)))) for _ in range(3)]


def test_all_layers_read_their_seeds_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fused, lists = fused_lists(lambda: draws(DEVICE))
    assert lists["UnihalRandomKeys"] == [4]
    monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", "elementwise")
    plain, ops = graph_ops(lambda: draws(DEVICE))
    assert ops["FloorMod"] == 4 and not ops["UnihalRandomKeys"]
    np.testing.assert_array_equal(fused, plain)
    np.testing.assert_allclose(fused, draws(CPU), rtol=1e-5, atol=1e-6)
    assert not np.array_equal(fused[0], fused[1])  # seeds move on


def test_seeds_that_follow_from_what_was_drawn() -> None:
    first, second = tf.Variable([3, 5], dtype=tf.int64), tf.Variable([-7, 2**40], dtype=tf.int64)

    def draw(seed: Any) -> tf.Tensor:
        narrow = tf.cast(tf.math.floormod(seed, tf.int32.max - 1), tf.int32)
        return tf.random.stateless_uniform((3,), narrow)

    @tf.function
    def chain() -> tuple[tf.Tensor, ...]:
        x = draw(first)
        y = draw(second + tf.cast(1000 * tf.reduce_sum(x), tf.int64))
        return x, y, draw(second)

    def run(device: str) -> Any:
        with tf.device(device):
            return [np.asarray(part) for part in chain()]

    with tf.device(DEVICE):
        first, second = tf.Variable([3, 5], dtype=tf.int64), tf.Variable([-7, 2**40], dtype=tf.int64)
    actual, lists = fused_lists(lambda: run(DEVICE))
    assert sorted(lists["UnihalRandomKeys"]) in ([1, 1, 1], [1, 2])  # one of them waits for another
    with tf.device(CPU):
        first, second = tf.Variable([3, 5], dtype=tf.int64), tf.Variable([-7, 2**40], dtype=tf.int64)
    expected = tf.function(chain.python_function)
    with tf.device(CPU):
        np.testing.assert_array_equal(actual, [np.asarray(part) for part in expected()])


def test_a_seed_that_somebody_reads() -> None:
    with tf.device(DEVICE):
        seed = tf.Variable([3, 5], dtype=tf.int64)

        @tf.function
        def draw() -> tuple[tf.Tensor, tf.Tensor]:
            narrow = tf.cast(tf.math.floormod(seed, tf.int32.max - 1), tf.int32)
            return tf.random.stateless_uniform((3,), narrow), narrow

        (drawn, narrow), lists = fused_lists(draw)
    assert "UnihalRandomKeys" not in lists
    with tf.device(CPU):
        np.testing.assert_array_equal(drawn, tf.random.stateless_uniform((3,), [3, 5]))
    np.testing.assert_array_equal(narrow, [3, 5])
