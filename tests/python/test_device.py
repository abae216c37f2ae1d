"""Devices, their properties and memory, streams and events."""

from __future__ import annotations

import numpy as np
import pytest
import unihal
from processes import run_python
from unihal import Buffer, ops


def test_names() -> None:
    device = unihal.device("rdna:0")
    assert str(device) == "rdna:0"
    assert device.type == "rdna" and device.ordinal == 0
    assert device == unihal.device("rdna") == unihal.device(device)
    assert hash(device) == hash(unihal.device("rdna"))
    assert device != unihal.device("iluvatar:0")


@pytest.mark.parametrize("name", ["rdna:", "rdna:x", "rdna:-1", "rdna:1.5", "rdna: 0", "rdna:٣"])
def test_a_malformed_name_is_refused(name: str) -> None:
    with pytest.raises(unihal.InvalidArgumentError, match="such as 'rdna:0'"):
        unihal.device(name)


def test_an_unknown_type_lists_the_known_ones() -> None:
    with pytest.raises(unihal.NotFoundError, match=r"(?s)cuda.*iluvatar.*rdna.*polaris"):
        unihal.device("cuda:0")


def test_an_ordinal_past_the_end_is_refused() -> None:
    with pytest.raises(unihal.OutOfRangeError):
        unihal.device("rdna:1")


def test_properties() -> None:
    properties = unihal.device("polaris:0").properties
    assert properties.device_type == "polaris"
    assert properties.backend == "stub" and properties.is_stub and properties.unified_memory
    assert properties.total_memory == 8 * 2**30
    assert {"float32", "float64", "float16", "bfloat16", "int64", "bool"} <= set(properties.supported_dtypes)
    assert properties.compute_units >= 1


def test_device_types() -> None:
    types = {kind.name: kind for kind in unihal.device_types()}
    assert list(types) == ["iluvatar", "rdna", "polaris"]
    assert types["rdna"].tensorflow_name == "RDNA" and types["rdna"].paddle_name == "rdna"
    assert types["rdna"].backends == ["hip", "opencl", "stub"]


def test_backend_reports() -> None:
    reports = {report.backend: report for report in unihal.backend_reports("rdna")}
    assert reports["stub"].state == "chosen" and reports["stub"].device_count == 1
    assert reports["hip"].state == "not tried"


def test_two_devices_of_a_type() -> None:
    result = run_python("import unihal; print(unihal.devices('rdna'))", UNIHAL_STUB_DEVICES="2")
    assert result.stdout.strip() == "[unihal.device('rdna:0'), unihal.device('rdna:1')]"


def test_memory_statistics(device: unihal.Device) -> None:
    before = device.memory_stats().allocated_bytes
    with Buffer((1000,), "float32", device):
        stats = device.memory_stats()
        assert stats.allocated_bytes - before >= 4000
        assert stats.reserved_bytes >= stats.allocated_bytes
    assert device.memory_stats().allocated_bytes == before
    device.reset_peak_memory_stats()
    assert device.memory_stats().peak_allocated_bytes == before


def test_empty_cache(device: unihal.Device) -> None:
    Buffer((2**20,), "float32", device).close()
    device.synchronize()
    assert device.empty_cache() > 0
    assert device.memory_stats().reserved_bytes == device.memory_stats().allocated_bytes


