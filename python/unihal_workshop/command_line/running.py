"""Models that the commands make, run and measure."""

from __future__ import annotations

import importlib
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress as Bar

from ..cards.profiles import CARDS, find_card
from ..configuration.config import Config, model_options
from ..errors import DeviceError, InputError, ModelError
from ..inference import BaseInference, Progress, Result, create, model_class, registered
from ..planning.memory import MemoryManager
from ..profiling.profiler import Profiler

_SMALLEST = "rx580-4gb"


def stand_in() -> None:
    """Before PyTorch is imported: a plan needs no card, and takes the rules of unihal's device from the stub."""
    os.environ.setdefault("UNIHAL_BACKEND", "stub")


def card_of(config: Config) -> str:
    """The card to plan for: the setting's, else the one that is here, else the smallest with a profile."""
    if config["card"] != "auto":
        return str(find_card(config["card"]).name)
    from ..cards.system import cards

    here = (os.environ.get("UNIHAL_STUB_PROFILE", ""), *(card.profile for card in cards()))
    return next((name for name in here if name in CARDS), _SMALLEST)


def choose_device(config: Config) -> None:
    """Before PyTorch is imported: it has one device beside its own, which is the one that the settings ask for."""
    if config["device"] != "cpu":
        os.environ.setdefault("UNIHAL_TORCH_DEVICE", config["device"])


def is_registered(name: str) -> bool:
    """Whether it is a name of the registry, and no file or function."""
    return name in registered()


def class_of(name: str) -> type[BaseInference]:
    """A registered class; a file or a function is a ModelError that says so."""
    if ":" in name or "/" in name or name.endswith((".onnx", ".pt2", ".keras", ".py")):
        raise ModelError(f"{name} can be planned; what runs here is registered by its name (`workshop models`)")
    return model_class(name)


def make(name: str, source: str | None, config: Config, options: Mapping[str, Any]) -> BaseInference:
    """A model with the settings' options, those of the command line before them. Not loaded."""
    known = class_of(name).option_defaults
    merged = {**model_options(config, known), **options}
    return create(name, source, device=config["device"], dtype=config["dtype"], **merged)


def _inputs(model: BaseInference | type[BaseInference], given: Mapping[str, Any], config: Config) -> dict[str, Any]:
    """The inputs, with settings for those of their name that were not given."""
    wanted = {}
    for value in config.values():
        name = value.name.partition("run.")[2]
        # What nobody set is the model's own to choose.
        if name in ("steps", "width", "height") and name in model.input_defaults and value.source != "default":
            wanted[name] = value.value
    return {**wanted, **given}


def _cap(config: Config) -> None:
    """Keeps the run to what the card leaves to programs, where a card is named and there is a device."""
    if config["device"] == "cpu" or (config["card"] == "auto" and config["memory.limit"] is None):
        return
    manager = MemoryManager(config["device"], config["memory.reserve"])
    if config["memory.limit"] is not None:
        import unihal

        try:
            unihal.device(config["device"]).set_memory_limit(config["memory.limit"])
        except unihal.errors.Error as error:
            raise DeviceError(str(error)) from error
    else:
        manager.limit(find_card(config["card"]))


def _preview_every(config: Config) -> int:
    """Who asks for a file of previews gets one with each step, unless a setting says otherwise."""
    setting = next(value for value in config.values() if value.name == "run.preview_every")
    return int(setting.value) if setting.source != "default" else 1


def run_one(
    model: BaseInference, given: Mapping[str, Any], config: Config, preview: Path | None, quiet: bool
) -> Result:
    """Runs a model with a progress bar on stderr; SIGINT interrupts it, a second one ends the program."""
    _cap(config)
    bar = Bar(console=Console(stderr=True), disable=quiet, transient=True)
    task = bar.add_task(model.name or "run", total=None)

    def progress(at: Progress) -> None:
        bar.update(task, completed=at.step, total=at.total or None, description=at.stage or model.name)
        if at.preview is not None and preview is not None:
            write_output(preview, at.preview)

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        model.interrupt()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with bar:
            every = _preview_every(config) if preview is not None else 0
            return model.run(
                _inputs(model, given, config), seed=config["run.seed"], on_progress=progress, preview_every=every
            )
    finally:
        signal.signal(signal.SIGINT, before)


