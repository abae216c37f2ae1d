"""Special functions beside a peer in the same run.

    python benchmarks/special.py [--only NAME] [--json FILE]

On the stub (the default) the peer is SciPy, on another backend PyTorch on the same GPU. A ratio is the device's time
over the peer's.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import measure
import numpy as np

os.environ.setdefault("UNIHAL_BACKEND", "stub")
import unihal
from unihal import ops

DEVICE_TYPES = {"opencl": "polaris", "corex": "iluvatar"}

#: SciPy's name, PyTorch's (empty: none) and the ranges of the operands.
FUNCTIONS: dict[str, tuple[str, str, tuple[tuple[float, float], ...]]] = {
    "lgamma": ("gammaln", "gammaln", ((0.1, 30),)),
    "digamma": ("digamma", "digamma", ((0.1, 30),)),
    "zeta": ("zeta", "zeta", ((1.1, 8), (0.1, 30))),
    "igamma": ("gammainc", "gammainc", ((0.1, 30), (0.1, 30))),
    "igammac": ("gammaincc", "gammaincc", ((0.1, 30), (0.1, 30))),
    "bessel_i0": ("i0", "i0", ((-30, 30),)),
    "bessel_i0e": ("i0e", "i0e", ((-30, 30),)),
    "bessel_i1": ("i1", "i1", ((-30, 30),)),
    "bessel_i1e": ("i1e", "i1e", ((-30, 30),)),
    "erfinv": ("erfinv", "erfinv", ((-1, 1),)),
    "ndtri": ("ndtri", "ndtri", ((0, 1),)),
}


def row(name: str, dtype: str, device: Any) -> dict[str, Any]:
    on_host = os.environ["UNIHAL_BACKEND"] == "stub"
    count = 200_000 if on_host else 1 << 24
    scipy_name, torch_name, ranges = FUNCTIONS[name]
    generator = np.random.default_rng(1)
    operands = [generator.uniform(low, high, count).astype(dtype) for low, high in ranges]
    buffers = [unihal.Buffer.from_numpy(x, device) for x in operands]
    out = getattr(ops, name)(*buffers)

    def ours() -> None:
        getattr(ops, name)(*buffers, out=out)
        device.synchronize()

    peer: Callable[[], Any]
    if on_host:
        import scipy.special

        peer_name = "SciPy"
        peer = lambda: getattr(scipy.special, scipy_name)(*operands)  # noqa: E731
    else:
        import torch

        peer_name = "PyTorch"
        tensors = [torch.from_numpy(x).cuda() for x in operands]

        def peer() -> None:
            getattr(torch.special, torch_name)(*tensors)
            torch.cuda.synchronize()

    seconds = measure.alternate({"unihal": ours, "peer": peer}, rounds=4)
    return {
        "benchmark": f"{name} {dtype}",
        "unit": "ns an element",
        "device": seconds["unihal"] / count * 1e9,
        "peer": seconds["peer"] / count * 1e9,
        "peer_name": peer_name,
        "ratio": seconds["unihal"] / seconds["peer"],
        "target": 1.0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only functions whose name contains this")
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    device = unihal.device(f"{DEVICE_TYPES.get(os.environ['UNIHAL_BACKEND'], 'rdna')}:0")
    rows = []
    for name in FUNCTIONS:
        for dtype in ("float32", "float64"):
            if arguments.only in name:
                rows.append(row(name, dtype, device))
                measure.report(rows[-1:])
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
