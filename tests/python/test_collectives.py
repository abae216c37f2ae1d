"""Collectives on the stub, against NumPy: ranks in threads and in processes, and what goes wrong with them."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import unihal
from processes import run_python
from unihal import collectives
from unihal.collectives import Communicator

REDUCTIONS = ("sum", "product", "minimum", "maximum", "average")
REAL = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
)
COMPLEX = ("complex64", "complex128")
COUNTS = (0, 1, 3, 1000)

#: More than goes through a segment at a time, and no multiple of anything.
LARGE = 3_000_001

Run = Callable[[Communicator, unihal.Stream], Any]


def on_ranks(size: int, run: Run, timeout: float = 60.0, on: str = "rdna:0") -> list[Any]:
    """What ``run`` gives on each rank, all of them threads with a stream of their own on one device."""
    identity = collectives.create_id(on)
    results: list[Any] = [None] * size

    def act(rank: int) -> None:
        try:
            with unihal.Stream(on) as stream, Communicator(on, rank, size, identity, timeout) as communicator:
                results[rank] = run(communicator, stream)
                stream.synchronize()
        except BaseException as error:  # it is this thread's result
            error.__traceback__ = None
            results[rank] = error

    threads = [threading.Thread(target=act, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def values_of(size: int, run: Run, timeout: float = 60.0) -> list[Any]:
    """The same, where no rank may fail."""
    results = on_ranks(size, run, timeout)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def sample(shape: tuple[int, ...] | int, dtype: str, seed: int) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype in COMPLEX:
        return (generator.standard_normal(shape) + 1j * generator.standard_normal(shape)).astype(dtype)
    if dtype.startswith("float"):
        return generator.standard_normal(shape).astype(dtype)
    return generator.integers(0, 100, shape).astype(dtype)


def on_device(array: Any, stream: unihal.Stream) -> unihal.Buffer:
    return unihal.Buffer.from_numpy(array, stream.device, stream=stream)


def reduced(arrays: list[np.ndarray[Any, Any]], reduction: str) -> np.ndarray[Any, Any]:
    """The reduction in the order of the ranks, float16 in float32, wrapping where integers do."""
    dtype = arrays[0].dtype
    wide = np.dtype(np.float32) if dtype == np.float16 else dtype
    total = arrays[0].astype(wide)
    function = {
        "sum": np.logical_or if dtype == np.bool_ else np.add,
        "average": np.add,
        "product": np.logical_and if dtype == np.bool_ else np.multiply,
        "minimum": np.minimum,
        "maximum": np.maximum,
    }[reduction]
    with np.errstate(over="ignore"):
        for array in arrays[1:]:
            total = function(total, array.astype(wide))
        if reduction == "average":
            total = total / wide.type(len(arrays))
    return total.astype(dtype)


# -- results ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", REAL)
def test_all_reduce_gives_all_ranks_numpy_s_bits(dtype: str, reduction: Any, device: unihal.Device) -> None:
    if reduction == "average" and not dtype.startswith("float"):
        pytest.skip("the average is for floating and complex numbers")

    def run(communicator: Communicator, stream: unihal.Stream) -> list[Any]:
        sources = [on_device(sample(count, dtype, communicator.rank), stream) for count in COUNTS]
        results = [communicator.all_reduce(source, reduction, stream=stream) for source in sources]
        return [result.numpy(stream=stream) for result in results]

    results = values_of(3, run)
    for i, count in enumerate(COUNTS):
        expected = reduced([sample(count, dtype, rank) for rank in range(3)], reduction)
        for result in results:
            np.testing.assert_array_equal(result[i], expected)


@pytest.mark.parametrize("reduction", ("sum", "average"))
@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_numbers_are_added(dtype: str, reduction: Any, device: unihal.Device) -> None:
    def run(communicator: Communicator, stream: unihal.Stream) -> Any:
        source = on_device(sample(33, dtype, communicator.rank), stream)
        return communicator.all_reduce(source, reduction, stream=stream).numpy(stream=stream)

    expected = reduced([sample(33, dtype, rank) for rank in range(2)], reduction)
    for result in values_of(2, run):
        np.testing.assert_array_equal(result, expected)


def test_bfloat16_is_added_in_float32_and_rounded_once(device: unihal.Device) -> None:
    # 256 + 1 + 1 is 258; rounded after each addition it would stay 256.
    terms = [256.0, 1.0, 1.0]

    def run(communicator: Communicator, stream: unihal.Stream) -> Any:
        single = on_device(np.full(5, terms[communicator.rank], np.float32), stream)
        total = communicator.all_reduce(unihal.ops.cast(single, "bfloat16", stream=stream), stream=stream)
        return unihal.ops.cast(total, "float32", stream=stream).numpy(stream=stream)

    for result in values_of(3, run):
        np.testing.assert_array_equal(result, np.full(5, 258, np.float32))


def test_integers_wrap_and_nan_stays(device: unihal.Device) -> None:
    def run(communicator: Communicator, stream: unihal.Stream) -> Any:
        whole = on_device(np.array([100, -100], np.int8), stream)
        values = np.array([np.nan, 1.0] if communicator.rank == 0 else [1.0, np.nan])
        numbers = on_device(values, stream)
        return (
            communicator.all_reduce(whole, stream=stream).numpy(stream=stream),
            communicator.all_reduce(numbers, "minimum", stream=stream).numpy(stream=stream),
            communicator.all_reduce(numbers, "maximum", stream=stream).numpy(stream=stream),
        )

    for total, least, most in values_of(2, run):
        np.testing.assert_array_equal(total, np.array([-56, 56], np.int8))
        assert np.isnan(least).all()
        assert np.isnan(most).all()


@pytest.mark.parametrize("dtype", (*REAL, *COMPLEX))
def test_moves_are_exact_for_each_dtype(dtype: str, device: unihal.Device) -> None:
    size = 3

    def run(communicator: Communicator, stream: unihal.Stream) -> list[Any]:
        rank, results = communicator.rank, []
        for count in COUNTS:
            one = on_device(sample(count, dtype, rank), stream)
            each = on_device(sample((size, count), dtype, 10 + rank), stream)
            gathered = communicator.all_gather(one, stream=stream)
            exchanged = communicator.all_to_all(each, stream=stream)
            communicator.broadcast(one, root=1, stream=stream)
            results.append([buffer.numpy(stream=stream) for buffer in (gathered, exchanged, one)])
        return results

    for rank, result in enumerate(values_of(size, run)):
        for count, (gathered, exchanged, broadcast) in zip(COUNTS, result):
            np.testing.assert_array_equal(gathered, np.stack([sample(count, dtype, r) for r in range(size)]))
            blocks = [sample((size, count), dtype, 10 + r)[rank] for r in range(size)]
            np.testing.assert_array_equal(exchanged, np.stack(blocks))
            np.testing.assert_array_equal(broadcast, sample(count, dtype, 1))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("size", (1, 2, 5))
def test_reduce_and_reduce_scatter(size: int, reduction: Any, device: unihal.Device) -> None:
    def run(communicator: Communicator, stream: unihal.Stream) -> Any:
        source = on_device(sample((size, 7), "float32", communicator.rank), stream)
        at_root = communicator.reduce(source, size - 1, reduction, stream=stream)
        assert (at_root is None) == (communicator.rank != size - 1)
        own = communicator.reduce_scatter(source, reduction, stream=stream)
        return own.numpy(stream=stream), None if at_root is None else at_root.numpy(stream=stream)

    expected = reduced([sample((size, 7), "float32", rank) for rank in range(size)], reduction)
    for rank, (own, at_root) in enumerate(values_of(size, run)):
        np.testing.assert_array_equal(own, expected[rank])
        if at_root is not None:
            np.testing.assert_array_equal(at_root, expected)


@pytest.mark.parametrize("size", (2, pytest.param(3, marks=pytest.mark.whole)))
def test_large_operands_go_through_in_parts(size: int, device: unihal.Device) -> None:
    def run(communicator: Communicator, stream: unihal.Stream) -> bool:
        def source(rank: int) -> Any:
            return np.arange(LARGE, dtype=np.int32) * (rank + 1)

        mine = on_device(source(communicator.rank), stream)
        total = communicator.all_reduce(mine, stream=stream).numpy(stream=stream)
        factor = size * (size + 1) // 2
        right = bool(np.array_equal(total, np.arange(LARGE, dtype=np.int32) * np.int32(factor)))
        gathered = communicator.all_gather(mine, stream=stream).numpy(stream=stream)
        right = right and all(np.array_equal(gathered[rank], source(rank)) for rank in range(size))
        exchanged = communicator.all_to_all(communicator.all_gather(mine, stream=stream), stream=stream)
        blocks = exchanged.numpy(stream=stream)
        right = right and all(np.array_equal(block, source(communicator.rank)) for block in blocks)
        scattered = communicator.reduce_scatter(communicator.all_gather(mine, stream=stream), stream=stream)
        right = right and bool(np.array_equal(scattered.numpy(stream=stream), source(communicator.rank) * size))
        after, before = (communicator.rank + 1) % size, (communicator.rank - 1) % size
        received = unihal.Buffer(LARGE, "int32", stream.device, stream=stream)
        with collectives.group():
            communicator.send(mine, after, stream=stream)
            communicator.receive(received, before, stream=stream)
        return right and bool(np.array_equal(received.numpy(stream=stream), source(before)))

    assert values_of(size, run) == [True] * size


def test_in_place(device: unihal.Device) -> None:
    size = 3

    def run(communicator: Communicator, stream: unihal.Stream) -> list[Any]:
        rank = communicator.rank
        whole = on_device(sample((size, 1001), "int32", rank), stream)
        assert communicator.all_reduce(whole, out=whole, stream=stream) is whole
        gathered = on_device(np.full((size, 5), rank), stream)
        communicator.all_gather(gathered[rank], out=gathered, stream=stream)
        scattered = on_device(np.full((size, 5), rank + 1), stream)
        communicator.reduce_scatter(scattered, out=scattered[rank], stream=stream)
        at_root = on_device(np.full(5, rank + 1), stream)
        communicator.reduce(at_root, 2, out=at_root, stream=stream)
        return [buffer.numpy(stream=stream) for buffer in (whole, gathered, scattered[rank], at_root)]

    expected = reduced([sample((size, 1001), "int32", rank) for rank in range(size)], "sum")
    for rank, (whole, gathered, scattered, at_root) in enumerate(values_of(size, run)):
        np.testing.assert_array_equal(whole, expected)
        np.testing.assert_array_equal(gathered, np.arange(size)[:, None] * np.ones(5, int))
        np.testing.assert_array_equal(scattered, np.full(5, 6))
        np.testing.assert_array_equal(at_root, np.full(5, 6 if rank == 2 else rank + 1))


def test_collectives_keep_their_place_in_the_stream(device: unihal.Device) -> None:
    def run(communicator: Communicator, stream: unihal.Stream) -> Any:
        x = on_device(np.full(1000, float(communicator.rank + 1), np.float32), stream)
        for _ in range(20):  # (1 + 2) / 3 and (2 + 1) / 3 are 1
            communicator.all_reduce(x, out=x, stream=stream)
            unihal.ops.multiply(x, 0.5, out=x, stream=stream)
        return x.numpy(stream=stream)

    for result in values_of(2, run):
        np.testing.assert_array_equal(result, np.full(1000, 1.5, np.float32))


def test_one_thread_drives_several_ranks_in_a_group(device: unihal.Device) -> None:
    identity = collectives.create_id(device)
    made: dict[int, Communicator] = {}
    threads = [
        threading.Thread(target=lambda rank=rank: made.update({rank: Communicator(device, rank, 3, identity, 30)}))
        for rank in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    streams = [unihal.Stream(device) for _ in range(3)]
    sources = [on_device(np.full(5, 10.0**rank), streams[rank]) for rank in range(3)]
    with collectives.group():
        results = [made[rank].all_reduce(sources[rank], stream=streams[rank]) for rank in range(3)]
        others = [made[rank].all_gather(sources[rank], stream=streams[rank]) for rank in range(3)]
    for rank in range(3):
        np.testing.assert_array_equal(results[rank].numpy(stream=streams[rank]), np.full(5, 111.0))
        np.testing.assert_array_equal(others[rank].numpy(stream=streams[rank])[:, 0], [1.0, 10.0, 100.0])
    for rank in range(3):
        made[rank].close()
        streams[rank].close()


def test_a_group_that_raises_submits_nothing(device: unihal.Device) -> None:
    def run(communicator: Communicator, stream: unihal.Stream) -> Any:
        x = on_device(np.ones(3), stream)
        with pytest.raises(ZeroDivisionError), collectives.group():
            communicator.all_reduce(x, out=x, stream=stream)
            raise ZeroDivisionError
        return communicator.all_gather(x, stream=stream).numpy(stream=stream)

    for result in values_of(2, run):
        np.testing.assert_array_equal(result, np.ones((2, 3)))


def test_two_communicators_at_once(device: unihal.Device) -> None:
    second = collectives.create_id(device)

    def run(communicator: Communicator, stream: unihal.Stream) -> Any:
        rank = communicator.rank
        with unihal.Stream(device) as other, Communicator(device, 1 - rank, 2, second, 60) as reversed_ranks:
            x = on_device(np.full(100_000, rank), stream)
            y = on_device(np.full(100_000, rank), other)
            for _ in range(5):
                gathered = communicator.all_gather(x, stream=stream)
                turned = reversed_ranks.all_gather(y, stream=other)
            return gathered.numpy(stream=stream)[:, 0], turned.numpy(stream=other)[:, 0]

    for straight, turned in values_of(2, run):
        np.testing.assert_array_equal(straight, [0, 1])
        np.testing.assert_array_equal(turned, [1, 0])


def test_the_profiler_and_its_bytes(device: unihal.Device) -> None:
    def run(communicator: Communicator, stream: unihal.Stream) -> None:
        communicator.all_reduce(on_device(np.zeros(1000, np.float32), stream), stream=stream)

    with unihal.profile() as profile:
        values_of(2, run)
    events = [event for event in profile.events if event.name == "all_reduce"]
    assert len(events) == 2
    assert {event.bytes for event in events} == {8000}


# -- wrong arguments -------------------------------------------------------------------------------------------------


def test_wrong_arguments_are_named(device: unihal.Device) -> None:
    identity = collectives.create_id(device)
    with pytest.raises(unihal.InvalidArgumentError, match="rank 2 of 2"):
        Communicator(device, 2, 2, identity)
    with pytest.raises(unihal.InvalidArgumentError, match="the timeout is 0"):
        Communicator(device, 0, 1, identity, timeout=0)
    with pytest.raises(unihal.InvalidArgumentError, match="5 bytes; expected the 256"):
        Communicator(device, 0, 1, b"wrong")
    with pytest.raises(unihal.InvalidArgumentError, match="none of the backend stub"):
        Communicator(device, 0, 1, bytes(256))
    with pytest.raises(unihal.InvalidArgumentError, match="at most 64 ranks"):
        Communicator(device, 0, 65, identity)
    with Communicator(device, 0, 1, identity) as communicator:
        x = on_device(np.ones((1, 6), np.int32), unihal.stream.default_stream(device))
        with pytest.raises(unihal.ArgumentTypeError, match="one of 'sum'"):
            communicator.all_reduce(x, "median")  # type: ignore[arg-type]
        with pytest.raises(unihal.InvalidArgumentError, match="int32 has no average"):
            communicator.all_reduce(x, "average")
        with pytest.raises(unihal.InvalidArgumentError, match="expected 6 of int32"):
            communicator.all_reduce(x, out=unihal.Buffer(5, "int32", device))
        with pytest.raises(unihal.InvalidArgumentError, match="expected a dense buffer"):
            communicator.all_reduce(x[:, ::2])
        with pytest.raises(unihal.InvalidArgumentError, match=r"a block for each of 1 ranks, \(1, \.\.\.\)"):
            communicator.reduce_scatter(on_device(np.ones(2), unihal.stream.default_stream(device)))
        with pytest.raises(unihal.InvalidArgumentError, match="ranks 0 to 0"):
            communicator.broadcast(x, root=1)
        with pytest.raises(unihal.InvalidArgumentError, match="rank 0 itself"):
            communicator.send(x, 0)
        with pytest.raises(unihal.InvalidArgumentError, match="overlap on rank 0"):
            communicator.all_to_all(x, out=x)
        with pytest.raises(unihal.InvalidArgumentError, match="complex64 has no maximum"):
            both = on_device(np.ones(2, np.complex64), unihal.stream.default_stream(device))
            communicator.all_reduce(both, "maximum")
        other = unihal.device("polaris:0")
        foreign = unihal.Buffer(3, "float32", other)
        with pytest.raises(unihal.OutOfRangeError, match=r"belongs to polaris:0"):
            communicator.all_reduce(foreign, out=foreign)
        foreign.close()
        with unihal.Stream(other) as stream, pytest.raises(unihal.InvalidArgumentError, match="pass a stream of that"):
            communicator.all_reduce(x, out=x, stream=stream)
        pinned = unihal.Buffer(3, "float32", device, kind="pinned")
        with pytest.raises(unihal.InvalidArgumentError, match="pinned memory"):
            communicator.all_reduce(pinned)
    with pytest.raises(unihal.InvalidArgumentError, match="was closed"):
        communicator.all_reduce(x)


def test_a_group_s_rules(device: unihal.Device) -> None:
    with Communicator(device, 0, 1, collectives.create_id(device)) as communicator, unihal.Stream(device) as stream:
        x = on_device(np.ones(3), stream)
        with (
            pytest.raises(unihal.InvalidArgumentError, match="one stream for a communicator"),
            collectives.group(),
        ):
            communicator.all_reduce(x, out=x, stream=stream)
            communicator.all_reduce(x, out=x)
        with pytest.raises(unihal.InvalidArgumentError, match="does not exist"), collectives.group():
            communicator.all_reduce(x, out=x, stream=stream)
            stream.close()


# -- ranks that fail -------------------------------------------------------------------------------------------------


def test_ranks_that_never_come_are_named(device: unihal.Device) -> None:
    identity = collectives.create_id(device)
    errors: list[BaseException] = []

    def come(rank: int) -> None:
        try:
            Communicator(device, rank, 4, identity, timeout=0.3)
        except unihal.Error as error:
            errors.append(error)

    threads = [threading.Thread(target=come, args=(rank,)) for rank in (0, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 2
    for error in errors:
        assert isinstance(error, unihal.DeadlineExceededError)
        assert "for ranks 1 and 3, in vain" in str(error)
    assert segments() == set()


def test_a_rank_that_does_not_join_a_collective_is_named(device: unihal.Device) -> None:
    done = threading.Event()

    def run(communicator: Communicator, stream: unihal.Stream) -> None:
        if communicator.rank == 2:
            done.wait(20)
            return
        try:
            x = on_device(np.ones(5, np.float32), stream)
            communicator.all_reduce(x, stream=stream)
            stream.synchronize()
        finally:
            done.set()

    results = on_ranks(3, run, timeout=0.5)
    late = [result for result in results[:2] if isinstance(result, unihal.DeadlineExceededError)]
    assert late, results
    for error in late:
        assert "all_reduce of 5 float32" in str(error)
        assert "for rank 2, in vain" in str(error)


def test_a_failed_communicator_takes_no_more_work(device: unihal.Device) -> None:
    def run(communicator: Communicator, stream: unihal.Stream) -> None:
        if communicator.rank == 1:
            time.sleep(1)
        x = on_device(np.ones(5, np.float32), stream)
        with pytest.raises((unihal.DeadlineExceededError, unihal.FailedPreconditionError)):
            communicator.all_reduce(x, stream=stream)
            stream.synchronize()
        with pytest.raises(unihal.FailedPreconditionError, match=r"failed before: all_reduce.*for rank 1"):
            communicator.all_reduce(x, stream=stream)

    values_of(2, run, timeout=0.3)


def test_calls_that_do_not_go_together_are_named(device: unihal.Device) -> None:
    def run(communicator: Communicator, stream: unihal.Stream) -> None:
        x = on_device(np.ones(5 + communicator.rank, np.float32), stream)
        communicator.all_reduce(x, stream=stream)
        stream.synchronize()

    for result in on_ranks(2, run):
        assert isinstance(result, unihal.InvalidArgumentError)
        assert "all_reduce of 5 float32" in str(result)
        assert "all_reduce of 6 float32" in str(result)


def test_a_rank_that_leaves_is_named(device: unihal.Device) -> None:
    def run(communicator: Communicator, stream: unihal.Stream) -> None:
        if communicator.rank == 0:
            communicator.all_reduce(on_device(np.ones(5), stream), stream=stream)
            stream.synchronize()

    [error, _] = on_ranks(2, run)
    assert isinstance(error, unihal.AbortedError)
    assert "needs rank 1, which has destroyed its communicator" in str(error)


def test_abort_ends_the_wait_of_all(device: unihal.Device) -> None:
    def run(communicator: Communicator, stream: unihal.Stream) -> None:
        if communicator.rank == 2:
            time.sleep(0.2)
            communicator.abort()
        else:
            communicator.all_reduce(on_device(np.ones(5), stream), stream=stream)
            stream.synchronize()

    results = on_ranks(3, run)
    for result in results[:2]:
        assert isinstance(result, unihal.AbortedError)
        assert "rank 2 of 3 aborted the communicator" in str(result)


def test_ranks_that_disagree_or_come_twice_are_refused(device: unihal.Device) -> None:
    identity = collectives.create_id(device)
    first: list[BaseException] = []

    def wait() -> None:
        try:
            Communicator(device, 0, 3, identity, timeout=1)
        except unihal.Error as error:
            first.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.3)
    with pytest.raises(
        unihal.AlreadyExistsError, match=f"rank 0 of the communicator is taken by process {os.getpid()}"
    ):
        Communicator(device, 0, 3, identity, timeout=1)
    with pytest.raises(unihal.InvalidArgumentError, match="has 2 ranks, another one said 3"):
        Communicator(device, 1, 2, identity, timeout=1)
    thread.join()
    assert "for ranks 1 and 2" in str(first[0])


# -- processes -------------------------------------------------------------------------------------------------------

RANK = """
import sys, time
import numpy as np
import unihal
from unihal.collectives import Communicator
rank, size, path, timeout = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
identity = open(path, "rb").read()
device = unihal.device(f"rdna:{rank}")
with Communicator(device, rank, size, identity, timeout) as communicator:
    x = unihal.Buffer.from_numpy(np.arange(300_001, dtype=np.float64) * (rank + 1), device)
