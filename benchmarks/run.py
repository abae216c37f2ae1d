"""Runs the benchmarks, each in a process of its own, and prints one table of ratios.

    python benchmarks/run.py [--only SUBSTRING] [--quick] [--json FILE]

A ratio is the device's time over the peer's in the same run: below 1 the device is faster. ``--quick`` leaves out
ResNet-50, the BERT-base encoder and GPT-2. The stub serves as the device unless UNIHAL_BACKEND says otherwise. The
peer of training is the framework's own CPU, or PyTorch on the same GPU where there is one.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

HERE = pathlib.Path(__file__).resolve().parent
# On the stub, which serves every type; OpenCL serves polaris wherever it serves any.
DEVICE_TYPES = {"paddle": "iluvatar", "tensorflow": "rdna"}
# Of backends that serve one type before all others.
DEVICE_TYPES_OF_BACKENDS = {"opencl": "polaris", "corex": "iluvatar", "hip": "rdna"}
ABI_TARGETS = {"empty_launch_ns": 300.0, "allocate_and_free_ns": 150.0}


def environment() -> dict[str, str]:
    variables = dict(os.environ)
    variables.setdefault("UNIHAL_BACKEND", "stub")
    variables.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))
    variables.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    return variables


def run(command: list[str]) -> list[dict[str, Any]]:
    """The JSON lines that a child process prints; its failure is a row with an error."""
    result = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    rows = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    if result.returncode != 0:
        last = (result.stderr.strip().splitlines() or ["no output"])[-1]
        rows.append({"benchmark": " ".join(command[1:]), "error": f"exit code {result.returncode}: {last}"})
    return rows


def native(name: str) -> list[dict[str, Any]]:
    """The rows of a program that CMake builds."""
    program = HERE.parent / "build" / "cmake" / "benchmarks" / f"benchmark_{name}"
    if not program.exists():
        return [{"benchmark": name, "error": f"{program} is not built: run `make benchmarks`"}]
    return run([str(program)])


def abi() -> list[dict[str, Any]]:
    rows = []
    for row in native("abi"):
        if "error" in row:
            rows.append(row)
            continue
        for name, value in row.items():
            target = ABI_TARGETS.get(name)
            rows.append(
                {"benchmark": f"abi: {name.removesuffix('_ns')}", "unit": "ns", "device": value, "target_value": target}
            )
    return rows


def device_of(framework: str) -> str:
    """The type of device to measure in a framework."""
    return DEVICE_TYPES_OF_BACKENDS.get(environment()["UNIHAL_BACKEND"], DEVICE_TYPES[framework])


def dispatch(framework: str) -> list[dict[str, Any]]:
    on_gpu = has_cuda()
    device = device_of(framework)
    runs = [(framework, [device]), ("torch", ["cuda"])] if on_gpu else [(framework, ["cpu", device])]
    seconds: dict[str, float] = {}
    for name, places in runs:
        rows = run([sys.executable, str(HERE / "dispatch.py"), name, *places])
        if not rows or "error" in rows[-1]:
            return rows or [{"benchmark": f"{name} dispatch", "error": "no output"}]
        seconds |= rows[-1]["seconds"]
    peer = seconds["cuda" if on_gpu else "cpu"]
    on_gpu_target = {"paddle": 1.3, "tensorflow": 2.0}[framework]
    return [
        {
            "benchmark": f"{framework}: eager add of 16 float32",
            "unit": "us",
            "device": seconds[device] * 1e6,
            "peer": peer * 1e6,
            "peer_name": "PyTorch" if on_gpu else f"{framework} CPU",
            "ratio": seconds[device] / peer,
            "target": on_gpu_target if on_gpu else 1.5,
        }
    ]


def training(framework: str, model: str, *options: str) -> list[dict[str, Any]]:
    """Seconds of a training step, and where both sides count it, the most device memory that tensors held."""
    on_gpu = has_cuda()
    device = device_of(framework)
    peer = ("torch", "cuda") if on_gpu else (framework, "cpu")
    results = []
    for name, place in ((framework, device), peer):
        rows = run([sys.executable, str(HERE / "training.py"), name, model, place, *options])
        if not rows or "error" in rows[-1]:
            return rows or [{"benchmark": " ".join([name, model, *options]), "error": "no output"}]
        results.append(rows[-1])
    peer_name = f"{framework} CPU"
    if on_gpu:
        peer_name = "torch.compile" if "--compiled" in options else "PyTorch"
    what = " ".join([f"{framework}: {model} training step", *options])
    seconds = [result["seconds"] for result in results]
    table = [("s", what, seconds, 1.1 if "--compiled" in options else 1.0)]
    peaks = [result["peak_bytes"] for result in results]
    if all(peaks):
        table.append(("GiB", f"{what}: memory", [peak / 2**30 for peak in peaks], 1.1))
    return [
        {
            "benchmark": title,
            "unit": unit,
            "device": values[0],
            "peer": values[1],
            "peer_name": peer_name,
            "ratio": values[0] / values[1],
            "target": target,
        }
        for unit, title, values, target in table
    ]


@functools.cache
def has_cuda() -> bool:
    """Whether the device is a GPU that PyTorch sees as well."""
    if environment()["UNIHAL_BACKEND"] == "stub" or importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def draw(rows: list[dict[str, Any]], console: Console) -> None:
    table = Table(title="unihal benchmarks")
    for column in ("benchmark", "device", "peer", "peer is", "ratio", "target"):
        table.add_column(column, justify="left" if column in ("benchmark", "peer is") else "right")
    for row in rows:
        if "error" in row:
            table.add_row(row["benchmark"], "", "", row["error"], "", "", style="red")
            continue
        unit = row["unit"]
        goal = row.get("target_value") or row.get("target")
        measured = row["ratio"] if "ratio" in row else row["device"]
        table.add_row(
            row["benchmark"],
            f"{row['device']:.4g} {unit}",
            f"{row['peer']:.4g} {unit}" if "peer" in row else "",
            row.get("peer_name", ""),
            f"{row['ratio']:.2f}" if "ratio" in row else "",
            f"<= {goal:g}" if goal else "",
            style="" if not goal or measured <= goal else "yellow",
        )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="run only the benchmarks whose name contains this")
    parser.add_argument("--quick", action="store_true", help="leave out the large models")
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    plan: list[tuple[str, Any]] = [("abi", abi), ("kernels onednn", lambda: native("onednn"))]
    for peer in ("numpy", "complex64", "complex128", "paddle", "tensorflow"):
        plan.append((f"kernels {peer}", lambda p=peer: run([sys.executable, str(HERE / "kernels.py"), p])))
    plan.append(("data", lambda: run([sys.executable, str(HERE / "data_dependent.py")])))
    for framework in ("paddle", "tensorflow"):
        plan.append((f"dispatch {framework}", lambda f=framework: dispatch(f)))
    for framework in ("paddle", "keras"):
        plan.append((f"strict {framework}", lambda f=framework: run([sys.executable, str(HERE / "strict.py"), f])))
    models = [["resnet18"]]
    compiled: list[list[str]] = []
    if not arguments.quick:
        models += [["resnet50"], ["transformer"], ["gpt2"]]
        if has_cuda():
            large = ["resnet50-64", "transformer-16"]
            models += [[model, *options] for model in large for options in ([], ["--bfloat16"])]
            models.append(["gpt2-8", "--bfloat16"])
            # paddle.jit.to_static against torch.compile; a model in Keras is a graph in any case.
            compiled = [[*model, "--compiled"] for model in models if model[0] in (*large, "gpt2-8")]
    for framework in ("paddle", "tensorflow"):
        for model in models + (compiled if framework == "paddle" else []):
            plan.append((f"training {framework} {model[0]}", lambda f=framework, m=model: training(f, *m)))
    console = Console()
    rows: list[dict[str, Any]] = []
    for name, call in plan:
        if arguments.only in name:
            console.print(f"[dim]{name} ...[/dim]")
            rows.extend(call())
    draw(rows, console)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")
    if any("error" in row for row in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
