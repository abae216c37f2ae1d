"""Where the installed headers and libraries are, for those who build against the C ABI."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def include_dir() -> str:
    """The folder for the compiler's ``-I``; it holds ``unihal/*.h``."""
    return str(_PACKAGE / "include")


def library_dir() -> str:
    """The folder of ``libunihal.so``, the backends and the adapters."""
    return str(_PACKAGE / "lib")
