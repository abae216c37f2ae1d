"""A Keras training step survives each of its device calls failing: see fault_sweep.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "fault_sweep.py"


@pytest.mark.parametrize("mode", ["fast", "strict"])
def test_every_fault_is_an_exception_and_the_next_step_is_right(mode: str) -> None:
    result = subprocess.run(
        [sys.executable, "-W", "ignore", str(PROGRAM)],
        # With the memory check neither TensorFlow nor unihal pools: every tensor is an allocation of the backend's.
        env={**os.environ, "UNIHAL_STUB": mode, "UNIHAL_CHECK_MEMORY": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads(result.stdout)
    for name in ("launch", "launch asynchronous", "copy", "copy asynchronous", "alloc lasting"):
        runs, injected, raised = report[name]
        assert 0 < runs == raised <= injected, (name, report)
    # The step has some 70 launches, uploads images and labels, downloads the loss, and allocates some 40 tensors.
    assert report["launch"][0] >= 50
    assert report["copy"][0] >= 3
    assert report["alloc lasting"][0] >= 20
    # One refused allocation is no error: unihal waits, gives back what is free, and asks again.
    runs, injected, raised = report["alloc"]
    assert runs == injected >= 20
    assert raised == 0
