"""The doctor's report as a person reads it."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..device import DeviceProperties
from .doctor import DeviceTypeReport, Report
from .framework_check import FrameworkReport

_STATE_STYLES = {"chosen": "green", "refused": "red", "not tried": "dim"}


def show(report: Report, console: Console) -> None:
    """Prints the report."""
    major, minor = report.abi_version
    console.print(f"[bold]unihal {report.version}[/bold], ABI {major}.{minor}, in {escape(report.location)}")
    console.print(f"Python {report.python}, {escape(report.system)}", highlight=False)
    console.print(_backend_table(report.device_types))
    if any(entry.devices for entry in report.device_types):
        console.print(_device_table(report.device_types))
    console.print(_framework_table(report.frameworks))
    if report.environment:
        table = Table("variable", "value", title="environment variables in force")
        for name, value in report.environment.items():
            table.add_row(name, escape(value))
        console.print(table)
    for problem in report.problems:
        console.print(f"[yellow]problem[/yellow]   {escape(problem.what)}", highlight=False)
        console.print(f"[cyan]next step[/cyan] {escape(problem.next_step)}", highlight=False)
    if report.usable:
        console.print("[green]A device can be used.[/green]")
    else:
        console.print("[red]No device can be used.[/red]")


def _backend_table(types: list[DeviceTypeReport]) -> Table:
    table = Table("device type", "backend", "state", title="backends")
    table.add_column("what was looked for", overflow="fold")  # paths are shown whole
    for entry in types:
        for report in entry.backends:
            style = _STATE_STYLES[report.state]
            detail = report.reason or report.library
            table.add_row(entry.type.name, report.backend, f"[{style}]{report.state}[/{style}]", escape(detail))
        if entry.error:
            table.add_row(entry.type.name, "", "[red]error[/red]", escape(entry.error))
    return table


def _device_table(types: list[DeviceTypeReport]) -> Table:
    table = Table("device", "backend", "name", "memory", "compute units", "driver", title="devices")
    for entry in types:
        for p in entry.devices:
            table.add_row(
                f"{p.device_type}:{p.ordinal}",
                p.backend,
                escape(p.name) + _remark(p),
                f"{p.total_memory / 2**30:.1f} GiB",
                str(p.compute_units),
                escape(p.driver),
            )
    return table


def _remark(p: DeviceProperties) -> str:
    if p.is_profile:
        return " [yellow](host memory with the figures of a card; times of it are estimates)[/yellow]"
    return " [yellow](stands in for hardware)[/yellow]" if p.is_stub else ""


def _framework_table(frameworks: list[FrameworkReport]) -> Table:
    table = Table("framework", "version", "adapter", "device types", "remark", title="frameworks")
    for report in frameworks:
        built = "built" if report.adapter else "[red]not built[/red]"
        if not report.installed:
            table.add_row(report.name, "not installed", built, "", escape(report.next_step))
            continue
        state = "[green]loads[/green]" if report.adapter_loads else "[red]does not load[/red]"
        if not report.adapter:
            state = built
        remarks = [f"built for {' and '.join(report.built_for)}"] if report.built_for else []
        remarks += ["tried with the stub"] if report.tried_with_stub else []
        remark = report.error or ", ".join(remarks)
        shown = ", ".join(f"{name} x{count}" for name, count in report.devices.items())
        table.add_row(report.name, report.version, state, escape(shown), escape(remark))
    return table
