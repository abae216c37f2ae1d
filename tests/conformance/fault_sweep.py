"""A program: a conformance case of every op kind with each of its device calls failing in turn.

Prints a JSON object: for each kind of fault the number of runs, of injected faults, and of runs that raised. An
assertion fails if an error does not say what happened, if memory is left over, or if the case does not pass without
faults afterwards.
"""

from __future__ import annotations

import gc
import json
from collections import Counter

import unihal
from unihal import _core
from unihal.conformance import execute, suite
from unihal.conformance.case import Case
from unihal.conformance.session import Session, open_backend

# What is swept: the kind of call, whether it goes on failing, and whether the error comes out later.
SWEEPS = [
    ("launch", False, False),
    ("launch", False, True),
    ("copy", False, False),
    ("copy", False, True),
    ("alloc", False, False),
    ("alloc", True, False),
    ("device-lost", True, False),
]


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
            text = str(outcome.error)
            assert "Injected fault" in text and f"'{outcome.rule}'" in text, f"{where}: {text}"
        assert self.memory() <= self.baseline, f"{where}: {self.memory()} allocations are left of {self.baseline}"
        self.run()


def first_cases() -> list[Case]:
    """One case of every op kind."""
    cases: dict[str, Case] = {}
    for entry in suite.entries(suite.Selection()):
        if isinstance(entry, Case) and not entry.stream_error:
            cases.setdefault(entry.op, entry)
    assert set(cases) == set(_core.op_kinds())
    return list(cases.values())


def main() -> None:
    session = Session(open_backend("stub"), seed=0)
    cases = [Swept(session, case) for case in first_cases()]
    gc.freeze()  # the modules' own objects need not be looked at after each fault
    report: dict[str, Counter[str]] = {}
    for what, lasting, asynchronous in SWEEPS:
        counts = report.setdefault(
            what + (" lasting" if lasting else "") + (" asynchronous" if asynchronous else ""), Counter()
        )
        for swept in cases:
            sweep = unihal.fault_sweep(
                session.device, swept.run, what, lasting=lasting, asynchronous=asynchronous, check=swept.check
            )
            counts.update(runs=len(sweep.outcomes), injected=sweep.injected, raised=len(sweep.raised))
    print(json.dumps(report))


if __name__ == "__main__":
    main()
