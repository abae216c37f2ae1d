"""The C ABI by ctypes, for what the Python API does not offer: work that nobody waits for, host callbacks, addresses.

All calls raise the exception of their status (unihal.errors). Handles and memory belong to a Bench, which gives
everything back at the end of its block.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import ExitStack, suppress
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import errors
from ..device import MEMORY_KINDS, MemoryKind
from ..paths import library_dir

if TYPE_CHECKING:
    from types import TracebackType

    from ..device import Device
    from .case import Array

HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE = range(3)

_HostFunction = ctypes.CFUNCTYPE(None, c_void_p)


class _ErrorRecord(ctypes.Structure):
    """uhal_error."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("status", c_int32),
        ("native_code", c_int32),
        ("native_name", c_char_p),
        ("message", c_char_p),
        ("op", c_char_p),
        ("device", c_char_p),
        ("file", c_char_p),
        ("line", c_int32),
    )


class Tensor(ctypes.Structure):
    """uhal_tensor."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("data", c_void_p),
        ("dtype", c_int32),
        ("rank", c_int32),
        ("shape", c_int64 * 10),
        ("strides", c_int64 * 10),
    )


class FillAttributes(ctypes.Structure):
    """uhal_fill_attributes."""

    _fields_ = (("struct_size", c_size_t), ("value", c_double), ("integer_value", c_int64))


class Op(ctypes.Structure):
    """uhal_op."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("kind", c_int32),
        ("input_count", c_int32),
        ("output_count", c_int32),
        ("reserved", c_int32),
        ("inputs", c_void_p),
        ("outputs", c_void_p),
        ("attributes", c_void_p),
        ("label", c_char_p),
    )


class PointerInfo(ctypes.Structure):
    """uhal_pointer_info."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("device", c_void_p),
        ("base", c_void_p),
        ("bytes", c_size_t),
        ("kind", c_int32),
    )


@cache
def _library() -> ctypes.CDLL:
    # The file that the package's own module uses, so that both see the same devices.
    library = ctypes.CDLL(str(Path(library_dir()) / "libunihal.so"))
    library.uhal_last_error.restype = POINTER(_ErrorRecord)
    library.uhal_status_name.restype = c_char_p
    return library


def call(function: str, *arguments: Any) -> None:
    """Calls a function that returns a status."""
    library = _library()
    status = getattr(library, function)(*arguments)
    if status == 0:
        return
    record = library.uhal_last_error().contents
    name = library.uhal_status_name(status).decode()
    fields = {"code": status, "status": name, "op": record.op.decode(errors="replace")}
    raise errors.from_record(record.message.decode(errors="replace"), fields)


def device_handle(device: Device) -> c_void_p:
    """The device in the C ABI."""
    handle = c_void_p()
    call("uhal_device_get", device.type.encode(), c_int32(device.ordinal), ctypes.byref(handle))
    return handle


class Event:
    """A uhal_event."""

    def __init__(self, device: Device) -> None:
        self.handle = c_void_p()
        call("uhal_event_create", device_handle(device), ctypes.byref(self.handle))

    def query(self) -> bool:
        """Whether the last record was reached."""
        done = c_int32(-1)
        call("uhal_event_query", self.handle, ctypes.byref(done))
        return done.value == 1

    def synchronize(self) -> None:
        """Waits for the last record."""
        call("uhal_event_synchronize", self.handle)

    def nanoseconds_until(self, end: Event) -> int:
        """Device time between two events."""
        nanoseconds = c_int64(-1)
        call("uhal_event_elapsed_nanoseconds", self.handle, end.handle, ctypes.byref(nanoseconds))
        return nanoseconds.value

    def destroy(self) -> None:
        """Destroys the event; the handle is kept."""
        call("uhal_event_destroy", self.handle)


class Stream:
    """A uhal_stream."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.handle = c_void_p()
        self._callbacks: list[Any] = []
        call("uhal_stream_create", device_handle(device), ctypes.byref(self.handle))

    def copy(self, destination: int, source: int, count: int, kind: int) -> None:
        """Submits a copy between two addresses."""
        call("uhal_copy", self.handle, c_void_p(destination), c_void_p(source), c_size_t(count), c_int32(kind))

    def upload(self, destination: int, source: Array) -> None:
        """Submits a copy of a host array, which must stay as it is until then."""
        self.copy(destination, source.ctypes.data, source.nbytes, HOST_TO_DEVICE)

    def download(self, destination: Array, source: int) -> None:
        """Submits a copy to a host array."""
        self.copy(destination.ctypes.data, source, destination.nbytes, DEVICE_TO_HOST)

    def move(self, destination: int, source: int, count: int) -> None:
        """Submits a copy within the device."""
        self.copy(destination, source, count, DEVICE_TO_DEVICE)

    def fill(self, destination: int, pattern: bytes, count: int) -> None:
        """Submits a fill of ``count`` bytes."""
        self.fill_from(destination, ctypes.create_string_buffer(pattern, len(pattern)), len(pattern), count)

    def fill_from(self, destination: int, pattern: Any, pattern_bytes: int, count: int) -> None:
        """Submits a fill with what a ctypes array holds at this moment."""
        size = c_size_t(pattern_bytes)
        call("uhal_memory_fill", self.handle, c_void_p(destination), pattern, size, c_size_t(count))

    def launch(self, op: Op) -> None:
        """Submits an op."""
        call("uhal_launch", self.handle, ctypes.byref(op))

    def wait(self, event: Event) -> None:
        """Lets later work wait for an event."""
        call("uhal_stream_wait_event", self.handle, event.handle)

    def record(self, event: Event) -> None:
        """Records an event at the present end."""
        call("uhal_event_record", event.handle, self.handle)

    def callback(self, function: Callable[[], None]) -> None:
        """Submits a call of a function on the host."""
        wrapped = _HostFunction(lambda _: function())
        self._callbacks.append(wrapped)
        call("uhal_stream_host_callback", self.handle, wrapped, c_void_p())

    def query(self) -> bool:
        """Whether all work has run."""
        done = c_int32(-1)
        call("uhal_stream_query", self.handle, ctypes.byref(done))
        return done.value == 1

    def synchronize(self) -> None:
        """Waits for all work."""
        call("uhal_stream_synchronize", self.handle)

    def destroy(self) -> None:
        """Waits and destroys the stream; the handle is kept."""
        call("uhal_stream_destroy", self.handle)


