"""Every op that has a kernel answers hostile calls as TensorFlow's CPU does: see hostile.py.

The cases run in a child process, which is started anew behind a case that ends it: that case has failed, and the rest
still counts.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import hostile

PROGRAM = Path(__file__).parent / "hostile.py"
START = 300  # seconds, for the imports on a busy machine
CASE = 60


def run_from(first: int) -> tuple[list[dict[str, Any]], bool]:
    """The cases from number `first` on, and whether that were all; the last one of an incomplete run ended it."""
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", str(PROGRAM), str(first)],
        env={**os.environ, "UNIHAL_STRICT": "0"},  # what runs on the host is counted here
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert child.stdout is not None
    results: list[dict[str, Any]] = []
    complete = False
    while select.select([child.stdout], [], [], CASE if results else START)[0]:
        line = child.stdout.readline()
        if not line:
            break
        entry = json.loads(line)
        complete = "end" in entry
        if entry.get("on") == "CPU":
            results.append(entry)
        elif not complete:
            results[-1].update(entry)
    child.kill()
    child.wait()
    return results, complete


def test_hostile_calls_end_as_on_the_cpu() -> None:
    results: list[dict[str, Any]] = []
    complete = False
    while not complete:
        before = len(results)
        part, complete = run_from(before)
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

    # What a kernel leaves to the CPU is listed, and what is listed still is.
    fell_back = {case["op"] for case in results if case.get("fell_back")}
    assert fell_back == set(hostile.ON_HOST)
    assert len(results) > 5000
