"""A case of every op kind survives each of its device calls failing: see fault_sweep.py."""

from __future__ import annotations

from pathlib import Path

import pytest
import sweeps
from unihal import _core


@pytest.mark.parametrize(
    ("mode", "every"),
    [
        ("fast", 12),
        pytest.param("strict", 6, marks=pytest.mark.whole),
        *(pytest.param(mode, 1, marks=pytest.mark.long) for mode in ("fast", "strict")),
    ],
)
def test_every_fault_is_an_error_and_the_next_run_is_right(mode: str, every: int) -> None:
    program = Path(__file__).parent / "fault_sweep.py"
    report = sweeps.run_program(program, UNIHAL_STUB=mode, FAULT_SWEEP_EVERY=str(every))
    kinds = len(range(0, len(_core.op_kinds()), every))
    sweeps.assert_every_fault_raised(report, launches=kinds, copies=kinds, allocations=2 * kinds)
    assert report["device-lost lasting"]["runs"] >= kinds
