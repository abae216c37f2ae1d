"""What ``unihal conformance`` does."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from ..conformance.children import ParallelRun
from ..conformance.formats import write_json, write_junit
from ..conformance.report import Report, show_list
from ..conformance.suite import Selection, entries


def list_cases(selection: Selection, console: Console) -> None:
    """Prints the names of the chosen cases."""
    show_list([entry.name for entry in entries(selection)], console)


def run(
    backend: str | None,
    selection: Selection,
    jobs: int,
    junit: Path | None,
    as_json: Path | None,
    time_limit: float,
    with_host: bool,
    console: Console,
) -> bool:
    """Runs the chosen cases and reports; whether the backend conforms."""
    chosen = ParallelRun(selection, backend, time_limit, jobs, with_host)
    report = Report("", selection.seed, backend)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=chosen.count)
        for outcome in chosen.outcomes():
            report.outcomes.append(outcome)
            progress.update(task, advance=1, description=outcome.op)
    report.device = chosen.device
    if junit is not None:
        write_junit(report, junit)
    if as_json is not None:
        write_json(report, as_json)
    report.show(console)
    return report.passed
