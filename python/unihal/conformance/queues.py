"""Checks of streams, events and host callbacks: what is ordered, and when it is done.

They need copies and fills only, which every backend has. Work is made long enough that what is not waited for is seen.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np

from .. import dtypes, errors, op_kinds
from .abi import Bench, FillAttributes, Memory, Op, Stream, Tensor
from .case import Array, Check
from .outcome import GapError
from .session import Session

_BYTES = 1 << 20
_ROUNDS = 8
#: Seconds that make work long enough for what is not waited for.
_MOMENT = 0.01


def cases(seed: int) -> Iterator[Check]:
    """The checks of streams and events."""
    for op, functions in (("streams", _STREAMS), ("events", _EVENTS)):
        for function in functions:
            yield Check(op, function.__name__.strip("_"), function)


def refused(status: str, function: Callable[..., object], *arguments: object) -> None:
    """Asserts that a call is refused with a status."""
    try:
        function(*arguments)
    except errors.Error as error:
        assert error.status == status, f"refused with {error.status} ({error}), expected {status}"
    else:
        raise AssertionError(f"the call succeeds; expected {status}")


def _pattern(number: int) -> bytes:
    return bytes([number % 251 + 1])


def _assert_filled(host: Array, number: int, what: str) -> None:
    expected = _pattern(number)[0]
    wrong = np.flatnonzero(host != expected)
    assert wrong.size == 0, f"{what}: {wrong.size} bytes are not {expected}, the first one is {host[wrong[0]]}"


def _chain(stream: Stream, first: Memory, second: Memory, host: Array, number: int) -> None:
    """Fills and copies that give ``number`` only if each of them waits for the one before."""
    for step in range(_ROUNDS):
        stream.fill(first.address, _pattern(number + 100 + step), _BYTES)
        stream.move(second.address, first.address, _BYTES)
    stream.fill(second.address, _pattern(number), _BYTES)
    stream.move(first.address, second.address, _BYTES)
    stream.fill(second.address, _pattern(number + 50), _BYTES)
    stream.download(host, first.address)


# -- streams


def _work_runs_in_order(session: Session) -> None:
    with Bench(session.device) as bench:
        stream = bench.stream()
        host = np.zeros(_BYTES, np.uint8)
        _chain(stream, bench.memory(_BYTES), bench.memory(_BYTES), host, 7)
        stream.synchronize()
        _assert_filled(host, 7, "after a chain of fills and copies")


def _streams_run_side_by_side(session: Session) -> None:
    with Bench(session.device) as bench:
        streams = [bench.stream() for _ in range(4)]
        hosts = [np.zeros(_BYTES, np.uint8) for _ in streams]
        for number, (stream, host) in enumerate(zip(streams, hosts)):
            _chain(stream, bench.memory(_BYTES), bench.memory(_BYTES), host, number)
        for stream in reversed(streams):
            stream.synchronize()
        for number, host in enumerate(hosts):
            _assert_filled(host, number, f"stream {number} of {len(streams)}")


def _streams_of_several_threads(session: Session) -> None:
    failures: list[str] = []

    def work(number: int) -> None:
        try:
            with Bench(session.device) as bench:
                stream = bench.stream()
                host = np.zeros(_BYTES, np.uint8)
                _chain(stream, bench.memory(_BYTES), bench.memory(_BYTES), host, number)
                stream.synchronize()
                _assert_filled(host, number, f"thread {number}")
        except (AssertionError, errors.Error) as error:
            failures.append(str(error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, "; ".join(failures)


def _a_device_waits_for_all_streams(session: Session) -> None:
    with Bench(session.device) as bench:
        streams = [bench.stream() for _ in range(3)]
        hosts = [np.zeros(_BYTES, np.uint8) for _ in streams]
        for number, (stream, host) in enumerate(zip(streams, hosts)):
            _chain(stream, bench.memory(_BYTES), bench.memory(_BYTES), host, number)
        session.device.synchronize()
        for number, (stream, host) in enumerate(zip(streams, hosts)):
            assert stream.query(), f"stream {number} still has work after the device was synchronized"
            _assert_filled(host, number, f"stream {number}")


def _a_query_tells_when_work_has_run(session: Session) -> None:
    with Bench(session.device) as bench:
        stream = bench.stream()
        assert stream.query(), "a stream without work must be done"
        host = np.zeros(_BYTES, np.uint8)
        _chain(stream, bench.memory(_BYTES), bench.memory(_BYTES), host, 3)
        while not stream.query():
            pass
        _assert_filled(host, 3, "after a query said that the work has run")
        stream.synchronize()
        assert stream.query(), "a synchronized stream must be done"


def _destroying_waits(session: Session) -> None:
    with Bench(session.device) as bench:
        stream = bench.stream()
        host = np.zeros(_BYTES, np.uint8)
        _chain(stream, bench.memory(_BYTES), bench.memory(_BYTES), host, 9)
        stream.destroy()
        _assert_filled(host, 9, "after the stream was destroyed")


def _a_destroyed_stream_is_refused(session: Session) -> None:
    with Bench(session.device) as bench:
        stream, event, memory = bench.stream(), bench.event(), bench.memory(64)
        stream.destroy()
        refused("INVALID_ARGUMENT", stream.synchronize)
        refused("INVALID_ARGUMENT", stream.query)
        refused("INVALID_ARGUMENT", stream.destroy)
        refused("INVALID_ARGUMENT", stream.wait, event)
        refused("INVALID_ARGUMENT", stream.record, event)
        refused("INVALID_ARGUMENT", stream.fill, memory.address, b"\1", 64)


def _callbacks_come_in_order(session: Session) -> None:
    with Bench(session.device) as bench:
        stream, first, second = bench.stream(), bench.memory(_BYTES), bench.memory(_BYTES)
        hosts = [np.zeros(_BYTES, np.uint8) for _ in range(_ROUNDS)]
        seen: list[tuple[int, int]] = []
        for number, host in enumerate(hosts):
            # Enough work that a callback which does not wait for it is early.
            _chain(stream, first, second, host, number)
            stream.callback(lambda number=number, host=host: seen.append((number, int(host[-1]))))  # type: ignore[misc]
        stream.synchronize()
        expected = [(number, _pattern(number)[0]) for number in range(len(hosts))]
        assert seen == expected, f"callbacks saw {seen} (number, last byte of the copy before), expected {expected}"


def _copies_see_what_callbacks_wrote(session: Session) -> None:
    """Ordinary host memory is read and written in the order of the streams, not when a copy is submitted."""
    with Bench(session.device) as bench:
        first, second, event = bench.stream(), bench.stream(), bench.event()
        memories = [bench.memory(_BYTES), bench.memory(_BYTES)]
        written, read, elsewhere = (np.zeros(_BYTES, np.uint8) for _ in range(3))
        seen: list[int] = []

        def write() -> None:
            time.sleep(_MOMENT)
            written.fill(_pattern(3)[0])

        for _ in range(2):  # the second time what the first has left over may serve again
            for host in (written, read, elsewhere):
                host.fill(0)
            seen.clear()
            first.callback(write)
            first.upload(memories[0].address, written)
            first.download(read, memories[0].address)
            first.callback(lambda: seen.append(int(read[-1])))
            first.record(event)
            second.wait(event)
            second.upload(memories[1].address, written)
            second.download(elsewhere, memories[1].address)
            second.synchronize()
            first.synchronize()
            _assert_filled(read, 3, "what a callback wrote, copied behind it")
            _assert_filled(elsewhere, 3, "what a callback wrote, copied by a stream that waits for it")
            expected = _pattern(3)[0]
            assert seen == [expected], f"a callback behind the copies saw {seen}, expected {expected}"


def _arguments_are_read_at_the_call(session: Session) -> None:
    """What describes a fill or an op is the caller's again when the call returns."""
    with Bench(session.device) as bench:
        stream, memory = bench.stream(), bench.memory(_BYTES)
        host = np.zeros(_BYTES, np.uint8)
        pattern = (ctypes.c_uint8 * 16)(*[7] * 16)
        _occupy(stream)
        stream.fill_from(memory.address, pattern, 16, _BYTES)
        ctypes.memset(pattern, 0x55, 16)
        stream.download(host, memory.address)
        stream.synchronize()
        _assert_filled(host, 6, "a pattern that was overwritten after the call")

        attributes = FillAttributes(ctypes.sizeof(FillAttributes), 0.0, 9)
        view = Tensor(ctypes.sizeof(Tensor), memory.address, dtypes.number("uint8"), 1)
        view.shape[0], view.strides[0] = _BYTES, 1
        outputs = (ctypes.c_void_p * 1)(ctypes.addressof(view))
        op = Op(ctypes.sizeof(Op), op_kinds.number("fill"), 0, 1, 0, None)
        op.outputs, op.attributes = ctypes.addressof(outputs), ctypes.addressof(attributes)
        _occupy(stream)
        try:
            stream.launch(op)
        except errors.UnimplementedError as error:
            raise GapError(str(error)) from None
        for description in (op, outputs, view, attributes):
            ctypes.memset(ctypes.addressof(description), 0x55, ctypes.sizeof(description))
        stream.download(host, memory.address)
        stream.synchronize()
        _assert_filled(host, 8, "an op whose description was overwritten after the call")


