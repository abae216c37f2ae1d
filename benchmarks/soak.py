"""Many training steps, and whether memory stays where it is.

    python benchmarks/soak.py [--framework paddle|keras] [--mode fast|strict|cpu] [--steps N] [--samples N]

Trains the demonstration's convolutional network (whole epochs of 22 steps) on the stub, or on the framework's own CPU
for comparison. Prints the device memory that is allocated (held by the framework) and reserved (held by unihal's
allocator), and the process's resident memory over the steps; then a verdict. The exit code is 1 unless memory is flat:

    The first quarter of the samples is the warm-up. The highest figure of the last half of the rest must not lie above
    the highest of its first half: not at all for device memory, and for resident memory by at most 256 bytes per step
    between the middles of the two halves, or 2 MiB, whichever is more (the C library's heap is not still, and Paddle
    3.3 keeps 231 bytes of host memory per step on its own CPU too: --mode cpu).
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import measure
from rich.console import Console
from rich.table import Table
from unihal.demo.data import BATCH, load_digits

DEVICES = {"paddle": "iluvatar", "keras": "rdna"}
RESIDENT_BYTES_PER_STEP = 256
RESIDENT_BYTES = 2 << 20


@dataclass(frozen=True)
class Sample:
    """Memory after some steps, in bytes."""

    steps: int
    allocated: int
    reserved: int
    resident: int
    seconds: float


def paddle_epochs(place: str) -> Callable[[int], None]:
    import paddle
    from unihal.demo import paddle_run

    paddle.device.set_device(place)
    training = paddle_run.Training(load_digits())

    def run(epochs: int) -> None:
        for number in range(epochs):
            training.epoch(number)

    return run


def keras_epochs(place: str) -> Callable[[int], None]:
    import tensorflow as tf
    from unihal.demo import keras_run

    digits = load_digits()
    scope: Any = tf.device(f"/device:{place.upper()}:0")
    with scope:
        training = keras_run.Training(digits)

    def run(epochs: int) -> None:
        with tf.device(f"/device:{place.upper()}:0"):
            training.fit(len(digits.train_labels), epochs, [])

    return run


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def sample(steps: int, device_name: str | None, start: float) -> Sample:
    gc.collect()
    allocated = reserved = 0
    if device_name is not None:
        import unihal

        device = unihal.device(device_name)
        device.synchronize()
        stats = device.memory_stats()
        allocated, reserved = stats.allocated_bytes, stats.reserved_bytes
    return Sample(steps, allocated, reserved, resident_bytes(), time.perf_counter() - start)


def complaints(samples: list[Sample]) -> list[str]:
    """Why memory is not flat by the rule above; empty if it is."""
    measured = samples[len(samples) // 4 :]
    earlier, later = measured[: len(measured) // 2], measured[len(measured) // 2 :]
    steps = (later[0].steps + later[-1].steps - earlier[0].steps - earlier[-1].steps) // 2
    allowed = {"allocated": 0, "reserved": 0, "resident": max(RESIDENT_BYTES, RESIDENT_BYTES_PER_STEP * steps)}
    found = []
    for name, tolerance in allowed.items():
        growth = max(getattr(s, name) for s in later) - max(getattr(s, name) for s in earlier)
        if growth > tolerance:
            found.append(f"{name} grew by {growth:,} bytes in about {steps:,} steps; at most {tolerance:,} are allowed")
    return found


def draw(samples: list[Sample], title: str, console: Console) -> None:
    table = Table("steps", "allocated", "reserved", "resident", "seconds", title=title)
    for column in table.columns:
        column.justify = "right"
    for entry in samples:
        megabytes = [f"{size / 2**20:,.2f} MiB" for size in (entry.allocated, entry.reserved, entry.resident)]
        table.add_row(f"{entry.steps:,}", *megabytes, f"{entry.seconds:.1f}")
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", choices=DEVICES, default="paddle")
    parser.add_argument("--mode", choices=["fast", "strict", "cpu"], default="fast")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--samples", type=int, default=20)
    arguments = parser.parse_args()
    steps_per_epoch = len(load_digits().train_labels) // BATCH
    epochs = -(-arguments.steps // steps_per_epoch)
    if not 8 <= arguments.samples <= epochs:
        parser.error(f"--samples is {arguments.samples}; expected 8 to {epochs}, the number of epochs")

    # Before the framework is imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    on_cpu = arguments.mode == "cpu"
    if not on_cpu:
        os.environ.update(UNIHAL_BACKEND="stub", UNIHAL_STUB=arguments.mode, UNIHAL_STRICT="1")
    device = None if on_cpu else DEVICES[arguments.framework]
    make = {"paddle": paddle_epochs, "keras": keras_epochs}[arguments.framework]
    run = make(device or "cpu")

    samples: list[Sample] = []
    done = 0
    start = time.perf_counter()
    for number in range(1, arguments.samples + 1):
        target = epochs * number // arguments.samples
        run(target - done)
        done = target
        samples.append(sample(done * steps_per_epoch, device, start))
        measure.progress(f"{samples[-1].steps:,} steps, {samples[-1].seconds:.0f} s")
    console = Console()
    place = "the framework's CPU" if on_cpu else f"the {arguments.mode} stub"
    draw(samples, f"{arguments.framework} on {place}", console)
    found = complaints(samples)
    console.print("flat" if not found else "not flat: " + "; ".join(found), highlight=False)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
