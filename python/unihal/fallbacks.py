"""Ops that a framework ran on the CPU although a unihal device was asked for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from . import _core


@dataclass(frozen=True)
class Fallback:
    """One op of a framework that fell back, and how often."""

    framework: str
    op: str
    dtype: str
    reason: str
    count: int


def fallbacks() -> list[Fallback]:
    """The fallbacks of this process, in order of first occurrence."""
    return [Fallback(**entry) for entry in _core.fallbacks()]


def is_strict() -> bool:
    """Whether fallbacks are errors (UNIHAL_STRICT=1)."""
    return _core.strict()


def read_log(lines: Iterable[str]) -> list[Fallback]:
    """The fallbacks in a file that UNIHAL_FALLBACK_LOG names: equal entries added up, the most frequent first."""
    counts: dict[tuple[str, str, str, str], int] = {}
    for line in lines:
        try:
            entry = json.loads(line)
            key = (entry["framework"], entry["op"], entry["dtype"], entry["reason"])
        except (ValueError, KeyError, TypeError):
            # A program that was killed leaves half a line.
            continue
        counts[key] = counts.get(key, 0) + int(entry.get("count", 1))
    entries = [Fallback(*key, count) for key, count in counts.items()]
    return sorted(entries, key=lambda entry: -entry.count)
