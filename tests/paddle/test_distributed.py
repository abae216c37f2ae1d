"""paddle.distributed in two processes on the stub's two devices, against one process and NumPy."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import distributed_program as program
import numpy as np
import paddle
import pytest
from comparison import on
from distributed_program import RANKS, STEPS, adam_of, batch, network, trained, values, weights
from processes import environment

if os.environ["UNIHAL_BACKEND"] != "stub":
    pytest.skip("two ranks take two devices, which the stub has", allow_module_level=True)


@pytest.fixture(scope="module")
def ranks() -> list[dict[str, Any]]:
    """What each rank printed. Nothing names a backend or a device: the default is what is tested."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    endpoints = f"127.0.0.1:{port},127.0.0.1:{port + 1}"
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", str(Path(program.__file__))],
            env=environment(
                PADDLE_TRAINER_ID=str(rank),
                PADDLE_TRAINERS_NUM=str(RANKS),
                PADDLE_TRAINER_ENDPOINTS=endpoints,
                PADDLE_CURRENT_ENDPOINT=endpoints.split(",")[rank],
                PADDLE_MASTER=f"127.0.0.1:{port}",
                OMP_NUM_THREADS="1",
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(RANKS)
    ]
    answers = []
    try:
        for process in processes:
            said, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors
            lines = [line for line in said.splitlines() if line.startswith("RESULT ")]
            answers.append(json.loads(lines[0][len("RESULT ") :]))
    finally:
        for process in processes:
            process.kill()
    return answers


def test_each_rank_has_a_device(ranks: list[dict[str, Any]]) -> None:
    assert [answer["device"] for answer in ranks] == ["iluvatar:0", "iluvatar:1"]


def test_collectives(ranks: list[dict[str, Any]]) -> None:
    a, b = (values(rank) for rank in range(RANKS))
    total = a + b
    expected: dict[str, list[list[Any]]] = {
        "all_reduce SUM": [[total]] * 2,
        "all_reduce MAX": [[b]] * 2,
        "all_reduce MIN": [[a]] * 2,
        "all_reduce PROD": [[a * b]] * 2,
        "all_reduce AVG": [[total / 2]] * 2,
        "broadcast": [[b]] * 2,
        "all_gather": [[a, b]] * 2,
        "reduce_scatter": [[total], [total * 10]],
        "scatter": [[a], [a * 10]],
        "all_to_all": [[a, b], [a * 10, b * 10]],
        "uneven": [[np.concatenate([a[:1], b[:3]])], [np.concatenate([a[1:], b[3:]])]],
        "there_and_back": [[a * 3], [b]],
        "both_ways": [[b], [a]],
        "group": [[total]] * 2,
    }
    for dtype in ("float16", "bfloat16", "float64", "int32", "int64", "uint8"):
        expected[f"all_reduce {dtype}"] = [[total]] * 2
    for rank, answer in enumerate(ranks):
        found = answer["collectives"]
        assert found.pop("objects") == [{"rank": 0}, {"rank": 1}]
        assert set(found) == set(expected)
        for name, wanted in expected.items():
            np.testing.assert_array_equal(found[name], [part.tolist() for part in wanted[rank]], err_msg=name)


@pytest.fixture(scope="module")
def alone() -> Any:
    """The weights after the same steps in one process."""
    with on("iluvatar"):
        model = network()
        trained(model, adam_of(model), None)
        return weights(model)


@pytest.mark.parametrize("way", ["data_parallel", "os", "os_g", "p_g_os"])
def test_training_on_two_agrees_with_one(way: str, ranks: list[dict[str, Any]], alone: Any) -> None:
    for answer in ranks:
        for found, wanted in zip(answer[way], alone, strict=True):
            # Sums of gradients in another order, through three steps of Adam.
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_pipeline_of_two_agrees_with_one(ranks: list[dict[str, Any]]) -> None:
    with on("iluvatar"):
        model = paddle.nn.Sequential(network(), paddle.nn.Tanh())
        optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
        losses = []
        for step in range(STEPS):
            loss = paddle.nn.functional.mse_loss(model(batch(step)), batch(step))
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(float(loss))
        expected = weights(model)
    np.testing.assert_allclose(ranks[1]["pipeline"]["losses"], losses, rtol=1e-5)
    found = ranks[0]["pipeline"]["weights"] + ranks[1]["pipeline"]["weights"]
    for mine, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-5, atol=1e-6)
