"""Elementwise add, exp and a sum over 64 MiB, and a 1024 matrix product: the device against its peers.

    python benchmarks/kernels.py numpy|paddle|tensorflow
    python benchmarks/kernels.py complex64|complex128      # complex numbers, against NumPy
    python benchmarks/kernels.py complex128 sum,matmul     # those whose names begin with one of these

Every call ends with the work done (the device is synchronized). Outputs are freshly allocated on both sides, as the
frameworks do it; NumPy and unihal's own API write into given outputs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import measure
import numpy as np

ELEMENTS = 64 * 1024 * 1024 // 4
Pair = tuple[Callable[[], Any], Callable[[], Any]]


def numpy_pairs() -> dict[str, Pair]:
    import unihal

    generator = np.random.default_rng(0)
    a = generator.standard_normal(ELEMENTS, dtype=np.float32)
    b = generator.standard_normal(ELEMENTS, dtype=np.float32)
    m = generator.standard_normal((1024, 1024), dtype=np.float32)
    out, out_m = np.empty_like(a), np.empty_like(m)
    device = unihal.device("rdna:0")
    da, db, dm = (unihal.Buffer.from_numpy(x, device) for x in (a, b, m))
    dout, dout_m = unihal.Buffer.from_numpy(out, device), unihal.Buffer.from_numpy(out_m, device)

    def on_device(call: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> None:
            call()
            device.synchronize()

        return run

    return {
        "add": (on_device(lambda: unihal.ops.add(da, db, out=dout)), lambda: np.add(a, b, out=out)),
        "exp": (on_device(lambda: unihal.ops.exp(da, out=dout)), lambda: np.exp(a, out=out)),
        "sum": (on_device(lambda: unihal.ops.sum(da)), lambda: np.sum(a)),
        "matmul 1024": (
            on_device(lambda: unihal.ops.matmul(dm, dm, out=dout_m)),
            lambda: np.matmul(m, m, out=out_m),
        ),
    }


def complex_pairs(dtype: str) -> dict[str, Pair]:
    import unihal

    generator = np.random.default_rng(0)
    device = unihal.device("rdna:0")

    def numbers(*shape: int) -> Any:
        return (generator.standard_normal(shape) + 1j * generator.standard_normal(shape)).astype(dtype)

    count = 64 * 1024 * 1024 // np.dtype(dtype).itemsize
    a, b, m = numbers(count), numbers(count), numbers(1024, 1024)
    out, out_m = np.empty_like(a), np.empty_like(m)
    real = np.empty(count, a.real.dtype)
    da, db, dm, dout, dout_m, dreal = (unihal.Buffer.from_numpy(x, device) for x in (a, b, m, out, out_m, real))

    def on_device(function: Callable[..., Any], *operands: Any, **keywords: Any) -> Callable[[], Any]:
        def run() -> None:
            function(*operands, **keywords)
            device.synchronize()

        return run

    pairs: dict[str, Pair] = {}
    for name in ("add", "multiply", "divide"):
        ours = getattr(unihal.ops, name)
        theirs = getattr(np, name)
        pairs[name] = on_device(ours, da, db, out=dout), lambda theirs=theirs: theirs(a, b, out=out)
    for name in ("exp", "log", "sqrt", "sin", "tanh", "arctan"):
        ours = getattr(unihal.ops, "atan" if name == "arctan" else name)
        theirs = getattr(np, name)
        pairs[name] = on_device(ours, da, out=dout), lambda theirs=theirs: theirs(a, out=out)
    pairs["absolute"] = on_device(unihal.ops.absolute, da, out=dreal), lambda: np.absolute(a, out=real)
    wider = np.empty(count // 2, "complex128" if dtype == "complex64" else "complex64")
    dwider = unihal.Buffer.from_numpy(wider, device)
    pairs["cast of a half"] = (
        on_device(unihal.ops.cast, da[: count // 2], wider.dtype.name, out=dwider),
        lambda: np.copyto(wider, a[: count // 2], casting="same_kind"),
    )
    pairs["cast of real numbers"] = (
        on_device(unihal.ops.cast, dreal, dtype, out=dout),
        lambda: np.copyto(out, real),
    )
    pairs["conjugate"] = on_device(unihal.ops.conjugate, da, out=dout), lambda: np.conjugate(a, out=out)
    pairs["real"] = on_device(unihal.ops.real, da, out=dreal), lambda: np.copyto(real, a.real)
    pairs["angle"] = on_device(unihal.ops.angle, da, out=dreal), lambda: np.arctan2(a.imag, a.real, out=real)
    pairs["sum"] = on_device(unihal.ops.sum, da), lambda: np.sum(a)
    pairs["product"] = on_device(unihal.ops.product, da), lambda: np.prod(a)
    pairs["cumulative sum"] = on_device(unihal.ops.scan, da, 0), lambda: np.cumsum(a)
    pairs["matmul 1024"] = on_device(unihal.ops.matmul, dm, dm, out=dout_m), lambda: np.matmul(m, m, out=out_m)
    return pairs


def paddle_pairs() -> dict[str, Pair]:
    import paddle

    def calls(place: str) -> dict[str, Callable[[], Any]]:
        paddle.set_device(place)
        a, b, m = paddle.randn([ELEMENTS]), paddle.randn([ELEMENTS]), paddle.randn([1024, 1024])
        if place == "cpu":
            wait: Callable[[], Any] = lambda: None  # noqa: E731
        else:
            wait = paddle.device.synchronize

        def on(call: Callable[[], Any]) -> Callable[[], Any]:
            def run() -> None:
                call()
                wait()

            return run

        return {
            "add": on(lambda: paddle.add(a, b)),
            "exp": on(lambda: paddle.exp(a)),
            "sum": on(lambda: paddle.sum(a)),
            "matmul 1024": on(lambda: paddle.matmul(m, m)),
        }

    cpu, device = calls("cpu"), calls("iluvatar")
    return {name: (device[name], cpu[name]) for name in cpu}


def tensorflow_pairs() -> dict[str, Pair]:
    import tensorflow as tf

    def calls(place: str) -> dict[str, Callable[[], Any]]:
        with tf.device(place):
            a, b = tf.random.normal([ELEMENTS]), tf.random.normal([ELEMENTS])
            m = tf.random.normal([1024, 1024])
        wait: Callable[[], Any] = tf.test.experimental.sync_devices

        def on(call: Callable[[], Any]) -> Callable[[], Any]:
            def run() -> None:
                with tf.device(place):
                    call()
                wait()

            return run

        return {
            "add": on(lambda: tf.add(a, b)),
            "exp": on(lambda: tf.exp(a)),
            "sum": on(lambda: tf.reduce_sum(a)),
            "matmul 1024": on(lambda: tf.matmul(m, m)),
        }

    cpu, device = calls("/device:CPU:0"), calls("/device:RDNA:0")
    return {name: (device[name], cpu[name]) for name in cpu}


def main() -> None:
    peer = sys.argv[1]
    wanted = tuple(sys.argv[2].split(",")) if len(sys.argv) > 2 else ("",)
    is_complex = peer.startswith("complex")
    dtype = peer if is_complex else "float32"
    if is_complex:
        pairs = complex_pairs(dtype)
    else:
        pairs = {"numpy": numpy_pairs, "paddle": paddle_pairs, "tensorflow": tensorflow_pairs}[peer]()
    peer_name = "NumPy" if peer == "numpy" or is_complex else f"{peer} CPU"
    for name, (device_call, peer_call) in pairs.items():
        if not name.startswith(wanted):
            continue
        times = measure.alternate({"device": device_call, "peer": peer_call})
        measure.report(
            [
                {
                    "benchmark": f"{peer}: {name}" + ("" if "matmul" in name else f" over 64 MiB {dtype}"),
                    "unit": "ms",
                    "device": times["device"] * 1e3,
                    "peer": times["peer"] * 1e3,
                    "peer_name": peer_name,
                    "ratio": times["device"] / times["peer"],
                    "target": 1.0,
                }
            ]
        )


if __name__ == "__main__":
    main()
