"""Copies between two devices of a backend, by size, beside PyTorch's between the same two GPUs.

    UNIHAL_BACKEND=corex python benchmarks/peer_copies.py [--largest 1073741824] [--json FILE]

A stream of the first device makes many, one after the other. A ratio is our rate over PyTorch's in the same run: above
1 we are faster. What arrives is first compared with what was sent. Without PyTorch on two GPUs ours stand alone.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import unihal
from unihal.conformance.abi import Bench, copy_peer

SMALLEST = 1 << 10
#: At least so many bytes in a measurement, and so many copies.
BYTES, COPIES = 1 << 32, 20


def seconds(copy: Callable[[], Any], wait: Callable[[], Any], size: int) -> float:
    """Of one copy, in the best of three rounds."""
    count = min(max(COPIES, BYTES // size), 2000)
    best = float("inf")
    for _ in range(4):  # the first one warms up
        start = time.perf_counter()
        for _ in range(count):
            copy()
        wait()
        best = min(best, (time.perf_counter() - start) / count)
    return best


def sizes_up_to(largest: int) -> list[int]:
    return [size for size in (SMALLEST << shift for shift in range(0, 40, 4)) if size <= largest]


def two_devices() -> list[unihal.Device]:
    for kind in unihal.device_types():
        found = unihal.devices(kind.name)
        if len(found) > 1:
            return found[:2]
    sys.exit("peer_copies.py: no device type has two devices; on the stub set UNIHAL_STUB_DEVICES=2")


def rows(largest: int) -> list[dict[str, float]]:
    here, there = two_devices()
    found: list[dict[str, float]] = []
    with Bench(here) as bench, Bench(there) as other:
        stream = bench.stream()
        source, target, back = bench.memory(largest), other.memory(largest), bench.memory(largest)
        data = np.frombuffer(np.random.default_rng(0).bytes(largest), np.uint8).copy()
        stream.upload(source.address, data)
        copy_peer(stream, there, target.address, here, source.address, largest)
        copy_peer(stream, here, back.address, there, target.address, largest)
        seen = np.zeros_like(data)
        stream.download(seen, back.address)
        stream.synchronize()
        if not np.array_equal(seen, data):
            sys.exit("peer_copies.py: what came back is not what was sent")
        for size in sizes_up_to(largest):

            def copy(size: int = size) -> None:
                copy_peer(stream, there, target.address, here, source.address, size)

            found.append({"bytes": size, "seconds": seconds(copy, stream.synchronize, size)})
    return found


def add_torch(found: list[dict[str, float]]) -> None:
    try:
        import torch
    except ImportError:
        return
    if torch.cuda.device_count() < 2:
        return
    for row in found:
        source = torch.zeros(int(row["bytes"]), dtype=torch.uint8, device="cuda:0")
        target = torch.zeros(int(row["bytes"]), dtype=torch.uint8, device="cuda:1")

        def copy(source: Any = source, target: Any = target) -> None:
            target.copy_(source, non_blocking=True)

        def wait() -> None:
            torch.cuda.synchronize(0)
            torch.cuda.synchronize(1)

        row["torch_seconds"] = seconds(copy, wait, int(row["bytes"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=1 << 30, help="bytes")
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    found = rows(arguments.largest)
    add_torch(found)
    print(f"{'bytes':>12}{'us':>12}{'GB/s':>10}{'of torch':>10}")
    for row in found:
        ratio = f"{row['torch_seconds'] / row['seconds']:10.2f}" if "torch_seconds" in row else ""
        print(f"{row['bytes']:12}{row['seconds'] * 1e6:12.1f}{row['bytes'] / row['seconds'] / 1e9:10.2f}{ratio}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
