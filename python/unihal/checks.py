"""What the checks of a whole run found: races, and memory that is still allocated (docs/checks.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from . import _core
from .device import MEMORY_KINDS, Device, DeviceLike, MemoryKind
from .device import device as find_device


@dataclass(frozen=True)
class RaceAccess:
    """One side of a race."""

    #: What was submitted: ``"matmul: float32(4, 8), float32(8, 2) -> float32(4, 2)"``, ``"free of 64 bytes"``.
    work: str
    #: The operand: ``"a"``, ``"source"``, ``"y"``.
    role: str
    #: Where it was submitted.
    site: str
    #: A number per stream, in order of creation; None for the host.
    stream: int | None
    writes: bool
    #: Of the first byte.
    address: int
    #: From the first byte to the last.
    bytes: int

    def __str__(self) -> str:
        stream = "the host" if self.stream is None else f"stream {self.stream}"
        verb = "writes" if self.writes else "reads"
        return (
            f"{stream} {verb} {self.role}, {self.bytes} bytes at {self.address:#x}, in {self.work}, "
            f"submitted at {self.site}"
        )


@dataclass(frozen=True)
class Race:
    """Two accesses of the same bytes, at least one of them a write, that nothing orders."""

    device: Device
    #: Submitted first.
    earlier: RaceAccess
    later: RaceAccess

    def __str__(self) -> str:
        return f"race on {self.device}: {self.earlier}; and {self.later}"


@dataclass(frozen=True)
class LiveAllocation:
    """Device memory that was not freed yet."""

    address: int
    #: As requested.
    bytes: int
    kind: MemoryKind
    #: Where it was allocated.
    site: str


def races() -> list[Race]:
    """The races found since the start or the last ``clear_races()``, at most the first 1,000.

    Empty unless the check is in force: with ``UNIHAL_CHECK_RACES=1``, and always on the strict stub. The work of the
    frameworks is covered like that of this package.
    """
    return [_race(entry) for entry in _core.races()]


def clear_races() -> None:
    """Forgets the races found so far."""
    _core.clear_races()


def live_allocations(device: DeviceLike) -> list[LiveAllocation]:
    """The memory of a device that is allocated now, oldest first.

    Needs the memory check: ``UNIHAL_CHECK_MEMORY=1``, or the strict stub.
    """
    kinds = {number: cast(MemoryKind, name) for name, number in MEMORY_KINDS.items()}
    return [
        LiveAllocation(entry["address"], entry["bytes"], kinds[entry["kind"]], entry["site"])
        for entry in _core.live_allocations(find_device(device)._handle)
    ]


def _race(entry: dict[str, Any]) -> Race:
    device = Device._from_handle(entry["device"])
    return Race(device, RaceAccess(**entry["earlier"]), RaceAccess(**entry["later"]))
