"""What the command line is given, and what it prints."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from ..errors import InputError, ModelError


def key_values(texts: Sequence[str], raw: bool = False) -> dict[str, Any]:
    """`name=value` as a mapping; a value is JSON where it reads as such, a text otherwise (always with `raw`)."""
    result: dict[str, Any] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise InputError(f"{text!r}: expected NAME=VALUE")
        if name in result:
            raise InputError(f"{name} is given a second time")
        try:
            result[name] = value if raw else json.loads(value)
        except ValueError:
            result[name] = value
    return result


def import_files(paths: Sequence[str]) -> None:
    """Runs Python files, which register models."""
    for text in paths:
        path = Path(text)
        name = f"_workshop_{path.stem}"
        if name in sys.modules:
            continue
        spec = importlib.util.spec_from_file_location(name, path)
        if not path.is_file() or spec is None or spec.loader is None:
            raise ModelError(f"--import {path}: expected a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise ModelError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error


def print_json(data: Any) -> None:
    """One object on stdout."""
    typer.echo(json.dumps(data, default=str))
