"""Fixtures of the Python API's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import unihal


@pytest.fixture
def device() -> Iterator[unihal.Device]:
    """A device, with nothing left allocated after the test."""
    found = unihal.device("rdna:0")
    before = found.memory_stats().live_allocations
    yield found
    assert found.memory_stats().live_allocations == before
