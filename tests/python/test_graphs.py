"""Graphs by the Python API; what backends make of them is in the suite for backends (unihal.conformance.graphs)."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import unihal
from processes import run_python


def twos(count: int, stream: unihal.Stream) -> unihal.Buffer:
    return unihal.ops.fill(unihal.Buffer((count,), "float32", stream.device, stream=stream), 2.0, stream=stream)


def test_a_replay_runs_the_captured_work(device: unihal.Device) -> None:
    with unihal.Stream(device) as stream, unihal.Buffer.from_numpy(np.arange(4.0), device, stream=stream) as x:
        with unihal.capture(stream) as graph:
            y = unihal.ops.add(unihal.ops.multiply(x, x, stream=stream), x, stream=stream)
        assert graph.work_count == 2
        with graph, y:
            for values in ([1.0, 2, 3, 4], [5.0, 6, 7, 8]):
                x.copy_from(np.array(values), stream=stream)
                graph.replay()
                assert y.numpy(stream=stream).tolist() == [v * v + v for v in values]
        assert graph.closed


def test_a_replay_on_another_stream(device: unihal.Device) -> None:
    with unihal.Stream(device) as stream, unihal.Stream(device) as other:
        x = twos(3, stream)
        with unihal.capture(stream) as graph:
            y = unihal.ops.add(x, x, stream=stream)
        stream.synchronize()
        graph.replay(other)
        assert y.numpy(stream=other).tolist() == [4, 4, 4]
        graph.close()
        graph.close()
        with pytest.raises(unihal.InvalidArgumentError, match="the graph was closed"):
            graph.replay()


def test_what_raises_in_the_block_drops_the_capture(device: unihal.Device) -> None:
    with unihal.Stream(device) as stream, unihal.Buffer.from_numpy(np.ones(3), device, stream=stream) as x:
        graphs: list[unihal.Graph] = []

        def work() -> None:
            with unihal.capture(stream) as graph:
                graphs.append(graph)
                unihal.ops.add(x, x, stream=stream).numpy(stream=stream)

        with pytest.raises(unihal.FailedPreconditionError, match="A copy from or to pageable host memory"):
            work()
        with pytest.raises(unihal.FailedPreconditionError, match="not captured yet, or its capture failed"):
            graphs[0].replay()
        assert not graphs[0].closed
        graphs[0].close()
        stream.synchronize()
        assert unihal.ops.add(x, x, stream=stream).numpy(stream=stream).tolist() == [2, 2, 2]


def test_a_replay_while_it_is_captured_is_refused(device: unihal.Device) -> None:
    with unihal.Stream(device) as stream:
        with unihal.capture(stream) as graph:
            with pytest.raises(unihal.FailedPreconditionError, match="not captured yet"):
                graph.replay()
            with pytest.raises(unihal.FailedPreconditionError, match="the stream is capturing a graph"):
                stream.close()
        graph.close()


def test_a_closed_buffer_is_found(device: unihal.Device) -> None:
    with unihal.Stream(device) as stream:
        x = twos(3, stream)
        with unihal.capture(stream) as graph:
            unihal.ops.add(x, x, stream=stream)
        with graph:
            graph.replay()
            x.close()
            with pytest.raises(unihal.FailedPreconditionError, match="was freed since it was captured"):
                graph.replay()


def test_a_graph_goes_with_its_last_reference(device: unihal.Device) -> None:
    def kept() -> int:
        """Bytes that the device cannot give back, since somebody needs them."""
        device.empty_cache()
        return device.memory_stats().reserved_bytes

    with unihal.Stream(device) as stream:
        before = kept()
        with unihal.capture(stream) as graph:
            twos(1000, stream)
        graph.replay()
        assert kept() > before, "the graph's memory is given back while it may be replayed"
        del graph
        gc.collect()
        assert kept() == before


def test_the_profiler_has_a_graph(device: unihal.Device) -> None:
    with unihal.Stream(device) as stream:
        x = twos(3, stream)
        with unihal.capture(stream) as graph:
            y = unihal.ops.add(x, x, stream=stream)
        with graph, unihal.profile() as recording:
            graph.replay()
            graph.replay()
        assert [(total.op, total.calls, total.flops) for total in recording.totals] == [("graph", 2, 6)]
        y.close()


STRICT = """
import numpy as np, unihal
stream = unihal.Stream("rdna:0")
x = unihal.Buffer.from_numpy(np.ones((64, 64), np.float32), "rdna:0", stream=stream)
with unihal.capture(stream) as graph:
    y = x
    for _ in range(20):
        y = unihal.ops.add(y, x, stream=stream)
for _ in range(5):
    graph.replay()
graph.close()
print(y.numpy(stream=stream)[0, 0])
"""


@pytest.mark.parametrize("settings", [{}, {"UNIHAL_CHECK_MEMORY": "1"}], ids=["alone", "with the memory check"])
def test_graphs_of_the_strict_stub(settings: dict[str, str]) -> None:
    result = run_python(STRICT, UNIHAL_STUB="strict", **settings)
    assert (result.returncode, result.stdout) == (0, "21.0\n"), result.stderr
