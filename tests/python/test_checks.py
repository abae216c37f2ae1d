"""Races and live allocations, as Python programs see them."""

from __future__ import annotations

import json

import pytest
import unihal
from processes import run_python

# Each program prints a value as JSON at its end.
PRELUDE = """
import json
import numpy as np
import unihal
from unihal import Buffer, Stream, ops

device = unihal.device("rdna:0")
first, second = Stream(device), Stream(device)
x = Buffer((4, 8), "float32", device, stream=first)
"""


def run(program: str, **variables: str) -> tuple[object, str]:
    """What a program printed last, and what it said on stderr."""
    completed = run_python(PRELUDE + program, UNIHAL_BACKEND="stub", **variables)
    assert completed.returncode == 0, completed.stderr
    return json.loads(completed.stdout.splitlines()[-1]), completed.stderr


RACE = """
def training_step():
    ops.fill(x, 1.0, stream=first)
    ops.fill(x[1:], 2.0, stream=second)

training_step()
"""


def test_a_race_names_both_sides() -> None:
    found, said = run(
        RACE
        + """
(race,) = unihal.races()
assert isinstance(race, unihal.Race) and race.device == device
assert race.later.stream == race.earlier.stream + 1
assert race.later.address == race.earlier.address + 32
assert (race.earlier.bytes, race.later.bytes) == (128, 96)
assert race.earlier.writes and race.later.writes
print(json.dumps([str(race), race.earlier.work, race.earlier.role, race.earlier.site, race.later.site]))
""",
        UNIHAL_CHECK_RACES="1",
    )
    assert isinstance(found, list)
    text, work, role, *sites = found
    assert work == "fill: -> float32(4, 8)" and role == "y"
    assert all("in training_step" in site for site in sites)
    assert "race on rdna:0: stream " in text and "writes y, 96 bytes at 0x" in text
    assert said.count("unihal: race on rdna:0 (stub)") == 1
    assert "in training_step" in said and "record an event on stream" in said


def test_an_event_orders_streams() -> None:
    found, said = run(
        """
ops.fill(x, 1.0, stream=first)
second.wait(first.record())
ops.fill(x[1:], 2.0, stream=second)
second.synchronize()
ops.fill(x, 1.0, stream=first)
print(len(unihal.races()))
""",
        UNIHAL_CHECK_RACES="1",
    )
    assert found == 0 and "race" not in said


def test_races_are_forgotten_on_request() -> None:
    found, _ = run(
        RACE + "before = len(unihal.races()); unihal.clear_races(); print([before, len(unihal.races())])",
        UNIHAL_CHECK_RACES="1",
    )
    assert found == [1, 0]


def test_buffers_of_several_streams_are_freed_in_order() -> None:
    found, _ = run(
        """
for _ in range(20):
    a = Buffer.from_numpy(np.ones((4, 8), np.float32), device, stream=first)
    second.wait(first.record())
    b = ops.exp(a, stream=second)
    c = ops.add(a, a, stream=first)
    del a, b, c
x.numpy(stream=first)
print(len(unihal.races()))
""",
        UNIHAL_CHECK_RACES="1",
    )
    assert found == 0


def test_nothing_is_checked_unless_asked_for() -> None:
    found, said = run(RACE + "print(json.dumps([len(unihal.races()), device.properties.checks]))")
    assert found == [0, 0] and said == ""
    with pytest.raises(unihal.FailedPreconditionError, match="UNIHAL_CHECK_MEMORY"):
        unihal.live_allocations("rdna:0")


def test_live_allocations_name_their_sites() -> None:
    found, _ = run(
        """
def build():
    return Buffer((5, 5), "float32", device)

kept = build()
dropped = build()
del dropped
allocations = unihal.live_allocations("rdna:0")
assert all(isinstance(entry, unihal.LiveAllocation) for entry in allocations)
print(json.dumps([[entry.bytes, entry.kind, entry.site] for entry in allocations]))
""",
        UNIHAL_CHECK_MEMORY="1",
    )
    assert isinstance(found, list)
    (_, (size, kind, site)) = found  # the first is x
    assert (size, kind) == (100, "device")
    assert "in build" in site