class Memory:
    """An allocation."""

    def __init__(self, device: Device, count: int, kind: MemoryKind = "device", stream: Stream | None = None) -> None:
        self.device = device
        self.count = count
        pointer = c_void_p()
        queue = stream.handle if stream is not None else c_void_p()
        handle = device_handle(device)
        call("uhal_allocate", handle, queue, c_int32(MEMORY_KINDS[kind]), c_size_t(count), ctypes.byref(pointer))
        self.address = pointer.value or 0

    def free(self, stream: Stream | None = None) -> None:
        """Gives the memory back once the stream's work has passed."""
        queue = stream.handle if stream is not None else c_void_p()
        call("uhal_free", device_handle(self.device), queue, c_void_p(self.address))
        self.address = 0

    def host_view(self) -> Array:
        """The bytes of pinned or managed memory, as the host sees them."""
        return np.ctypeslib.as_array((ctypes.c_uint8 * self.count).from_address(self.address))


class Graph:
    """A uhal_graph: what is submitted to a stream in the ``with`` block. UnimplementedError where there are none."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.handle = c_void_p()

    def __enter__(self) -> Graph:
        call("uhal_graph_capture_begin", self.stream.handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            call("uhal_graph_capture_cancel", self.stream.handle)
        else:
            call("uhal_graph_capture_end", self.stream.handle, ctypes.byref(self.handle))

    def launch(self, stream: Stream | None = None) -> None:
        """Submits the graph."""
        call("uhal_graph_launch", self.handle, (stream or self.stream).handle)

    def destroy(self) -> None:
        """Waits for the launches and destroys the graph; the handle is kept."""
        call("uhal_graph_destroy", self.handle)


class Bench:
    """Streams, events and memory that are given back at the end of the ``with`` block, after all work has run."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._stack = ExitStack()

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def stream(self) -> Stream:
        """A stream."""
        stream = Stream(self.device)
        self._stack.callback(self._destroy, stream)
        return stream

    def event(self) -> Event:
        """An event."""
        event = Event(self.device)
        self._stack.callback(self._destroy, event)
        return event

    def memory(self, count: int, kind: MemoryKind = "device", stream: Stream | None = None) -> Memory:
        """An allocation."""
        memory = Memory(self.device, count, kind, stream)
        self._stack.callback(self._free, memory)
        return memory

    def graph(self, stream: Stream) -> Graph:
        """A graph, to be captured."""
        graph = Graph(stream)
        self._stack.callback(self._destroy, graph)
        return graph

    @staticmethod
    def _destroy(owned: Stream | Event | Graph) -> None:
        # Some checks destroy what they test.
        with suppress(errors.InvalidArgumentError):
            owned.destroy()

    def _free(self, memory: Memory) -> None:
        if memory.address:
            # The streams that used it may still be alive, and their work under way.
            call("uhal_device_synchronize", device_handle(self.device))
            memory.free()


def pointer_info(address: int) -> PointerInfo:
    """The live allocation around an address."""
    info = PointerInfo(struct_size=ctypes.sizeof(PointerInfo))
    call("uhal_pointer_query", c_void_p(address), ctypes.byref(info))
    return info


def copy_peer(
    stream: Stream, destination_device: Device, destination: int, source_device: Device, source: int, count: int
) -> None:
    """Submits a copy between two devices."""
    call(
        "uhal_copy_peer",
        stream.handle,
        device_handle(destination_device),
        c_void_p(destination),
        device_handle(source_device),
        c_void_p(source),
        c_uint64(count),
    )
