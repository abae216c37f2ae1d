"""Builds, inspects, runs and serves ONNX models."""

from __future__ import annotations

import json
import sys

import typer
from rich.console import Console

_MISSING = "gpux: the package {} is missing; install what GPUX needs with: pip install 'unihal[gpux]'"


def main() -> None:
    """The entry point; an error is lines on stderr, with --json also an object on stdout, and an exit code."""
    try:
        from ..errors import GPUXError
        from . import commands
    except ModuleNotFoundError as error:
        sys.exit(_MISSING.format(error.name))
    try:
        commands.app()
    except GPUXError as error:
        kind = type(error).__name__
        if "--json" in sys.argv:
            typer.echo(json.dumps({"error": {"kind": kind, "message": str(error)}}))
        for line in str(error).splitlines():
            Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(f"gpux: {line}")
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(1)


if __name__ == "__main__":
    main()
