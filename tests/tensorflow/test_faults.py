"""A Keras training step survives each of its device calls failing: see fault_sweep.py."""

from __future__ import annotations

from pathlib import Path

import pytest
import sweeps


@pytest.mark.parametrize("mode", ["fast", pytest.param("strict", marks=pytest.mark.whole)])
def test_every_fault_is_an_exception_and_the_next_step_is_right(mode: str) -> None:
    report = sweeps.run_program(Path(__file__).parent / "fault_sweep.py", UNIHAL_STUB=mode)
    # The step has some 30 launches, uploads images and labels, downloads the loss, and allocates some 40 tensors.
    sweeps.assert_every_fault_raised(report, launches=25, copies=3, allocations=20)
