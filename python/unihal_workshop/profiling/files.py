"""What the profiler writes: JSON, a trace for Perfetto, and a picture."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:
    from .profiler import ProfileEntry

_WIDTH, _ROW, _TEXT = 1200, 22, 6.6


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Plain data."""
    _write(path, json.dumps(data, indent=1) + "\n")


def write_perfetto(path: Path, entries: Sequence[ProfileEntry]) -> None:
    """Chrome's trace events, in microseconds."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "stages"}},
        {"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "device"}},
    ]
    for entry in sorted(entries, key=lambda entry: (entry.start_nanoseconds, entry.depth)):
        start, end = entry.start_nanoseconds / 1e3, (entry.start_nanoseconds + entry.host_nanoseconds) / 1e3
        events.append(
            {
                "ph": "X", "pid": 1, "tid": 1, "name": entry.name, "ts": start, "dur": end - start,
                "args": {
                    "path": entry.path, "device_ms": entry.device_nanoseconds / 1e6, "launches": entry.launches,
                    "peak_bytes": entry.peak_bytes, "failed": entry.failed,
                },
            }
        )  # fmt: skip
        for name, begin, duration in entry.events:
            events.append({"ph": "X", "pid": 1, "tid": 2, "name": name, "ts": begin / 1e3, "dur": duration / 1e3})
        for place, size in ((start, entry.memory_before), (end, entry.memory_after)):
            events.append({"ph": "C", "pid": 1, "name": "allocated", "ts": place, "args": {"bytes": size}})
    _write(path, json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))


def write_svg(path: Path, entries: Sequence[ProfileEntry]) -> None:
    """Stages over time, by depth; the last row is the device's work."""
    end = max((entry.start_nanoseconds + entry.host_nanoseconds for entry in entries), default=1) or 1
    depth = max((entry.depth for entry in entries), default=0) + 1
    height = (depth + 1) * _ROW + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="sans-serif" font-size="11">',
        f'<text x="2" y="12">{end / 1e6:.3f} ms, {len(entries)} stages</text>',
    ]

    def bar(start: float, length: float, row: int, color: str, label: str, hint: str) -> None:
        x, width = start / end * _WIDTH, max(0.5, length / end * _WIDTH)
        y = 18 + row * _ROW
        shown = label if len(label) * _TEXT < width else ""
        parts.append(
            f'<g><title>{html.escape(hint)}</title><rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{_ROW - 2}" '
            f'fill="{color}"/><text x="{x + 3:.2f}" y="{y + 14}">{html.escape(shown)}</text></g>'
        )

    for entry in sorted(entries, key=lambda entry: (entry.start_nanoseconds, entry.depth)):
        hint = (
            f"{entry.path}: {entry.host_nanoseconds / 1e6:.3f} ms, device {entry.device_nanoseconds / 1e6:.3f} ms, "
            f"{entry.launches} launches, peak {entry.peak_bytes / 2**20:.1f} MiB"
        )
        color = "#e99" if entry.failed else f"hsl({entry.depth * 67 % 360} 55% 75%)"
        bar(entry.start_nanoseconds, entry.host_nanoseconds, entry.depth, color, entry.name, hint)
        for name, begin, duration in entry.events:
            bar(begin, duration, depth, "#7ab", name, f"{name}: {duration / 1e6:.3f} ms")
    parts.append("</svg>")
    _write(path, "\n".join(parts))
