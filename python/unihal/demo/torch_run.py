"""A run in PyTorch: python -m unihal.demo.torch_run --device rdna --epochs 20 --trace trace.json."""

from __future__ import annotations

import time
from typing import Any

# The framework comes first, as in a user's program; its plugin is loaded by the import.
import torch
from torch import nn

from .data import BATCH, CHANNELS, CLASSES, LEARNING_RATE, POOLED_SIZE, Digits, batches, initial_weights, load_digits
from .measure import finish
from .protocol import Arguments, Epoch, arguments, send


def _network() -> Any:
    first, second = CHANNELS
    return nn.Sequential(
        nn.Conv2d(1, first, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(first, second, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(second * POOLED_SIZE**2, CLASSES),
    )


class Training:
    """The network with its optimizer."""

    def __init__(self, digits: Digits, device: str) -> None:
        self._digits = digits
        self._device = torch.device(device)
        self._images = torch.from_numpy(digits.train_images[:, None])
        self._labels = torch.from_numpy(digits.train_labels)
        self._test_images = torch.from_numpy(digits.test_images[:, None]).to(self._device)
        self._model = _network().to(self._device)
        self._optimizer = torch.optim.Adam(self._model.parameters(), LEARNING_RATE, fused=True)
        self._set_initial_weights()

    def _set_initial_weights(self) -> None:
        weights = initial_weights()
        layers = [layer for layer in self._model if hasattr(layer, "weight")]
        with torch.no_grad():
            for layer, weight, bias in zip(layers, (weights.filter1, weights.filter2, weights.dense.T), weights.biases):
                layer.weight.copy_(torch.from_numpy(weight.copy()))
                layer.bias.copy_(torch.from_numpy(bias))

    def step(self, indices: Any) -> Any:
        """One step of the optimizer; the loss as a tensor."""
        images = self._images[indices].to(self._device)
        labels = self._labels[indices].to(self._device)
        loss = nn.functional.cross_entropy(self._model(images), labels)
        self._optimizer.zero_grad()
        torch.autograd.backward(loss)
        self._optimizer.step()
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
        with torch.no_grad():
            predicted = self._model(self._test_images).argmax(1).cpu().numpy()
        return float((predicted == self._digits.test_labels).mean())


def _peak_memory(run: Arguments) -> int | None:
    return None if run.on_cpu else int(torch.accelerator.max_memory_allocated())


def main() -> None:
    """Trains and reports."""
    run = arguments()
    digits = load_digits()

    # Warm-up, not measured: libraries load and kernels are prepared at their first use.
    warm_up = Training(digits, run.device)
    warm_up.step(list(range(BATCH)))
    warm_up.accuracy()

    training = Training(digits, run.device)
    start = time.perf_counter()
    for number in range(run.epochs):
        loss = training.epoch(number)
        send(Epoch(number, loss, training.accuracy()))
    seconds = time.perf_counter() - start
    send(finish(run, seconds, _peak_memory(run), lambda: training.epoch(run.epochs)))


if __name__ == "__main__":
    main()
