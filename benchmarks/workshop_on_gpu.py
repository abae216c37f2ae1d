"""The workshop's pipelines on unihal's device beside PyTorch's own, with few bits and with offload.

    python benchmarks/workshop_on_gpu.py [--peer cuda|cpu] [--only TEXT ...] [--rounds 5] [--steps 20] [--json FILE]
                                         [--limit SECONDS] [--budget SECONDS]

| row | what is measured |
|---|---|
| the link | what layers' offload gets of the link's bandwidth while the device computes |
| Stable Diffusion 1.5, 512x512 | seconds of an image and peak memory, float16, beside PyTorch's own in float16; then 8 bit, 4 bit and offload beside our float16 |
| a decoder of 1.1 billion parameters | seconds of 64 tokens after a prompt, the same variants |
| ResNet-50, 32 images | the same |

Weights are random, from one seed, so all sides have the same. Each side is a process of its own, which keeps its model
while the others are measured in turn: our float16, our variant, and the peer, which has stock modules (nothing fused)
and no device of unihal's. A ratio is the median of the rounds' ratios; a round is one run on either side. Errors are of
the outputs (latents, logits), the norm of the difference over the norm: of float16 against the peer, of the others
against our float16.

A row is printed as soon as it is measured, and written to --json. What fails, hangs beyond --limit seconds (a load or a run) or
takes its process with it costs that row alone: a new process does the next one. --budget seconds after the start the
row that runs is cut, and it and those behind it are named at the end; --only, which may be given again, does them in another call.

UNIHAL_BACKEND chooses the backend (default: stub), UNIHAL_TORCH_DEVICE the device type (default: what the backend serves
first). With --small, tiny configurations, to see that it runs. Needs diffusers, transformers, accelerate, safetensors.
Exits with 1 if a row fails or is left out, if something fell back to the CPU, or if float16's error against the peer is
above 0.2; a ratio beyond its target is shown, and no failure.
"""  # noqa: E501

from __future__ import annotations

import argparse
import gc
import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from measure import progress

DEVICE_TYPES = {"corex": "iluvatar", "opencl": "polaris"}
os.environ.setdefault("UNIHAL_BACKEND", "stub")
os.environ.setdefault("UNIHAL_TORCH_DEVICE", DEVICE_TYPES.get(os.environ["UNIHAL_BACKEND"], "rdna"))
os.environ.setdefault("UNIHAL_GPU_MEASURE", "1")

OURS = os.environ["UNIHAL_TORCH_DEVICE"]
#: Our time over the peer's in float16 that is wanted, by backend.
TARGETS = {"corex": 1.2, "opencl": 3.0}
LINK_TARGET = 0.8
MOST_ERROR = 0.2
MIB = 1 << 20
LINK = "the link"


class Pipeline(NamedTuple):
    """A pipeline to measure, with its variants: a title and options."""

    title: str
    name: str
    source: dict[str, Any]
    inputs: dict[str, Any]
    options: dict[str, Any]
    variants: tuple[tuple[str, dict[str, Any]], ...]

    def words(self, device: str, **options: Any) -> dict[str, Any]:
        """What a side is told to make."""
        return {
            "name": self.name,
            "source": self.source,
            "inputs": self.inputs,
            "device": device,
            "options": {"dtype": "float16", **self.options, **options},
        }


def pipelines(small: bool, steps: int) -> list[Pipeline]:
    bits: tuple[tuple[str, dict[str, Any]], ...] = (("8 bit", {"bits": 8}), ("4 bit", {"bits": 4}))
    offload = (
        ("offload of layers", {"offload": "layers"}),
        ("8 bit, offload of parts", {"bits": 8, "offload": "parts"}),
    )
    side = 64 if small else 512
    variant = {"variant": "test"}
    return [
        Pipeline(
            f"Stable Diffusion, {side}x{side}, {steps} steps",
            "stable-diffusion",
            variant if small else {"variant": "sd15"},
            {"width": side, "height": side, "steps": steps},
            {},
            (*bits, *offload, ("tiled VAE", {"vae_tile": 32 if small else 256}), ("no fusion", {"fuse": False})),
        ),
        Pipeline(
            "decoder, 1.1e9 parameters, 64 tokens",
            "text-generation",
            variant if small else {"variant": "decoder-1b"},
            {"prompt": "Once upon a time", "new_tokens": 16 if small else 64, "temperature": 0},
            {"cache": "static"},
            (*bits, ("offload of layers", {"offload": "layers"})),
        ),
        Pipeline(
            "ResNet-50, 32 images",
            "image-classification",
            variant if small else {"variant": "resnet50"},
            {"images": 4 if small else 32},
            {"size": 32} if small else {},
            bits,
        ),
    ]


