"""Memory of the card and of the host, as it is now."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ..cards.profiles import SYSTEM_RESERVE, Card
from ..errors import DeviceError, InputError
from .plan import Plan
from .planner import plan as make_plan_of

MIB = 1 << 20


@dataclass(frozen=True)
class MemoryStats:
    """Bytes. `allocated` is held by tensors, `reserved` by the allocator from the card, `peak` the most that was
    allocated.

    `total` is the card's memory, or the cap on it; `free` what of it is not reserved. `ram_*` is the host's,
    `process` what this process has of it. `registered` is by the names of `register_allocation`. All of the card's
    are 0 without a device.
    """

    device: str
    total: int
    allocated: int
    reserved: int
    free: int
    peak: int
    peak_reserved: int
    ram_total: int
    ram_available: int
    process: int
    registered: dict[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class Recommendation:
    """A way to run a model of some size: whether it fits, what it costs, and the setting that does it."""

    name: str
    fits: bool
    needed_mb: float
    costs: str
    setting: str


#: Of each rung: what it makes of the weights' bytes on the card, what it costs, and its setting. Weights of float16.
_RUNGS = (
    ("as it is", 1.0, "nothing", "no setting"),
    ("8 bit", 0.516, "errors of half a percent in the layers' outputs", "--bits 8"),
    ("4 bit", 0.266, "errors of several percent in the layers' outputs", "--bits 4"),
    ("offload", 0.15, "time: the weights are copied in each run", "--offload layers"),
    ("hybrid", 0.05, "both", "--bits 4 --offload layers"),
)
#: Activations and workspaces beside the weights, where nothing but the weights' size is known.
_ACTIVATIONS = 0.25


class MemoryManager:
    """What is in use of a device and of the host, and what a model would need of a card.

    `device` is unihal's name (`rdna`, `rdna:1`), `reserve` the bytes that the system keeps of a card. Threads may
    share one. Without a device the host's numbers and plans are still there.
    """

    def __init__(self, device: str = "rdna", reserve: int = SYSTEM_RESERVE) -> None:
        if reserve < 0:
            raise InputError(f"reserve {reserve}: expected bytes, not less than 0")
        self.device = device
        self.reserve = reserve
        self._registered: dict[str, int] = {}
        self._lock = threading.Lock()

    def _open(self) -> Any:
        import unihal

        try:
            return unihal.device(self.device)
        except (unihal.errors.NotFoundError, unihal.errors.UnavailableError):
            return None
        except unihal.errors.Error as error:
            raise DeviceError(str(error)) from error

    def register_allocation(self, name: str, size: int) -> None:
        """Notes that `name` holds `size` bytes, for the statistics.

        0 takes it back. For memory that no framework counts.
        """
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise InputError(f"register_allocation({name!r}, {size!r}): expected a number of bytes, 0 or more")
        with self._lock:
            if size:
                self._registered[name] = size
            else:
                self._registered.pop(name, None)

    @contextmanager
    def allocation(self, name: str, size: int) -> Iterator[None]:
        """The same for as long as a block runs."""
        self.register_allocation(name, size)
        try:
            yield
        finally:
            self.register_allocation(name, 0)

    def get_stats(self) -> MemoryStats:
        """What is in use now."""
        device = self._open()
        ram_total, ram_available = _host_memory()
        with self._lock:
            registered = dict(self._registered)
        if device is None:
            return MemoryStats(self.device, 0, 0, 0, 0, 0, 0, ram_total, ram_available, _process_memory(), registered)
        stats = device.memory_stats()
        total = int(stats.limit_bytes or stats.total_bytes)
        return MemoryStats(
            str(device),
            total,
            int(stats.allocated_bytes),
            int(stats.reserved_bytes),
            max(0, total - int(stats.reserved_bytes)),
            int(stats.peak_allocated_bytes),
            int(stats.peak_reserved_bytes),
            ram_total,
            ram_available,
            _process_memory(),
            registered,
        )

    @property
    def peak(self) -> int:
        """The most bytes that were allocated on the device since the start or `reset_peak`."""
        return self.get_stats().peak

    def reset_peak(self) -> None:
        """The peak becomes what is in use now."""
        device = self._open()
        if device is not None:
            device.reset_peak_memory_stats()

    def limit(self, card: Card) -> int:
        """Caps the device at what a card leaves to programs; gives the bytes. Without a device: a DeviceError."""
        device = self._open()
        if device is None:
            raise DeviceError(f"there is no device {self.device} whose memory could be capped; `workshop gpu` says why")
        size = card.available(self.reserve)
        device.set_memory_limit(size)
        return size

    def print_stats(self, file: IO[str] | None = None) -> None:
        """The statistics for a person."""
        stats = self.get_stats()
        lines = [f"memory of {stats.device}"]
        rows = (
            ("total", stats.total),
            ("allocated", stats.allocated),
            ("reserved", stats.reserved),
            ("free", stats.free),
            ("peak", stats.peak),
            ("host, total", stats.ram_total),
            ("host, available", stats.ram_available),
            ("this process", stats.process),
        )
        lines += [f"  {name:<20}{size / MIB:>14,.1f} MiB" for name, size in rows]
        lines += [f"  {name:<20}{size / MIB:>14,.1f} MiB, registered" for name, size in stats.registered.items()]
        print("\n".join(lines), file=file or sys.stdout)

    def get_recommendations(self, model_size_mb: float, card: Card | None = None) -> list[Recommendation]:
        """Ways to run a model whose weights take so many MiB in float16: a rule of thumb, where `plan` is an answer.

        For the card, or the device that is here. A quarter of the weights is assumed for all else.
        """
        if not isinstance(model_size_mb, (int, float)) or not 0 < model_size_mb < float("inf"):
            raise InputError(f"model_size_mb {model_size_mb!r}: expected a number of MiB above 0")
        available = card.available(self.reserve) if card is not None else self._available()
        result = []
        for name, factor, costs, setting in _RUNGS:
            needed = model_size_mb * (factor + _ACTIVATIONS * (factor if factor < 0.3 else 1))
            result.append(Recommendation(name, needed * MIB <= available, round(needed, 1), costs, setting))
        return result

    def _available(self) -> int:
        stats = self.get_stats()
        if stats.total == 0:
            raise DeviceError(f"there is no device {self.device}: name a card, or see `workshop gpu`")
        return max(0, stats.total - self.reserve)

    def plan(self, model: Any, inputs: Any = (), card: str | Path | Card = "rx580-4gb", **options: Any) -> Plan:
        """Plans a run of a model on a card: `unihal_workshop.planning.planner.plan`, with this manager's reserve."""
        options.setdefault("reserve", self.reserve)
        return make_plan_of(model, inputs, card, **options)


def _host_memory() -> tuple[int, int]:
    values = {}
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            key, _, rest = line.partition(":")
            values[key] = int(rest.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        return 0, 0
    return values.get("MemTotal", 0), values.get("MemAvailable", 0)


def _process_memory() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    import os

    return pages * os.sysconf("SC_PAGE_SIZE")
