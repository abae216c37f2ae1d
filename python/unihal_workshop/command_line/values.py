"""What the command line is given, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import typer

from ..errors import InputError


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


def print_json(data: Any) -> None:
    """One object on stdout."""
    typer.echo(json.dumps(data, default=str))
