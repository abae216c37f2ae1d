"""Runs the demonstration: two trainings of each framework, each in a process of its own, then the comparison."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from unihal import Error, device, devices

from .protocol import Epoch, Result, receive

#: What every run must reach on held-out images.
REQUIRED_ACCURACY = 0.97

# Two runs add float32 numbers in different orders, and training amplifies the difference. A wrong kernel misses these
# bounds by far: one image of the held-out 389 is 0.0026.
_LOSS_TOLERANCE = 0.05
_ACCURACY_TOLERANCE = 0.03

# For Paddle and Keras. Two types show more than one, and OpenCL serves polaris before others.
_DEVICE_TYPES = (("iluvatar", "rdna"), ("polaris", "polaris"), ("rdna", "rdna"), ("iluvatar", "iluvatar"))

# Modules, and the extra of unihal that brings each.
_REQUIRED_MODULES = (("sklearn", "demo"), ("matplotlib", "demo"))

#: The frameworks, with the module of each and the extra of unihal that brings it.
FRAMEWORKS = {"paddle": ("paddle", "paddle"), "keras": ("tensorflow", "tensorflow"), "pytorch": ("torch", "torch")}


class DemoError(Exception):
    """Why the demonstration did not succeed, for the person who runs it."""


@dataclass
class Run:
    """One training."""

    framework: str
    title: str
    module: str
    #: A device type, or "cpu".
    device: str
    epochs: list[Epoch] = field(default_factory=list)
    result: Result | None = None

    @property
    def on_cpu(self) -> bool:
        """Whether this is the run to compare with."""
        return self.device == "cpu"

    @property
    def measured(self) -> Result:
        """The result; only after the run."""
        if self.result is None:
            raise DemoError(f"{self.title} did not report a result")
        return self.result

    @property
    def accuracy(self) -> float:
        """The accuracy on held-out images at the end."""
        return self.epochs[-1].accuracy if self.epochs else 0.0


@dataclass
class Pair:
    """A framework's run on a device, and the one on its CPU."""

    device: Run
    cpu: Run

    @property
    def ratio(self) -> float:
        """The device's time, the CPU's being 1."""
        return self.device.measured.seconds / self.cpu.measured.seconds


def _device_types() -> tuple[str, str]:
    """What Paddle and Keras train on: of the choices, the first whose devices are all there."""
    present = {each.type for each in devices()}
    return next((types for types in _DEVICE_TYPES if present.issuperset(types)), _DEVICE_TYPES[0])


def _pairs(frameworks: Sequence[str]) -> list[Pair]:
    paddle, keras, pytorch = "unihal.demo.paddle_run", "unihal.demo.keras_run", "unihal.demo.torch_run"
    first, second = _device_types()
    pairs = [
        Pair(Run("paddle", f"Paddle, {first}", paddle, first), Run("paddle", "Paddle, CPU", paddle, "cpu")),
        Pair(Run("keras", f"Keras, {second.upper()}", keras, second), Run("keras", "Keras, CPU", keras, "cpu")),
        Pair(Run("pytorch", f"PyTorch, {second}", pytorch, second), Run("pytorch", "PyTorch, CPU", pytorch, "cpu")),
    ]
    return [pair for pair in pairs if pair.device.framework in frameworks]


def chosen_frameworks(names: Sequence[str]) -> list[str]:
    """The frameworks to show: those that are named, by their names or by those of their modules, or all installed."""
    by_module = {module: name for name, (module, _) in FRAMEWORKS.items()}
    named = [by_module.get(name, name) for name in names]
    for name in named:
        if name not in FRAMEWORKS:
            raise DemoError(f"there is no framework {name!r}; there are {', '.join(FRAMEWORKS)}")
    found = [name for name, (module, _) in FRAMEWORKS.items() if importlib.util.find_spec(module) is not None]
    return named or found or list(FRAMEWORKS)


