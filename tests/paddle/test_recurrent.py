"""Recurrent layers against Paddle's CPU, with fallbacks forbidden: results, last states, and the gradients of inputs,
first states and weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import paddle
import pytest
from comparison import DEVICE, TOLERANCE, on, random, to_numpy, weighted_sum

LAYERS: dict[str, Any] = {
    "LSTM": paddle.nn.LSTM,
    "GRU": paddle.nn.GRU,
    "RNN_TANH": paddle.nn.SimpleRNN,
    "RNN_RELU": lambda *sizes, **options: paddle.nn.SimpleRNN(*sizes, activation="relu", **options),
}
STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 4, 6


@contextmanager
def default_dtype(dtype: str) -> Iterator[None]:
    paddle.set_default_dtype(dtype)
    try:
        yield
    finally:
        paddle.set_default_dtype("float32")


def run(
    mode: str,
    device: str,
    dtype: str = "float32",
    *,
    lengths: list[int] | None = None,
    states: bool = True,
    training: bool = True,
    steps: int = STEPS,
    **options: Any,
) -> list[np.ndarray[Any, Any]]:
    """Everything that a layer gives, and every gradient."""
    narrow = dtype in ("float16", "bfloat16")
    computed = "float32" if narrow and device == "cpu" else dtype  # the CPU's reference: of the rounded numbers

    def given_numbers(*shape: int, seed: int, scale: float = 1) -> Any:
        return paddle.to_tensor(scale * random(*shape, seed=seed)).astype(dtype).astype(computed)

    with on(device), default_dtype(computed):
        layer = LAYERS[mode](INPUTS, HIDDEN, **options)
        layer.train() if training else layer.eval()
        for number, parameter in enumerate(layer.parameters()):
            parameter.set_value(given_numbers(*parameter.shape, seed=number + 10, scale=0.5))
        shape = (steps, BATCH, INPUTS) if options.get("time_major") else (BATCH, steps, INPUTS)
        x = given_numbers(*shape, seed=0)
        rows = options.get("num_layers", 1) * (2 if options.get("direction") else 1)
        begin = [given_numbers(rows, BATCH, HIDDEN, seed=seed) for seed in (1, 2)]
        given = [x, *begin]
        for tensor in given:
            tensor.stop_gradient = False
        first = tuple(begin) if mode == "LSTM" else begin[0]
        counts = None if lengths is None else paddle.to_tensor(lengths, dtype="int32")
        y, last = layer(x, first if states else None, counts)
        results = [y, *(last if isinstance(last, tuple) else [last])]
        for result in results:
            assert device in str(result.place), f"computed on {result.place}"
        sum(weighted_sum(result) for result in results).backward()
        gradients = [tensor.grad for tensor in (*given, *layer.parameters())]
        return [to_numpy(value) for value in (*results, *(g for g in gradients if g is not None))]


def check(mode: str, dtype: str = "float32", **options: Any) -> None:
    actual = run(mode, DEVICE, dtype, **options)
    expected = run(mode, "cpu", dtype, **options)
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected):
        assert ours.shape == theirs.shape
        scale = max(1.0, float(np.max(np.abs(theirs), initial=0)))
        np.testing.assert_allclose(ours / scale, theirs / scale, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("mode", LAYERS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"states": False},
        {"direction": "bidirect"},
        {"num_layers": 3, "time_major": True},
        {"num_layers": 2, "direction": "bidirect", "lengths": [5, 1, 3], "states": False},
        {"lengths": [2, 4, 5], "time_major": True},
        {"steps": 1},
    ],
    ids=str,
)
def test_layers_train_as_on_the_cpu(mode: str, options: dict[str, Any]) -> None:
    check(mode, **options)


@pytest.mark.parametrize("mode", LAYERS)
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_dtypes(mode: str, dtype: str) -> None:
    check(mode, dtype, num_layers=2, direction="bidirect", lengths=[5, 1, 3], states=False)


@pytest.mark.parametrize("mode", LAYERS)
def test_inference_drops_nothing_and_keeps_nothing_for_a_gradient(mode: str) -> None:
    def infer(device: str) -> Any:
        with on(device):
            layer = LAYERS[mode](INPUTS, HIDDEN, num_layers=2, dropout=0.5, direction="bidirect")
            for number, parameter in enumerate(layer.parameters()):
                parameter.set_value(paddle.to_tensor(0.3 * random(*parameter.shape, seed=number)))
            layer.eval()
            return layer(paddle.to_tensor(random(BATCH, STEPS, INPUTS)))[0]

    y = infer(DEVICE)
    np.testing.assert_allclose(y.numpy(), infer("cpu").numpy(), rtol=0, atol=TOLERANCE["float32"])
    for device in ("cpu", DEVICE):
        with pytest.raises(RuntimeError):
            infer(device).sum().backward()


def slopes(call: Callable[[Any], Any], given: list[Any]) -> tuple[float, float]:
    """How a loss changes along one direction of all its operands together: by the gradients, by differences."""
    directions = [paddle.to_tensor(random(*x.shape, seed=number)).astype(x.dtype) for number, x in enumerate(given)]

    def loss(step: float) -> tuple[Any, list[Any]]:
        moved = [(x + step * direction).detach() for x, direction in zip(given, directions)]
        for x in moved:
            x.stop_gradient = False
        return call(moved), moved

    value, operands = loss(0.0)
    value.backward()
    slope = sum(float((x.grad * direction).sum()) for x, direction in zip(operands, directions))
    return slope, (float(loss(1e-6)[0]) - float(loss(-1e-6)[0])) / 2e-6


def test_dropout_between_layers_is_that_of_its_gradient() -> None:
    with on(DEVICE), default_dtype("float64"):
        layer = paddle.nn.SimpleRNN(INPUTS, HIDDEN, num_layers=3, dropout=0.5)

        def loss(operands: list[Any], seed: int = 5) -> Any:
            paddle.seed(seed)
            return weighted_sum64(layer(operands[0])[0])

        x = paddle.to_tensor(random(BATCH, STEPS, INPUTS)).astype("float64")
        slope, difference = slopes(loss, [x])
        assert slope == pytest.approx(difference, rel=1e-6)
        assert float(loss([x])) == float(loss([x])) != float(loss([x], seed=6))


def test_layers_of_which_everything_is_dropped() -> None:
    """What lies below has a gradient of zeros, and no NaN."""
    found = []
    for device in (DEVICE, "cpu"):
        with on(device):
            layer = paddle.nn.LSTM(INPUTS, HIDDEN, num_layers=2, dropout=1.0)
            for seed, parameter in enumerate(layer.parameters()):
                parameter.set_value(random(*parameter.shape, seed=seed))
            x = paddle.to_tensor(random(BATCH, STEPS, INPUTS), stop_gradient=False)
            layer(x)[0].sum().backward()
            found.append([x.grad.numpy(), *(parameter.grad.numpy() for parameter in layer.parameters())])
    assert not found[0][0].any()
    for ours, theirs in zip(*found):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", LAYERS)
def test_gradients_with_lengths_and_states(mode: str) -> None:
    """By differences: of reversed directions with both, Paddle's CPU gives a GRU and plain layers other gradients."""
    with on(DEVICE), default_dtype("float64"):
        layer = LAYERS[mode](INPUTS, HIDDEN, num_layers=2, direction="bidirect")
        lengths = paddle.to_tensor([5, 1, 3], dtype="int32")

        def loss(operands: list[Any]) -> Any:
            x, h, c = operands
            y, last = layer(x, (h, c) if mode == "LSTM" else h + 0 * c, lengths)
            return sum(map(weighted_sum64, (y, *(last if isinstance(last, tuple) else [last]))))

        shapes = ((BATCH, STEPS, INPUTS), (4, BATCH, HIDDEN), (4, BATCH, HIDDEN))
        slope, difference = slopes(loss, [paddle.to_tensor(random(*shape)).astype("float64") for shape in shapes])
        assert slope == pytest.approx(difference, rel=1e-6)


