"""How the elements of an operand lie in memory.

A layout turns a shape into strides and an offset, in elements, within a block of memory that the operand need not fill:
what lies between its elements must survive the op.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Callable

CONTIGUOUS = "contiguous"


@dataclass(frozen=True)
class Placement:
    """A view within a block, in elements."""

    strides: tuple[int, ...]
    #: Of the first element; negative strides reach below it.
    offset: int
    #: Length of the block.
    elements: int


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a dense array whose last axis runs fastest."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)


def _count(shape: Sequence[int]) -> int:
    count = 1
    for length in shape:
        count *= length
    return count


def _contiguous(shape: Sequence[int]) -> Placement:
    return Placement(row_major(shape), 0, _count(shape))


def _ordered(shape: Sequence[int], order: Sequence[int]) -> Placement:
    """Dense, with the axes in memory in the given order, the last one fastest."""
    dense = row_major([shape[axis] for axis in order])
    strides = [0] * len(shape)
    for position, axis in enumerate(order):
        strides[axis] = dense[position]
    return Placement(tuple(strides), 0, _count(shape))


def _transposed(shape: Sequence[int]) -> Placement:
    return _ordered(shape, range(len(shape))[::-1])


def _channels_last(shape: Sequence[int]) -> Placement:
    if len(shape) < 3:
        return _contiguous(shape)
    return _ordered(shape, [0, *range(2, len(shape)), 1])


def _sliced(shape: Sequence[int]) -> Placement:
    """Every second column of the inner rows of a larger array, starting at an odd element."""
    parent = list(shape)
    if parent:
        parent[-1] = 2 * parent[-1] + 1
    if len(parent) > 1:
        parent[-2] += 2
    strides = list(row_major(parent))
    offset = (strides[-2] if len(parent) > 1 else 0) + 1
    if strides:
        strides[-1] = 2
    return Placement(tuple(strides), offset, _count(parent) + 1)


def _spaced(shape: Sequence[int]) -> Placement:
    """A corner of an array that is one longer along each axis: no stride follows from the one beside it."""
    parent = [length + 1 for length in shape]
    return Placement(row_major(parent), 0, _count(parent))


def _reversed(shape: Sequence[int]) -> Placement:
    dense = row_major(shape)
    last = sum((length - 1) * stride for length, stride in zip(shape, dense)) if _count(shape) else 0
    return Placement(tuple(-stride for stride in dense), last, _count(shape))


def _broadcast(shape: Sequence[int]) -> Placement:
    """The first axis longer than 1 repeats one row."""
    repeated = next((axis for axis, length in enumerate(shape) if length > 1), None)
    kept = [1 if axis == repeated else length for axis, length in enumerate(shape)]
    strides = [0 if axis == repeated else stride for axis, stride in enumerate(row_major(kept))]
    return Placement(tuple(strides), 0, _count(kept))


def _overlapping(shape: Sequence[int]) -> Placement:
    """Windows over one run of elements: every axis has stride 1."""
    elements = 1 + sum(length - 1 for length in shape) if _count(shape) else 0
    return Placement((1,) * len(shape), 0, elements)


_PLACEMENTS: dict[str, Callable[[Sequence[int]], Placement]] = {
    CONTIGUOUS: _contiguous,
    "transposed": _transposed,
    "sliced": _sliced,
    "spaced": _spaced,
    "reversed": _reversed,
    "channels_last": _channels_last,
    "broadcast": _broadcast,
    "overlapping": _overlapping,
}

#: Layouts in which several indices name one element. Outputs cannot have them.
_REPEATING = frozenset(("broadcast", "overlapping"))

#: What every kind is tried with, and what ops on images are tried with besides.
LAYOUTS = (CONTIGUOUS, "transposed", "sliced", "spaced", "reversed", "broadcast", "overlapping")
IMAGE_LAYOUTS = (*LAYOUTS, "channels_last")


@lru_cache(maxsize=256)
def place(layout: str, shape: tuple[int, ...]) -> Placement:
    """Where the elements of a shape lie in a layout."""
    return _PLACEMENTS[layout](shape)


def repeats(layout: str) -> bool:
    """Whether several indices name one element in a layout."""
    return layout in _REPEATING


def output_layout(layout: str) -> str:
    """The layout of outputs in a case whose inputs have the given one."""
    return CONTIGUOUS if repeats(layout) else layout
