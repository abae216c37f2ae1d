"""Trains a small network on a device and on the CPU: incomplete_training.py TYPE DTYPE...

Convolution, batch norm, pooling and Adam by fit, and assignments to a variable in eager mode. Prints the largest
differences as JSON, and the fallbacks.
"""

from __future__ import annotations

import json
import sys

import keras
import numpy as np
import tensorflow as tf
import unihal
from keras import layers


def train(device: str, dtype: str) -> np.ndarray:
    """Losses and weights, one after the other."""
    keras.utils.set_random_seed(0)
    keras.config.set_floatx(dtype)
    keras.config.set_dtype_policy(dtype)
    with tf.device(device):
        model = keras.Sequential(
            [
                layers.Input((8, 8, 1)),
                layers.Conv2D(4, 3, padding="same", use_bias=False),
                layers.BatchNormalization(),
                layers.ReLU(),
                layers.MaxPooling2D(),
                layers.Flatten(),
                layers.Dense(10),
            ]
        )
        for i, weight in enumerate(model.trainable_weights):
            weight.assign(np.random.default_rng(i).normal(0, 0.2, weight.shape).astype(dtype))
        model.compile(keras.optimizers.Adam(1e-2), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        random = np.random.default_rng(0)
        x, y = random.normal(size=(32, 8, 8, 1)).astype(dtype), random.integers(0, 10, 32)
        losses = model.fit(x, y, batch_size=8, epochs=1, verbose=0, shuffle=False).history["loss"]
        variable = tf.Variable(np.arange(12).reshape(3, 4).astype(dtype))
        variable.assign_add(tf.exp(variable * 0.1))
        variable[1:, ::2].assign(tf.fill([2, 2], tf.constant(7, dtype)))
        sums = tf.cumsum(variable).numpy()
    values = [losses, *(weight.numpy() for weight in model.weights), variable.numpy(), sums]
    return np.concatenate([np.ravel(value).astype(np.float64) for value in values])


def main() -> None:
    kind, *dtypes = sys.argv[1:]
    tf.config.set_visible_devices(tf.config.list_physical_devices("CPU") + tf.config.list_physical_devices(kind))
    errors = {}
    for dtype in dtypes:
        seen, expected = train(f"/device:{kind}:0", dtype), train("/device:CPU:0", dtype)
        errors[dtype] = float(np.abs(seen - expected).max())
    fallbacks = [[f.framework, f.op, f.dtype, f.reason, f.count] for f in unihal.fallbacks()]
    print(json.dumps({"errors": errors, "fallbacks": fallbacks}))


if __name__ == "__main__":
    main()
