"""Iluvatar devices for Paddle programs: devices, memory, streams, events and errors, with owners that clean up.

    import numpy as np
    import paddle_iluvatar as iluvatar

    with iluvatar.device(0):
        with iluvatar.DeviceMemory.from_numpy(np.ones(4, np.float32)) as memory:
            print(memory.to_numpy())

A thin package over unihal's Python API and Paddle's device: nothing here computes. Paddle is imported only by what
gives or takes its tensors. docs/paddle-iluvatar.md is the guide.
"""

from __future__ import annotations

from .device import (
    DEVICE_TYPE,
    current_device,
    device,
    device_count,
    device_name,
    devices,
    is_available,
    properties,
    set_device,
    synchronize,
    why_unavailable,
)
from .errors import (
    DeviceError,
    DeviceUnavailableError,
    InvalidValueError,
    OutOfMemoryError,
    OutOfRangeError,
    UnsupportedError,
)
from .memory import (
    DeviceMemory,
    MemoryInfo,
    PinnedMemory,
    copy,
    empty_cache,
    memory_info,
    reset_peak_memory,
    set_memory_limit,
)
from .streams import Event, Stream, current_stream, stream

__all__ = [
    "DEVICE_TYPE",
    "DeviceError",
    "DeviceMemory",
    "DeviceUnavailableError",
    "Event",
    "InvalidValueError",
    "MemoryInfo",
    "OutOfMemoryError",
    "OutOfRangeError",
    "PinnedMemory",
    "Stream",
    "UnsupportedError",
    "copy",
    "current_device",
    "current_stream",
    "device",
    "device_count",
    "device_name",
    "devices",
    "empty_cache",
    "is_available",
    "memory_info",
    "properties",
    "reset_peak_memory",
    "set_device",
    "set_memory_limit",
    "stream",
    "synchronize",
    "why_unavailable",
]
