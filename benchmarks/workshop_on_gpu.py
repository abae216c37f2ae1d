"""The workshop's pipelines on unihal's device beside PyTorch's own, with few bits and with offload.

    python benchmarks/workshop_on_gpu.py [--peer cuda|cpu] [--only TEXT] [--rounds 5] [--steps 20] [--json FILE]

| row | what is measured |
|---|---|
| Stable Diffusion 1.5, 512x512 | seconds of an image and peak memory, float16, beside PyTorch's own in float16; then 8 bit, 4 bit and offload beside our float16 |
| a decoder of 1.1 billion parameters | seconds of 64 tokens after a prompt, the same variants |
| ResNet-50, 32 images | the same |
| the link | what layers' offload gets of the link's bandwidth while the device computes |

Weights are random, from one seed, so both sides have the same. The peer is a process of its own without unihal, stock
modules (nothing fused), which waits while we are measured. A ratio is our time over the peer's, the median of the
rounds' ratios; a round is one run on either side. Errors are of the outputs (latents, logits), the norm of the difference
over the norm: of float16 against the peer, of the others against our float16.

UNIHAL_BACKEND chooses the backend (default: stub), UNIHAL_TORCH_DEVICE the device type (default: what the backend serves
first). With --small, tiny configurations, to see that it runs. Needs diffusers, transformers, accelerate, safetensors.
Exits with 1 if a row fails, if something fell back to the CPU, or if float16's error against the peer is above 0.2;
a ratio beyond its target is shown, and no failure.
"""  # noqa: E501

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any, NamedTuple

DEVICE_TYPES = {"corex": "iluvatar", "opencl": "polaris"}
os.environ.setdefault("UNIHAL_BACKEND", "stub")
os.environ.setdefault("UNIHAL_TORCH_DEVICE", DEVICE_TYPES.get(os.environ["UNIHAL_BACKEND"], "rdna"))
os.environ.setdefault("UNIHAL_GPU_MEASURE", "1")

import numpy as np  # noqa: E402
import torch  # noqa: E402
from measure import progress  # noqa: E402
from unihal_workshop import create  # noqa: E402
from unihal_workshop.optimizer import LayerOffload  # noqa: E402
from unihal_workshop.optimizer.search import error_between  # noqa: E402

OURS = os.environ["UNIHAL_TORCH_DEVICE"]
#: Our time over the peer's in float16 that is wanted, by backend.
TARGETS = {"corex": 1.2, "opencl": 3.0}
LINK_TARGET = 0.8
MIB = 1 << 20


class Pipeline(NamedTuple):
    """A pipeline to measure, with its variants: a title and options."""

    title: str
    name: str
    source: dict[str, Any]
    inputs: dict[str, Any]
    options: dict[str, Any]
    variants: tuple[tuple[str, dict[str, Any]], ...]


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


class Runner:
    """A pipeline on a device of this process: loaded and warm."""

    def __init__(self, name: str, source: Any, inputs: Any, device: str, options: dict[str, Any]) -> None:
        self.inputs = inputs
        self.model: Any = create(name, source, device=device, **{"dtype": "float16", **options})
        for _ in range(2):  # memory is taken, programs are compiled, algorithms are chosen
            self.last = self.model.run(inputs, seed=1)

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

    def array(self) -> np.ndarray[Any, Any]:
        return np.asarray(self.model.output_array(self.last.output))

    def weight_bytes(self) -> int:
        return int(self.model.weight_bytes())

    def end(self) -> None:
        self.model.unload()
        del self.model
        gc.collect()


