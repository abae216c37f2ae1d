"""keras_hub and Keras 2 (tf_keras) as they come from PyPI, with random weights, fallbacks forbidden:
make test-tensorflow-projects.

Every backbone and task that keras_hub exports has a small configuration, or a reason to have none
(keras_hub_models.py); one that it adds fails here until then."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = os.environ.get("TENSORFLOW_PROJECTS", "")
PARTS = {"hub": 8, "legacy": 4}

#: A quick run of each way: an encoder, a convolutional network, a decoder that generates, and Keras 2.
SAMPLE = {
    "hub": ["BertTextClassifier", "ResNetBackbone", "LlamaCausalLM"],
    "legacy": ["layer LSTM", "layer BatchNormalization", "optimizer Adam", "fit GRU", "fit ConvLSTM2D"],
}

pytestmark = pytest.mark.skipif(not FOLDER, reason="the projects are installed by make test-tensorflow-projects")


def run(project: str, arguments: list[str], folder: Path) -> list[dict[str, str]]:
    program = str(Path(__file__).with_name("run_keras.py"))
    path = os.pathsep.join(filter(None, [FOLDER, os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path, "UNIHAL_BACKEND": "stub", "UNIHAL_STRICT": "1"}
    command = [sys.executable, "-W", "ignore", program, project, *arguments]
    child = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
    assert child.returncode == 0, child.stderr[-3000:]
    return [json.loads(line) for line in child.stdout.splitlines() if line.startswith("{")]


def assert_agree(rows: list[dict[str, str]]) -> None:
    assert rows
    assert {row["model"]: row["found"] for row in rows if row["found"]} == {}


@pytest.mark.parametrize("project", SAMPLE)
def test_a_sample(project: str, tmp_path: Path) -> None:
    rows = run(project, SAMPLE[project], tmp_path)
    assert {row["model"] for row in rows} == set(SAMPLE[project])
    assert_agree(rows)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("project", "part"), [(project, part) for project, count in PARTS.items() for part in range(count)]
)
def test_models_of_a_project(project: str, part: int, tmp_path: Path) -> None:
    assert_agree(run(project, ["--part", str(part), "--of", str(PARTS[project])], tmp_path))
