"""Checks of collectives: each kind by dtype and reduction, in place, in stream order, in groups, and a missing rank.

Each device of the backend is a rank, up to four. Where there is one only, a communicator of one rank still moves and
reduces what it is given.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from .. import _core, collectives, errors
from ..buffer import Buffer
from ..collectives import Communicator, Reduction
from ..ops import multiply
from ..stream import Stream
from .case import Array, Check, Expected
from .number_format import decode, encode, is_complex, is_inexact, storage
from .outcome import GapError
from .session import Session
from .tolerance import Arithmetic, compute_type, mismatches

_INTEGERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_FLOATING = ("float16", "bfloat16", "float32", "float64")
_COMPLEX = ("complex64", "complex128")
_DTYPES = (*_INTEGERS, *_FLOATING, *_COMPLEX)

#: Elements of a block: nothing, one, no multiple of anything; of float32 also more than goes through a buffer at once.
_COUNTS = (0, 1, 1003)
_LARGE = (1 << 20) + 7
_MOST_RANKS = 4
#: Seconds that a rank is waited for.
_TIMEOUT = 60.0


@dataclass(frozen=True)
class _Part:
    """What one rank has in a collective."""

    communicator: Communicator
    stream: Stream
    #: This rank's blocks, one for each rank.
    each: Buffer
    out: Buffer
    reduction: Reduction

    @property
    def one(self) -> Buffer:
        """The source of collectives that take a block."""
        return self.each[0]

    @property
    def last(self) -> int:
        """The root."""
        return self.communicator.size - 1


def _send_receive(part: _Part) -> None:
    rank, size = part.communicator.rank, part.communicator.size
    with collectives.group():
        part.communicator.send(part.one, (rank + 1) % size, stream=part.stream)
        part.communicator.receive(part.out, (rank - 1) % size, stream=part.stream)


@dataclass(frozen=True)
class _Kind:
    """A collective."""

    submit: Callable[[_Part], object]
    #: Of all ranks' blocks those that the result of a rank is made of; None: that rank has no result.
    blocks: Callable[[Sequence[Array], int], Sequence[Array] | None]
    #: The blocks are reduced; else they are the result, one after the other.
    reduces: bool = False
    #: The result has one block only.
    is_one: bool = True


#: All of uhal_collective_kind; a send and its receive are one.
_KINDS = {
    "all_reduce": _Kind(
        lambda part: part.communicator.all_reduce(part.one, part.reduction, out=part.out, stream=part.stream),
        lambda ranks, _: [each[0] for each in ranks],
        reduces=True,
    ),
    "all_gather": _Kind(
        lambda part: part.communicator.all_gather(part.one, out=part.out, stream=part.stream),
        lambda ranks, _: [each[0] for each in ranks],
        is_one=False,
    ),
    "reduce_scatter": _Kind(
        lambda part: part.communicator.reduce_scatter(part.each, part.reduction, out=part.out, stream=part.stream),
        lambda ranks, rank: [each[rank] for each in ranks],
        reduces=True,
    ),
    "broadcast": _Kind(
        lambda part: part.communicator.broadcast(part.out, part.last, stream=part.stream),
        lambda ranks, _: [ranks[-1][0]],
    ),
    "reduce": _Kind(
        lambda part: part.communicator.reduce(part.one, part.last, part.reduction, out=part.out, stream=part.stream),
        lambda ranks, rank: [each[0] for each in ranks] if rank == len(ranks) - 1 else None,
        reduces=True,
    ),
    "all_to_all": _Kind(
        lambda part: part.communicator.all_to_all(part.each, out=part.out, stream=part.stream),
        lambda ranks, rank: [each[rank] for each in ranks],
        is_one=False,
    ),
    "send_receive": _Kind(_send_receive, lambda ranks, rank: [ranks[rank - 1][0]]),
}


def cases(seed: int) -> Iterator[Check]:
    """The checks of collectives."""
    for name, kind in _KINDS.items():
        for dtype in _DTYPES:
            # All reductions by the one collective; another one sums.
            reductions = _reductions(dtype) if name == "all_reduce" else _reductions(dtype)[:1]
            for reduction in reductions:
                variant = f"{name}/{reduction}/{dtype}" if kind.reduces else f"{name}/{dtype}"
                yield Check("collectives", variant, partial(_results, name, reduction, dtype), dtype)
    for function in (
        _in_place,
        _work_runs_in_order,
        _two_communicators_at_once,
        _one_thread_drives_all_ranks,
        _a_missing_rank_is_named,
        _an_aborted_communicator_ends,
    ):
        yield Check("collectives", function.__name__.strip("_"), function)


def _reductions(dtype: str) -> tuple[Reduction, ...]:
    if is_complex(dtype):
        return ("sum", "average")
    return ("sum", "product", "minimum", "maximum", *(("average",) if is_inexact(dtype) else ()))


# -- ranks


def _size(session: Session) -> int:
    return min(len(session.devices), _MOST_RANKS)


def _several(session: Session) -> None:
    if _size(session) < 2:
        raise GapError("the backend has one device only")


def _new_id(session: Session) -> bytes:
    try:
        return collectives.create_id(session.device)
    except (errors.UnimplementedError, errors.UnavailableError) as error:
        raise GapError(str(error)) from None


def _in_threads(work: Callable[[int], None], count: int) -> None:
    """Calls a function with 0, 1, ... in as many threads, and raises what one of them raised."""
    failures: list[Exception] = []

    def act(number: int) -> None:
        try:
            work(number)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=act, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # What was seen to be wrong on one rank rather than how the others ended for it.
    for error in sorted(failures, key=lambda error: not isinstance(error, AssertionError)):
        raise error


def _on_ranks(session: Session, run: Callable[[Communicator, Stream], None]) -> None:
    """Runs a function on each rank, with a stream of its own."""
    identity, size = _new_id(session), _size(session)

    def act(rank: int) -> None:
        device = session.devices[rank]
        with Stream(device) as stream, Communicator(device, rank, size, identity, _TIMEOUT) as communicator:
            run(communicator, stream)
            stream.synchronize()

    _in_threads(act, size)


def _upload(stored: Array, dtype: str, stream: Stream) -> Buffer:
    buffer = Buffer(stored.shape, dtype, stream.device, stream=stream)
    if stored.size:
        _core.copy_from_host(stream._handle, buffer, np.ascontiguousarray(stored).reshape(-1).view(np.uint8))
    return buffer


def _download(buffer: Buffer, stream: Stream) -> Array:
    stored = np.empty(buffer.shape, storage(buffer.dtype))
    if stored.size:
        _core.copy_to_host(stream._handle, buffer, stored.reshape(-1).view(np.uint8))
    return stored


# -- results


def _blocks(session: Session, dtype: str, rank: int, count: int) -> Array:
    """What a rank brings along, as stored: a block for each rank."""
    generator = session.generator(f"collectives {dtype} {rank} {count}")
    shape = (_size(session), count)
    if is_complex(dtype):
        values: Array = generator.normal(size=shape) + 1j * generator.normal(size=shape)
    elif is_inexact(dtype):
        values = generator.normal(size=shape)
    else:
        # Sums of 8 bits wrap, and half of the unsigned of 64 bits are negative to whoever takes them for signed.
        most = {"bool": 2, "uint64": 2**64}.get(dtype, 256)
        values = generator.integers(0, most, shape, np.uint64)
    return encode(values, dtype)


def _reduced(blocks: Sequence[Array], dtype: str, reduction: Reduction) -> Expected:
    terms = np.stack([decode(block, dtype) for block in blocks])
    if dtype == "bool":
        return Expected(np.asarray(terms.any(0) if reduction in ("sum", "maximum") else terms.all(0)))
    if reduction in ("minimum", "maximum"):
        return Expected(terms.min(0) if reduction == "minimum" else terms.max(0), roundings=0)
    roundings = len(terms) - 1
    with np.errstate(over="ignore"):
        if reduction == "product":
            return Expected(np.multiply.reduce(terms, 0, dtype=terms.dtype), roundings)
        total = np.add.reduce(terms, 0, dtype=terms.dtype)
    if not is_inexact(dtype):
        return Expected(total)
    magnitude = np.abs(terms).sum(0)
    if reduction == "sum":
        return Expected(total, roundings, magnitude)
    return Expected(total / len(terms), roundings + 1, magnitude / len(terms))


def _assert_right(stored: Array, expected: Expected, dtype: str, what: str) -> None:
    wrong = mismatches(decode(stored, dtype), expected, dtype, Arithmetic(compute_type([dtype])))
    if not wrong.any():
        return
    first = tuple(int(index) for index in np.argwhere(wrong)[0])
    seen, wanted = decode(stored, dtype)[first], np.broadcast_to(expected.values, stored.shape)[first]
    raise AssertionError(f"{what}: {wrong.sum()} of {wrong.size} elements are wrong; at {first} {seen}, not {wanted}")


def _results(name: str, reduction: Reduction, dtype: str, session: Session) -> None:
    kind, size = _KINDS[name], _size(session)
    if name == "send_receive":
        _several(session)

    def run(communicator: Communicator, stream: Stream) -> None:
        rank = communicator.rank
        for count in (*_COUNTS, _LARGE) if dtype == "float32" else _COUNTS:
            ranks = [_blocks(session, dtype, other, count) for other in range(size)]
            shape = (count,) if kind.is_one else (size, count)
            # The result lies between two others, which must survive.
            before = np.stack([encode(np.full(shape, 1), dtype)] * 3)
            if name == "broadcast":
                before[1] = ranks[rank][0]
            whole, each = _upload(before, dtype, stream), _upload(ranks[rank], dtype, stream)
            kind.submit(_Part(communicator, stream, each, whole[1], reduction))
            after = _download(whole, stream)
            what = f"rank {rank} of {size}, blocks of {count}"
            for neighbour in (0, 2):
                assert np.array_equal(after[neighbour], before[neighbour]), f"{what}: memory around the result changed"
            assert np.array_equal(_download(each, stream), ranks[rank]), f"{what}: the source changed"
            blocks = kind.blocks(ranks, rank)
            if blocks is None:
                assert np.array_equal(after[1], before[1]), f"{what}: written, though the result is another rank's"
            elif kind.reduces:
                _assert_right(after[1], _reduced(blocks, dtype, reduction), dtype, what)
            else:
                expected = Expected(decode(np.stack(blocks).reshape(shape), dtype), roundings=0)
                _assert_right(after[1], expected, dtype, what)

    try:
        _on_ranks(session, run)
    except errors.UnimplementedError as error:
        raise GapError(str(error)) from None


# -- order


def _in_place(session: Session) -> None:
    size = _size(session)

    def run(communicator: Communicator, stream: Stream) -> None:
        rank = communicator.rank
        number = np.arange(size * 1003, dtype=np.int64).reshape(size, 1003)
        ranks = [number * (other + 1) for other in range(size)]
        whole, gathered, scattered = (_upload(ranks[rank], "int64", stream) for _ in range(3))
        communicator.all_reduce(whole, out=whole, stream=stream)
        communicator.all_gather(gathered[rank], out=gathered, stream=stream)
        communicator.reduce_scatter(scattered, out=scattered[rank], stream=stream)
        total = np.add.reduce(ranks)
        for name, seen, expected in (
            ("all_reduce", _download(whole, stream), total),
            ("all_gather", _download(gathered, stream), np.stack([ranks[other][other] for other in range(size)])),
            ("reduce_scatter", _download(scattered, stream)[rank], total[rank]),
        ):
            assert np.array_equal(seen, expected), f"{name} in place is wrong on rank {rank}"

    _on_ranks(session, run)


def _work_runs_in_order(session: Session) -> None:
    size, count = _size(session), 1 << 20

    def run(communicator: Communicator, stream: Stream) -> None:
        x = _upload(np.full(count, communicator.rank + 1, np.float32), "float32", stream)
        for _ in range(10):  # after the first, the sum of equals and their share of it
            communicator.all_reduce(x, out=x, stream=stream)
            multiply(x, 1 / size, out=x, stream=stream)
        expected = Expected(np.full(count, (size + 1) / 2), roundings=10 * size)
        _assert_right(_download(x, stream), expected, "float32", f"rank {communicator.rank}")

    _on_ranks(session, run)


def _two_communicators_at_once(session: Session) -> None:
    second, size, count = _new_id(session), _size(session), 1 << 20

    def run(communicator: Communicator, stream: Stream) -> None:
        rank = communicator.rank
        turned = size - 1 - rank
        with (
            Stream(stream.device) as other_stream,
            Communicator(stream.device, turned, size, second, _TIMEOUT) as other,
        ):
            x = _upload(np.full(count, rank, np.int32), "int32", stream)
            y = _upload(np.full(count, turned, np.int32), "int32", other_stream)
            for _ in range(5):
                gathered = communicator.all_gather(x, stream=stream)
                gathered_turned = other.all_gather(y, stream=other_stream)
            for seen in (_download(gathered, stream), _download(gathered_turned, other_stream)):
                assert (seen == np.arange(size)[:, None]).all(), f"wrong blocks on rank {rank}"

    _on_ranks(session, run)


def _one_thread_drives_all_ranks(session: Session) -> None:
    size, identity = _size(session), _new_id(session)
    communicators: dict[int, Communicator] = {}

    def join(rank: int) -> None:
        communicators[rank] = Communicator(session.devices[rank], rank, size, identity, _TIMEOUT)

    _in_threads(join, size)
    streams = [Stream(session.devices[rank]) for rank in range(size)]
    sources = [_upload(np.full(1003, 10**rank, np.int64), "int64", streams[rank]) for rank in range(size)]
    with collectives.group():
        totals = [communicators[rank].all_reduce(sources[rank], stream=streams[rank]) for rank in range(size)]
        gathered = [communicators[rank].all_gather(sources[rank], stream=streams[rank]) for rank in range(size)]
    terms = 10 ** np.arange(size)
    for rank, stream in enumerate(streams):
        assert (_download(totals[rank], stream) == terms.sum()).all(), f"the sum is wrong on rank {rank}"
        assert (_download(gathered[rank], stream) == terms[:, None]).all(), f"blocks are wrong on rank {rank}"
    for rank, stream in enumerate(streams):
        communicators[rank].close()
        stream.close()


# -- failures


def _a_missing_rank_is_named(session: Session) -> None:
    identity, size = _new_id(session), _size(session)

    def join(rank: int) -> None:
        try:
            Communicator(session.devices[rank], rank, size + 1, identity, 0.5)
        except errors.DeadlineExceededError as error:
            assert f"rank {size}" in str(error), f"the missing rank {size} is not named: {error}"
        else:
            raise AssertionError(f"a communicator of {size + 1} ranks was made of {size}")

    _in_threads(join, size)


def _an_aborted_communicator_ends(session: Session) -> None:
    together = threading.Barrier(_size(session), timeout=_TIMEOUT)

    def run(communicator: Communicator, stream: Stream) -> None:
        x = _upload(np.ones(1003, np.float32), "float32", stream)
        communicator.all_reduce(x, out=x, stream=stream)
        stream.synchronize()
        together.wait()  # none is aborted in the sum before
        communicator.abort()
        try:
            communicator.all_reduce(x, out=x, stream=stream)
            stream.synchronize()
        except (errors.AbortedError, errors.FailedPreconditionError):
            return
        raise AssertionError("an aborted communicator still takes work")

    _on_ranks(session, run)
