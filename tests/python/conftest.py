"""Fixtures of the Python API's tests."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import unihal


@pytest.fixture
def device() -> Iterator[unihal.Device]:
    """A device, with nothing left allocated after the test."""
    found = unihal.device("rdna:0")
    # Tracebacks of refused calls hold buffers of earlier tests in reference cycles.
    gc.collect()
    before = found.memory_stats().live_allocations
    yield found
    assert found.memory_stats().live_allocations == before


@pytest.fixture
def put(device: unihal.Device) -> Callable[[Any], unihal.Buffer]:
    return lambda array: unihal.Buffer.from_numpy(array, device)


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(7)
