"""Graphs: the work of a stream, recorded once and run again and again by one call (unihal/graph_capture.h).

>>> with unihal.capture(stream) as graph:
...     y = unihal.ops.relu(unihal.ops.matmul(x, weights, stream=stream), stream=stream)
>>> x.copy_from(batch, stream=stream)
>>> graph.replay()
>>> y.numpy(stream=stream)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from . import _core, errors
from .stream import Stream


class Graph:
    """Captured work, to be made by ``capture``. It is closed at the end of a ``with`` block, after its replays.

    What it reads and writes has to stay: a replay after one of those buffers was freed is refused. Buffers that were
    allocated in the capture may go; their memory is the graph's.
    """

    def __init__(self, stream: Stream) -> None:
        #: That the work was captured from.
        self.stream = stream
        self._handle: _core.Graph | None = None

    def replay(self, stream: Stream | None = None) -> None:
        """Submits the work, to the stream that it was captured from or another one of the device.

        It uses the buffers, sizes and attributes of the capture; what the buffers hold is read when it runs. Replays
        run one after the other, on whatever streams.
        """
        self._captured().launch((stream or self.stream)._handle)

    @property
    def work_count(self) -> int:
        """The number of ops, copies and fills in it."""
        return self._captured().info()[0]

    @property
    def closed(self) -> bool:
        """Whether the graph was closed."""
        return self._handle is not None and self._handle.closed

    def close(self) -> None:
        """Waits for the replays and frees the graph. Closing twice is fine."""
        if self._handle is not None:
            self._handle.close()

    def __enter__(self) -> Graph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _captured(self) -> _core.Graph:
        if self._handle is None:
            raise errors.FailedPreconditionError(
                "the graph is not captured yet, or its capture failed; replay it after the end of the with block"
            )
        return self._handle


@contextmanager
def capture(stream: Stream) -> Iterator[Graph]:
    """What is submitted to the stream in the ``with`` block does not run: at its end it is the graph.

    Ops, fills and copies within the device can be captured. What waits (``numpy()``, ``copy_from``, ``synchronize``)
    raises ``FailedPreconditionError``. If the block raises, nothing is captured. Run the work once before: kernels are
    compiled, and libraries make their plans, at their first use.
    """
    graph = Graph(stream)
    _core.graph_capture_begin(stream._handle)
    try:
        yield graph
    except BaseException:
        if _core.graph_is_capturing(stream._handle):
            _core.graph_capture_cancel(stream._handle)
        raise
    graph._handle = _core.Graph(stream._handle)
