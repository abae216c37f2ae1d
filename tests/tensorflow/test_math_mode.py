"""What TF32 may do follows TensorFlow's own switch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import tensorflow as tf
import unihal

DEVICE = "/device:RDNA:0"


@pytest.fixture(autouse=True)
def switch() -> Iterator[None]:
    """Leaves the switch as it was."""
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    yield
    tf.config.experimental.enable_tensor_float_32_execution(before)


def tensor(*shape: int, dtype: str = "float32") -> tf.Tensor:
    return tf.constant(np.random.RandomState(0).standard_normal(shape), dtype)


def allowed(run: Callable[[], object], op: str) -> set[bool]:
    """Whether TF32 is allowed in the ops of a kind that a function runs."""
    with unihal.profile() as recording, tf.device(DEVICE):
        run()
    modes = {"TF32 allowed" in event.shape for event in recording.events if event.op.startswith(op)}
    assert modes, f"no {op} ran"
    return modes


def train(forward: Callable[..., tf.Tensor], *operands: tf.Tensor) -> Callable[[], None]:
    """A run of an op and its gradients."""

    def run() -> None:
        with tf.GradientTape() as tape:
            tape.watch(operands)
            result = forward(*operands)
        for gradient in tape.gradient(result, operands):
            gradient.numpy()

    return run


CASES = {
    "MatMul": ("matmul", lambda: train(tf.matmul, tensor(3, 4), tensor(4, 5))),
    "BatchMatMul": ("matmul", lambda: train(tf.matmul, tensor(2, 3, 4), tensor(2, 4, 5))),
    "Einsum": ("matmul", lambda: train(lambda a, b: tf.einsum("bij,bjk->bik", a, b), tensor(2, 3, 4), tensor(2, 4, 5))),
    "Conv2D": (
        "convolution",
        lambda: train(lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"), tensor(2, 6, 6, 3), tensor(3, 3, 3, 4)),
    ),
    "Conv3D": (
        "convolution",
        lambda: train(lambda x, w: tf.nn.conv3d(x, w, [1] * 5, "SAME"), tensor(1, 4, 4, 4, 2), tensor(2, 2, 2, 2, 3)),
    ),
    "Depthwise": (
        "convolution",
        lambda: train(
            lambda x, w: tf.nn.depthwise_conv2d(x, w, [1] * 4, "SAME"), tensor(2, 6, 6, 3), tensor(3, 3, 3, 2)
        ),
    ),
}


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_ops_follow_the_switch(name: str, on: bool) -> None:
    op, run = CASES[name]
    tf.config.experimental.enable_tensor_float_32_execution(on)
    assert allowed(run(), op) == {on}


def test_it_is_allowed_by_default() -> None:
    assert tf.config.experimental.tensor_float_32_execution_enabled()
    assert allowed(CASES["MatMul"][1](), "matmul") == {True}


def test_other_dtypes_are_always_strict() -> None:
    a, b = tensor(3, 4, dtype="float64"), tensor(4, 5, dtype="float64")
    assert allowed(lambda: tf.matmul(a, b).numpy(), "matmul") == {False}


def test_graphs_ask_when_they_run() -> None:
    product = tf.function(tf.matmul)
    a, b = tensor(3, 4), tensor(4, 5)
    for on in (True, False, True):
        tf.config.experimental.enable_tensor_float_32_execution(on)
        assert allowed(lambda: product(a, b).numpy(), "matmul") == {on}


@pytest.mark.parametrize("on", [True, False])
def test_keras_follows_it(on: bool) -> None:
    tf.config.experimental.enable_tensor_float_32_execution(on)
    with tf.device(DEVICE):
        model = tf.keras.Sequential([tf.keras.layers.Conv2D(4, 3), tf.keras.layers.Flatten(), tf.keras.layers.Dense(2)])
        model.compile("sgd", "mse")

    def run() -> None:
        model.train_on_batch(np.ones((4, 6, 6, 3), "float32"), np.ones((4, 2), "float32"))

    assert allowed(run, "matmul") == {on}
    assert allowed(run, "convolution") == {on}
