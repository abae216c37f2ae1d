"""Child processes for tests."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Completed = subprocess.CompletedProcess[str]


def run_command(command: list[str], timeout: float = 120, **variables: str | None) -> Completed:
    """Runs a program to its end; keyword arguments are environment variables, None removes one."""
    environment = {**os.environ, **{name: value for name, value in variables.items() if value is not None}}
    for name, value in variables.items():
        if value is None:
            environment.pop(name, None)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)


def without_places(text: str) -> str:
    """What a program said, without the paths of this clone and of the Python environment: a framework's own warnings
    name its files, and a folder may be called anything."""
    for place in (sys.prefix, str(Path(__file__).parents[1])):
        text = text.replace(place, "")
    return text


def run_python(code: str, *arguments: str, timeout: float = 120, **variables: str | None) -> Completed:
    """Runs Python code in a process of its own."""
    return run_command([sys.executable, "-c", code, *arguments], timeout=timeout, **variables)


def run_here(main: Callable[[], None], name: str, *arguments: str | Path, **variables: str | None) -> Completed:
    """Runs a program's entry point in this process, in a tenth of the time: for what its commands say."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", [name, *map(str, arguments)])
        for variable, value in variables.items():
            patch.delenv(variable, raising=False) if value is None else patch.setenv(variable, value)
        try:
            main()
        except SystemExit as end:
            # A text goes to stderr, and the code is 1.
            if isinstance(end.code, str):
                err.write(end.code)
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return Completed(sys.argv, code, out.getvalue(), err.getvalue())


def succeeded(result: Completed) -> Any:
    """What a command with --json printed."""
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)
