"""A device's speed beside PyTorch's on the same GPU, in the same run, dtype and math mode.

    python benchmarks/gpu.py [--device corex:0] [--only GROUP] [--tune] [--json FILE]

A ratio is our time over PyTorch's: below 1 we are faster. Both take turns, in both orders, since a GPU's clock follows
its power and its heat: shown is the median of the ratios of neighbours, and the least and the largest. Work that is
bound by memory also shows its bytes per second, products and convolutions their operations. Without PyTorch there are
no ratios. All work is submitted without waiting, and timed over many calls, so that what waits for the host shows it.
PyTorch measures cuDNN's algorithms before it chooses; with --tune ours does so too, as `unihal tune` does, for this
process and the libraries that PyTorch brought into it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import pathlib
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import measure
import numpy as np
import unihal
import unihal.tuning
from rich.console import Console
from rich.table import Table
from unihal import Buffer, ops

MEBIBYTE = 1 << 20
#: Device time for each candidate of --tune.
TUNING_SECONDS = 0.02
Call = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    group: str
    name: str
    #: Seconds of a call; 0 where there is no peer.
    ours: float
    peer: float
    #: Our time over the peer's in each round; none where there is no peer.
    ratios: tuple[float, ...]
    #: The ratio that is wanted.
    at_most: float
    #: What a call does, in 1e9 bytes or 1e12 operations.
    work: float
    unit: str

    @property
    def ratio(self) -> float:
        """Our time over the peer's."""
        return statistics.median(self.ratios) if self.ratios else 0.0


@dataclass(frozen=True)
class Convolution:
    """A layer of ResNet-50, whose images have equal sides."""

    channels: int
    filters: int
    side: int
    window: int
    stride: int = 1


#: All convolutions of ResNet-50 that differ.
RESNET50 = (
    Convolution(3, 64, 224, 7, 2),
    Convolution(64, 64, 56, 1),
    Convolution(64, 64, 56, 3),
    Convolution(64, 256, 56, 1),
    Convolution(256, 64, 56, 1),
    Convolution(256, 128, 56, 1),
    Convolution(128, 128, 56, 3, 2),
    Convolution(128, 512, 28, 1),
    Convolution(256, 512, 56, 1, 2),
    Convolution(512, 128, 28, 1),
    Convolution(128, 128, 28, 3),
    Convolution(512, 256, 28, 1),
    Convolution(256, 256, 28, 3, 2),
    Convolution(256, 1024, 14, 1),
    Convolution(512, 1024, 28, 1, 2),
    Convolution(1024, 256, 14, 1),
    Convolution(256, 256, 14, 3),
    Convolution(1024, 512, 14, 1),
    Convolution(512, 512, 14, 3, 2),
    Convolution(512, 2048, 7, 1),
    Convolution(1024, 2048, 14, 1, 2),
    Convolution(2048, 512, 7, 1),
    Convolution(512, 512, 7, 3),
)

#: Depthwise convolutions of MobileNetV2 (windows of 3x3), MobileNetV3 (5x5 too) and ConvNeXt (7x7).
DEPTHWISE = (
    Convolution(32, 32, 112, 3),
    Convolution(96, 96, 112, 3, 2),
    Convolution(144, 144, 56, 3),
    Convolution(144, 144, 56, 3, 2),
    Convolution(192, 192, 28, 3),
    Convolution(192, 192, 28, 3, 2),
    Convolution(384, 384, 14, 3),
    Convolution(576, 576, 14, 3),
    Convolution(576, 576, 14, 3, 2),
    Convolution(960, 960, 7, 3),
    Convolution(72, 72, 56, 5, 2),
    Convolution(120, 120, 28, 5),
    Convolution(96, 96, 28, 5, 2),
    Convolution(240, 240, 14, 5),
    Convolution(288, 288, 14, 5, 2),
    Convolution(576, 576, 7, 5),
    Convolution(96, 96, 56, 7),
)

