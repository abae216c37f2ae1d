"""Checks of graphs: captured work gives what the same work gives when it is submitted, at each launch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

import numpy as np

from .. import dtypes, errors, op_kinds, ops
from ..buffer import Buffer
from ..graphs import capture
from ..stream import Stream as QueueOfBuffers
from .abi import DEVICE_TO_HOST, HOST_TO_DEVICE, Bench, FillAttributes, Op, Tensor
from .abi import Graph as RawGraph
from .case import Array, Check
from .outcome import GapError
from .queues import refused
from .session import Session

_BYTES = 1 << 20
#: Launches of one graph, each on other data.
_ROUNDS = 4


def cases(seed: int) -> Iterator[Check]:
    """The checks of graphs."""
    for function in (
        _captured_work_does_not_run,
        _a_chain_of_ops,
        _memory_is_used_again_within_a_capture,
        _fills_and_copies,
        _pinned_memory_is_read_at_the_launch,
        _arguments_are_read_at_the_capture,
        _work_around_a_launch_keeps_its_order,
        _launches_on_two_streams,
        _two_graphs,
        _a_graph_is_destroyed_while_it_runs,
        _a_graph_outlives_its_stream,
        _bad_indices_come_out_at_each_launch,
        _what_cannot_be_captured_is_refused,
        _freed_memory_is_found,
    ):
        yield Check("graphs", function.__name__.strip("_"), function)


def require_graphs(session: Session) -> None:
    """Raises GapError where the backend, or a check that is on, has no captures."""
    with Bench(session.device) as bench:
        try:
            with bench.graph(bench.stream()):
                pass
        except errors.UnimplementedError as error:
            raise GapError(str(error)) from None
        except errors.FailedPreconditionError as error:
            if "UNIHAL_CHECK_" not in str(error):
                raise
            raise GapError(str(error)) from None


def _upload(session: Session, array: Array, stream: QueueOfBuffers) -> Buffer:
    return Buffer.from_numpy(array, session.device, stream=stream)


def _assert_bytes(host: Array, expected: int, what: str) -> None:
    wrong = np.flatnonzero(host != expected)
    assert wrong.size == 0, f"{what}: {wrong.size} bytes are not {expected}, the first one is {host[wrong[0]]}"


def _assert_close(seen: Array, expected: Array, what: str) -> None:
    # The same arithmetic, perhaps by another kernel than outside the capture.
    scale = max(float(np.abs(expected).max()), 1e-3)
    worst = float(np.abs(seen - expected).max())
    assert worst <= 1e-4 * scale, f"{what}: off by {worst}, of numbers up to {scale}"


# -- what they compute


def _captured_work_does_not_run(session: Session) -> None:
    require_graphs(session)
    with Bench(session.device) as bench:
        stream, memory, host = bench.stream(), bench.memory(_BYTES), np.zeros(_BYTES, np.uint8)
        stream.fill(memory.address, b"\1", _BYTES)
        with bench.graph(stream) as graph:
            stream.fill(memory.address, b"\2", _BYTES)
        stream.download(host, memory.address)
        stream.synchronize()
        _assert_bytes(host, 1, "after a capture")
        graph.launch()
        stream.download(host, memory.address)
        stream.synchronize()
        _assert_bytes(host, 2, "after a launch")


def _chain(x: Buffer, weights: Buffer, stream: QueueOfBuffers) -> Buffer:
    for _ in range(3):
        y = ops.relu(ops.matmul(x, weights, stream=stream), stream=stream)
        x = ops.add(ops.softmax(y, stream=stream), x, stream=stream)
    return ops.sum(x, 0, stream=stream)


def _a_chain_of_ops(session: Session) -> None:
    require_graphs(session)
    generator = session.generator("a chain of ops")
    rounds = [generator.normal(size=(48, 64)).astype(np.float32) for _ in range(_ROUNDS)]
    with QueueOfBuffers(session.device) as stream:
        weights = _upload(session, generator.normal(size=(64, 64)).astype(np.float32), stream)
        expected = [_chain(_upload(session, x, stream), weights, stream).numpy(stream=stream) for x in rounds]
        x = _upload(session, rounds[0], stream)
        with capture(stream) as graph:
            y = _chain(x, weights, stream)
        with graph:
            assert graph.work_count >= 13, f"the graph holds {graph.work_count} pieces of work, expected 13 at least"
            for turn in (*range(_ROUNDS), 0):
                x.copy_from(rounds[turn], stream=stream)
                graph.replay()
                _assert_close(y.numpy(stream=stream), expected[turn], f"launch on data {turn}")


def _memory_is_used_again_within_a_capture(session: Session) -> None:
    require_graphs(session)
    with QueueOfBuffers(session.device) as stream:
        x = _upload(session, np.arange(1000, dtype=np.float32), stream)
        before = session.device.memory_stats().reserved_bytes
        with capture(stream) as graph:
            y = x
            for _ in range(50):  # each gives back what the one before it wrote
                y = ops.add(y, x, stream=stream)
        grown = session.device.memory_stats().reserved_bytes - before
        strangers = [_upload(session, np.full(1000, -1, np.float32), stream) for _ in range(4)]
        with graph:
            for _ in range(_ROUNDS):
                graph.replay()
                _assert_close(y.numpy(stream=stream), np.arange(1000, dtype=np.float32) * 51, "a sum of 51 terms")
            for stranger in strangers:
                assert (stranger.numpy(stream=stream) == -1).all(), "a launch wrote to memory that is not the graph's"
        assert grown <= 64 << 20, f"a capture with two live buffers took {grown} bytes of new memory"


def _fills_and_copies(session: Session) -> None:
    require_graphs(session)
    with Bench(session.device) as bench:
        stream, first, second = bench.stream(), bench.memory(_BYTES), bench.memory(_BYTES)
        host = np.zeros(_BYTES, np.uint8)
        with bench.graph(stream) as graph:
            for pattern in (b"\1", b"\2\3", b"\4\5\6\7", b"12345678", b"0123456789abcdef"):
                stream.fill(first.address, pattern, _BYTES)
            stream.move(second.address, first.address, _BYTES)
            stream.fill(first.address, b"\t", _BYTES)
        for _ in range(_ROUNDS):
            stream.fill(second.address, b"\0", _BYTES)
            graph.launch()
            stream.download(host, second.address)
            stream.synchronize()
            expected = np.frombuffer(b"0123456789abcdef" * (_BYTES // 16), np.uint8)
            assert np.array_equal(host, expected), "a copy in a graph does not see the fill before it"
            stream.download(host, first.address)
            stream.synchronize()
            _assert_bytes(host, 9, "a fill behind a copy")


def _pinned_memory_is_read_at_the_launch(session: Session) -> None:
    require_graphs(session)
    with Bench(session.device) as bench:
        stream, memory = bench.stream(), bench.memory(_BYTES)
        try:
            source, target = bench.memory(_BYTES, "pinned"), bench.memory(_BYTES, "pinned")
        except errors.UnimplementedError as error:
            raise GapError(str(error)) from None
        with bench.graph(stream) as graph:
            stream.copy(memory.address, source.address, _BYTES, HOST_TO_DEVICE)
            stream.copy(target.address, memory.address, _BYTES, DEVICE_TO_HOST)
        for number in range(1, _ROUNDS):
            source.host_view()[:] = number
            graph.launch()
            stream.synchronize()
            _assert_bytes(target.host_view(), number, f"launch {number}")


def _arguments_are_read_at_the_capture(session: Session) -> None:
    require_graphs(session)
    with Bench(session.device) as bench:
        stream, memory = bench.stream(), bench.memory(256)
        view = Tensor(struct_size=ctypes.sizeof(Tensor), data=memory.address, dtype=dtypes.number("float32"), rank=1)
        view.shape[0], view.strides[0] = 64, 1
        outputs = (ctypes.c_void_p * 1)(ctypes.addressof(view))
        attributes = FillAttributes(struct_size=ctypes.sizeof(FillAttributes), value=2.5)
        op = Op(
            struct_size=ctypes.sizeof(Op),
            kind=op_kinds.number("fill"),
            output_count=1,
            outputs=ctypes.addressof(outputs),
            attributes=ctypes.addressof(attributes),
        )
        with bench.graph(stream) as graph:
            stream.launch(op)
        attributes.value, view.data, view.shape[0] = 7.0, 0, 1
        host = np.zeros(64, np.float32)
        graph.launch()
        stream.download(host, memory.address)
        stream.synchronize()
        assert (host == 2.5).all(), f"a captured fill with 2.5 wrote {host[0]}: its call was not copied"


# -- order


def _work_around_a_launch_keeps_its_order(session: Session) -> None:
    require_graphs(session)
    with Bench(session.device) as bench:
        stream, first, second = bench.stream(), bench.memory(_BYTES), bench.memory(_BYTES)
        hosts = [np.zeros(_BYTES, np.uint8) for _ in range(_ROUNDS)]
        with bench.graph(stream) as graph:
            stream.move(second.address, first.address, _BYTES)
        for number, host in enumerate(hosts):
            stream.fill(first.address, bytes([number + 1]), _BYTES)
            graph.launch()
            stream.fill(first.address, b"\xff", _BYTES)
            stream.download(host, second.address)
        stream.synchronize()
        for number, host in enumerate(hosts):
            _assert_bytes(host, number + 1, f"launch {number}")


def _launches_on_two_streams(session: Session) -> None:
    require_graphs(session)
    with QueueOfBuffers(session.device) as first, QueueOfBuffers(session.device) as second:
        counter, ones = (_upload(session, np.full(_BYTES // 4, value, np.int32), first) for value in (0, 1))
        with capture(first) as graph:
            ops.add(counter, ones, out=counter, stream=first)
        with graph:
            for turn in range(20):  # launches that overlapped would lose additions
                graph.replay((first, second)[turn % 2])
            first.synchronize()
            second.synchronize()
        total = counter.numpy(stream=first)
        assert (total == 20).all(), f"20 launches on two streams added {total.min()} to {total.max()}"


def _two_graphs(session: Session) -> None:
    require_graphs(session)
    with QueueOfBuffers(session.device) as stream:
        x = _upload(session, np.full(1000, 3, np.float32), stream)
        with capture(stream) as double:
            doubled = ops.add(x, x, stream=stream)
        with capture(stream) as square:
            squared = ops.multiply(doubled, doubled, stream=stream)
        for value in (3, 5):
            x.copy_from(np.full(1000, value, np.float32), stream=stream)
            double.replay()
            square.replay()
            seen = squared.numpy(stream=stream)
            assert (seen == (2 * value) ** 2).all(), f"(2 * {value}) ** 2 by two graphs is {seen[0]}"
        double.close()
        doubled.copy_from(np.full(1000, 7, np.float32), stream=stream)
        square.replay()
        assert (squared.numpy(stream=stream) == 49).all(), "a graph is wrong after another one was destroyed"
        square.close()


# -- the end


def _a_graph_is_destroyed_while_it_runs(session: Session) -> None:
    require_graphs(session)
    with Bench(session.device) as bench:
        stream, memory, host = bench.stream(), bench.memory(_BYTES), np.zeros(_BYTES, np.uint8)
        with bench.graph(stream) as graph:
            scratch = bench.memory(_BYTES, stream=stream)
            for number in range(20):
                stream.fill(scratch.address, bytes([number + 1]), _BYTES)
                stream.move(memory.address, scratch.address, _BYTES)
            scratch.free(stream)
        for _ in range(_ROUNDS):
            graph.launch()
        graph.destroy()
        stranger = bench.memory(_BYTES, stream=stream)
        stream.fill(stranger.address, b"\xff", _BYTES)
        stream.download(host, memory.address)
        stream.synchronize()
        _assert_bytes(host, 20, "after a graph that was destroyed at once")
        refused("INVALID_ARGUMENT", graph.launch)


def _a_graph_outlives_its_stream(session: Session) -> None:
    require_graphs(session)
    with QueueOfBuffers(session.device) as stream:
        x = _upload(session, np.ones((32, 32), np.float32), stream)
        rows = _indices(session, [0, 31], stream)
        with QueueOfBuffers(session.device) as other, capture(other) as graph:
            # A product may use memory that the backend keeps for the stream, and so does the check of indices.
            y = ops.matmul(ops.matmul(x, x, stream=other), x, stream=other)
            z = ops.gather(y, rows, stream=other)
        with graph:
            for _ in range(_ROUNDS):
                graph.replay(stream)
                assert (z.numpy(stream=stream) == 32 * 32).all(), (
                    "a launch after the end of the capturing stream is wrong"
                )


def _indices(session: Session, values: list[int], stream: QueueOfBuffers) -> Buffer:
    indices = _upload(session, np.array(values, np.int64), stream)
    stream.synchronize()
    return indices


def _bad_indices_come_out_at_each_launch(session: Session) -> None:
    require_graphs(session)
    with QueueOfBuffers(session.device) as stream:
        x = _upload(session, np.arange(10, dtype=np.float32), stream)
        indices = _indices(session, [0, 1, 10], stream)
        with capture(stream) as graph:
            y = ops.gather(x, indices, stream=stream)
        with graph:
            stream.synchronize()  # nothing ran, so nothing was wrong
            for _ in range(2):
                graph.replay()
                refused("OUT_OF_RANGE", stream.synchronize)
            indices.copy_from(np.array([0, 1, 9]), stream=stream)
            graph.replay()
            stream.synchronize()
            assert y.numpy(stream=stream).tolist() == [0, 1, 9], "a gather in a graph is wrong after one that failed"


# -- refusals


def _what_cannot_be_captured_is_refused(session: Session) -> None:
    require_graphs(session)
    with Bench(session.device) as bench:
        stream, other, event = bench.stream(), bench.stream(), bench.event()
        memory, host = bench.memory(_BYTES), np.zeros(_BYTES, np.uint8)
        other.record(event)
        with bench.graph(stream) as graph:
            stream.fill(memory.address, b"\3", _BYTES)
            calls: list[tuple[Callable[..., object], tuple[object, ...]]] = [
                (stream.synchronize, ()),
                (stream.query, ()),
                (stream.upload, (memory.address, host)),
                (stream.download, (host, memory.address)),
                (stream.callback, (lambda: None,)),
                (stream.wait, (event,)),
                (RawGraph(stream).__enter__, ()),
            ]
            for function, arguments in calls:
                refused("FAILED_PRECONDITION", function, *arguments)
            stream.record(event)
            stream.wait(event)  # of its own place
            refused("FAILED_PRECONDITION", other.wait, event)
        graph.launch()
        stream.download(host, memory.address)
        stream.synchronize()
        _assert_bytes(host, 3, "a capture in which calls were refused")


def _freed_memory_is_found(session: Session) -> None:
    require_graphs(session)
    with QueueOfBuffers(session.device) as stream:
        x = _upload(session, np.ones(1000, np.float32), stream)
        with capture(stream) as graph:
            y = ops.add(x, x, stream=stream)
        with graph:
            graph.replay()
            y.close()  # which is the graph's
            graph.replay()
            x.close()
            refused("FAILED_PRECONDITION", graph.replay)
