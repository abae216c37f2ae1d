"""Projects as they come from PyPI, unchanged, with random weights, fallbacks forbidden: make test-paddle-projects.

A model that the CPU does not run, since the project is older than this Paddle or wants other inputs, is told apart; how
many run is asserted, so that none is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

#: Projects, and how many of their models ran when this was written, on the CPU and the stub alike.
PROJECTS = {
    "paddleclas": 62, "paddleseg": 32, "paddlenlp": 38, "ppsci": 16, "ppdet": 20, "ppdiffusers": 1, "pgl": 23,
    "paddlex": 22, "paddleaudio": 4,
}  # fmt: skip
FOLDER = os.environ.get("PADDLE_PROJECTS", "")
#: Projects that want newer releases of what others import.
NEWER = ("paddlex",)


@pytest.mark.skipif(not FOLDER, reason="the projects are installed by make test-paddle-projects")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("project", "running"), PROJECTS.items())
def test_models_of_a_project(project: str, running: int, tmp_path: Path) -> None:
    program = str(Path(__file__).with_name("run_models.py"))
    path = f"{FOLDER}-newer{os.pathsep}{FOLDER}" if project in NEWER else FOLDER
    environment = os.environ | {"PYTHONPATH": path, "UNIHAL_BACKEND": "stub", "UNIHAL_STRICT": "1"}
    command = [sys.executable, "-W", "ignore", program, project]
    child = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert child.returncode == 0, child.stderr[-3000:]
    found = [json.loads(line) for line in child.stdout.splitlines() if line.startswith("{")]
    ours = [f"{row['model']}: {row['found']}" for row in found if row["found"] and not row["found"].startswith("cpu:")]
    assert not ours, "\n".join(ours)
    assert sum(not row["found"] for row in found) >= running
