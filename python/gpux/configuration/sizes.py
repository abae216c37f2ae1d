"""Amounts of memory as people write them."""

from __future__ import annotations

import re

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_bytes(text: str | int) -> int:
    """`2GB`, `512M`, `1.5 GiB` or bytes; a unit is 1024 of the one before. ValueError says what is expected."""
    match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,9})?) *([kmgt]?)(?:i?b)?", str(text).strip().lower())
    if match is None:
        raise ValueError(
            f"{str(text)[:40]!r} is no amount of memory; expected for example 512M, 2GB or a number of bytes"
        )
    return int(float(match[1]) * _UNITS[match[2]])


def format_bytes(size: float) -> str:
    """`1.5 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
