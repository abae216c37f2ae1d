"""`gpux deploy --ray` on a Ray of this machine (tests/gpux/fetch_ray.sh puts Ray into build/ray)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import httpx
import numpy as np
import pytest
from service import COMMAND, gpux_here
from sources import affine_result, project

RAY = Path(__file__).parents[2] / "build/ray"
pytestmark = [pytest.mark.long, pytest.mark.skipif(not RAY.exists(), reason="no Ray: tests/gpux/fetch_ray.sh")]


def test_the_same_service_as_a_ray_application(tmp_path: Path) -> None:
    registry = tmp_path / "models"
    folder = project(tmp_path / "p", "name: affine\nmodel: {source: model.onnx}\n")
    assert gpux_here("build", folder, "--registry", registry).returncode == 0
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        *COMMAND,
        "deploy",
        "affine",
        "--ray",
        "--registry",
        str(registry),
        "--port",
        str(port),
        "--max-replicas",
        "2",
    ]
    path = os.pathsep.join(filter(None, [str(RAY), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "RAY_DISABLE_IMPORT_WARNING": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    log = tmp_path / "log"
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        address = f"http://127.0.0.1:{port}"
        end = time.monotonic() + 360  # `gpux deploy` itself gives up after 300
        while "serving affine at" not in log.read_text():
            assert process.poll() is None and time.monotonic() < end, log.read_text()[-4000:]
            time.sleep(0.2)
        x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
        with httpx.Client(base_url=address, timeout=60) as client:
            answer = client.post("/predict", json={"inputs": x.tolist()})
            np.testing.assert_allclose(answer.json()["outputs"]["y"], affine_result(x), rtol=1e-5, atol=1e-5)
            assert client.get("/v2/health/ready").json() == {"ready": True}
            assert client.get("/v2/models/affine").json()["versions"] == ["1"]
            wrong = client.post("/predict", json={"inputs": [[1]]})
            assert wrong.status_code == 400 and "but the model takes" in wrong.json()["error"]
            assert client.post("/v2/models/nothing/infer", json={}).status_code == 404
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()[-4000:]
    finally:
        process.kill()
        process.wait()
