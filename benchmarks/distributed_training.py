"""Data-parallel training on several devices, one process a device: seconds per step beside those of one device, and
whether the weights are those of one process.

    python benchmarks/distributed_training.py paddle|torch MODEL TYPE [--ranks 2] [--steps 10] [--json FILE]

The model is one of training.py, without dropout; each rank has a batch of its own of that size. The type of device
is iluvatar, rdna or polaris, in PyTorch also cuda. DataParallel and DistributedDataParallel are used
as their documentation shows. What keras does in one process is in distributed_tensorflow.py.

The scaling is how much faster so many devices go through as much data: ranks x seconds of one / seconds of all. Beside
it stands that of as many processes that train at the same time and exchange nothing: what the host and the cards'
power leave. For the weights, one process adds up the gradients of the ranks' batches, one after another (batch
normalization sees the same batches then), for three steps of plain SGD: the distance of its weights to the ranks', of
the way that they went, is printed, and is an error beyond 0.01. Exits with 1 then.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from measure import progress
from training import BATCHES, DECODER_TOKENS, IMAGE_SHAPES, paddle_parts, torch_parts

CHECKED_STEPS = 3
LARGEST_DISTANCE = 0.01
RATE = 1e-4  # small: what rounding changes must not grow from step to step


class Rank(NamedTuple):
    """What a framework does for one rank."""

    step: Callable[[], None]  # trains on this rank's batch
    wait: Callable[[], None]
    #: Goes on plain SGD through the given ranks' batches, their gradients added; returns the way of all weights.
    go: Callable[[list[int]], Any]
    fallbacks: Callable[[], int]


def flat(weights: list[Any]) -> Any:
    return np.concatenate([np.asarray(each, np.float64).ravel() for each in weights])


def counted_fallbacks() -> int:
    import unihal

    return sum(entry.count for entry in unihal.fallbacks())


def paddle_rank(options: argparse.Namespace) -> Rank:
    import paddle
    import paddle.distributed as dist

    paddle.set_device(f"{options.type}:{options.rank}")
    if options.ranks > 1:
        dist.init_parallel_env()
    model, inputs, labels, make_optimizer = paddle_parts(options.model, dropout=0.0)
    parallel = paddle.DataParallel(model) if options.ranks > 1 else model
    optimizer = make_optimizer(parallel.parameters())

    def train(chosen: Any, batch: Any, share: float) -> None:
        loss = paddle.nn.functional.cross_entropy(parallel(batch), labels)
        (loss * share).backward()
        if chosen is not None:
            chosen.step()
            chosen.clear_grad(set_to_zero=False)

    # What batch normalization keeps of its batches is each rank's own.
    trained = [each for each in model.parameters() if not each.stop_gradient]

    def go(ranks: list[int]) -> Any:
        plain = paddle.optimizer.SGD(RATE, parameters=parallel.parameters())
        before = flat([each.numpy() for each in trained])
        for _ in range(CHECKED_STEPS):
            for i, rank in enumerate(ranks):
                train(plain if i == len(ranks) - 1 else None, paddle.roll(inputs, rank, -1), 1 / len(ranks))
        return flat([each.numpy() for each in trained]) - before

    return Rank(lambda: train(optimizer, inputs, 1.0), paddle.device.synchronize, go, counted_fallbacks)


def torch_rank(options: argparse.Namespace) -> Rank:
    import torch
    import torch.distributed as dist

    place = f"{options.type}:{options.rank}"
    on = getattr(torch, options.type)
    on.set_device(options.rank)
    if options.type == "cuda":
        torch.backends.cudnn.benchmark = True
    if options.ranks > 1:
        dist.init_process_group("nccl" if options.type == "cuda" else None)
    model, inputs, labels, make_optimizer = torch_parts(options.model, place, dropout=0.0)
    parallel = torch.nn.parallel.DistributedDataParallel(model, [options.rank]) if options.ranks > 1 else model
    optimizer = make_optimizer(parallel.parameters())

    def train(chosen: Any, batch: Any, share: float) -> None:
        loss = torch.nn.functional.cross_entropy(parallel(batch).flatten(0, -2), labels)
        (loss * share).backward()
        if chosen is not None:
            chosen.step()
            chosen.zero_grad()

    def go(ranks: list[int]) -> Any:
        plain = torch.optim.SGD(parallel.parameters(), RATE)
        before = flat([each.detach().cpu() for each in model.parameters()])
        for _ in range(CHECKED_STEPS):
            for i, rank in enumerate(ranks):
                train(plain if i == len(ranks) - 1 else None, inputs.roll(rank, -1), 1 / len(ranks))
        return flat([each.detach().cpu() for each in model.parameters()]) - before

    return Rank(
        lambda: train(optimizer, inputs, 1.0),
        on.synchronize,
        go,
        (lambda: 0) if options.type == "cuda" else counted_fallbacks,
    )


FRAMEWORKS = {"paddle": paddle_rank, "torch": torch_rank}


def run_rank(options: argparse.Namespace) -> None:
    """Prints seconds per step and fallbacks; puts its way, or that of one process for all, into a file."""
    rank = FRAMEWORKS[options.framework](options)
    ways = Path(options.folder)
    alone = options.ranks == 1
    np.save(ways / f"{options.ranks}.{options.rank}.npy", rank.go(list(range(options.of)) if alone else [options.rank]))
    for _ in range(3):
        rank.step()
    times = []
    for _ in range(options.steps):
        rank.wait()
        start = time.perf_counter()
        rank.step()
        rank.wait()
        times.append(time.perf_counter() - start)
    if options.framework == "torch" and options.ranks > 1:
        import torch

        torch.distributed.destroy_process_group()
    print("RANK " + json.dumps({"seconds": statistics.median(times), "fallbacks": rank.fallbacks()}), flush=True)


def start(options: argparse.Namespace, ranks: int, folder: str, *, apart: bool = False) -> list[dict[str, Any]]:
    """What each rank says; `apart`, each is a run of its own, on its device."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    endpoints = [f"127.0.0.1:{port + 1 + rank}" for rank in range(ranks)]
    processes = []
    for rank in range(ranks):
        together = 1 if apart else ranks
        arguments = [options.framework, options.model, options.type, "--ranks", together, "--of", options.ranks]
        arguments += ["--steps", options.steps, "--rank", rank, "--folder", folder]
        of_paddle = {
            "PADDLE_TRAINER_ID": "0" if apart else str(rank),
            "PADDLE_TRAINERS_NUM": str(together),
            "PADDLE_TRAINER_ENDPOINTS": endpoints[rank] if apart else ",".join(endpoints),
            "PADDLE_CURRENT_ENDPOINT": endpoints[rank],
            "PADDLE_MASTER": f"127.0.0.1:{port}",
        }
        of_torch = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        processes.append(
            subprocess.Popen(
                [sys.executable, "-W", "ignore", __file__, *map(str, arguments)],
                env={**os.environ, **(of_paddle if options.framework == "paddle" else of_torch)},
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    said = []
    try:
        for process in processes:
            lines = [line for line in process.communicate()[0].splitlines() if line.startswith("RANK ")]
            if process.returncode != 0 or len(lines) != 1:
                raise SystemExit(f"a rank of {ranks} ended with {process.returncode}")
            said.append(json.loads(lines[0].removeprefix("RANK ")))
    finally:
        for process in processes:
            process.kill()
    return said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=list(FRAMEWORKS))
    parser.add_argument("model", choices=[*IMAGE_SHAPES, *BATCHES, *DECODER_TOKENS])
    parser.add_argument("type", help="of device")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--json", help="file for what was measured")
    for private, kind in (("--rank", int), ("--of", int), ("--folder", str)):
        parser.add_argument(private, type=kind, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank is not None:
        run_rank(options)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        progress(f"{options.framework} {options.model}: one device")
        alone = start(options, 1, folder)
        progress(f"{options.framework} {options.model}: {options.ranks} devices, each by itself")
        apart = start(options, options.ranks, folder, apart=True)
        progress(f"{options.framework} {options.model}: {options.ranks} devices")
        together = start(options, options.ranks, folder)
        way = np.load(Path(folder, "1.0.npy"))
        distances = [
            float(np.linalg.norm(np.load(Path(folder, f"{options.ranks}.{rank}.npy")) - way) / np.linalg.norm(way))
            for rank in range(options.ranks)
        ]
    one = alone[0]["seconds"]
    all_, each = (max(rank["seconds"] for rank in ranks) for ranks in (together, apart))
    result = {
        "framework": options.framework,
        "model": options.model,
        "ranks": options.ranks,
        "seconds_of_one": one,
        "seconds": all_,
        "scaling": options.ranks * one / all_,
        "seconds_apart": each,
        "scaling_apart": options.ranks * one / each,
        "distance": max(distances),
        "fallbacks": sum(rank["fallbacks"] for rank in (*alone, *apart, *together)),
    }
    print(
        f"{options.framework} {options.model}: one device {one * 1e3:.1f} ms a step, {options.ranks} devices "
        f"{all_ * 1e3:.1f} ms: {result['scaling']:.2f} times as fast ({result['scaling_apart']:.2f} apart); "
        f"distance of weights {max(distances):.1e}; fallbacks {result['fallbacks']}"
    )
    if options.json:
        Path(options.json).write_text(json.dumps(result))
    return 0 if max(distances) <= LARGEST_DISTANCE else 1


if __name__ == "__main__":
    sys.exit(main())
