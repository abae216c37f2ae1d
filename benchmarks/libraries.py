"""What products and convolutions run on, and what `unihal tune` makes of it, with the algorithms of vendors' libraries.

    UNIHAL_BACKEND=corex UNIHAL_CACHE_DIR=/tmp/empty python benchmarks/libraries.py [--dtype float16] [--seconds 0.02]

Prints each candidate's time, keeps the choices (in the cache that UNIHAL_CACHE_DIR names, or the user's own), and shows
in a second process that ops run as was chosen.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence

import unihal
from unihal import Buffer, Device, _core, op_kinds, ops, tuning
from unihal.stream import default_stream

#: Of decoding (a vector), of squares, of dense layers.
PRODUCTS = ("1x4096x4096", "4096x1x4096", "1024x1024x1024", "64x1000x2048", "512x3072x768", "4096x4096x4096")

#: Of a ResNet-50.
LAYERS = ("n32 c256 h14 w14 k256 3x3 p1", "n32 c1024 h14 w14 k256 1x1", "n32 c64 h56 w56 k64 3x3 p1 nhwc")


def problems(dtype: str) -> list[tuning.Problem]:
    """All of them."""
    products = [tuning.MatrixProduct.parse(shape, "nt", dtype) for shape in PRODUCTS]
    return [*products, *(layer for words in LAYERS for layer in tuning.Convolution.parse(words, dtype))]


def show(device: Device, problem: tuning.Problem) -> str:
    """What an op runs on, and the best time of some; what is chosen for it."""

    def make(shape: Sequence[int], dtype: str) -> Buffer:
        return ops.fill(Buffer(tuple(shape), dtype, device), 0.5)

    op = (op_kinds.number(problem.kind), *problem.operands(make))
    stream = default_stream(device)
    _core.launch(stream._handle, *op)
    with unihal.profile() as recording:
        for _ in range(20):
            _core.launch(stream._handle, *op)
    event = min(recording.events, key=lambda each: each.duration_nanoseconds)
    number = _core.tuning_chosen(device._handle, *op)
    chosen = _core.tuning_describe(device._handle, *op)[1][number][0] if number >= 0 else "nothing"
    return f"{problem}: {event.implementation}, {event.duration_nanoseconds / 1e3:.1f} us, chosen: {chosen}"


def main() -> None:
    """All problems before, while and after they are tuned."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="such as iluvatar:0; the first one if it is left out")
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--seconds", type=float, default=0.02, help="device time that each candidate is measured for")
    parser.add_argument("--kept", action="store_true", help="only show what runs")
    arguments = parser.parse_args()
    device = unihal.device(arguments.device) if arguments.device else unihal.devices()[0]
    all_problems = problems(arguments.dtype)
    print(f"{device.properties.name}, {device.properties.driver}", flush=True)
    for problem in all_problems:
        print(show(device, problem), flush=True)
    if arguments.kept:
        return
    for result in tuning.tune(device, all_problems, arguments.seconds):
        print(f"\n{result.problem}: default {1e6 * result.default_seconds:.1f} us, chosen: {result.chosen}")
        for candidate in result.candidates:
            print(f"  {1e6 * candidate.seconds:10.1f} us  {candidate.name}")
        for name, message in result.failures.items():
            print(f"  {name} failed: {message}")
    tuning.keep(device)
    print("\nanother process:", flush=True)
    subprocess.run([sys.executable, __file__, *sys.argv[1:], "--kept"], check=True)


if __name__ == "__main__":
    main()
