"""Attention, forward and with its gradient, against PyTorch's scaled_dot_product_attention on the same GPU.

    python benchmarks/attention.py [--device iluvatar:0] [--length 2048] [--head 64] [--dtype bfloat16] [--json FILE]

Times are of whole calls, many submitted at once; a ratio is our time over PyTorch's, as gpu.py measures it: below 1 we
are faster. Rates count two floating-point operations for each multiplication that attention is defined by, half of them
with causal masks, and two and a half times the forward pass' for the gradient. Short rows' results are first compared
with PyTorch's: the largest difference, relative to the largest number of PyTorch's. Without PyTorch ours stand alone.
"""

from __future__ import annotations

import argparse
import itertools
import json
import pathlib
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import gpu
import measure
import numpy as np
import unihal
from rich.console import Console
from rich.table import Table
from unihal import Buffer, ops

BATCH, HEADS = 4, 16
LENGTHS = (512, 1024, 2048, 4096, 8192)
#: Beyond this length, results are not compared: the numbers would take longer to travel than to compute.
MOST_COMPARED = 1024


@dataclass(frozen=True)
class Row:
    """One problem. Times are in seconds, PyTorch's 0 without it."""

    dtype: str
    head: int
    length: int
    causal: bool
    gradient: bool
    ours: float
    peer: float
    difference: float
    #: Our time over PyTorch's in each round; none without it.
    ratios: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Our time over PyTorch's."""
        return statistics.median(self.ratios) if self.ratios else 0.0

    @property
    def operations(self) -> float:
        """Of one call."""
        forward = 4.0 * BATCH * HEADS * self.length**2 * self.head * (0.5 if self.causal else 1)
        return forward * (3.5 if self.gradient else 1)


class Problem:
    """The operands of one size on both sides."""

    def __init__(self, device: unihal.Device, torch: Any, dtype: str, head: int, length: int) -> None:
        self.device, self.torch, self.length = device, torch, length
        shape = (BATCH, HEADS, length, head)
        if self.is_compared:
            generator = np.random.default_rng(length)
            arrays = [generator.standard_normal(shape, np.float32) for _ in range(4)]
            self.own = [ops.cast(Buffer.from_numpy(array, device), dtype) for array in arrays]
        else:
            self.own = [ops.random(shape, dtype, device, distribution="normal", b=1.0, key=key) for key in range(4)]
        self.peer = []
        if torch is not None:
            kind = getattr(torch, dtype)
            if self.is_compared:
                self.peer = [torch.from_numpy(array).cuda().to(kind) for array in arrays]
            else:
                self.peer = [torch.randn(shape, device="cuda", dtype=kind) for _ in range(4)]
            for operand in self.peer[:3]:
                operand.requires_grad_(True)

    @property
    def is_compared(self) -> bool:
        return self.torch is not None and self.length <= MOST_COMPARED

    def run(self, causal: bool, gradient: bool) -> list[Buffer]:
        q, k, v, dy = self.own
        y, total = ops.attention(q, k, v, causal=causal)
        return list(ops.attention_backward(q, k, v, None, y, total, dy, causal=causal)) if gradient else [y]

    def run_peer(self, causal: bool, gradient: bool) -> list[Any]:
        q, k, v, dy = self.peer
        with self.torch.set_grad_enabled(gradient):
            y = self.torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return list(self.torch.autograd.grad(y, (q, k, v), dy)) if gradient else [y]

    def difference(self, causal: bool, gradient: bool) -> float:
        """Of all results, relative to the largest number of PyTorch's."""
        if not self.is_compared:
            return 0.0
        differences = []
        for ours, theirs in zip(self.run(causal, gradient), self.run_peer(causal, gradient)):
            expected = theirs.float().cpu().numpy()
            found = ops.cast(ours, "float32").numpy()
            differences.append(float(np.max(np.abs(found - expected)) / np.max(np.abs(expected))))
        return max(differences)

    def row(self, dtype: str, head: int, causal: bool, gradient: bool, seconds: float) -> Row:
        def side(call: Callable[[bool, bool], Any], wait: Callable[[], Any]) -> tuple[Callable[[], Any], Any]:
            return partial(call, causal, gradient), wait

        difference = self.difference(causal, gradient)
        own = side(self.run, self.device.synchronize)
        times: tuple[float, float, tuple[float, ...]]
        if self.torch is None:
            times = gpu.seconds(*own, seconds), 0.0, ()
        else:
            times = gpu.seconds_of_both(own, side(self.run_peer, self.torch.cuda.synchronize), seconds)
        ours, peer, ratios = times
        return Row(dtype, head, self.length, causal, gradient, ours, peer, difference, ratios)


def draw(title: str, rows: list[Row]) -> None:
    table = Table(title=title)
    names = ("dtype", "head", "length", "causal", "pass", "ours, ms", "TFLOP/s", "PyTorch, ms", "ratio", "difference")
    for name in names:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row.dtype, str(row.head), str(row.length), "yes" if row.causal else "no",
            "with gradient" if row.gradient else "forward", f"{row.ours * 1e3:.3f}",
            f"{row.operations / row.ours / 1e12:.0f}", f"{row.peer * 1e3:.3f}" if row.peer else "-",
            f"{row.ratio:.2f}" if row.peer else "-", f"{row.difference:.1e}" if row.difference else "-",
        )  # fmt: skip
    Console(width=140).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="default: the first that is found")
    parser.add_argument("--length", type=int, action="append", help=f"default: {LENGTHS}")
    parser.add_argument("--head", type=int, action="append", help="features of a head; default: 64 and 128")
    parser.add_argument("--dtype", action="append", choices=["bfloat16", "float16"], help="default: both")
    parser.add_argument("--causal", choices=["yes", "no", "both"], default="both")
    parser.add_argument("--seconds", type=float, default=0.1, help="for each time")
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    bench = gpu.Bench(arguments.device)
    device, torch = bench.device, bench.torch
    rows = []
    for dtype, head, length in itertools.product(
        arguments.dtype or ("bfloat16", "float16"), arguments.head or (64, 128), arguments.length or LENGTHS
    ):
        measure.progress(f"{dtype}, heads of {head}, length {length} ...")
        problem = Problem(device, torch, dtype, head, length)
        for causal in {"yes": (True,), "no": (False,), "both": (True, False)}[arguments.causal]:
            for gradient in (False, True):
                rows.append(problem.row(dtype, head, causal, gradient, arguments.seconds))
    draw(f"Attention, {BATCH} x {HEADS} heads: {device.properties.name} ({device.properties.backend})", rows)
    if arguments.json:
        found = [asdict(row) | {"ratio": row.ratio, "teraflops": row.operations / row.ours / 1e12} for row in rows]
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