def _occupy(stream: Stream) -> None:
    """Lets the stream's later work wait a while, if the backend has streams that work on their own."""
    stream.callback(lambda: time.sleep(_MOMENT))


# -- events


def _a_stream_waits_for_an_event(session: Session) -> None:
    with Bench(session.device) as bench:
        producer, consumer, event = bench.stream(), bench.stream(), bench.event()
        source, target = bench.memory(_BYTES), bench.memory(_BYTES)
        hosts = [np.zeros(_BYTES, np.uint8) for _ in range(_ROUNDS)]
        for number, host in enumerate(hosts):
            producer.fill(source.address, _pattern(number + 99), _BYTES)
            producer.fill(source.address, _pattern(number), _BYTES)
            producer.record(event)
            consumer.wait(event)
            consumer.move(target.address, source.address, _BYTES)
            consumer.download(host, target.address)
            consumer.record(event)
            producer.wait(event)
        consumer.synchronize()
        for number, host in enumerate(hosts):
            _assert_filled(host, number, f"round {number} of two streams that wait for each other")


def _a_wait_is_for_the_record_before_it(session: Session) -> None:
    with Bench(session.device) as bench:
        producer, consumer, event = bench.stream(), bench.stream(), bench.event()
        first, second = bench.memory(_BYTES), bench.memory(_BYTES)
        hosts = [np.zeros(_BYTES, np.uint8) for _ in range(2)]
        producer.fill(first.address, _pattern(1), _BYTES)
        producer.record(event)
        consumer.wait(event)
        consumer.download(hosts[0], first.address)
        producer.fill(second.address, _pattern(2), _BYTES)
        producer.record(event)
        consumer.wait(event)
        consumer.download(hosts[1], second.address)
        consumer.synchronize()
        _assert_filled(hosts[0], 1, "after the first record")
        _assert_filled(hosts[1], 2, "after the second record")


