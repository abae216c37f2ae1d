"""Knows the card, plans the memory, runs the model.

A MODEL is a registered name (`workshop models`), a file (.onnx, .pt2, .keras), or a function that makes a model and
its inputs (file.py:function, package.module:function).

Exit codes: 0 done, 1 failed otherwise, 2 wrong usage, 3 configuration, 4 model, 5 input, 6 device or card, 7 does not
fit, 8 interrupted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..configuration.config import Config
from ..errors import DoesNotFitError, InputError
from ..importing import import_files
from . import running
from .values import key_values, print_json

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help=__doc__, pretty_exceptions_enable=False, rich_markup_mode=None
)
console = Console()

# Typer evaluates annotations, and Python 3.9 knows no `str | None`.
_Text = Optional[str]
_Number = Optional[int]
_Texts = list[str]

JSON = typer.Option(False, "--json", help="Print JSON.")
MODEL = typer.Argument(..., metavar="MODEL", help="A registered name, a file, or file.py:function.")
CARD = typer.Option(None, help="A card's name or a profile's file; auto: what is here.")
PRESET = typer.Option(None, help="A preset's name, or none.")
DTYPE = typer.Option(None, help="float32, float16 or bfloat16.")
SOURCE = typer.Option(None, help="The model's folder or file; without it its own configuration with random weights.")
INPUT = typer.Option([], "--input", metavar="NAME=VALUE", help="An input; may be given again.")
OPTION = typer.Option([], "--option", metavar="NAME=VALUE", help="An option of the model; may be given again.")
IMPORT = typer.Option([], "--import", metavar="FILE", help="A Python file that registers models; it is run.")


@app.command()
def gpu(as_json: bool = JSON) -> None:
    """Shows the cards, their drivers and state, and which backend computes and why."""
    from ..cards.gpu import GPUManager

    manager = GPUManager()
    found, backend, libraries, overrides = (
        manager.detect(),
        manager.backend(Config()["device"]) if Config()["device"] != "cpu" else manager.backend(),
        manager.libraries(),
        manager.overrides(),
    )
    if as_json:
        print_json(
            {
                "gpus": [each.as_dict() for each in found],
                "backend": dict(backend.__dict__),
                "libraries": [dict(each.__dict__) for each in libraries],
                "overrides": {name: {"value": value, "meaning": what} for name, (value, what) in overrides.items()},
            }
        )
        return
    table = Table("card", "memory", "driver", "device", "profile", "state", title="cards", title_justify="left")
    for each in found:
        driver = " ".join(filter(None, (each.driver.name, each.driver.version))) or each.compute_driver
        memory = f"{each.memory / 2**30:.1f} GiB" if each.memory else ""
        table.add_row(escape(each.name), memory, escape(driver), each.device, each.profile, _state(each.telemetry))
    console.print(table if found else "No card was found.")
    console.print(f"{backend.device_type} computes by {backend.name}:", highlight=False)
    for line in backend.why:
        console.print(f"  {escape(line)}", highlight=False, soft_wrap=True)
    for library in libraries:
        console.print(f"{library.name} {library.version} ({library.source})", highlight=False)
    for name, (value, what) in overrides.items():
        console.print(f"in force: {name}={escape(value)}: {what}", highlight=False, soft_wrap=True)


def _state(telemetry: Any) -> str:
    parts = [
        f"{value:.0f}{unit}"
        for value, unit in (
            (telemetry.busy_percent, " %"),
            (telemetry.core_megahertz, " MHz"),
            (telemetry.celsius, " °C"),
            (telemetry.watts, " W"),
        )
        if value is not None
    ]
    return ", ".join(parts)


@app.command()
def plan(
    model: str = MODEL,
    card: _Text = CARD,
    preset: _Text = PRESET,
    dtype: _Text = DTYPE,
    reserve: _Text = typer.Option(None, help="What the system keeps of the card, such as 512MiB."),
    bits: _Number = typer.Option(None, help="Of a registered model, 8 or 4: weights in so many bits."),
    offload: _Text = typer.Option(None, help="Of a registered model: none, parts or layers."),
    training: bool = typer.Option(False, "--training", help="Plan a step of training."),
    inputs: _Texts = INPUT,
    options: _Texts = OPTION,
    imports: _Texts = IMPORT,
    check: bool = typer.Option(False, "--check", help="Also run it, on the stub with the card's profile."),
    picture: Optional[Path] = typer.Option(None, help="Write memory over time to this SVG file."),  # noqa: UP045
    as_json: bool = JSON,
) -> None:
    """Plans a model's memory on a card. Exit code 7 if it does not fit."""
    from ..cards.profiles import find_card
    from ..planning.planner import plan as make_plan

    config = Config(
        {
            "card": card,
            "preset": preset,
            "memory.reserve": reserve,
            "dtype": dtype,
            "optimize.bits": bits,
            "optimize.offload": offload,
        }
    )
    running.stand_in()
    import_files(imports)
    from ..planning.sources import load_source

    chosen = find_card(running.card_of(config))
    given, settings = key_values(inputs), key_values(options)
    # A model is planned as it is, unless the command line says otherwise: the ladder shows what a preset would do.
    asked = {"dtype": dtype, "bits": bits, "offload": offload}
    asked = {name: value for name, value in asked.items() if value is not None}
    registered = running.is_registered(model)
    if registered:
        settings = {**asked, **settings}
    elif bits is not None or offload is not None:
        raise InputError(f"--bits and --offload are for registered models (`workshop models`), which {model} is not")
    source = load_source(model, given or None, settings)
    arguments = dict(source.options)
    if not registered:
        arguments.setdefault("dtype", dtype)
    if training:
        if registered:
            raise InputError(f"{model} is planned as it runs: --training is for modules (file.py:function)")
        arguments["training"] = True
    if arguments.get("training"):
        arguments.setdefault("checkpointing", config["optimize.checkpointing"])
    made = make_plan(source.model, source.inputs, chosen, reserve=config["memory.reserve"], **arguments)
    if picture is not None:
        from ..planning.picture import write_svg

        write_svg(picture, made)
    measured = None
    if check:
        from ..planning.check import measure

        measured = measure(
            model, chosen, reserve=config["memory.reserve"], training=bool(arguments.get("training")),
            dtype=arguments.get("dtype"), inputs=given, options=settings, imports=imports,
        )  # fmt: skip
    if as_json:
        print_json({**made.as_dict(), "measured": dict(measured.__dict__) if measured is not None else None})
    else:
        console.print(escape(str(made)), highlight=False, soft_wrap=True)
        if measured is not None:
            console.print(
                f"  measured on the stub: {'fits' if measured.fits else 'does not fit'}, peak "
                f"{measured.peak_bytes / 2**20:,.1f} MiB (the plan is "
                f"{made.peak_bytes / max(1, measured.peak_bytes):.3f} of it)"
                + (f"\n  {escape(measured.report)}" if measured.report else ""),
                highlight=False,
                soft_wrap=True,
            )
    if not made.fits:
        raise typer.Exit(DoesNotFitError.exit_code)


