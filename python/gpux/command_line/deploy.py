"""`gpux deploy`."""

from __future__ import annotations


def deploy() -> None:
    """Serves."""
