"""Seconds of a training step of networks that Paddle and PyTorch both have: Paddle on our device, PyTorch on `cuda`.

    python benchmarks/networks_on_gpu.py [--only SUBSTRING...] [--bfloat16] [--batch 32] [--json FILE]

One of each family of paddle.vision.models beside torchvision's of the same name (images of 224, Inception's of 299),
recurrent layers (two, in both directions, 512 wide, 64 sequences of 128) and nn.Transformer (six layers each of encoder
and decoder, 512 wide, 32 sequences of 128), eager, Momentum SGD, in each framework's default math mode or with
--bfloat16 its automatic mixed precision. Both measure a library's algorithms for each convolution in the first step
(torch.backends.cudnn.benchmark; UNIHAL_GPU_MEASURE=0 takes what the heuristic chooses). BERT and GPT are in
training.py. Each framework trains each network in a process of its own, as programs do: the heap of one that has
trained ten others costs Paddle's host a tenth of its time. Both take turns on the same cores and an otherwise idle GPU,
a round of five steps at a time, waited for at its end.

A row has the medians over all rounds, its ratio that of the rounds' own: both of a round have run on the same two cores
within a second, so that what another tenant's load does to the machine's speed falls out. In each round these are two
others of four cores, since some are slower than others for minutes and nothing moves a busy thread away. How fast a
process is also depends on where its memory happened to lie, by some percent: where the ratio of sixteen rounds is near
1, on either side, two more pairs of processes have as many, and all rounds count. The file of --json has each of them.

--ours and --peer name other places: `--ours iluvatar --peer cpu --batch 2 --pixels 64` tries the program on the stub.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measure import progress
from rich.console import Console
from rich.table import Table

os.environ.setdefault("UNIHAL_GPU_MEASURE", "1")

VISION = (
    "alexnet", "vgg16", "resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2", "mobilenet_v2",
    "mobilenet_v3_small", "mobilenet_v3_large", "densenet121", "squeezenet1_0", "shufflenet_v2_x1_0", "googlenet",
    "inception_v3",
)  # fmt: skip
#: What makes torchvision's the network that Paddle has, and keeps it from a warning.
TORCHVISION: dict[str, dict[str, bool]] = {
    "googlenet": {"init_weights": True},
    "inception_v3": {"aux_logits": False, "init_weights": True},
}
RECURRENT = ("LSTM", "GRU")
NAMES = (*VISION, *RECURRENT, "Transformer")
CLASSES, WIDTH, LAYERS, LENGTH, SEQUENCES, SENTENCES, HEADS, DEPTH = 10, 512, 2, 128, 64, 32, 8, 6
WARM_UP_STEPS, ROUNDS, STEPS = 4, 16, 5
#: Pairs of processes that train a network: one, and so many where their ratio is as near to 1 as this.
PAIRS, NEAR = 3, 0.12
CORES = 4

#: What a line with a round's time begins with.
ANSWER = "NETWORK"
#: Trains one step, without waiting.
Step = Callable[[], Any]


def pixels(name: str, options: argparse.Namespace) -> int:
    return int(options.pixels or (299 if name == "inception_v3" else 224))


def numbers(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def paddle_step(options: argparse.Namespace, name: str) -> tuple[Step, Step]:
    """A step of the network, and what waits for it."""
    import paddle
    from paddle import nn

    paddle.set_device(options.ours)
    generator = np.random.default_rng(0)

    def model_and_loss() -> tuple[Any, Callable[[], Any]]:
        if name in VISION:
            model = getattr(paddle.vision.models, name)(num_classes=CLASSES)
            side = pixels(name, options)
            images = paddle.to_tensor(numbers(options.batch, 3, side, side))
            labels = paddle.to_tensor(generator.integers(0, CLASSES, (options.batch,)))

            def classified() -> Any:
                given = model(images)
                outputs = given if isinstance(given, (list, tuple)) else [given]
                return sum(nn.functional.cross_entropy(output, labels) for output in outputs)

            return model, classified
        if name in RECURRENT:
            model = getattr(nn, name)(WIDTH, WIDTH, LAYERS, direction="bidirect")
            x = paddle.to_tensor(numbers(SEQUENCES, LENGTH, WIDTH))
            return model, lambda: model(x)[0].square().mean()
        model = nn.Transformer(WIDTH, HEADS, DEPTH, DEPTH, 4 * WIDTH)
        x = paddle.to_tensor(numbers(SENTENCES, LENGTH, WIDTH))
        return model, lambda: model(x, x).square().mean()

    model, loss = model_and_loss()
    optimizer = paddle.optimizer.Momentum(0.01, 0.9, parameters=model.parameters())

    def step() -> None:
        with paddle.amp.auto_cast(options.bfloat16, dtype="bfloat16"):
            value = loss()
        value.backward()
        optimizer.step()
        optimizer.clear_grad(set_to_zero=False)

    return step, paddle.device.synchronize


def torch_step(options: argparse.Namespace, name: str) -> tuple[Step, Step]:
    """The same in PyTorch."""
    import torch
    from torch import nn
    from unihal_workshop.pipelines.torchvision import make_importable

    make_importable()
    import torchvision

    torch.backends.cudnn.benchmark = True
    place = options.peer
    generator = np.random.default_rng(0)

    def model_and_loss() -> tuple[Any, Callable[[], Any]]:
        if name in VISION:
            model = getattr(torchvision.models, name)(num_classes=CLASSES, **TORCHVISION.get(name, {})).to(place)
            side = pixels(name, options)
            images = torch.from_numpy(numbers(options.batch, 3, side, side)).to(place)
            labels = torch.from_numpy(generator.integers(0, CLASSES, (options.batch,))).to(place)

            def classified() -> Any:
                given = model(images)
                outputs = given if isinstance(given, tuple) else [given]
                return sum(nn.functional.cross_entropy(output, labels) for output in outputs)

            return model, classified
        if name in RECURRENT:
            model = getattr(nn, name)(WIDTH, WIDTH, LAYERS, batch_first=True, bidirectional=True).to(place)
            x = torch.from_numpy(numbers(SEQUENCES, LENGTH, WIDTH)).to(place)
            return model, lambda: model(x)[0].square().mean()
        model = nn.Transformer(WIDTH, HEADS, DEPTH, DEPTH, 4 * WIDTH, batch_first=True).to(place)
        x = torch.from_numpy(numbers(SENTENCES, LENGTH, WIDTH)).to(place)
        return model, lambda: model(x, x).square().mean()

    model, loss = model_and_loss()
    optimizer = torch.optim.SGD(model.parameters(), 0.01, 0.9)

    def step() -> None:
        with torch.autocast(place, torch.bfloat16, enabled=options.bfloat16):
            value = loss()
        value.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step, torch.cuda.synchronize if place == "cuda" else lambda: None


FRAMEWORKS = {"paddle": paddle_step, "torch": torch_step}


def sit_on_cores(cores: list[int], turn: int) -> None:
    """Gives all threads of this process two cores, other ones each turn."""
    pair = {cores[(turn + i) % len(cores)] for i in range(2)}
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread), pair)


def serve(options: argparse.Namespace) -> None:
    """Answers each line of the standard input with the seconds of a step in one round, as a line."""
    step, wait = FRAMEWORKS[options.framework](options, options.network)
    for _ in range(WARM_UP_STEPS):
        step()
    wait()
    cores = sorted(os.sched_getaffinity(0))
    for turn, _ in enumerate(sys.stdin):
        sit_on_cores(cores, turn)
        start = time.perf_counter()
        for _ in range(STEPS):
            step()
        wait()
        print(f"{ANSWER} {(time.perf_counter() - start) / STEPS}", flush=True)


class Trainer:
    """A process in which a framework trains a network."""

    def __init__(self, framework: str, network: str, arguments: list[str]) -> None:
        own = ["--framework", framework, "--network", network]
        command = [sys.executable, "-W", "ignore", __file__, *arguments, *own]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def round(self) -> float | None:
        """Seconds of a step; None if the process has failed."""
        assert self.process.stdin is not None and self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            print(file=self.process.stdin, flush=True)
        answers = (line.split()[1] for line in self.process.stdout if line.startswith(ANSWER))
        return next((float(answer) for answer in answers), None)

    def end(self) -> None:
        self.process.communicate()


#: Seconds of a step in a round, of Paddle and of PyTorch.
Round = tuple[float, float]


def rounds_of_new_processes(name: str, arguments: list[str]) -> list[Round]:
    """Rounds of two processes that train the network; none where one of them could not."""
    trainers = [Trainer(framework, name, arguments) for framework in FRAMEWORKS]
    try:
        for trainer in trainers:  # both have warmed up before either is measured
            trainer.round()
        rounds = []
        for _ in range(ROUNDS):
            ours, theirs = (trainer.round() for trainer in trainers)
            if ours is None or theirs is None:
                return []
            rounds.append((ours, theirs))
        return rounds
    finally:
        for trainer in trainers:
            trainer.end()


def median_ratio(rounds: list[Round]) -> float:
    return statistics.median(ours / theirs for ours, theirs in rounds)


def measured(name: str, arguments: list[str]) -> list[Round]:
    """All rounds of the network; none where one of its processes could not train it."""
    rounds = rounds_of_new_processes(name, arguments)
    if not rounds or abs(median_ratio(rounds) - 1) > NEAR:
        return rounds
    for _ in range(PAIRS - 1):
        more = rounds_of_new_processes(name, arguments)
        if not more:
            return []
        rounds += more
    return rounds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], help="networks whose name has one of these in it")
    parser.add_argument("--batch", type=int, default=32, help="images")
    parser.add_argument("--pixels", type=int, help="side of the images")
    parser.add_argument("--bfloat16", action="store_true")
    parser.add_argument("--ours", default="iluvatar", help="Paddle's place")
    parser.add_argument("--peer", default="cuda", help="PyTorch's place")
    parser.add_argument("--json", help="file for what was measured")
    parser.add_argument("--framework", choices=list(FRAMEWORKS), help=argparse.SUPPRESS)
    parser.add_argument("--network", choices=NAMES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.framework:
        serve(options)
        return 0
    names = [name for name in NAMES if any(part in name for part in options.only)]
    if not names:
        parser.error(f"no network has {' or '.join(options.only)} in its name; there are {', '.join(NAMES)}")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-CORES:])
    table = Table("network", "Paddle, ms", "PyTorch, ms", "ratio")
    rows, missing = [], []
    for name in names:
        progress(name)
        rounds = measured(name, sys.argv[1:])
        if not rounds:
            missing.append(name)
            continue
        ours, theirs = (statistics.median(side) for side in zip(*rounds))
        ratio = median_ratio(rounds)
        progress(f"{ours * 1e3:.2f} ms, PyTorch {theirs * 1e3:.2f}: {ratio:.3f}, the median of {len(rounds)} rounds")
        rows.append({"network": name, "seconds": ours, "peer_seconds": theirs, "ratio": ratio, "rounds": rounds})
        table.add_row(name, f"{ours * 1e3:.1f}", f"{theirs * 1e3:.1f}", f"{ratio:.3f}")
    Console().print(table)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))
    if missing:
        print(f"not measured: {', '.join(missing)}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
