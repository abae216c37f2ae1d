"""What the commands print."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from ..configuration.settings import Settings
from ..configuration.sizes import format_bytes
from ..errors import InputError
from ..execution.measurement import Measurement
from ..inspection.inspector import Inspection
from ..tensors import Array, dtype_name

_SHOWN = 8  # elements of an output


def warn(warnings: Iterable[str]) -> None:
    """Warnings on stderr."""
    for text in warnings:
        print(f"gpux: warning: {text}", file=sys.stderr)


def count(number: float) -> str:
    """`25.6 M`."""
    for unit in ("", " k", " M", " G"):
        if number < 1000:
            return f"{number:.0f}{unit}" if not unit else f"{number:.1f}{unit}"
        number /= 1000
    return f"{number:.1f} T"


def _path_column(title: str) -> Column:
    """A column with paths in it, which go on in the next line where the terminal is narrow, and are not cut."""
    return Column(title, overflow="fold")


def show_inspection(inspection: Inspection, console: Console) -> None:
    """A model's tables."""
    model = inspection.metadata
    tensors = Table("", "name", "dtype", "shape", title="inputs and outputs", title_justify="left")
    for label, specs in (("input", model.inputs), ("output", model.outputs)):
        for spec in specs:
            tensors.add_row(label, escape(spec.name), spec.dtype, escape(spec.describe_shape()))
    console.print(tensors)
    facts = Table("", _path_column(""), title="model", title_justify="left", show_header=False)
    facts.add_row("file", escape(model.path))
    facts.add_row("producer", escape(model.producer) or "not said")
    facts.add_row("opset", ", ".join(f"{escape(domain)} {version}" for domain, version in model.opsets.items()))
    facts.add_row("nodes", str(model.nodes))
    facts.add_row("parameters", count(model.parameters))
    facts.add_row("memory of weights", format_bytes(model.weight_bytes))
    unknown = f", without {model.nodes_without_shapes} nodes of unknown shapes" if model.nodes_without_shapes else ""
    facts.add_row("operations", f"{count(model.operations)}FLOP, with free axes at 1{unknown}")
    joins = "yes" if model.joins_batches else "no: inputs and outputs do not begin with the same free axis"
    facts.add_row("requests join to batches", joins)
    console.print(facts)
    placement = Table("op", "nodes", "provider", "why not elsewhere", title="where it runs", title_justify="left")
    for row in inspection.placement:
        placement.add_row(escape(row.op), str(row.nodes), row.provider, row.reason)
    console.print(placement)


def show_measurement(measured: Measurement, title: str, console: Console) -> None:
    """A benchmark's table."""
    table = Table("", "", title=escape(title), title_justify="left", show_header=False)
    for label, value in (
        ("runs, after warm-up", f"{measured.runs}, {measured.warmup}"),
        ("mean", f"{measured.mean_ms:.3f} ms"),
        ("p50", f"{measured.p50_ms:.3f} ms"),
        ("p90", f"{measured.p90_ms:.3f} ms"),
        ("p95", f"{measured.p95_ms:.3f} ms"),
        ("p99", f"{measured.p99_ms:.3f} ms"),
        ("least, most", f"{measured.min_ms:.3f} ms, {measured.max_ms:.3f} ms"),
        ("throughput", f"{measured.throughput:.1f} samples/s, batches of {measured.batch}"),
    ):
        table.add_row(label, value)
    console.print(table)


def show_outputs(outputs: dict[str, Array], console: Console) -> None:
    """Outputs, their beginnings."""
    table = Table("output", "dtype", "shape", "values")
    for name, array in outputs.items():
        flat = array.reshape(-1)
        shown = ", ".join(f"{value:.6g}" if array.dtype.kind == "f" else str(value) for value in flat[:_SHOWN])
        rest = f", ... ({flat.size} in all)" if flat.size > _SHOWN else ""
        table.add_row(escape(name), dtype_name(array), escape(str(list(array.shape))), escape(shown + rest))
    console.print(table)


def show_settings(settings: Settings, meanings: dict[str, str], console: Console) -> None:
    """Each setting with its source."""
    table = Table("setting", _path_column("value"), _path_column("from"), _path_column("meaning"))
    for name, value in settings.values.items():
        shown = "" if value.value is None else str(value.value)
        table.add_row(name, escape(shown), escape(value.source), escape(meanings[name]))
    console.print(table)


def show_models(rows: list[dict[str, Any]], console: Console) -> None:
    """The registry."""
    if not rows:
        console.print("No model is built yet; `gpux build` in a folder with gpux.yml registers one.")
        return
    table = Table("name", "version", "size", _path_column("folder"))
    for row in rows:
        table.add_row(row["name"], row["version"], format_bytes(row["bytes"]), escape(row["folder"]))
    console.print(table)


def plain(array: Array) -> Any:
    """Nested lists for JSON; what is not finite, which JSON has no word for, as the texts nan, inf and -inf."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return np.where(np.isfinite(array), array.astype(object), array.astype(str)).tolist()
    return array.tolist()


def write_outputs(path: Path, outputs: dict[str, Array]) -> None:
    """Outputs into a .npz or .json file."""
    try:
        if path.suffix == ".npz":
            arrays: dict[str, Any] = {
                name: array.astype(str) if array.dtype == object else array for name, array in outputs.items()
            }
            with path.open("wb") as file:
                np.savez(file, **arrays)
        elif path.suffix == ".json":
            path.write_text(json.dumps({name: plain(array) for name, array in outputs.items()}) + "\n")
        else:
            raise InputError(f"{path} ends in {path.suffix or 'nothing'}; outputs go to .npz or .json")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
