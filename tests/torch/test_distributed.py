"""torch.distributed in two processes on the stub's two devices, against one process and the definitions."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import distributed_program as program
import pytest
import torch
import unihal_torch.distributed as adapter
from distributed_program import DEVICE, RANKS, STEPS, batch, network, values, weights
from unihal import _core

if os.environ["UNIHAL_BACKEND"] != "stub":
    pytest.skip("two ranks take two devices, which the stub has", allow_module_level=True)


def start(script: Path, *arguments: str, timeout: float = 120, **variables: str) -> list[tuple[int, str, str]]:
    """How each rank ended and what it said."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {"WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", str(script), *arguments],
            env={**os.environ, **shared, **variables, "RANK": str(rank), "UNIHAL_STUB_DEVICES": str(RANKS)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(RANKS)
    ]
    try:
        return [(process.returncode, *said) for process in processes for said in [process.communicate(timeout=timeout)]]
    finally:
        for process in processes:
            process.kill()


@pytest.fixture(scope="module")
def ranks() -> list[dict[str, Any]]:
    """What each rank printed."""
    answers = []
    for code, said, errors in start(Path(program.__file__), UNIHAL_STRICT="1"):
        assert code == 0, errors
        (line,) = [line for line in said.splitlines() if line.startswith("RESULT ")]
        answers.append(json.loads(line.removeprefix("RESULT ")))
    return answers


def test_the_numbers_are_those_of_the_abi() -> None:
    assert {name: number for number, name in enumerate(adapter.DTYPES, 1)} == {
        name: number for number, name in enumerate(_core.DTYPES, 1)
    }


def test_collectives(ranks: list[dict[str, Any]]) -> None:
    a, b = (values(rank) for rank in range(RANKS))
    total, each = a + b, torch.cat
    narrow = {
        f"all_reduce {dtype}": [[total]] * 2
        for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64, torch.uint8)
    }
    expected: dict[str, list[list[torch.Tensor]]] = {
        "all_reduce SUM": [[total]] * 2,
        "all_reduce MAX": [[b]] * 2,
        "all_reduce MIN": [[a]] * 2,
        "all_reduce PRODUCT": [[a * b]] * 2,
        "all_reduce AVG": [[total / 2]] * 2,
        **narrow,
        "broadcast": [[b]] * 2,
        "strided": [[torch.stack([total, torch.zeros(4)], 1)]] * 2,
        "all_gather": [[a, b]] * 2,
        "all_gather_into_tensor": [[each([a, b])]] * 2,
        "reduce_scatter": [[total], [total * 10]],
        "reduce_scatter_tensor": [[total[:2]], [total[2:]]],
        "gather": [[], [a, b]],
        "scatter": [[a], [a * 10]],
        "all_to_all": [[a, b], [a * 10, b * 10]],
        "all_to_all_single": [[each([a[:2], b[:2]])], [each([a[2:], b[2:]])]],
        "uneven": [[each([a[:1], b[:3]])], [each([a[1:], b[3:]])]],
        "there_and_back": [[a * 3], [b]],
        "both_ways": [[b], [a]],
        "transposed": [[b], [a]],
        "negated": [[each([-a - 1, -b - 1])]] * 2,
        "asynchronous": [[total + 1]] * 2,
        "in_a_group_of_its_own": [[total]] * 2,
    }
    for rank, answer in enumerate(ranks):
        found = answer["collectives"]
        for name, of_ranks in expected.items():
            assert found[name] == [tensor.flatten().tolist() for tensor in of_ranks[rank]], (name, rank)
        assert found["cpu"] == total.tolist()
        assert found["objects"] == [{"rank": 0}, {"rank": 1}]
    assert ranks[1]["collectives"]["reduce"] == [total.tolist()]


def test_data_parallel_training_agrees_with_one_process(ranks: list[dict[str, Any]]) -> None:
    model = network().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for step in range(STEPS):
        for rank in range(RANKS):
            (model(batch(step, rank).to(DEVICE)).square().mean() / RANKS).backward()
        optimizer.step()
        optimizer.zero_grad()
    for answer in ranks:
        for mine, others in zip(weights(model), answer["data_parallel"], strict=True):
            torch.testing.assert_close(torch.tensor(others), torch.tensor(mine))
    assert ranks[0]["data_parallel"] == ranks[1]["data_parallel"]


DEAD = """
import datetime, os, sys, torch, torch.distributed as dist
name = os.environ.get("UNIHAL_TORCH_DEVICE", "rdna")
rank = int(os.environ["RANK"])
getattr(torch, name).set_device(rank)
dist.init_process_group(timeout=datetime.timedelta(seconds=30))
x = torch.ones(4, device=f"{name}:{rank}")
dist.all_reduce(x)
getattr(torch, name).synchronize()
if rank == 1:
    os._exit(0)
try:
    dist.all_reduce(x)
    getattr(torch, name).synchronize()
except RuntimeError as error:
    print("ERROR", error)
os._exit(0)
"""


def test_a_rank_that_dies_is_named(tmp_path: Path) -> None:
    script = tmp_path / "dead.py"
    script.write_text(DEAD)
    (code, said, errors), _ = start(script, timeout=60)
    assert code == 0, errors
    assert "rank 1" in said and "has ended" in said, said + errors
