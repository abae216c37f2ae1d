"""Streams and events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import TracebackType

from . import _core
from .device import Device, DeviceLike, device


class Stream:
    """A queue of work on one device. Work of one stream runs in order; events order work of different streams.

    As a context manager it is closed at the end of the block, after its work has run.
    """

    def __init__(self, on: DeviceLike) -> None:
        self.device: Device = device(on)
        self._handle = _core.Stream(self.device._handle)

    @classmethod
    def default(cls, on: DeviceLike) -> Stream:
        """The device's own stream, on which work runs that names none. Closing it has no effect."""
        stream = cls.__new__(cls)
        stream.device = device(on)
        stream._handle = _core.default_stream(stream.device._handle)
        return stream

    @property
    def closed(self) -> bool:
        """Whether the stream was closed."""
        return self._handle.closed

    def query(self) -> bool:
        """Whether all submitted work has run. Raises the first error of that work."""
        return self._handle.query()

    def synchronize(self) -> None:
        """Waits for all submitted work, and raises its first error."""
        self._handle.synchronize()

    def wait(self, event: Event) -> None:
        """Lets work submitted from now on wait for the event's last record."""
        self._handle.wait_event(event._handle)

    def record(self) -> Event:
        """A new event at the present end of the stream."""
        event = Event(self.device)
        event.record(self)
        return event

    @contextmanager
    def launch_group(self) -> Iterator[None]:
        """Lets the backend make one launch of several ops of the block that are alike and do not depend on one another:
        one function of many small buffers. Results are those of single launches; the error of an op may be raised by a
        later call with the stream, at the latest at the end of the block. Groups may be nested.
        """
        self._handle.launch_group_start()
        try:
            yield
        finally:
            self._handle.launch_group_end()

    def close(self) -> None:
        """Waits for the work and frees the stream. Closing twice is fine."""
        self._handle.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Event:
    """A point in a stream that others can wait for, and time between two of them."""

    def __init__(self, on: DeviceLike) -> None:
        self.device: Device = device(on)
        self._handle = _core.Event(self.device._handle)

    def record(self, stream: Stream) -> None:
        """Marks the present end of a stream of the same device."""
        self._handle.record(stream._handle)

    def query(self) -> bool:
        """Whether the last record was reached."""
        return self._handle.query()

    def synchronize(self) -> None:
        """Waits until the last record was reached."""
        self._handle.synchronize()

    def elapsed_seconds(self, end: Event) -> float:
        """Device time from this event to ``end``; both must be recorded and reached."""
        return self._handle.elapsed_nanoseconds(end._handle) * 1e-9

    def close(self) -> None:
        """Frees the event. Closing twice is fine."""
        self._handle.close()

    def __enter__(self) -> Event:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@cache
def default_stream(on: Device) -> Stream:
    """The device's own stream, the same object each time."""
    return Stream.default(on)
