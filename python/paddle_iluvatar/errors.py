"""What goes wrong on a device: unihal's exceptions, under the names of this package.

`except DeviceError` catches them all. Each has `status`, `native_code` and `native_name` (the vendor library's own
error), `op` and `device`.
"""

from __future__ import annotations

import unihal

#: The base of all errors of the device.
DeviceError = unihal.Error
#: There is no such hardware, driver or library; also a RuntimeError.
DeviceUnavailableError = unihal.UnavailableError
#: An argument is wrong; also a ValueError.
InvalidValueError = unihal.InvalidArgumentError
#: The device has no room, or the limit would be passed; also a MemoryError.
OutOfMemoryError = unihal.OutOfMemoryError
#: A device's number or an index is past the end; also an IndexError.
OutOfRangeError = unihal.OutOfRangeError
#: The device cannot do it; also a NotImplementedError.
UnsupportedError = unihal.UnimplementedError

__all__ = [
    "DeviceError",
    "DeviceUnavailableError",
    "InvalidValueError",
    "OutOfMemoryError",
    "OutOfRangeError",
    "UnsupportedError",
]
