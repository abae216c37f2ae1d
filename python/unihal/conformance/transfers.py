"""Checks of copies and fills of bytes: every direction, kind of memory, odd sizes and offsets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from .. import errors
from ..device import MemoryKind
from .abi import DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, Bench, copy_peer
from .case import Array, Check
from .outcome import GapError
from .queues import refused
from .session import Session

#: Sizes around those that hardware moves at once, and one that takes time.
_SIZES = (0, 1, 3, 64, 255, 4097, (1 << 20) + 5)
_OFFSETS = (0, 1, 7, 256)

#: Bytes around each destination that must survive.
_MARGIN = 300


def cases(seed: int) -> Iterator[Check]:
    """The checks of copies, of one device and of two."""
    for name, kind in (("host_to_device", HOST_TO_DEVICE), ("device_to_host", DEVICE_TO_HOST)):
        for memory in ("pageable", "pinned", "managed"):
            yield Check("copies", f"{name}/{memory}", partial(_host_copies, kind, memory))
    yield Check("copies", "device_to_device", _device_copies)
    yield Check("copies", "beyond_an_allocation", _beyond_an_allocation)
    for size in (1, 2, 4, 8, 16):
        yield Check("copies", f"fill/{size}", partial(_fill, size))
    yield Check("devices", "copies_between_two", _peer_copies)
    yield Check("devices", "memory_is_apart", _memory_is_apart)


def _random(session: Session, count: int, salt: str) -> Array:
    return np.frombuffer(session.generator(salt).bytes(count), np.uint8).copy()


def _assert_equal(seen: Array, expected: Array, what: str) -> None:
    wrong = np.flatnonzero(seen != expected)
    assert wrong.size == 0, f"{what}: {wrong.size} of {seen.size} bytes are wrong, the first one at {wrong[0]}"


def _host_memory(bench: Bench, memory: str, count: int) -> Array:
    """Host memory of a kind, or a GapError where the backend has none."""
    if memory == "pageable":
        return np.zeros(count, np.uint8)
    kinds: dict[str, MemoryKind] = {"pinned": "pinned", "managed": "managed"}
    try:
        return bench.memory(count, kinds[memory]).host_view()
    except errors.UnimplementedError as error:
        raise GapError(str(error)) from None


def _host_copies(kind: int, memory: str, session: Session) -> None:
    span = max(_SIZES) + max(_OFFSETS) + _MARGIN
    with Bench(session.device) as bench:
        stream = bench.stream()
        device, host = bench.memory(span), _host_memory(bench, memory, span)
        for size in _SIZES:
            for offset in _OFFSETS:
                what = f"{size} bytes at offset {offset}"
                before, data = _random(session, span, what), _random(session, span, f"data of {what}")
                expected = before.copy()
                expected[offset : offset + size] = data[:size]
                stream.upload(device.address, before if kind == HOST_TO_DEVICE else data)
                stream.synchronize()
                host[...] = data if kind == HOST_TO_DEVICE else before
                address = host.ctypes.data
                if kind == HOST_TO_DEVICE:
                    stream.copy(device.address + offset, address, size, kind)
                else:
                    stream.copy(address + offset, device.address, size, kind)
                stream.synchronize()
                seen = host
                if kind == HOST_TO_DEVICE:
                    seen = np.zeros(span, np.uint8)
                    stream.download(seen, device.address)
                    stream.synchronize()
                _assert_equal(seen, expected, what)


def _device_copies(session: Session) -> None:
    span = max(_SIZES) + max(_OFFSETS) + _MARGIN
    with Bench(session.device) as bench:
        stream, source, target = bench.stream(), bench.memory(span), bench.memory(span)
        for size in _SIZES:
            for offset in _OFFSETS:
                what = f"{size} bytes at offset {offset}"
                before, data = _random(session, span, what), _random(session, span, f"data of {what}")
                seen = np.zeros(span, np.uint8)
                stream.upload(source.address, data)
                stream.upload(target.address, before)
                # Source and destination are aligned differently.
                stream.copy(target.address + offset, source.address + 5, size, DEVICE_TO_DEVICE)
                stream.download(seen, target.address)
                stream.synchronize()
                expected = before.copy()
                expected[offset : offset + size] = data[5 : 5 + size]
                _assert_equal(seen, expected, what)


def _beyond_an_allocation(session: Session) -> None:
    with Bench(session.device) as bench:
        stream, memory, host = bench.stream(), bench.memory(1000), np.zeros(2000, np.uint8)
        refused("OUT_OF_RANGE", stream.copy, memory.address, host.ctypes.data, 1001, HOST_TO_DEVICE)
        refused("OUT_OF_RANGE", stream.copy, host.ctypes.data, memory.address + 990, 11, DEVICE_TO_HOST)
        refused("OUT_OF_RANGE", stream.fill, memory.address + 500, b"\0", 501)
        stream.synchronize()


def _fill(pattern_bytes: int, session: Session) -> None:
    pattern = bytes(range(3, 3 + pattern_bytes))
    with Bench(session.device) as bench:
        stream = bench.stream()
        for count in (0, 1, 3, 67, 4099, 70001):
            size = count * pattern_bytes
            offset = 3 * pattern_bytes
            before = _random(session, offset + size + _MARGIN, f"fill {size}")
            memory, seen = bench.memory(before.size), np.zeros_like(before)
            stream.upload(memory.address, before)
            stream.fill(memory.address + offset, pattern, size)
            stream.download(seen, memory.address)
            stream.synchronize()
            expected = before.copy()
            expected[offset : offset + size] = np.frombuffer(pattern * count, np.uint8)
            _assert_equal(seen, expected, f"{count} patterns")
        refused("INVALID_ARGUMENT", stream.fill, memory.address, pattern + b"\0" * 17, pattern_bytes)


def _two(session: Session) -> None:
    if len(session.devices) < 2:
        raise GapError("the backend has one device only")


def _peer_copies(session: Session) -> None:
    _two(session)
    here, there = session.devices[:2]
    with Bench(here) as bench, Bench(there) as other:
        for stream in (bench.stream(), other.stream()):
            for size in (0, 1, 4097, (1 << 20) + 5):
                data, seen = _random(session, size + _MARGIN, f"peer {size}"), np.zeros(size + _MARGIN, np.uint8)
                source, target, back = (owner.memory(data.size) for owner in (bench, other, bench))
                own = bench.stream()
                own.upload(source.address, data)
                own.fill(back.address, b"\7", data.size)
                own.synchronize()
                copy_peer(stream, there, target.address, here, source.address, size)
                copy_peer(stream, here, back.address, there, target.address, size)
                own.download(seen, back.address)
                own.synchronize()
                expected = np.full(data.size, 7, np.uint8)
                expected[:size] = data[:size]
                _assert_equal(seen, expected, f"{size} bytes there and back")


def _memory_is_apart(session: Session) -> None:
    _two(session)
    with Bench(session.devices[0]) as bench, Bench(session.devices[1]) as other:
        memory, stream = bench.memory(64), other.stream()
        host = np.zeros(64, np.uint8)
        # Another device's memory is no memory of this one.
        refused("OUT_OF_RANGE", stream.copy, host.ctypes.data, memory.address, 64, DEVICE_TO_HOST)
        stream.synchronize()
