"""The host's time in a Paddle training step of many small ops, where a GPU would wait for it.

    UNIHAL_BACKEND=stub OMP_NUM_THREADS=1 taskset -c 1 python benchmarks/host_time.py [--float32] [--width N]

A Transformer of six layers each of encoder and decoder, 256 parameters and next to no arithmetic, in bfloat16 mixed
precision: milliseconds of forward, backward and optimizer step, with nn.MultiHeadAttention as the adapter has it and as
Paddle has it, in turn (medians), and what each launches on the device.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from typing import Any

import numpy as np
import paddle
import unihal
from paddle import nn
from rich.console import Console
from rich.table import Table

PHASES = ("forward", "backward", "optimizer", "all")
STEPS, WARM_UP = 40, 5


class Training:
    def __init__(self, options: argparse.Namespace) -> None:
        self.narrow = not options.float32
        self.model = nn.Transformer(options.width, 4, 6, 6, 4 * options.width)
        self.x = paddle.to_tensor(np.random.default_rng(0).standard_normal((2, 16, options.width), np.float32))
        self.optimizer = paddle.optimizer.Momentum(0.01, 0.9, parameters=self.model.parameters())

    def step(self) -> list[float]:
        """Seconds of each phase."""
        times = [time.perf_counter()]
        with paddle.amp.auto_cast(self.narrow, dtype="bfloat16"):
            loss = self.model(self.x, self.x).square().mean()
        times.append(time.perf_counter())
        loss.backward()
        times.append(time.perf_counter())
        self.optimizer.step()
        self.optimizer.clear_grad(set_to_zero=False)
        times.append(time.perf_counter())
        paddle.device.synchronize()
        return [*(b - a for a, b in zip(times, times[1:])), time.perf_counter() - times[0]]


def launches(training: Training) -> Counter[str]:
    with unihal.profile() as recording:
        training.step()
    return Counter(event.op for event in recording.events)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="iluvatar")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--float32", action="store_true")
    options = parser.parse_args()
    paddle.set_device(options.device)
    ours = nn.MultiHeadAttention.forward
    layers: dict[str, Any] = {"paddle's": getattr(ours, "__wrapped__", ours), "the adapter's": ours}
    training = Training(options)
    times: dict[str, list[list[float]]] = {name: [] for name in layers}
    counts = {}
    for _ in range(options.rounds):
        for name, forward in layers.items():
            nn.MultiHeadAttention.forward = forward
            times[name] += [training.step() for _ in range(STEPS)][WARM_UP:]
            counts[name] = launches(training)
    console, table = Console(), Table("nn.MultiHeadAttention", *PHASES, "launches")
    for name in layers:
        medians = [f"{1e3 * statistics.median(column):.2f} ms" for column in zip(*times[name])]
        table.add_row(name, *medians, str(counts[name].total()))
    console.print(table)
    for name in layers:
        console.print(
            f"{name}:", ", ".join(f"{op} {count}" for op, count in counts[name].most_common()), highlight=False
        )


if __name__ == "__main__":
    main()