"""


def start_ranks(size: int, body: str, path: Path, timeout: float = 60) -> list[subprocess.Popen[str]]:
    path.write_bytes(collectives.create_id("rdna:0"))
    code = RANK + "".join(f"    {line}\n" for line in body.strip().splitlines())
    environment = {**os.environ, "UNIHAL_STUB_DEVICES": str(size)}
    return [
        subprocess.Popen(
            [sys.executable, "-c", code, str(rank), str(size), str(path), str(timeout)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]


def segments() -> set[str]:
    return {entry.name for entry in Path("/dev/shm").glob(f"unihal.{os.geteuid()}.*")}


def test_processes_with_a_device_each(device: unihal.Device, tmp_path: Path) -> None:
    body = """
total = communicator.all_reduce(x).numpy()
assert np.array_equal(total, np.arange(300_001, dtype=np.float64) * 6), total
gathered = communicator.all_gather(x).numpy()
assert all(np.array_equal(gathered[r], np.arange(300_001, dtype=np.float64) * (r + 1)) for r in range(size))
print("right")
"""
    ranks = start_ranks(3, body, tmp_path / "id")
    for rank in ranks:
        out, err = rank.communicate(timeout=120)
        assert (rank.returncode, out, err) == (0, "right\n", "")
    assert segments() == set()


def test_a_killed_rank_is_named_and_leaves_nothing(device: unihal.Device, tmp_path: Path) -> None:
    body = """
