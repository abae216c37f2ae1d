"""Knows the card, plans the memory, runs the model."""

from __future__ import annotations

import json
import sys

import typer
from rich.console import Console

_MISSING = "workshop: the package {} is missing; install what the workshop needs with: pip install 'unihal[workshop]'"


def main() -> None:
    """The entry point; an error is lines on stderr, with --json also an object on stdout, and an exit code."""
    try:
        from ..errors import WorkshopError
        from . import commands
    except ModuleNotFoundError as error:
        sys.exit(_MISSING.format(error.name))
    try:
        commands.app()
    except WorkshopError as error:
        if "--json" in sys.argv:
            typer.echo(json.dumps({"error": {"kind": type(error).__name__, "message": str(error)}}))
        for line in str(error).splitlines():
            Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(f"workshop: {line}")
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        sys.exit(_MISSING.format(error.name))
    except BrokenPipeError:
        sys.exit(1)


if __name__ == "__main__":
    main()
