"""A running `gpux serve`, and the program `gpux` as a user types it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from gpux.command_line.main import main
from processes import Completed, run_command, run_here
from processes import succeeded as succeeded

COMMAND = [sys.executable, "-m", "gpux.command_line"]


def gpux(*arguments: str | Path, **variables: str | None) -> Completed:
    """Runs the program to its end."""
    return run_command([*COMMAND, *map(str, arguments)], **variables)


def gpux_here(*arguments: str | Path, **variables: str | None) -> Completed:
    """The same in this process, in a tenth of the time: for what the commands say, where one in a process was tried."""
    return run_here(main, "gpux", *arguments, **variables)


@dataclass
class Service:
    process: subprocess.Popen[str]
    address: str
    models: list[str]
    log: Path

    def post(self, path: str, json: Any = None, **options: Any) -> httpx.Response:
        return httpx.post(f"{self.address}{path}", json=json, timeout=30, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return httpx.get(f"{self.address}{path}", timeout=30, **options)

    def predict(self, inputs: Any, **query: str) -> httpx.Response:
        return self.post("/predict", {"inputs": inputs}, params=query)

    def workers(self) -> list[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(child) for child in children]


@contextlib.contextmanager
def serve(*arguments: str, **variables: str) -> Iterator[Service]:
    """`gpux serve` on a free port; ended by SIGTERM, which must give 0 and leave no worker."""
    with tempfile.NamedTemporaryFile("w+", suffix=".log") as log:
        process = subprocess.Popen(
            [*COMMAND, "serve", *arguments, "--port", "0", "--json"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, **variables},
        )
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line, f"the service did not start: {Path(log.name).read_text()}"
            said = json.loads(line)
            service = Service(process, said["address"], said["models"], Path(log.name))
            yield service
            workers = service.workers() if process.poll() is None else []
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0, Path(log.name).read_text()
            assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def eventually(condition: Callable[[], Any], timeout: float = 20) -> Any:
    """Waits until a condition holds; its value."""
    end = time.monotonic() + timeout
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.02)
    return found
