"""Checks of errors that come out later than their call: they stick to their stream, once, and name the op."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import errors
from ..buffer import Buffer
from ..ops.launch import launch
from ..stream import Stream
from .case import Check
from .outcome import GapError
from .session import Session


def cases(seed: int) -> Iterator[Check]:
    """The checks of errors."""
    for function in _CHECKS:
        yield Check("errors", function.__name__.strip("_"), function)


class _BadGather:
    """A gather whose index is out of range: the one error that every backend finds while it runs."""

    def __init__(self, session: Session, stream: Stream) -> None:
        self._stream = stream
        self._table = Buffer.from_numpy(np.arange(3, dtype=np.float32), session.device, stream=stream)
        self._indices = Buffer.from_numpy(np.array([1, 7], np.int32), session.device, stream=stream)
        self._result = Buffer((2,), "float32", session.device, stream=stream)
        supported, reason = session.supports("gather", *self._operands)
        if not supported:
            raise GapError(reason)

    @property
    def _operands(self) -> tuple[list[Buffer], list[Buffer]]:
        return [self._table, self._indices], [self._result]

    def submit(self) -> None:
        launch("gather", *self._operands, stream=self._stream)

    def result(self) -> list[float]:
        return [float(number) for number in self._result.numpy(stream=self._stream)]


def _seen(call: object) -> str:
    """The status and op of the error that a call raises; empty if none."""
    assert callable(call)
    try:
        call()
    except errors.Error as error:
        return f"{error.status} of {error.op.split(' ')[0].rstrip(':') or 'no op'}"
    return ""


def _an_error_sticks_until_it_is_seen(session: Session) -> None:
    with Stream(session.device) as stream:
        gather = _BadGather(session, stream)
        gather.submit()
        seen = _seen(stream.synchronize)
        assert seen.startswith("OUT_OF_RANGE of gather"), f"the stream reports {seen or 'nothing'}"
        seen = _seen(stream.synchronize)
        assert not seen, f"the error comes out a second time: {seen}"
        assert gather.result() == [1.0, 0.0], f"an element out of range is read as {gather.result()[1]}, expected 0"


def _a_query_reports_the_error(session: Session) -> None:
    with Stream(session.device) as stream:
        _BadGather(session, stream).submit()
        seen = ""
        for _ in range(100000):
            seen = _seen(stream.query)
            if seen:
                break
        assert seen.startswith("OUT_OF_RANGE"), f"queries report {seen or 'nothing'}"
        seen = _seen(stream.synchronize)
        assert not seen, f"the error comes out a second time: {seen}"


def _other_streams_are_not_concerned(session: Session) -> None:
    with Stream(session.device) as stream, Stream(session.device) as other:
        _BadGather(session, stream).submit()
        seen = _seen(other.synchronize)
        assert not seen, f"another stream reports {seen}"
        seen = _seen(stream.synchronize)
        assert seen.startswith("OUT_OF_RANGE"), f"the stream reports {seen or 'nothing'}"


def _a_device_reports_the_error_of_a_stream(session: Session) -> None:
    with Stream(session.device) as stream:
        _BadGather(session, stream).submit()
        seen = _seen(session.device.synchronize)
        assert seen.startswith("OUT_OF_RANGE"), f"the device reports {seen or 'nothing'}"
        seen = _seen(stream.synchronize)
        assert not seen, f"the error comes out a second time: {seen}"


def _the_first_error_comes_out(session: Session) -> None:
    with Stream(session.device) as stream:
        gather = _BadGather(session, stream)
        for _ in range(3):
            gather.submit()
        seen = _seen(stream.synchronize)
        assert seen.startswith("OUT_OF_RANGE"), f"the stream reports {seen or 'nothing'}"
        seen = _seen(stream.synchronize)
        assert not seen, f"the error comes out a second time: {seen}"


def _work_after_an_error_runs(session: Session) -> None:
    with Stream(session.device) as stream:
        gather = _BadGather(session, stream)
        gather.submit()
        seen = _seen(stream.synchronize)
        assert seen.startswith("OUT_OF_RANGE"), f"the stream reports {seen or 'nothing'}"
        values = np.arange(5, dtype=np.float32)
        copied = Buffer.from_numpy(values, session.device, stream=stream).numpy(stream=stream)
        assert np.array_equal(copied, values), f"after the error a copy gives {copied}"


_CHECKS = (
    _an_error_sticks_until_it_is_seen,
    _a_query_reports_the_error,
    _other_streams_are_not_concerned,
    _a_device_reports_the_error_of_a_stream,
    _the_first_error_comes_out,
    _work_after_an_error_runs,
)
