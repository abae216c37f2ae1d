"""Device time, bytes and floating-point operations of ops."""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import TracebackType

from . import _core


@dataclass(frozen=True)
class ProfiledEvent:
    """One op, copy or fill."""

    name: str
    op: str
    shape: str
    stream: int
    #: Since the start of the recording.
    start_nanoseconds: int
    duration_nanoseconds: int
    bytes: int
    flops: int
    #: An estimate, not a measurement: the least time that a device with these peaks would need. On the stub with a
    #: device profile they are the card's. 0 where the peaks are unknown.
    estimated_nanoseconds: int
    #: What it ran on, as far as the backend says: "cuBLASLt 13.0", "winograd + convolution_gemm 128x128x8".
    implementation: str = ""


@dataclass(frozen=True)
class ProfiledTotal:
    """All events of one op."""

    op: str
    calls: int
    duration_nanoseconds: int
    bytes: int
    flops: int
    #: The sum of the events' estimates.
    estimated_nanoseconds: int
    #: What the events ran on, longest first, with commas between.
    implementations: str = ""


class profile:  # noqa: N801 (used like a function)
    """Records all ops of this process while the ``with`` block runs, the frameworks' included.

    Afterwards ``totals`` has the time per op, longest first, ``events`` each op; a trace for Perfetto or chrome://tracing
    lies at ``trace`` if that was given.
    """

    def __init__(self, trace: str | os.PathLike[str] | None = None) -> None:
        self._trace = os.fspath(trace) if trace is not None else None
        #: Time per op, longest first.
        self.totals: list[ProfiledTotal] = []
        #: Each op, in order of its start.
        self.events: list[ProfiledEvent] = []

    def __enter__(self) -> profile:
        _core.profiler_start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _core.profiler_stop()
        self.totals = [ProfiledTotal(**entry) for entry in _core.profiler_totals()]
        self.events = [ProfiledEvent(**entry) for entry in _core.profiler_events()]
        if self._trace is not None:
            _core.profiler_write_trace(self._trace)

    def summary(self) -> str:
        """The totals as a table for a person: measured time, the estimate where the peaks are known, and what the
        op ran on where the backend says so."""
        has_estimates = any(total.estimated_nanoseconds for total in self.totals)
        has_implementations = any(total.implementations for total in self.totals)
        rows = [["op", "calls", "ms", "MB", "GFLOP"] + (["ms (estimate, not measured)"] if has_estimates else [])]
        for total in self.totals:
            row = [total.op, str(total.calls), _milliseconds(total.duration_nanoseconds)]
            row += [f"{total.bytes / 1e6:.3f}", f"{total.flops / 1e9:.3f}"]
            rows.append(row + ([_milliseconds(total.estimated_nanoseconds)] if has_estimates else []))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = [
            "  ".join([row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])])
            for row in rows
        ]
        if has_implementations:
            names = ["ran on", *(total.implementations for total in self.totals)]
            lines = [f"{line}  {name}".rstrip() for line, name in zip(lines, names)]
        return "\n".join(lines)


def _milliseconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e6:.3f}"
