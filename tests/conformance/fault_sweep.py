"""A program: a conformance case of every op kind with each of its device calls failing in turn.

FAULT_SWEEP_EVERY=3 takes every third kind.
Prints the report of sweeps.py as JSON. An assertion fails if an error does not say what happened, if memory is left
over, or if the case does not pass without faults afterwards.
"""

from __future__ import annotations

import gc
import json
import math
import os
import sys
from pathlib import Path

import unihal
from unihal import _core
from unihal.conformance import execute, suite
from unihal.conformance.case import Case
from unihal.conformance.session import Session, open_backend

sys.path.insert(0, str(Path(__file__).parents[1]))
import sweeps


class Swept:
    """One case, run again and again."""

    def __init__(self, session: Session, case: Case) -> None:
        self.session = session
        self.case = case
        self.run()
        self.baseline = self.memory()

    def run(self) -> None:
        outcome = execute.run(self.session, self.case)
        if outcome.status != "passed":
            raise RuntimeError(f"{outcome.status}: {outcome.message}")

    def memory(self) -> int:
        gc.collect()
        return self.session.device.memory_stats().live_allocations

    def check(self, outcome: unihal.FaultOutcome) -> None:
        where = f"{self.case.name}, {outcome.rule}"
        if outcome.error is not None:
            assert sweeps.tells_of_the_fault(outcome), f"{where}: {outcome.error}"
        assert self.memory() <= self.baseline, f"{where}: {self.memory()} allocations are left of {self.baseline}"
        self.run()


#: Elements that operands of a swept case have at most: it is run a hundred times, with the same calls of the device.
SMALL = 10_000


def is_small(case: Case) -> bool:
    operands = (*case.inputs, *case.outputs)
    return all(operand is None or math.prod(operand.shape) <= SMALL for operand in operands)


def first_cases() -> list[Case]:
    """One case of every op kind."""
    cases: dict[str, Case] = {}
    for entry in suite.entries(suite.Selection()):
        if isinstance(entry, Case) and not entry.stream_error and is_small(entry):
            cases.setdefault(entry.op, entry)
    assert set(cases) == set(_core.op_kinds())
    return list(cases.values())


def main() -> None:
    session = Session(open_backend("stub"), seed=0)
    every = int(os.environ.get("FAULT_SWEEP_EVERY", "1"))
    cases = [Swept(session, case) for case in first_cases()[::every]]
    gc.freeze()  # the modules' own objects need not be looked at after each fault
    report: sweeps.Report = {}
    for swept in cases:
        sweeps.sweep(report, session.device, swept.run, swept.check)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
