"""unihal's allocator as arithmetic: what csrc/core/memory does with the same requests, for one stream.

Sizes of blocks, which free block is taken, when a segment is asked for and when one is given back are those of
allocator.cc; addresses are places in a segment. `tests/workshop/test_allocator.py` holds it against the library with
random requests.
"""

from __future__ import annotations

SMALL_REQUEST = 1 << 20
SMALL_GRANULE = 256
SMALL_SEGMENT = 2 << 20
LARGE_GRANULE = 64 << 10
LARGE_SEGMENT = 32 << 20
OWN_SEGMENT_UNIT = 2 << 20
LARGE_REMAINDER = 1 << 20

_LOOKS = 16
_SHARED, _STREAM = 0, 1


class OutOfMemory(Exception):  # noqa: N818
    """A request that the card cannot serve: `bytes` of it; `reserved` and `allocated` when it was made."""

    def __init__(self, size: int, allocated: int, reserved: int) -> None:
        super().__init__(f"{size} bytes with {allocated} bytes allocated in {reserved} bytes of segments")
        self.bytes = size
        self.allocated = allocated
        self.reserved = reserved


class _Segment:
    __slots__ = ("bytes", "first", "small")

    def __init__(self, size: int, small: bool) -> None:
        self.bytes = size
        self.small = small
        self.first: Block


class Block:
    """A piece of a segment; live ones are what `Allocator.allocate` gives."""

    __slots__ = ("bytes", "live", "next", "owner", "previous", "segment")

    def __init__(self, size: int, segment: _Segment, owner: int) -> None:
        self.bytes = size
        self.segment = segment
        self.owner = owner
        self.live = False
        self.previous: Block | None = None
        self.next: Block | None = None


def _round_up(size: int, unit: int) -> int:
    return (size + unit - 1) // unit * unit


def _bin_of(size: int) -> int:
    shift = max(size, 256).bit_length() - 1
    return ((shift - 8) << 3) + ((size >> (shift - 3)) & 7)


class _Bins:
    """Free blocks by size, the latest first, as BlockBins."""

    def __init__(self) -> None:
        self.bins: dict[int, list[Block]] = {}

    def insert(self, block: Block) -> None:
        self.bins.setdefault(_bin_of(block.bytes), []).append(block)

    def remove(self, block: Block) -> None:
        number = _bin_of(block.bytes)
        blocks = self.bins[number]
        blocks.remove(block)
        if not blocks:
            del self.bins[number]

    def best_fit(self, size: int) -> Block | None:
        first = _bin_of(size)
        for number in sorted(key for key in self.bins if key >= first):
            best: Block | None = None
            for looks, block in enumerate(reversed(self.bins[number]), 1):
                if block.bytes >= size and (best is None or block.bytes < best.bytes):
                    best = block
                if block.bytes == size or (looks >= _LOOKS and best is not None):
                    break
            if best is not None:
                return best
        return None

    def all(self) -> list[Block]:
        return [block for blocks in self.bins.values() for block in reversed(blocks)]


class Allocator:
    """One stream's requests to a card: `capacity` bytes for all segments (0: no end), `largest` for one (0: no end)."""

    def __init__(self, capacity: int = 0, largest: int = 0) -> None:
        self.capacity = capacity
        self.largest = largest
        self.allocated = 0
        self.peak_allocated = 0
        self.reserved = 0
        self.peak_reserved = 0
        self._segments: list[_Segment] = []
        #: [owner][small]
        self._bins = [[_Bins(), _Bins()], [_Bins(), _Bins()]]

    def reset_peak(self) -> None:
        """The peaks become what is in use now."""
        self.peak_allocated = self.allocated
        self.peak_reserved = self.reserved

    def allocate(self, size: int) -> Block | None:
        """A block for `size` bytes (None for 0); OutOfMemory if the card has none."""
        if size == 0:
            return None
        small = size <= SMALL_REQUEST
        rounded = _round_up(size, SMALL_GRANULE if small else LARGE_GRANULE)
        block = self._take(small, rounded)
        if block is not None:
            return self._hand_out(block, rounded)
        for waited in (False, True):
            if waited:
                self._publish()
            block = self._take(small, rounded) if waited else None
            if block is None:
                block = self._grow(rounded, small)
            if block is None and self._release_segments():
                block = self._grow(rounded, small)
            if block is not None:
                return self._hand_out(block, rounded)
        raise OutOfMemory(size, self.allocated, self.reserved)

    def free(self, block: Block | None) -> None:
        """Gives a block back, to the stream that had it."""
        if block is None:
            return
        block.live = False
        self.allocated -= block.bytes
        self._put(block, _STREAM)

    def _take(self, small: bool, size: int) -> Block | None:
        for owner in (_STREAM, _SHARED):
            bins = self._bins[owner][small]
            block = bins.best_fit(size)
            if block is not None:
                bins.remove(block)
                return block
        return None

    def _hand_out(self, block: Block, size: int) -> Block:
        rest = block.bytes - size
        small = block.segment.small
        if rest >= (SMALL_GRANULE if small else LARGE_REMAINDER):
            tail = Block(rest, block.segment, block.owner)
            tail.previous, tail.next = block, block.next
            if block.next is not None:
                block.next.previous = tail
            block.next = tail
            block.bytes = size
            self._bins[tail.owner][small].insert(tail)
        block.live = True
        self.allocated += block.bytes
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return block

    def _put(self, block: Block, owner: int) -> None:
        block.owner = owner
        bins = self._bins[owner][block.segment.small]
        after, before = block.next, block.previous
        if after is not None and not after.live and after.owner == owner:
            bins.remove(after)
            self._absorb(block, after)
        if before is not None and not before.live and before.owner == owner:
            bins.remove(before)
            self._absorb(before, block)
            block = before
        bins.insert(block)

    @staticmethod
    def _absorb(left: Block, right: Block) -> None:
        left.bytes += right.bytes
        left.next = right.next
        if right.next is not None:
            right.next.previous = left

    def _publish(self) -> None:
        """The stream has run its work: what it freed is everybody's."""
        for small in (False, True):
            for block in self._bins[_STREAM][small].all():
                self._bins[_STREAM][small].remove(block)
                self._put(block, _SHARED)

    def _add_segment(self, size: int, small: bool) -> Block | None:
        if (self.capacity and self.reserved + size > self.capacity) or (self.largest and size > self.largest):
            return None
        segment = _Segment(size, small)
        segment.first = Block(size, segment, _SHARED)
        self._segments.append(segment)
        self.reserved += size
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return segment.first

    def _grow(self, size: int, small: bool) -> Block | None:
        if small:
            preferred = SMALL_SEGMENT
        elif size <= LARGE_SEGMENT // 2:
            preferred = LARGE_SEGMENT
        else:
            preferred = _round_up(size, OWN_SEGMENT_UNIT)
        block = self._add_segment(preferred, small)
        if block is None and preferred > size:
            block = self._add_segment(size, small)
        return block

    def _release_segments(self) -> bool:
        released = False
        for segment in list(self._segments):
            block = segment.first
            if block.live or block.next is not None or block.owner != _SHARED:
                continue
            self._bins[_SHARED][segment.small].remove(block)
            self.reserved -= segment.bytes
            self._segments.remove(segment)
            released = True
        return released
