"""Sums of gradients and cleared gradients in eager mode, which are one launch each into memory that is there, and
gradients of sums, which are no launch: nobody who holds a gradient sees it change."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import unihal
from comparison import DEVICE, on, random
from paddle.autograd import PyLayer

pytestmark = pytest.mark.unihal_no_fallback

X, Y = random(3, 4), random(3, 4, seed=1)


class Same(PyLayer):
    """The same gradient, as one tensor, for both operands."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        return a + b

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        return dy, dy


def several_ways(x: Any) -> Any:
    y = x * 2
    return (y * 3).sum() + (y * y).sum() + y.exp().sum()


def through_views(x: Any) -> Any:
    y = x * 2
    return (y.reshape([4, 3]) * 3).sum() + (y.transpose([1, 0]) * 5).sum() + (y[1] * 7).sum() + (y.flatten() ** 2).sum()


def by_layers_of_ones_own(x: Any) -> Any:
    y, z = x * 2, x * 3
    return Same.apply(y, z).sum() + (y * 5).sum() + (z * z).sum() + Same.apply(y, y).sum()


@pytest.mark.parametrize("loss", [several_ways, through_views, by_layers_of_ones_own])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_sums_of_gradients_are_the_cpus(loss: Any, dtype: str) -> None:
    def gradient(dtype: str) -> Any:
        x = paddle.to_tensor(X.astype(dtype), stop_gradient=False)
        loss(x).backward()
        return x.grad.astype("float64").numpy()

    with on(DEVICE):
        ours = gradient(dtype)
    with on("cpu"):  # which adds no float16
        wanted = gradient("float32" if dtype == "float16" else dtype)
    np.testing.assert_allclose(ours, wanted, rtol=2e-2 if dtype == "float16" else 1e-5)


def test_gradients_that_are_held_do_not_change() -> None:
    with on(DEVICE):
        x = paddle.to_tensor(X, stop_gradient=False)
        y = x * 2
        seen: list[Any] = []
        first = y.reshape([4, 3])
        for tensor in (first, y):
            tensor.retain_grads()
        first.register_hook(lambda gradient: seen.append(gradient))
        loss = (first * 3).sum() + (y * 5).sum() + (y * y).sum()
        loss.backward()
        np.testing.assert_array_equal(first.grad.numpy(), np.full((4, 3), 3, np.float32))
        np.testing.assert_array_equal(seen[0].numpy(), np.full((4, 3), 3, np.float32))
        np.testing.assert_allclose(y.grad.numpy(), 8 + 4 * X, rtol=1e-6)
        np.testing.assert_allclose(x.grad.numpy(), 2 * (8 + 4 * X), rtol=1e-6)


def test_gradients_given_by_the_caller_do_not_change() -> None:
    with on(DEVICE):
        x = paddle.to_tensor(X, stop_gradient=False)
        given = [paddle.to_tensor(Y), paddle.to_tensor(2 * Y)]
        (gradient,) = paddle.grad([x * 2, x * 3], [x], given)
        np.testing.assert_allclose(gradient.numpy(), 8 * Y, rtol=1e-6)
        np.testing.assert_array_equal(given[0].numpy(), Y)
        np.testing.assert_array_equal(given[1].numpy(), 2 * Y)
        paddle.autograd.backward([x, x * 2], given)  # the first goes to x as it is
        np.testing.assert_allclose(x.grad.numpy(), 5 * Y, rtol=1e-6)
        np.testing.assert_array_equal(given[0].numpy(), Y)


def test_sums_have_gradients_of_their_own() -> None:
    with on(DEVICE):
        x = paddle.to_tensor(X, stop_gradient=False)
        (first,) = paddle.grad((x**3).sum() + (x**2).sum(), x, create_graph=True)
        first.sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), 6 * X + 2, rtol=1e-5)


def test_gradients_add_up_over_steps_and_are_cleared() -> None:
    with on(DEVICE):
        x = paddle.to_tensor(X, stop_gradient=False)
        for step in (1, 2):
            several_ways(x).backward()
            np.testing.assert_allclose(x.grad.numpy(), step * (6 + 8 * X + 2 * np.exp(2 * X)), rtol=1e-5)
        x.clear_gradient()
        np.testing.assert_array_equal(x.grad.numpy(), np.zeros_like(X))
        several_ways(x).backward()
        np.testing.assert_allclose(x.grad.numpy(), 6 + 8 * X + 2 * np.exp(2 * X), rtol=1e-5)


def test_a_sum_takes_no_memory_and_one_launch() -> None:
    with on(DEVICE):
        x = paddle.to_tensor(X, stop_gradient=False)
        loss = several_ways(x)
        with unihal.profile() as recording:
            loss.backward()
        sums = [event for event in recording.events if event.name == "add" and event.op == "map.add"]
        assert len(sums) == 3  # y is an operand four times
        with unihal.profile() as recording:
            x.clear_gradient()
        assert [event.op for event in recording.events] == ["fill"]


