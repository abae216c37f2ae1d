"""Operands in device memory, surrounded by bytes that must survive."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .. import _core, dtypes
from ..device import MEMORY_KINDS
from .layout import place, repeats
from .number_format import bits_dtype, decode, encode, storage

if TYPE_CHECKING:
    from .case import Array, Operand
    from .session import Session

#: Before and behind each operand; a multiple of the alignment that allocations have.
_GUARD_BYTES = 256
_UINT8 = dtypes.number("uint8")


@dataclass(frozen=True)
class Placed:
    """An operand's block of memory: its image on the host as it was before the launch, and the block on the device."""

    operand: Operand
    before: Array
    allocation: _core.Allocation
    view: _core.View

    def _elements(self, image: Array) -> Array:
        """The operand's elements, as stored, within an image of the block."""
        return _elements(self.operand, image)

    def values_before(self) -> Array:
        """The elements before the launch, or their bits where the operand is about those."""
        return decode(self.stored(self.before), self.stored_dtype)

    def download(self, session: Session) -> Array:
        """The block as it is now."""
        image = np.empty_like(self.before)
        _core.copy_to_host(session.stream._handle, _whole(self.allocation), image)
        return image

    def stored(self, image: Array) -> Array:
        """The elements, as stored, of a downloaded image."""
        return self._elements(image).view(storage(self.stored_dtype))

    @property
    def stored_dtype(self) -> str:
        """The dtype that the elements are looked at as."""
        return bits_dtype(self.operand.dtype) if self.operand.bits else self.operand.dtype

    def damage(self, image: Array, written: bool) -> str:
        """What was changed in a downloaded image that should not be; empty if nothing. Elements may be, if written."""
        if written and self._fills_its_block():
            places = (slice(_GUARD_BYTES), slice(image.size - _GUARD_BYTES, None))
            if all(np.array_equal(image[place], self.before[place]) for place in places):
                return ""
        compared = image
        if written:
            compared = image.copy()
            self._elements(compared)[...] = self._elements(self.before)
        changed = np.flatnonzero(compared != self.before)
        if changed.size == 0:
            return ""
        return f"{changed.size} bytes that are not the op's were overwritten, the first one {self._where(changed[0])}"

    def _fills_its_block(self) -> bool:
        """Whether all bytes between the guards are of its elements."""
        operand = self.operand
        return place(operand.layout, operand.shape).elements == math.prod(operand.shape) and not repeats(operand.layout)

    def _where(self, byte: np.intp) -> str:
        end = self.before.size - _GUARD_BYTES
        if byte < _GUARD_BYTES:
            return f"{_GUARD_BYTES - byte} bytes before the memory of the operand"
        if byte >= end:
            return f"{byte - end} bytes behind the memory of the operand"
        return f"{byte - _GUARD_BYTES} bytes from the start of the operand's memory"


def place_operand(session: Session, operand: Operand, generator: np.random.Generator) -> Placed:
    """Fills a block with an operand's values, and all around them with random bytes, and puts it on the device."""
    placement = place(operand.layout, operand.shape)
    item_bytes = storage(operand.dtype).itemsize
    image = np.frombuffer(generator.bytes(2 * _GUARD_BYTES + placement.elements * item_bytes), np.uint8).copy()
    if operand.values is not None:
        # Elements that share memory get one of the values; the reference reads them from here too.
        values = np.broadcast_to(operand.values(generator, operand.shape), operand.shape)
        if operand.bits:
            encoded = values.astype(bits_dtype(operand.dtype)).view(storage(operand.dtype))
        else:
            encoded = encode(values, operand.dtype)
        _elements(operand, image)[...] = encoded
    allocation = _core.Allocation(session.device._handle, session.stream._handle, MEMORY_KINDS["device"], image.size)
    _core.copy_from_host(session.stream._handle, _whole(allocation), image)
    view = _core.View(
        allocation,
        dtypes.number(operand.dtype),
        operand.shape,
        placement.strides,
        _GUARD_BYTES + placement.offset * item_bytes,
    )
    return Placed(operand, image, allocation, view)


def _elements(operand: Operand, image: Array) -> Array:
    dtype = storage(operand.dtype)
    placement = place(operand.layout, operand.shape)
    if 0 in operand.shape:
        return np.empty(operand.shape, dtype)
    return np.ndarray(
        operand.shape,
        dtype,
        image.data,
        _GUARD_BYTES + placement.offset * dtype.itemsize,
        [stride * dtype.itemsize for stride in placement.strides],
    )


def _whole(allocation: _core.Allocation) -> _core.View:
    return _core.View(allocation, _UINT8, [allocation.bytes], [1], 0)
