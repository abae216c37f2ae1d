"""What only the strict stub shows of training runs; `make test-strict` runs it together with test_training.py."""

from __future__ import annotations

import gc
from pathlib import Path

import paddle
import pytest
from models import DigitsNetwork, train
from processes import run
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


# A program that knows nothing of the checks, with the mistakes that are planted at the marks. Its network and optimizer
# are globals, which Python lets go of behind all functions of atexit.
TRAINING = """
import ctypes
import paddle
import unihal
from paddle import nn
from unihal.conformance.abi import Bench
paddle.set_device("iluvatar")
network = nn.Linear(64, 64)
optimizer = paddle.optimizer.Adam(parameters=network.parameters())
for step in range(3):
    x = paddle.ones([16, 64])
    loss = (network(x) - 1).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
print(float(loss) > 0)
"""
LEAK = "ctypes.pythonapi.Py_IncRef(ctypes.py_object(network.weight))"
# Of its own two streams: each free in Paddle's pool waits for the device, and orders what went before.
RACE = """
with Bench(unihal.device("iluvatar:0")) as bench:
    one, other = bench.stream(), bench.stream()
    one.fill(x.data_ptr(), b"1", 64)
    other.fill(x.data_ptr(), b"2", 64)
"""


@pytest.mark.parametrize(
    ("planted", "expected", "said"),
    [
        ("", 0, ""),
        (LEAK, 3, "0 races, 32768 bytes never freed"),  # the weight and its gradient
        (RACE, 3, "1 races, 0 bytes never freed"),
        ("raise SystemExit(7)", 7, ""),
    ],
    ids=["clean", "leak", "race", "its own code"],
)
def test_what_the_checks_find_is_the_exit_code(planted: str, expected: int, said: str, tmp_path: Path) -> None:
    result = run(TRAINING + planted, tmp_path, UNIHAL_CHECK_EXIT_CODE="3")
    assert (result.returncode, result.stdout) == (expected, "True\n"), result.stderr
    assert said in result.stderr and (said or not result.stderr)
