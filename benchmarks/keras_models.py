"""Seconds of a training step of each family of keras.applications, the stub beside TensorFlow's CPU in the same run.

    python benchmarks/keras_models.py [--only SUBSTRING] [--rounds N] [--batch N] [--side N] [--json FILE]

Each model trains as `fit` does (a graph, Momentum SGD, float32) on random images. Both places train in one process on
the same cores, in turn, so that what else the machine does meets both alike; the time is the lower quartile of the
rounds. A ratio below 1 says that the stub is faster; none is to be above 1. Of models that convolve in groups inference
is measured: TensorFlow's CPU has no gradient of that.

Without UNIHAL_BACKEND the stub serves; with it, another backend's device takes the stub's place."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("UNIHAL_BACKEND", "stub")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from measure import progress
from rich.console import Console
from rich.table import Table

PLACES = {"device": "/device:RDNA:0", "cpu": "/device:CPU:0"}
#: The smallest model of each family, and the least side of its images.
MODELS = {
    "ConvNeXtTiny": 32, "DenseNet121": 32, "EfficientNetB0": 32, "EfficientNetV2B0": 32, "InceptionResNetV2": 75,
    "InceptionV3": 75, "MobileNet": 32, "MobileNetV2": 32, "MobileNetV3Small": 32, "NASNetMobile": 32, "ResNet50": 32,
    "ResNet50V2": 32, "VGG16": 32, "Xception": 71,
}  # fmt: skip
IN_GROUPS = ("ConvNeXtTiny",)
CLASSES = 10

Step = Callable[[], Any]


def stepper(name: str, place: str, batch: int, side: int) -> Step:
    """A step on one place; what it returns waits for the device."""
    keras.utils.set_random_seed(0)
    generator = np.random.default_rng(0)
    x = generator.standard_normal((batch, side, side, 3), dtype=np.float32)
    labels = generator.integers(0, CLASSES, (batch,))
    with tf.device(place):
        model = getattr(keras.applications, name)(
            weights=None, input_shape=(side, side, 3), classes=CLASSES, classifier_activation=None
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(1e-3, 0.9), loss, jit_compile=False)
    # TensorFlow's graph pass fuses convolutions in groups into one that its CPU refuses: op by op.
    run: Step = (
        (lambda: model(x, training=False).numpy())
        if name in IN_GROUPS
        else (lambda: float(model.train_on_batch(x, labels)))
    )

    def step() -> Any:
        with tf.device(place):
            return run()

    return step


def seconds(name: str, batch: int, side: int, rounds: int) -> dict[str, float]:
    """The lower quartile of a step's seconds on each place."""
    steps = {key: stepper(name, place, batch, side) for key, place in PLACES.items()}
    times: dict[str, list[float]] = {key: [] for key in PLACES}
    for number in range(rounds + 2):
        for key, step in steps.items():
            start = time.perf_counter()
            step()
            if number >= 2:  # the first make the graph and primitives
                times[key].append(time.perf_counter() - start)
    return {key: statistics.quantiles(values, n=4)[0] for key, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models whose name has this")
    parser.add_argument("--rounds", type=int, default=4, help="steps that are measured on each place")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--side", type=int, default=96, help="of the images; larger where a model asks for it")
    parser.add_argument("--json", type=Path, help="a file for the rows")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, least in MODELS.items():
        if arguments.only not in name:
            continue
        found = seconds(name, arguments.batch, max(least, arguments.side), arguments.rounds)
        work = "inference" if name in IN_GROUPS else "training step"
        rows.append({"benchmark": f"keras: {name}, {work}", **found, "ratio": found["device"] / found["cpu"]})
        progress(f"{name}: {rows[-1]['ratio']:.2f}")
        keras.backend.clear_session()
    backend = os.environ["UNIHAL_BACKEND"]
    table = Table("model", f"{backend}, ms", "TensorFlow's CPU, ms", "ratio", title="Models of Keras")
    for row in rows:
        table.add_row(row["benchmark"], f"{1e3 * row['device']:.1f}", f"{1e3 * row['cpu']:.1f}", f"{row['ratio']:.2f}")
    Console().print(table)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
