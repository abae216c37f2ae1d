"""One worker of MultiWorkerMirroredStrategy, which TF_CONFIG tells who the others are.

    python distributed_worker.py FILE

trains on this worker's part of the batches and writes the losses and weights, or with WORKER_FAILS=1 ends in between.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

STEPS, BATCH = 4, 16


def data() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(5)
    return generator.random((STEPS * BATCH, 6), np.float32), generator.integers(0, 4, STEPS * BATCH)


def model() -> keras.Model:
    keras.utils.set_random_seed(11)
    return keras.Sequential([layers.Input((6,)), layers.Dense(16, "tanh"), layers.Dense(4)])


def trained(strategy: tf.distribute.Strategy) -> tuple[list[float], list[np.ndarray]]:
    """A loop of its own: Keras 3 does not fit with this strategy, whatever the devices."""
    with strategy.scope():
        net = model()
        optimizer = keras.optimizers.SGD(0.5, momentum=0.9)
        optimizer.build(net.trainable_variables)

    def step(inputs: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            losses = keras.losses.sparse_categorical_crossentropy(labels, net(inputs), from_logits=True)
            loss = tf.reduce_sum(losses) / BATCH
        gradients = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
        return loss

    @tf.function
    def run(inputs: Any, labels: Any) -> Any:
        return strategy.reduce("sum", strategy.run(step, (inputs, labels)), axis=None)

    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    batches = tf.data.Dataset.from_tensor_slices(data()).batch(BATCH).with_options(options)
    losses = []
    for number, batch in enumerate(strategy.experimental_distribute_dataset(batches)):
        if number == STEPS // 2 and os.environ.get("WORKER_FAILS"):
            os._exit(3)
        losses.append(float(run(*batch)))
    return losses, [np.asarray(w) for w in net.get_weights()]


if __name__ == "__main__":
    workers = tf.distribute.MultiWorkerMirroredStrategy()
    losses, weights = trained(workers)
    devices = workers.extended.worker_devices
    with open(sys.argv[1], "w") as file:
        json.dump({"devices": devices, "losses": losses, "weights": [w.tolist() for w in weights]}, file)
    os._exit(0)  # the other worker may have gone first, which TensorFlow's server takes for a failure
