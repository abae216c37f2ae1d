"""Checks of memory: addresses, reuse in the order of streams, and what happens when there is none left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from .. import errors
from .abi import Bench, Memory, call, device_handle, pointer_info
from .case import Check
from .queues import refused
from .session import Session

_ALIGNMENT = 256
_MEBIBYTE = 1 << 20


def cases(seed: int) -> Iterator[Check]:
    """The checks of memory."""
    for function in _CHECKS:
        yield Check("memory", function.__name__.strip("_"), function)


def _addresses_are_aligned_and_apart(session: Session) -> None:
    with Bench(session.device) as bench:
        blocks = [bench.memory(count) for count in (1, 255, 256, 257, 4096, 100003, 1, 1)]
        for block in blocks:
            assert block.address % _ALIGNMENT == 0, f"{block.address:#x} is not aligned to {_ALIGNMENT} bytes"
        ordered = sorted(blocks, key=lambda block: block.address)
        for low, high in zip(ordered, ordered[1:]):
            assert low.address + low.count <= high.address, "two live allocations overlap"


def _an_address_is_found(session: Session) -> None:
    with Bench(session.device) as bench:
        memory = bench.memory(1000)
        info = pointer_info(memory.address + 999)
        assert (info.base, info.bytes, info.kind) == (memory.address, 1000, 0), (
            f"found {info.bytes} bytes at {info.base}, allocated were 1000 at {memory.address}"
        )
        address = memory.address
        memory.free()
        refused("NOT_FOUND", pointer_info, address)


def _no_bytes_are_no_address(session: Session) -> None:
    with Bench(session.device) as bench:
        assert bench.memory(0).address == 0, "an allocation of 0 bytes must be NULL"


def _only_starts_are_freed(session: Session) -> None:
    with Bench(session.device) as bench:
        memory = bench.memory(1000)
        address = memory.address
        memory.address += 8
        refused("INVALID_ARGUMENT", memory.free)
        memory.address = address
        memory.free()
        memory.address = address
        refused("INVALID_ARGUMENT", memory.free)
        memory.address = 0


def _freed_memory_serves_work_under_way(session: Session) -> None:
    """Memory that is freed on its stream goes to others only after the work that used it."""
    with Bench(session.device) as bench:
        first, second = bench.stream(), bench.stream()
        for round_ in range(20):
            used = bench.memory(_MEBIBYTE, stream=first)
            for number in range(4):
                first.fill(used.address, bytes([number + 1]), _MEBIBYTE)
            used.free(first)
            reused, host = bench.memory(_MEBIBYTE, stream=second), np.zeros(_MEBIBYTE, np.uint8)
            second.fill(reused.address, b"\x63", _MEBIBYTE)
            second.download(host, reused.address)
            second.synchronize()
            wrong = np.count_nonzero(host != 0x63)
            assert wrong == 0, (
                f"round {round_}: {wrong} bytes of new memory were overwritten by work of its former user"
            )
            reused.free(second)


def _too_much_is_refused(session: Session) -> None:
    device = session.device
    with Bench(device) as bench:
        stream = bench.stream()
        try:
            Memory(device, 4 * device.properties.total_memory, stream=stream)
        except errors.OutOfMemoryError as error:
            assert str(error), "the error of memory that is out has no message"
        else:
            raise AssertionError("four times the device's memory were allocated")
        # And the device goes on.
        memory, host = bench.memory(4096), np.zeros(4096, np.uint8)
        stream.fill(memory.address, b"\5", 4096)
        stream.download(host, memory.address)
        stream.synchronize()
        assert (host == 5).all(), "after a refused allocation a fill went wrong"


def _pressure_is_survived(session: Session) -> None:
    """Under a limit, memory runs out with an error, keeps what it holds, and comes back when it is freed."""
    device = session.device
    block, limit = _MEBIBYTE, 16 * _MEBIBYTE
    with Bench(device) as bench:
        stream = bench.stream()
        device.synchronize()
        device.empty_cache()
        before = device.memory_stats()
        device.set_memory_limit(before.reserved_bytes + limit)
        # What shares its reservation with something live, such as a workspace, stayed and has room as well.
        most = (limit + before.reserved_bytes - before.allocated_bytes) // block
        try:
            for attempt in range(3):
                blocks: list[Memory] = []
                with suppress(errors.OutOfMemoryError):
                    while len(blocks) <= most:
                        blocks.append(bench.memory(block, stream=stream))
                        stream.fill(blocks[-1].address, bytes([len(blocks)]), block)
                assert 1 <= len(blocks) <= most, (
                    f"attempt {attempt}: {len(blocks)} blocks of a mebibyte fit where there is room for {most}"
                )
                host = np.zeros((len(blocks), block), np.uint8)
                for row, memory in zip(host, blocks):
                    stream.download(row, memory.address)
                stream.synchronize()
                wrong = np.flatnonzero((host != np.arange(1, len(blocks) + 1)[:, None]).any(axis=1))
                assert wrong.size == 0, f"attempt {attempt}: blocks {wrong.tolist()} lost their contents"
                for memory in blocks:
                    memory.free(stream)
                stream.synchronize()
        finally:
            device.set_memory_limit(0)


def _statistics_add_up(session: Session) -> None:
    device = session.device
    before = device.memory_stats()
    with Bench(device) as bench:
        bench.memory(1000)
        bench.memory(100000)
        during = device.memory_stats()
        assert during.live_allocations == before.live_allocations + 2, "two allocations are not two more live ones"
        grown = during.allocated_bytes - before.allocated_bytes
        assert grown >= 101000, f"101000 bytes were allocated, the statistics grew by {grown}"
        assert during.reserved_bytes >= during.allocated_bytes, "more is allocated than reserved"
    after = device.memory_stats()
    assert after.live_allocations == before.live_allocations, "allocations are counted that were freed"
    assert after.allocated_bytes == before.allocated_bytes, "bytes are counted that were freed"


def _properties_make_sense(session: Session) -> None:
    properties = session.device.properties
    assert properties.name, "the device has no name"
    assert properties.total_memory > 0, "the device has no memory"
    assert 0 < properties.max_allocation <= properties.total_memory, (
        f"the largest allocation is {properties.max_allocation} bytes of {properties.total_memory}"
    )
    assert properties.supported_dtypes, "the device computes with no dtype"
    call("uhal_device_synchronize", device_handle(session.device))


_CHECKS = (
    _addresses_are_aligned_and_apart,
    _an_address_is_found,
    _no_bytes_are_no_address,
    _only_starts_are_freed,
    _freed_memory_serves_work_under_way,
    _too_much_is_refused,
    _pressure_is_survived,
    _statistics_add_up,
    _properties_make_sense,
)
