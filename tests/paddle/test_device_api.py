"""paddle.device for our types: memory, streams and events, properties, DLPack, random states, flags."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import paddle
import pytest
from comparison import DEVICE, on
from processes import run

pytestmark = pytest.mark.unihal_no_fallback

if tuple(map(int, paddle.__version__.split(".")[:2])) < (3, 3):
    pytest.skip("paddle.device asks about custom devices since Paddle 3.3", allow_module_level=True)

SECOND = f"{DEVICE}:1"


def test_memory_statistics_follow_tensors_and_the_current_device() -> None:
    for device in (f"{DEVICE}:0", SECOND):
        with on(device):
            before = paddle.device.memory_allocated()
            x = paddle.zeros([1024, 256])
            assert paddle.device.memory_allocated() - before == 2**20 == paddle.device.memory_allocated(device) - before
            assert paddle.device.max_memory_allocated(x.place) >= before + 2**20
            assert paddle.device.cuda.memory_allocated() == paddle.device.memory_allocated()
            assert paddle.device.memory_reserved() >= paddle.device.memory_allocated()
            assert paddle.device.max_memory_reserved() >= paddle.device.memory_reserved()
            del x
            paddle.device.reset_peak_memory_stats()
            assert paddle.device.max_memory_allocated() == before
            paddle.device.reset_max_memory_reserved()
            paddle.device.empty_cache()


def test_memory_of_the_device(capsys: pytest.CaptureFixture[str]) -> None:
    with on(SECOND):
        free, total = paddle.cuda.mem_get_info()
        x = paddle.zeros([2**22])
        less, same = paddle.device.mem_get_info(SECOND)
        assert total == same > 0 and free - less >= x.size * 4
        assert paddle.device.memory_summary() is None
    assert f"Memory of Place({SECOND})" in capsys.readouterr().out
    with on("cpu"), pytest.raises(ValueError, match="Expected"):
        paddle.cuda.mem_get_info()


def test_properties() -> None:
    with on(DEVICE):
        properties = paddle.device.get_device_properties()
        assert properties.name == paddle.device.get_device_name(SECOND) == paddle.device.cuda.get_device_name()
        assert properties.total_memory > 0 and properties.multi_processor_count > 0
        assert paddle.device.get_device_capability() == (properties.major, properties.minor)
        assert paddle.device.device_count() == 2
    assert paddle.device.custom_device.device_count("rdna") == 2


def test_streams_and_events() -> None:
    with on(SECOND):
        x = paddle.ones([256, 256])
        begin, end = paddle.device.Event(enable_timing=True), paddle.device.Event(enable_timing=True)
        begin.record()
        stream = paddle.device.Stream()
        stream.wait_event(begin)
        with paddle.device.stream_guard(stream):
            y = x @ x
        end.record(stream)
        end.synchronize()
        assert end.query() and stream.query()
        assert 0 < begin.elapsed_time(end) < 60_000
        paddle.device.current_stream().wait_stream(stream)
        paddle.device.synchronize()
        paddle.device.custom_device.synchronize(SECOND)
        assert float(y[0, 0]) == 256
        never = paddle.device.Event(enable_timing=True)
        with pytest.raises(RuntimeError, match="record"):
            begin.elapsed_time(never)


def test_devices_as_objects() -> None:
    with on(DEVICE):
        x = paddle.ones([2])
        assert x.device == f"{DEVICE}:0" == paddle.device.get_default_device()
        with paddle.device(SECOND):
            assert (paddle.ones([2]) + 1).device == SECOND
        paddle.device.nvtx.range_push("a")
        paddle.device.nvtx.range_pop()


def test_pinned_memory_is_the_hosts() -> None:
    with on(DEVICE):
        x = paddle.to_tensor([1.0], stop_gradient=False)
        for pinned in (x.pin_memory(), x.cpu().pin_memory()):
            assert pinned.place.is_cpu_place() and not pinned.stop_gradient


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "bool", "complex64", "uint8"])
def test_dlpack_within_paddle_shares_memory(dtype: str) -> None:
    with on(DEVICE):
        x = paddle.arange(12).reshape([3, 4]).astype(dtype)
        for y in (paddle.from_dlpack(paddle.to_dlpack(x)), paddle.from_dlpack(x)):
            assert y.data_ptr() == x.data_ptr() and y.place == x.place and y.dtype == x.dtype and y.shape == x.shape


def test_dlpack_with_numpy() -> None:
    with on(DEVICE):
        x = paddle.arange(12, dtype="float32").reshape([3, 4])
        turned = x.transpose([1, 0])
        host = np.arange(6.0, dtype=np.float32)
        if x.__dlpack_device__() == (1, 0):
            np.testing.assert_array_equal(np.from_dlpack(x), x.numpy())
            np.testing.assert_array_equal(np.from_dlpack(turned), turned.numpy())
            assert np.from_dlpack(paddle.zeros([0, 3])).shape == (0, 3)
        else:
            with pytest.raises(BufferError):
                x.__dlpack__(dl_device=(1, 0), copy=False)
        copied = paddle.from_dlpack(x.__dlpack__(dl_device=(1, 0), copy=True))
        np.testing.assert_array_equal(copied.numpy(), x.numpy())
        y = paddle.from_dlpack(host, device=DEVICE)
        assert DEVICE in str(y.place)
        np.testing.assert_array_equal(y.numpy(), host)
        with pytest.raises(BufferError, match="copy"):
            paddle.from_dlpack(x, device="cpu", copy=False)
        with pytest.raises(BufferError, match="gradient"):
            paddle.to_tensor([1.0], stop_gradient=False).__dlpack__()
        capsule = x.__dlpack__()
        del capsule  # never used: its memory goes with it
        paddle.to_dlpack(x)


def test_random_states() -> None:
    with on(SECOND):
        paddle.seed(5)
        for get, put in (
            (paddle.get_rng_state, paddle.set_rng_state),
            (paddle.get_cuda_rng_state, paddle.set_cuda_rng_state),
            (paddle.device.get_rng_state, paddle.device.set_rng_state),
        ):
            state = get()
            first = paddle.rand([8]).numpy()
            put(state)
            np.testing.assert_array_equal(paddle.rand([8]).numpy(), first)
        with pytest.raises(ValueError, match="Length"):
            paddle.set_rng_state(paddle.get_rng_state()[:1])


def test_flags_of_determinism() -> None:
    name = "FLAGS_cudnn_deterministic"
    paddle.set_flags({name: True})
    assert paddle.get_flags(name) == {name: True}
    paddle.set_flags({name: False})
    with pytest.raises(ValueError, match="FLAGS_nothing"):
        paddle.set_flags({"FLAGS_nothing": 1})


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_the_check_for_nan_names_the_op(dtype: str) -> None:
    paddle.set_flags({"FLAGS_check_nan_inf": 1})
    try:
        with on(DEVICE):
            x = paddle.to_tensor([0.0, 1.0]).astype(dtype)
            (x + 1).numpy()
            with pytest.raises(RuntimeError, match="op=log"):
                paddle.log(x)
    finally:
        paddle.set_flags({"FLAGS_check_nan_inf": 0})


@pytest.mark.whole
def test_the_check_of_an_installation(tmp_path: Path) -> None:
    """On two devices it trains in two processes. They are spawned, so that the program is a file."""
    path = tmp_path / "check.py"
    path.write_text("import paddle\nif __name__ == '__main__':\n    paddle.utils.run_check()\n")
    result = run(f"import runpy; runpy.run_path({os.fspath(path)!r}, run_name='__main__')", tmp_path)
    assert result.returncode == 0, result.stderr
    assert "works well on 2" in result.stdout


@pytest.mark.parametrize("strategy", ["naive_best_fit", "auto_growth"])
@pytest.mark.whole
def test_strategies_of_allocation(strategy: str, tmp_path: Path) -> None:
    program = f"import paddle; paddle.set_device({DEVICE!r}); print(float((paddle.ones([1000]) * 2).sum()))"
    result = run(program, tmp_path, FLAGS_allocator_strategy=strategy)
    assert (result.returncode, result.stdout) == (0, "2000.0\n"), result.stderr
