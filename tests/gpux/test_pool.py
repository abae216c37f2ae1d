"""Workers, queues and batches, without HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpux.errors import BusyError, ModelError, ProviderError, RequestTimeoutError
from gpux.tensors import TensorSpec
from gpux.workers.joining import run_joined, why_not_joined
from gpux.workers.pool import Observer, Pool, PoolSettings
from gpux.workers.queueing import QueuedModel, Request
from gpux.workers.wire import HEADER, decode, encode, lengths
from sources import affine_result


@pytest.mark.parametrize(
    "array",
    [np.arange(6, dtype=np.int64).reshape(2, 3), np.zeros((0, 4), np.float32), np.float16(2.5).reshape(()),
     np.array([[True], [False]]), np.array(["a", "grün"], dtype=object), np.arange(24.0).reshape(2, 3, 4).T],
)  # fmt: skip
def test_arrays_pass_unchanged(array: np.ndarray) -> None:
    content = b"".join(bytes(part) for part in encode(("infer", 3), [array, array]))
    body, data = lengths(content)
    assert len(content) == HEADER.size + body + data
    message, arrays = decode(content[HEADER.size : HEADER.size + body], content[HEADER.size + body :])
    assert message == ("infer", 3)
    for found in arrays:
        assert found.dtype == array.dtype and found.shape == array.shape and np.array_equal(found, array)


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="no frame"):
        lengths(bytes(16))


SPECS = {"x": TensorSpec("x", "float32", (None, 4))}


def test_joined_requests_get_their_own_rows() -> None:
    requests = [[np.full((rows, 4), rows, np.float32)] for rows in (1, 3, 2)]
    results = run_joined(lambda arrays: [arrays[0] * 2, arrays[0][:, 0]], requests)
    assert [[output.shape[0] for output in result] for result in results] == [[1, 1], [3, 3], [2, 2]]
    assert all((result[0] == 2 * request[0]).all() for request, result in zip(requests, results))


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (lambda arrays: [arrays[0] * 2], ""),
        (lambda arrays: [arrays[0] - arrays[0].mean()], "mixes the rows"),
        (lambda arrays: [np.cumsum(arrays[0], axis=0)], "mixes the rows"),
        (lambda arrays: [arrays[0].sum(axis=0)], "do not have a row for each row"),
        (lambda arrays: [arrays[0][::-1]], "mixes the rows"),
        (lambda arrays: [arrays[0] * (1.01 if len(arrays[0]) == 1 else 1)], ""),  # a single row's roundings are others
        (lambda arrays: [arrays[0] * (1.1 if len(arrays[0]) == 1 else 1)], "mixes the rows"),
        (lambda arrays: [arrays[0] + arrays[0].mean() / 10], "mixes the rows"),
    ],
)
def test_models_that_mix_rows_are_found(run: Callable[[Any], Any], says: str) -> None:
    found = why_not_joined(run, SPECS)
    assert says in found and bool(says) == bool(found)


def waiting(model: QueuedModel, rows: int, attempts: int = 0, width: int = 4) -> Request:
    future = asyncio.get_running_loop().create_future()
    request = Request([np.zeros((rows, width), np.float32)], ("y",), future, 0.0, rows, attempts)
    model.queue.append(request)
    model.waiting += 1
    return request


async def _batches() -> None:
    model = QueuedModel("m", "", SPECS, {}, "", 4, 0.0)
    first = [waiting(model, 1), waiting(model, 1, width=5), waiting(model, 2), waiting(model, 3), waiting(model, 1)]
    assert model.take() == [first[0], first[2], first[4]]  # others do not fit in shape or number, and keep their order
    assert model.take() == [first[1]] and model.take() == [first[3]] and model.take() == [] and model.waiting == 0
    once, suspect, other = waiting(model, 1), waiting(model, 1, attempts=1), waiting(model, 1)
    assert model.take() == [once, other] and model.take() == [suspect]
    gone = waiting(model, 1)
    gone.future.cancel()
    model.waiting -= 1
    assert model.take() == []


def test_which_requests_go_together() -> None:
    asyncio.run(_batches())


def with_pool(
    files: Path, settings: PoolSettings, body: Callable[[Pool, QueuedModel], Awaitable[None]], name: str = "affine"
) -> None:
    async def run() -> None:
        sizes: list[int] = []
        pool = Pool(settings, Observer(batch=lambda key, size, seconds: sizes.append(size)))
        pool.sizes = sizes  # type: ignore[attr-defined]
        await pool.start()
        try:
            await body(pool, await pool.load("m:1", str(files / f"{name}.onnx")))
        finally:
            await pool.stop()

    asyncio.run(run())


def test_batches_give_the_same_as_one_by_one(files: Path) -> None:
    x = np.random.default_rng(0).standard_normal((100, 1, 4)).astype(np.float32)

    async def body(pool: Pool, model: QueuedModel) -> None:
        assert model.not_joined == ""
        answers = await asyncio.gather(*(pool.submit(model, [row], ("y",)) for row in x))
        for row, [found] in zip(x, answers):
            np.testing.assert_allclose(found, affine_result(row), rtol=1e-5, atol=1e-5)
        sizes = pool.sizes  # type: ignore[attr-defined]
        assert sum(sizes) == 100 and max(sizes) == 16 and len(sizes) <= 10

    with_pool(files, PoolSettings(batch_size=16), body)


def test_a_delay_gathers_a_batch(files: Path) -> None:
    async def body(pool: Pool, model: QueuedModel) -> None:
        x = np.zeros((1, 4), np.float32)
        loop = asyncio.get_running_loop()
        start = loop.time()
        futures = []
        for _ in range(3):
            futures.append(pool.submit(model, [x], ("y",)))
            await asyncio.sleep(0.02)
        await asyncio.gather(*futures)
        assert pool.sizes == [3] and loop.time() - start >= 0.3  # type: ignore[attr-defined]
        start = loop.time()
        await asyncio.gather(*(pool.submit(model, [x], ("y",)) for _ in range(4)))  # full: nobody waits
        assert pool.sizes == [3, 4] and loop.time() - start < 0.25  # type: ignore[attr-defined]

    with_pool(files, PoolSettings(batch_size=4, batch_delay=0.3), body)


def test_one_wrong_request_does_not_fail_its_batch(tmp_path: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper
    from sources import save, value

    node = helper.make_node("Gather", ["table", "index"], ["y"])
    table = numpy_helper.from_array(np.arange(10, dtype=np.float32), "table")
    save(tmp_path / "lookup.onnx", [node], [value("index", ["n"], TensorProto.INT64)], [value("y", ["n"])], [table])

    async def body(pool: Pool, model: QueuedModel) -> None:
        indices = [3, 99, 5, 7]
        futures = [pool.submit(model, [np.array([index])], ("y",)) for index in indices]
        answers = await asyncio.gather(*futures, return_exceptions=True)
        assert [answer[0].tolist() for index, answer in zip(indices, answers) if index < 10] == [[3.0], [5.0], [7.0]]
        assert isinstance(answers[1], ProviderError) and "99" in str(answers[1])

    with_pool(tmp_path, PoolSettings(batch_delay=0.2, batch_size=4), body, "lookup")


def test_a_request_that_ends_workers_is_given_up(files: Path) -> None:
    async def body(pool: Pool, model: QueuedModel) -> None:
        future = pool.submit(model, [np.array(100_000_000)], ("y",))
        for _ in range(2):
            while not model.running:
                await asyncio.sleep(0.01)
            os.kill(pool.pids()[0], signal.SIGKILL)
            while model.running:
                await asyncio.sleep(0.01)
        with pytest.raises(BusyError, match="two workers died"):
            await future
        [found] = await pool.submit(model, [np.array(1)], ("y",))  # others go on
        assert np.isfinite(found) and pool.restarts == 2

    with_pool(files, PoolSettings(timeout=20), body, "slow")


def test_requests_that_wait_time_out_in_time(files: Path) -> None:
    async def body(pool: Pool, model: QueuedModel) -> None:
        futures = [pool.submit(model, [np.array(100_000_000)], ("y",)) for _ in range(3)]
        answers = await asyncio.gather(*futures, return_exceptions=True)
        assert [type(answer) for answer in answers] == [RequestTimeoutError] * 3
        assert model.waiting == 0

    with_pool(files, PoolSettings(timeout=0.5), body, "slow")


def test_a_model_that_is_refused_is_in_no_worker(files: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"rubbish")

    async def body(pool: Pool, model: QueuedModel) -> None:
        with pytest.raises(ModelError, match="does not take the model"):
            await pool.load("broken:1", str(tmp_path / "broken.onnx"))
        assert list(pool.models) == ["m:1"]
        assert (await pool.submit(model, [np.zeros((1, 4), np.float32)], ("y",)))[0].shape == (1, 2)
        await pool.unload("m:1")
        with pytest.raises(BusyError, match="was unloaded"):
            pool.submit(model, [np.zeros((1, 4), np.float32)], ("y",))

    with_pool(files, PoolSettings(workers=2), body)
