"""What TF32 may do follows Paddle's own switches: one for matrix products, one for what cuDNN does on Paddle's GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import paddle
import pytest
import unihal
from paddle.base import core

DEVICE = "rdna"

# Paddle's CPU wheels before 3.3 have no switches: there everything is strict.
HAS_SWITCHES = hasattr(core, "get_cublas_switch")
needs_switches = pytest.mark.skipif(not HAS_SWITCHES, reason="this Paddle has no switches for TF32")


@pytest.fixture(autouse=True)
def switches() -> Iterator[None]:
    """Leaves the switches as they were."""
    if not HAS_SWITCHES:
        yield
        return
    before = core.get_cublas_switch(), core.get_cudnn_switch()
    yield
    core.set_cublas_switch(before[0])
    core.set_cudnn_switch(before[1])


def tensor(*shape: int, dtype: str = "float32") -> paddle.Tensor:
    paddle.set_device(DEVICE)
    values = np.random.RandomState(0).standard_normal(shape).astype(dtype)
    return paddle.to_tensor(values, stop_gradient=False)


def allowed(run: Callable[[], object], op: str) -> set[bool]:
    """Whether TF32 is allowed in the ops of a kind that a function runs."""
    with unihal.profile() as recording:
        run()
        paddle.device.synchronize()
    modes = {"TF32 allowed" in event.shape for event in recording.events if event.op.startswith(op)}
    assert modes, f"no {op} ran"
    return modes


def train(forward: Callable[..., paddle.Tensor], *operands: paddle.Tensor) -> Callable[[], None]:
    """A run of an op and its gradients."""
    return lambda: forward(*operands).sum().backward()


PRODUCTS = {
    "matmul": lambda: train(paddle.matmul, tensor(3, 4), tensor(4, 5)),
    "batched": lambda: train(paddle.bmm, tensor(2, 3, 4), tensor(2, 4, 5)),
    "addmm": lambda: lambda: paddle.addmm(tensor(3, 5), tensor(3, 4), tensor(4, 5)),
    "linear": lambda: train(paddle.nn.functional.linear, tensor(3, 4), tensor(4, 5)),
}
CONVOLUTIONS = {
    "conv2d": lambda: train(paddle.nn.functional.conv2d, tensor(2, 3, 6, 6), tensor(4, 3, 3, 3)),
    "conv3d": lambda: train(paddle.nn.functional.conv3d, tensor(1, 2, 4, 4, 4), tensor(3, 2, 2, 2, 2)),
    "transposed": lambda: train(paddle.nn.functional.conv2d_transpose, tensor(2, 3, 5, 5), tensor(3, 4, 3, 3)),
}


def recurrent(layer: type[paddle.nn.Layer]) -> Callable[[], None]:
    paddle.set_device(DEVICE)
    model = layer(3, 4, direction="bidirect")
    return train(lambda x: model(x)[0], tensor(2, 5, 3))


RECURRENT = {name: partial(recurrent, getattr(paddle.nn, name)) for name in ("LSTM", "GRU", "SimpleRNN")}


@needs_switches
@pytest.mark.parametrize("on", [False, True])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_follow_their_switch(name: str, on: bool) -> None:
    core.set_cublas_switch(on)
    core.set_cudnn_switch(not on)
    assert allowed(PRODUCTS[name](), "matmul") == {on}


@needs_switches
@pytest.mark.parametrize("on", [False, True])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_follow_their_switch(name: str, on: bool) -> None:
    core.set_cublas_switch(not on)
    core.set_cudnn_switch(on)
    assert allowed(CONVOLUTIONS[name](), "convolution") == {on}


@needs_switches
@pytest.mark.parametrize("on", [False, True])
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_follow_cudnns(name: str, on: bool) -> None:
    core.set_cublas_switch(not on)
    core.set_cudnn_switch(on)
    run = RECURRENT[name]()
    assert allowed(run, "rnn") == {on}
    assert allowed(run, "matmul") == {on}


def test_defaults_are_paddles() -> None:
    switches = (core.get_cublas_switch(), core.get_cudnn_switch()) if HAS_SWITCHES else (False, False)
    assert allowed(PRODUCTS["matmul"](), "matmul") == {switches[0]}
    assert allowed(CONVOLUTIONS["conv2d"](), "convolution") == {switches[1]}


@needs_switches
def test_other_dtypes_are_always_strict() -> None:
    core.set_cublas_switch(True)
    a, b = tensor(3, 4, dtype="float64"), tensor(4, 5, dtype="float64")
    assert allowed(lambda: paddle.matmul(a, b), "matmul") == {False}


@needs_switches
def test_graphs_ask_when_they_run() -> None:
    def multiply(x: paddle.Tensor, y: paddle.Tensor) -> paddle.Tensor:
        return paddle.matmul(x, y)

    a, b = tensor(3, 4), tensor(4, 5)
    product = paddle.jit.to_static(multiply, full_graph=True)
    for on in (True, False, True):
        core.set_cublas_switch(on)
        assert allowed(lambda: product(a, b), "matmul") == {on}
