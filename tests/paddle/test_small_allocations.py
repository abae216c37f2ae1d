"""Small allocations of Paddle's pool, which the adapter hands out again whole."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import paddle
import pytest
from comparison import DEVICE, on
from processes import run

pytestmark = pytest.mark.unihal_no_fallback

STATISTICS = tuple(map(int, paddle.__version__.split(".")[:2])) >= (3, 3)


def test_the_last_that_was_freed_serves_the_next_of_its_size() -> None:
    with on(DEVICE):
        first, second, larger = paddle.empty([10, 16]), paddle.empty([3, 64]), paddle.empty([193])
        places = [x.data_ptr() for x in (first, second, larger)]
        del first, second, larger
        again = [paddle.empty([600], "uint8"), paddle.empty([160]), paddle.empty([2, 97])]
        assert [x.data_ptr() for x in again] == [places[1], places[0], places[2]]


@pytest.mark.skipif(not STATISTICS, reason="paddle.device asks about custom devices since Paddle 3.3")
def test_statistics_count_tensors() -> None:
    with on(DEVICE):
        before = paddle.device.memory_allocated()
        tensors = [paddle.empty([10, 16]) for _ in range(100)]
        assert paddle.device.memory_allocated() - before == 100 * 768
        del tensors
        assert paddle.device.memory_allocated() == before
        again = [paddle.empty([10, 16]) for _ in range(10)]
        assert paddle.device.memory_allocated() - before == len(again) * 768


@pytest.mark.skipif(not STATISTICS, reason="`paddle.device` has no `empty_cache` before Paddle 3.3")
def test_what_is_kept_is_given_back(tmp_path: Path) -> None:
    program = f"""
import paddle
paddle.set_device("{DEVICE}")
tensors = [paddle.empty([n]) for n in (1, 64, 65, 1000, 8192, 8193) for _ in range(40)]
del tensors
assert paddle.device.memory_allocated() == 0 < paddle.device.memory_reserved()
paddle.device.empty_cache()
assert paddle.device.memory_reserved() == 0, paddle.device.memory_reserved()
"""
    done = run(program, tmp_path)
    assert done.returncode == 0, done.stderr


def test_what_is_kept_is_free_for_others(tmp_path: Path) -> None:
    program = f"""
import paddle
paddle.set_device("{DEVICE}")
tensors = [paddle.empty([256 * n]) for n in range(8, 33) for _ in range(8)]
assert sum(x.size for x in tensors) * 4 > 3 << 20
del tensors
x = paddle.full([5 << 20], 3, "uint8")
assert (x.numpy() == 3).all()
try:
    y = paddle.full([5 << 20], 3, "uint8")
except (OSError, RuntimeError, MemoryError) as error:
    assert "limit" in str(error).lower() or "memory" in str(error).lower(), error
else:
    raise AssertionError("there is no room for two of them")
small = [paddle.full([64], n, "int32") for n in range(100)]
assert [int(x.numpy()[63]) for x in small] == list(range(100))
"""
    done = run(program, tmp_path, UNIHAL_MEMORY_LIMIT=str(8 << 20))
    assert done.returncode == 0, done.stderr


def test_threads_share_what_is_kept() -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        with on(DEVICE):
            for _ in range(200):
                size = int(random.integers(1, 300))
                x, y = paddle.full([size], seed, "int64"), paddle.full([size], 100 * seed, "int64")
                if not (x + y == 101 * seed).all():
                    wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
