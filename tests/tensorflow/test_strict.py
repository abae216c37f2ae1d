"""What only the strict stub shows of training runs; `make test-strict` runs it together with test_models.py."""

from __future__ import annotations

import keras
import pytest
import tensorflow as tf
from compare import DEVICE
from models import batches, build
from processes import run_python
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


# A program that knows nothing of the checks, with the mistakes that are planted behind it.
TRAINING = """
import ctypes
import sys
import keras
import numpy as np
import tensorflow as tf
import unihal
from unihal.conformance.abi import Bench
with tf.device("/device:ILUVATAR:0"):
    model = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(64), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(np.ones((16, 64), "float32"), np.ones((16, 1), "float32"), batch_size=8, epochs=1, verbose=0)
    x = tf.exp(tf.ones([128, 128]))
print("trained")
"""
LEAK = "ctypes.pythonapi.Py_IncRef(ctypes.py_object(x))"
RACE = """
with Bench(unihal.device("iluvatar:0")) as bench:
    one, other, memory = bench.stream(), bench.stream(), bench.memory(64)
    one.fill(memory.address, b"1", 64)
    other.fill(memory.address, b"2", 64)
"""


@pytest.mark.parametrize(
    ("planted", "expected", "said"),
    [
        ("", 0, ""),
        (LEAK, 3, "the exit code is 3 (UNIHAL_CHECK_EXIT_CODE): 0 races"),
        (RACE, 3, "the exit code is 3 (UNIHAL_CHECK_EXIT_CODE): 1 races"),
        ("sys.exit(7)", 7, ""),
    ],
    ids=["clean", "leak", "race", "its own code"],
)
def test_what_the_checks_find_is_the_exit_code(planted: str, expected: int, said: str) -> None:
    # Some scalars stay: TensorFlow's eager mode keeps them.
    checks = {"UNIHAL_CHECK_EXIT_CODE": "3", "UNIHAL_CHECK_LEAK_BYTES": "4K"}
    result = run_python(TRAINING + planted, **checks)
    assert (result.returncode, result.stdout) == (expected, "trained\n"), result.stderr
    assert said in result.stderr and (said or "the exit code is" not in result.stderr)
