"""What the service and a worker send each other: a small pickled message, and arrays as raw bytes behind it.

A frame is 16 bytes (a mark, the message's length, the arrays' length), the message, the arrays, each at a multiple of
64. Both ends are processes of the same service.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..tensors import Array

HEADER = struct.Struct("<IIQ")
_MARK = 0x58555047
_ALIGNMENT = 64
_PADDING = bytes(_ALIGNMENT)

Message = tuple[Any, ...]
Buffer = "bytes | memoryview"


def encode(message: Message, arrays: Sequence[Array] = ()) -> list[Any]:
    """The buffers of a frame; arrays are not copied if they are contiguous, and must stay as they are until sent."""
    rows: list[tuple[str, tuple[int, ...], Any]] = []
    buffers: list[Any] = []
    total = 0
    for array in arrays:
        if array.dtype == object:  # texts
            rows.append(("", array.shape, array.reshape(-1).tolist()))
            continue
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        rows.append((array.dtype.str, array.shape, flat.size))
        padding = -flat.size % _ALIGNMENT
        buffers.append(flat.data)
        if padding:
            buffers.append(_PADDING[:padding])
        total += flat.size + padding
    body = pickle.dumps((message, rows), protocol=5)
    return [HEADER.pack(_MARK, len(body), total), body, *buffers]


def lengths(header: bytes | memoryview | bytearray) -> tuple[int, int]:
    """Of the message and of the arrays; ValueError if this is no frame."""
    mark, body, total = HEADER.unpack_from(header)
    if mark != _MARK:
        raise ValueError("the other end sent something that is no frame")
    return body, total


def decode(body: bytes | bytearray | memoryview, data: Any) -> tuple[Message, list[Array]]:
    """The message and arrays that share the memory of `data`."""
    message, rows = pickle.loads(body)
    arrays: list[Array] = []
    offset = 0
    for dtype, shape, rest in rows:
        if not dtype:
            texts: Array = np.empty(len(rest), dtype=object)
            texts[:] = rest
            arrays.append(texts.reshape(shape))
            continue
        kind = np.dtype(dtype)
        arrays.append(np.frombuffer(data, kind, rest // kind.itemsize, offset).reshape(shape))
        offset += rest + -rest % _ALIGNMENT
    return message, arrays