#: dtype and math mode: what a row is of.
PRECISIONS = {
    "float32": ("float32", "strict"),
    "TF32": ("float32", "tf32"),
    "float16": ("float16", "strict"),
    "bfloat16": ("bfloat16", "strict"),
}


#: Batches of calls of each side: many short ones, since a card that draws its most power changes its clock within some
#: milliseconds, which the median of few ratios would show.
ROUNDS = 40

#: How often a row above what is wanted, or that near below it, is measured again, for the median of all its rounds:
#: rounds of one moment have the card's clock in common, and of hundreds of rows some are measured while it changes.
MORE_TIMES = 2
NEAR = 0.98


class Batches:
    """Calls that are submitted as a whole and waited for once."""

    def __init__(self, call: Call, wait: Call, minimum_time: float) -> None:
        self.call, self.wait = call, wait
        call()
        call()
        self.repeats = 1
        self.repeats = max(3, int(minimum_time / ROUNDS / max(self.seconds(), 1e-6)))

    def seconds(self) -> float:
        """Of one call, in one batch."""
        self.wait()
        start = time.perf_counter()
        for _ in range(self.repeats):
            self.call()
        self.wait()
        return (time.perf_counter() - start) / self.repeats


def seconds(call: Call, wait: Call, minimum_time: float = 0.05) -> float:
    """Of one call, in the best batch."""
    batches = Batches(call, wait, minimum_time)
    return min(batches.seconds() for _ in range(ROUNDS))


def seconds_of_both(
    ours: tuple[Call, Call], peer: tuple[Call, Call], minimum_time: float = 0.2
) -> tuple[float, float, tuple[float, ...]]:
    """Seconds of a call of ours and of the peer's, each in its best batch, and the ratio of each round, in which one
    follows the other: first ours, then the peer, and the other way round in the next."""
    sides = Batches(*ours, minimum_time), Batches(*peer, minimum_time)
    rounds = []
    for number in range(ROUNDS):
        taken = [0.0, 0.0]
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            taken[side] = sides[side].seconds()
        rounds.append(taken)
    mine, theirs = zip(*rounds)
    return min(mine), min(theirs), tuple(x / y for x, y in rounds)


class Bench:
    """The device under test, with PyTorch beside it if that sees a GPU."""

    def __init__(self, name: str | None, tunes: bool = False) -> None:
        self.torch = _torch()
        self.tunes = tunes
        found = unihal.devices()
        if name is None and not found:
            raise SystemExit("there is no device; `unihal doctor` says what was looked for")
        self.device = unihal.device(name) if name is not None else found[0]
        self.is_cpu = self.torch is None

    def tune(self, problem: unihal.tuning.Problem, mode: str) -> None:
        """Chooses by measurement, if that is asked for."""
        if self.tunes:
            list(unihal.tuning.tune(self.device, [replace(problem, math_mode=mode)], TUNING_SECONDS))

    def random(self, *shape: int, dtype: str = "float32") -> Buffer:
        """Normal numbers on the device."""
        made = ops.random(shape, "float32", self.device, distribution="normal", a=0.0, b=1.0, key=1)
        return made if dtype == "float32" else ops.cast(made, dtype)

    def empty(self, *shape: int, dtype: str = "float32") -> Buffer:
        """Any numbers."""
        return Buffer(shape, dtype, self.device)

    def torch_random(self, *shape: int, dtype: str = "float32") -> Any:
        """PyTorch's."""
        return self.torch.randn(*shape, device="cuda").to(getattr(self.torch, dtype))

    def row(self, group: str, name: str, work: float, unit: str, at_most: float, ours: Call, peer: Call | None) -> Row:
        """Measures both."""
        if self.torch is None or peer is None:
            return Row(group, name, seconds(ours, self.device.synchronize), 0.0, (), at_most, work, unit)
        sides = (ours, self.device.synchronize), (peer, self.torch.cuda.synchronize)
        row = Row(group, name, *seconds_of_both(*sides), at_most, work, unit)
        if row.ratio > NEAR * at_most:
            for _ in range(MORE_TIMES):
                mine, theirs, ratios = seconds_of_both(*sides)
                row = replace(row, ours=min(mine, row.ours), peer=min(theirs, row.peer), ratios=(*row.ratios, *ratios))
        return row


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.backends.cudnn.benchmark = True
    return torch


