"""Every op that has a kernel answers hostile calls as TensorFlow's CPU does: see hostile.py.

The cases run in a child process, which is started anew behind a case that ends it: that case has failed, and the rest
still counts.
"""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import hostile
import pytest

PROGRAM = Path(__file__).parent / "hostile.py"
#: Of the hostile calls of each op, every so many-th in `make test`; all plain calls.
SAMPLE = 640
START = 300  # seconds, for the imports on a busy machine
CASE = 60


def run_from(first: int, every: int) -> tuple[list[dict[str, Any]], bool]:
    """The cases from number `first` on, and whether that were all; the last one of an incomplete run ended it."""
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", str(PROGRAM), str(first), str(every)],
        # What runs on the CPU is counted. With the memory check each tensor is an allocation of its own, and one that
        # fails does so at once: TensorFlow's pool would wait for ten seconds.
        env={**os.environ, "UNIHAL_STRICT": "0", "UNIHAL_CHECK_MEMORY": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        assert child.stdout is not None
        for line in child.stdout:
            lines.put(line)
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    results: list[dict[str, Any]] = []
    complete = False
    try:
        while line := lines.get(timeout=CASE if results else START):
            entry = json.loads(line)
            complete = "end" in entry
            if entry.get("on") == "CPU":
                results.append(entry)
            elif not complete:
                results[-1].update(entry)
    except queue.Empty:  # it hangs
        complete = False
    child.kill()
    child.wait()
    return results, complete


@pytest.mark.parametrize(
    "every", [SAMPLE, pytest.param(40, marks=pytest.mark.whole), pytest.param(1, marks=pytest.mark.long)]
)
def test_hostile_calls_end_as_on_the_cpu(every: int) -> None:
    results: list[dict[str, Any]] = []
    complete = False
    while not complete:
        first = results[-1]["number"] + 1 if results else 0
        part, complete = run_from(first, every)
        results += part
        assert complete or part, "the program does not start"

    failures = []
    for case in results:
        name = f"{case['op']}: {case['case']}"
        if "error" not in case and case["on"] == "device":
            failures.append(f"{name}\n    ends the process or hangs")
        elif case.get("error"):
            failures.append(f"{name}\n    {case['error']}")
    assert not failures, f"{len(failures)} of {len(results)} cases:\n" + "\n".join(failures[:50])

    # What kernels leave to the CPU is listed.
    fallen = [f"{case['op']}: {case['case']}" for case in results if case.get("fell_back")]
    unlisted = [name for name in fallen if not any(re.fullmatch(pattern, name) for pattern in hostile.ON_CPU)]
    assert not unlisted, unlisted
    assert len(results) > 10000 / every
