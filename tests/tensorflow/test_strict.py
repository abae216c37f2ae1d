"""What only the strict stub shows of training runs; `make test-strict` runs it together with test_models.py."""

from __future__ import annotations

import keras
import pytest
import tensorflow as tf
from compare import DEVICE
from models import batches, build
from unihal.testing import MemoryWatermark


# TensorFlow keeps the scalars that it made of Python numbers. Keras keeps the variables of some models that were fitted
# and deleted (so it does on TensorFlow's CPU); what is held to account is a further epoch of one model.
@pytest.mark.unihal_memory(growth="4K")
@pytest.mark.parametrize("name", ["digits_cnn", "resnet18", "transformer"])
def test_an_epoch_gives_its_memory_back(name: str, memory_watermark: MemoryWatermark) -> None:
    tf.config.set_soft_device_placement(True)  # input pipelines belong on the CPU
    x, y = batches(name, 8, "float32")
    with tf.device(DEVICE):
        model, optimizer = build(name, "float32")
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(x, y, batch_size=8, epochs=1, verbose=0)
        memory_watermark.begin()
        model.fit(x, y, batch_size=8, epochs=1, verbose=0)
    assert memory_watermark.peak_bytes > 4096


def test_a_tensor_is_an_allocation_of_its_own(memory_watermark: MemoryWatermark) -> None:
    # TensorFlow's pool would hide from the memory check where a tensor ends, and that it is gone.
    with tf.device(DEVICE):
        tensors = [tf.random.normal([1000]) for _ in range(3)]
        memory_watermark.begin()
        tensors += [tf.negative(tensor) for tensor in tensors]
        assert memory_watermark.grown_bytes == 3 * 4000
        del tensors[4]
        assert memory_watermark.grown_bytes == 2 * 4000
        del tensors[3:]