# -- the process of a side -------------------------------------------------------------------------------------------


class Runner:
    """A pipeline on a device of this process: loaded and warm."""

    def __init__(self, name: str, source: Any, inputs: Any, device: str, options: dict[str, Any]) -> None:
        from unihal_workshop import create

        self.inputs, self.device = inputs, device
        start = time.monotonic()
        self.model: Any = create(name, source, device=device, **options)
        self.model.load()
        self.load_seconds = time.monotonic() - start
        start = time.monotonic()
        for _ in range(2):  # memory is taken, programs are compiled, algorithms are chosen
            self.last = self.model.run(inputs, seed=1)
        self.warm_seconds = time.monotonic() - start

    def run(self) -> dict[str, Any]:
        gc.collect()
        gc.disable()
        try:
            self.last = self.model.run(self.inputs, seed=1)
        finally:
            gc.enable()
        return {
            "seconds": self.last.seconds,
            "peak_bytes": self.last.peak_bytes,
            "details": {key: value for key, value in self.last.details.items() if isinstance(value, (int, float))},
        }

    def array(self) -> Any:
        return self.model.output_array(self.last.output)

    def end(self) -> None:
        import torch

        self.model.unload()
        del self.model
        gc.collect()
        if self.device != "cpu":
            getattr(torch, self.device).empty_cache()


def seconds_of(call: Callable[[], object], wait: Callable[[], object], times: int = 5) -> float:
    call()
    wait()
    found = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        wait()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def measure_link(small: bool) -> dict[str, Any]:
    """What offload gets of the link: linear layers whose computing takes from half to all of their copies' time."""
    import torch
    from unihal_workshop.optimizer import LayerOffload

    width, count = (256, 8) if small else (4096, 32)
    functions = getattr(torch, OURS)
    wait = functions.synchronize
    model = torch.nn.Sequential(
        *[torch.nn.Sequential(torch.nn.Linear(width, width, bias=False, dtype=torch.float16)) for _ in range(count)]
    )
    model.eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=width**-0.5)
    unit = width * width * 2
    offload = LayerOffload(model, OURS, prefetch=2, largest_bytes=2 * unit)
    stream = functions.Stream()
    targets = [torch.empty(unit, dtype=torch.uint8, device=OURS) for _ in range(2)]

    def copies() -> None:
        with functions.stream(stream):
            for number, moving in enumerate(offload.units):
                targets[number % 2].copy_(moving.host[:unit], non_blocking=True)
        stream.synchronize()

    link = seconds_of(copies, wait)
    weights = [torch.randn(width, width, dtype=torch.float16).mul_(width**-0.5).to(OURS) for _ in range(2)]
    rows = 16
    while True:
        x = torch.randn(rows, width, dtype=torch.float16).to(OURS)

        def compute(x: torch.Tensor = x) -> None:
            y = x
            for number in range(count):
                y = torch.nn.functional.linear(y, weights[number % 2])

        alone = seconds_of(compute, wait)
        if alone >= 0.5 * link or rows >= 1 << 17:
            break
        rows *= 2
    with torch.no_grad():
        both = seconds_of(lambda: model(x), wait, 9)
    offload.remove()
    total = count * unit
    return {
        "layers": f"{count} layers of {unit / MIB:.1f} MiB, {rows} rows",
        "link_seconds": link,
        "compute_seconds": alone,
        "seconds": both,
        "link_gigabytes_per_second": total / link / 1e9,
        "offload_gigabytes_per_second": total / both / 1e9,
        "of_link": link / both,
        # 1: as long as the longer of the two, 0: as long as both together.
        "overlap": (link + alone - both) / min(link, alone),
        "late": offload.late,
    }


