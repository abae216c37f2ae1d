"""A device's speed against what its memory and its vendor's libraries reach in the same run.

    python benchmarks/gpu.py [--device polaris:0] [--only SUBSTRING] [--json FILE]

Elementwise work, copies, reductions, softmax and layer norm are bound by memory: their bytes per second are compared
with those of a copy within the device. Matrix products and convolutions are compared with PyTorch on the same GPU
(cuBLAS and cuDNN, float32 without tensor cores), if PyTorch sees one. A share is ours over the peer's, both as a rate:
above 1 we are faster. All work is submitted without waiting, and timed over many calls.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import measure
import unihal
from rich.console import Console
from rich.table import Table
from unihal import Buffer, ops

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Row:
    """One line of the table. Rates are in the unit; 0 where there is no peer."""

    name: str
    unit: str
    ours: float
    peer: float
    peer_name: str
    at_least: float

    @property
    def share(self) -> float:
        """Ours over the peer's."""
        return self.ours / self.peer if self.peer else 0.0


@dataclass(frozen=True)
class Convolution:
    """A layer of ResNet-50, whose images have equal sides."""

    channels: int
    filters: int
    side: int
    window: int
    stride: int = 1


#: The 3x3 and 1x1 convolutions of each stage; the first layer's 7x7 is none of these.
RESNET50 = (
    Convolution(64, 64, 56, 3),
    Convolution(128, 128, 28, 3),
    Convolution(256, 256, 14, 3),
    Convolution(512, 512, 7, 3),
    Convolution(64, 256, 56, 1),
    Convolution(256, 64, 56, 1),
    Convolution(512, 128, 28, 1),
    Convolution(128, 512, 28, 1),
    Convolution(1024, 256, 14, 1),
    Convolution(256, 1024, 14, 1),
    Convolution(2048, 512, 7, 1),
    Convolution(512, 2048, 7, 1),
)


def rate(work: float, call: Callable[[], Any], wait: Callable[[], Any], minimum_time: float = 0.3) -> float:
    """Units of work per second: the best of five batches, each submitted as a whole and waited for once."""
    call()
    wait()
    start = time.perf_counter()
    call()
    wait()
    repeats = max(3, int(minimum_time / 5 / max(time.perf_counter() - start, 1e-6)))
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        wait()
        best = min(best, (time.perf_counter() - start) / repeats)
    return work / best


class Device:
    """The device under test, with PyTorch beside it if that sees a GPU."""

    def __init__(self, name: str) -> None:
        self.torch = _torch()
        self.device = unihal.device(name)
        self.is_cpu = self.torch is None

    def random(self, *shape: int) -> Buffer:
        """Normal float32 numbers on the device."""
        return ops.random(shape, "float32", self.device, distribution="normal", a=0.0, b=1.0, key=1)

    def rate(self, work: float, call: Callable[[], Any]) -> float:
        """Of our own calls."""
        return rate(work, call, self.device.synchronize)

    def peer_rate(self, work: float, call: Callable[[], Any]) -> float:
        """Of PyTorch's; 0 without it."""
        return rate(work, call, self.torch.cuda.synchronize) if self.torch is not None else 0.0


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    return torch


