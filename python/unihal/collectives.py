"""Collectives: moving and reducing data among devices, of one process or of many (unihal/collectives.h).

Each device that takes part is a rank with a ``Communicator`` of its own. One rank makes an id with ``create_id`` and
gives the bytes to the others, by a file, a socket or whatever they share.

>>> # in each process, or thread, with a rank of its own
>>> with Communicator("rdna:0", rank, size, id) as communicator:
...     total = communicator.all_reduce(gradient)
...     communicator.broadcast(weights, root=0)

All ranks call the same, in the same order, with operands of one size and dtype. Collectives are work of a stream: what
goes wrong in them (a rank that does not come or dies) is raised where the stream is waited for, or by the next call.
A communicator that failed is of no more use.
"""

from __future__ import annotations

import math
import threading
from types import TracebackType
from typing import Any, Literal

from . import _core, errors
from .arguments import check_arguments
from .buffer import Buffer
from .device import Device, DeviceLike
from .device import device as find_device
from .stream import Stream, default_stream

__all__ = ["Communicator", "Reduction", "create_id", "group"]

Reduction = Literal["sum", "product", "minimum", "maximum", "average"]

_REDUCTIONS: dict[str, int] = {"sum": 0, "product": 1, "minimum": 2, "maximum": 3, "average": 4}


class _Groups(threading.local):
    """The open groups of a thread."""

    def __init__(self) -> None:
        self.depth = 0
        #: What they use: it must live until they are submitted.
        self.kept: list[Any] = []


_groups = _Groups()


def create_id(on: DeviceLike) -> bytes:
    """The id of a new communicator of devices such as this one: 256 bytes, for one communicator, once."""
    return _core.communicator_id(find_device(on)._handle)


