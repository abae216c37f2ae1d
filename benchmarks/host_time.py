"""The host's time in a Paddle training step of many small ops, where a GPU would wait for it.

    UNIHAL_BACKEND=stub OMP_NUM_THREADS=1 taskset -c 1 python benchmarks/host_time.py [--float32] [--width N]
    bash tests/doubles/hip_on_host/build.sh FOLDER
    COREX_ROOT=FOLDER UNIHAL_BACKEND=corex UNIHAL_GPU_LIBRARIES=none UNIHAL_CACHE=off taskset -c 0,1 \\
        python benchmarks/host_time.py --network squeezenet1_0

A Transformer of six layers each of encoder and decoder with 256 parameters, or a network of paddle.vision.models for
two small images, in bfloat16 mixed precision: milliseconds of forward, backward and optimizer step, with what the
adapter changes in Paddle's Python (nn.MultiHeadAttention, or the function of convolutions) and as Paddle has it, in
turn (medians), and what each launches on the device. The stub computes: the Transformer has next to no arithmetic. A
driver on host memory computes nothing, whatever the network.
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
STEPS, WARM_UP = 8, 2
TRANSFORMER = "transformer"


def changed(network: str) -> tuple[Any, str]:
    """Where the adapter has put a function of its own, whose original is what it wraps."""
    if network == TRANSFORMER:
        return nn.MultiHeadAttention, "forward"
    return paddle.nn.functional.conv, "_conv_nd"


class Training:
    def __init__(self, options: argparse.Namespace) -> None:
        self.narrow = not options.float32
        if options.network == TRANSFORMER:
            self.model, shape = nn.Transformer(options.width, 4, 6, 6, 4 * options.width), (2, 16, options.width)
            self.inputs = 2
        else:
            self.model, shape = getattr(paddle.vision.models, options.network)(num_classes=10), (2, 3, 64, 64)
            self.inputs = 1
        self.x = paddle.to_tensor(np.random.default_rng(0).standard_normal(shape, np.float32))
        self.optimizer = paddle.optimizer.Momentum(0.01, 0.9, parameters=self.model.parameters())

    def step(self) -> list[float]:
        """Seconds of each phase."""
        times = [time.perf_counter()]
        with paddle.amp.auto_cast(self.narrow, dtype="bfloat16"):
            loss = self.model(*[self.x] * self.inputs).square().mean()
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
    parser.add_argument("--network", default=TRANSFORMER, help="or one of paddle.vision.models")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--float32", action="store_true")
    options = parser.parse_args()
    paddle.set_device(options.device)
    place, name_there = changed(options.network)
    ours = getattr(place, name_there)
    functions: dict[str, Any] = {"paddle's": getattr(ours, "__wrapped__", ours), "the adapter's": ours}
    training = Training(options)
    times: dict[str, list[list[float]]] = {name: [] for name in functions}
    counts = {}
    for _ in range(options.rounds):
        for name, function in functions.items():
            setattr(place, name_there, function)
            times[name] += [training.step() for _ in range(STEPS)][WARM_UP:]
            counts[name] = launches(training)
    console, table = Console(), Table(options.network, *PHASES, "launches")
    for name in functions:
        medians = [f"{1e3 * statistics.median(column):.2f} ms" for column in zip(*times[name])]
        table.add_row(name, *medians, str(counts[name].total()))
    console.print(table)
    for name in functions:
        console.print(
            f"{name}:", ", ".join(f"{op} {count}" for op, count in counts[name].most_common()), highlight=False
        )


if __name__ == "__main__":
    main()
