"""Float32 matrix products of our OpenCL kernel by tile, beside CLBlast and cuBLAS (through PyTorch) where they are.

    python benchmarks/opencl_gemm.py [--sizes 1024 4096] [--forms nn nt] [--tile 128x128x8/8x8 ...] [--clblast FILE]

Needs an OpenCL driver and NumPy, not the project's libraries: it compiles csrc/kernels/source/gemm_tile.cl. Prints a
JSON line per measurement; ``error`` is the largest difference from float64 over sqrt(k), of products of normal numbers.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from opencl_device import Buffer, Context, Error, Kernel, kernel_text

ALONG_K, WIDE = 1, 2
CHECKED_ROWS = 37


@dataclass(frozen=True)
class Tile:
    """A choice of the macros of gemm_tile.cl."""

    m: int
    n: int
    k: int
    micro_m: int
    micro_n: int
    lanes_n: int
    buffers: int

    @property
    def threads(self) -> int:
        return self.m * self.n // (self.micro_m * self.micro_n)

    @property
    def name(self) -> str:
        return f"{self.m}x{self.n}x{self.k}/{self.micro_m}x{self.micro_n}/lanes{self.lanes_n}/buffers{self.buffers}"

    @property
    def macros(self) -> dict[str, int]:
        names = ("TILE_M", "TILE_N", "TILE_K", "MICRO_M", "MICRO_N", "LANES_N", "BUFFERS")
        values = (self.m, self.n, self.k, self.micro_m, self.micro_n, self.lanes_n, self.buffers)
        return {"UHAL_WIDE_INDEX": 0, "UHAL_RANK": 4, "UHAL_ACTIVATION": 0, **dict(zip(names, values))}


# Those of kGemmTiles (csrc/kernels/gemm_tile.cc), and some that lost against them.
TILES = (
    Tile(128, 128, 8, 8, 8, 8, 1),
    Tile(128, 128, 8, 8, 8, 8, 2),
    Tile(128, 128, 8, 8, 8, 16, 1),
    Tile(128, 128, 16, 8, 8, 8, 1),
    Tile(256, 128, 8, 16, 8, 8, 1),
    Tile(128, 64, 16, 8, 4, 8, 2),
    Tile(64, 128, 16, 4, 8, 8, 2),
    Tile(128, 64, 16, 8, 8, 8, 1),
    Tile(64, 64, 8, 8, 8, 8, 2),
    Tile(64, 64, 16, 4, 4, 8, 1),
    Tile(64, 64, 16, 4, 4, 8, 2),
    Tile(32, 32, 16, 4, 4, 8, 2),
    Tile(32, 32, 32, 4, 4, 8, 1),
    Tile(128, 16, 16, 8, 4, 4, 1),
    Tile(16, 128, 16, 4, 8, 8, 1),
)


def _ints(*values: int) -> Any:
    return (ctypes.c_int32 * len(values))(*values)


class Product:
    """One square problem on the device: d = a @ b, with a and b as they are (n) or transposed in memory (t)."""

    def __init__(self, context: Context, size: int, form: str) -> None:
        self.context, self.size, self.form = context, size, form
        generator = np.random.default_rng(size)
        self.a, self.b = (generator.standard_normal((size, size), dtype=np.float32) for _ in range(2))
        self.device_a, self.device_b, self.device_d = (Buffer(context, 4 * size * size) for _ in range(3))
        self.device_a.write(self.a if form[0] == "n" else self.a.T)
        self.device_b.write(self.b if form[1] == "n" else self.b.T)
        self.flops = 2.0 * size**3
        # The first and last rows stand for all.
        self._rows = sorted({*range(min(CHECKED_ROWS, size)), *range(max(0, size - CHECKED_ROWS), size)})
        self._expected = self.a[self._rows].astype(np.float64) @ self.b.astype(np.float64)

    def clear(self) -> None:
        """Leaves nothing of an earlier result."""
        self.device_d.write(np.full((self.size, self.size), np.nan, np.float32))

    def error(self) -> float:
        """The largest of the result, over sqrt(k)."""
        d = np.empty((self.size, self.size), np.float32)
        self.device_d.read(d)
        return float(np.abs(d[self._rows] - self._expected).max() / np.sqrt(self.size))

    def release(self) -> None:
        for buffer in (self.device_a, self.device_b, self.device_d):
            buffer.release()

    def arguments(self, tile: Tile) -> list[Any]:
        """Of gemm_tile."""
        size = self.size
        a_strides = (size, 1) if self.form[0] == "n" else (1, size)
        b_strides = (size, 1) if self.form[1] == "n" else (1, size)
        shape = _ints(size, size, size, *a_strides, *b_strides, 0, 0, size, 1)
        batch = _ints(1, 1, *[0] * 19)
        tiles_m, tiles_n = -(-size // tile.m), -(-size // tile.n)
        split_length = -(-size // tile.k) * tile.k
        wide = WIDE if size % 4 == 0 else 0
        a_mode = wide | (ALONG_K if self.form[0] == "n" else 0)
        b_mode = wide | (ALONG_K if self.form[1] == "t" else 0)
        numbers = [tiles_m, tiles_n, 1, 1, split_length, a_mode, b_mode]
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        operands = [self.device_a, self.device_b, None, self.device_d, shape, batch, one, zero, None]
        return [*operands, *(ctypes.c_int32(number) for number in numbers)]

    def groups(self, tile: Tile) -> int:
        return -(-self.size // tile.m) * -(-self.size // tile.n)


def compiled(context: Context, tile: Tile, options: str) -> Kernel:
    text = kernel_text("gemm_tile", tile.macros, dict.fromkeys("ABCD", "float32"))
    return context.kernel(text, "gemm_tile", options)


def median_nanoseconds(run: Callable[[], int], budget: float = 0.15) -> float:
    """Of the device's own time, over as many runs as fit into ``budget`` seconds, at least five."""
    run()
    once = run()
    repeats = int(min(50, max(5, budget * 1e9 / max(once, 1))))
    return statistics.median(run() for _ in range(repeats))