def _an_event_without_a_record_is_reached(session: Session) -> None:
    with Bench(session.device) as bench:
        stream, event = bench.stream(), bench.event()
        assert event.query(), "an event that was never recorded must count as reached"
        event.synchronize()
        stream.wait(event)
        stream.synchronize()


def _an_event_is_reached_after_its_work(session: Session) -> None:
    with Bench(session.device) as bench:
        stream, event = bench.stream(), bench.event()
        host = np.zeros(_BYTES, np.uint8)
        _chain(stream, bench.memory(_BYTES), bench.memory(_BYTES), host, 5)
        stream.record(event)
        event.synchronize()
        _assert_filled(host, 5, "after the event was synchronized")
        assert event.query(), "a synchronized event must be reached"


def _an_event_query_tells_when_work_has_run(session: Session) -> None:
    with Bench(session.device) as bench:
        stream, event = bench.stream(), bench.event()
        first, second = bench.memory(_BYTES), bench.memory(_BYTES)
        for number in range(_ROUNDS):
            host = np.zeros(_BYTES, np.uint8)
            _occupy(stream)
            _chain(stream, first, second, host, number)
            stream.record(event)
            while not event.query():
                pass
            seen = host.copy()
            # The copy writes to the array until then, whatever the query says.
            stream.synchronize()
            _assert_filled(seen, number, "after a query said that the event was reached")


def _assert_duration(elapsed: int, least: int, most: float, what: str) -> None:
    """Two clocks may differ a little, and the device's may be a coarse one."""
    slack = 1e6 + 0.05 * least
    assert least - slack <= elapsed <= most + slack, (
        f"{what}: {elapsed} ns of device time, while between {least} and {most:.0f} passed on the host"
    )


