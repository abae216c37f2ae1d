"""Sweeping a computation with each kind of fault: what the programs fault_sweep.py and their tests share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import unihal

# What is swept: the kind of call, whether it goes on failing, and whether the error comes out later.
SWEEPS = (
    ("launch", False, False),
    ("launch", False, True),
    ("copy", False, False),
    ("copy", False, True),
    ("alloc", False, False),
    ("alloc", True, False),
    ("device-lost", True, False),
)

Sweep = tuple[str, bool, bool]
# By kind of fault: the numbers of runs, of injected faults, and of runs that raised.
Report = dict[str, Counter[str]]


def sweep(
    report: Report,
    device: unihal.Device,
    step: Callable[[], object],
    check: Callable[[unihal.FaultOutcome], None],
    prepare: Callable[[], object] = lambda: None,
    leave_out: tuple[str, ...] = (),
) -> None:
    """Runs a step with each of its device calls failing in turn, by each kind of fault, and adds to the report.

    `prepare` is called before each kind; `check` looks at each run.
    """
    for what, lasting, asynchronous in SWEEPS:
        if what in leave_out:
            continue
        prepare()
        swept = unihal.fault_sweep(device, step, what, lasting=lasting, asynchronous=asynchronous, check=check)
        name = what + (" lasting" if lasting else "") + (" asynchronous" if asynchronous else "")
        counts = report.setdefault(name, Counter())
        counts.update(runs=len(swept.outcomes), injected=swept.injected, raised=len(swept.raised))


def tells_of_the_fault(outcome: unihal.FaultOutcome) -> bool:
    """Whether the exception says that a fault was injected, and by which rule."""
    text = str(outcome.error)
    return "Injected fault" in text and f"'{outcome.rule}'" in text


def run_program(program: Path, **variables: str) -> Report:
    """Runs a program fault_sweep.py, which must succeed, and reads the report that it prints."""
    process = subprocess.run(
        [sys.executable, "-W", "ignore", str(program)],
        # With the memory check nothing is pooled: every tensor is an allocation of the backend's.
        env={**os.environ, "UNIHAL_CHECK_MEMORY": "1", **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return {name: Counter(counts) for name, counts in json.loads(process.stdout).items()}


def assert_every_fault_raised(report: Report, launches: int, copies: int, allocations: int) -> None:
    """Each fault came out as an exception, and there were at least so many calls to fail."""
    for name, counts in report.items():
        if name != "alloc":
            assert 0 < counts["runs"] == counts["raised"] <= counts["injected"], (name, report)
    assert report["launch"]["runs"] >= launches
    assert report["copy"]["runs"] >= copies
    assert report["alloc lasting"]["runs"] >= allocations
    # One refused allocation is no error: unihal waits, gives back what is free, and asks again.
    counts = report["alloc"]
    assert counts["runs"] == counts["injected"] >= allocations
    assert counts["raised"] == 0
