"""The largest batch that fits, from traces of a few batches."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import ModelError
from .trace import Trace, replay

MOST = 1 << 20


def affine(two: Trace, three: Trace) -> list[tuple[int, int]] | None:
    """Bytes of each tensor as a + b * batch, from traces of the batches 2 and 3.

    None if the traces are no such pair.
    """
    if not two.same_steps(three):
        return None
    return [
        (3 * first.bytes - 2 * second.bytes, second.bytes - first.bytes)
        for first, second in zip(two.tensors, three.tensors)
    ]


def largest_batch(trace_of: Callable[[int], Trace], capacity: int, largest: int) -> int:
    """The largest batch whose trace fits into `capacity` bytes; 0 if one sample does not.

    Sizes that grow with the batch in a straight line are found from two traces, and the answer is held against a
    trace of itself; where they do not, every batch that is tried is traced.
    """
    steps = trace_of(2)
    sizes = affine(steps, trace_of(3))

    def by_line(batch: int) -> bool:
        assert sizes is not None
        return replay(steps, capacity, largest, [a + b * batch for a, b in sizes]).fits

    def by_trace(batch: int) -> bool:
        return replay(trace_of(batch), capacity, largest).fits

    if sizes is not None and all(b == 0 for _, b in sizes):
        raise ModelError("no tensor grows with the batch: name the axis that counts samples")
    if not by_trace(1):
        return 0
    fits = by_line if sizes is not None else by_trace
    found = _search(fits)
    # Size classes may differ from what two traces told (an op that takes another way for large tensors).
    if sizes is not None and found > 1 and (not by_trace(found) or by_trace(found + 1)):
        found = _search(by_trace)
    return found


def _search(fits: Callable[[int], bool]) -> int:
    low, high = 1, 2
    while high <= MOST and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low
