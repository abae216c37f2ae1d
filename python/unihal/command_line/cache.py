"""``unihal cache``: the compiled programs that are kept on disk."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from typing import Optional

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from .. import cache, errors
from ..device import Device, device, devices

app = typer.Typer(no_args_is_help=True, help=__doc__)
console = Console()

#: Processes that compile at a time: each has a context on the device.
_MOST_JOBS = 8

_DAMAGED = "damaged; compiled anew at its next use"

# Typer evaluates annotations, and Python 3.9 knows no `str | None`.
_Text = Optional[str]


@app.command()
def info(as_json: bool = typer.Option(False, "--json", help="Print it as JSON.")) -> None:
    """Says where the cache is and what is in it."""
    settings = cache.settings()
    found = cache.entries(settings.folder)
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for entry in found:
        label = entry.label if entry.label is not None else _DAMAGED
        counts[label] += 1
        sizes[label] += entry.bytes
    if as_json:
        report = {
            "folder": str(settings.folder) if settings.folder else None,
            "limit_bytes": settings.limit,
            "entries": len(found),
            "bytes": sum(sizes.values()),
            "kinds": {label: {"entries": counts[label], "bytes": sizes[label]} for label in sorted(counts)},
        }
        typer.echo(json.dumps(report, indent=2))
        return
    if settings.folder is None:
        typer.echo("Nothing is kept: UNIHAL_CACHE is off, or there is no HOME.")
        return
    typer.echo(f"folder:  {settings.folder}")
    typer.echo(f"limit:   {_megabytes(settings.limit)}")
    typer.echo(f"entries: {len(found)}, {_megabytes(sum(sizes.values()))}")
    if found:
        table = Table("what", "entries", "size")
        for label in sorted(counts):
            table.add_row(label, str(counts[label]), _megabytes(sizes[label]))
        console.print(table)


@app.command()
def clear() -> None:
    """Removes everything; programs are compiled again at their next use, and results of tuning are lost."""
    settings = cache.settings()
    removed = cache.clear(settings.folder)
    typer.echo(f"Removed {len(removed)} entries, {_megabytes(sum(entry.bytes for entry in removed))}.")


@app.command()
def warm(
    name: _Text = typer.Option(None, "--device", help="A device such as polaris:0; the first one if it is left out."),
    dtype: str = typer.Option("float32", help="float32, float16 or bfloat16: what the network computes in."),
    jobs: int = typer.Option(
        0, min=0, help="Processes that compile at a time; 0: one per core, at most 8.", show_default=False
    ),
) -> None:
    """Compiles the kernels that usual training needs, so that the first steps of a run do not wait for the compiler."""
    from . import warm as table  # with what it needs, for this command alone

    if dtype not in table.DTYPES:
        raise errors.InvalidArgumentError(f"the dtype is {dtype!r}; expected one of {', '.join(table.DTYPES)}")
    settings = cache.settings()
    if settings.folder is None:
        typer.echo("unihal: UNIHAL_CACHE is off, or there is no HOME: nothing that is compiled would be kept", err=True)
        raise typer.Exit(1)
    target = _chosen(name)
    before = {entry.path: entry.last_use for entry in cache.entries(settings.folder)}
    jobs = jobs or min(os.cpu_count() or 1, _MOST_JOBS)
    refused = _follow(table.run(target, dtype, jobs), len(table.cases(target, dtype)))
    after = {entry.path: entry.last_use for entry in cache.entries(settings.folder)}
    compiled = sum(path not in before for path in after)
    loaded = sum(path in before and before[path] != use for path, use in after.items())
    for case, reason in refused:
        typer.echo(f"{case}: {reason}")
    backend = target.properties.backend
    if compiled + loaded == 0:
        typer.echo(f"The backend {backend} of {target} keeps no programs: there is nothing to do.")
    else:
        typer.echo(f"{target} ({target.properties.name}): {compiled} programs compiled, {loaded} were there already.")


def _chosen(name: str | None) -> Device:
    if name is not None:
        return device(name)
    found = devices()
    if not found:
        raise errors.NotFoundError("No device was found; `unihal doctor` says what was looked for.")
    return found[0]


def _follow(results: Iterator[tuple[str, str]], total: int) -> list[tuple[str, str]]:
    """Shows how far the cases are, and returns those that the device refused, with the reasons."""
    refused = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=total)
        for name, reason in results:
            progress.update(bar, description=name, advance=1)
            if reason:
                refused.append((name, reason))
    return refused


def _megabytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
