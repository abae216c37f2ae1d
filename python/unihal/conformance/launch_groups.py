"""Checks of launch groups: whatever a backend holds back, and joins, ops give what they give one by one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from .. import errors, ops
from ..buffer import Buffer
from ..graphs import capture
from ..ops.launch import launch
from ..stream import Stream
from .case import Array, Check
from .graphs import require_graphs
from .map_functions import known_functions
from .outcome import GapError
from .queues import refused
from .session import Session

#: Elements of the buffers of a group: around what work-items and work-groups have, and more than one launch takes.
_SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 31, 255, 256, 257, 1000, 1023, 1024, 1025, 4096, 4099, 65537)
_MANY = (*_SIZES, *range(100, 160), *_SIZES)
_DEPTH = 40

_FUNCTIONS = ("add", "momentum", "multiply", "negative", "relu", "scale")


def cases(seed: int) -> Iterator[Check]:
    """The checks of launch groups."""
    for function in (
        _one_function_of_many_buffers,
        _functions_and_dtypes_in_turn,
        _operands_of_one_element,
        _operands_that_do_not_lie_in_units,
        _several_results,
        _steps_in_place,
        _an_op_reads_what_the_one_before_wrote,
        _an_op_overwrites_what_the_one_before_read,
        _an_op_overwrites_what_the_one_before_wrote,
        _views_of_one_buffer,
        _concatenations_and_splits,
        _copies_and_fills_between_them,
        _reductions_between_them,
        _memory_is_used_again,
        _a_wait_sees_what_was_launched,
        _another_thread_waits,
        _another_stream_waits,
        _groups_are_nested,
        _nothing_is_grouped_afterwards,
        _a_refused_op_leaves_the_others,
        _a_graph_has_them,
        _an_end_without_a_start_is_refused,
        _a_stream_ends_within_a_group,
    ):
        yield Check("launch_groups", function.__name__.strip("_"), partial(_run, function))


def _run(function: Callable[[Session], None], session: Session) -> None:
    """Runs a check; GapError where a backend lacks what all of them launch."""
    functions = known_functions()
    for name in _FUNCTIONS:
        buffers = [Buffer((4,), "float32", session.device) for _ in range(functions[name]["input_count"])]
        outputs = buffers[: functions[name]["output_count"]]
        supported, reason = session.supports("map", buffers, outputs, {"function": functions[name]["number"]})
        if not supported:
            raise GapError(reason)
    function(session)


def _map(
    function: str, inputs: Sequence[Buffer], outputs: Sequence[Buffer], stream: Stream, parameters: Sequence[float] = ()
) -> None:
    getattr(ops, function)(*inputs, parameters=parameters, out=list(outputs), stream=stream)


def _numbers(session: Session, name: str, sizes: Sequence[int]) -> list[Array]:
    generator = session.generator(name)
    return [generator.normal(size=size).astype(np.float32) for size in sizes]


def _buffers(session: Session, arrays: Sequence[Array], stream: Stream, dtype: str = "float32") -> list[Buffer]:
    uploaded = [Buffer.from_numpy(array, session.device, stream=stream) for array in arrays]
    return uploaded if dtype == "float32" else [ops.cast(buffer, dtype, stream=stream) for buffer in uploaded]


def _empty_like(buffers: Sequence[Buffer], stream: Stream) -> list[Buffer]:
    return [Buffer(buffer.shape, buffer.dtype, buffer.device, stream=stream) for buffer in buffers]


def _numbers_of(buffer: Buffer, stream: Stream) -> Array:
    wide = buffer if buffer.dtype == "float32" else ops.cast(buffer, "float32", stream=stream)
    return wide.numpy(stream=stream)


def _assert_same(seen: Sequence[Buffer], expected: Sequence[Buffer], stream: Stream, what: str) -> None:
    for number, (one, other) in enumerate(zip(seen, expected)):
        a, b = _numbers_of(one, stream), _numbers_of(other, stream)
        assert np.array_equal(a, b), f"{what}: buffer {number} is not what it is alone"


def _both_ways(session: Session, work: Callable[[Stream], Sequence[Buffer]], what: str) -> None:
    """Holds what work gives in a group against what it gives op by op."""
    with Stream(session.device) as stream:
        expected = work(stream)
        with stream.launch_group():
            seen = work(stream)
        _assert_same(seen, expected, stream, what)


# -- what they compute


def _one_function_of_many_buffers(session: Session) -> None:
    arrays, others = _numbers(session, "many", _MANY), _numbers(session, "others", _MANY)

    def work(stream: Stream) -> list[Buffer]:
        x, y = _buffers(session, arrays, stream), _buffers(session, others, stream)
        results = _empty_like(x, stream)
        for a, b, result in zip(x, y, results):
            _map("multiply", [a, b], [result], stream)
        return results

    _both_ways(session, work, "products")


def _functions_and_dtypes_in_turn(session: Session) -> None:
    arrays = _numbers(session, "in turn", _SIZES)

    def work(stream: Stream) -> list[Buffer]:
        results = []
        for dtype in ("float32", "bfloat16", "float16"):
            x = _buffers(session, arrays, stream, dtype)
            for i, a in enumerate(x):
                result = Buffer(a.shape, a.dtype if i % 3 else "float32", a.device, stream=stream)
                if i % 2:
                    _map("relu", [a], [result], stream)
                else:
                    _map("scale", [a], [result], stream, [float(i // 8), 0.5])
                results.append(result)
        return results

    _both_ways(session, work, "functions in turn")


def _operands_of_one_element(session: Session) -> None:
    arrays = _numbers(session, "rates", _SIZES)

    def work(stream: Stream) -> list[Buffer]:
        x = _buffers(session, arrays, stream)
        rates = _buffers(session, [np.array([0.5], np.float32), np.array([-2.0], np.float32)], stream)
        results = _empty_like(x, stream)
        for i, (a, result) in enumerate(zip(x, results)):
            _map("multiply", [a, rates[i // 10]], [result], stream)
        return results

    _both_ways(session, work, "products with one number")


def _operands_that_do_not_lie_in_units(session: Session) -> None:
    arrays = _numbers(session, "odd addresses", _SIZES)

    def work(stream: Stream) -> list[Buffer]:
        x = _buffers(session, [np.concatenate([array, array]) for array in arrays], stream)
        results = _empty_like(x, stream)
        for i, (a, result) in enumerate(zip(x, results)):
            start = i % 4
            length = (a.shape[0] - start) // 2
            ops.copy(a, out=result, stream=stream)
            _map("negative", [a[start : start + length]], [result[start : start + length]], stream)
            _map("negative", [a[length + start :]], [result[length + start :]], stream)
        return results

    _both_ways(session, work, "operands at odd addresses")


def _several_results(session: Session) -> None:
    arrays = _numbers(session, "results", _SIZES)

    def work(stream: Stream) -> list[Buffer]:
        parameters, gradients = _buffers(session, arrays, stream), _buffers(session, arrays[::-1], stream)
        results = []
        rate = _buffers(session, [np.array([0.1], np.float32)], stream)[0]
        for parameter, gradient in zip(parameters, reversed(gradients)):
            velocity = ops.scale(parameter, parameters=[0.5, 0], stream=stream)
            _map("momentum", [parameter, gradient, velocity, rate], [parameter, velocity], stream, [0.9, 0, 0, 1])
            results += [parameter, velocity]
        return results

    _both_ways(session, work, "steps of Momentum")


def _steps_in_place(session: Session) -> None:
    arrays = _numbers(session, "in place", _SIZES)

    def work(stream: Stream) -> list[Buffer]:
        x = _buffers(session, arrays, stream)
        for _ in range(3):
            for a in x:
                _map("scale", [a], [a], stream, [1.5, 1])
        return x

    _both_ways(session, work, "steps in place")


# -- order


def _an_op_reads_what_the_one_before_wrote(session: Session) -> None:
    with Stream(session.device) as stream:
        x = _buffers(session, [np.ones(1000, np.float32)] * (_DEPTH + 1), stream)
        with stream.launch_group():
            for before, after in zip(x, x[1:]):
                _map("add", [before, x[0]], [after], stream)
        for number, buffer in enumerate(x):
            assert (buffer.numpy(stream=stream) == number + 1).all(), f"sum {number} is wrong"


def _an_op_overwrites_what_the_one_before_read(session: Session) -> None:
    with Stream(session.device) as stream:
        x = _buffers(session, [np.full(1000, number, np.float32) for number in range(_DEPTH)], stream)
        with stream.launch_group():  # each gets what the next one had
            for to, source in zip(x, x[1:]):
                _map("scale", [source], [to], stream, [1, 0])
        for number, buffer in enumerate(x[:-1]):
            assert (buffer.numpy(stream=stream) == number + 1).all(), f"buffer {number} is wrong"


def _an_op_overwrites_what_the_one_before_wrote(session: Session) -> None:
    with Stream(session.device) as stream:
        x = _buffers(session, [np.full(1000, number, np.float32) for number in range(_DEPTH)], stream)
        with stream.launch_group():
            for source in x[1:]:
                _map("scale", [source], [x[0]], stream, [1, 0])
        assert (x[0].numpy(stream=stream) == _DEPTH - 1).all(), "the last op of the group is not the last one that ran"


def _views_of_one_buffer(session: Session) -> None:
    with Stream(session.device) as stream:
        x = _buffers(session, [np.arange(4096, dtype=np.float32)], stream)[0]
        with stream.launch_group():
            for start in range(0, 4096 - 64, 32):  # neighbours overlap by a half
                _map("scale", [x[start : start + 64]], [x[start : start + 64]], stream, [1, 1])
        expected = np.arange(4096, dtype=np.float32)
        for start in range(0, 4096 - 64, 32):
            expected[start : start + 64] += 1
        assert (x.numpy(stream=stream) == expected).all(), "sums over parts that overlap are wrong"


def _concatenations_and_splits(session: Session) -> None:
    # Channels of images of several sizes, so that rows begin at multiples of 2 to 64 bytes.
    widths = (1, 8, 3, 16, 5, 32, 4, 64, 7, 2, 24)
    for dtype in ("float32", "float16", "int8"):
        for images, pixels in ((1, 1), (3, 4), (5, 49), (2, 64)):
            generator = session.generator("concatenations")
            arrays = [generator.integers(-100, 100, (images, n * pixels)).astype(dtype) for n in widths]
            with Stream(session.device) as stream:
                parts = [Buffer.from_numpy(array, session.device, stream=stream) for array in arrays]
                whole = Buffer((images, sum(widths) * pixels), dtype, session.device, stream=stream)
                back = _empty_like(parts, stream)
                with stream.launch_group():
                    start = 0
                    for n, part in zip(widths, parts):
                        ops.copy(part, out=whole[:, start * pixels : (start + n) * pixels], stream=stream)
                        start += n
                    for n, part in zip(reversed(widths), reversed(back)):
                        start -= n
                        ops.copy(whole[:, start * pixels : (start + n) * pixels], out=part, stream=stream)
                what = f"{dtype}, {images} images of {pixels}"
                joined = np.concatenate(arrays, 1)
                assert (whole.numpy(stream=stream) == joined).all(), f"{what}: a concatenation is wrong"
                for array, part in zip(arrays, back):
                    assert (part.numpy(stream=stream) == array).all(), f"{what}: a part of a split is wrong"


def _copies_and_fills_between_them(session: Session) -> None:
    with Stream(session.device) as stream:
        x, y = _buffers(session, [np.ones(1000, np.float32)] * 2, stream)
        host = np.full(1000, 5, np.float32)
        seen = []
        with stream.launch_group():
            _map("add", [x, x], [y], stream)
            ops.copy(y, out=x, stream=stream)
            _map("add", [x, x], [y], stream)
            seen.append(y.numpy(stream=stream))
            x.copy_from(host, stream=stream)
            _map("add", [x, x], [y], stream)
            ops.fill(x, 7, stream=stream)
            _map("add", [x, y], [y], stream)
        seen.append(y.numpy(stream=stream))
        assert (seen[0] == 4).all(), f"after a copy: {seen[0][0]}, expected 4"
        assert (seen[1] == 17).all(), f"after an upload and a fill: {seen[1][0]}, expected 17"


def _reductions_between_them(session: Session) -> None:
    with Stream(session.device) as stream:
        x = _buffers(session, [np.full(100, number, np.float32) for number in range(20)], stream)
        with stream.launch_group():
            sums = []
            for buffer in x:
                _map("scale", [buffer], [buffer], stream, [2, 0])
                sums.append(ops.sum(buffer, stream=stream))
        for number, total in enumerate(sums):
            assert float(total.numpy(stream=stream)) == 200 * number, f"sum {number} is wrong"


def _memory_is_used_again(session: Session) -> None:
    with Stream(session.device) as stream:
        x = _buffers(session, [np.ones(1000, np.float32)], stream)[0]
        with stream.launch_group():
            y = x
            for _ in range(_DEPTH):  # each gives back what the one before it wrote
                y = ops.add(y, x, stream=stream)
        assert (y.numpy(stream=stream) == _DEPTH + 1).all(), "a sum of temporary buffers is wrong"


# -- what else is done with the stream


def _a_wait_sees_what_was_launched(session: Session) -> None:
    with Stream(session.device) as stream:
        x, y = _buffers(session, [np.ones(1000, np.float32)] * 2, stream)
        stream.synchronize()
        with stream.launch_group():
            for turn in range(1, 4):
                _map("add", [x, y], [y], stream)
                event = stream.record()
                event.synchronize()
                with Stream(session.device) as other:
                    other.wait(event)
                    assert (y.numpy(stream=other) == turn + 1).all(), f"turn {turn} is not seen after an event"
                _map("scale", [x], [x], stream, [1, 0])
                stream.synchronize()
                assert stream.query(), "a stream that was waited for is not done"


def _another_thread_waits(session: Session) -> None:
    with Stream(session.device) as stream:
        x = _buffers(session, [np.ones(500, np.float32)] * 50, stream)
        stop = threading.Event()
        failures: list[errors.Error] = []

        def wait() -> None:
            while not stop.is_set():
                try:
                    stream.synchronize()
                    stream.query()
                except errors.Error as error:
                    failures.append(error)
                    return

        waiter = threading.Thread(target=wait)
        waiter.start()
        try:
            for _ in range(20):
                with stream.launch_group():
                    for buffer in x:
                        _map("scale", [buffer], [buffer], stream, [1, 1])
        finally:
            stop.set()
            waiter.join()
        assert not failures, f"who waits meanwhile gets {failures[0]}"
        for buffer in x:
            assert (buffer.numpy(stream=stream) == 21).all(), "an op was lost, or ran twice"


def _another_stream_waits(session: Session) -> None:
    with Stream(session.device) as stream, Stream(session.device) as other:
        x = _buffers(session, [np.ones(70000, np.float32)] * 30, stream)
        with stream.launch_group():
            for buffer in x:
                _map("scale", [buffer], [buffer], stream, [3, 0])
            other.wait(stream.record())
            for buffer in x:
                _map("add", [buffer, buffer], [buffer], other)
        stream.wait(other.record())
        for buffer in x:
            assert (buffer.numpy(stream=stream) == 6).all(), "another stream did not see what it waited for"


def _groups_are_nested(session: Session) -> None:
    with Stream(session.device) as stream:
        x = _buffers(session, [np.ones(300, np.float32)] * 10, stream)
        with stream.launch_group():
            for buffer in x:
                with stream.launch_group():
                    _map("scale", [buffer], [buffer], stream, [2, 0])
        for buffer in x:
            assert (buffer.numpy(stream=stream) == 2).all(), "an op of a nested group is lost"


def _nothing_is_grouped_afterwards(session: Session) -> None:
    with Stream(session.device) as stream:
        x = _buffers(session, [np.ones(300, np.float32)], stream)[0]
        with stream.launch_group():
            _map("scale", [x], [x], stream, [2, 0])
        _map("scale", [x], [x], stream, [2, 0])
        assert (x.numpy(stream=stream) == 4).all(), "an op after a group is lost"


def _add_of_two_shapes(x: Buffer, y: Buffer, stream: Stream) -> None:
    launch("map", [x, y], [x], {"function": known_functions()["add"]["number"]}, stream=stream)


def _a_refused_op_leaves_the_others(session: Session) -> None:
    with Stream(session.device) as stream:
        x = _buffers(session, [np.ones(300, np.float32), np.ones(301, np.float32)], stream)
        with stream.launch_group():
            _map("scale", [x[0]], [x[0]], stream, [2, 0])
            refused("INVALID_ARGUMENT", _add_of_two_shapes, x[0], x[1], stream)
            _map("scale", [x[1]], [x[1]], stream, [2, 0])
        for buffer in x:
            assert (buffer.numpy(stream=stream) == 2).all(), "an op beside a refused one is lost"


def _a_graph_has_them(session: Session) -> None:
    require_graphs(session)
    with Stream(session.device) as stream:
        x = _buffers(session, [np.ones(300, np.float32)] * 40, stream)
        with stream.launch_group():  # what it needs is compiled
            for buffer in x:
                _map("scale", [buffer], [buffer], stream, [1, 0])
        with capture(stream) as graph, stream.launch_group():
            for buffer in x:
                _map("scale", [buffer], [buffer], stream, [2, 0])
        with graph:
            for _ in range(3):
                graph.replay()
            for buffer in x:
                assert (buffer.numpy(stream=stream) == 8).all(), "a graph lost an op of a group"


def _an_end_without_a_start_is_refused(session: Session) -> None:
    with Stream(session.device) as stream:
        refused("FAILED_PRECONDITION", stream._handle.launch_group_end)
        with stream.launch_group():
            pass
        refused("FAILED_PRECONDITION", stream._handle.launch_group_end)


def _a_stream_ends_within_a_group(session: Session) -> None:
    stream = Stream(session.device)
    x = _buffers(session, [np.ones(300, np.float32)], stream)[0]
    stream._handle.launch_group_start()
    _map("scale", [x], [x], stream, [2, 0])
    stream.close()
    with Stream(session.device) as other:
        assert (x.numpy(stream=other) == 2).all(), "a stream that ended did not run what was launched"
        refused("FAILED_PRECONDITION", other._handle.launch_group_end)