def weighted_sum64(y: Any) -> Any:
    return (y * paddle.to_tensor(random(*y.shape, seed=7)).astype("float64")).sum()


@pytest.mark.parametrize("mode", LAYERS)
def test_a_model_trains_as_on_the_cpu(mode: str) -> None:
    def losses(device: str) -> list[float]:
        with on(device):
            layer, head = (
                LAYERS[mode](INPUTS, HIDDEN, num_layers=2, direction="bidirect"),
                paddle.nn.Linear(2 * HIDDEN, 2),
            )
            parameters = [*layer.parameters(), *head.parameters()]
            for number, parameter in enumerate(parameters):
                parameter.set_value(paddle.to_tensor(0.5 * random(*parameter.shape, seed=number)))
            optimizer = paddle.optimizer.Adam(0.02, parameters=parameters)
            x, labels = paddle.to_tensor(random(8, STEPS, INPUTS)), paddle.to_tensor(np.arange(8) % 2)
            history = []
            for _ in range(10):
                loss = paddle.nn.functional.cross_entropy(head(layer(x)[0][:, -1]), labels)
                loss.backward()
                optimizer.step()
                optimizer.clear_grad()
                history.append(float(loss))
            return history

    ours = losses(DEVICE)
    np.testing.assert_allclose(ours, losses("cpu"), rtol=1e-4)
    assert ours[-1] < ours[0]
