"""Timing and tables shared by the benchmarks."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np


def paddle_operand(array: Any, gradient: bool = False) -> Any:
    """A tensor on Paddle's present device, with a gradient if wanted."""
    import paddle

    tensor = paddle.to_tensor(np.asarray(array))
    tensor.stop_gradient = not gradient
    return tensor


def tensorflow_calls(
    functions: dict[str, Callable[[], Any]], device: str, compiled: bool
) -> list[tuple[str, Callable[[], Any]]]:
    """Calls on a TensorFlow device that wait for its work, each as one ``tf.function`` if ``compiled``."""
    import tensorflow as tf

    def on(function: Callable[[], Any]) -> Callable[[], Any]:
        work = tf.function(function, autograph=False) if compiled else function

        def call() -> None:
            with tf.device(device):
                work()
            tf.test.experimental.sync_devices()

        return call

    return [(name, on(function)) for name, function in functions.items()]


def batch_times(call: Callable[[], Any], batches: int, minimum_time: float) -> list[float]:
    """Seconds of one call in each of several batches, that together take at least ``minimum_time``, after a warm-up."""
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
    return times


def alternate(calls: dict[str, Callable[[], Any]], rounds: int = 8, minimum_time: float = 0.2) -> dict[str, float]:
    """Seconds of several calls, measured in turn: the lower quartile of each call's batches.

    What else runs on the machine can only add to a time, and a pool of threads spins for a while after its last call:
    the lower quartile leaves both out, and still is no single lucky batch.
    """
    results: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            results[name] += batch_times(call, 4, minimum_time)
    return {name: statistics.quantiles(times, n=4)[0] for name, times in results.items()}


def scalar(value: float) -> Any:
    """One float32."""
    return np.array([value], np.float32)


def report(rows: list[dict[str, Any]]) -> None:
    """Prints rows as JSON lines; ``run.py`` reads them and draws the tables."""
    for row in rows:
        print(json.dumps(row), flush=True)


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
