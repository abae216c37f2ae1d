"""Plans of Keras models against TensorFlow on the stub, in a process of their own: PyTorch's is not TensorFlow's."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.whole

PROGRAM = """
import gc, json, sys
import numpy as np
import tensorflow as tf
import keras
import unihal_workshop as workshop

layers = keras.layers


def convolutions():
    i = x = keras.Input((64, 64, 3))
    for channels in (32, 64):
        x = layers.Conv2D(channels, 3, padding="same")(x)
        x = layers.MaxPooling2D()(layers.ReLU()(layers.BatchNormalization()(x)))
    return keras.Model(i, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))


def residual():
    i = keras.Input((64, 64, 3))
    x = layers.Conv2D(32, 3, padding="same")(i)
    for _ in range(3):
        y = layers.Conv2D(32, 3, padding="same")(layers.ReLU()(layers.BatchNormalization()(x)))
        x = layers.Add()([x, y])
    return keras.Model(i, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))


def dense():
    i = keras.Input((512,))
    x = layers.Dense(2048, activation="gelu")(layers.Dense(2048, activation="relu")(i))
    return keras.Model(i, layers.Dense(10)(x))


def attention():
    i = x = keras.Input((64, 128))
    for _ in range(2):
        x = layers.LayerNormalization()(layers.Add()([x, layers.MultiHeadAttention(4, 32)(x, x)]))
        y = layers.Dense(128)(layers.Dense(512, activation="relu")(x))
        x = layers.LayerNormalization()(layers.Add()([x, y]))
    return keras.Model(i, x)


results = {}
with tf.device("/device:RDNA:0"):
    shapes = {convolutions: (32, 64, 64, 3), residual: (16, 64, 64, 3), dense: (256, 512), attention: (8, 64, 128)}
    for make, shape in shapes.items():
        model = make()
        path = f"{sys.argv[1]}/{make.__name__}.keras"
        model.save(path)
        planned = workshop.plan(path if make is dense else model, shape, "rx580-4gb").peak_bytes
        function = tf.function(lambda x: model(x, training=False))
        x = tf.constant(np.zeros(shape, np.float32))
        y = function(x)
        del y
        tf.config.experimental.reset_memory_stats("RDNA:0")
        y = function(x)
        results[make.__name__] = planned, tf.config.experimental.get_memory_info("RDNA:0")["peak"]
        del y, function, model, x
        gc.collect()
try:
    workshop.plan(dense(), (4, 511), "rx580-4gb")
except workshop.InputError as error:
    results["mistake"] = str(error)
print("RESULTS" + json.dumps(results))
"""


def test_the_peak_is_the_plans(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("models")
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    del environment["UNIHAL_STRICT"]  # what belongs to the host in TensorFlow is no mistake here
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)], env=environment, capture_output=True, text=True, check=False
    )
    lines = [line for line in process.stdout.splitlines() if line.startswith("RESULTS")]
    assert lines, process.stderr[-3000:]
    results = json.loads(lines[0].removeprefix("RESULTS"))
    assert "the model takes [[None, 512]]" in results.pop("mistake")
    assert len(results) == 4
    for name, (planned, peak) in results.items():
        assert planned == pytest.approx(peak, rel=0.05), name
