"""Training in Keras, tested without hardware."""

import keras
import numpy as np
import pytest
import tensorflow as tf


@pytest.mark.unihal_no_fallback
@pytest.mark.unihal_no_race
def test_fit_learns():
    random = np.random.default_rng(1)
    images = random.normal(size=(64, 8, 8, 1)).astype("float32")
    labels = (images.mean(axis=(1, 2, 3)) > 0).astype("int64")
    with tf.device("/device:RDNA:0"):
        network = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(2)])
        network.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        history = network.fit(images, labels, epochs=3, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
