"""Whole training runs: loss and weights track the CPU's over 20 steps, and no op falls back to it."""

from __future__ import annotations

import ctypes

import keras
import numpy as np
import pytest
import tensorflow as tf
from compare import CPU, DEVICE
from models import STEPS, batches, build

pytestmark = pytest.mark.usefixtures("soft_placement")

NAMES = ["digits_cnn", "resnet18", "transformer"]
BATCH = 8


def fallback_count() -> int:
    return int(ctypes.CDLL("libunihal.so").uhal_fallback_count())


# Training amplifies rounding from step to step. The float64 runs show that the arithmetic is the same; float32 is held
# to what that growth leaves after 20 steps.
TOLERANCE = {"float64": 1e-6, "float32": 5e-2}


def assert_tracks(losses: list[np.ndarray], weights: list[list[np.ndarray]], dtype: str) -> None:
    assert len(losses[0]) == len(losses[1]) == STEPS
    assert np.mean(losses[0][-4:]) < np.mean(losses[0][:4]), "the model does not learn"
    np.testing.assert_allclose(losses[0][:2], losses[1][:2], rtol=1e-4)
    np.testing.assert_allclose(losses[0], losses[1], rtol=TOLERANCE[dtype])
    for device_value, cpu_value in zip(*weights, strict=True):
        scale = max(float(np.linalg.norm(cpu_value)), 0.1 * cpu_value.size**0.5)  # the size of typical weights
        assert np.linalg.norm(device_value - cpu_value) < TOLERANCE[dtype] * scale


class Losses(keras.callbacks.Callback):
    """Loss of each batch; Keras gives running means."""

    def __init__(self) -> None:
        super().__init__()
        self.means: list[float] = []

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        assert logs is not None
        self.means.append(float(logs["loss"]))


# The epochs of test_strict.py are fits of all three.
@pytest.mark.parametrize(
    "name",
    [
        "digits_cnn",
        pytest.param("resnet18", marks=pytest.mark.long),
        pytest.param("transformer", marks=pytest.mark.long),
    ],
)
def test_fit_with_its_defaults(name: str) -> None:
    x, y = batches(name, BATCH, "float32")
    losses, weights = [], []
    before = fallback_count()
    for device in (DEVICE, CPU):
        with tf.device(device):
            model, optimizer = build(name, "float32")
            model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
            watch = Losses()
            model.fit(x, y, batch_size=BATCH, epochs=1, shuffle=False, verbose=0, callbacks=[watch])
            assert device in model.trainable_variables[0].value.device
        means = np.asarray(watch.means)
        losses.append(np.diff(means * np.arange(1, STEPS + 1), prepend=0.0))
        weights.append(model.get_weights())
    assert_tracks(losses, weights, "float32")
    assert fallback_count() == before


# test_strict.py fits all three.
MARKS = {
    ("digits_cnn", "eager"): pytest.mark.whole,
    ("transformer", "function"): pytest.mark.long,
    ("transformer", "eager"): pytest.mark.long,
    ("resnet18", "function"): pytest.mark.long,
    ("resnet18", "eager"): pytest.mark.long,
}


@pytest.mark.parametrize(
    ("name", "mode"),
    [pytest.param(name, mode, marks=MARKS.get((name, mode), ())) for name in NAMES for mode in ("eager", "function")],
)
def test_gradient_tape(name: str, mode: str) -> None:
    x, y = batches(name, BATCH, "float64")
    losses, weights = [], []
    before = fallback_count()
    for device in (DEVICE, CPU):
        with tf.device(device):
            model, optimizer = build(name, "float64")
            optimizer.build(model.trainable_variables)

            def step(
                inputs: tf.Tensor, labels: tf.Tensor, model: keras.Model = model, by: object = optimizer
            ) -> tf.Tensor:
                with tf.GradientTape() as tape:
                    logits = model(inputs, training=True)
                    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
                by.apply_gradients(
                    zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
                )
                return loss

            run = tf.function(step) if mode == "function" else step
            steps = [run(tf.constant(x[i : i + BATCH]), tf.constant(y[i : i + BATCH])) for i in range(0, len(x), BATCH)]
        losses.append(np.array([float(loss) for loss in steps]))
        weights.append(model.get_weights())
    assert_tracks(losses, weights, "float64")
    assert fallback_count() == before
