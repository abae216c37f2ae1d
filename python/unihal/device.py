"""Device types, backends and devices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal, Union

from . import _core, errors

MemoryKind = Literal["device", "pinned", "managed"]

MEMORY_KINDS: dict[str, int] = {"device": 0, "pinned": 1, "managed": 2}


@dataclass(frozen=True)
class DeviceType:
    """What a user types, and what it is called in each framework."""

    name: str
    paddle_name: str
    tensorflow_name: str
    #: Backends in order of preference.
    backends: list[str]


@dataclass(frozen=True)
class BackendReport:
    """What happened to one backend of a device type."""

    backend: str
    state: Literal["chosen", "refused", "not tried"]
    device_count: int
    #: Path of the library, empty if none was opened.
    library: str
    #: What was looked for, what was missing, and the next step.
    reason: str


@dataclass(frozen=True)
class DeviceProperties:
    """What a device is. Sizes are in bytes; 0 where the backend does not know."""

    device_type: str
    backend: str
    name: str
    vendor: str
    driver: str
    pci_bus_id: str
    ordinal: int
    compute_units: int
    wavefront_size: int
    #: Host memory stands in for hardware.
    is_stub: bool
    #: The host may touch device memory.
    unified_memory: bool
    clock_megahertz: int
    total_memory: int
    max_allocation: int
    local_memory: int
    #: Names of the dtypes that the device computes with.
    supported_dtypes: tuple[str, ...]
    peak_gigaflops_float32: float
    peak_gigabytes_per_second: float
    #: From one short kernel to the next; 0 if unknown.
    launch_nanoseconds: int
    #: Checks of whole runs that are in force: bits of ``UHAL_CHECK_*`` in unihal/check.h.
    checks: int
    #: Name, memory, peaks and limits are those of a device that this one stands in for.
    is_profile: bool


@dataclass(frozen=True)
class MemoryStats:
    """Byte counts of one device and kind of memory.

    "Reserved" is what the backend handed out, "allocated" the part of it that callers hold.
    """

    allocated_bytes: int
    peak_allocated_bytes: int
    reserved_bytes: int
    peak_reserved_bytes: int
    #: 0: none beyond the device's memory.
    limit_bytes: int
    total_bytes: int
    largest_free_block: int
    live_allocations: int
    total_allocations: int
    cache_hits: int
    backend_allocations: int
    fragmentation: float


class Device:
    """One device, such as ``rdna:0``. Equal devices are equal objects; nothing needs to be closed."""

    def __init__(self, device_type: str, ordinal: int = 0) -> None:
        if not 0 <= ordinal < 2**31:
            raise errors.OutOfRangeError(f"there is no device {device_type}:{ordinal}; the first is {device_type}:0")
        self._handle = _core.device_get(device_type, ordinal)
        self._device_type = device_type
        self._ordinal = ordinal
        self._hash = hash(self._handle)

    @staticmethod
    @cache
    def _from_handle(handle: _core.Device) -> Device:
        """The same object each time, since every launch asks for the device of its operands."""
        properties = handle.properties()
        return Device(properties["device_type"], properties["ordinal"])

    @property
    def type(self) -> str:
        """The device type, such as ``"rdna"``."""
        return self._device_type

    @property
    def ordinal(self) -> int:
        """The number among the devices of its type."""
        return self._ordinal

    @property
    def properties(self) -> DeviceProperties:
        """What the device is."""
        return DeviceProperties(**self._handle.properties())

    def memory_stats(self, kind: MemoryKind = "device") -> MemoryStats:
        """Statistics of the caching allocator."""
        return MemoryStats(**self._handle.memory_stats(MEMORY_KINDS[kind]))

    def reset_peak_memory_stats(self) -> None:
        """Sets the peaks to the present values."""
        self._handle.reset_peak()

    def empty_cache(self, keep_bytes: int = 0) -> int:
        """Gives cached, unused memory back until at most ``keep_bytes`` stay; returns the number of bytes released."""
        return self._handle.trim(_bytes("keep_bytes", keep_bytes))

    def set_memory_limit(self, limit_bytes: int) -> None:
        """Caps the memory that may be reserved; 0 removes the cap."""
        self._handle.set_limit(_bytes("limit_bytes", limit_bytes))

    def synchronize(self) -> None:
        """Waits for all work of all streams, and raises their first error."""
        self._handle.synchronize()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Device) and self._handle == other._handle)

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return f"{self._device_type}:{self._ordinal}"

    def __repr__(self) -> str:
        return f"unihal.device({str(self)!r})"


def _bytes(name: str, value: int) -> int:
    """A number of bytes as the library takes it."""
    if not 0 <= value < 2**64:
        raise errors.InvalidArgumentError(f"{name} is {value}; expected a number of bytes from 0 to 2^64 - 1")
    return value


#: Where a device is asked for: one, or its name.
DeviceLike = Union[Device, str]


def device(name: DeviceLike) -> Device:
    """The device of a name such as ``"rdna:0"`` or ``"rdna"`` (number 0)."""
    if isinstance(name, Device):
        return name
    device_type, colon, ordinal = name.partition(":")
    if not colon:
        return Device(device_type)
    if not (ordinal.isascii() and ordinal.isdigit()):
        raise errors.InvalidArgumentError(
            f"the device is named {name!r}; expected a device type and a number, such as 'rdna:0'"
        )
    return Device(device_type, int(ordinal))


def devices(device_type: str | None = None) -> list[Device]:
    """All devices that can be used, or those of one type. Empty without hardware, unless the stub was asked for."""
    names = [device_type] if device_type is not None else [kind.name for kind in device_types()]
    return [Device(name, ordinal) for name in names for ordinal in range(_core.device_count(name))]


def device_types() -> list[DeviceType]:
    """The table of device types."""
    return [DeviceType(**entry) for entry in _core.device_types()]


def backend_reports(device_type: str) -> list[BackendReport]:
    """For each backend of a device type, whether it serves, and why not."""
    return [BackendReport(**entry) for entry in _core.backend_reports(device_type)]


def use_backend(name: str) -> None:
    """Restricts this process to one backend, such as ``"stub"``; call it before devices are used."""
    _core.select_backend(name)


def load_backend(path: str) -> str:
    """Loads a backend library from a file and returns the name by which ``use_backend`` selects it."""
    return _core.load_backend(path)
