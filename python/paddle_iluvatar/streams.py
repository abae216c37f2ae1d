"""Streams and events: work in order, and points in it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

import unihal

from .device import _named

_local = threading.local()


class Event:
    """A point in a stream. `elapsed_milliseconds` is the device's time between two of them.

    Freed by `free`, at the end of a `with` block, or with its last reference.
    """

    def __init__(self, device: int | None = None) -> None:
        self.handle = unihal.Event(_named(device))

    def record(self, stream: Stream | None = None) -> None:
        """Marks the present end of a stream; None: the device's own."""
        target = unihal.Stream.default(self.handle.device) if stream is None else stream.handle
        self.handle.record(target)

    def query(self) -> bool:
        """Whether the device has come there."""
        return self.handle.query()

    def synchronize(self) -> None:
        """Waits until the device has come there."""
        self.handle.synchronize()

    def elapsed_milliseconds(self, end: Event) -> float:
        """The device's time from here to `end`; both have to be recorded and reached."""
        return self.handle.elapsed_seconds(end.handle) * 1e3

    def free(self) -> None:
        """Gives the event back; a second time does nothing."""
        self.handle.close()

    def __enter__(self) -> Event:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.free()


class Stream:
    """A queue of work on one device. Work of one stream runs in order, streams run beside one another.

    At the end of a `with` block it waits for its work and is freed.
    """

    def __init__(self, device: int | None = None) -> None:
        self.handle = unihal.Stream(_named(device))

    @property
    def device(self) -> int:
        """The number of the device."""
        return self.handle.device.ordinal

    def query(self) -> bool:
        """Whether all work has run; raises the first error of that work."""
        return self.handle.query()

    def synchronize(self) -> None:
        """Waits for all work, and raises its first error."""
        self.handle.synchronize()

    def wait_event(self, event: Event) -> None:
        """What is submitted from now on waits for the event."""
        self.handle.wait(event.handle)

    def wait_stream(self, other: Stream) -> None:
        """What is submitted from now on waits for what the other stream has now."""
        with other.record_event() as event:
            self.wait_event(event)

    def record_event(self) -> Event:
        """A new event at the present end."""
        event = Event(self.device)
        event.record(self)
        return event

    def free(self) -> None:
        """Waits for the work and gives the stream back; a second time does nothing."""
        self.handle.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.free()


def current_stream() -> Stream | None:
    """The calling thread's stream inside of `with stream(...)`; None: each device's own."""
    return getattr(_local, "stream", None)


@contextmanager
def stream(target: Stream) -> Iterator[Stream]:
    """Copies and fills inside of the block go to this stream where they name none; Paddle's ops keep Paddle's."""
    before = current_stream()
    _local.stream = target
    try:
        yield target
    finally:
        _local.stream = before
