"""A case of every op kind survives each of its device calls failing: see fault_sweep.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from processes import run_command
from unihal import _core

PROGRAM = Path(__file__).parent / "fault_sweep.py"


@pytest.mark.parametrize("mode", ["fast", "strict"])
def test_every_fault_is_an_error_and_the_next_run_is_right(mode: str) -> None:
    # With the memory check every buffer is an allocation of the backend's.
    process = run_command([sys.executable, str(PROGRAM)], timeout=300, UNIHAL_STUB=mode, UNIHAL_CHECK_MEMORY="1")
    assert process.returncode == 0, process.stdout + process.stderr
    report = json.loads(process.stdout)
    kinds = len(_core.op_kinds())
    for name in ("launch", "launch asynchronous", "copy", "copy asynchronous", "alloc lasting", "device-lost lasting"):
        counts = report[name]
        assert kinds <= counts["runs"] == counts["raised"] <= counts["injected"], (name, report)
    # One refused allocation is no error: the core waits, gives back what is free, and asks again.
    counts = report["alloc"]
    assert counts["runs"] == counts["injected"] >= 2 * kinds
    assert counts["raised"] == 0
