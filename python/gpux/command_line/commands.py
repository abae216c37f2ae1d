"""Builds, inspects, runs and serves ONNX models.

A model is NAME, NAME:VERSION, a folder with gpux.yml, or an ONNX file.

Exit codes: 0 done, 1 failed otherwise, 2 wrong usage, 3 configuration, 4 model, 5 input, 6 provider, 7 unknown model,
8 service.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

from ..configuration.settings import SETTINGS, Settings, resolve
from ..errors import InputError
from ..registry.store import BuiltModel, Registry, find_model
from . import deploy as deploy_command
from . import serve as serve_command
from . import views

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help=__doc__, pretty_exceptions_enable=False, rich_markup_mode=None
)
models = typer.Typer(no_args_is_help=True, help="The local registry of built models.")
app.add_typer(models, name="models")
app.command()(serve_command.serve)
app.command()(deploy_command.deploy)
console = Console()

# Typer evaluates annotations, and Python 3.9 knows no `str | None`.
_Text = Optional[str]
_File = Optional[Path]
_Number = Optional[int]

_MODEL = typer.Argument(..., metavar="MODEL", help="NAME, NAME:VERSION, a folder with gpux.yml, or an ONNX file.")
_JSON = typer.Option(False, "--json", help="Print JSON.")
_PROVIDER = typer.Option(None, help="auto, tensorrt, cuda, rocm, migraphx, unihal, coreml, directml, openvino or cpu.")
_REGISTRY = typer.Option(None, help="The folder of built models.")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"gpux {importlib.metadata.version('unihal')}")
        raise typer.Exit


@app.callback()
def program(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """What is there beside the commands."""


@app.command()
def build(
    folder: Path = typer.Argument(Path("."), help="The folder of gpux.yml."),
    provider: _Text = _PROVIDER,
    registry: _Text = _REGISTRY,
    as_json: bool = _JSON,
) -> None:
    """Checks gpux.yml against its model, writes .gpux/, and registers the version."""
    from ..configuration.model_file import load_model_file
    from ..registry.build import build as build_model

    loaded = load_model_file(folder)
    settings = resolve({"provider": provider, "registry": registry}, loaded)
    with _progress(as_json) as step:
        built = build_model(folder, Registry(settings.registry), settings["provider"], step)
    views.warn(built.inspection.warnings)
    if as_json:
        _print_json(
            {
                "name": built.name,
                "version": built.version,
                "folder": str(built.registered),
                "model": built.inspection.as_dict(),
                "provider": built.provider_info,
            }
        )
    else:
        views.show_inspection(built.inspection, console)
        console.print(f"built {built.name}:{built.version} in {built.registered}", highlight=False, soft_wrap=True)


@app.command()
def inspect(
    model: str = _MODEL,
    provider: _Text = _PROVIDER,
    registry: _Text = _REGISTRY,
    as_json: bool = _JSON,
) -> None:
    """Shows a model: inputs, outputs, ops, size, cost, and where each op runs."""
    from ..inspection.inspector import ModelInspector

    settings, found = _find(model, {"provider": provider, "registry": registry})
    with _progress(as_json) as step:
        step("inspecting the model")
        inspection = ModelInspector().inspect(found.model, settings["provider"])
    views.warn(inspection.warnings)
    if as_json:
        _print_json({"name": found.name, "version": found.version, **inspection.as_dict()})
    else:
        views.show_inspection(inspection, console)


@app.command()
def run(
    model: str = _MODEL,
    input_file: _File = typer.Option(None, "--input", help="A .json, .npy, .npz, image or text file."),
    output_file: _File = typer.Option(None, "--output", help="Write the outputs to this .npz or .json file."),
    benchmark: bool = typer.Option(False, help="Measure instead of printing outputs."),
    runs: int = typer.Option(100, min=1, help="Measured inferences."),
    warmup: int = typer.Option(10, min=0, help="Inferences before them."),
    batch: int = typer.Option(1, min=1, help="Samples of each, with --benchmark and no --input."),
    provider: _Text = _PROVIDER,
    gpu_memory: _Text = typer.Option(None, help="Memory that a provider may take on its device, for example 2GB."),
    threads: _Number = typer.Option(None, help="Threads of one inference on the CPU."),
    registry: _Text = _REGISTRY,
    as_json: bool = _JSON,
) -> None:
    """Runs a model on an input, or measures it."""
    from ..execution.inputs import read_inputs
    from ..execution.runtime import GPUXRuntime

    options = {"provider": provider, "gpu_memory": gpu_memory, "threads": threads, "registry": registry}
    settings, found = _find(model, options)
    if input_file is None and not benchmark:
        raise InputError("no input: name a file with --input, or measure random inputs with --benchmark")
    runtime = GPUXRuntime(settings["provider"], memory=settings["gpu_memory"], threads=settings["threads"])
    views.warn(runtime.choice.warnings)
    with _progress(as_json) as step:
        step("loading the model")
        runtime.load_model(
            found.model, found.configuration.model.preprocessing if found.configuration else None, found.tokenizer
        )
    inputs = None
    if input_file is not None:
        inputs = read_inputs(input_file, runtime.inputs, runtime.preprocessing, runtime.encoder)
    head = {"name": found.name, "version": found.version, "provider": runtime.choice.name}
    if benchmark:
        with _bar(as_json, warmup + runs) as progress:
            measured = runtime.benchmark(inputs, runs=runs, warmup=warmup, batch=batch, progress=progress)
        if as_json:
            _print_json({**head, "benchmark": measured.as_dict()})
        else:
            views.show_measurement(measured, f"{found.name} on {runtime.choice.provider.title}", console)
        return
    assert inputs is not None
    outputs = runtime.infer(inputs)
    if output_file is not None:
        views.write_outputs(output_file, outputs)
    if as_json:
        _print_json({**head, "outputs": {name: views.plain(array) for name, array in outputs.items()}})
    else:
        views.show_outputs(outputs, console)


@app.command()
def config(
    model: _Text = typer.Argument(None, metavar="[MODEL]", help="With the values of this model's gpux.yml."),
    as_json: bool = _JSON,
) -> None:
    """Shows each setting, and where its value comes from."""
    settings = _find(model, {})[0] if model is not None else resolve()
    if as_json:
        _print_json({name: {"value": each.value, "source": each.source} for name, each in settings.values.items()})
    else:
        views.show_settings(settings, {row.name: row.meaning for row in SETTINGS}, console)


@models.command("list")
def list_models(registry: _Text = _REGISTRY, as_json: bool = _JSON) -> None:
    """Lists the built models."""
    found = Registry(resolve({"registry": registry}).registry).all()
    rows = [
        {"name": each.name, "version": each.version, "bytes": each.size, "folder": str(each.folder)} for each in found
    ]
    if as_json:
        _print_json(rows)
    else:
        views.show_models(rows, console)


@models.command("remove")
def remove_model(
    name: str = typer.Argument(..., help="NAME for all its versions, or NAME:VERSION."),
    registry: _Text = _REGISTRY,
    as_json: bool = _JSON,
) -> None:
    """Removes a built model; a service that has it loaded keeps it."""
    from ..naming import split_reference

    only, version = split_reference(name)
    removed = Registry(resolve({"registry": registry}).registry).remove(only, version)
    if as_json:
        _print_json({"removed": [f"{only}:{each}" for each in removed]})
    else:
        console.print(f"removed {', '.join(f'{only}:{each}' for each in removed)}", highlight=False)


def _find(model: str, options: dict[str, Any]) -> tuple[Settings, BuiltModel]:
    """A model, and the settings with those of its gpux.yml."""
    found = find_model(model, Registry(resolve({"registry": options.get("registry")}).registry))
    return resolve(options, found.configuration), found


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2))


@contextmanager
def _progress(quiet: bool) -> Iterator[Any]:
    """A line on the terminal that says what is being done; nothing where stderr is none, or with --json."""
    if quiet or not sys.stderr.isatty():
        yield lambda text: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("")
        yield lambda text: progress.update(task, description=text)


@contextmanager
def _bar(quiet: bool, total: int) -> Iterator[Any]:
    if quiet or not sys.stderr.isatty():
        yield None
        return
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("measuring", total=total)
        yield lambda done: progress.update(task, completed=done)
