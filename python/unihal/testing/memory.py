"""Device memory: no more of it in use at the end than at the beginning, and a limit for the peak."""

from __future__ import annotations

import gc
import re

from unihal import Device, LiveAllocation, devices, live_allocations

from .check import Check
from .strict import CHECK_MEMORY

_MOST_SHOWN = 5
_SUFFIXES = {"": 0, "K": 10, "M": 20, "G": 30}


def parse_bytes(size: int | str) -> int:
    """A number of bytes, or text such as ``"64M"`` as in UNIHAL_STUB_MEMORY."""
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    found = re.fullmatch(r"([0-9]+)([KMG]?)", size) if isinstance(size, str) else None
    if found is None:
        raise ValueError(
            f"a size is {size!r}; expected a number of bytes, or text with the suffix K, M or G, such as '64M'"
        )
    return int(found[1]) << _SUFFIXES[found[2]]


class MemoryWatermark(Check):
    """Complains if more device memory is in use at the end than at the beginning, or if the peak passed a limit.

    All devices of the process count together, after a garbage collection and once their work is done. The beginning
    sets the allocator's peaks back, which the frameworks' own figures of peak memory show too. With the memory check
    (the strict stub, or UNIHAL_CHECK_MEMORY=1) the complaint says where the memory that stays was allocated.

    :param growth: bytes by which use may grow, for what a first step keeps (an optimizer's state, caches).
    :param peak: bytes that may be in use at once beyond those at the beginning; ``None``: no limit.
    """

    def __init__(self, growth: int | str = 0, peak: int | str | None = None) -> None:
        self._growth = parse_bytes(growth)
        self._peak = parse_bytes(peak) if peak is not None else None
        self._devices: list[Device] = devices()
        self._before: list[int] = []
        self._live_before: set[tuple[Device, int]] = set()
        self.begin()

    def begin(self) -> None:
        """Starts from here: to be called again once a first step has set up what stays."""
        self._settle()
        self._before = [device.memory_stats().allocated_bytes for device in self._devices]
        for device in self._devices:
            device.reset_peak_memory_stats()
        self._live_before = set(self._live())

    @property
    def grown_bytes(self) -> int:
        """Bytes in use now, less those in use at the beginning."""
        return sum(device.memory_stats().allocated_bytes for device in self._devices) - sum(self._before)

    @property
    def peak_bytes(self) -> int:
        """The most bytes in use at once beyond those at the beginning; of several devices the sum of each one's."""
        peaks = (device.memory_stats().peak_allocated_bytes for device in self._devices)
        return sum(peak - before for peak, before in zip(peaks, self._before))

    def complaint(self) -> str:
        """By how much memory grew, on which device, and by how much the peak passed its limit."""
        self._settle()
        complaints = []
        if self.grown_bytes > self._growth:
            after = [device.memory_stats().allocated_bytes for device in self._devices]
            lines = [
                f"  {device}: {before:,} bytes in use at the beginning, {now:,} at the end"
                for device, before, now in zip(self._devices, self._before, after)
                if now != before
            ]
            allowed = f"at most {self._growth:,} are allowed" if self._growth else "none may stay"
            complaints += [f"Device memory grew by {self.grown_bytes:,} bytes; {allowed}:", *lines, *self._sites()]
        if self._peak is not None and self.peak_bytes > self._peak:
            complaints.append(
                f"Device memory peaked {self.peak_bytes:,} bytes above the beginning; expected at most {self._peak:,}."
            )
        return "\n".join(complaints)

    def _live(self) -> dict[tuple[Device, int], LiveAllocation]:
        """The allocations of devices that keep a log of them."""
        return {
            (device, allocation.address): allocation
            for device in self._devices
            if device.properties.checks & CHECK_MEMORY
            for allocation in live_allocations(device)
            if allocation.kind == "device"
        }

    def _sites(self) -> list[str]:
        """Where the memory was allocated that is live now and was not at the beginning, the largest first."""
        new = [allocation for key, allocation in self._live().items() if key not in self._live_before]
        new.sort(key=lambda allocation: -allocation.bytes)
        lines = [f"  {allocation.bytes:,} bytes allocated at {allocation.site}" for allocation in new[:_MOST_SHOWN]]
        if len(new) > _MOST_SHOWN:
            lines.append(f"  ... and {len(new) - _MOST_SHOWN} more")
        return lines

    def _settle(self) -> None:
        """Work that is under way holds memory, and so do objects in reference cycles."""
        gc.collect()
        for device in self._devices:
            device.synchronize()
