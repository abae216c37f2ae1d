"""The worked example of docs/gpux.md, command by command."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import run_command
from service import gpux, serve, succeeded
from test_unihal import has_provider

EXAMPLE = Path(__file__).parents[2] / "docs/examples/gpux_digits"
SHIPPED = Path(__file__).parents[2] / "docs/examples/gpux_magika"


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


@pytest.mark.whole
def test_a_model_that_a_package_ships(tmp_path: Path) -> None:
    folder, registry = tmp_path / "magika", str(tmp_path / "models")
    shutil.copytree(SHIPPED, folder, ignore=shutil.ignore_patterns("*.onnx", "*.npy", ".gpux"))
    prepare = [sys.executable, str(folder / "prepare.py")]
    wanted = {EXAMPLE / "train.py": "python", Path(__file__).parents[2] / "docs/gpux.md": "markdown"}
    inputs = []
    for file, kind in wanted.items():
        assert run_command([*prepare, str(file)]).returncode == 0
        if not inputs:
            built = succeeded(gpux("build", folder, "--json", GPUX_REGISTRY=registry))
            assert built["model"]["joins_batches"]
        inputs.append(np.load(folder / "input.npy"))
        for provider in ("cpu", "unihal") if has_provider() else ("cpu",):
            command = ["run", "magika", "--input", folder / "input.npy", "--provider", provider, "--json"]
            said = gpux(*command, GPUX_REGISTRY=registry, UNIHAL_BACKEND="stub")
            assert succeeded(said)["provider"] == provider
            answer = subprocess.run(prepare, input=said.stdout, capture_output=True, text=True, timeout=60, check=True)
            assert answer.stdout.startswith(f"{kind} (")
    with serve("magika", "--registry", registry) as service:
        assert service.get("/info").json()["models"][0]["batching"]
        answers = service.predict(np.concatenate(inputs).tolist()).json()["outputs"]["target_label"]
        for row, alone in zip(answers, inputs, strict=True):
            [expected] = service.predict(alone.tolist()).json()["outputs"]["target_label"]
            np.testing.assert_allclose(row, expected, atol=1e-4)