#: In a process of its own: nodes that hooks of other tests were given to leave their addresses behind. Prints what
#: gradients of sums launched; the gradients are the CPU's.
WITHOUT_COPIES = """
import sys
import numpy as np, paddle, unihal
import paddle.nn.functional as F

def block(y, row):  # the gradient of each sum goes to functions that only read it
    z = F.tanh(y * 3) + y
    return F.relu(F.gelu(z) + z + F.sigmoid(z)).sum()

def broadcast(y, row):
    return (((F.tanh(y) + row) + y) ** 2).sum()

for loss in (block, broadcast):
    for dtype in ("float32", "float64"):
        gradients = []
        for device in ("cpu", sys.argv[1]):
            paddle.set_device(device)
            x = paddle.to_tensor(np.linspace(-2, 2, 12, dtype=dtype).reshape(3, 4), stop_gradient=False)
            row = paddle.to_tensor(np.linspace(-1, 1, 4, dtype=dtype), stop_gradient=False)
            result = loss(F.relu(x * 2), row)
            with unihal.profile() as recording:
                result.backward()
            gradients.append(np.concatenate([x.grad.numpy().ravel(), row.grad.numpy() if loss is broadcast else []]))
        np.testing.assert_allclose(*gradients, rtol=1e-5, atol=1e-6)
        print(loss.__name__, *(event.op for event in recording.events if event.name == "add_grad"))
"""


def test_a_sum_hands_its_gradient_on_without_a_copy() -> None:
    command = [sys.executable, "-c", WITHOUT_COPIES, DEVICE]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    lines = [line for line in result.stdout.splitlines() if line.startswith(("block", "broadcast"))]
    assert lines == ["block", "block", "broadcast reduce", "broadcast reduce"]


def test_leaves_have_gradients_of_their_own() -> None:
    with on(DEVICE):
        x, y = (paddle.to_tensor(value, stop_gradient=False) for value in (X, Y))
        (x + y).sum().backward()
        (x.reshape([4, 3]) + y.reshape([4, 3])).sum().backward()
        (F.relu(x * 0 + 1) + y).sum().backward()
        x.grad.detach().scale_(5.0)
        np.testing.assert_array_equal(x.grad.numpy(), np.full_like(X, 10))
        np.testing.assert_array_equal(y.grad.numpy(), np.full_like(Y, 3))


def test_gradients_that_are_handed_out_are_two() -> None:
    with on(DEVICE):
        x = paddle.to_tensor(X, stop_gradient=False)
        y, z = F.relu(x), F.tanh(x)
        first, second = paddle.grad((y + z).sum(), [y, z])
        first.detach().scale_(5.0)
        np.testing.assert_array_equal(second.numpy(), np.ones_like(X))


@pytest.mark.parametrize("way", ["retain_grads", "register_hook"])
def test_gradients_that_are_held_are_two(way: str) -> None:
    with on(DEVICE):
        x = paddle.to_tensor(X, stop_gradient=False)
        y, z = F.relu(x), F.tanh(x)
        held: list[Any] = []
        for tensor in (y, z):
            if way == "retain_grads":
                tensor.retain_grads()
            else:
                tensor.register_hook(held.append)
        (y + z).sum().backward()
        first, second = held or (y.grad, z.grad)
        first.detach().scale_(5.0)
        assert first.numpy()[0, 0] == 5
        np.testing.assert_array_equal(second.numpy(), np.ones_like(X))


@pytest.mark.parametrize("blocking", [True, False])
def test_copies_within_a_device_keep_the_order_of_the_work(blocking: bool) -> None:
    with on(DEVICE):
        x, y = paddle.to_tensor(X), paddle.zeros(X.shape)
        for factor in range(1, 20):
            y.copy_(x * factor, blocking)
            x = y + 1
            np.testing.assert_allclose(x.numpy(), y.numpy() + 1)
            y.set_value(X)
            x.copy_(y, blocking)
        np.testing.assert_array_equal(x.numpy(), X)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_that_meet_rows(dtype: str) -> None:
    """Gradients of a sparse embedding that is used twice, or over two passes: Paddle cannot add them."""
    weights = []
    for place in ("cpu", DEVICE):
        with on(place):
            table = paddle.nn.Embedding(7, 3, sparse=True)
            table.to(dtype=dtype)
            table.weight.set_value(paddle.arange(21, dtype=dtype).reshape([7, 3]) / 10)
            optimizer = paddle.optimizer.SGD(0.1, parameters=table.parameters())
            x = paddle.to_tensor([1, 2, 2])
            (table(x) * 2 + table(x + 1) + table(x - 1) ** 2).sum().backward()
            (table(x) ** 3).sum().backward()
            assert table.weight.grad.is_selected_rows()
            optimizer.step()
            weights.append(table.weight.numpy())
    np.testing.assert_allclose(weights[1], weights[0], rtol=1e-6, atol=1e-7)
