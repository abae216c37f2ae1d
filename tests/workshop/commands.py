"""The program `workshop`, as a user types it."""

from __future__ import annotations

import sys
from pathlib import Path

from processes import Completed, run_command, run_here
from processes import succeeded as succeeded
from unihal_workshop.command_line.main import main

COMMAND = [sys.executable, "-m", "unihal_workshop.command_line"]
TINY = str(Path(__file__).with_name("tiny.py"))


def workshop(*arguments: str | Path, **variables: str | None) -> Completed:
    """Runs the program to its end."""
    return run_command([*COMMAND, *map(str, arguments)], **variables)


def workshop_here(*arguments: str | Path, **variables: str | None) -> Completed:
    """The same in this process, in a tenth of the time."""
    return run_here(main, "workshop", *arguments, **variables)