def allow_tf32(on: Bench, mode: str) -> None:
    """Of PyTorch."""
    if on.torch is not None:
        on.torch.backends.cuda.matmul.allow_tf32 = mode == "tf32"
        on.torch.backends.cudnn.allow_tf32 = mode == "tf32"


def memory_calls(on: Bench, dtype: str, rows: int, length: int) -> dict[str, tuple[float, Call]]:
    """By name how often a call goes over a matrix in memory, and the call."""
    x, y, out = (on.random(rows, length, dtype=dtype) for _ in range(3))
    scale, bias = on.random(length), on.random(length)
    labels = ops.cast(ops.multiply(ops.random((rows, 1), "float32", on.device, key=2), length - 1.0), "int64")
    statistics = ops.layer_norm(x, scale, bias)[1:]
    probabilities = ops.softmax(x)
    row = ops.cast(bias, dtype)
    gate = [("add", [0, 1], ()), ("silu", [3], ()), ("multiply", [4, 2], ())]
    return {
        "copy": (2, lambda: ops.copy(x, out=out)),
        "add": (3, lambda: ops.add(x, y, out=out)),
        "exp": (2, lambda: ops.exp(x, out=out)),
        "gelu": (2, lambda: ops.gelu_erf(x, out=out)),
        "add of a row": (2, lambda: ops.add(x, y[0], out=out)),
        "transpose": (2, lambda: ops.copy(x.T, out=out.reshape(length, rows))),
        "sum": (1, lambda: ops.sum(x)),
        "sum of rows": (1, lambda: ops.sum(x, axis=1)),
        "sum of columns": (1, lambda: ops.sum(x, axis=0)),
        "softmax": (2, lambda: ops.softmax(x, out=out)),
        "softmax backward": (3, lambda: ops.softmax_backward(probabilities, y, out=out)),
        "layer norm": (2, lambda: ops.layer_norm(x, scale, bias)),
        "layer norm backward": (3, lambda: ops.layer_norm_backward(x, y, scale, *statistics)),
        "rms norm": (2, lambda: ops.rms_norm(x, scale)),
        "cross entropy": (1, lambda: ops.cross_entropy(x, labels, loss_only=True)),
        "embedding": (2, lambda: ops.gather(x, labels.reshape(rows))),
        "chain, silu(x + row) * y": (3, lambda: ops.map_chain([x, row, y], gate, [5], out=[out])),
    }


def torch_memory_calls(on: Bench, dtype: str, rows: int, length: int) -> dict[str, Call]:
    """The same of PyTorch; nothing without it."""
    if on.torch is None:
        return {}
    torch = on.torch
    functional = torch.nn.functional
    x, y, out = (on.torch_random(rows, length, dtype=dtype) for _ in range(3))
    scale, bias = (on.torch_random(length, dtype=dtype) for _ in range(2))
    labels = torch.randint(0, length, (rows,), device="cuda")
    statistics = torch.native_layer_norm(x, [length], scale, bias, 1e-5)[1:]
    probabilities = torch.softmax(x, -1)
    mask = [True, True, True]
    return {
        "copy": lambda: out.copy_(x),
        "add": lambda: torch.add(x, y, out=out),
        "exp": lambda: torch.exp(x, out=out),
        "gelu": lambda: functional.gelu(x),
        "add of a row": lambda: torch.add(x, y[0], out=out),
        "transpose": lambda: out.reshape(length, rows).copy_(x.T),
        "sum": lambda: x.sum(),
        "sum of rows": lambda: x.sum(1),
        "sum of columns": lambda: x.sum(0),
        "softmax": lambda: torch.softmax(x, -1),
        "softmax backward": lambda: torch._softmax_backward_data(y, probabilities, -1, x.dtype),
        "layer norm": lambda: functional.layer_norm(x, [length], scale, bias),
        "layer norm backward": lambda: torch.ops.aten.native_layer_norm_backward(
            y, x, [length], *statistics, scale, bias, mask
        ),
        "rms norm": lambda: functional.rms_norm(x, [length], scale),
        "cross entropy": lambda: functional.cross_entropy(x, labels, reduction="none"),
        "embedding": lambda: functional.embedding(labels, x),
        "chain, silu(x + row) * y": lambda: functional.silu(x + bias) * y,
    }


