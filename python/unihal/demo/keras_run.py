"""A run in Keras: python -m unihal.demo.keras_run --device rdna --epochs 20 --trace trace.json."""

from __future__ import annotations

import time
from typing import Any

# The framework comes first, as in a user's program; its plugin is loaded by the import.
import keras
import numpy as np
import tensorflow as tf

from .data import BATCH, CHANNELS, CLASSES, LEARNING_RATE, POOLED_SIZE, Digits, initial_weights, load_digits
from .measure import finish
from .protocol import Arguments, Epoch, arguments, send

_SEED = 20


def _network() -> Any:
    first, second = CHANNELS
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(first, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Conv2D(second, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Flatten(),
            keras.layers.Dense(CLASSES),
        ]
    )


def _initial_values() -> list[Any]:
    """The initial weights in Keras' order and layout: (height, width, input, output), channels last."""
    weights = initial_weights()
    channels, side = CHANNELS[1], POOLED_SIZE
    dense = weights.dense.reshape(channels, side, side, CLASSES).transpose(1, 2, 0, 3).reshape(-1, CLASSES)
    values = []
    for weight, bias in zip(
        (weights.filter1.transpose(2, 3, 1, 0), weights.filter2.transpose(2, 3, 1, 0), dense), weights.biases
    ):
        values += [np.ascontiguousarray(weight), bias]
    return values


class _Progress(keras.callbacks.Callback):  # type: ignore[misc]
    """Reports each epoch."""

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Called by Keras."""
        values = logs or {}
        send(Epoch(epoch, float(values["loss"]), float(values["val_accuracy"])))


class Training:
    """The network with its optimizer, compiled and fitted with Keras' defaults."""

    def __init__(self, digits: Digits) -> None:
        self._digits = digits
        keras.utils.set_random_seed(_SEED)
        self._model = _network()
        self._model.compile(
            optimizer=keras.optimizers.Adam(LEARNING_RATE),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
        self._model.optimizer.build(self._model.trainable_variables)
        self._optimizer_values = [variable.numpy() for variable in self._model.optimizer.variables]

    def fit(self, images: int, epochs: int, callbacks: list[Any]) -> None:
        """Trains on the first ``images`` images."""
        self._model.fit(
            self._digits.train_images[:images, ..., None],
            self._digits.train_labels[:images],
            batch_size=BATCH,
            epochs=epochs,
            validation_data=(self._digits.test_images[..., None], self._digits.test_labels),
            validation_batch_size=len(self._digits.test_labels),
            callbacks=callbacks,
            verbose=0,
        )

    def restart(self) -> None:
        """Sets weights and optimizer back to where training begins."""
        self._model.set_weights(_initial_values())
        for variable, value in zip(self._model.optimizer.variables, self._optimizer_values):
            variable.assign(value)
        keras.utils.set_random_seed(_SEED)


def _peak_memory(run: Arguments) -> int | None:
    return None if run.on_cpu else int(tf.config.experimental.get_memory_info(f"{run.device.upper()}:0")["peak"])


def main() -> None:
    """Trains and reports."""
    run = arguments()
    digits = load_digits()
    with tf.device(f"/device:{run.device.upper()}:0"):
        training = Training(digits)

        # Warm-up, not measured: the step is traced and compiled at its first use.
        training.fit(BATCH, 1, [])
        training.restart()

        start = time.perf_counter()
        training.fit(len(digits.train_labels), run.epochs, [_Progress()])
        seconds = time.perf_counter() - start
        send(finish(run, seconds, _peak_memory(run), lambda: training.fit(len(digits.train_labels), 1, [])))


if __name__ == "__main__":
    main()
