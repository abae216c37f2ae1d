"""Timing and tables shared by the benchmarks."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any


def seconds(call: Callable[[], Any], minimum_time: float = 0.3, batches: int = 7) -> float:
    """Median seconds of one call, over batches that together take at least ``minimum_time`` each after a warm-up."""
    call()
    start = time.perf_counter()
    call()
    once = max(time.perf_counter() - start, 1e-7)
    repeats = max(1, int(minimum_time / batches / once))
    times = []
    for _ in range(batches):
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        times.append((time.perf_counter() - start) / repeats)
    return statistics.median(times)


def alternate(calls: dict[str, Callable[[], Any]], rounds: int = 5, minimum_time: float = 0.2) -> dict[str, float]:
    """Seconds of several calls, measured in turn so that a noisy machine disturbs all alike; medians over rounds."""
    results: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            results[name].append(seconds(call, minimum_time, batches=3))
    return {name: statistics.median(times) for name, times in results.items()}


def report(rows: list[dict[str, Any]]) -> None:
    """Prints rows as JSON lines; ``run.py`` reads them and draws the tables."""
    for row in rows:
        print(json.dumps(row), flush=True)


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