class Communicator:
    """One rank of a communicator: a device, among as many as ``size``.

    Creating it waits for the other ranks, so that each needs a thread or a process of its own. It is closed at the end
    of a ``with`` block, after its collectives.

    :param rank: 0 to ``size`` - 1, another one for each.
    :param id: what ``create_id`` gave one of the ranks.
    :param timeout: seconds that its creation, and each collective without progress, may wait for another rank.
    """

    def __init__(self, on: DeviceLike, rank: int, size: int, id: bytes, timeout: float = 600.0) -> None:
        if not 0 < timeout < math.inf:
            raise errors.InvalidArgumentError(f"the timeout is {timeout}; expected seconds above 0, such as 600")
        if not 0 <= rank < size < 2**31:
            raise errors.InvalidArgumentError(
                f"the communicator is to be rank {rank} of {size}; expected a rank from 0 to size - 1"
            )
        self.device: Device = find_device(on)
        self.rank = rank
        self.size = size
        milliseconds = min(math.ceil(timeout * 1000), 2**62)
        self._handle = _core.Communicator(self.device._handle, rank, size, bytes(id), milliseconds)

    # -- among all ranks

    def all_reduce(
        self, source: Buffer, reduction: Reduction = "sum", *, out: Buffer | None = None, stream: Stream | None = None
    ) -> Buffer:
        """The reduction of all ranks' sources, on all ranks. ``out`` may be the source: in place."""
        target = self._target("all_reduce", out, source, source.shape, source.size, stream)
        self._launch("all_reduce", source, target, source.size, stream, _REDUCTIONS[reduction])
        return target

    def all_gather(self, source: Buffer, *, out: Buffer | None = None, stream: Stream | None = None) -> Buffer:
        """The sources of all ranks, in their order, on all ranks: of shape ``(size, *source.shape)``.

        In place the source is ``out[rank]``.
        """
        shape = (self.size, *source.shape)
        target = self._target("all_gather", out, source, shape, self.size * source.size, stream)
        self._launch("all_gather", source, target, source.size, stream)
        return target

    def reduce_scatter(
        self, source: Buffer, reduction: Reduction = "sum", *, out: Buffer | None = None, stream: Stream | None = None
    ) -> Buffer:
        """Of the reduction of all sources, which have the shape ``(size, ...)``, the block of this rank's number.

        In place ``out`` is ``source[rank]``.
        """
        count = self._block("reduce_scatter", source)
        target = self._target("reduce_scatter", out, source, source.shape[1:], count, stream)
        self._launch("reduce_scatter", source, target, count, stream, _REDUCTIONS[reduction])
        return target

    def broadcast(self, buffer: Buffer, root: int = 0, *, stream: Stream | None = None) -> Buffer:
        """Overwrites the buffer of each rank with the root's."""
        self._check_peer("broadcast", root)
        source = buffer if root == self.rank else None
        self._launch("broadcast", source, buffer, buffer.size, stream, peer=root)
        return buffer

    def reduce(
        self,
        source: Buffer,
        root: int = 0,
        reduction: Reduction = "sum",
        *,
        out: Buffer | None = None,
        stream: Stream | None = None,
    ) -> Buffer | None:
        """The reduction of all ranks' sources, on the root; None elsewhere. ``out`` may be the source: in place."""
        self._check_peer("reduce", root)
        target = None
        if root == self.rank:
            target = self._target("reduce", out, source, source.shape, source.size, stream)
        self._launch("reduce", source, target, source.size, stream, _REDUCTIONS[reduction], peer=root)
        return target

    def all_to_all(self, source: Buffer, *, out: Buffer | None = None, stream: Stream | None = None) -> Buffer:
        """Exchanges blocks: ``out[i]`` is rank i's ``source[rank]``. The shapes are ``(size, ...)``."""
        count = self._block("all_to_all", source)
        target = self._target("all_to_all", out, source, source.shape, source.size, stream)
        self._launch("all_to_all", source, target, count, stream)
        return target

    # -- between two ranks

    def send(self, buffer: Buffer, peer: int, *, stream: Stream | None = None) -> None:
        """Sends a buffer to a rank, which receives as many elements.

        Ranks that send to each other put their calls in a ``group``.
        """
        self._check_peer("send", peer)
        self._launch("send", buffer, None, buffer.size, stream, peer=peer)

    def receive(self, buffer: Buffer, peer: int, *, stream: Stream | None = None) -> Buffer:
        """Overwrites a buffer with what a rank sends."""
        self._check_peer("receive", peer)
        self._launch("receive", None, buffer, buffer.size, stream, peer=peer)
        return buffer

    # -- the end

    def abort(self) -> None:
        """Ends the collectives under way, on all ranks that can be reached, as errors of their streams. Any thread."""
        self._handle.abort()

    @property
    def closed(self) -> bool:
        """Whether the communicator was closed."""
        return self._handle.closed

    def close(self) -> None:
        """Waits for the collectives and frees the communicator. Closing twice is fine."""
        self._handle.close()

    def __enter__(self) -> Communicator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and not self.closed:
            self.abort()  # the others do not wait for what will not come
        self.close()

    # -- what they share

    def _check_peer(self, name: str, peer: int) -> None:
        if not 0 <= peer < self.size:
            raise errors.InvalidArgumentError(
                f"{name}: there is no rank {peer}; the communicator has ranks 0 to {self.size - 1}"
            )

    def _block(self, name: str, source: Buffer) -> int:
        """The number of elements of a block of a source that has one for each rank."""
        if source.ndim == 0 or source.shape[0] != self.size:
            raise errors.InvalidArgumentError(
                f"{name}: the source has the shape {source.shape}; expected a block for each of {self.size} ranks, "
                f"({self.size}, ...)"
            )
        return source.size // self.size

    def _target(
        self,
        name: str,
        out: Buffer | None,
        source: Buffer,
        shape: tuple[int, ...],
        size: int,
        stream: Stream | None,
    ) -> Buffer:
        if out is None:
            return Buffer(shape, source.dtype, self.device, stream=stream)
        if out.size != size or out.dtype != source.dtype:
            raise errors.InvalidArgumentError(
                f"{name}: out has {out.size} elements of {out.dtype}; expected {size} of {source.dtype}"
            )
        return out

    def _launch(
        self,
        name: str,
        source: Buffer | None,
        target: Buffer | None,
        count: int,
        stream: Stream | None,
        reduction: int = 0,
        peer: int = 0,
    ) -> None:
        for role, buffer in (("source", source), ("destination", target)):
            if buffer is not None and not buffer.dense:
                raise errors.InvalidArgumentError(
                    f"{name}: the {role} of shape {buffer.shape} has strides {buffer.strides}; expected a dense "
                    "buffer, such as ops.copy gives"
                )
        queue = stream or default_stream(self.device)
        self._handle.launch(queue._handle, name, source, target, count, reduction, peer)
        if _groups.depth > 0:
            _groups.kept.append((source, target, queue, self))


class group:  # noqa: N801 (used like a function)
    """The calls of this thread in the ``with`` block are submitted together, at its end.

    It takes a group where one thread drives several ranks, and where ranks send and receive in both directions. If the
    block raises, nothing of it is submitted. Groups nest: the outermost submits.
    """

    def __enter__(self) -> group:
        _core.group_start()
        _groups.depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _groups.depth = 0 if kind is not None else max(_groups.depth - 1, 0)
        try:
            if kind is not None:
                _core.group_cancel()
            else:
                _core.group_end()  # refused if a group in this one raised
        finally:
            if _groups.depth == 0:
                _groups.kept.clear()


check_arguments(globals(), __all__)
