"""Runs the test suites: python tests/suites.py GROUP [--jobs N]; the groups are below, `make` calls it.

A suite is a target of the Makefile. Those that keep all cores busy by themselves run alone, in the order of the table;
the others run side by side, the longest first. What a suite prints goes to build/logs/SUITE.log and is shown when it
ends, so that two do not mix. At the end come the seconds of each suite and the ten slowest tests; one failed suite
fails the run, after all have run. The seconds are those of a clock and, since suites share the cores with one another
and with whatever else runs, those that processors worked for the suite and all its child processes.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

LOGS = Path("build/logs")


@dataclass(frozen=True)
class Suite:
    """A target of the Makefile."""

    target: str
    group: str
    alone: bool = False  # it keeps all cores busy by itself


# test: every behaviour once, after each change. rest: what `make test-all` runs besides, before a change lands. long:
# soaks, other versions and whole matrices, before a release and after changes of what they are about.
SUITES = [
    Suite("check", "test"),
    Suite("test-native", "test", alone=True),
    Suite("test-tensorflow", "test"),
    Suite("test-paddle", "test"),
    Suite("test-torch", "test"),
    Suite("test-onnxruntime", "test"),
    Suite("test-gpux", "test"),
    Suite("test-workshop", "test"),
    Suite("test-python", "test"),
    Suite("test-opencl-sample", "test"),
    Suite("test-conformance-sample", "test"),
    Suite("sanitize-address", "rest", alone=True),
    Suite("sanitize-thread", "rest"),
    Suite("fuzz", "rest", alone=True),
    Suite("test-opencl", "rest"),
    Suite("test-tensorflow-whole", "rest"),
    Suite("test-paddle-whole", "rest"),
    Suite("test-paddle-versions-sample", "rest"),
    Suite("test-tensorflow-versions-sample", "rest"),
    Suite("test-tensorflow-projects-sample", "rest"),
    Suite("test-torch-whole", "rest"),
    Suite("test-onnxruntime-whole", "rest"),
    Suite("test-gpux-whole", "rest"),
    Suite("test-workshop-whole", "rest"),
    Suite("test-conformance", "rest"),
    Suite("test-strict", "rest"),
    Suite("test-gpu-sample", "rest"),
    Suite("test-amd-sample", "rest"),
    Suite("test-mutations", "rest"),
    Suite("test-python-whole", "rest"),
    Suite("fuzz-long", "long", alone=True),
    Suite("sanitize-thread-whole", "long"),
    Suite("check-instruction-sets", "long"),
    Suite("check-whole", "long"),
    Suite("check-includes", "long"),
    Suite("test-matrices", "long"),
    Suite("test-gpu", "long"),
    Suite("test-amd", "long"),
    Suite("test-conformance-opencl", "long"),
    Suite("test-races", "long"),
    Suite("test-paddle-versions", "long"),
    Suite("test-tensorflow-versions", "long"),
    Suite("test-torch-versions", "long"),
    Suite("test-paddle-projects", "long"),
    Suite("test-tensorflow-projects", "long"),
    Suite("soak", "long"),
]
GROUPS = ("test", "rest", "long")

# "12.34s call     tests/x.py::test_y" of pytest --durations, and "3/9 Test #3: suite.Name ....   Passed    0.12 sec" of
# ctest.
SLOW_TEST = re.compile(
    r"^(?:(?P<pytest>[\d.]+)s (?:call|setup) +(?P<node>\S+)|.*Test +#\d+: (?P<name>\S+) \.*.* (?P<ctest>[\d.]+) sec)",
    re.MULTILINE,
)
SLOWEST = 10


@dataclass
class Outcome:
    """What a run of a suite came to."""

    suite: Suite
    seconds: float
    processor_seconds: float  # user's and system's, child processes included
    failed: bool
    tests: list[tuple[float, str]]


printing = threading.Lock()


def slow_tests(text: str) -> list[tuple[float, str]]:
    """Seconds and names of the tests whose time a suite printed."""
    return [
        (float(match["pytest"] or match["ctest"]), match["node"] or match["name"]) for match in SLOW_TEST.finditer(text)
    ]


def run(suite: Suite) -> Outcome:
    """Runs a suite and shows what it printed."""
    log = LOGS / f"{suite.target}.log"
    start = time.monotonic()
    with log.open("wb") as file:
        process = subprocess.Popen(["make", suite.target], stdout=file, stderr=subprocess.STDOUT)
        # Not wait(): only this tells what one child process of several took.
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = code = os.waitstatus_to_exitcode(status)
    seconds, worked = time.monotonic() - start, usage.ru_utime + usage.ru_stime
    text = log.read_text(errors="replace")
    with printing:
        print(
            f"== {suite.target}: {'FAILED' if code else 'passed'} in {seconds:.0f} s, {worked:.0f} s of processors",
            text,
            sep="\n",
            flush=True,
        )
    return Outcome(suite, seconds, worked, code != 0, slow_tests(text))


def report(outcomes: list[Outcome], seconds: float) -> None:
    """Prints where the time went."""
    worked = sum(outcome.processor_seconds for outcome in outcomes)
    print(f"\n{'suite':<28}{'seconds':>8}{'of processors':>15}")
    for outcome in sorted(outcomes, key=lambda outcome: -outcome.seconds):
        failed = "  FAILED" if outcome.failed else ""
        print(f"{outcome.suite.target:<28}{outcome.seconds:>8.0f}{outcome.processor_seconds:>15.0f}{failed}")
    print(f"{'all, some side by side':<28}{seconds:>8.0f}{worked:>15.0f}\n\nthe slowest tests")
    tests = [(time_, f"{outcome.suite.target}: {name}") for outcome in outcomes for time_, name in outcome.tests]
    for time_, name in sorted(tests, reverse=True)[:SLOWEST]:
        print(f"{time_:>8.1f}  {name}")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("group", choices=GROUPS)
    parser.add_argument("--jobs", type=int, default=1, help="suites side by side, of those that do not run alone")
    arguments = parser.parse_args()
    suites = [suite for suite in SUITES if suite.group == arguments.group]
    LOGS.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    outcomes = [run(suite) for suite in suites if suite.alone]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        outcomes += pool.map(run, [suite for suite in suites if not suite.alone])
    report(outcomes, time.monotonic() - start)
    failed = [outcome.suite.target for outcome in outcomes if outcome.failed]
    if failed:
        sys.exit(f"FAILED: {', '.join(failed)}; to run one again: make {failed[0]}")


if __name__ == "__main__":
    main()
