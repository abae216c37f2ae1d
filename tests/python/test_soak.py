"""The verdict of benchmarks/soak.py."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
soak: Any = pytest.importorskip("soak")

MEGABYTE = 1 << 20


def samples(**bytes_per_step: float) -> list[Any]:
    """20 samples of 10,000 steps; what is not named stays, after a warm-up in which everything grows."""
    grown = {name: bytes_per_step.get(name, 0) for name in ("allocated", "reserved", "resident")}
    return [
        soak.Sample(
            500 * number,
            *(int(min(number, 5) * MEGABYTE + 500 * number * grown[name]) for name in grown),
            seconds=float(number),
        )
        for number in range(1, 21)
    ]


def test_what_stays_after_the_warm_up_is_flat() -> None:
    assert soak.complaints(samples()) == []


def test_one_float_of_device_memory_in_a_thousand_steps_is_a_leak() -> None:
    (complaint,) = soak.complaints(samples(allocated=0.004))
    assert complaint.startswith("allocated grew by 16 bytes")


def test_resident_memory_has_a_tolerance() -> None:
    assert soak.complaints(samples(resident=200)) == []
    (complaint,) = soak.complaints(samples(resident=1000))
    assert complaint.startswith("resident grew by") and "at most 2,097,152 are allowed" in complaint
