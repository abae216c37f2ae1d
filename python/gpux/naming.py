"""Names: of models and versions, and what a misspelt one was meant to be."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

#: Names become folders and parts of URLs, so neither may hold a slash or begin with a dot.
MODEL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


def is_name(text: str) -> bool:
    """Whether a text can be the name or the version of a model."""
    return MODEL_NAME.fullmatch(text) is not None


def nearest(name: str, known: Iterable[str]) -> str:
    """'; did you mean X?' if one of the known names is like it, else what is known, for the end of a message."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known: {', '.join(names)}" if names else ""


def version_key(version: str) -> tuple[tuple[int, int, str], ...]:
    """Orders versions as people count: 1.10 after 1.9, numbers before words."""
    parts = re.findall(r"\d+|[^\d.\-_]+", version)
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)


def split_reference(text: str) -> tuple[str, str | None]:
    """`NAME` or `NAME:VERSION`."""
    name, _, version = text.partition(":")
    return name, version or None
