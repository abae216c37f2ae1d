"""The allocator's arithmetic against the library: the same requests, the same bytes after each, the same refusals."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
import unihal
from unihal_workshop.planning import allocator as arithmetic
from unihal_workshop.planning.allocator import Allocator, OutOfMemory

SOURCE = Path(__file__).parents[2] / "csrc/core/memory/allocator.cc"


@pytest.mark.parametrize("seed", (0, 2, 5))
def test_the_same_bytes_after_each_request(seed: int) -> None:
    random.seed(seed)
    device = unihal.device("rdna")
    device.empty_cache()
    start = device.memory_stats()
    assert start.reserved_bytes == 0
    limit = 400 << 20
    device.set_memory_limit(limit)
    try:
        model = Allocator(limit)
        live: list[tuple[unihal.Buffer, arithmetic.Block | None]] = []
        refused = 0
        for _ in range(2500):
            if live and random.random() < 0.48:
                buffer, block = live.pop(random.randrange(len(live)))
                buffer.close()
                model.free(block)
            else:
                size = int(2 ** random.uniform(4, 26))
                try:
                    buffer = unihal.Buffer((size,), "uint8", "rdna")
                except unihal.errors.OutOfMemoryError:
                    refused += 1
                    with pytest.raises(OutOfMemory):
                        model.allocate(size)
                    continue
                live.append((buffer, model.allocate(size)))
            stats = device.memory_stats()
            assert (stats.allocated_bytes, stats.reserved_bytes) == (model.allocated, model.reserved)
        assert refused > 0, "the limit was never met"
        for buffer, _ in live:
            buffer.close()
    finally:
        device.set_memory_limit(0)
        device.empty_cache()


def test_the_sizes_are_those_of_the_source() -> None:
    names = {
        "kSmallRequest": "SMALL_REQUEST",
        "kSmallGranule": "SMALL_GRANULE",
        "kSmallSegment": "SMALL_SEGMENT",
        "kLargeGranule": "LARGE_GRANULE",
        "kLargeSegment": "LARGE_SEGMENT",
        "kOwnSegmentUnit": "OWN_SEGMENT_UNIT",
        "kLargeRemainder": "LARGE_REMAINDER",
    }
    text = SOURCE.read_text()
    for theirs, ours in names.items():
        match = re.search(rf"constexpr size_t {theirs} = (?:size_t\{{(\d+)\}} << (\d+)|(\d+));", text)
        assert match is not None, theirs
        value = int(match[3]) if match[3] else int(match[1]) << int(match[2])
        assert getattr(arithmetic, ours) == value, ours


def test_a_request_that_is_refused_says_how_much_was_in_use() -> None:
    model = Allocator(capacity=64 << 20, largest=48 << 20)
    model.allocate(20 << 20)
    with pytest.raises(OutOfMemory) as error:
        model.allocate(50 << 20)
    assert error.value.allocated == 20 << 20
    assert error.value.bytes == 50 << 20
    assert model.allocate(0) is None
