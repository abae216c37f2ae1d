"""Latency of ONNX models on a device against ONNX Runtime's CPU provider, on the same cores.

    UNIHAL_BACKEND=stub python benchmarks/onnxruntime_models.py [--models resnet50 bert] [--threads 2] [--rounds 25]
                                                                [--repeats 3]

The networks are those of tests/onnxruntime/networks.py in full size, with random parameters, exported by PyTorch. One
provider runs after the other, since the threads of each wait by turning, in rounds, since machines have neighbours; a
figure is the median of the rounds' medians, in milliseconds, the ratio the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
import unihal.onnxruntime

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "onnxruntime"))
import networks

BATCH, LENGTH = 1, 128


def resnet50() -> tuple[Any, dict[str, np.ndarray]]:
    """ResNet-50 on one image."""
    x = np.random.default_rng(0).standard_normal((2, 3, 224, 224)).astype(np.float32)
    return networks.ResNet((3, 4, 6, 3), 64, 1000), {"x": x}


def bert() -> tuple[Any, dict[str, np.ndarray]]:
    """BERT base, four of its twelve layers."""
    ids = np.random.default_rng(0).integers(0, 1000, (2, LENGTH))
    return networks.Bert(1000, 768, 12, 4, LENGTH), {"ids": ids, "mask": np.ones((2, LENGTH), np.int64)}


MODELS = {"resnet50": resnet50, "bert": bert}


def session(model: onnx.ModelProto, device: str | None, threads: int) -> onnxruntime.InferenceSession:
    """A session on a device of unihal, or on the CPU."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    if device is None:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    options.intra_op_num_threads = 1  # its own threads have nothing to do
    unihal.onnxruntime.add_to(options, device)
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def latency(made: onnxruntime.InferenceSession, feeds: dict[str, np.ndarray], repeats: int) -> float:
    """The median of runs, in milliseconds, after a pause for the other's threads and a run that does not count."""
    time.sleep(0.2)
    made.run(None, feeds)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        made.run(None, feeds)
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--device", default="rdna")
    parser.add_argument("--threads", type=int, default=0, help="of the CPU provider; 0: as many as there are cores")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--repeats", type=int, default=3, help="of a round")
    arguments = parser.parse_args()
    print(f"{'model':<12}{'unihal ms':>12}{'CPU ms':>12}{'ratio':>8}")
    for name in arguments.models:
        torch.manual_seed(0)
        module, feeds = MODELS[name]()
        model = networks.export(module, feeds)
        feeds = {key: value[:BATCH] for key, value in feeds.items()}
        ours = session(model, arguments.device, arguments.threads)
        theirs = session(model, None, arguments.threads)
        output, expected = ours.run(None, feeds)[0], theirs.run(None, feeds)[0]
        if np.abs(output - expected).max() > 1e-3 * np.abs(expected).max():
            raise SystemExit(f"{name}: the answers differ")
        rounds = [
            (latency(ours, feeds, arguments.repeats), latency(theirs, feeds, arguments.repeats))
            for _ in range(arguments.rounds)
        ]
        mine, cpu = (statistics.median(side) for side in zip(*rounds, strict=True))
        ratio = statistics.median(a / b for a, b in rounds)
        print(f"{name:<12}{mine:>12.1f}{cpu:>12.1f}{ratio:>8.2f}")


if __name__ == "__main__":
    main()
