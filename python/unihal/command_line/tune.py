"""The command ``unihal tune``."""

from __future__ import annotations

from dataclasses import replace
from typing import Optional

import typer
from rich.console import Console
from rich.table import Column, Table

from .. import errors, tuning
from ..device import Device, device, devices

_Text = Optional[str]


def tune(
    on: _Text = typer.Option(None, "--device", help="The device, such as polaris:0. Default: the first one."),
    shape: list[str] = typer.Option([], help="A matrix product, MxNxK or BATCHxMxNxK; may be given again."),
    form: list[str] = typer.Option(["nn"], help="For --shape: nn, nt, tn or tt (t: transposed in memory)."),
    convolution: list[str] = typer.Option(
        [],
        help="A convolution in words: 'n32 c256 h14 w14 k256 3x3 s1 p1' for 32 images of 256 channels, 14 by 14 "
        "pixels, and 256 filters, with stride and padding; also z16 (depth), d2 (dilation), g4 (groups), nhwc, hwio, "
        "and forward, backward_data or backward_filter instead of all three. May be given again.",
    ),
    dtype: str = typer.Option("float32", help="The dtype of the operands."),
    tf32: bool = typer.Option(False, "--tf32", help="Measure with TF32 allowed, as frameworks may ask for it."),
    seconds: float = typer.Option(0.05, min=0.001, help="Device time that each candidate is measured for."),
    forget: bool = typer.Option(False, "--forget", help="Drop what was kept for the device, and measure nothing."),
) -> None:
    """Measures the kernels for matrix products and convolutions on a device and keeps which is fastest.

    Those of --shape and --convolution, or a usual selection. The choices hold for all later processes.
    """
    console = Console()
    chosen = _device(on)
    if forget:
        tuning.forget(chosen)
        console.print(f"The choices for {chosen} ({chosen.properties.name}) are dropped.")
        return
    problems: list[tuning.Problem] = [tuning.MatrixProduct.parse(text, each, dtype) for text in shape for each in form]
    for text in convolution:
        problems += tuning.Convolution.parse(text, dtype)
    if not problems:
        problems = [*tuning.usual_products(dtype), *tuning.usual_convolutions(dtype)]
    if tf32:
        problems = [replace(problem, math_mode="tf32") for problem in problems]
    problem_column = Column("problem", min_width=16)
    title = f"{chosen} ({chosen.properties.name})"
    table = Table(problem_column, "default", "fastest", "gain", "kept", title=title)
    # What was measured until an interrupt is kept as well.
    try:
        with console.status("") as status:
            results = tuning.tune(chosen, problems, seconds)
            for number, problem in enumerate(problems, start=1):
                status.update(f"{number} of {len(problems)}: {problem}")
                result = next(results)
                table.add_row(*_row(result))
                for name, message in result.failures.items():
                    console.print(f"{name} failed at {problem}: {message}", markup=False)
    finally:
        if table.row_count:
            console.print(table)
            tuning.keep(chosen)


def _device(name: str | None) -> Device:
    if name is not None:
        return device(name)
    found = devices()
    if not found:
        raise errors.NotFoundError("there is no device to tune; `unihal doctor` says what was looked for")
    return found[0]


def _row(result: tuning.Tuned) -> tuple[str, ...]:
    if not result.key:
        return (str(result.problem), "", "", "", "(nothing to choose)")
    if not result.candidates:
        return (str(result.problem), _speed(result, result.default_seconds), "", "1.00", "default")
    best = result.candidates[0]
    return (
        str(result.problem),
        _speed(result, result.default_seconds),
        f"{_speed(result, best.seconds)}, {best.name}",
        f"{result.gain:.2f}",
        "fastest" if result.chosen is not None else "default",
    )


def _speed(result: tuning.Tuned, seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms, {1e-9 * result.problem.flops / seconds:.0f} GFLOP/s"