def write_output(path: Path, output: Any) -> str:
    """An output into a file by its suffix; gives the path."""
    try:
        if path.suffix == ".png":
            from PIL import Image

            if str(getattr(output, "dtype", "")) != "uint8" or output.ndim not in (3, 4):
                raise InputError(f"{path}: the output is no picture: .npy, .txt or .json takes it")
            Image.fromarray(output if output.ndim == 3 else output[0]).save(path)
        elif path.suffix == ".npy":
            import numpy as np

            np.save(path, np.asarray(output))
        elif path.suffix == ".json":
            path.write_text(json.dumps(output, default=str) + "\n", encoding="utf-8")
        elif path.suffix == ".txt":
            path.write_text(f"{output}\n", encoding="utf-8")
        else:
            raise InputError(f"{path} ends in {path.suffix or 'nothing'}: outputs go to .png, .npy, .txt or .json")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
    return str(path)


def as_dict(model: BaseInference, result: Result, written: str | None) -> dict[str, Any]:
    """A result as plain data; an output that is no plain data is told by its shape."""
    output = result.output
    if hasattr(output, "shape"):
        output = {"shape": list(output.shape), "dtype": str(output.dtype)}
    return {"model": model.name, **result.__dict__, "output": output, "written": written}


def show(console: Console, result: Result, written: str | None) -> None:
    """A result for a person."""
    state = "done" if result.finished else "interrupted: what was made is kept"
    console.print(
        f"{state}; {result.steps} steps in {result.seconds:.2f} s, seed {result.seed}, "
        f"peak {result.peak_bytes / 2**20:,.1f} MiB",
        highlight=False,
        soft_wrap=True,
    )
    if written is not None:
        console.print(f"written to {written}", highlight=False, markup=False, soft_wrap=True)
    elif hasattr(result.output, "shape"):
        console.print(f"an array of {list(result.output.shape)}: --out FILE keeps it", highlight=False, markup=False)
    elif result.output is not None:
        console.print(escape(str(result.output)), highlight=False, soft_wrap=True)


def measure(model: BaseInference, given: Mapping[str, Any], config: Config, runs: int) -> Profiler:
    """Loads a model, runs it once uncounted, then so many times; stages are those that the model tells of."""
    _cap(config)
    inputs = _inputs(model, given, config)
    profiler = Profiler(config["device"], apart=("load",))
    with profiler.stage("load"):
        model.load()
    model.run(inputs, seed=config["run.seed"])
    for _ in range(runs):
        with profiler.stage("run"):
            stages: list[str] = []

            def progress(at: Progress, stages: list[str] = stages) -> None:
                # A step is told at its end: what follows it belongs to the next.
                if stages:
                    profiler.end(stages.pop())
                if at.step < at.total:
                    stages.append(at.stage.replace("/", "-") or "step")
                    profiler.start(stages[-1])

            model.run(inputs, seed=config["run.seed"], on_progress=progress)
            if stages:
                profiler.end(stages.pop())
    return profiler


def optimize(
    name: str,
    source: str | None,
    config: Config,
    given: Mapping[str, Any],
    options: Mapping[str, Any],
    memory: str | None,
    error: float | None,
) -> tuple[Any, Any, Any]:
    """The optimizer with its trials, the limits (None: each optimization by itself), and the trial that was chosen."""
    from gpux.configuration.sizes import parse_bytes

    _cap(config)
    module = importlib.import_module("unihal_workshop.optimizer")
    optimizer = module.Optimizer(
        model=name,
        source=source,
        device=config["device"],
        dtype=config["dtype"],
        options=options,
        inputs=_inputs(class_of(name), given, config),
    )
    if memory is None and error is None:
        optimizer.each()
        return optimizer, None, None
    try:
        limits = module.Limits(memory_bytes=parse_bytes(memory) if memory is not None else None, error=error)
    except ValueError as problem:
        raise InputError(f"--memory: {problem}") from None
    return optimizer, limits, optimizer.search(limits)