def test_memory_limit() -> None:
    code = """
import unihal
device = unihal.device("rdna:0")
device.set_memory_limit(16 << 20)
try:
    unihal.Buffer((64 << 20,), "uint8", device)
except MemoryError as error:
    assert isinstance(error, unihal.OutOfMemoryError) and error.status == "RESOURCE_EXHAUSTED"
    assert "limit" in str(error), error
    assert "rdna:0" in error.device, error.device
else:
    raise SystemExit("not refused")
device.set_memory_limit(0)
unihal.Buffer((64 << 20,), "uint8", device).close()
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr


def test_stream_order_across_streams(device: unihal.Device) -> None:
    with unihal.Stream(device) as first, unihal.Stream(device) as second:
        x = Buffer.from_numpy(np.full((257, 33), 2, np.float32), device, stream=first)
        y = ops.square(x, stream=first)
        second.wait(first.record())
        z = ops.add(y, 1, stream=second)
        assert (z.numpy(stream=second) == 5).all()
    assert first.closed and second.closed


def test_events_measure_time(device: unihal.Device) -> None:
    with unihal.Stream(device) as stream, unihal.Event(device) as start:
        start.record(stream)
        a = Buffer.from_numpy(np.ones((256, 256), np.float32), device, stream=stream)
        ops.matmul(a, a, stream=stream)
        end = stream.record()
        end.synchronize()
        assert end.query() and stream.query()
        assert 0 < start.elapsed_seconds(end) < 60


def test_elapsed_time_of_an_unrecorded_event_is_refused(device: unihal.Device) -> None:
    with unihal.Event(device) as start, unihal.Event(device) as end, pytest.raises(unihal.FailedPreconditionError):
        start.elapsed_seconds(end)


def test_closed_handles_are_refused(device: unihal.Device) -> None:
    stream = unihal.Stream(device)
    event = unihal.Event(device)
    for handle in (stream, event):
        handle.close()
        handle.close()
    with pytest.raises(unihal.InvalidArgumentError, match="the stream was closed"):
        stream.synchronize()
    with pytest.raises(unihal.InvalidArgumentError, match="the event was closed"):
        event.query()
    with pytest.raises(unihal.InvalidArgumentError, match="the stream was closed"):
        Buffer((1,), "float32", device, stream=stream)


def test_a_stream_of_another_device_is_refused() -> None:
    code = """
import unihal
with unihal.Stream("rdna:1") as stream:
    x = unihal.Buffer((4,), "float32", "rdna:0")
    try:
        unihal.ops.relu(x, out=x, stream=stream)
    except unihal.InvalidArgumentError as error:
        print("refused:", error)
"""
    result = run_python(code, UNIHAL_STUB_DEVICES="2")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("refused:")


def test_the_default_stream_stays_open(device: unihal.Device) -> None:
    stream = unihal.Stream.default(device)
    stream.close()
    assert not stream.closed
    stream.synchronize()


def test_a_buffer_may_hold_the_last_reference_to_its_stream(device: unihal.Device) -> None:
    before = device.memory_stats()
    for _ in range(50):
        stream = unihal.Stream(device)
        buffer = Buffer((1000,), "float32", device, stream=stream)
        del stream
    buffer.close()
    # Used on a stream later, and on one that was closed meanwhile.
    with unihal.Stream(device) as closed:
        buffer = Buffer((1000,), "float32", device)
        ops.fill(buffer, 1, stream=unihal.Stream(device))
        ops.fill(buffer, 2, stream=closed)
    del buffer
    after = device.memory_stats()
    assert (after.live_allocations, after.allocated_bytes) == (before.live_allocations, before.allocated_bytes)


# Work that takes minutes, on the strict stub, whose streams are threads, and a signal's handler that raises.
INTERRUPTED = """
import os, signal
import numpy, unihal
device = unihal.device("rdna:0")
stream = unihal.Stream(device)
event = unihal.Event(device)
x = unihal.Buffer.from_numpy(numpy.ones((700, 700), "float32"), device, stream=stream)
host = numpy.zeros((700, 700), "float32")

class Pressed(Exception):
    pass

def press(number, frame):
    raise Pressed

signal.signal(signal.SIGALRM, press)
with unihal.inject_faults(device, "slow:x10000"):
    unihal.ops.matmul(x, x, stream=stream)
    event.record(stream)
    for wait in (
        stream.synchronize,
        event.synchronize,
        device.synchronize,
        lambda: x.numpy(stream=stream),
        lambda: x.copy_from(host, stream=stream),
        lambda: unihal.Buffer.from_numpy(host, device, stream=stream),
        stream.close,
    ):
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        try:
            wait()
        except Pressed:
            assert not stream.query() and not event.query() and not stream.closed
        else:
            raise SystemExit("not interrupted")
    # What the copies use lives as long as they.
    try:
        x.close()
    except BufferError as error:
        print(error, flush=True)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    del stream
    print("given up", flush=True)
    os._exit(0)
"""


def test_waits_give_way_to_signals() -> None:
    result = run_python(INTERRUPTED, UNIHAL_STUB="strict")
    assert result.returncode == 0, result.stderr
    assert "the memory is in use" in result.stdout and "given up" in result.stdout
