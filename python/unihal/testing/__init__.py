"""Checks of code that uses unihal's devices, through a framework or directly: for any test runner.

Each is a context manager that raises an ``AssertionError`` at the end of its block. pytest has them as fixtures and
markers (unihal_pytest, found by pytest itself where unihal is installed).
"""

from __future__ import annotations

from .check import Check
from .fallbacks import NoFallback
from .faults import InjectedFaults
from .memory import MemoryWatermark
from .races import NoRace
from .strict import NotConfiguredError, strict_device

__all__ = [
    "Check",
    "InjectedFaults",
    "MemoryWatermark",
    "NoFallback",
    "NoRace",
    "NotConfiguredError",
    "strict_device",
]
