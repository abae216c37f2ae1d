"""Cards by name: the stub's profiles (docs/stub.md), and what a copy to them costs.

The figures are those of stub/backend/profiles.cc, which says where they come from; a test holds both tables against
each other through the stub.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DeviceError
from ..naming import nearest

MIB = 1 << 20

#: What the system keeps of a card's memory by default: firmware, page tables, the process' context and the workspaces
#: of kernels, and a desktop.
SYSTEM_RESERVE = 512 * MIB

#: Copies between host and card reach about three quarters of PCIe 3.0 x16 (Polaris) or 4.0 x16: an assumption.
_PCIE3, _PCIE4 = 12.0, 24.0


@dataclass(frozen=True)
class Card:
    """A card. Bytes; GFLOP/s in float32; GB/s of 10^9 bytes; nanoseconds.

    `driver_reserve` is what the stub's profile takes off, `max_allocation` the largest single allocation.
    """

    name: str
    title: str
    vendor: str
    memory: int
    driver_reserve: int
    max_allocation: int
    compute_units: int
    wavefront: int
    clock_megahertz: int
    peak_gigaflops: float
    gigabytes_per_second: float
    launch_nanoseconds: int
    link_gigabytes_per_second: float = _PCIE3

    def available(self, reserve: int = SYSTEM_RESERVE) -> int:
        """Bytes that a program can have when the system keeps `reserve`."""
        return max(0, self.memory - max(reserve, self.driver_reserve))

    def largest(self, reserve: int = SYSTEM_RESERVE) -> int:
        """Bytes of the largest single allocation."""
        return min(self.max_allocation, self.available(reserve))

    def profile_text(self, reserve: int = SYSTEM_RESERVE) -> str:
        """The card as a profile of the stub, with `reserve` off its memory."""
        kept = self.memory - self.available(reserve)
        return (
            f'name: "{self.title}"\nvendor: "{self.vendor}"\nmemory: {self.memory} B\nreserve: {kept} B\n'
            f"max_allocation: {self.largest(reserve)} B\ncompute_units: {self.compute_units}\n"
            f"wavefront_size: {self.wavefront}\nclock_megahertz: {self.clock_megahertz}\n"
            f"peak_gigaflops_float32: {self.peak_gigaflops:g}\n"
            f"peak_gigabytes_per_second: {self.gigabytes_per_second:g}\nlaunch_nanoseconds: {self.launch_nanoseconds}\n"
        )

    @contextmanager
    def stub_environment(self, reserve: int = SYSTEM_RESERVE) -> Iterator[dict[str, str]]:
        """Variables with which a child process gets this card from the stub; the profile's file lives as long."""
        with tempfile.TemporaryDirectory(prefix="unihal-card-") as folder:
            path = Path(folder) / f"{re.sub(r'[^A-Za-z0-9_.-]', '-', self.name)}.yaml"
            path.write_text(self.profile_text(reserve))
            yield {"UNIHAL_BACKEND": "stub", "UNIHAL_STUB_PROFILE": str(path)}

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return dict(self.__dict__)


def _card(name: str, title: str, vendor: str, memory: int, reserve: int, largest: int, *figures: Any) -> Card:
    """A row; sizes in MiB."""
    return Card(name, title, vendor, memory * MIB, reserve * MIB, largest * MIB, *figures)


CARDS: Mapping[str, Card] = {
    card.name: card
    for card in (
        _card("rx580-4gb", "AMD Radeon RX 580 4 GB", "AMD", 4096, 256, 3481, 36, 64, 1340, 6175, 224, 10000),
        _card("rx580-8gb", "AMD Radeon RX 580 8 GB", "AMD", 8192, 256, 6963, 36, 64, 1340, 6175, 256, 10000),
        _card("rx6800xt", "AMD Radeon RX 6800 XT", "AMD", 16384, 256, 16128, 72, 32, 2250, 20740, 512, 6000, _PCIE4),
        _card("rx7900xtx", "AMD Radeon RX 7900 XTX", "AMD", 24576, 256, 24320, 96, 32, 2500, 61440, 960, 6000, _PCIE4),
        _card("bi-v150", "Iluvatar BI-V150", "Iluvatar CoreX", 32768, 512, 32256, 0, 64, 0, 37000, 1200, 6000, _PCIE4),
    )
}  # fmt: skip

_UNITS = {"b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_KEYS = {
    "name", "vendor", "memory", "reserve", "max_allocation", "local_memory", "compute_units", "wavefront_size",
    "clock_megahertz", "peak_gigaflops_float32", "peak_gigabytes_per_second", "launch_nanoseconds",
}  # fmt: skip
_REQUIRED = (
    "name", "memory", "compute_units", "wavefront_size", "peak_gigaflops_float32", "peak_gigabytes_per_second",
    "launch_nanoseconds",
)  # fmt: skip


def find_card(name: str | Path | Card) -> Card:
    """A card by name, or of a profile's file (docs/stub.md, Files). Unknown: a DeviceError with the nearest name."""
    if isinstance(name, Card):
        return name
    text = str(name)
    if text in CARDS:
        return CARDS[text]
    if "/" in text or text.endswith((".yaml", ".yml")):
        return _from_file(Path(text))
    raise DeviceError(f"there is no card {text!r}{nearest(text, CARDS)}")


def _from_file(path: Path) -> Card:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DeviceError(f"the card's profile {path} cannot be read: {error}") from None
    values: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        content = re.sub(r"(^|\s)#.*$", "", line).strip()
        if not content:
            continue
        key, separator, value = content.partition(":")
        key = key.strip()
        if not separator or key not in _KEYS:
            raise DeviceError(f"{path}:{number}: unknown key {key!r}{nearest(key, _KEYS)}")
        if key in values:
            raise DeviceError(f"{path}:{number}: {key} stands here a second time")
        values[key] = value.strip().strip("\"'")
    for key in _REQUIRED:
        if key not in values:
            raise DeviceError(f"{path}: {key} is missing")

    def size(key: str, default: int) -> int:
        if key not in values:
            return default
        match = re.fullmatch(r"(\d+) *(B|KiB|MiB|GiB)", values[key], re.IGNORECASE)
        if match is None:
            raise DeviceError(f"{path}: {key}: {values[key]!r}: expected a number with B, KiB, MiB or GiB")
        return int(match[1]) * _UNITS[match[2].lower()]

    def number_of(key: str, default: float = 0) -> float:
        try:
            return float(values.get(key, default))
        except ValueError:
            raise DeviceError(f"{path}: {key}: {values[key]!r}: expected a number") from None

    memory = size("memory", 0)
    reserve = size("reserve", 256 * MIB)
    if not memory > 0 or reserve >= memory:
        raise DeviceError(f"{path}: a memory of {memory} bytes with a reserve of {reserve} leaves nothing")
    return Card(
        str(path),
        values["name"],
        values.get("vendor", ""),
        memory,
        reserve,
        size("max_allocation", memory - reserve),
        int(number_of("compute_units")),
        int(number_of("wavefront_size")),
        int(number_of("clock_megahertz")),
        number_of("peak_gigaflops_float32"),
        number_of("peak_gigabytes_per_second"),
        int(number_of("launch_nanoseconds")),
    )
