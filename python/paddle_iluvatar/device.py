"""Which devices there are, and which one is meant."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import unihal

#: The device type in unihal and in Paddle.
DEVICE_TYPE = "iluvatar"

_current = threading.local()


def devices() -> list[unihal.Device]:
    """All Iluvatar devices; empty without hardware, unless the stub was asked for (`UNIHAL_BACKEND=stub`)."""
    return unihal.devices(DEVICE_TYPE)


def device_count() -> int:
    """The number of devices."""
    return len(devices())


def is_available() -> bool:
    """Whether there is a device."""
    return device_count() > 0


def why_unavailable() -> str:
    """What was looked for and not found, a line for each backend; "" if there is a device."""
    if is_available():
        return ""
    return "\n".join(f"{report.backend}: {report.reason}" for report in unihal.backend_reports(DEVICE_TYPE))


def _named(number: int | None) -> unihal.Device:
    if number is None:
        number = current_device()
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"a device is named by its number, not by {number!r}")
    return unihal.Device(DEVICE_TYPE, number)


def current_device() -> int:
    """The number of the calling thread's device; 0 until `set_device` says something else."""
    return int(getattr(_current, "number", 0))


def set_device(number: int) -> None:
    """Makes a device the calling thread's, here and in Paddle where that is imported. OutOfRangeError past the end."""
    _named(number)
    _current.number = number
    paddle = sys.modules.get("paddle")
    if paddle is not None and hasattr(paddle, "set_device"):
        paddle.set_device(f"{DEVICE_TYPE}:{number}")


@contextmanager
def device(number: int) -> Iterator[unihal.Device]:
    """The device inside of a `with` block; the one before comes back after it, in Paddle too."""
    before = current_device()
    paddle = sys.modules.get("paddle")
    paddles = paddle.get_device() if paddle is not None and hasattr(paddle, "get_device") else None
    set_device(number)
    try:
        yield _named(number)
    finally:
        _current.number = before
        if paddle is not None and paddles is not None:
            paddle.set_device(paddles)


def properties(number: int | None = None) -> unihal.DeviceProperties:
    """Name, memory in bytes, limits and peaks of a device; None: the current one."""
    return _named(number).properties


def device_name(number: int | None = None) -> str:
    """The device's name as its driver has it."""
    return properties(number).name


def synchronize(number: int | None = None) -> None:
    """Waits for all work of a device, Paddle's too, and raises its first error."""
    _named(number).synchronize()
