"""Fourier transforms beside a peer in the same run.

    python benchmarks/fourier.py [--quick] [--json FILE]

On the stub (the default) the peers are NumPy and, where it is installed, SciPy with as many workers as there are cores;
on another backend PyTorch on the same GPU, which is cuFFT or rocFFT. A ratio is the device's time over the fastest
peer's. On a GPU the target is 1 / 0.6.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
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

#: Form, dtype, shape, axes: powers of two, mixed and large primes, few and many lines, long ones, several axes.
PROBLEMS: tuple[tuple[str, str, tuple[int, ...], tuple[int, ...]], ...] = (
    ("fft", "complex64", (4096, 64), (1,)),
    ("fft", "complex64", (1024, 1024), (1,)),
    ("fft", "complex64", (256, 4096), (1,)),
    ("fft", "complex64", (1024, 1000), (1,)),
    ("fft", "complex64", (1024, 1009), (1,)),
    ("fft", "complex64", (1, 1 << 20), (1,)),
    ("fft", "complex64", (1, 1000003), (1,)),
    ("fft", "complex64", (1024, 1024), (0,)),
    ("fft", "complex64", (8, 256, 256), (1, 2)),
    ("fft", "complex64", (64, 64, 64), (0, 1, 2)),
    ("fft", "complex128", (1024, 1024), (1,)),
    ("rfft", "float32", (1024, 1024), (1,)),
    ("rfft", "float32", (8, 512, 512), (1, 2)),
    ("rfft", "float32", (1, 1 << 20), (1,)),
    ("irfft", "complex64", (1024, 513), (1,)),
    ("irfft", "complex64", (8, 512, 257), (1, 2)),
)
LARGE: tuple[tuple[str, str, tuple[int, ...], tuple[int, ...]], ...] = (
    ("fft", "complex64", (16384, 1024), (1,)),
    ("fft", "complex64", (4096, 4096), (1,)),
    ("fft", "complex64", (1, 1 << 24), (1,)),
    ("fft", "complex64", (16, 1024, 1024), (1, 2)),
    ("fft", "complex64", (256, 256, 256), (0, 1, 2)),
    ("rfft", "float32", (16384, 2048), (1,)),
    ("fft", "complex128", (16384, 512), (1,)),
)


def values(dtype: str, shape: tuple[int, ...]) -> Any:
    generator = np.random.default_rng(1)
    x = generator.standard_normal(shape)
    return (x + 1j * generator.standard_normal(shape) if dtype.startswith("complex") else x).astype(dtype)


def host_peers(form: str, x: Any, axes: tuple[int, ...]) -> dict[str, Callable[[], Any]]:
    peers = {"NumPy": lambda: getattr(np.fft, f"{form}n")(x, axes=axes)}
    if importlib.util.find_spec("scipy") is not None:
        import scipy.fft

        workers = int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)
        peers["SciPy"] = lambda: getattr(scipy.fft, f"{form}n")(x, axes=axes, workers=workers)
    return peers


def device_peers(form: str, x: Any, axes: tuple[int, ...]) -> dict[str, Callable[[], Any]]:
    import torch

    on_device = torch.from_numpy(x).cuda()

    def call() -> None:
        getattr(torch.fft, f"{form}n")(on_device, dim=axes)

    return {"PyTorch": call}


def repeated(call: Callable[[], Any], finish: Callable[[], Any], times: int) -> Callable[[], Any]:
    """So many calls and one wait: what a device takes, not what a launch takes."""

    def several() -> None:
        for _ in range(times):
            call()
        finish()

    return several


def row(form: str, dtype: str, shape: tuple[int, ...], axes: tuple[int, ...], device: Any) -> dict[str, Any]:
    on_host = os.environ["UNIHAL_BACKEND"] == "stub"
    x = values(dtype, shape)
    buffer = unihal.Buffer.from_numpy(x, device)
    out = getattr(ops, form)(buffer, axes=axes)
    calls: dict[str, Callable[[], Any]] = {"unihal": lambda: getattr(ops, form)(buffer, axes=axes, out=out)}
    finish: dict[str, Callable[[], Any]] = {"unihal": device.synchronize}
    peers = (host_peers if on_host else device_peers)(form, x, axes)
    for name, call in peers.items():
        calls[name] = call
        finish[name] = lambda: None
        if not on_host:
            import torch

            finish[name] = torch.cuda.synchronize
    times = 1 if on_host else 20
    seconds = measure.alternate({name: repeated(call, finish[name], times) for name, call in calls.items()}, rounds=4)
    peer = min(peers, key=lambda name: seconds[name])
    signal = out if form == "irfft" else buffer
    elements = math.prod(signal.shape)
    flops = (5 if form == "fft" else 2.5) * elements * math.log2(math.prod(signal.shape[axis] for axis in axes))
    with unihal.profile() as recording:
        getattr(ops, form)(buffer, axes=axes, out=out)
        device.synchronize()
    return {
        "benchmark": f"{form} {dtype} {'x'.join(map(str, shape))} axes {','.join(map(str, axes))}",
        "unit": "us",
        "device": seconds["unihal"] / times * 1e6,
        "peer": seconds[peer] / times * 1e6,
        "peer_name": peer,
        "ratio": seconds["unihal"] / seconds[peer],
        "target": 1.0 if on_host else 1 / 0.6,
        "gigaflops": flops / (seconds["unihal"] / times) / 1e9,
        "implementation": recording.totals[0].implementations if recording.totals else "",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only every third of the small problems")
    parser.add_argument("--only", default="", help="only problems whose name contains this")
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    backend = os.environ["UNIHAL_BACKEND"]
    device = unihal.device(f"{DEVICE_TYPES.get(backend, 'rdna')}:0")
    problems = PROBLEMS[::3] if arguments.quick else PROBLEMS if backend == "stub" else PROBLEMS + LARGE
    rows = []
    for form, dtype, shape, axes in problems:
        if arguments.only not in f"{form} {dtype} {'x'.join(map(str, shape))}":
            continue
        rows.append(row(form, dtype, shape, axes, device))
        measure.report(rows[-1:])
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
