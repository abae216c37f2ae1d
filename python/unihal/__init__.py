"""unihal: one narrow waist between deep-learning frameworks and accelerators.

Devices, buffers, streams and ops of the C ABI for Python. The frameworks find their plugins by themselves; nothing here
needs to be imported for that. Importing this module starts no device.
"""

from __future__ import annotations

from . import _core, ops
from .arguments import ArgumentTypeError, check_arguments
from .buffer import Buffer
from .checks import LiveAllocation, Race, RaceAccess, clear_races, live_allocations, races
from .device import (
    BackendReport,
    Device,
    DeviceProperties,
    DeviceType,
    MemoryStats,
    backend_reports,
    device,
    device_types,
    devices,
    load_backend,
    use_backend,
)
from .errors import (
    AbortedError,
    AlreadyExistsError,
    CancelledError,
    DataLossError,
    DeadlineExceededError,
    Error,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OutOfMemoryError,
    OutOfRangeError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
)
from .fallbacks import Fallback, fallbacks, is_strict
from .faults import FaultCounts, FaultOutcome, FaultSweep, fault_sweep, inject_faults
from .graphs import Graph, capture
from .ops.launch import runs_on, supports
from .paths import include_dir, library_dir
from .profiler import ProfiledEvent, ProfiledTotal, profile
from .stream import Event, Stream

__version__ = _core.version()

#: Version of the C ABI: (major, minor).
abi_version = _core.abi_version()

__all__ = [
    "AbortedError",
    "AlreadyExistsError",
    "ArgumentTypeError",
    "BackendReport",
    "Buffer",
    "CancelledError",
    "DataLossError",
    "DeadlineExceededError",
    "Device",
    "DeviceProperties",
    "DeviceType",
    "Error",
    "Event",
    "FailedPreconditionError",
    "Fallback",
    "FaultCounts",
    "FaultOutcome",
    "FaultSweep",
    "Graph",
    "InternalError",
    "InvalidArgumentError",
    "LiveAllocation",
    "MemoryStats",
    "NotFoundError",
    "OutOfMemoryError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "ProfiledEvent",
    "ProfiledTotal",
    "Race",
    "RaceAccess",
    "Stream",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "__version__",
    "abi_version",
    "backend_reports",
    "capture",
    "clear_races",
    "device",
    "device_types",
    "devices",
    "fallbacks",
    "fault_sweep",
    "include_dir",
    "inject_faults",
    "is_strict",
    "library_dir",
    "live_allocations",
    "load_backend",
    "ops",
    "profile",
    "races",
    "runs_on",
    "supports",
    "use_backend",
]

check_arguments(globals(), (name for name in __all__ if not name.startswith("_")))