def clblast_runner(library: ctypes.CDLL, product: Product) -> Callable[[], int]:
    """Host time of a call with a wait, since CLBlast runs several kernels; small against these sizes."""
    size, context = product.size, product.context
    queue = ctypes.c_void_p(context.queue)
    transposed = {"n": 111, "t": 112}
    length = ctypes.c_size_t(size)
    offset = ctypes.c_size_t(0)

    def run() -> int:
        start = time.perf_counter_ns()
        code = library.CLBlastSgemm(
            101, transposed[product.form[0]], transposed[product.form[1]], length, length, length,
            ctypes.c_float(1), ctypes.c_void_p(product.device_a.handle), offset, length,
            ctypes.c_void_p(product.device_b.handle), offset, length,
            ctypes.c_float(0), ctypes.c_void_p(product.device_d.handle), offset, length, ctypes.byref(queue), None,
        )  # fmt: skip
        context.check(code, "CLBlastSgemm")
        context.finish()
        return time.perf_counter_ns() - start

    return run


def torch_runner(a: NDArray[Any], b: NDArray[Any]) -> Callable[[], int] | None:
    """float32 without tensor cores; None without PyTorch and a GPU of its own."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    x, y = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
    d = torch.empty_like(x)

    def run() -> int:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        torch.matmul(x, y, out=d)
        end.record()
        end.synchronize()
        return int(start.elapsed_time(end) * 1e6)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 2048, 4096])
    parser.add_argument("--forms", nargs="+", choices=["nn", "nt", "tn", "tt"], default=["nn"])
    parser.add_argument("--tile", nargs="+", help="only the tiles whose names begin so")
    parser.add_argument("--clblast", help="path of libclblast.so.1")
    parser.add_argument("--compile", default="", help="more options for the compiler, such as -cl-nv-verbose")
    options = parser.parse_args()

    def report(**row: Any) -> None:
        print(json.dumps({key: float(f"{v:.4g}") if isinstance(v, float) else v for key, v in row.items()}), flush=True)

    context = Context()
    report(device=context.describe())
    library = None
    if options.clblast:
        library = ctypes.CDLL(options.clblast)
    kernels: dict[Tile, Kernel] = {}
    for tile in TILES:
        if options.tile and not tile.name.startswith(tuple(options.tile)):
            continue
        start = time.perf_counter()
        try:
            kernels[tile] = compiled(context, tile, options.compile)
        except Error as error:
            report(tile=tile.name, refused=str(error)[:500])
            continue
        report(tile=tile.name, compile_seconds=time.perf_counter() - start, log=kernels[tile].build_log)
    for size in options.sizes:
        for form in options.forms:
            product = Product(context, size, form)
            runners: dict[str, Callable[[], int]] = {}
            for tile, kernel in kernels.items():

                def run(kernel: Kernel = kernel, tile: Tile = tile, product: Product = product) -> int:
                    kernel.set_arguments(product.arguments(tile))
                    return kernel.run(product.groups(tile), tile.threads)

                runners[tile.name] = run
            if library is not None:
                runners["clblast"] = clblast_runner(library, product)
            for name, runner in runners.items():
                product.clear()
                try:
                    nanoseconds = median_nanoseconds(runner)
                except Error as error:
                    report(size=size, form=form, kernel=name, refused=str(error))
                    continue
                tflops = product.flops / nanoseconds / 1e3
                report(size=size, form=form, kernel=name, tflops=tflops, error=product.error())
            cublas = torch_runner(product.a, product.b) if form == "nn" else None
            if cublas is not None:
                tflops = product.flops / median_nanoseconds(cublas) / 1e3
                report(size=size, form=form, kernel="cublas (torch, no tf32)", tflops=tflops)
            product.release()


if __name__ == "__main__":
    main()
