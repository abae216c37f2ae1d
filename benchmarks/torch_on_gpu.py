"""unihal's device in PyTorch beside PyTorch's own: training steps and an eager op, measured in turn.

    python benchmarks/torch_on_gpu.py [--peer cuda|cpu] [--only TEXT] [--rounds 12] [--steps 4] [--json FILE]

A ratio is our time over the peer's. Each round takes some steps on one side, waits for it, and takes as many on the
other; the ratio is the median of the rounds' ratios, a time the median of the rounds' times. Both sides begin with the
same weights and data: their first losses must agree, and nothing may fall back to the CPU. Exits with 1 if a row fails
in one of these; a ratio beyond its target is shown, and no failure.

The eager op is of one process. In training the peer is a process of its own without unihal, which waits while we are
measured: PyTorch's autograd knows one accelerator a process, and fails with the other one's tensors (2.11).

With the peer cuda (taken where PyTorch sees a GPU): ResNet-50 with 64 images, a BERT-base encoder of 16x128 tokens with
its dropout and without, GPT-2 small of 8x512 tokens. With the peer cpu: the smaller sizes of benchmarks/training.py.
float32 is strict on both sides, TF32 allows products and convolutions to use it, bfloat16 is autocast. The optimizers
are torch.optim's with their defaults, or with --fused their fused ones. Convolutions are chosen by measurement on both
sides (cudnn.benchmark, UNIHAL_GPU_MEASURE=1).

UNIHAL_BACKEND chooses the backend (default: stub), UNIHAL_TORCH_DEVICE the device type (default: what the backend
serves first).
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import statistics
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

DEVICE_TYPES = {"corex": "iluvatar", "opencl": "polaris"}
# What both read when PyTorch is imported or a device is opened.
os.environ.setdefault("UNIHAL_BACKEND", "stub")
os.environ.setdefault("UNIHAL_TORCH_DEVICE", DEVICE_TYPES.get(os.environ["UNIHAL_BACKEND"], "rdna"))
os.environ.setdefault("UNIHAL_GPU_MEASURE", "1")

import torch  # noqa: E402
import unihal  # noqa: E402
from measure import progress  # noqa: E402
from training import torch_parts  # noqa: E402

OURS = os.environ["UNIHAL_TORCH_DEVICE"]
WARM_UP_STEPS = 3
#: Calls of the eager op in a round: a few milliseconds of submission.
CALLS = 1000


class Row(NamedTuple):
    """A training to measure; `model` is a name of training.py."""

    title: str
    model: str
    precision: str
    dropout: float = 0.1


#: Makes so many calls, and gives the seconds of a call until they have run, and until they were submitted.
Side = Callable[[int], tuple[float, float]]


#: The ratio of a step that is wanted, and of the eager op, by peer.
STEP_TARGETS = {"cuda": 1.1, "cpu": 1.0}
EAGER_TARGETS = {"cuda": 1.3, "cpu": 1.5}
TRAININGS = {
    "cuda": [
        *(Row("ResNet-50, 64 images", "resnet50-64", p) for p in ("float32", "TF32", "bfloat16")),
        *(Row("BERT-base encoder, 16x128", "transformer-16", p) for p in ("float32", "TF32", "bfloat16")),
        *(
            Row("BERT-base encoder, 16x128, no dropout", "transformer-16", p, 0.0)
            for p in ("float32", "TF32", "bfloat16")
        ),
        Row("GPT-2 small, 8x512", "gpt2-8", "bfloat16"),
    ],
    "cpu": [
        Row("ResNet-18, 32 small images", "resnet18", "float32"),
        Row("ResNet-50, 8 images", "resnet50", "float32"),
        Row("BERT-base encoder, 4x128", "transformer", "float32"),
        Row("BERT-base encoder, 4x128, no dropout", "transformer", "float32", 0.0),
        Row("GPT-2 small, 1x128", "gpt2", "bfloat16"),
    ],
}


def waiting(place: str) -> Callable[[], None]:
    """What waits for all work of a type of device."""
    return (lambda: None) if place == "cpu" else getattr(torch, place).synchronize


def fallbacks() -> Counter[str]:
    return Counter({f"{entry.op}[{entry.dtype}]: {entry.reason}": entry.count for entry in unihal.fallbacks()})


@contextlib.contextmanager
def no_collection() -> Any:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def side(call: Callable[[], Any], place: str) -> Side:
    """Of a call in this process."""
    wait = waiting(place)

    def go(calls: int) -> tuple[float, float]:
        with no_collection():
            wait()
            start = time.perf_counter()
            for _ in range(calls):
                call()
            submitted = time.perf_counter()
            wait()
            return (time.perf_counter() - start) / calls, (submitted - start) / calls

    return go


def measured(ours: Side, peer: Side, rounds: int, calls: int) -> dict[str, Any]:
    """Seconds of a call on either side, and until it is submitted; and the median of the rounds' ratios."""
    times: dict[str, list[tuple[float, float]]] = {"ours": [], "peer": []}
    for number in range(rounds):
        turn = [("ours", ours), ("peer", peer)]
        for name, go in turn if number % 2 == 0 else reversed(turn):
            times[name].append(go(calls))
    ratios = [mine[0] / other[0] for mine, other in zip(times["ours"], times["peer"])]
    result: dict[str, Any] = {"ratio": statistics.median(ratios), "ratios": ratios}
    for name, pairs in times.items():
        result[f"{name}_seconds"] = statistics.median(pair[0] for pair in pairs)
        result[f"{name}_submission_seconds"] = statistics.median(pair[1] for pair in pairs)
    return result


