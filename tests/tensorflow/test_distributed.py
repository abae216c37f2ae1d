"""tf.distribute on two devices of one process, and in two processes (distributed.py, distributed_worker.py)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import distributed_worker
import forks
import numpy as np
import pytest
import tensorflow as tf

TOO_FEW_DEVICES = 77  # distributed.py


def run(*tests: str) -> None:
    variables = {**os.environ, "UNIHAL_STUB_DEVICES": "2"}
    result = forks.run(["distributed.py", *tests], variables)
    if result.returncode == TOO_FEW_DEVICES:
        pytest.skip("this machine has one device")
    assert result.returncode == 0, result.stdout + result.stderr


def test_training_and_failures() -> None:
    run("fit", "failing_rank")


@pytest.mark.whole
def test_sparse_gradients_and_many_at_once() -> None:
    run("sparse_gradients", "many_at_once")


@pytest.mark.long
def test_whole_batch_mixed_precision_and_reductions() -> None:
    run("whole_batch", "mixed_precision", "reductions")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def start_workers(folder: Path, failing: int = -1) -> list[subprocess.Popen[bytes]]:
    addresses = [f"localhost:{free_port()}" for _ in range(2)]
    workers = []
    for index in range(2):
        place = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        variables = {**os.environ, "TF_CONFIG": json.dumps(place)}
        if index == failing:
            variables["WORKER_FAILS"] = "1"
        program = [
            sys.executable,
            str(Path(__file__).with_name("distributed_worker.py")),
            str(folder / f"{index}.json"),
        ]
        with open(folder / f"{index}.log", "wb") as log:
            workers.append(subprocess.Popen(program, env=variables, stdout=log, stderr=log))
    return workers


@pytest.mark.whole
def test_two_workers_train_as_one(tmp_path: Path) -> None:
    for worker in start_workers(tmp_path):
        assert worker.wait(120) == 0, "".join(log.read_text() for log in tmp_path.glob("*.log"))
    losses, weights = distributed_worker.trained(tf.distribute.OneDeviceStrategy("CPU:0"))
    for index in range(2):
        found = json.loads((tmp_path / f"{index}.json").read_text())
        assert len(found["devices"]) == 1 and "CPU" not in found["devices"][0], found["devices"]
        np.testing.assert_allclose(found["losses"], losses, 1e-5)
        for one, other in zip(found["weights"], weights, strict=True):
            np.testing.assert_allclose(one, other, 1e-5, 1e-6)


@pytest.mark.whole
def test_a_worker_that_ends_is_an_error_of_the_other(tmp_path: Path) -> None:
    survivor, failing = start_workers(tmp_path, failing=1)
    assert failing.wait(120) == 3
    assert survivor.wait(120) == 1
    assert "UnavailableError" in (tmp_path / "0.log").read_text(), (tmp_path / "0.log").read_text()