@app.command()
def models(imports: _Texts = IMPORT, as_json: bool = JSON) -> None:
    """Lists the registered models with their inputs and options."""
    from ..inference import model_class, registered

    import_files(imports)
    rows: list[dict[str, Any]] = []
    for name in sorted(registered()):
        found = model_class(name)
        rows.append(
            {
                "name": name,
                "description": found.description,
                "inputs": {
                    key: {"meaning": meaning, "default": value}
                    for key, (meaning, value) in found.input_defaults.items()
                },
                "options": dict(found.option_defaults),
            }
        )
    if as_json:
        print_json(rows)
        return
    table = Table("name", "what it is", "inputs", "options")
    for row in rows:
        table.add_row(row["name"], escape(row["description"]), ", ".join(row["inputs"]), ", ".join(row["options"]))
    console.print(table if rows else "No model is registered.")


@app.command()
def config(
    card: _Text = CARD,
    preset: _Text = PRESET,
    settings: _Texts = typer.Option([], "--set", metavar="NAME=VALUE", help="A setting; may be given again."),
    as_json: bool = JSON,
) -> None:
    """Shows each setting with its value and where it comes from."""
    found = Config({**key_values(settings, raw=True), "card": card, "preset": preset})
    if as_json:
        print_json([dict(value.__dict__) for value in found.values()])
        return
    table = Table("setting", "value", "from")
    for value in found.values():
        table.add_row(value.name, "" if value.value is None else escape(str(value.value)), escape(value.source))
    console.print(table)


@app.command()
def serve(
    models: list[str] = typer.Argument(None, metavar="[MODEL]...", help="Registered names; without any, all."),
    card: _Text = CARD,
    preset: _Text = PRESET,
    dtype: _Text = DTYPE,
    port: _Number = typer.Option(None, help="0: a free one."),
    imports: _Texts = IMPORT,
) -> None:
    """Serves the page, on this machine: the card, plans as pictures, and models that run."""
    from ..cards.gpu import GPUManager
    from ..inference import registered
    from ..serving.runs import Runs
    from ..serving.server import serve as serve_page

    found = Config({"card": card, "preset": preset, "dtype": dtype, "serve.port": port})
    running.choose_device(found)
    import_files(imports)
    names = list(models or sorted(registered()))
    for name in names:
        running.class_of(name)
    runs = Runs(names, lambda name: running.make(name, None, found, {}), found["run.preview_every"])
    chosen = running.card_of(found)
    serve_page(
        runs,
        GPUManager(),
        chosen,
        found["memory.reserve"],
        found["serve.host"],
        found["serve.port"],
        lambda address: print(f"workshop: {address}", flush=True),
    )


