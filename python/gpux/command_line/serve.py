"""`gpux serve`."""

from __future__ import annotations


def serve() -> None:
    """Serves."""
