"""Trains the demo's network with unihal's own ops, without a framework: for backends where none can be installed.

    python benchmarks/digits.py [--device rdna:0] [--epochs 20] [--data FILE]
    python benchmarks/digits.py --export FILE     # writes scikit-learn's images, for machines that have no scikit-learn

The forward pass, the gradients and Adam are written out below; the network, the images and the initial weights are the
demo's. Prints the accuracy on held-out images and the seconds of the first step, of the first epoch and of each later
one. Exits with 1 below 97 %, unless fewer epochs were asked for.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import Any

import measure
import numpy as np
import unihal
from unihal import Buffer, ops
from unihal.demo.data import BATCH, LEARNING_RATE, Digits, batches, initial_weights, load_digits

EPOCHS = 20
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-7


class Adam:
    """Steps of Adam over a list of parameters, in place."""

    def __init__(self, parameters: list[Buffer], device: unihal.Device) -> None:
        self._parameters = parameters
        self._moments = [[self._zeros(p) for p in parameters] for _ in range(2)]
        self._device = device
        self._scalars = Buffer.from_numpy(np.array([LEARNING_RATE, 1, 1], np.float32), device)
        self._betas = Buffer.from_numpy(np.array([1, BETA1, BETA2], np.float32), device)

    @staticmethod
    def _zeros(like: Buffer) -> Buffer:
        return ops.fill(Buffer(like.shape, like.dtype, like.device), 0)

    def step(self, gradients: list[Buffer]) -> None:
        """One step; the powers of the betas stay on the device as well."""
        ops.multiply(self._scalars, self._betas, out=self._scalars)
        rate, power1, power2 = (self._scalars[i : i + 1] for i in range(3))
        for parameter, gradient, first, second in zip(self._parameters, gradients, *self._moments):
            ops.adam(
                parameter, gradient, first, second, rate, power1, power2,
                parameters=[BETA1, BETA2, EPSILON, 0, 1],
                out=[parameter, first, second],
            )  # fmt: skip


class Network:
    """Two convolutions with ReLU and max pooling, then a dense layer."""

    def __init__(self, device: unihal.Device) -> None:
        weights = initial_weights()
        arrays = (
            weights.filter1,
            weights.biases[0],
            weights.filter2,
            weights.biases[1],
            weights.dense,
            weights.biases[2],
        )
        self.parameters = [Buffer.from_numpy(np.ascontiguousarray(a), device) for a in arrays]

    def forward(self, x: Buffer) -> tuple[Buffer, list[Buffer]]:
        """The logits, and what the gradients need."""
        w1, b1, w2, b2, dense, b3 = self.parameters
        a1 = ops.convolution(x, w1, b1, padding=1, activation="relu")
        p1, _ = ops.max_pool(a1, 2)
        a2 = ops.convolution(p1, w2, b2, padding=1, activation="relu")
        p2, _ = ops.max_pool(a2, 2)
        flat = p2.reshape(x.shape[0], p2.size // x.shape[0])
        return ops.matmul(flat, dense, b3), [x, a1, p1, a2, p2, flat]

    def gradients(self, kept: list[Buffer], dlogits: Buffer) -> list[Buffer]:
        """The gradient of each parameter."""
        x, a1, p1, a2, p2, flat = kept
        w2, dense = self.parameters[2], self.parameters[4]
        ddense = ops.matmul(flat.transpose(1, 0), dlogits)
        db3 = ops.sum(dlogits, axis=0)
        dp2 = ops.matmul(dlogits, dense.transpose(1, 0)).reshape(*p2.shape)
        da2 = ops.relu_backward(a2, ops.pool_backward(dp2, a2, p2, 2))
        dw2, db2 = ops.convolution_backward_filter(p1, da2, w2.shape, padding=1, with_bias=True)
        dp1 = ops.convolution_backward_data(da2, w2, p1.shape, padding=1)
        da1 = ops.relu_backward(a1, ops.pool_backward(dp1, a1, p1, 2))
        dw1, db1 = ops.convolution_backward_filter(x, da1, self.parameters[0].shape, padding=1, with_bias=True)
        return [dw1, db1, dw2, db2, ddense, db3]


def train(device: unihal.Device, digits: Digits, epochs: int) -> dict[str, Any]:
    """Accuracy and times."""
    start = time.perf_counter()
    network = Network(device)
    optimizer = Adam(network.parameters, device)
    images = Buffer.from_numpy(digits.train_images[:, None], device)
    labels = Buffer.from_numpy(digits.train_labels[:, None], device)
    first_step = 0.0
    epoch_times = []
    scale = ops.fill(Buffer((BATCH, 1), "float32", device), 1 / BATCH)
    for epoch in range(epochs):
        begin = time.perf_counter()
        for batch in batches(epoch):
            index = Buffer.from_numpy(batch.astype(np.int64), device)
            x, y = ops.gather(images, index), ops.gather(labels, index)
            logits, kept = network.forward(x)
            _, probabilities, _ = ops.cross_entropy(logits, y)
            optimizer.step(network.gradients(kept, ops.cross_entropy_backward(probabilities, y, scale)))
            if not first_step:
                device.synchronize()
                first_step = time.perf_counter() - start
        device.synchronize()
        epoch_times.append(time.perf_counter() - begin)
    logits, _ = network.forward(Buffer.from_numpy(digits.test_images[:, None], device))
    found = logits.numpy().argmax(axis=1)
    return {
        "accuracy": float((found == digits.test_labels).mean()),
        "first_step_seconds": first_step,
        "first_epoch_seconds": epoch_times[0],
        "epoch_seconds": statistics.median(epoch_times[1:] or epoch_times),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="a unihal device, as in rdna:0; the first one if none is named")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--data", help="images written by --export")
    parser.add_argument("--export", help="write the images to this file and do nothing else")
    arguments = parser.parse_args()
    if arguments.export:
        np.savez_compressed(arguments.export, **vars(load_digits()))
        return
    digits = Digits(**np.load(arguments.data)) if arguments.data else load_digits()
    found = unihal.devices()
    if arguments.device is None and not found:
        sys.exit("there is no device; `unihal doctor` says what was looked for")
    device = unihal.device(arguments.device) if arguments.device else found[0]
    result = train(device, digits, arguments.epochs)
    measure.report([{"benchmark": "digits with unihal.ops", "device_name": device.properties.name, **result}])
    if arguments.epochs >= EPOCHS and result["accuracy"] < 0.97:
        sys.exit(f"the accuracy is {result['accuracy']:.2%}; expected at least 97 %")


if __name__ == "__main__":
    main()
