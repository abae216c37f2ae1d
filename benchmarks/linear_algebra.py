"""Factorizations beside a peer in the same run.

    python benchmarks/linear_algebra.py [--quick] [--only cholesky] [--json FILE]

On the stub (the default) the peers are NumPy and, where it is installed and has the function, SciPy; on another
backend PyTorch on the same GPU, which is cuSOLVER and cuBLAS or their kin. A ratio is the device's time over the
fastest peer's. On a GPU the target is 1 / 0.3.
"""

from __future__ import annotations

import argparse
import importlib.util
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

#: The function, the dtype, the shape of the matrices: one large, some of a usual size, many small ones.
PROBLEMS: tuple[tuple[str, str, tuple[int, ...]], ...] = (
    ("cholesky", "float32", (2048, 2048)),
    ("cholesky", "float64", (64, 128, 128)),
    ("cholesky", "float32", (4096, 16, 16)),
    ("triangular_solve", "float32", (2048, 2048)),
    ("triangular_solve", "float32", (64, 128, 128)),
    ("solve", "float32", (1024, 1024)),
    ("solve", "float64", (256, 64, 64)),
    ("inv", "float32", (1024, 1024)),
    ("inv", "float32", (4096, 8, 8)),
    ("det", "float64", (256, 64, 64)),
    ("qr", "float32", (1024, 512)),
    ("qr", "complex64", (64, 64, 64)),
    ("eigh", "float32", (512, 512)),
    ("eigh", "complex128", (32, 64, 64)),
    ("svd", "float32", (512, 256)),
    ("svd", "float64", (64, 48, 32)),
    ("eig", "float64", (128, 128)),
)


def values(function: str, dtype: str, shape: tuple[int, ...]) -> Any:
    generator = np.random.default_rng(1)
    x = generator.standard_normal(shape)
    x = (x + 1j * generator.standard_normal(shape) if dtype.startswith("complex") else x).astype(dtype)
    if function in ("cholesky", "eigh"):
        return (x @ np.conj(np.swapaxes(x, -1, -2)) + shape[-1] * np.eye(shape[-1])).astype(dtype)
    if function == "triangular_solve":
        return np.tril(x / shape[-1] + 2 * np.eye(shape[-1])).astype(dtype)
    return x


def device_call(function: str, a: Any, b: Any) -> Callable[[], Any]:
    if function == "cholesky":
        return lambda: ops.cholesky(a, check=False)
    if function in ("triangular_solve", "solve"):
        return lambda: getattr(ops, function)(a, b)
    return lambda: getattr(ops, function)(a)


def host_peers(function: str, a: Any, b: Any) -> dict[str, Callable[[], Any]]:
    peers: dict[str, Callable[[], Any]] = {}
    if function == "solve":
        peers["NumPy"] = lambda: np.linalg.solve(a, b)
    elif function == "svd":
        peers["NumPy"] = lambda: np.linalg.svd(a, full_matrices=False)
    elif function != "triangular_solve":
        peers["NumPy"] = lambda: getattr(np.linalg, function)(a)
    if importlib.util.find_spec("scipy") is not None:
        import scipy.linalg

        if function == "triangular_solve":
            peers["SciPy"] = lambda: (
                scipy.linalg.solve_triangular(a, b, lower=True, check_finite=False)
                if a.ndim == 2
                else [scipy.linalg.solve_triangular(x, y, lower=True, check_finite=False) for x, y in zip(a, b)]
            )
        elif function in ("cholesky", "inv", "solve") and a.ndim == 2:
            given = (a, b) if function == "solve" else (a,)
            peers["SciPy"] = lambda: getattr(scipy.linalg, function)(*given, check_finite=False)
    return peers


def device_peers(function: str, a: Any, b: Any) -> dict[str, Callable[[], Any]]:
    import torch

    x, y = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
    calls: dict[str, Callable[[], Any]] = {
        "cholesky": lambda: torch.linalg.cholesky_ex(x),
        "triangular_solve": lambda: torch.linalg.solve_triangular(x, y, upper=False),
        "solve": lambda: torch.linalg.solve(x, y),
        "svd": lambda: torch.linalg.svd(x, full_matrices=False),
    }
    return {"PyTorch": calls.get(function, lambda: getattr(torch.linalg, function)(x))}


def row(function: str, dtype: str, shape: tuple[int, ...], device: Any) -> dict[str, Any]:
    on_host = os.environ["UNIHAL_BACKEND"] == "stub"
    a = values(function, dtype, shape)
    b = values("", dtype, (*shape[:-1], shape[-1]))
    put = [unihal.Buffer.from_numpy(x, device) for x in (a, b)]
    call = device_call(function, *put)

    def ours() -> None:
        call()
        device.synchronize()

    calls: dict[str, Callable[[], Any]] = {"unihal": ours}
    peers = (host_peers if on_host else device_peers)(function, a, b)
    for name, peer_call in peers.items():
        calls[name] = peer_call
        if not on_host:
            import torch

            calls[name] = lambda p=peer_call: (p(), torch.cuda.synchronize())
    with unihal.profile() as recording:
        ours()
    seconds = measure.alternate(calls, rounds=4)
    peer = min(peers, key=lambda name: seconds[name])
    return {
        "benchmark": f"{function} {dtype} {'x'.join(map(str, shape))}",
        "unit": "us",
        "device": seconds["unihal"] * 1e6,
        "peer": seconds[peer] * 1e6,
        "peer_name": peer,
        "ratio": seconds["unihal"] / seconds[peer],
        "target": 1.0 if on_host else 1 / 0.3,
        "implementation": recording.totals[0].implementations if recording.totals else "",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only every third problem")
    parser.add_argument("--only", default="", help="only problems whose name contains this")
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    device = unihal.device(f"{DEVICE_TYPES.get(os.environ['UNIHAL_BACKEND'], 'rdna')}:0")
    rows = []
    for function, dtype, shape in PROBLEMS[::3] if arguments.quick else PROBLEMS:
        if arguments.only not in f"{function} {dtype} {'x'.join(map(str, shape))}":
            continue
        rows.append(row(function, dtype, shape, device))
        measure.report(rows[-1:])
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
