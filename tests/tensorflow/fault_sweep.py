"""A program: one Keras training step, as a graph, with each of its device calls failing in turn.

Prints the report of sweeps.py as JSON. An assertion fails if an exception does not say what happened, if memory is
left over, or if the next step without a fault, or a step that got over its fault, is not the step of an undisturbed
run.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
import unihal
from keras import layers

sys.path.insert(0, str(Path(__file__).parents[1]))
import sweeps

# Where the C API has no place for a message, the text is TensorFlow's: a refused allocation is a null pointer, and of
# an error in the wait for the whole device it keeps only that there was one (the adapter prints the cause).
TEXTS_OF_TENSORFLOW = {
    "alloc": ("OOM when allocating", "Dst tensor is not initialized", "unable to allocate output tensor"),
    "async": ("SyncAll failed",),
}

Step = list[np.ndarray[Any, Any]]


class Training:
    """A network whose state can be put back to where it was."""

    def __init__(self) -> None:
        keras.utils.set_random_seed(0)
        self.device = unihal.device("rdna")
        self.network = keras.Sequential(
            [
                layers.Input((8, 8, 1)),
                layers.Conv2D(4, 3, padding="same"),
                layers.BatchNormalization(),
                layers.ReLU(),
                layers.MaxPooling2D(),
                layers.Flatten(),
                layers.Dense(10),
            ]
        )
        self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.optimizer = keras.optimizers.SGD(0.1)
        self.optimizer.build(self.network.trainable_variables)
        self.compiled = tf.function(self.train)
        self.images = np.random.RandomState(0).rand(5, 8, 8, 1).astype("float32")
        self.labels = np.arange(5, dtype=np.int32)
        self.last_loss: float | None = None
        self.initial = self.network.get_weights()
        for _ in range(2):  # what is set up at the first steps stays
            self.step()
        self.reset()
        gc.freeze()  # the modules' own objects need not be looked at after each fault
        self.baseline = self.memory()
        self.expected = self.undisturbed_step()

    def train(self, images: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = self.loss(labels, self.network(images, training=True))
        variables = self.network.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    def step(self) -> None:
        self.last_loss = None
        self.last_loss = float(self.compiled(tf.constant(self.images), tf.constant(self.labels)))

    def reset(self) -> None:
        self.network.set_weights(self.initial)
        gc.collect()
        self.device.empty_cache()

    def memory(self) -> tuple[int, int]:
        stats = self.device.memory_stats()
        return stats.live_allocations, stats.allocated_bytes

    def undisturbed_step(self) -> Step:
        self.network.set_weights(self.initial)
        self.step()
        return self.result()

    def result(self) -> Step:
        return [np.asarray(self.last_loss), *self.network.get_weights()]

    def check(self, outcome: unihal.FaultOutcome) -> None:
        if outcome.error is None:
            self.compare(self.result(), outcome.rule)
        else:
            text = str(outcome.error)
            parts = outcome.rule.split(":")
            accepted = [other for part in parts for other in TEXTS_OF_TENSORFLOW.get(part, ())]
            told = sweeps.tells_of_the_fault(outcome) or any(other in text for other in accepted)
            assert told, f"{outcome.rule}: {text}"
        self.reset()
        # A thread of TensorFlow's lets go of a copy's tensors some time after the copy.
        end = time.monotonic() + 10
        while self.memory() > self.baseline and time.monotonic() < end:
            time.sleep(0.01)
        assert self.memory() <= self.baseline, f"{outcome.rule}: {self.memory()} is left of {self.baseline}"
        self.compare(self.undisturbed_step(), outcome.rule)
        self.reset()

    def compare(self, result: Step, rule: str) -> None:
        for ours, expected in zip(result, self.expected, strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6, err_msg=rule)


def main() -> None:
    report: sweeps.Report = {}
    with tf.device("/device:RDNA:0"):
        training = Training()
        # After a lost device TensorFlow's runtime is of no use any more.
        sweeps.sweep(report, training.device, training.step, training.check, training.reset, leave_out=("device-lost",))
    print(json.dumps(report))


if __name__ == "__main__":
    main()
