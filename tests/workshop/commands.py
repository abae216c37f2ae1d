"""The program `workshop`, as a user types it."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import Completed, run_command
from unihal_workshop.command_line.main import main

COMMAND = [sys.executable, "-m", "unihal_workshop.command_line"]
TINY = str(Path(__file__).with_name("tiny.py"))


def workshop(*arguments: str | Path, **variables: str | None) -> Completed:
    """Runs the program to its end."""
    return run_command([*COMMAND, *map(str, arguments)], **variables)


def workshop_here(*arguments: str | Path) -> Completed:
    """The same in this process, in a tenth of the time."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", ["workshop", *map(str, arguments)])
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return Completed(sys.argv, code, out.getvalue(), err.getvalue())


def succeeded(result: Completed) -> Any:
    """What a command with --json printed."""
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)
