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
from comparison import TOLERANCE, on
from distributed_program import (
    NORMS,
    RANKS,
    STEPS,
    adam_of,
    batch,
    convolutional,
    network,
    normalized,
    state,
    trained,
    trained_on_images,
    values,
    weights,
)
from paddle import nn
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


#: Of what each rank has its part.
PIECES = ("y", "dx", "tested")


def whole_norm(name: str) -> dict[str, Any]:
    """What one process has of the batch of all ranks, in float64, so that it is no other rounding."""
    layer_of = {2: nn.BatchNorm1D, 3: nn.BatchNorm1D, 4: nn.BatchNorm2D, 5: nn.BatchNorm3D}[len(NORMS[name][1])]
    with on("cpu"):
        found = normalized(name, layer_of, None, "float64")
    return {key: np.array(value) for key, value in found.items()}


@pytest.mark.parametrize("name", NORMS)
def test_norms_of_two_agree_with_the_norm_of_one(name: str, ranks: list[dict[str, Any]]) -> None:
    expected, shares = whole_norm(name), NORMS[name][4]
    limit = TOLERANCE[NORMS[name][0]]
    parts = [{key: np.array(value) for key, value in answer["norms"][name].items()} for answer in ranks]
    for part in parts:
        for key in ("mean", "variance"):
            np.testing.assert_allclose(part[key], expected[key], rtol=max(limit, 1e-6), err_msg=key)
    found = {key: np.concatenate([part[key] for part, n in zip(parts, shares, strict=True) if n]) for key in PIECES}
    # Of the parameters each rank has its own sums: DataParallel makes their average of a loss that is an average.
    found |= {key: sum(part[key] for part in parts) for key in ("dscale", "dbias")}
    for key, array in found.items():
        # Differences of numbers like dy's, which is about 1: of a channel of two elements hardly anything is left.
        scale = max(1, np.abs(expected[key]).max())
        np.testing.assert_allclose(array, expected[key], rtol=limit, atol=limit * scale, err_msg=key)


def test_norms_of_two_in_a_graph(ranks: list[dict[str, Any]]) -> None:
    for answer in ranks:
        assert answer["norm in a graph"] == answer["norms"]["image"]


def test_a_converted_network_agrees_with_one(ranks: list[dict[str, Any]]) -> None:
    with on("iluvatar"):
        model = convolutional(synchronized=False)
        trained_on_images(model, None)
        expected = state(model)
    for answer in ranks:
        for found, wanted in zip(answer["converted"], expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)


def test_a_norm_without_the_others_is_refused(ranks: list[dict[str, Any]]) -> None:
    for answer in ranks:
        assert "PADDLE_TRAINERS_NUM is 2" in answer["alone"]["trained"]
        assert "paddle.distributed.barrier()" in answer["alone"]["trained"]
        np.testing.assert_allclose(answer["alone"]["tested"], 1, rtol=1e-4)
