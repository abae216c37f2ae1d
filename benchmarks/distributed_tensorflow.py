"""Seconds per training step on one device and on two of one process, and whether both train alike.

    python benchmarks/distributed_tensorflow.py [--model MODEL ...] [--type rdna] [--devices 2] [--steps 10] [--small]

resnet50-64 (or -128): batch 64 of 224x224x3 for each device; transformer-16 (or -64, -128): a BERT-base encoder,
16x128 tokens for each device, here without dropout (benchmarks/training.py has both). float32, each framework's
default math mode. The strategies are tf.distribute.OneDeviceStrategy and MirroredStrategy; the batches lie on the
devices. --small takes resnet18 of batch 4 and two layers of the transformer, for the stub (UNIHAL_BACKEND=stub
UNIHAL_STUB_DEVICES=2).

Prints one JSON object a model: seconds a step (the median) with one device and with all; scaling, how often the
throughput of one device all have; fallbacks, of all runs so far; and difference: the same steps with the same examples
on every device must give the weights that one device gets from them, so it is the largest difference of a weight by the
largest weight of its tensor (or by 0.001 if that is more). That is tried with SGD, for Keras' Adam itself trains
otherwise with MirroredStrategy, on the CPU too; the times of transformers are AdamW's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import training
import unihal

SMALL = {
    "resnet50-64": "resnet18", "resnet50-128": "resnet18",
    "transformer-16": "transformer", "transformer-64": "transformer", "transformer-128": "transformer",
}  # fmt: skip
SMALL_BATCH, SMALL_DEPTH = 4, 2


def examples(model_name: str, batch: int | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Of one device."""
    generator = np.random.default_rng(seed)
    if model_name in training.BATCHES:
        shape = (batch or training.BATCHES[model_name], training.TOKENS)
        tokens = generator.integers(0, training.VOCABULARY, shape).astype(np.int32)
        return tokens, generator.integers(0, 2, shape)
    size, channels, height, width = training.IMAGE_SHAPES[model_name]
    size = batch or size
    images = generator.standard_normal((size, height, width, channels), dtype=np.float32)
    return images, generator.integers(0, 10, (size,))


class Run:
    """A model that a strategy trains."""

    def __init__(
        self, strategy: tf.distribute.Strategy, model_name: str, depth: int, optimizer: Callable[[], Any]
    ) -> None:
        self.strategy = strategy
        with strategy.scope():
            keras.utils.set_random_seed(0)
            self.model = training.tensorflow_model(model_name, depth, dropout=0.0)
            self.optimizer = optimizer()
            self.optimizer.build(self.model.trainable_variables)
        self.compiled = tf.function(self._step)

    def _replica(self, inputs: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            losses = keras.losses.sparse_categorical_crossentropy(
                labels, self.model(inputs, training=True), from_logits=True
            )
            loss = tf.reduce_mean(losses) / self.strategy.num_replicas_in_sync
        variables = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    def _step(self, inputs: Any, labels: Any) -> Any:
        return self.strategy.reduce("sum", self.strategy.run(self._replica, (inputs, labels)), axis=None)

    def placed(self, of_rank: Any) -> list[Any]:
        """What `of_rank` gives for a rank, on its device."""
        parts = []
        for part in (0, 1):
            parts.append(
                self.strategy.experimental_distribute_values_from_function(
                    lambda context, part=part: tf.constant(of_rank(context.replica_id_in_sync_group)[part])
                )
            )
        return parts

    def step(self, batch: list[Any]) -> float:
        return float(self.compiled(*batch))


def difference(one: keras.Model, other: keras.Model) -> float:
    largest = 0.0
    for a, b in zip(one.trainable_variables, other.trainable_variables, strict=True):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        largest = max(largest, float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-3)))
    return largest


def sgd() -> Any:
    return keras.optimizers.SGD(0.001, momentum=0.9)  # the losses of a few steps stay finite


def measure(model_name: str, devices: list[str], steps: int, small: bool) -> dict[str, Any]:
    name = SMALL[model_name] if small else model_name
    batch, depth = (SMALL_BATCH, SMALL_DEPTH) if small else (None, training.LAYERS)
    tf.distribute.MirroredStrategy._collective_key_base += 100  # TensorFlow's numbers of groups begin anew
    strategies = [
        tf.distribute.OneDeviceStrategy(f"/device:{devices[0]}"),
        tf.distribute.MirroredStrategy(devices),
    ]
    runs = [Run(strategy, name, depth, sgd) for strategy in strategies]
    batches = [run.placed(lambda rank: examples(name, batch, 0)) for run in runs]
    losses = [[run.step(same) for _ in range(3)] for run, same in zip(runs, batches, strict=True)]
    apart = difference(runs[0].model, runs[1].model)
    if name in training.BATCHES:
        runs = [Run(strategy, name, depth, lambda: keras.optimizers.AdamW(1e-4)) for strategy in strategies]
    seconds = []
    for run in runs:
        own = run.placed(lambda rank: examples(name, batch, int(rank)))
        for _ in range(2):  # allocation, graph building, primitives
            run.step(own)
        times = []
        for _ in range(steps):
            start = time.perf_counter()
            run.step(own)
            times.append(time.perf_counter() - start)
        seconds.append(statistics.median(times))
    return {
        "model": name,
        "devices": len(devices),
        "seconds_one": seconds[0],
        "seconds_all": seconds[1],
        "scaling": len(devices) * seconds[0] / seconds[1],
        "difference": apart,
        "fallbacks": sum(entry.count for entry in unihal.fallbacks()),
        "losses": losses,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", choices=list(SMALL), default=["resnet50-64", "transformer-16"])
    parser.add_argument("--type", default="rdna", help="of device")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--small", action="store_true", help="small sizes, for the stub")
    arguments = parser.parse_args()
    kind = arguments.type.upper()
    present = len(tf.config.list_physical_devices(kind))
    if present < arguments.devices:
        raise SystemExit(
            f"there are {present} devices of type {arguments.type}; --devices {arguments.devices} needs more"
        )
    devices = [f"{kind}:{i}" for i in range(arguments.devices)]
    for model_name in arguments.model:
        print(json.dumps(measure(model_name, devices, arguments.steps, arguments.small), allow_nan=False), flush=True)


if __name__ == "__main__":
    main()
