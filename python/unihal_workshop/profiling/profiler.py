"""Stages of a program: host time, device time, memory and counts of each.

    profiler = Profiler()
    with profiler.stage("step"):
        with profiler.stage("forward"):
            ...
    profiler.print_summary()

At each begin and end of a stage the device is waited for, so that what a stage submitted is counted to it: stages are
honest about where time goes, and the program as a whole is slower than without.
"""

from __future__ import annotations

import functools
import math
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar

from ..errors import DeviceError, StageError

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass
class ProfileEntry:
    """One run of a stage. Nanoseconds since the profiler's first stage; bytes of the device's memory.

    `path` names the stages around it, `a/b`. `device_nanoseconds` is the sum of the ops' times on the device,
    `launches` how many they were, `moved_bytes` and `operations` their floors; `ops` has device time by op. All of
    these and `peak_bytes` include the stages within; `self_*` do not. `memory_before` and `memory_after` are what was
    allocated.
    """

    name: str
    path: str
    depth: int
    start_nanoseconds: int
    host_nanoseconds: int = 0
    device_nanoseconds: int = 0
    launches: int = 0
    moved_bytes: int = 0
    operations: int = 0
    memory_before: int = 0
    memory_after: int = 0
    peak_bytes: int = 0
    self_host_nanoseconds: int = 0
    self_device_nanoseconds: int = 0
    failed: bool = False
    ops: dict[str, int] = field(default_factory=dict)
    #: (name, start, duration) of each op on the device, in nanoseconds; of the ops of this stage alone.
    events: list[tuple[str, int, int]] = field(default_factory=list, repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON, without the single events."""
        return {key: value for key, value in self.__dict__.items() if key != "events"}


@dataclass(frozen=True)
class StageStatistics:
    """All runs of the stages of one path. Milliseconds, bytes.

    `deviation_ms` is the standard deviation (0 for one run).
    """

    path: str
    depth: int
    runs: int
    mean_ms: float
    deviation_ms: float
    least_ms: float
    median_ms: float
    most_ms: float
    device_ms: float
    self_ms: float
    self_device_ms: float
    launches: float
    peak_bytes: int


@dataclass(frozen=True)
class Bottleneck:
    """The stage whose own work takes most of the time, and what it waits for: `device` or `host`.

    `share` is its part of all time, `device_share` the part of its time in which the device worked. `op` is the op
    that takes most of the device's time there.
    """

    path: str
    share: float
    bound_by: str
    device_share: float
    op: str
    advice: str


class Profiler:
    """Records stages of one thread; other threads' device work is counted to the stage that runs at the time.

    `device` is unihal's name; without such a device only the host's time is recorded. While a stage runs, unihal's
    recording is taken (`unihal.profile`): a second recording of the process is a StageError. Stages of the names in
    `apart` (loading, say) are measured like others, and are no bottleneck.
    """

    def __init__(self, device: str = "rdna", apart: Sequence[str] = ()) -> None:
        self.device = device
        self.apart = tuple(apart)
        self.entries: list[ProfileEntry] = []
        self._open: list[ProfileEntry] = []
        self._origin = 0
        self._thread = 0
        self._device = _device(device)
        self._recording: Any = None
        self._segment_start = 0

    # -- stages -----------------------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Begins a stage, within those that are open."""
        if not name or "/" in name:
            raise StageError(f"a stage {name!r}: expected a name without '/'")
        if self._open and self._thread != threading.get_ident():
            raise StageError(f"the stage {self._open[-1].path!r} runs on another thread: a profiler is one thread's")
        self._thread = threading.get_ident()
        self._end_segment()
        now = time.perf_counter_ns()
        if not self.entries and not self._open:
            self._origin = now
        path = "/".join([*(entry.name for entry in self._open), name])
        entry = ProfileEntry(name, path, len(self._open), now - self._origin)
        entry.memory_before = entry.peak_bytes = self._allocated()
        self._open.append(entry)
        try:
            self._begin_segment()
        except StageError:
            self._open.pop()
            raise

    def end(self, name: str | None = None) -> ProfileEntry:
        """Ends the innermost stage; `name` says which one is meant, and another one is a StageError."""
        if not self._open:
            raise StageError(f"no stage is open that could end{f' as {name!r}' if name else ''}: start one first")
        entry = self._open[-1]
        if name is not None and entry.name != name:
            raise StageError(f"the stage {name!r} cannot end: {entry.name!r} began after it and is open")
        self._end_segment()
        self._open.pop()
        entry.host_nanoseconds = time.perf_counter_ns() - self._origin - entry.start_nanoseconds
        entry.self_host_nanoseconds += entry.host_nanoseconds
        entry.memory_after = self._allocated()
        if self._open:
            around = self._open[-1]
            around.self_host_nanoseconds -= entry.host_nanoseconds
            self._begin_segment()
        self.entries.append(entry)
        return entry

    @contextmanager
    def stage(self, name: str) -> Iterator[ProfileEntry]:
        """A stage for as long as a block runs. An exception ends it too, and `failed` is set."""
        self.start(name)
        entry = self._open[-1]
        try:
            yield entry
        except BaseException:
            entry.failed = True
            # Stages that were begun by hand within, and whose end was left out.
            while self._open and self._open[-1] is not entry:
                self._open[-1].failed = True
                self.end()
            raise
        finally:
            if entry in self._open:
                self.end(name)

    def __call__(self, name: str | _Function | None = None) -> Any:
        """A decorator: `@profiler` or `@profiler("name")` makes each call of a function a stage."""
        if callable(name):
            return self(None)(name)

        def decorate(function: _Function) -> _Function:
            shown = name if isinstance(name, str) else function.__name__

            @functools.wraps(function)
            def wrapped(*args: Any, **kwargs: Any) -> Any:
                with self.stage(shown):
                    return function(*args, **kwargs)

            return wrapped  # type: ignore[return-value]

        return decorate

    def clear(self) -> None:
        """Forgets what was recorded; open stages are a StageError."""
        if self._open:
            raise StageError(f"the stage {self._open[-1].path!r} is open: end it first")
        self.entries.clear()

    # -- the device -------------------------------------------------------------------------------------------------

    def _allocated(self) -> int:
        return int(self._device.memory_stats().allocated_bytes) if self._device is not None else 0

    def _begin_segment(self) -> None:
        if self._device is None:
            return
        import unihal

        self._device.reset_peak_memory_stats()
        recording = unihal.profile()
        try:
            recording.__enter__()
        except unihal.errors.Error as error:
            raise StageError(f"unihal is recording already: {error}") from error
        self._recording = recording
        self._segment_start = time.perf_counter_ns() - self._origin

    def _end_segment(self) -> None:
        """What ran since the last begin or end of a stage belongs to the stages that are open."""
        if self._recording is None:
            return
        self._device.synchronize()
        self._recording.__exit__(None, None, None)
        peak = int(self._device.memory_stats().peak_allocated_bytes)
        events = self._recording.events
        self._recording = None
        inner = self._open[-1]
        for event in events:
            start = self._segment_start + event.start_nanoseconds
            inner.events.append((event.op, start, event.duration_nanoseconds))
            inner.self_device_nanoseconds += event.duration_nanoseconds
        for entry in self._open:
            entry.peak_bytes = max(entry.peak_bytes, peak)
            for event in events:
                entry.device_nanoseconds += event.duration_nanoseconds
                entry.launches += 1
                entry.moved_bytes += event.bytes
                entry.operations += event.flops
                entry.ops[event.op] = entry.ops.get(event.op, 0) + event.duration_nanoseconds

    # -- what came of it --------------------------------------------------------------------------------------------

    def statistics(self) -> list[StageStatistics]:
        """Each path with its runs, in the order in which they first began."""
        groups: dict[str, list[ProfileEntry]] = {}
        for entry in sorted(self.entries, key=lambda entry: (entry.start_nanoseconds, entry.depth)):
            groups.setdefault(entry.path, []).append(entry)
        return [_statistics(path, entries) for path, entries in groups.items()]

    def bottleneck(self) -> Bottleneck | None:
        """Where most of the time goes; None if nothing was recorded but what stands apart."""
        rows = [row for row in self.statistics() if row.path.partition("/")[0] not in self.apart]
        whole = sum(row.mean_ms * row.runs for row in rows if row.depth == 0)
        if not rows or whole <= 0:
            return None
        worst = max(rows, key=lambda row: row.self_ms * row.runs)
        share = worst.self_ms * worst.runs / whole
        device_share = min(1.0, worst.self_device_ms / worst.self_ms) if worst.self_ms > 0 else 0.0
        ops: dict[str, int] = {}
        for entry in self.entries:
            if entry.path == worst.path:
                for name, _, duration in entry.events:
                    ops[name] = ops.get(name, 0) + duration
        op = max(ops, key=lambda name: ops[name]) if ops else ""
        if device_share >= 0.5:
            advice = f"the device works: {op} takes most of it; fewer bits or smaller shapes would help"
        elif worst.launches:
            advice = "the device waits for the host: larger batches, fused ops or a graph would help"
        else:
            advice = "no op ran on the device: this is the host's own work"
        return Bottleneck(worst.path, share, "device" if device_share >= 0.5 else "host", device_share, op, advice)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        found = self.bottleneck()
        return {
            "device": self.device if self._device is not None else "",
            "entries": [entry.as_dict() for entry in self.entries],
            "statistics": [dict(row.__dict__) for row in self.statistics()],
            "bottleneck": dict(found.__dict__) if found is not None else None,
        }

    def print_summary(self, file: IO[str] | None = None) -> None:
        """The statistics as a table, and the bottleneck."""
        print(self.summary(), file=file or sys.stdout)

    def summary(self) -> str:
        """The same as a text."""
        header = ("stage", "runs", "ms", "+-", "least", "most", "device ms", "launches", "peak MiB")
        rows: list[Sequence[str]] = [header]
        for row in self.statistics():
            name = "  " * row.depth + row.path.rpartition("/")[2]
            numbers = (row.mean_ms, row.deviation_ms, row.least_ms, row.most_ms, row.device_ms)
            cells = [f"{value:.3f}" for value in numbers]
            rows.append([name, str(row.runs), *cells, f"{row.launches:g}", f"{row.peak_bytes / 2**20:.1f}"])
        widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))])
            for row in rows
        ]
        found = self.bottleneck()
        if found is not None:
            lines.append(
                f"bottleneck: {found.path}, {found.share:.0%} of the time, "
                f"bound by the {found.bound_by}: {found.advice}"
            )
        return "\n".join(lines)

    def write_json(self, path: str | Path) -> None:
        """`as_dict` into a file."""
        from .files import write_json

        write_json(Path(path), self.as_dict())

    def write_perfetto(self, path: str | Path) -> None:
        """A trace for ui.perfetto.dev or chrome://tracing.

        A track of stages, one of the device's ops, one of memory.
        """
        from .files import write_perfetto

        write_perfetto(Path(path), self.entries)

    def write_picture(self, path: str | Path) -> None:
        """An SVG: stages over time, each the wider the longer it took, and the device's work below."""
        from .files import write_svg

        write_svg(Path(path), self.entries)


def _device(name: str) -> Any:
    import unihal

    try:
        return unihal.device(name)
    except (unihal.errors.NotFoundError, unihal.errors.UnavailableError):
        return None
    except unihal.errors.Error as error:
        raise DeviceError(f"{name} cannot be profiled: {error}") from error


def _statistics(path: str, entries: Sequence[ProfileEntry]) -> StageStatistics:
    times = [entry.host_nanoseconds / 1e6 for entry in entries]
    count = len(entries)
    return StageStatistics(
        path,
        entries[0].depth,
        count,
        math.fsum(times) / count,
        statistics.stdev(times) if count > 1 else 0.0,
        min(times),
        statistics.median(times),
        max(times),
        sum(entry.device_nanoseconds for entry in entries) / count / 1e6,
        max(0.0, sum(entry.self_host_nanoseconds for entry in entries) / count / 1e6),
        sum(entry.self_device_nanoseconds for entry in entries) / count / 1e6,
        sum(entry.launches for entry in entries) / count,
        max(entry.peak_bytes for entry in entries),
    )
