"""Builds, inspects, runs and serves ONNX models."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import typer
from rich.console import Console


def run_program(name: str, load: Callable[[], tuple[Callable[[], None], type[Exception]]]) -> None:
    """Runs a program of commands; `load` imports them, and the class of its errors, which have an `exit_code`.

    An error is lines on stderr, with --json also an object on stdout, and an exit code; a package that is missing is a
    line that names the extra of unihal, which has the program's name.
    """
    try:
        application, refused = load()
        try:
            application()
        except refused as error:
            if "--json" in sys.argv:
                typer.echo(json.dumps({"error": {"kind": type(error).__name__, "message": str(error)}}))
            for line in str(error).splitlines():
                Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(f"{name}: {line}")
            sys.exit(int(getattr(error, "exit_code", 1)))
    except ModuleNotFoundError as error:
        sys.exit(
            f"{name}: the package {error.name} is missing; install what {name} needs with: pip install 'unihal[{name}]'"
        )
    except BrokenPipeError:
        sys.exit(1)


def _load() -> tuple[Callable[[], None], type[Exception]]:
    from ..errors import GPUXError
    from . import commands

    return commands.app, GPUXError


def main() -> None:
    """The entry point."""
    run_program("gpux", _load)


if __name__ == "__main__":
    main()
