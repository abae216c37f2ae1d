"""What only the strict stub shows of training runs; `make test-strict` runs it together with test_training.py."""

from __future__ import annotations

import gc

import paddle
import pytest
from models import DigitsNetwork, train
from unihal.testing import MemoryWatermark


@pytest.mark.parametrize("static", [False, True], ids=["dygraph", "to_static"])
@pytest.mark.parametrize("kind", ["digits", "resnet18", "transformer"])
def test_training_gives_its_memory_back(kind: str, static: bool, memory_watermark: MemoryWatermark) -> None:
    train(kind, "iluvatar", 2, static)
    memory_watermark.begin()
    train(kind, "iluvatar", 2, static)


def test_a_tensor_is_an_allocation_of_its_own(memory_watermark: MemoryWatermark) -> None:
    # Paddle's pool would hide from the memory check where a tensor ends, and that it is gone.
    paddle.set_device("iluvatar")
    tensors = [paddle.ones([1000]) for _ in range(3)]
    grown = memory_watermark.grown_bytes
    assert 3 * 4000 <= grown <= 3 * 4096
    del tensors[1]
    assert memory_watermark.grown_bytes == grown // 3 * 2
    tensors.clear()
    assert memory_watermark.grown_bytes == 0


def test_what_stays_is_found(memory_watermark: MemoryWatermark) -> None:
    network = DigitsNetwork()
    assert "models.py" in memory_watermark.complaint()
    del network
    gc.collect()
    assert memory_watermark.complaint() == ""