def run(out: Path, epochs: int, console: Console, frameworks: Sequence[str] = ()) -> int:
    """Runs everything, writes the files into ``out``, prints the tables; returns the exit code."""
    from . import report

    try:
        chosen = chosen_frameworks(frameworks)
        _check_requirements(chosen)
        pairs = _pairs(chosen)
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="unihal-demo-") as folder:
            _train_all(pairs, epochs, Path(folder), console)
            written = report.write(pairs, out, Path(folder))
        report.show(pairs, console)
        console.print("Written: " + ", ".join(escape(str(path)) for path in written), highlight=False)
        judge(pairs)
    except (DemoError, Error) as error:
        console.print(f"[red]The demonstration failed:[/red] {escape(str(error))}", highlight=False)
        return 1
    return 0


def _check_requirements(frameworks: Sequence[str]) -> None:
    for module, extra in (*(FRAMEWORKS[name] for name in frameworks), *_REQUIRED_MODULES):
        if importlib.util.find_spec(module) is None:
            raise DemoError(f"the module {module} is not installed; install it with: pip install 'unihal[{extra}]'")
    for device_type in _device_types():
        # Says why there is no device, and how to ask for the stub.
        device(device_type)


def _train_all(pairs: list[Pair], epochs: int, folder: Path, console: Console) -> None:
    columns = (
        TextColumn("{task.description:<17}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("epochs  {task.fields[state]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        for pair in pairs:
            for training in (pair.device, pair.cpu):
                task = progress.add_task(training.title, total=epochs, state="starting")
                for epoch in _train(training, epochs, folder):
                    state = f"loss {epoch.loss:.4f}  accuracy {epoch.accuracy:.1%}"
                    progress.update(task, completed=epoch.epoch + 1, state=state)


def trace_path(folder: Path, training: Run) -> Path:
    """Where a run on a device leaves its trace."""
    return folder / f"{training.framework}-{training.device}.json"


def _environment(training: Run) -> dict[str, str]:
    """All cores for both sides; falling back to the CPU is an error; the CPU's run sees no device of ours."""
    environment = dict(os.environ)
    environment.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if training.on_cpu:
        environment.pop("UNIHAL_BACKEND", None)
    else:
        environment["UNIHAL_STRICT"] = "1"
    return environment


def _train(training: Run, epochs: int, folder: Path) -> Iterator[Epoch]:
    """Runs one training in a process of its own, and yields each epoch as it ends."""
    errors = folder / "errors.txt"
    command = [sys.executable, "-m", training.module, "--device", training.device, "--epochs", str(epochs)]
    command += ["--trace", str(trace_path(folder, training))]
    with (
        open(errors, "w") as stderr,
        subprocess.Popen(
            command, env=_environment(training), stdout=subprocess.PIPE, stderr=stderr, text=True, errors="replace"
        ) as child,
    ):
        assert child.stdout is not None
        for line in child.stdout:
            message = receive(line)
            if isinstance(message, Epoch):
                training.epochs.append(message)
                yield message
            elif isinstance(message, Result):
                training.result = message
    if child.returncode != 0 or training.result is None:
        last = "\n".join(errors.read_text(errors="replace").strip().splitlines()[-12:])
        raise DemoError(f"{training.title} ended with exit code {child.returncode}:\n{last}")


def judge(pairs: list[Pair]) -> None:
    """Raises unless every run is good enough and each pair's curves agree."""
    for pair in pairs:
        for training in (pair.device, pair.cpu):
            if training.accuracy < REQUIRED_ACCURACY:
                raise DemoError(
                    f"{training.title} reached {training.accuracy:.1%} on held-out images; expected at least "
                    f"{REQUIRED_ACCURACY:.0%}"
                )
            if training.measured.fallbacks != 0:
                raise DemoError(
                    f"{training.title}: {training.measured.fallbacks} ops fell back to the CPU; list them with: "
                    f"unihal fallbacks -- {sys.executable} -m {training.module} --device {training.device} "
                    "--epochs 1 --trace trace.json"
                )
        for ours, theirs in zip(pair.device.epochs, pair.cpu.epochs):
            apart = abs(ours.loss - theirs.loss)
            if apart > _LOSS_TOLERANCE or abs(ours.accuracy - theirs.accuracy) > _ACCURACY_TOLERANCE:
                raise DemoError(
                    f"the curves of {pair.device.title} and {pair.cpu.title} part at epoch {ours.epoch + 1}: loss "
                    f"{ours.loss:.4f} and {theirs.loss:.4f}, accuracy {ours.accuracy:.1%} and {theirs.accuracy:.1%}"
                )