class Peer:
    """A Runner in a process of its own, in which PyTorch does not load unihal."""

    def __init__(self, pipeline: Pipeline, device: str) -> None:
        words = [pipeline.name, pipeline.source, pipeline.inputs, device, {**pipeline.options, "fuse": False}]
        if device == "cpu":
            words[-1]["dtype"] = "float32"  # type: ignore[index]
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", json.dumps(words)],
            env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._is_warm = False

    def wait_until_warm(self) -> None:
        """It loads while we do."""
        if not self._is_warm:
            self._answer()
            self._is_warm = True

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if not said:
            raise RuntimeError(f"the peer's process ended with {self._process.wait()}")
        return json.loads(said)

    def ask(self, words: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(words + "\n")
        self._process.stdin.flush()
        return self._answer()

    def array(self) -> np.ndarray[Any, Any]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "output.npy"
            self.ask(f"array {path}")
            found: np.ndarray[Any, Any] = np.load(path)
            return found

    def end(self) -> None:
        self._process.communicate()


def serve(words: str) -> None:
    """The process of a Peer: says that it is warm, then answers each line."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else is printed is no answer
    runner = Runner(*json.loads(words))
    answers.write("true\n")
    for line in sys.stdin:
        command, _, rest = line.strip().partition(" ")
        if command == "array":
            np.save(rest, runner.array())
            answers.write("true\n")
        else:
            answers.write(json.dumps(runner.run()) + "\n")


def median(values: list[dict[str, Any]], key: str) -> float:
    return statistics.median(value[key] for value in values)


def measure_pipeline(pipeline: Pipeline, peer: str, rounds: int, only: str, show: Any) -> None:
    """Shows the rows of a pipeline: float16 beside the peer, and each variant beside float16.

    Variants whose `pipeline: title` does not contain `only` are left out; float16 is not, if any of them is there.
    """
    wanted = [title for title in ("float16", *dict(pipeline.variants)) if only in f"{pipeline.title}: {title}"]
    if not wanted:
        return
    chosen = [("float16", {}), *(variant for variant in pipeline.variants if variant[0] in wanted)]
    theirs = Peer(pipeline, peer)
    base: np.ndarray[Any, Any] | None = None
    seconds = 0.0
    try:
        for title, options in chosen:
            progress(f"{pipeline.title}: {title} ...")
            row: dict[str, Any] = {"pipeline": pipeline.title, "title": title}
            try:
                ours = Runner(pipeline.name, pipeline.source, pipeline.inputs, OURS, {**pipeline.options, **options})
                theirs.wait_until_warm()
                mine, other = [], []
                for _ in range(rounds):
                    mine.append(ours.run())
                    other.append(theirs.ask("run"))
                ratios = [a["seconds"] / b["seconds"] for a, b in zip(mine, other)]
                row |= {
                    "seconds": median(mine, "seconds"),
                    "peer_seconds": median(other, "seconds"),
                    "ratio": statistics.median(ratios),
                    "ratios": ratios,
                    "peak_bytes": int(median(mine, "peak_bytes")),
                    "peer_peak_bytes": int(median(other, "peak_bytes")),
                    "weight_bytes": ours.weight_bytes(),
                    "details": mine[-1]["details"],
                    "peer_details": other[-1]["details"],
                }
                array = ours.array()
                if base is None:
                    base, seconds = array, row["seconds"]
                    row["error_to_peer"] = error_between(theirs.array(), array)
                    if not row["error_to_peer"] <= 0.2:
                        row["error"] = f"the output differs from the peer's by {row['error_to_peer']:.3g}"
                row |= {"error_to_float16": error_between(base, array), "of_float16": row["seconds"] / seconds}
                ours.end()
                del ours
                gc.collect()
                getattr(torch, OURS).empty_cache()
            except Exception as error:  # the other rows are worth having
                traceback.print_exc()
                row["error"] = f"{type(error).__name__}: {error}"
            show(row)
    finally:
        theirs.end()


def seconds_of(call: Any, wait: Any, times: int = 5) -> float:
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
        "pipeline": "the link",
        "title": f"offload of {count} layers of {unit / MIB:.1f} MiB, {rows} rows",
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


def line(row: dict[str, Any], target: float | None) -> str:
    title = f"{row['pipeline']}: {row['title']}"
    if "seconds" not in row:
        return f"{title:<66} FAILED: {row['error']}"
    if "of_link" in row:
        missed = "" if row["of_link"] >= LINK_TARGET else " MISSED"
        return (
            f"{title:<66} {row['of_link']:.2f} of the link's {row['link_gigabytes_per_second']:.1f} GB/s (wanted "
            f"{LINK_TARGET}{missed}); computing alone {row['compute_seconds'] * 1e3:.2f} ms, copies alone "
            f"{row['link_seconds'] * 1e3:.2f}, both {row['seconds'] * 1e3:.2f}; overlap {row['overlap']:.2f}"
        )
    text = f"{title:<66} {row['seconds']:8.3f} s"
    if row["title"] == "float16":
        wanted = "" if target is None else f", wanted {target:g}{'' if row['ratio'] <= target else ' MISSED'}"
        text += (
            f", peer {row['peer_seconds']:.3f}: ratio {row['ratio']:.3f} ({min(row['ratios']):.3f} to "
            f"{max(row['ratios']):.3f}{wanted})"
        )
    else:
        text += f", {row['of_float16']:.2f} of float16's"
    text += f"; peak {row['peak_bytes'] / MIB:,.0f} MiB"
    if row["title"] == "float16":
        text += f", peer {row['peer_peak_bytes'] / MIB:,.0f}; error to peer {row.get('error_to_peer', 0):.2e}"
    else:
        text += f"; error {row['error_to_float16']:.2e}"
    text += f"; weights {row['weight_bytes'] / MIB:,.0f} MiB"
    return text + (f"; FAILED: {row['error']}" if "error" in row else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--only", default="", help="rows whose `pipeline: title` contains this, and their float16")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="of denoising")
    parser.add_argument("--small", action="store_true", help="tiny configurations")
    parser.add_argument("--json", type=Path, help="file for the rows")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    if options.serve:
        serve(options.serve)
        return 0
    if options.rounds < 1 or options.steps < 1:
        parser.error("--rounds and --steps are at least 1")
    import unihal

    if not getattr(torch, OURS).is_available():
        import unihal_torch

        raise SystemExit(f"PyTorch has no device {OURS}: {unihal_torch.reason}")
    backend = os.environ["UNIHAL_BACKEND"]
    name = getattr(torch, OURS).get_device_name(0)
    print(f"PyTorch {torch.__version__}: {OURS} ({backend}, {name}) beside {options.peer}", flush=True)
    target = TARGETS.get(backend) if options.peer == "cuda" else None
    rows: list[dict[str, Any]] = []

    def show(row: dict[str, Any]) -> None:
        rows.append(row)
        print(line(row, target), flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=2) + "\n")

    before = len(unihal.fallbacks())
    for pipeline in pipelines(options.small, options.steps):
        measure_pipeline(pipeline, options.peer, options.rounds, options.only, show)
    if options.only in "the link":
        show(measure_link(options.small))
    for entry in unihal.fallbacks()[before:]:
        print(f"    fell back: {entry.op}[{entry.dtype}]: {entry.reason} x{entry.count}")
    failed = [f"{row['pipeline']}: {row['title']}" for row in rows if "error" in row]
    if failed or not rows or len(unihal.fallbacks()) > before:
        print("failed: " + ("; ".join(failed) or ("fallbacks" if rows else "no row of that name")))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
