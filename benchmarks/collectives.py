"""Collectives on several devices, one process a device: results against NumPy, two communicators at once, bus bandwidth
(beside PyTorch's through NCCL, where it has as many GPUs), and a rank that dies.

    UNIHAL_BACKEND=corex python benchmarks/collectives.py [--ranks 2] [--largest 1073741824] [--json FILE]

The bus bandwidth is that of NCCL's own tests: bytes that each link carries at least, by the time. Exits with 1 if a
result is wrong or a failure is not named.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from measure import progress

TIMEOUT = 60.0
EXACT = ("bool", "int8", "int32", "int64", "uint8", "uint32", "uint64")
FLOATING = ("float16", "float32", "float64")
COUNTS = (1, 3, 1000, 1_000_003)


def bus_factor(collective: str, size: int) -> float:
    """Bytes on the bus for each byte of the larger operand."""
    return {"all_reduce": 2 * (size - 1) / size, "broadcast": 1.0, "send_receive": 1.0}.get(
        collective, (size - 1) / size
    )


# -- a rank ----------------------------------------------------------------------------------------------------------


def sample(count: int, dtype: str, seed: int) -> Any:
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return generator.integers(0, 2, count).astype(bool)
    return (generator.standard_normal(count) if dtype in FLOATING else generator.integers(0, 50, count)).astype(dtype)


def close(result: Any, expected: Any, dtype: str, size: int) -> bool:
    """Exact for integers; for floating sums as many roundings as ranks."""
    if dtype not in FLOATING:
        return bool(np.array_equal(result, expected))
    wide = np.asarray(expected, np.float64)
    bound = size * float(np.finfo(dtype).eps) * np.maximum(size * np.abs(wide).max(initial=0), 1)
    return bool(np.all(np.abs(np.asarray(result, np.float64) - wide) <= bound))


def check(communicator: Any, buffer: Any) -> list[str]:
    """What is wrong: every collective of every dtype."""
    from unihal import collectives

    rank, size, wrong = communicator.rank, communicator.size, []
    for dtype in (*EXACT, *FLOATING):
        for count in COUNTS:
            sources = [sample(count, dtype, 1000 * count + r) for r in range(size)]
            whole = np.stack(sources)
            total = whole.any(0) if dtype == "bool" else whole.sum(0, np.float64 if dtype in FLOATING else dtype)
            mine, each = buffer(sources[rank]), buffer(np.stack([sources[(rank + r) % size] for r in range(size)]))
            scattered = communicator.reduce_scatter(each)
            peers = [sources[(r + rank) % size] for r in range(size)]
            received = buffer(np.zeros_like(sources[0]))
            with collectives.group():
                communicator.send(mine, (rank + 1) % size)
                communicator.receive(received, (rank - 1) % size)
            sums = np.stack(peers)
            blocks = sums.any(0) if dtype == "bool" else sums.sum(0, np.float64 if dtype in FLOATING else dtype)
            results = {
                "all_reduce": (communicator.all_reduce(mine), total),
                "maximum": (communicator.all_reduce(mine, "maximum"), whole.max(0)),
                "all_gather": (communicator.all_gather(mine), whole),
                "reduce_scatter": (scattered, blocks),
                "all_to_all": (communicator.all_to_all(each), np.stack(peers)),
                "send_receive": (received, sources[(rank - 1) % size]),
                "broadcast": (communicator.broadcast(buffer(sources[rank]), size - 1), sources[size - 1]),
            }
            for name, (result, expected) in results.items():
                if not close(result.numpy(), expected, dtype, size):
                    wrong.append(f"{name} of {count} {dtype} on rank {rank}")
    return wrong


def check_two(communicator: Any, other: Any, buffer: Any) -> list[str]:
    """Two communicators on two streams at once."""
    import unihal

    with unihal.Stream(communicator.device) as one, unihal.Stream(communicator.device) as two:
        x, y = buffer(np.full(1 << 20, communicator.rank)), buffer(np.full(1 << 20, other.rank))
        unihal.device(communicator.device).synchronize()
        for _ in range(10):
            straight, turned = communicator.all_gather(x, stream=one), other.all_gather(y, stream=two)
        right = np.array_equal(straight.numpy(stream=one)[:, 0], np.arange(communicator.size))
        right = right and np.array_equal(turned.numpy(stream=two)[:, 0], np.arange(other.size))
    return [] if right else [f"two communicators at once on rank {communicator.rank}"]


def calls_of(communicator: Any, count: int) -> dict[str, Any]:
    """Each collective whose larger operand has `count` float32."""
    import unihal
    from unihal import collectives

    rank, size = communicator.rank, communicator.size
    block = max(count // size, 1)
    large = unihal.ops.fill(unihal.Buffer((size, block), "float32", communicator.device), 0.0)
    target = unihal.Buffer((size, block), "float32", communicator.device)
    small = target[rank]

    def send_receive() -> None:
        with collectives.group():
            communicator.send(large, (rank + 1) % size)
            communicator.receive(target, (rank - 1) % size)

    return {
        "all_reduce": lambda: communicator.all_reduce(large, out=large),
        "all_gather": lambda: communicator.all_gather(small, out=target),
        "reduce_scatter": lambda: communicator.reduce_scatter(large, out=target[rank]),
        "broadcast": lambda: communicator.broadcast(large, 0),
        "all_to_all": lambda: communicator.all_to_all(large, out=target),
        "send_receive": send_receive,
    }


def torch_calls(count: int, rank: int, size: int) -> dict[str, Any]:
    """The same of PyTorch."""
    import torch
    import torch.distributed as distributed

    block = max(count // size, 1)
    large = torch.zeros(size, block, device=f"cuda:{rank}")
    target = torch.empty_like(large)

    def send_receive() -> None:
        operations = [
            distributed.P2POp(distributed.isend, large, (rank + 1) % size),
            distributed.P2POp(distributed.irecv, target, (rank - 1) % size),
        ]
        for request in distributed.batch_isend_irecv(operations):
            request.wait()

    return {
        "all_reduce": lambda: distributed.all_reduce(large),
        "all_gather": lambda: distributed.all_gather_into_tensor(target, large[rank]),
        "reduce_scatter": lambda: distributed.reduce_scatter_tensor(target[rank], large),
        "broadcast": lambda: distributed.broadcast(large, 0),
        "all_to_all": lambda: distributed.all_to_all_single(target, large),
        "send_receive": send_receive,
    }


def measure(calls: dict[str, Any], bytes_: int, size: int, wait: Any, of: str) -> list[dict[str, Any]]:
    """The best of five rounds. The number of calls in a round is the same on all ranks."""
    rows = []
    repeats = max(8, min(200, (1 << 30) // bytes_))
    for name, call in calls.items():
        best = float("inf")
        for _ in range(5):
            call()
            wait()
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            wait()
            best = min(best, (time.perf_counter() - start) / repeats)
        bus = bytes_ * bus_factor(name, size) / best * 1e-9
        rows.append({"of": of, "collective": name, "bytes": bytes_, "seconds": best, "bus_gigabytes_per_second": bus})
    return rows


def sizes_up_to(largest: int) -> list[int]:
    return [size for size in (1 << shift for shift in range(10, 31, 2)) if size <= largest]


def run_rank(options: argparse.Namespace) -> None:
    """Writes what was found as lines of JSON."""
    import unihal
    from unihal import collectives

    rank, size = options.rank, options.ranks
    device = unihal.device(f"{options.device}:{rank}")
    ids = [Path(options.folder, name).read_bytes() for name in ("first", "second")]

    def buffer(array: Any) -> Any:
        return unihal.Buffer.from_numpy(array, device)

    communicator = collectives.Communicator(device, rank, size, ids[0], TIMEOUT)
    with collectives.Communicator(device, size - 1 - rank, size, ids[1], TIMEOUT) as other:
        wrong = check(communicator, buffer) + check_two(communicator, other, buffer)
    print(json.dumps({"wrong": wrong}), flush=True)
    for bytes_ in sizes_up_to(options.largest):
        rows = measure(calls_of(communicator, bytes_ // 4), bytes_, size, device.synchronize, "unihal")
        for row in rows if rank == 0 else []:
            print(json.dumps(row), flush=True)
    x = buffer(np.ones(1000, np.float32))
    communicator.all_reduce(x)
    device.synchronize()
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.perf_counter()
    try:
        communicator.all_reduce(x)
        device.synchronize()
        said = "nothing"
    except unihal.Error as error:
        said = f"{type(error).__name__}: {error}"
    print(json.dumps({"dead_rank": said, "seconds": time.perf_counter() - start}), flush=True)
    # The communicator failed; closing it must not hang either.
    communicator.close()


def run_torch_rank(options: argparse.Namespace) -> None:
    import torch
    import torch.distributed as distributed

    rank, size = options.rank, options.ranks
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", f"file://{options.folder}/torch", rank=rank, world_size=size)
    for bytes_ in sizes_up_to(options.largest):
        rows = measure(torch_calls(bytes_ // 4, rank, size), bytes_, size, torch.cuda.synchronize, "torch")
        for row in rows if rank == 0 else []:
            print(json.dumps(row), flush=True)
    distributed.destroy_process_group()


# -- all of them -----------------------------------------------------------------------------------------------------


def start(options: argparse.Namespace, folder: str, *more: str) -> list[list[dict[str, Any]]]:
    """What the ranks say."""
    shared = ["--ranks", str(options.ranks), "--largest", str(options.largest), "--folder", folder, *more]
    ranks = [
        subprocess.Popen([sys.executable, __file__, "--rank", str(rank), *shared], stdout=subprocess.PIPE, text=True)
        for rank in range(options.ranks)
    ]
    return [[json.loads(line) for line in rank.communicate()[0].splitlines()] for rank in ranks]


def torch_gpus() -> int:
    try:
        import torch
    except ImportError:
        return 0
    return int(torch.cuda.device_count())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--largest", type=int, default=1 << 30, help="bytes of the largest operand")
    parser.add_argument("--json", help="file for all rows")
    for private in ("--rank", "--folder", "--device", "--of"):
        parser.add_argument(private, type=int if private == "--rank" else str, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank is not None:
        (run_torch_rank if options.of == "torch" else run_rank)(options)
        return 0

    import unihal
    from unihal import collectives

    found = {kind.name: len(unihal.devices(kind.name)) for kind in unihal.device_types()}
    device = next((name for name, count in found.items() if count >= options.ranks), None)
    if device is None:
        progress(f"there are no {options.ranks} devices of one type: {found}")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        for name in ("first", "second"):
            Path(folder, name).write_bytes(collectives.create_id(f"{device}:0"))
        said = start(options, folder, "--device", device)
        rows = [row for row in said[0] if "collective" in row]
        wrong = [text for rank in said for row in rank for text in row.get("wrong", [])]
        wrong += [
            f"rank {rank} checked nothing" for rank, all_ in enumerate(said) if not any("wrong" in r for r in all_)
        ]
        ends = [row for rank in said[:-1] for row in rank if "dead_rank" in row]
        if torch_gpus() >= options.ranks:
            rows += [row for row in start(options, folder, "--of", "torch")[0] if "collective" in row]
    name_of_dead = f"rank {options.ranks - 1}"
    if len(ends) != options.ranks - 1:
        wrong.append(f"{options.ranks - 1 - len(ends)} ranks said nothing of {name_of_dead}, which died")
    wrong += [f"a dead rank was not named: {end['dead_rank']}" for end in ends if name_of_dead not in end["dead_rank"]]
    torch_bus = {(r["collective"], r["bytes"]): r["bus_gigabytes_per_second"] for r in rows if r["of"] == "torch"}
    print(f"{'collective':16}{'bytes':>12}{'us':>12}{'bus GB/s':>12}{'of torch':>10}")
    for row in rows:
        if row["of"] != "unihal":
            continue
        beside = torch_bus.get((row["collective"], row["bytes"]))
        ratio = f"{row['bus_gigabytes_per_second'] / beside:10.2f}" if beside else ""
        bus = row["bus_gigabytes_per_second"]
        print(f"{row['collective']:16}{row['bytes']:12}{row['seconds'] * 1e6:12.1f}{bus:12.2f}{ratio}")
    for end in ends:
        print(f"dead rank: after {end['seconds']:.2f} s: {end['dead_rank']}")
    if options.json:
        Path(options.json).write_text(json.dumps({"device": device, "rows": rows, "dead_rank": ends, "wrong": wrong}))
    for text in wrong:
        print(f"wrong: {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
