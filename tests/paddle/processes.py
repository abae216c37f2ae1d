"""Running a Python program in a process of its own, with chosen environment variables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def environment(**changes: str | None) -> dict[str, str]:
    """This process's environment with changes; None removes a variable."""
    merged = {**os.environ, **{name: value for name, value in changes.items() if value is not None}}
    return {name: value for name, value in merged.items() if name not in changes or changes[name] is not None}


def run(program: str, cwd: Path, **changes: str | None) -> subprocess.CompletedProcess[str]:
    """Runs a program; the caller looks at its exit code, stdout and stderr."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env=environment(**changes),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
    )
