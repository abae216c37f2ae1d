"""Programs that use TensorFlow, each in a process of its own that did not import it by itself.

An import takes three seconds of a processor, whatever a test does then. So one process imports TensorFlow as far as its
plugins, which read the environment when they are loaded, and has a fork run each program: the fork gets its
environment, loads the plugins, runs the program as `__main__`, and ends as any process does. What is about the import
itself takes processes of its own (test_process.py).
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).resolve().parent
PLUGIN_LIBRARY = "TF_PLUGGABLE_DEVICE_LIBRARY_PATH"


# -- in the tests


@cache
def _server() -> subprocess.Popen[str]:
    server = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    atexit.register(_end, server)
    return server


def _end(server: subprocess.Popen[str]) -> None:
    """Ends it by the end of its input; if it does not, as a fork that hangs."""
    try:
        server.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        _kill(server)


def _kill(server: subprocess.Popen[str]) -> None:
    """With its fork, which would stay otherwise."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def run(arguments: list[str], environment: dict[str, str], timeout: float = 180) -> subprocess.CompletedProcess[str]:
    """Runs a program: ["-c", code], or a file in this folder and its arguments, as Python's command line has them."""
    server = _server()
    assert server.stdin is not None and server.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        output, errors = Path(folder, "stdout"), Path(folder, "stderr")
        request = {"arguments": arguments, "environment": environment, "outputs": [str(output), str(errors)]}
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        if not select.select([server.stdout], [], [], timeout)[0]:
            _kill(server)
            _server.cache_clear()
            raise subprocess.TimeoutExpired(arguments, timeout, output.read_text(), errors.read_text())
        status = int(server.stdout.readline())
        return subprocess.CompletedProcess(arguments, status, output.read_text(), errors.read_text())


# -- in the process that imports TensorFlow


def _import_without_plugins() -> list[str]:
    """Imports TensorFlow; returns the folders of plugins that it would have loaded."""
    exists = os.path.exists
    folders = []

    def hidden(path: Any) -> bool:
        if not str(path).endswith("tensorflow-plugins"):
            return exists(path)
        if exists(path):
            folders.append(str(path))
        return False

    os.environ.pop(PLUGIN_LIBRARY, None)
    os.path.exists = hidden
    try:
        import tensorflow  # noqa: F401
    finally:
        os.path.exists = exists
    return folders


def _load_plugins(folders: list[str]) -> None:
    """The end of TensorFlow's import."""
    from tensorflow.python.framework import load_library

    for folder in folders:
        load_library.load_library(folder)
        load_library.load_pluggable_device_library(folder)
    if os.environ.get(PLUGIN_LIBRARY):
        load_library.load_pluggable_device_library(os.environ[PLUGIN_LIBRARY])


def _next_program(requests: IO[str], answers: IO[str]) -> dict[str, Any]:
    """Returns in forks, with what to run there; in the process itself it ends with the requests."""
    while line := requests.readline():
        request: dict[str, Any] = json.loads(line)
        child = os.fork()
        if child == 0:
            return request
        answers.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        answers.flush()
    sys.exit()


def main() -> None:
    """Serves the tests; in a fork, runs the program."""
    folders = _import_without_plugins()
    request = _next_program(sys.stdin, sys.stdout)
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, file in enumerate(request["outputs"], start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
    os.chdir(HERE)
    _load_plugins(folders)
    program, *sys.argv[1:] = request["arguments"]
    sys.argv[0] = program
    if program == "-c":
        code = sys.argv.pop(1)
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
