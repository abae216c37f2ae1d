"""Cases of conformance that have nothing to write: no plan that a kernel is chosen by may need an element. Run as a
program with a number n, it runs every n-th and prints what failed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from processes import run_command
from unihal.conformance import execute, suite
from unihal.conformance.case import Case, Entry
from unihal.conformance.session import Session, open_backend


def _writes_nothing(entry: Entry) -> bool:
    return isinstance(entry, Case) and all(output is None or 0 in output.shape for output in entry.outputs)


@pytest.mark.whole
@pytest.mark.usefixtures("device")
def test_ops_without_results_end() -> None:
    """Every fifth case. In a process of its own: one that never ends can be stopped."""
    command = [sys.executable, __file__, "5"]
    process = run_command(command, timeout=300, PYTHONPATH=str(Path(__file__).parents[1]))
    assert process.returncode == 0, process.stdout + process.stderr


def main() -> None:
    """The program."""
    chosen = [entry for entry in suite.entries(suite.Selection()) if _writes_nothing(entry)][:: int(sys.argv[1])]
    session = Session(open_backend("opencl"), 0)
    failed = 0
    for entry in chosen:
        print(entry.name, flush=True)  # the last line names the one that did not end
        outcome = execute.run(session, entry)
        if outcome.status not in ("passed", "gap"):
            failed += 1
            print(f"FAILED: {outcome.message}")
    sys.exit(failed > 0 or not chosen)


if __name__ == "__main__":
    main()