def set_precision(precision: str) -> None:
    """Of products and convolutions in float32, on both sides."""
    torch.set_float32_matmul_precision("high" if precision == "TF32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "TF32"


def training_step(row: Row, place: str, fused: bool) -> Callable[[], Any]:
    """Trains on one batch; gives the loss, which is not waited for."""
    model, inputs, labels, make_optimizer = torch_parts(row.model, place, row.dropout)
    optimizer = make_optimizer(model.parameters())
    if fused:
        optimizer = type(optimizer)(model.parameters(), **{**optimizer.defaults, "fused": True, "foreach": None})
    enabled = row.precision == "bfloat16"

    def step() -> Any:
        optimizer.zero_grad()
        with torch.autocast(place, torch.bfloat16, enabled=enabled):
            loss = torch.nn.functional.cross_entropy(model(inputs).flatten(0, -2), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def first_losses(step: Callable[[], Any]) -> list[float]:
    """Of the warm-up, in which memory is taken, programs are compiled and algorithms are chosen."""
    return [float(loss) for loss in [step() for _ in range(WARM_UP_STEPS)]]


class Training:
    """A row on one device, warm."""

    def __init__(self, row: Row, place: str, fused: bool) -> None:
        set_precision(row.precision)
        step = training_step(row, place, fused)
        self.place, self.losses = place, first_losses(step)
        if place != "cpu":
            getattr(torch, place).reset_peak_memory_stats()
        self.go = side(step, place)

    def peak_bytes(self) -> int | None:
        return None if self.place == "cpu" else int(getattr(torch, self.place).max_memory_allocated())


class Peer:
    """The same in a process of its own, in which PyTorch does not load unihal."""

    def __init__(self, row: Row, place: str, fused: bool) -> None:
        words = [sys.executable, __file__, "--serve", json.dumps([row, place, fused])]
        self._process = subprocess.Popen(
            words,
            env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.losses = self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if not said:
            raise RuntimeError(f"the peer's process ended with {self._process.wait()}")
        return json.loads(said)

    def _ask(self, words: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(words + "\n")
        self._process.stdin.flush()
        return self._answer()

    def go(self, calls: int) -> tuple[float, float]:
        seconds, submitted = self._ask(str(calls))
        return seconds, submitted

    def peak_bytes(self) -> int | None:
        return self._ask("peak")

    def end(self) -> None:
        self._process.communicate()


def serve(words: str) -> None:
    """The process of a Peer: says its first losses, then answers each line."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else is printed is no answer
    row, place, fused = json.loads(words)
    training = Training(Row(*row), place, fused)
    answers.write(json.dumps(training.losses) + "\n")
    for line_ in sys.stdin:
        answer = training.peak_bytes() if line_ == "peak\n" else training.go(int(line_))
        answers.write(json.dumps(answer) + "\n")


def run_training(row: Row, peer: str, options: argparse.Namespace) -> dict[str, Any]:
    theirs = Peer(row, peer, options.fused)
    try:
        ours = Training(row, OURS, options.fused)
        result = measured(ours.go, theirs.go, options.rounds, options.steps)
        peaks = {"ours": ours.peak_bytes(), "peer": theirs.peak_bytes()}
    finally:
        theirs.end()
    result |= {"losses": {"ours": ours.losses, "peer": theirs.losses}, "peak_bytes": peaks}
    # Dropout takes other elements on each side.
    room = 0.15 if row.model.startswith("transformer") and row.dropout else 2e-3 if row.precision == "float32" else 3e-2
    first = [ours.losses[0], theirs.losses[0]]
    if not abs(first[0] - first[1]) <= room * abs(first[1]):
        result["error"] = f"the first loss is {first[0]:.5f}, and {first[1]:.5f} on {peer}"
    return result


def run_eager(peer: str, options: argparse.Namespace) -> dict[str, Any]:
    calls = [partial(torch.add, torch.ones(16, device=place), torch.ones(16, device=place)) for place in (OURS, peer)]
    for call in calls:
        for _ in range(CALLS):
            call()
    return measured(side(calls[0], OURS), side(calls[1], peer), options.rounds, CALLS)


def measure_row(title: str, target: float, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What was measured, with the title, the target, and whatever fell back or went wrong."""
    progress(f"{title} ...")
    before = fallbacks()
    try:
        result = run()
    except Exception as error:  # the other rows are worth having
        traceback.print_exc()
        result = {"error": f"{type(error).__name__}: {error}"}
    fell_back = fallbacks() - before
    if fell_back:
        result.setdefault("error", f"{sum(fell_back.values())} calls fell back to the CPU")
    gc.collect()
    for place in {OURS, *(["cuda"] if torch.cuda.is_available() else [])}:
        with contextlib.suppress(RuntimeError):
            getattr(torch, place).empty_cache()
    return {"title": title, "target": target, "fallbacks": dict(fell_back), **result}


def line(row: dict[str, Any]) -> str:
    """A row of what is printed."""
    if "ratio" not in row:
        return f"{row['title']:<60} FAILED: {row['error']}"
    unit, factor = ("us", 1e6) if row["ours_seconds"] < 1e-3 else ("ms", 1e3)
    ours, peer, host, host_of_peer = (
        row[key] * factor
        for key in ("ours_seconds", "peer_seconds", "ours_submission_seconds", "peer_submission_seconds")
    )
    text = (
        f"{row['title']:<60} {ours:8.2f} {peer:8.2f} {unit}  ratio {row['ratio']:.3f} ({min(row['ratios']):.3f} to "
        f"{max(row['ratios']):.3f}), wanted {row['target']:g}{'' if row['ratio'] <= row['target'] else ' MISSED'}; "
        f"submitted in {host:.2f} and {host_of_peer:.2f}"
    )
    peaks = row.get("peak_bytes", {})
    if peaks.get("ours"):
        text += f"; peak {peaks['ours'] / 2**30:.2f}"
        text += f" and {peaks['peer'] / 2**30:.2f} GiB" if peaks.get("peer") else " GiB"
    if "losses" in row:
        text += "; losses " + ", ".join(
            f"{a:.4f} {b:.4f}" for a, b in zip(row["losses"]["ours"], row["losses"]["peer"])
        )
    return text + (f"; FAILED: {row['error']}" if "error" in row else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", choices=list(TRAININGS), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--only", default="", help="rows whose title, model or precision contains this")
    parser.add_argument("--rounds", type=int, default=12, help="at least 2")
    parser.add_argument("--steps", type=int, default=4, help="on either side in a round")
    parser.add_argument("--fused", action="store_true", help="the optimizers' fused variants")
    parser.add_argument("--json", type=Path, help="file for the rows")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    if options.serve:
        serve(options.serve)
        return 0
    if options.rounds < 2 or options.steps < 1:
        parser.error("--rounds is at least 2, --steps at least 1")
    if not getattr(torch, OURS).is_available():
        import unihal_torch

        raise SystemExit(f"PyTorch has no device {OURS}: {unihal_torch.reason}")
    peer = options.peer
    name = getattr(torch, OURS).get_device_name(0)
    print(f"PyTorch {torch.__version__}: {OURS} ({os.environ['UNIHAL_BACKEND']}, {name}) beside {peer}", flush=True)
    plan: list[tuple[str, float, Callable[[], dict[str, Any]]]] = [
        ("an eager add of 16 elements", EAGER_TARGETS[peer], partial(run_eager, peer, options))
    ]
    for row in TRAININGS[peer]:
        title = f"{row.title}, {row.precision}"
        plan.append((f"{title} ({row.model})", STEP_TARGETS[peer], partial(run_training, row, peer, options)))
    rows = []
    for title, target, run in plan:
        if options.only not in title:
            continue
        rows.append(measure_row(title, target, run))
        print(line(rows[-1]), flush=True)
        for what, count in rows[-1]["fallbacks"].items():
            print(f"    fell back: {what} x{count}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=2) + "\n")
    failed = [row["title"] for row in rows if "error" in row]
    if failed or not rows:
        print("failed: " + ("; ".join(failed) or "no row of that name"))
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