print("here", flush=True)
while True:
    y = communicator.all_reduce(x)
    unihal.device(device).synchronize()
"""
    ranks = start_ranks(3, body, tmp_path / "id")
    for rank in ranks:
        assert rank.stdout is not None
        assert rank.stdout.readline() == "here\n"
    time.sleep(0.3)
    ranks[1].send_signal(signal.SIGKILL)
    for number in (0, 2):
        _, err = ranks[number].communicate(timeout=60)
        assert "AbortedError" in err
        assert f"needs rank 1, which has ended (process {ranks[1].pid})" in err
    ranks[1].communicate()
    assert segments() == set()


def test_a_rank_killed_before_the_others_came_is_named(device: unihal.Device, tmp_path: Path) -> None:
    path = tmp_path / "id"
    ranks = start_ranks(2, "pass", path, timeout=60)
    ranks[1].kill()
    ranks[1].communicate()
    deadline = time.monotonic() + 30
    while not segments() and time.monotonic() < deadline:
        time.sleep(0.05)
    [name] = segments()
    assert (Path("/dev/shm") / name).stat().st_mode & 0o777 == 0o600
    ranks[0].kill()
    ranks[0].communicate()
    # Nobody has it any more: the next communicator removes it, once it is old enough.
    os.utime(Path("/dev/shm") / name, (0, 0))
    Communicator(device, 0, 1, collectives.create_id(device)).close()
    assert segments() == set()


def test_many_communicators_leave_nothing(device: unihal.Device) -> None:
    def files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    def once() -> None:
        values_of(2, lambda communicator, stream: communicator.all_reduce(on_device(np.ones(3), stream), stream=stream))

    once()
    gc.collect()
    before = files()
    for _ in range(30):
        once()
    gc.collect()
    assert files() == before
    assert segments() == set()


def test_ctrl_c_ends_a_wait_for_ranks() -> None:
    code = """
import os, signal, threading, time
import unihal
from unihal import collectives
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs inherit as ignored
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begin = time.monotonic()
try:
    collectives.Communicator("rdna:0", 0, 2, collectives.create_id("rdna:0"), timeout=60)
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - begin < 30)
"""
    done = run_python(code)
    assert (done.stdout, done.stderr) == ("interrupted True\n", "")


def test_a_race_with_a_collective_is_found() -> None:
    code = """
import numpy as np
import unihal
from unihal import collectives
device = unihal.device("rdna:0")
with collectives.Communicator(device, 0, 1, collectives.create_id(device)) as communicator:
    with unihal.Stream(device) as one, unihal.Stream(device) as other:
        x = unihal.Buffer.from_numpy(np.ones(1000, np.float32), device, stream=one)
        communicator.all_reduce(x, out=x, stream=one)
        unihal.ops.add(x, x, stream=other)
        device.synchronize()
print(unihal.races()[0])
"""
    done = run_python(code, UNIHAL_STUB="strict")
    assert "all_reduce" in done.stdout, done.stderr