class Served:
    """What the process of a side does, a method a command."""

    def __init__(self) -> None:
        self.runner: Runner | None = None

    def _present(self) -> Runner:
        if self.runner is None:
            raise RuntimeError("nothing was made")
        return self.runner

    def hello(self) -> dict[str, str]:
        import torch

        device = getattr(torch, OURS)
        if not device.is_available():
            import unihal_torch

            raise RuntimeError(f"PyTorch has no device {OURS}: {unihal_torch.reason}")
        return {"torch": torch.__version__, "device": device.get_device_name(0)}

    def prepare(self, name: str) -> bool:
        """Imports what a pipeline needs, while others are measured."""
        from unihal_workshop.inference import model_class

        model_class(name)
        return True

    def make(self, **words: Any) -> dict[str, float]:
        import torch

        torch.backends.cudnn.benchmark = True
        self.runner = Runner(**words)
        return {"load_seconds": self.runner.load_seconds, "warm_seconds": self.runner.warm_seconds}

    def is_made(self) -> bool:
        return self.runner is not None

    def run(self) -> dict[str, Any]:
        return self._present().run()

    def facts(self) -> dict[str, int]:
        return {"weight_bytes": int(self._present().model.weight_bytes())}

    def save(self, path: str) -> bool:
        import numpy as np

        np.save(path, self._present().array())
        return True

    def error_to(self, path: str) -> float:
        """How far the output is from an array that another side saved."""
        import numpy as np
        from unihal_workshop.optimizer.search import error_between

        return error_between(np.load(path), self._present().array())

    def end(self) -> bool:
        runner, self.runner = self.runner, None
        if runner is not None:
            runner.end()
        return True

    def link(self, small: bool) -> dict[str, Any]:
        return {**measure_link(small), "fallbacks": self.fallbacks()}

    def fallbacks(self) -> list[str]:
        """What fell back to the CPU since the process began."""
        import unihal

        return [f"{entry.op}[{entry.dtype}]: {entry.reason} x{entry.count}" for entry in unihal.fallbacks()]


