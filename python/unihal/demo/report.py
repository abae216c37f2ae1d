"""The demonstration's tables and files."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .main import Pair, Run, trace_path

_TRAINED = (
    "seconds: training with an evaluation after each epoch; imports, and the first step, in which kernels are "
    "prepared, are left out for all alike"
)


def write(pairs: list[Pair], out: Path, folder: Path) -> list[Path]:
    """Writes the files; ``folder`` has the traces of the runs."""
    written = [out / "curves.png", out / "trace.json", out / "report.json"]
    _draw_curves(pairs, written[0])
    written[1].write_text(json.dumps(_merge_traces(pairs, folder)))
    runs = [_entry(run, ratio) for pair in pairs for run, ratio in ((pair.device, pair.ratio), (pair.cpu, 1.0))]
    written[2].write_text(json.dumps({"runs": runs}, indent=2) + "\n")
    return written


def show(pairs: list[Pair], console: Console) -> None:
    """Prints the comparison, and the ops with the most device time."""
    table = _table("runs", ("device", "backend"), ("accuracy", "seconds", "ratio to CPU", "peak memory", "fallbacks"))
    for pair in pairs:
        for run, ratio in ((pair.device, pair.ratio), (pair.cpu, 1.0)):
            measured = run.measured
            peak = measured.peak_memory_bytes
            table.add_row(
                run.title,
                measured.backend,
                f"{run.accuracy:.2%}",
                f"{measured.seconds:.2f}",
                f"{ratio:.2f}",
                "" if peak is None else f"{peak / 2**20:.1f} MiB",
                "" if run.on_cpu else str(measured.fallbacks),
            )
    console.print(table)
    console.print(f"[dim]{_TRAINED}.[/dim]", highlight=False)
    for pair in pairs:
        console.print(_top_ops(pair.device))
    console.print("[dim]Device time of one further epoch, profiled after the measured ones.[/dim]", highlight=False)
    for pair in pairs:
        measured = pair.device.measured
        if measured.is_stub:
            console.print(
                f"[yellow]{pair.device.title}: no such hardware took part. The stub stands in for it: "
                f"{escape(measured.device_name)} computes on this machine's processor.[/yellow]",
                highlight=False,
            )


def _table(title: str, names: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    """A table that is readable on a terminal of 80 columns."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in names:
        table.add_column(column, no_wrap=True)
    for column in numbers:
        table.add_column(column, justify="right")
    return table


def _top_ops(run: Run) -> Table:
    title = f"{run.title}: the ops with the most device time"
    table = _table(title, ("op",), ("calls", "milliseconds", "share"))
    for op in run.measured.top_ops:
        table.add_row(op.op, str(op.calls), f"{op.milliseconds:.2f}", f"{op.share:.1%}")
    return table


def _entry(run: Run, ratio: float) -> dict[str, Any]:
    measured = run.measured
    return {
        "framework": run.framework,
        "device": run.device,
        "backend": measured.backend,
        "accuracy": run.accuracy,
        "seconds": measured.seconds,
        "ratio_to_cpu": ratio,
        "peak_memory_bytes": measured.peak_memory_bytes,
        "fallbacks": measured.fallbacks,
        "top_ops": [asdict(op) for op in measured.top_ops],
    }


def _merge_traces(pairs: list[Pair], folder: Path) -> dict[str, Any]:
    """One trace with a process for each run on a device."""
    events: list[dict[str, Any]] = []
    for number, pair in enumerate(pairs, start=1):
        trace = json.loads(trace_path(folder, pair.device).read_text())
        events.append({"ph": "M", "name": "process_name", "pid": number, "args": {"name": pair.device.title}})
        for event in trace["traceEvents"]:
            if event.get("name") != "process_name":
                events.append({**event, "pid": number})
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _draw_curves(pairs: list[Pair], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    figure, (loss_axes, accuracy_axes) = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for number, pair in enumerate(pairs):
        # The CPU's curve lies below as a broad band, and frameworks have dashes of their own, so that all can be seen
        # where they agree.
        color, dashes = f"C{number}", ("solid", "dashed", "dotted")[number % 3]
        styles: list[dict[str, Any]] = [{"linewidth": 6, "alpha": 0.35}, {"linewidth": 2, "linestyle": dashes}]
        for run, style in zip((pair.cpu, pair.device), styles):
            numbers = [epoch.epoch + 1 for epoch in run.epochs]
            label = run.title if run.on_cpu else f"{run.title} ({run.measured.backend})"
            loss_axes.plot(numbers, [epoch.loss for epoch in run.epochs], color=color, label=label, **style)
            accuracy = [100 * epoch.accuracy for epoch in run.epochs]
            accuracy_axes.plot(numbers, accuracy, color=color, label=label, **style)
    loss_axes.set(title="Training loss", xlabel="epoch", ylabel="cross-entropy", yscale="log")
    accuracy_axes.set(title="Accuracy on held-out images", xlabel="epoch", ylabel="%")
    accuracy_axes.legend(loc="lower right")
    for axes in (loss_axes, accuracy_axes):
        axes.grid(alpha=0.3)
        axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
