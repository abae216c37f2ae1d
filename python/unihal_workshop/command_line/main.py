"""Knows the card, plans the memory, runs the model."""

from __future__ import annotations

from collections.abc import Callable

from gpux.command_line.main import run_program


def _load() -> tuple[Callable[[], None], type[Exception]]:
    from ..errors import WorkshopError
    from . import commands

    return commands.app, WorkshopError


def main() -> None:
    """The entry point."""
    run_program("workshop", _load)


if __name__ == "__main__":
    main()