def serve() -> None:
    """Answers each line of stdin, {"do": name, ...}, with a line: {"answer": ...} or {"error": text}."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else is printed is no answer
    served = Served()
    for line in sys.stdin:
        words = json.loads(line)
        try:
            answer = {"answer": getattr(served, words.pop("do"))(**words)}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")


# -- the process that asks -------------------------------------------------------------------------------------------


class Clock:
    """How long an answer may take: --limit, and what is left of --budget."""

    def __init__(self, limit: float, budget: float) -> None:
        self.limit = limit
        self._end = time.monotonic() + budget if budget else None

    @property
    def is_over(self) -> bool:
        """Whether the budget is spent."""
        return self._end is not None and time.monotonic() >= self._end

    @property
    def left(self) -> float:
        return self.limit if self._end is None else min(self.limit, self._end - time.monotonic())


class Side:
    """A process that measures: ours, or the peer's, in which PyTorch does not load unihal."""

    def __init__(self, what: str, clock: Clock, ours: bool = True) -> None:
        self.what, self._clock, self._ours = what, clock, ours
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()
        self._asked = 0

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            environment = os.environ if self._ours else {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
            self._process = subprocess.Popen(
                [sys.executable, __file__, "--serve"],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self._lines, self._asked = queue.Queue(), 0
            threading.Thread(target=self._read, args=(self._process, self._lines), daemon=True).start()
        return self._process

    @staticmethod
    def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put("")

    def begin(self, do: str, **words: Any) -> None:
        """Asks without waiting for the answer, which `answer` gives."""
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps({"do": do, **words}) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # `answer` says how it ended
        self._asked += 1

    def answer(self) -> Any:
        """The next answer; RuntimeError if there is none in time, and the process is ended then."""
        try:
            said = self._lines.get(timeout=max(self._clock.left, 1))
        except queue.Empty:
            self.kill()
            reason = "the budget ended before its answer" if self._clock.is_over else "no answer in time"
            raise RuntimeError(f"{self.what}: {reason}") from None
        if not said:
            code = self.kill()
            raise RuntimeError(f"the process of {self.what} ended with {code}")
        self._asked -= 1
        found = json.loads(said)
        if "error" in found:
            raise RuntimeError(f"{self.what}: {found['error']}")
        return found["answer"]

    def settle(self) -> None:
        """Waits for answers that nobody read; RuntimeError for the first that is an error."""
        while self._asked:
            self.answer()

    def ask(self, do: str, **words: Any) -> Any:
        self.settle()
        self.begin(do, **words)
        return self.answer()

    def kill(self) -> int | None:
        """Ends the process at once; the next question begins another one. Gives how it ended."""
        process, self._process = self._process, None
        self._asked = 0
        if process is None:
            return None
        process.kill()
        return process.wait()


class Bench:
    """The rows: each is shown when it is done, however it ended."""

    def __init__(self, only: list[str], rounds: int, clock: Clock, target: float | None, path: Path | None) -> None:
        self.only, self.rounds, self.clock, self.target, self.path = only, rounds, clock, target, path
        self.rows: list[dict[str, Any]] = []

    def wants(self, pipeline: str, title: str) -> bool:
        return not self.only or any(text in f"{pipeline}: {title}" for text in self.only)

    def measure(self, pipeline: str, title: str, call: Callable[[dict[str, Any]], object]) -> bool:
        """Shows the row that `call` fills; False if it failed, and the row has an `error` then."""
        row: dict[str, Any] = {"pipeline": pipeline, "title": title}
        progress(f"{pipeline}: {title} ...")
        try:
            if self.clock.is_over:
                raise TimeoutError("left out: the budget is spent")
            call(row)
            if row.get("fallbacks"):
                raise RuntimeError(f"{len(row['fallbacks'])} ops fell back to the CPU: {'; '.join(row['fallbacks'])}")
        except Exception as error:  # the other rows are worth having
            row["error"] = str(error)
        self.rows.append(row)
        print(line(row, self.target), flush=True)
        if self.path is not None:
            self.path.write_text(json.dumps(self.rows, indent=2) + "\n")
        return "error" not in row


def median(values: list[dict[str, Any]], key: str) -> float:
    return float(statistics.median(value[key] for value in values))


def alternate(mine: Side, other: Side, rounds: int, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs two sides in turn: our figures into the row, with the ratios to the other's. Gives the other's runs.

    RuntimeError if ours fails. Where the other one does, the figures of ours are worth having: `lacking` says why.
    """
    here, there = [], []
    for _ in range(rounds):
        here.append(mine.ask("run"))
        if "lacking" not in row:
            try:
                there.append(other.ask("run"))
            except RuntimeError as error:
                row["lacking"] = str(error)
    row |= {
        "seconds": median(here, "seconds"),
        "peak_bytes": int(median(here, "peak_bytes")),
        "details": here[-1]["details"],
        **mine.ask("facts"),
    }
    if there:
        ratios = [a["seconds"] / b["seconds"] for a, b in zip(here, there)]
        row |= {
            "ratio": statistics.median(ratios),
            "ratios": ratios,
            "other_seconds": median(there, "seconds"),
            "other_peak_bytes": int(median(there, "peak_bytes")),
            "other_details": there[-1]["details"],
        }
    return there


def measure_pipeline(pipeline: Pipeline, peer: str, bench: Bench) -> None:
    """Shows the rows of a pipeline: float16 beside the peer, and each variant that is wanted beside float16."""
    chosen = [variant for variant in pipeline.variants if bench.wants(pipeline.title, variant[0])]
    if not chosen and not bench.wants(pipeline.title, "float16"):
        return
    base = Side("our float16", bench.clock)
    theirs = Side("the peer", bench.clock, ours=False)
    ours = Side("our variant", bench.clock)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)

        def measure_base(row: dict[str, Any]) -> None:
            # Without a peer ours is measured nevertheless, and the row says what it lacks.
            row |= base.ask("make", **pipeline.words(OURS))
            try:
                theirs.settle()
            except RuntimeError as error:
                row["lacking"] = str(error)
            there = alternate(base, theirs, bench.rounds, row)
            base.ask("save", path=str(path / "float16.npy"))
            row["fallbacks"] = base.ask("fallbacks")
            if there and "lacking" not in row:
                theirs.ask("save", path=str(path / "peer.npy"))
                row["error_of_output"] = base.ask("error_to", path=str(path / "peer.npy"))
                if not row["error_of_output"] <= MOST_ERROR:
                    raise RuntimeError(f"the output differs from the peer's by {row['error_of_output']:.3g}")
            if "lacking" in row:
                raise RuntimeError(row["lacking"])

        def measure_variant(options: dict[str, Any], row: dict[str, Any]) -> None:
            before = set(ours.ask("fallbacks"))
            row |= ours.ask("make", **pipeline.words(OURS, **options))
            if not (path / "float16.npy").exists():
                row["lacking"] = "float16 failed"
            elif not base.ask("is_made"):  # its process ended in the row before
                base.ask("make", **pipeline.words(OURS))
            there = alternate(ours, base, bench.rounds, row)
            row["fallbacks"] = sorted(set(ours.ask("fallbacks")) - before)
            if there:
                row["error_of_output"] = ours.ask("error_to", path=str(path / "float16.npy"))
            ours.ask("end")

        try:
            other = {"dtype": "float32"} if peer == "cpu" else {}
            theirs.begin("make", **pipeline.words(peer, fuse=False, **other))  # it loads while we do
            if chosen:
                ours.begin("prepare", name=pipeline.name)
            bench.measure(pipeline.title, "float16", measure_base)
            theirs.kill()
            for title, options in chosen:
                if not bench.measure(pipeline.title, title, partial(measure_variant, options)):
                    ours.kill()  # whatever state it is in, the next one begins anew
        finally:
            for side in (base, theirs, ours):
                side.kill()


def line(row: dict[str, Any], target: float | None) -> str:
    title = f"{row['pipeline']}: {row['title']}"
    failed = f"FAILED: {row['error']}" if "error" in row else ""
    if "seconds" not in row:
        return f"{title:<66} {failed}"
    if "of_link" in row:
        missed = "" if row["of_link"] >= LINK_TARGET else " MISSED"
        return (
            f"{title:<66} {row['of_link']:.2f} of the link's {row['link_gigabytes_per_second']:.1f} GB/s (wanted "
            f"{LINK_TARGET}{missed}); computing alone {row['compute_seconds'] * 1e3:.2f} ms, copies alone "
            f"{row['link_seconds'] * 1e3:.2f}, both {row['seconds'] * 1e3:.2f}; overlap {row['overlap']:.2f}; "
            f"{row['layers']}{'; ' + failed if failed else ''}"
        )
    parts = [f"{title:<66} {row['seconds']:8.3f} s"]
    peak = f"peak {row['peak_bytes'] / MIB:,.0f} MiB"
    if "ratio" in row:
        is_base = row["title"] == "float16"
        wanted = ""
        if is_base and target is not None:
            wanted = f", wanted {target:g}{'' if row['ratio'] <= target else ' MISSED'}"
        parts[0] += (
            f", {'peer' if is_base else 'float16'} {row['other_seconds']:.3f}: ratio {row['ratio']:.3f} "
            f"({min(row['ratios']):.3f} to {max(row['ratios']):.3f}{wanted})"
        )
        peak += f" of {row['other_peak_bytes'] / MIB:,.0f}"
    parts += [peak, f"weights {row['weight_bytes'] / MIB:,.0f} MiB"]
    if "error_of_output" in row:
        parts.append(f"error {row['error_of_output']:.2e}")
    parts.append(f"loaded in {row['load_seconds']:.0f} s, two runs to warm up {row['warm_seconds']:.0f}")
    if "lacking" in row and not failed:
        parts.append(f"FAILED: nothing to compare with: {row['lacking']}")
    return "; ".join(filter(None, (*parts, failed)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", choices=("cuda", "cpu"), help="default: cuda, and cpu for the stub")
    parser.add_argument("--only", action="append", default=[], help="rows whose `pipeline: title` contains this")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="of denoising")
    parser.add_argument("--limit", type=float, default=300, help="seconds that a load or a run may take")
    parser.add_argument("--budget", type=float, default=0, help="seconds after which no row goes on; 0: no end")
    parser.add_argument("--small", action="store_true", help="tiny configurations")
    parser.add_argument("--json", type=Path, help="file for the rows")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return 0
    if options.rounds < 1 or options.steps < 1 or options.limit <= 0 or options.budget < 0:
        parser.error("--rounds and --steps are at least 1, --limit is above 0, --budget at least 0")
    backend = os.environ["UNIHAL_BACKEND"]
    peer = options.peer or ("cpu" if backend == "stub" else "cuda")
    clock = Clock(options.limit, options.budget)
    bench = Bench(options.only, options.rounds, clock, TARGETS.get(backend) if peer == "cuda" else None, options.json)
    first = Side("ours", clock)
    try:
        try:
            found = first.ask("hello")
        except RuntimeError as error:
            raise SystemExit(str(error)) from None
        print(f"PyTorch {found['torch']}: {OURS} ({backend}, {found['device']}) beside {peer}", flush=True)
        if bench.wants(LINK, "offload"):
            bench.measure(LINK, "offload", lambda row: row.update(first.ask("link", small=options.small)))
    finally:
        first.kill()
    for pipeline in pipelines(options.small, options.steps):
        measure_pipeline(pipeline, peer, bench)
    failed = [f"{row['pipeline']}: {row['title']}" for row in bench.rows if "error" in row or "lacking" in row]
    if failed or not bench.rows:
        print("failed: " + ("; ".join(failed) or "no row of that name"))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
