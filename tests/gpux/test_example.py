"""The worked example of docs/gpux.md, command by command."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import run_command
from service import gpux, serve, succeeded

EXAMPLE = Path(__file__).parents[2] / "docs/examples/gpux_digits"


@pytest.mark.whole
def test_digits(tmp_path: Path) -> None:
    folder, registry = tmp_path / "digits", str(tmp_path / "models")
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("*.onnx", "*.png", ".gpux"))
    # The suite hides scikit-learn from frameworks that would import it (tests/conftest.py).
    trained = run_command([sys.executable, str(folder / "train.py")], PYTHONPATH=None)
    assert trained.returncode == 0, trained.stderr
    assert float(trained.stdout.split()[-1]) > 0.9
    assert succeeded(gpux("build", folder, "--json", GPUX_REGISTRY=registry))["version"] == "1.0"
    seven = folder / "seven.png"
    said = succeeded(gpux("run", "digits", "--input", seven, "--json", GPUX_REGISTRY=registry))
    [probabilities] = said["outputs"]["probabilities"]
    assert int(np.argmax(probabilities)) == 7
    with serve("digits", "--registry", registry) as service:
        answer = service.post("/predict", content=seven.read_bytes(), headers={"Content-Type": "image/png"})
        np.testing.assert_allclose(answer.json()["outputs"]["probabilities"], [probabilities], rtol=1e-4)
        assert service.get("/info").json()["models"][0]["accepts"] == ["json", "image"]
