"""Runs the suite in child processes: a backend that crashes or hangs loses the entry that it was in, and no other."""

from __future__ import annotations

import json
import os
import queue
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import IO, Any

from .. import errors
from .case import Entry
from .outcome import Outcome
from .suite import Selection, entries

#: After so many deaths in entries of one op, its remaining entries are not tried.
_DEATHS_PER_OP = 3

_LAST_WORDS = 600


@dataclass
class Run:
    """A run of chosen entries."""

    selection: Selection
    backend: str | None
    #: Seconds in which an entry must come to an end.
    time_limit: float
    #: Whether the host runs what the backend refuses, as in programs; else a refusal is an error, and can be seen.
    with_host: bool = False
    #: What was tested; known once the first child has opened it.
    device: str = ""
    entries: list[Entry] = field(init=False)
    _deaths: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.entries = entries(self.selection)

    def outcomes(self) -> Iterator[Outcome]:
        """One outcome per entry, as they come. Raises UnavailableError if the backend offers no device."""
        done = 0
        while done < len(self.entries):
            entry = self.entries[done]
            if self._deaths[entry.op] >= _DEATHS_PER_OP:
                message = f"not tried, since {_DEATHS_PER_OP} entries of {entry.op} ended the process"
                yield Outcome(entry.op, entry.name, entry.dtype, "failed", message)
                done += 1
                continue
            for outcome in self._child(done):
                yield outcome
                done += 1

    def _child(self, skip: int) -> Iterator[Outcome]:
        """The outcomes of one child, the last one being that of the entry that it died in."""
        reading, writing = os.pipe()
        with tempfile.TemporaryFile() as output, os.fdopen(reading, "rb", buffering=0) as pipe:
            child = subprocess.Popen(
                [*self._command(), "--skip", str(skip), "--pipe", str(writing)],
                pass_fds=[writing],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "UNIHAL_STRICT": "0" if self.with_host else "1"},
            )
            os.close(writing)
            try:
                yield from self._read(skip, pipe, child, output)
            finally:
                child.kill()
                child.wait()

    def _read(self, skip: int, pipe: Any, child: subprocess.Popen[bytes], output: IO[bytes]) -> Iterator[Outcome]:
        position = skip
        started = time.perf_counter()
        for line in _lines(pipe, self.time_limit):
            message = json.loads(line)
            if "refused" in message:
                raise errors.UnavailableError(message["refused"])
            if "device" in message:
                self.device = message["device"]
            elif "start" in message:
                started = time.perf_counter()
            else:
                yield Outcome(**message["outcome"])
                position += 1
        hangs = time.perf_counter() - started >= self.time_limit
        if hangs:
            child.kill()
        code = child.wait()
        if position < len(self.entries):
            entry = self.entries[position]
            self._deaths[entry.op] += 1
            what = f"no end after {self.time_limit:.0f} seconds" if hangs else _cause_of_death(code)
            message = f"{what}{_last_words(output)}"
            yield Outcome(entry.op, entry.name, entry.dtype, "failed", message, time.perf_counter() - started)
        elif code != 0:
            # All entries were done: the device or the process could not be given up.
            entry = self.entries[-1]
            message = f"the process ended badly after its last entry: {_cause_of_death(code)}{_last_words(output)}"
            raise errors.InternalError(message)

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", f"{__package__}.worker", "--selection", json.dumps(asdict(self.selection))]
        return command if self.backend is None else [*command, "--backend", self.backend]


class ParallelRun:
    """A run in several processes at a time, each with a part of the entries."""

    def __init__(
        self, selection: Selection, backend: str | None, time_limit: float, jobs: int, with_host: bool = False
    ) -> None:
        parts = selection.split(jobs) if jobs > 1 else [selection]
        self._runs = [Run(part, backend, time_limit, with_host) for part in parts]
        self.count = sum(len(run.entries) for run in self._runs)

    @property
    def device(self) -> str:
        """What was tested; empty before the first outcome."""
        return next((run.device for run in self._runs if run.device), "")

    def outcomes(self) -> Iterator[Outcome]:
        """One outcome per entry, as they come. Raises what the first process that fails raises."""
        arrivals: queue.SimpleQueue[Outcome | BaseException | None] = queue.SimpleQueue()

        def follow(run: Run) -> None:
            try:
                for outcome in run.outcomes():
                    arrivals.put(outcome)
                arrivals.put(None)
            except BaseException as error:
                arrivals.put(error)

        for run in self._runs:
            threading.Thread(target=follow, args=(run,), daemon=True).start()
        for _ in self._runs:
            while (arrival := arrivals.get()) is not None:
                if isinstance(arrival, BaseException):
                    raise arrival
                yield arrival


def _lines(pipe: Any, time_limit: float) -> Iterator[bytes]:
    """Lines until the end of the pipe, or until none comes in time."""
    rest = b""
    while select.select([pipe], [], [], time_limit)[0]:
        received = os.read(pipe.fileno(), 65536)
        if not received:
            return
        *lines, rest = (rest + received).split(b"\n")
        yield from lines


def _cause_of_death(code: int) -> str:
    return f"the process died of signal {-code}" if code < 0 else f"the process ended with exit code {code}"


def _last_words(output: IO[bytes]) -> str:
    output.seek(0)
    text = output.read().decode(errors="replace").strip()
    return f"; its last words: ...{text[-_LAST_WORDS:]}" if text else ""
