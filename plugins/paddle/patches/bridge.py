"""What the patches of Paddle's Python side ask of the adapter's library. Nothing of Paddle is imported here.

LIBRARY: path of libunihal_paddle.so, set by python_patches.cc.
"""

from __future__ import annotations

import ctypes
import functools

LIBRARY: str

library = ctypes.CDLL(LIBRARY)
library.uhal_paddle_refusal.restype = ctypes.c_char_p
library.uhal_paddle_refusal.argtypes = [ctypes.c_char_p, ctypes.c_int32]
library.uhal_paddle_serves.argtypes = [ctypes.c_char_p]
_INTEGER_OUT = ctypes.POINTER(ctypes.c_int64)
for _query, _arguments in {
    "uhal_paddle_memory": [ctypes.c_char_p, ctypes.c_int32, _INTEGER_OUT, _INTEGER_OUT],
    "uhal_paddle_elapsed_nanoseconds": [ctypes.c_void_p, ctypes.c_void_p, _INTEGER_OUT],
    "uhal_paddle_host_reaches": [ctypes.c_char_p, ctypes.c_int32, _INTEGER_OUT],
}.items():
    getattr(library, _query).restype = ctypes.c_char_p
    getattr(library, _query).argtypes = _arguments


def refusal(device_type: str, ordinal: int) -> str:
    """Why a device cannot be used; "" if it can, or if its type is not one of ours."""
    text: bytes = library.uhal_paddle_refusal(device_type.encode(), ordinal)
    return text.decode(errors="replace")


def is_ours(device_type: str) -> bool:
    """Whether a device type is served by unihal in this process."""
    return bool(library.uhal_paddle_serves(device_type.encode()))


@functools.cache
def serves(device_type: str) -> bool:
    """is_ours(), for each call of an op: which types have devices does not change in a process."""
    return is_ours(device_type)


def memory_is_checked() -> bool:
    """Whether a device with the memory check is in use."""
    return bool(library.uhal_paddle_checks_memory())


def leave_devices() -> None:
    """What Paddle does where it clears its devices, but for them."""
    library.uhal_paddle_leave_devices()


def _answer(name: str, outputs: int, *arguments: object) -> list[int]:
    """Asks for numbers; what the library refuses is a RuntimeError."""
    values = [ctypes.c_int64() for _ in range(outputs)]
    problem: bytes = getattr(library, name)(*arguments, *map(ctypes.byref, values))
    if problem:
        raise RuntimeError(problem.decode(errors="replace"))
    return [value.value for value in values]


def memory(device_type: str, ordinal: int) -> tuple[int, int]:
    """Bytes of a device's memory that are free, and all of them."""
    free, total = _answer("uhal_paddle_memory", 2, device_type.encode(), ordinal)
    return free, total


def elapsed_milliseconds(start: int, end: int) -> float:
    """Device time between two events, which are handles of unihal's, both reached."""
    return _answer("uhal_paddle_elapsed_nanoseconds", 1, start, end)[0] / 1e6


@functools.cache
def host_reaches(device_type: str, ordinal: int) -> bool:
    """Whether the host may read a device's memory where it lies."""
    return bool(_answer("uhal_paddle_host_reaches", 1, device_type.encode(), ordinal)[0])
