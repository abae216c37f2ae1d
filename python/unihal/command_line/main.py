"""The command ``unihal``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Optional

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .. import errors
from ..device import devices as all_devices
from ..fallbacks import Fallback, read_log
from . import cache as cache_command
from . import tune as tune_command

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
app.add_typer(cache_command.app, name="cache")
app.command()(tune_command.tune)
console = Console()

# Typer evaluates annotations, and Python 3.9 knows no `str | None`.
_Text = Optional[str]
_Texts = Optional[list[str]]
_File = Optional[Path]

_COMMAND_NOT_FOUND = 127
_SIGNAL_BASE = 128


@app.command()
def doctor(
    as_json: bool = typer.Option(False, "--json", help="Print the report as JSON."),
    timeout: float = typer.Option(120, help="Seconds that each framework may take to load."),
) -> None:
    """Says what was found, what was not and why, and what to do; exits with 0 only if a device can be used."""
    from . import doctor as doctor_module

    report = doctor_module.examine(timeout)
    if as_json:
        typer.echo(json.dumps(asdict(report), indent=2))
    else:
        from .doctor_view import show

        show(report, console)
    raise typer.Exit(0 if report.usable else 1)


@app.command()
def devices() -> None:
    """Lists the devices that can be used."""
    found = all_devices()
    if not found:
        console.print("No device was found. `unihal doctor` says what was looked for; UNIHAL_BACKEND=stub lets host ")
        console.print("memory stand in for hardware.")
        raise typer.Exit(1)
    table = Table("device", "backend", "name", "memory", "driver")
    for device in found:
        p = device.properties
        table.add_row(str(device), p.backend, escape(p.name), f"{p.total_memory / 2**30:.1f} GiB", p.driver)
    console.print(table)


@app.command(context_settings={"ignore_unknown_options": True})
def fallbacks(
    command: list[str] = typer.Argument(..., metavar="-- PROGRAM [ARGUMENT]...", help="The program to run."),
) -> None:
    """Runs a program and prints each op that fell back to the CPU; passes on the program's exit code."""
    with tempfile.TemporaryDirectory(prefix="unihal-") as folder:
        log = Path(folder) / "fallbacks.jsonl"
        code = _run(command, {**os.environ, "UNIHAL_FALLBACK_LOG": str(log)})
        entries = read_log(log.read_text(errors="replace").splitlines()) if log.exists() else []
    _show_fallbacks(entries)
    raise typer.Exit(code)


@app.command()
def demo(
    out: Path = typer.Option(Path("out/demo"), help="Folder for curves.png, trace.json and report.json."),
    epochs: int = typer.Option(20, min=1, help="Passes over the training images."),
    framework: _Texts = typer.Option(None, help="paddle, keras or pytorch; may be given again. Default: all."),
) -> None:
    """Trains one small network on handwritten digits in each framework, on a device and on the CPU."""
    from ..demo import main as demo_main

    raise typer.Exit(demo_main.run(out, epochs, console, framework or ()))


@app.command()
def conformance(
    backend: _Text = typer.Option(None, help="The backend's name, or the path of its library."),
    op: _Text = typer.Option(None, help="Only this op, such as softmax or map/silu."),
    case: _Text = typer.Option(None, help="Only the case of this name."),
    junit: _File = typer.Option(None, help="Write the results to this file as JUnit XML."),
    json_file: _File = typer.Option(None, "--json", help="Write the results to this file as JSON."),
    seed: int = typer.Option(0, min=0, help="Chooses the operands' values and some of the cases."),
    every: int = typer.Option(1, min=1, help="A sample: of each op and function, only every so many-th case."),
    jobs: int = typer.Option(1, min=1, help="Processes at a time."),
    timeout: float = typer.Option(120, min=1, help="Seconds that one case may take."),
    with_host: bool = typer.Option(
        False,
        "--with-host",
        help="What the backend refuses runs on the host, as in programs, and must be right as well.",
    ),
    list_cases: bool = typer.Option(False, "--list", help="Print the names of the cases and run none."),
) -> None:
    """Checks a backend against the contract of all ops, op by dtype; exits with 0 only if it conforms."""
    from ..conformance.suite import Selection
    from . import conformance as command

    selection = Selection(seed, op, case, every)
    if list_cases:
        command.list_cases(selection, console)
    elif not command.run(backend, selection, jobs, junit, json_file, timeout, with_host, console):
        raise typer.Exit(1)


def _run(command: list[str], environment: dict[str, str]) -> int:
    """Runs a program to its end and returns its exit code as a shell would."""
    try:
        process = subprocess.Popen(command, env=environment)
    except OSError as error:
        typer.echo(f"unihal: {command[0]} cannot be run: {error.strerror}", err=True)
        return _COMMAND_NOT_FOUND
    # Ctrl-C reaches the program too; it decides what to do, and we wait for it.
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = process.wait()
    finally:
        signal.signal(signal.SIGINT, previous)
    return code if code >= 0 else _SIGNAL_BASE - code


def _show_fallbacks(entries: list[Fallback]) -> None:
    output = Console(stderr=True)
    if not entries:
        output.print("unihal: no op fell back to the CPU")
        return
    table = Table("framework", "op", "dtype", "count", "reason", title="ops that fell back to the CPU")
    for entry in entries:
        table.add_row(entry.framework, entry.op, entry.dtype, str(entry.count), entry.reason)
    output.print(table)


def main() -> None:
    """The entry point."""
    try:
        app()
    except errors.Error as error:
        typer.echo(f"unihal: {error}", err=True)
        sys.exit(1)