@app.command()
def run(
    model: str = MODEL,
    source: _Text = SOURCE,
    card: _Text = CARD,
    preset: _Text = PRESET,
    dtype: _Text = DTYPE,
    bits: _Number = typer.Option(None, help="8 or 4: weights in so many bits."),
    offload: _Text = typer.Option(None, help="none, parts or layers: weights in the host's memory."),
    seed: _Number = typer.Option(None, help="The same seed gives the same output."),
    inputs: _Texts = INPUT,
    options: _Texts = OPTION,
    imports: _Texts = IMPORT,
    out: Optional[Path] = typer.Option(None, help="Write the output: .png, .npy, .txt or .json."),  # noqa: UP045
    preview: Optional[Path] = typer.Option(None, help="Write previews to this .png file while it runs."),  # noqa: UP045
    as_json: bool = JSON,
) -> None:
    """Runs a registered model. Ctrl-C ends it after the present step, and what was made is kept (exit code 8)."""
    found = _config(card, preset, dtype, bits, offload, seed)
    running.choose_device(found)
    import_files(imports)
    made = running.make(model, source, found, key_values(options))
    result = running.run_one(made, key_values(inputs), found, preview, quiet=as_json)
    written = running.write_output(out, result.output) if out is not None else None
    if as_json:
        print_json(running.as_dict(made, result, written))
    else:
        running.show(console, result, written)
    if not result.finished:
        raise typer.Exit(8)


@app.command()
def bench(
    model: str = MODEL,
    source: _Text = SOURCE,
    card: _Text = CARD,
    preset: _Text = PRESET,
    dtype: _Text = DTYPE,
    bits: _Number = typer.Option(None, help="8 or 4: weights in so many bits."),
    offload: _Text = typer.Option(None, help="none, parts or layers: weights in the host's memory."),
    inputs: _Texts = INPUT,
    options: _Texts = OPTION,
    imports: _Texts = IMPORT,
    runs: int = typer.Option(3, min=1, max=1000, help="Runs after one that is not counted."),
    perfetto: Optional[Path] = typer.Option(None, help="Write a trace for ui.perfetto.dev."),  # noqa: UP045
    picture: Optional[Path] = typer.Option(None, help="Write the stages over time to this SVG file."),  # noqa: UP045
    as_json: bool = JSON,
) -> None:
    """Measures a registered model: time, device time and memory by stage, and the bottleneck."""
    found = _config(card, preset, dtype, bits, offload, 0)
    running.choose_device(found)
    import_files(imports)
    made = running.make(model, source, found, key_values(options))
    profiler = running.measure(made, key_values(inputs), found, runs)
    if perfetto is not None:
        profiler.write_perfetto(perfetto)
    if picture is not None:
        profiler.write_picture(picture)
    if as_json:
        print_json(profiler.as_dict())
    else:
        profiler.print_summary()


@app.command()
def optimize(
    model: str = MODEL,
    source: _Text = SOURCE,
    card: _Text = CARD,
    preset: _Text = PRESET,
    dtype: _Text = DTYPE,
    inputs: _Texts = INPUT,
    options: _Texts = OPTION,
    imports: _Texts = IMPORT,
    memory: _Text = typer.Option(None, help="The most device memory of a run; with it the best choice is searched."),
    error: Optional[float] = typer.Option(None, help="The most relative error of the output."),  # noqa: UP045
    out: Optional[Path] = typer.Option(None, help="Write the table to this Markdown file."),  # noqa: UP045
    as_json: bool = JSON,
) -> None:
    """Measures each optimization of a registered model, or searches them under limits of memory and quality."""
    found = _config(card, preset, dtype, None, None, 0)
    running.choose_device(found)
    import_files(imports)
    optimizer, limits, chosen = running.optimize(
        model, source, found, key_values(inputs), key_values(options), memory, error
    )
    if out is not None:
        try:
            optimizer.save(out, limits)
        except OSError as problem:
            raise InputError(f"{out} cannot be written: {problem.strerror}") from None
    if as_json:
        print_json({"trials": optimizer.to_dict(), "chosen": chosen.title if chosen is not None else None})
    else:
        print(optimizer.to_markdown(limits))
        if limits is not None:
            print(f"chosen: {chosen.title}" if chosen is not None else "no choice keeps to the limits")
    if limits is not None and chosen is None:
        raise typer.Exit(DoesNotFitError.exit_code)


def _config(
    card: str | None, preset: str | None, dtype: str | None, bits: int | None, offload: str | None, seed: int | None
) -> Config:
    return Config(
        {
            "card": card,
            "preset": preset,
            "dtype": dtype,
            "optimize.bits": bits,
            "optimize.offload": offload,
            "run.seed": seed,
        }
    )
