"""Exceptions, one class per status of the C ABI.

Where Python has a class of the same meaning, ours derives from it too, so that ``except MemoryError`` catches
:class:`OutOfMemoryError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _core


class Error(Exception):
    """Base of all errors that unihal reports. ``str()`` says what was wrong, what was expected and what to do."""

    #: Name of the status, such as ``"INVALID_ARGUMENT"``.
    status: str = ""
    #: Number of the status.
    code: int = 0
    #: The vendor library's own code and its name; 0 and empty if none.
    native_code: int = 0
    native_name: str = ""
    #: The op with its operands' dtypes and shapes, and the device, where one was in use; else empty.
    op: str = ""
    device: str = ""
    #: Source position of the report.
    file: str = ""
    line: int = 0


class CancelledError(Error):
    """The work was cancelled."""


class InvalidArgumentError(Error, ValueError):
    """An argument is wrong whatever the state of the system."""


class DeadlineExceededError(Error, TimeoutError):
    """The work took longer than it was given."""


class NotFoundError(Error, LookupError):
    """A device type, backend, file or name does not exist."""


class AlreadyExistsError(Error):
    """Something of this name exists already."""


class PermissionDeniedError(Error, PermissionError):
    """The operating system forbids it."""


class OutOfMemoryError(Error, MemoryError):
    """The device has no room, or the limit would be passed; the message prints the statistics."""


class FailedPreconditionError(Error, RuntimeError):
    """The state of the system does not allow it: a forked child, a choice made too late."""


class AbortedError(Error):
    """The work was given up, such as after a conflict."""


class OutOfRangeError(Error, IndexError):
    """An index or ordinal is past the end."""


class UnimplementedError(Error, NotImplementedError):
    """The device cannot do this op, dtype or layout; ``unihal.supports`` says so beforehand."""


class InternalError(Error, RuntimeError):
    """A fault of unihal or of a vendor library; please report it."""


class UnavailableError(Error, RuntimeError):
    """There is no such hardware, driver or library; the message lists what was looked for."""


class DataLossError(Error):
    """Data are lost or damaged."""


class UnauthenticatedError(Error):
    """The caller is not known."""


_CLASSES: dict[str, type[Error]] = {
    "CANCELLED": CancelledError,
    "INVALID_ARGUMENT": InvalidArgumentError,
    "DEADLINE_EXCEEDED": DeadlineExceededError,
    "NOT_FOUND": NotFoundError,
    "ALREADY_EXISTS": AlreadyExistsError,
    "PERMISSION_DENIED": PermissionDeniedError,
    "RESOURCE_EXHAUSTED": OutOfMemoryError,
    "FAILED_PRECONDITION": FailedPreconditionError,
    "ABORTED": AbortedError,
    "OUT_OF_RANGE": OutOfRangeError,
    "UNIMPLEMENTED": UnimplementedError,
    "INTERNAL": InternalError,
    "UNAVAILABLE": UnavailableError,
    "DATA_LOSS": DataLossError,
    "UNAUTHENTICATED": UnauthenticatedError,
}


def from_record(message: str, fields: Mapping[str, Any]) -> Error:
    """The exception for an error record of the C ABI."""
    error = _CLASSES.get(fields["status"], Error)(message)
    for name, value in fields.items():
        setattr(error, name, value)
    return error


_core.set_error_factory(from_record)
