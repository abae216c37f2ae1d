"""Figures of repeated inferences."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Measurement:
    """Latencies in milliseconds, throughput in samples (of the batch) a second."""

    runs: int
    warmup: int
    batch: int
    mean_ms: float
    min_ms: float
    p50_ms: float
    p90_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float
    throughput: float

    def as_dict(self) -> dict[str, float]:
        """For JSON."""
        return asdict(self)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which a share (0 to 1) of sorted values lies, interpolated; 0.0 of none."""
    if not ordered:
        return 0.0
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def measure(
    call: Callable[[], object], runs: int, warmup: int, batch: int, progress: Callable[[int], None] | None = None
) -> Measurement:
    """Calls `warmup` times without and `runs` times with a clock; `progress` is told how many calls are done."""
    seconds = []
    for index in range(warmup + runs):
        start = time.perf_counter()
        call()
        if index >= warmup:
            seconds.append(time.perf_counter() - start)
        if progress is not None:
            progress(index + 1)
    milliseconds = sorted(value * 1e3 for value in seconds)
    return Measurement(
        runs=runs,
        warmup=warmup,
        batch=batch,
        mean_ms=sum(milliseconds) / runs,
        min_ms=milliseconds[0],
        p50_ms=percentile(milliseconds, 0.5),
        p90_ms=percentile(milliseconds, 0.9),
        p95_ms=percentile(milliseconds, 0.95),
        p99_ms=percentile(milliseconds, 0.99),
        max_ms=milliseconds[-1],
        throughput=batch * runs / sum(seconds) if sum(seconds) else 0.0,
    )
