"""Child processes for tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