def _elapsed_time_is_the_hosts(session: Session) -> None:
    """A pause of the host between two records is a pause between the events, of the same length."""
    with Bench(session.device) as bench:
        stream, start, end = bench.stream(), bench.event(), bench.event()
        for pause in (0.02, 0.06):
            before = time.perf_counter_ns()
            stream.record(start)
            start.synchronize()
            reached = time.perf_counter_ns()
            time.sleep(pause)
            least = time.perf_counter_ns() - reached
            stream.record(end)
            end.synchronize()
            most = time.perf_counter_ns() - before
            _assert_duration(start.nanoseconds_until(end), least, most, "events with a pause between them")


def _events_are_stamped_when_they_are_reached(session: Session) -> None:
    """Work between two records counts, work in front of both does not, whenever they were submitted."""
    with Bench(session.device) as bench:
        stream, start, end = bench.stream(), bench.event(), bench.event()
        times: list[int] = []

        def pause() -> None:
            times.append(time.perf_counter_ns())
            time.sleep(0.03)
            times.append(time.perf_counter_ns())

        stream.record(start)
        stream.callback(pause)
        stream.record(end)
        end.synchronize()
        least = times[1] - times[0]
        _assert_duration(start.nanoseconds_until(end), least, 60e9, "events around a callback that takes its time")
        stream.callback(pause)
        stream.record(start)
        stream.record(end)
        end.synchronize()
        most = time.perf_counter_ns() - times[3]
        _assert_duration(start.nanoseconds_until(end), 0, most, "events behind a callback that takes its time")


def _time_passes_between_events(session: Session) -> None:
    with Bench(session.device) as bench:
        stream, start, end = bench.stream(), bench.event(), bench.event()
        memory = bench.memory(_BYTES)
        refused("FAILED_PRECONDITION", start.nanoseconds_until, end)
        stream.record(start)
        for number in range(_ROUNDS):
            stream.fill(memory.address, _pattern(number), _BYTES)
        stream.record(end)
        end.synchronize()
        elapsed = start.nanoseconds_until(end)
        # No more than that it is no nonsense, such as ticks of another length.
        assert 0 <= elapsed < 60e9, f"{_ROUNDS} fills of a mebibyte took {elapsed} ns of device time"


def _a_destroyed_event_is_refused(session: Session) -> None:
    with Bench(session.device) as bench:
        stream, event = bench.stream(), bench.event()
        event.destroy()
        refused("INVALID_ARGUMENT", event.query)
        refused("INVALID_ARGUMENT", event.synchronize)
        refused("INVALID_ARGUMENT", event.destroy)
        refused("INVALID_ARGUMENT", stream.record, event)
        refused("INVALID_ARGUMENT", stream.wait, event)


def _a_wait_outlives_its_event(session: Session) -> None:
    with Bench(session.device) as bench:
        producer, consumer, event = bench.stream(), bench.stream(), bench.event()
        memory, host = bench.memory(_BYTES), np.zeros(_BYTES, np.uint8)
        for number in range(_ROUNDS):
            producer.fill(memory.address, _pattern(number), _BYTES)
        producer.record(event)
        consumer.wait(event)
        event.destroy()
        consumer.download(host, memory.address)
        consumer.synchronize()
        _assert_filled(host, _ROUNDS - 1, "behind the wait for a destroyed event")


_STREAMS = (
    _work_runs_in_order,
    _streams_run_side_by_side,
    _streams_of_several_threads,
    _a_device_waits_for_all_streams,
    _a_query_tells_when_work_has_run,
    _destroying_waits,
    _a_destroyed_stream_is_refused,
    _callbacks_come_in_order,
    _copies_see_what_callbacks_wrote,
    _arguments_are_read_at_the_call,
)
_EVENTS = (
    _a_stream_waits_for_an_event,
    _a_wait_is_for_the_record_before_it,
    _an_event_without_a_record_is_reached,
    _an_event_is_reached_after_its_work,
    _time_passes_between_events,
    _an_event_query_tells_when_work_has_run,
    _elapsed_time_is_the_hosts,
    _events_are_stamped_when_they_are_reached,
    _a_destroyed_event_is_refused,
    _a_wait_outlives_its_event,
)
