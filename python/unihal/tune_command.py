"""The command ``unihal tune``."""

from __future__ import annotations

from typing import Optional

import typer
from rich.console import Console
from rich.table import Table

from . import errors, tuning
from .device import Device, device, devices

_Text = Optional[str]


def tune(
    on: _Text = typer.Option(None, "--device", help="The device, such as polaris:0. Default: the first one."),
    shape: list[str] = typer.Option([], help="MxNxK or BATCHxMxNxK; may be given again. Default: a usual selection."),
    form: list[str] = typer.Option(["nn"], help="For --shape: nn, nt, tn or tt (t: transposed in memory)."),
    dtype: str = typer.Option("float32", help="The dtype of the operands."),
    seconds: float = typer.Option(0.05, min=0.001, help="Device time that each candidate is measured for."),
    forget: bool = typer.Option(False, "--forget", help="Drop what was kept for the device, and measure nothing."),
) -> None:
    """Measures the kernels for matrix products on a device and keeps which is fastest, for all later processes."""
    console = Console()
    chosen = _device(on)
    if forget:
        tuning.forget(chosen)
        console.print(f"The choices for {chosen} ({chosen.properties.name}) are dropped.")
        return
    products = [tuning.MatrixProduct.parse(text, each, dtype) for text in shape for each in form]
    table = Table("product", "default", "fastest", "chosen", "gain", title=f"{chosen} ({chosen.properties.name})")
    for result in tuning.tune(chosen, products or tuning.usual_products(dtype), seconds):
        table.add_row(*_row(result))
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
    product = result.product
    batch = f"{product.batch} x " if product.batch > 1 else ""
    name = f"{batch}{product.m} x {product.n} x {product.k} {product.form} {product.dtype}"
    if not result.key:
        return (name, "", "", "(nothing to choose)", "")
    best = result.candidates[0]
    return (
        name,
        _rate(product, result.default_seconds),
        f"{_rate(product, best.seconds)} {best.name}",
        result.chosen or "default",
        f"{result.gain:.2f}",
    )


def _rate(product: tuning.MatrixProduct, seconds: float) -> str:
    return f"{2e-9 * product.batch * product.m * product.n * product.k / seconds:.0f} GFLOP/s"