def memory_bound(on: Device) -> list[Row]:
    """Against the copy within the device."""
    size = (16 if on.is_cpu else 256) * MEBIBYTE
    count = size // 4
    x, y, out = (on.random(count) for _ in range(3))
    copied = on.rate(2 * size / 1e9, lambda: ops.copy(x, out=out))
    peer, peer_name = copied, "unihal's copy in the device"
    rows = []
    if on.torch is not None:
        a, b = on.torch.randn(count, device="cuda"), on.torch.empty(count, device="cuda")
        peer, peer_name = on.peer_rate(2 * size / 1e9, lambda: b.copy_(a)), "PyTorch's copy in the device"
        del a, b
        rows.append(Row("copy", "GB/s", copied, peer, peer_name, 0.85))
    length = 1024
    matrix, target = x.reshape(count // length, length), out.reshape(count // length, length)
    scale, bias = on.random(length), on.random(length)
    half, half_out = ops.cast(x, "float16"), ops.cast(out, "float16")
    calls: list[tuple[str, float, Callable[[], Any], float]] = [
        ("add", 3 * size, lambda: ops.add(x, y, out=out), 0.85),
        ("exp", 2 * size, lambda: ops.exp(x, out=out), 0.85),
        ("add of a row", 2 * size, lambda: ops.add(matrix, bias, out=target), 0.85),
        ("add of float16", 1.5 * size, lambda: ops.add(half, half, out=half_out), 0.85),
        ("cast to float16", 1.5 * size, lambda: ops.cast(x, "float16", out=half_out), 0.85),
        (
            "transpose",
            2 * size,
            lambda: ops.copy(matrix.transpose(1, 0), out=out.reshape(length, count // length)),
            0.85,
        ),
        ("sum", size, lambda: ops.sum(x), 0.85),
        ("sum of rows", size, lambda: ops.sum(matrix, axis=1), 0.85),
        ("sum of columns", size, lambda: ops.sum(matrix, axis=0), 0.85),
        ("softmax of rows of 1024", 2 * size, lambda: ops.softmax(matrix, out=target), 0.7),
        ("layer norm of rows of 1024", 2 * size, lambda: ops.layer_norm(matrix, scale, bias), 0.7),
    ]
    for name, work, call, at_least in calls:
        rows.append(Row(name, "GB/s", on.rate(work / 1e9, call), peer, peer_name, at_least))
    return rows


def products(on: Device) -> list[Row]:
    """Matrix products against cuBLAS."""
    rows = []
    for n in (256, 512) if on.is_cpu else (1024, 2048, 4096):
        work = 2.0 * n**3 / 1e12
        a, b, out = (on.random(n, n) for _ in range(3))
        peer = 0.0
        if on.torch is not None:
            p, q, r = (on.torch.randn(n, n, device="cuda") for _ in range(3))
            peer = on.peer_rate(work, partial(on.torch.matmul, p, q, out=r))
        ours = on.rate(work, partial(ops.matmul, a, b, out=out))
        rows.append(Row(f"matmul {n}", "TFLOP/s", ours, peer, "cuBLAS float32", 0.6 if n == 4096 else 0))
    return rows


def convolution_calls(on: Device, layer: Convolution, batch: int) -> dict[str, tuple[Callable[[], Any], Any]]:
    """The forward pass and both gradients of a layer: ours, and PyTorch's or None."""
    padding, side = layer.window // 2, layer.side // layer.stride
    shape_x = (batch, layer.channels, layer.side, layer.side)
    shape_w = (layer.filters, layer.channels, layer.window, layer.window)
    shape_y = (batch, layer.filters, side, side)
    x, w, dy = on.random(*shape_x), on.random(*shape_w), on.random(*shape_y)
    y, dx = Buffer(shape_y, "float32", on.device), Buffer(shape_x, "float32", on.device)
    options: dict[str, Any] = {"stride": layer.stride, "padding": padding}
    ours: dict[str, Callable[[], Any]] = {
        "forward": lambda: ops.convolution(x, w, out=y, **options),
        "backward data": lambda: ops.convolution_backward_data(dy, w, shape_x, out=dx, **options),
        "backward filter": lambda: ops.convolution_backward_filter(x, dy, shape_w, **options),
    }
    peers: dict[str, Callable[[], Any]] = {}
    if on.torch is not None:
        torch = on.torch
        tx, tw, ty = (torch.randn(*shape, device="cuda") for shape in (shape_x, shape_w, shape_y))

        def gradient(*mask: bool) -> Any:
            place = ([layer.stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1)
            return torch.ops.aten.convolution_backward(ty, tx, tw, None, *place, mask)

        peers = {
            "forward": lambda: torch.nn.functional.conv2d(tx, tw, stride=layer.stride, padding=padding),
            "backward data": lambda: gradient(True, False, False),
            "backward filter": lambda: gradient(False, True, False),
        }
    return {name: (call, peers.get(name)) for name, call in ours.items()}


def convolutions(on: Device) -> list[Row]:
    """Convolutions and their gradients against cuDNN, channels first."""
    rows = []
    batch, layers = (1, RESNET50[:1]) if on.is_cpu else (32, RESNET50)
    for layer in layers:
        side = layer.side // layer.stride
        work = 2.0 * batch * layer.filters * side * side * layer.channels * layer.window**2 / 1e12
        shape = f"{layer.window}x{layer.window}, {layer.channels} to {layer.filters} on {layer.side}x{layer.side}"
        for name, (call, peer_call) in convolution_calls(on, layer, batch).items():
            peer = on.peer_rate(work, peer_call) if peer_call is not None else 0.0
            rows.append(Row(f"{shape}, {name}", "TFLOP/s", on.rate(work, call), peer, "cuDNN float32", 0.4))
    return rows


GROUPS = {"memory": memory_bound, "products": products, "convolutions": convolutions}


def draw(title: str, rows: list[Row]) -> None:
    table = Table(title=title)
    for column in ("work", "ours", "peer", "peer is", "share", "at least"):
        table.add_column(column, justify="left" if column in ("work", "peer is") else "right")
    for row in rows:
        table.add_row(
            row.name,
            f"{row.ours:.4g} {row.unit}",
            f"{row.peer:.4g} {row.unit}" if row.peer else "",
            row.peer_name if row.peer else "none here",
            f"{row.share:.2f}" if row.peer else "",
            f"{row.at_least:g}" if row.at_least else "",
            style="yellow" if row.peer and row.share < row.at_least else "",
        )
    Console(width=130).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="polaris:0")
    parser.add_argument("--only", default="", choices=["", *GROUPS], help="one group of rows")
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    on = Device(arguments.device)
    rows = []
    for name, group in GROUPS.items():
        if arguments.only in ("", name):
            measure.progress(f"{name} ...")
            rows += group(on)
    draw(f"{on.device.properties.name} ({on.device.properties.backend})", rows)
    if arguments.json:
        arguments.json.write_text(json.dumps([{**vars(row), "share": row.share} for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