def memory_bound(on: Bench) -> Iterator[Row]:
    """Elementwise work, reductions, norms, losses, optimizers and embeddings: rows of 1024."""
    size = (16 if on.is_cpu else 256) * MEBIBYTE
    length = 1024
    for dtype, width in (("float32", 4), ("bfloat16", 2)):
        shape = size // width // length, length
        peers = torch_memory_calls(on, dtype, *shape)
        for name, (passes, call) in memory_calls(on, dtype, *shape).items():
            most = 0.6 if name.startswith("chain") else 1.0
            yield on.row("memory", f"{name}, {dtype}", passes * size / 1e9, "GB/s", most, call, peers.get(name))
    yield from optimizers(on, size // 4)


def sampling(on: Bench) -> Iterator[Row]:
    """Images turned by some degrees, and the gradients; bytes are those of images, places and results, each once."""
    count, channels, side = (1, 8, 64) if on.is_cpu else (16, 64, 256)
    angle, line = 0.2, np.linspace(-1, 1, side, dtype=np.float32)
    across, down = np.meshgrid(line, line)
    turned = [np.cos(angle) * across - np.sin(angle) * down, np.sin(angle) * across + np.cos(angle) * down]
    places = np.broadcast_to(np.stack(turned, -1), (count, side, side, 2)).astype(np.float32)
    shape = (count, channels, side, side)
    grid = Buffer.from_numpy(places, on.device)
    x, dy = on.random(*shape), on.random(*shape)
    y, dx, dgrid = on.empty(*shape), on.empty(*shape), on.empty(*places.shape)
    peers: list[Call | None] = [None, None, None]
    if on.torch is not None:
        their_x, their_dy, their_grid = on.torch_random(*shape), on.torch_random(*shape), on.torch.tensor(places).cuda()
        forward = on.torch.nn.functional.grid_sample

        def gradient(*mask: bool) -> Any:
            return on.torch.ops.aten.grid_sampler_2d_backward(their_dy, their_x, their_grid, 0, 0, False, mask)

        peers = [
            lambda: forward(their_x, their_grid, align_corners=False),
            lambda: gradient(True, False),
            lambda: gradient(False, True),
        ]
    image_bytes, place_bytes = 4 * count * channels * side**2, places.nbytes
    for name, passes, more, call, peer in (
        ("grid_sample", 2, 1, lambda: ops.grid_sample(x, grid, out=y), peers[0]),
        ("its gradient of images", 2, 1, lambda: ops.grid_sample_backward_data(dy, grid, shape, out=dx), peers[1]),
        ("its gradient of places", 2, 2, lambda: ops.grid_sample_backward_grid(dy, x, grid, out=dgrid), peers[2]),
    ):
        work = (passes * image_bytes + more * place_bytes) / 1e9
        yield on.row("sampling", f"{name}, {'x'.join(map(str, shape))}, float32", work, "GB/s", 1.0, call, peer)
    yield from resampling(on)
    yield from regions(on)


def resampling(on: Bench) -> Iterator[Row]:
    """Images halved with antialiasing, along one axis after the other; bytes are those of images and results."""
    count, channels, side = (1, 8, 64) if on.is_cpu else (16, 64, 256)
    x, between = on.random(count, channels, side, side), on.empty(count, channels, side // 2, side)
    y = on.empty(count, channels, side // 2, side // 2)
    first = Buffer.from_numpy(np.arange(side // 2, dtype=np.int32) * 2 - 1, on.device)
    weights = Buffer.from_numpy(np.tile(np.array([1, 3, 3, 1], np.float32) / 8, (side // 2, 1)), on.device)
    peer: Call | None = None
    if on.torch is not None:
        theirs, resize = on.torch_random(*x.shape), on.torch.nn.functional.interpolate
        peer = lambda: resize(theirs, size=(side // 2, side // 2), mode="bilinear", antialias=True)  # noqa: E731

    def halve() -> None:
        ops.resample(x, first, weights, 2, out=between)
        ops.resample(between, first, weights, 3, out=y)

    work = 4 * count * channels * (side**2 + (side // 2) ** 2) / 1e9
    yield on.row(
        "sampling", f"resample by 1/2, {count}x{channels}x{side}x{side}, float32", work, "GB/s", 1.0, halve, peer
    )


def regions(on: Bench) -> Iterator[Row]:
    """Regions of feature maps and their gradient, bytes of maps and results; suppression of boxes in disorder."""
    images, channels, side, count = (1, 8, 32, 20) if on.is_cpu else (2, 256, 64, 512)
    generator = np.random.default_rng(0)

    def boxes_in(count: int, side: int) -> Buffer:
        low = generator.uniform(0, 0.6, (count, 2)) * side
        size = generator.uniform(0.1, 0.4, (count, 2)) * side
        return Buffer.from_numpy(np.concatenate([low, low + size], axis=1).astype(np.float32), on.device)

    x, dx = on.random(images, channels, side, side), on.empty(images, channels, side, side)
    y, boxes = on.random(count, channels, 7, 7), boxes_in(count, side)
    numbers = Buffer.from_numpy(np.arange(count, dtype=np.int32) % images, on.device)
    work = 4 * channels * (images * side**2 + count * 49) / 1e9
    for name, call in (
        ("roi_align", lambda: ops.roi_align(x, boxes, numbers, 7, out=y)),
        ("its gradient", lambda: ops.roi_align_backward(y, boxes, numbers, x.shape, out=dx)),
    ):
        title = f"{name}, {count} of 7x7 in {images}x{channels}x{side}x{side}, float32"
        yield on.row("sampling", title, work, "GB/s", 1.0, call, None)
    many = 256 if on.is_cpu else 8192
    all_boxes, keep = boxes_in(many, 1000), Buffer((many,), "bool", on.device)
    suppress = lambda: ops.non_max_suppression(all_boxes, 0.5, out=keep)  # noqa: E731
    yield on.row("sampling", f"non_max_suppression of {many}", many / 1e6, "M/s", 1.0, suppress, None)


def optimizers(on: Bench, count: int) -> Iterator[Row]:
    """A step of AdamW on one large parameter; PyTorch's fused one."""
    parameter, gradient, first, second = (on.random(count) for _ in range(4))
    second = ops.square(second)
    scalars = [Buffer.from_numpy(measure.scalar(value), on.device) for value in (1e-3, 0.9, 0.999)]
    peer = None
    if on.torch is not None:
        p = on.torch.nn.Parameter(on.torch_random(count))
        p.grad = on.torch_random(count)
        peer = on.torch.optim.AdamW([p], fused=True).step

    def step() -> None:
        ops.adam(
            parameter,
            gradient,
            first,
            second,
            *scalars,
            parameters=(0.9, 0.999, 1e-8, 0.01, 1.0),
            out=(parameter, first, second),
        )

    yield on.row("memory", "AdamW step, float32", 7 * 4 * count / 1e9, "GB/s", 1.0, step, peer)


def products(on: Bench) -> Iterator[Row]:
    """Matrix products, with a bias and an activation, and batched."""
    for precision, (dtype, mode) in PRECISIONS.items():
        allow_tf32(on, mode)
        for n in (256,) if on.is_cpu else (512, 1024, 2048, 4096, 8192):
            if n == 8192 and precision == "float32":
                continue
            a, b, out = (on.random(n, n, dtype=dtype) for _ in range(3))
            peer = None
            if on.torch is not None:
                p, q, r = (on.torch_random(n, n, dtype=dtype) for _ in range(3))
                peer = partial(on.torch.matmul, p, q, out=r)
            call = partial(ops.matmul, a, b, out=out, math_mode=mode)
            on.tune(unihal.tuning.MatrixProduct.parse(f"{n}x{n}x{n}", "nn", dtype), mode)
            yield on.row("products", f"{n}, {precision}", 2 * n**3 / 1e12, "TFLOP/s", 1.03, call, peer)
        yield from fused_products(on, precision)


def fused_products(on: Bench, precision: str) -> Iterator[Row]:
    """BERT's feed-forward layer with its gelu, and the products of its attention."""
    dtype, mode = PRECISIONS[precision]
    m, k, n = (64, 64, 256) if on.is_cpu else (2048, 768, 3072)
    x, w, bias, out = (on.random(*s, dtype=dtype) for s in ((m, k), (n, k), (n,), (m, n)))
    heads, length, width = (2, 16, 16) if on.is_cpu else (192, 128, 64)
    s, t = (on.random(heads, length, width, dtype=dtype) for _ in range(2))
    peers: list[Call | None] = [None, None]
    if on.torch is not None:
        functional = on.torch.nn.functional
        tx, tw, tb = (on.torch_random(*shape, dtype=dtype) for shape in ((m, k), (n, k), (n,)))
        ts, tt = (on.torch_random(heads, length, width, dtype=dtype) for _ in range(2))
        peers = [
            lambda: functional.gelu(functional.linear(tx, tw, tb)),
            lambda: on.torch.bmm(ts, tt.transpose(1, 2)),
        ]
    gelu = partial(ops.matmul, x, w.T, bias, activation="gelu_erf", out=out, math_mode=mode)
    batched = partial(ops.matmul, s, t.transpose(0, 2, 1), math_mode=mode)
    work = 2 * m * k * n / 1e12
    yield on.row("products", f"{m}x{k}x{n}, bias, gelu, {precision}", work, "TFLOP/s", 1.03, gelu, peers[0])
    work = 2 * heads * length * length * width / 1e12
    yield on.row(
        "products", f"{heads} of {length}x{width}x{length}, {precision}", work, "TFLOP/s", 1.03, batched, peers[1]
    )


def convolution_calls(
    on: Bench, layer: Convolution, batch: int, precision: str, groups: int = 1, layout: str = "nhwc", **stream: Any
) -> dict[str, tuple[Call, Call | None]]:
    """The forward pass and both gradients of a layer: ours, and PyTorch's or None."""
    dtype, mode = PRECISIONS[precision]
    padding, side = layer.window // 2, (layer.side - 1) // layer.stride + 1
    shapes = (
        (batch, layer.channels, layer.side, layer.side),
        (layer.filters, layer.channels // groups, layer.window, layer.window),
        (batch, layer.filters, side, side),
    )

    def placed(shape: tuple[int, ...], make: Callable[..., Buffer]) -> Buffer:
        n, c, h, w = shape
        if layout == "nchw":
            return make(*shape, dtype=dtype)
        return make(n, h, w, c, dtype=dtype).transpose(0, 3, 1, 2)

    x, w, dy = (placed(shape, on.random) for shape in shapes)
    dx, dw, y = (placed(shape, on.empty) for shape in shapes)
    options: dict[str, Any] = {"stride": layer.stride, "padding": padding, "math_mode": mode, "groups": groups}
    options |= stream
    ours: dict[str, Call] = {
        "forward": lambda: ops.convolution(x, w, out=y, **options),
        "backward data": lambda: ops.convolution_backward_data(dy, w, shapes[0], out=dx, **options),
        "backward filter": lambda: ops.convolution_backward_filter(x, dy, shapes[1], out=dw, **options),
    }
    peers: dict[str, Call] = {}
    if on.torch is not None:
        torch = on.torch
        form = torch.channels_last if layout == "nhwc" else torch.contiguous_format
        tx, tw, ty = (on.torch_random(*shape, dtype=dtype).to(memory_format=form) for shape in shapes)

        def gradient(*mask: bool) -> Any:
            place = ([layer.stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups)
            return torch.ops.aten.convolution_backward(ty, tx, tw, None, *place, mask)

        peers = {
            "forward": lambda: torch.nn.functional.conv2d(tx, tw, None, layer.stride, padding, 1, groups),
            "backward data": lambda: gradient(True, False, False),
            "backward filter": lambda: gradient(False, True, False),
        }
    return {name: (call, peers.get(name)) for name, call in ours.items()}


def convolutions(on: Bench) -> Iterator[Row]:
    """The layers of ResNet-50 and their gradients; the first layer needs no gradient of its image."""
    batch, layers = (1, RESNET50[2:3]) if on.is_cpu else (64, RESNET50)
    for precision in ("float32", "TF32", "bfloat16"):
        allow_tf32(on, PRECISIONS[precision][1])
        for layer in layers:
            side = layer.side // layer.stride
            work = 2 * batch * layer.filters * side * side * layer.channels * layer.window**2 / 1e12
            shape = f"{layer.window}x{layer.window}/{layer.stride}, {layer.channels} to {layer.filters} on {layer.side}"
            lengths = f"n{batch} c{layer.channels} h{layer.side} w{layer.side} k{layer.filters}"
            window = f"{layer.window}x{layer.window} s{layer.stride} p{layer.window // 2} nhwc ohwi"
            for problem in unihal.tuning.Convolution.parse(f"{lengths} {window}", PRECISIONS[precision][0]):
                on.tune(problem, PRECISIONS[precision][1])
            for name, (call, peer) in convolution_calls(on, layer, batch, precision).items():
                if layer.channels == 3 and name == "backward data":
                    continue
                yield on.row("convolutions", f"{shape}, {name}, {precision}", work, "TFLOP/s", 1.05, call, peer)


#: Ops of the chain that is launched one by one, and as a graph.
CHAIN = 100


def torch_graph(on: Bench, chain: Call) -> Any:
    """PyTorch's graph of a chain that ran before."""
    graph = on.torch.cuda.CUDAGraph()
    with on.torch.cuda.graph(graph):
        chain()
    return graph


#: Convolutions of a graph, so that none of them waits for the host.
REPEATED = 20


def repeated(call: Call) -> None:
    """The calls of a graph."""
    for _ in range(REPEATED):
        call()


def depthwise(on: Bench) -> Iterator[Row]:
    """Convolutions of a channel each, of 32 images: the time of one in a graph of several, by which small operands lie
    in the device's cache, on both sides."""
    batch, layers = (1, DEPTHWISE[9:10]) if on.is_cpu else (32, DEPTHWISE)
    stream = unihal.Stream(on.device)
    for precision, layout in itertools.product(("float32", "bfloat16", "float16"), ("nchw", "nhwc")):
        allow_tf32(on, PRECISIONS[precision][1])
        for layer in layers:
            side = (layer.side - 1) // layer.stride + 1
            size = 4 if precision == "float32" else 2
            work = batch * layer.channels * (layer.side**2 + side**2) * size / 1e9
            shape = f"{layer.window}x{layer.window}/{layer.stride}, {layer.channels} on {layer.side}"
            calls = convolution_calls(on, layer, batch, precision, layer.channels, layout, stream=stream)
            for name, (call, peer) in calls.items():
                on.device.synchronize()
                call()
                peer_graph = None
                if peer is not None:
                    peer()
                    peer_graph = torch_graph(on, partial(repeated, peer)).replay
                try:
                    with unihal.capture(stream) as graph:
                        repeated(call)
                except unihal.UnimplementedError:
                    return
                with graph:
                    title = f"{shape}, {name}, {precision} {layout}"
                    row = on.row("depthwise", title, work, "GB/s", 1.0, graph.replay, peer_graph)
                yield replace(row, ours=row.ours / REPEATED, peer=row.peer / REPEATED)


def chains(on: Bench) -> Iterator[Row]:
    """Small ops one after the other, and the same as a graph."""
    stream = unihal.Stream(on.device)
    x, y = (on.random(16) for _ in range(2))
    on.device.synchronize()

    def ours() -> None:
        for _ in range(CHAIN):
            ops.add(x, y, out=x, stream=stream)

    peer = peer_graph = None
    if on.torch is not None:
        p, q = (on.torch_random(16) for _ in range(2))

        def theirs() -> None:
            for _ in range(CHAIN):
                on.torch.add(p, q, out=p)

        peer = theirs
    yield on.row("launches", f"{CHAIN} adds of 16 elements", 1e-6, "us", 1.0, ours, peer)
    try:
        with unihal.capture(stream) as graph:
            ours()
    except unihal.UnimplementedError:
        return
    if peer is not None:
        peer_graph = torch_graph(on, peer).replay
    with graph:
        yield on.row("launches", f"{CHAIN} adds of 16 elements, as a graph", 1e-6, "us", 1.0, graph.replay, peer_graph)


def launches(on: Bench) -> Iterator[Row]:
    """What the host needs for an op."""
    x, y, out = (on.random(16) for _ in range(3))
    peer = None
    if on.torch is not None:
        p, q, r = (on.torch_random(16) for _ in range(3))
        peer = partial(on.torch.add, p, q, out=r)
    yield on.row("launches", "add of 16 elements", 1e-6, "us", 1.0, lambda: ops.add(x, y, out=out), peer)
    yield from chains(on)


GROUPS = {
    "launches": launches,
    "memory": memory_bound,
    "sampling": sampling,
    "products": products,
    "convolutions": convolutions,
    "depthwise": depthwise,
}


def draw(title: str, rows: list[Row]) -> None:
    table = Table(title=title)
    for column in ("work", "ours", "rate", "PyTorch", "ratio", "from", "to", "at most"):
        table.add_column(column, justify="left" if column == "work" else "right")
    for row in rows:
        table.add_row(
            row.name,
            f"{row.ours * 1e6:.1f} us",
            f"{row.work / row.ours:.4g} {row.unit}" if row.unit != "us" else "",
            f"{row.peer * 1e6:.1f} us" if row.peer else "",
            *(
                f"{x:.2f}" if row.ratios else ""
                for x in (row.ratio, min(row.ratios, default=0), max(row.ratios, default=0))
            ),
            f"{row.at_most:g}",
            style="yellow" if row.ratio > row.at_most else "",
        )
    Console(width=130).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="as in rdna:0; the first one if none is named")
    parser.add_argument("--only", default="", choices=["", *GROUPS], help="one group of rows")
    parser.add_argument("--tune", action="store_true", help="measure products and convolutions, and choose, before")
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    on = Bench(arguments.device, arguments.tune)
    rows: list[Row] = []
    for name, group in GROUPS.items():
        if arguments.only in ("", name):
            measure.progress(f"{name} ...")
            rows += group(on)
    draw(f"{on.device.properties.name} ({on.device.properties.backend})", rows)
    if arguments.json:
        lines = [{**asdict(row), "ratio": row.ratio} for row in rows]
        arguments.json.write_text(json.dumps(lines, indent=1) + "\n")


if __name__ == "__main__":
    main()
