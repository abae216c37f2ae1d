"""Numbers of few bits, and distributions with parameters, beside a peer in the same run.

    python benchmarks/low_precision.py [--quick] [--only "weights"] [--json FILE]

On the stub (the default) the peer is NumPy: of products with quantized weights the product with weights that are
float32 already, which needs no dequantization; of int8 products and convolutions the same in float32. On another
backend the products with weights of few bits are compared with the time in which a sum of float32 numbers reads as many
bytes as the weights and scales have: the target is 1 / 0.7. Both are replayed from graphs that go through more memory
than caches hold, so that neither the host nor a cache is measured. share_of_bandwidth is of what the device reports (or
--bandwidth says, in GB/s).
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import measure
import ml_dtypes
import numpy as np

os.environ.setdefault("UNIHAL_BACKEND", "stub")
import unihal
from unihal import ops

DEVICE_TYPES = {"opencl": "polaris", "corex": "iluvatar"}

#: Rows of a, k, n, bits, block size, dtype of activations and scales.
WEIGHTS = (
    (1, 4096, 11008, 4, 32, "float16"),
    (1, 8192, 28672, 4, 128, "float16"),
    (1, 4096, 11008, 8, 0, "float16"),
    (1, 4096, 4096, 4, 32, "float32"),
    (4, 4096, 11008, 4, 32, "float16"),
    (256, 4096, 4096, 4, 32, "float32"),
)
COUNT = 1 << 20
_RANDOM = np.random.default_rng(1)


def put(array: Any, device: Any) -> unihal.Buffer:
    return unihal.Buffer.from_numpy(np.ascontiguousarray(array), device)


#: Bytes that a replay goes through: no cache holds them.
MANY_BYTES = 256 << 20


def few_bits(problem: tuple[Any, ...], device: Any) -> tuple[tuple[Any, Any, Any], dict[str, Any]]:
    """Operands of a product with weights of few bits, and how ops.matmul_quantized takes them."""
    m, k, n, bits, block, dtype = problem
    rows = k * bits // 8
    blocks = k // block if block else 1
    a = _RANDOM.standard_normal((m, k)).astype(dtype)
    b = _RANDOM.integers(0, 256, (n, rows), dtype=np.uint8)
    scales = _RANDOM.uniform(0.01, 0.02, (n, blocks)).astype(dtype)
    a, b, scales = (put(x, device) for x in (a, b, scales))
    out = unihal.Buffer((m, n), dtype, device)
    return (a, b, scales), {"bits": bits, "block_size": block, "zero_point": 8.0 if bits == 4 else 128.0, "out": out}


def name_of(problem: tuple[Any, ...]) -> str:
    m, k, n, bits, block, dtype = problem
    return f"weights {bits} bits by {block or 'channel'} {m}x{k}x{n} {dtype}"


def weights(problem: tuple[Any, ...], device: Any) -> tuple[str, Callable[[], Any], dict[str, Callable[[], Any]]]:
    """Name, ours and peers on the host."""
    (a, b, scales), how = few_bits(problem, device)

    def ours() -> None:
        ops.matmul_quantized(a, b.T, scales.T, **how)
        device.synchronize()

    _, k, n, *_ = problem
    dense = _RANDOM.standard_normal((n, k), dtype=np.float32)
    wide = a.numpy().astype(np.float32)
    return name_of(problem), ours, {"NumPy, float32 weights": lambda: wide @ dense.T}


def on_host() -> bool:
    return os.environ["UNIHAL_BACKEND"] == "stub"


def others(device: Any) -> list[tuple[str, Callable[[], Any], dict[str, Callable[[], Any]]]]:
    """Name, ours and peers."""
    a = _RANDOM.integers(-128, 128, (512, 1024)).astype(np.int8)
    b = _RANDOM.integers(-128, 128, (1024, 512)).astype(np.int8)
    x = _RANDOM.standard_normal((1024, 1024)).astype(np.float32)
    images = _RANDOM.integers(-128, 128, (4, 32, 56, 56)).astype(np.int8)
    filters = _RANDOM.integers(-128, 128, (64, 32, 3, 3)).astype(np.int8)
    wide = [array.astype(np.float32) for array in (a, b)]
    dense = [put(array.astype(np.float32), device) for array in (images, filters)]
    on_device = {"a": put(a, device), "b": put(b, device), "x": put(x, device)}
    convolved = [put(images, device), put(filters, device)]
    sums = unihal.Buffer((512, 512), "int32", device)
    pixels = unihal.Buffer((4, 64, 56, 56), "int32", device)
    scale = put(np.float32(0.03125), device)
    q = ops.quantize(on_device["x"], scale)
    stored = x / np.float32(0.03125)
    positive = put(np.full(COUNT, 2.5, np.float32), device)
    many = put(np.full(COUNT, 40, np.float32), device)
    third = put(np.full(COUNT, 0.3, np.float32), device)
    more = put(np.full(COUNT, 400, np.float32), device)
    wide_positive = put(np.full(COUNT, 2.5), device)
    generator = np.random.default_rng(2)
    casts: list[tuple[str, Callable[[], Any], dict[str, Callable[[], Any]]]] = []
    for name in ("float8_e4m3fn", "float8_e5m2", "bfloat16", "float16"):
        narrow = np.dtype(getattr(ml_dtypes, name, name))
        few = x.astype(narrow)
        here = ops.cast(on_device["x"], name)
        to = unihal.Buffer(x.shape, name, device)
        back = unihal.Buffer(x.shape, "float32", device)
        casts += [
            (
                f"cast 2^20 to {name}",
                lambda to=to, name=name: ops.cast(on_device["x"], name, out=to),
                {"ml_dtypes" if name != "float16" else "NumPy": lambda narrow=narrow: x.astype(narrow)},
            ),
            (
                f"cast 2^20 from {name}",
                lambda here=here, back=back: ops.cast(here, "float32", out=back),
                {"ml_dtypes" if name != "float16" else "NumPy": lambda few=few: few.astype(np.float32)},
            ),
        ]

    def drawn(distribution: str, *parameters: unihal.Buffer) -> Callable[[], Any]:
        return lambda: ops.random_distribution(distribution, *parameters, key=1)

    return [
        (
            "int8 matmul 512x1024x512",
            lambda: ops.matmul(on_device["a"], on_device["b"], out=sums),
            {
                "NumPy, float32": lambda: wide[0] @ wide[1],
            },
        ),
        (
            "int8 convolution 4x32x56x56 64x3x3",
            lambda: ops.convolution(*convolved, padding=1, out=pixels),
            {
                "unihal, float32": lambda: ops.convolution(*dense, padding=1),
            },
        ),
        (
            "quantize 2^20",
            lambda: ops.quantize(on_device["x"], scale),
            {
                "NumPy": lambda: np.clip(np.rint(x / np.float32(0.03125)), -128, 127).astype(np.int8),
            },
        ),
        (
            "dequantize 2^20",
            lambda: ops.dequantize(q, scale),
            {
                "NumPy": lambda: stored.astype(np.int8) * np.float32(0.03125),
            },
        ),
        (
            "fake_quantize 2^20",
            lambda: ops.fake_quantize(on_device["x"], scale),
            {
                "NumPy": lambda: np.clip(np.rint(x / np.float32(0.03125)), -128, 127) * np.float32(0.03125),
            },
        ),
        ("gamma 2^20", drawn("gamma", positive), {"NumPy": lambda: generator.standard_gamma(2.5, COUNT, np.float32)}),
        ("poisson 2^20 of mean 2.5", drawn("poisson", positive), {"NumPy": lambda: generator.poisson(2.5, COUNT)}),
        ("poisson 2^20 of mean 40", drawn("poisson", many), {"NumPy": lambda: generator.poisson(40, COUNT)}),
        ("binomial 2^20 of 40", drawn("binomial", many, third), {"NumPy": lambda: generator.binomial(40, 0.3, COUNT)}),
        (
            "binomial 2^20 of 400",
            drawn("binomial", more, third),
            {"NumPy": lambda: generator.binomial(400, 0.3, COUNT)},
        ),
        (
            "gamma 2^20 below 1",
            drawn("gamma", third),
            {"NumPy": lambda: generator.standard_gamma(0.3, COUNT, np.float32)},
        ),
        (
            "gamma 2^20 float64",
            drawn("gamma", wide_positive),
            {"NumPy": lambda: generator.standard_gamma(2.5, COUNT)},
        ),
        (
            "beta 2^20",
            lambda: ops.random_beta(positive, third, key=1),
            {"NumPy": lambda: generator.beta(2.5, 0.3, COUNT)},
        ),
        (
            "dirichlet 2^17 of 8",
            lambda: ops.random_dirichlet(positive.reshape(COUNT // 8, 8), key=1),
            {"NumPy": lambda: generator.dirichlet(np.full(8, 2.5), COUNT // 8)},
        ),
        *casts,
    ]


def row(name: str, call: Callable[[], Any], peers: dict[str, Callable[[], Any]], device: Any) -> dict[str, Any]:
    def ours() -> None:
        call()
        device.synchronize()

    with unihal.profile() as recording:
        ours()
    seconds = measure.alternate({"unihal": ours, **peers}, rounds=3)
    peer = min(peers, key=lambda each: seconds[each])
    return {
        "benchmark": name,
        "unit": "us",
        "device": seconds["unihal"] * 1e6,
        "peer": seconds[peer] * 1e6,
        "peer_name": peer,
        "ratio": seconds["unihal"] / seconds[peer],
        "target": 1.0,
        "implementation": recording.totals[0].implementations if recording.totals else "",
    }


def bandwidth_row(problem: tuple[Any, ...], bandwidth: float, device: Any) -> dict[str, Any]:
    """A product beside a sum that reads as many bytes."""
    stream = unihal.Stream(device)
    (a, b, scales), how = few_bits(problem, device)
    moved = b.nbytes + scales.nbytes
    copies = -(-MANY_BYTES // moved)
    operands = [(b, scales), *(few_bits(problem, device)[0][1:] for _ in range(copies - 1))]
    numbers = [ops.random((moved // 4,), "float32", device, key=key) for key in range(copies)]
    device.synchronize()

    def products() -> None:
        for of_copy, its_scales in operands:
            ops.matmul_quantized(a, of_copy.T, its_scales.T, stream=stream, **how)

    def sums() -> None:
        for each in numbers:
            ops.sum(each, stream=stream)

    def captured(work: Callable[[], None]) -> Callable[[], Any]:
        work()
        stream.synchronize()
        with unihal.capture(stream) as graph:
            work()

        def run() -> None:
            for _ in range(4):
                graph.replay()
            stream.synchronize()

        return run

    seconds = measure.alternate({"unihal": captured(products), "sum": captured(sums)}, rounds=4)
    ours, theirs = (seconds[each] / 4 / copies for each in ("unihal", "sum"))
    with unihal.profile() as recording:
        ops.matmul_quantized(a, b.T, scales.T, **how)
    return {
        "benchmark": name_of(problem),
        "unit": "us",
        "device": ours * 1e6,
        "peer": theirs * 1e6,
        "peer_name": f"a sum of {moved} bytes",
        "ratio": ours / theirs,
        "share_of_bandwidth": moved / bandwidth / ours,
        "target": 1 / 0.7,
        "implementation": recording.totals[0].implementations if recording.totals else "",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only every third problem")
    parser.add_argument("--only", default="", help="only problems whose name contains this")
    parser.add_argument("--bandwidth", type=float, default=0, help="of the device's memory, in GB/s")
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    device = unihal.device(f"{DEVICE_TYPES.get(os.environ['UNIHAL_BACKEND'], 'rdna')}:0")
    rows = []
    step = 3 if arguments.quick else 1
    for problem in WEIGHTS[::step]:
        if arguments.only not in name_of(problem):
            continue
        if on_host():
            rows.append(row(*weights(problem, device), device))
        elif problem[0] <= 8:
            bandwidth = arguments.bandwidth * 1e9 or device.properties.peak_gigabytes_per_second * 1e9
            rows.append(bandwidth_row(problem, bandwidth, device))
        measure.report(rows[-1:])
    for name, call, peers in others(device)[::step]:
        if arguments.only in name:
            rows.append(row(name, call, peers, device))
            measure.report(rows[-1:])
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
