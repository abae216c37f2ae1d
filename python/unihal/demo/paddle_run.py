"""A run in Paddle: python -m unihal.demo.paddle_run --device iluvatar --epochs 20 --trace trace.json."""

from __future__ import annotations

import time
from typing import Any

# The framework comes first, as in a user's program; its plugin is loaded by the import.
import paddle
from paddle import nn

from .data import BATCH, CHANNELS, CLASSES, LEARNING_RATE, POOLED_SIZE, Digits, batches, initial_weights, load_digits
from .measure import finish
from .protocol import Arguments, Epoch, arguments, send


def _network() -> Any:
    first, second = CHANNELS
    return nn.Sequential(
        nn.Conv2D(1, first, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2D(2),
        nn.Conv2D(first, second, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2D(2),
        nn.Flatten(),
        nn.Linear(second * POOLED_SIZE**2, CLASSES),
    )


class Training:
    """The network with its optimizer."""

    def __init__(self, digits: Digits) -> None:
        self._digits = digits
        self._images = digits.train_images[:, None]
        self._test_images = paddle.to_tensor(digits.test_images[:, None])
        self._model = _network()
        self._optimizer = paddle.optimizer.Adam(LEARNING_RATE, parameters=self._model.parameters())
        self._set_initial_weights()

    def _set_initial_weights(self) -> None:
        weights = initial_weights()
        layers = [layer for layer in self._model if hasattr(layer, "weight")]
        for layer, weight, bias in zip(layers, (weights.filter1, weights.filter2, weights.dense), weights.biases):
            layer.weight.set_value(weight)
            layer.bias.set_value(bias)

    def step(self, indices: Any) -> Any:
        """One step of the optimizer; the loss as a tensor."""
        images = paddle.to_tensor(self._images[indices])
        labels = paddle.to_tensor(self._digits.train_labels[indices])
        loss = nn.functional.cross_entropy(self._model(images), labels)
        loss.backward()
        self._optimizer.step()
        self._optimizer.clear_grad()
        return loss.detach()

    def epoch(self, number: int) -> float:
        """One pass over the training images; the mean loss, read once so that steps need not wait for it."""
        parts = batches(number)
        total = self.step(parts[0])
        for indices in parts[1:]:
            total = total + self.step(indices)
        return float(total) / len(parts)

    def accuracy(self) -> float:
        """The accuracy on held-out images."""
        with paddle.no_grad():
            predicted = self._model(self._test_images).argmax(axis=1).numpy()
        return float((predicted == self._digits.test_labels).mean())


def _peak_memory(run: Arguments) -> int | None:
    return None if run.on_cpu else int(paddle.device.max_memory_allocated(f"{run.device}:0"))


def main() -> None:
    """Trains and reports."""
    run = arguments()
    paddle.device.set_device(run.device)
    digits = load_digits()

    # Warm-up, not measured: libraries load and kernels are prepared at their first use.
    warm_up = Training(digits)
    warm_up.step(range(BATCH))
    warm_up.accuracy()

    training = Training(digits)
    start = time.perf_counter()
    for number in range(run.epochs):
        loss = training.epoch(number)
        send(Epoch(number, loss, training.accuracy()))
    seconds = time.perf_counter() - start
    send(finish(run, seconds, _peak_memory(run), lambda: training.epoch(run.epochs)))


if __name__ == "__main__":
    main()
