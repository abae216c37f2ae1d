"""Runs the test suites: python tests/suites.py GROUP [--jobs N]; the groups are below, `make` calls it.

A suite is a target of the Makefile. Those that keep all cores busy by themselves run alone, in the order of the table;
the others run side by side, the longest first. What a suite prints goes to build/logs/SUITE.log and is shown when it
ends, so that two do not mix. At the end come the seconds of each suite and the ten slowest tests; one failed suite
fails the run, after all have run. The seconds are those of a clock and, since suites share the cores with one another
and with whatever else runs, those that processors worked for the suite and all its child processes.

A suite whose processes have hardly worked for ten minutes hangs: what each of them waits in is written to its log,
pytest prints its stacks, all of them are ended, and the suite has failed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

LOGS = Path("build/logs")
IDLE_SECONDS = 600.0  # pytest ends a test that waits after 300
IDLE_SHARE = 0.01  # of one processor: what waits may look again and again


@dataclass(frozen=True)
class Suite:
    """A target of the Makefile."""

    target: str
    group: str
    alone: bool = False  # it keeps all cores busy by itself


# test: every behaviour once, after each change. rest: what `make test-all` runs besides, before a change lands. long:
# soaks, other versions and whole matrices, before a release and after changes of what they are about.
SUITES = [
    Suite("test-tensorflow", "test"),
    Suite("test-paddle", "test"),
    Suite("test-native", "test"),  # compiles first
    Suite("test-conformance-sample", "test"),
    Suite("test-python", "test"),
    Suite("test-workshop", "test"),
    Suite("test-torch", "test"),
    Suite("test-onnxruntime", "test"),
    Suite("test-opencl-sample", "test"),
    Suite("test-gpux", "test"),
    Suite("check", "test"),
    Suite("sanitize-address", "rest", alone=True),
    Suite("fuzz", "rest", alone=True),
    Suite("test-conformance", "rest"),
    Suite("test-tensorflow-whole", "rest"),
    Suite("test-opencl", "rest"),
    Suite("sanitize-thread", "rest"),
    Suite("test-strict", "rest"),
    Suite("test-paddle-versions-sample", "rest"),  # downloads first
    Suite("test-torch-whole", "rest"),
    Suite("test-paddle-whole", "rest"),
    Suite("test-onnxruntime-whole", "rest"),
    Suite("test-workshop-whole", "rest"),
    Suite("test-mutations", "rest"),
    Suite("test-tensorflow-versions-sample", "rest"),
    Suite("test-gpu-sample", "rest"),
    Suite("test-gpux-whole", "rest"),
    Suite("test-amd-sample", "rest"),
    Suite("test-python-whole", "rest"),
    Suite("test-tensorflow-projects-sample", "rest"),
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


@dataclass(frozen=True)
class Process:
    """A process, as its folder of /proc describes it."""

    number: int
    parent: int
    ticks: int  # that it and its ended children worked, in user's code and the system's
    command: str
    ended: bool  # its parent has not looked yet

    @staticmethod
    def read(folder: Path) -> Process | None:
        """None for one that is gone meanwhile."""
        try:
            # The name, between parentheses, may have blanks.
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            return None
        ticks = sum(map(int, fields[11:15]))
        return Process(int(folder.name), int(fields[1]), ticks, command[:300], ended=fields[0] == "Z")

    def waits_in(self) -> str:
        """The system's function that each thread waits in."""
        threads = []
        for folder in sorted(Path(f"/proc/{self.number}/task").glob("*")):
            try:
                threads.append(f"{(folder / 'comm').read_text().strip()}:{(folder / 'wchan').read_text()}")
            except OSError:
                continue
        return ", ".join(threads)


def processes_of(ancestor: int) -> list[Process]:
    """A process and all that descend from it, parents first."""
    known = [process for folder in Path("/proc").glob("[0-9]*") if (process := Process.read(folder))]
    family = [process for process in known if process.number == ancestor]
    for process in family:  # which grows meanwhile
        family += [child for child in known if child.parent == process.number]
    return family


def end(family: list[Process], seconds: float = 5) -> None:
    """Ends processes, children before parents.

    pytest has Python print its threads' stacks for the first signal. Each one gets so many seconds for that before its
    parent hears of it: when the suite's first process ends, the log is read.
    """
    for member in reversed(family):
        folder, deadline = Path(f"/proc/{member.number}"), time.monotonic() + seconds
        with contextlib.suppress(ProcessLookupError):
            os.kill(member.number, signal.SIGABRT)
            while (now := Process.read(folder)) and not now.ended:
                if time.monotonic() > deadline:
                    os.kill(member.number, signal.SIGKILL)
                    break
                time.sleep(0.01)


def end_idle(process: subprocess.Popen[bytes], log: Path, ended: threading.Event, idle_seconds: float) -> None:
    """Waits until a suite has ended, or ends all its processes once they have hardly worked for so long."""
    before, since = 0, time.monotonic()
    while not ended.wait(min(idle_seconds / 10, 10)):
        family = processes_of(process.pid)
        worked = sum(member.ticks for member in family)
        if abs(worked - before) > IDLE_SHARE * idle_seconds * os.sysconf("SC_CLK_TCK"):
            before, since = worked, time.monotonic()
        elif time.monotonic() - since >= idle_seconds:
            with log.open("a") as file:
                print(f"\nThe suite has hardly worked for {idle_seconds:.0f} s; its processes are ended:", file=file)
                for member in family:
                    print(f"{member.number} of {member.parent}: {member.command}\n  {member.waits_in()}", file=file)
            end(family)
            ended.wait(5)


def run(suite: Suite, idle_seconds: float = IDLE_SECONDS) -> Outcome:
    """Runs a suite and shows what it printed."""
    log = LOGS / f"{suite.target}.log"
    start = time.monotonic()
    ended = threading.Event()
    log.unlink(missing_ok=True)
    with log.open("ab") as file:  # which the watch writes to as well
        process = subprocess.Popen(["make", suite.target], stdout=file, stderr=subprocess.STDOUT)
        watch = threading.Thread(target=end_idle, args=(process, log, ended, idle_seconds))
        watch.start()
        # Not wait(): only this tells what one child process of several took.
        _, status, usage = os.wait4(process.pid, 0)
        ended.set()
        watch.join()
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
