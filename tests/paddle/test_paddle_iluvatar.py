"""The package paddle_iluvatar: devices, memory, streams, events, errors."""

from __future__ import annotations

import gc

import numpy as np
import paddle
import paddle_iluvatar as iluvatar
import pytest
import unihal


@pytest.fixture
def nothing_left():
    """The test frees what it takes, leaves device 0 current and no limit. (Paddle keeps its tensors' memory.)"""
    gc.collect()
    iluvatar.synchronize()
    before = [iluvatar.memory_info(number).allocated for number in range(2)]
    yield
    gc.collect()
    iluvatar.synchronize(0)
    iluvatar.synchronize(1)
    assert [iluvatar.memory_info(number).allocated for number in range(2)] == before
    assert iluvatar.current_device() == 0 and iluvatar.memory_info().limit == 0


def test_devices_are_those_of_paddle() -> None:
    assert iluvatar.is_available() and iluvatar.why_unavailable() == ""
    assert iluvatar.device_count() == 2
    assert [str(device) for device in iluvatar.devices()] == ["iluvatar:0", "iluvatar:1"]
    assert iluvatar.device_name(1) == iluvatar.properties(1).name != ""


def test_a_device_block_changes_paddle_too_and_changes_it_back() -> None:
    paddle.set_device("iluvatar:0")
    with iluvatar.device(1) as device:
        assert str(device) == "iluvatar:1" and iluvatar.current_device() == 1
        assert paddle.get_device() == "iluvatar:1"
        tensor = paddle.ones([3])
        assert "iluvatar:1" in str(tensor.place)
    assert iluvatar.current_device() == 0 and paddle.get_device() == "iluvatar:0"
    with pytest.raises(KeyError, match="inside"), iluvatar.device(1):
        raise KeyError("inside")
    assert iluvatar.current_device() == 0 and paddle.get_device() == "iluvatar:0"
    del tensor


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(iluvatar.OutOfRangeError, match="iluvatar:7"):
        iluvatar.set_device(7)
    with pytest.raises(TypeError, match="number"):
        iluvatar.set_device("iluvatar:0")  # type: ignore[arg-type]
    assert iluvatar.current_device() == 0


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int64", "uint8", "bool"])
def test_numpy_goes_there_and_comes_back(dtype: str, nothing_left: None) -> None:
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)
    with iluvatar.DeviceMemory.from_numpy(array, 1) as memory:
        assert memory.device == 1 and memory.shape == (2, 3, 4) and memory.nbytes == array.nbytes
        np.testing.assert_array_equal(memory.to_numpy(), array)
        out = np.empty_like(array)
        assert memory.to_numpy(out) is out
        np.testing.assert_array_equal(out, array)
        assert memory.dtype == array.dtype


def test_memory_is_freed_at_the_end_of_a_block_and_with_its_last_reference(nothing_left: None) -> None:
    before = iluvatar.memory_info().allocated
    with iluvatar.DeviceMemory(1 << 20) as memory:
        assert iluvatar.memory_info().allocated >= before + (4 << 20)
    assert memory.freed and iluvatar.memory_info().allocated == before
    memory.free()
    with pytest.raises(RuntimeError, match="freed"):
        memory.to_numpy()
    kept = iluvatar.DeviceMemory(1 << 20)
    assert iluvatar.memory_info().allocated > before
    del kept
    gc.collect()
    assert iluvatar.memory_info().allocated == before
    with pytest.raises(KeyError), iluvatar.DeviceMemory(1 << 20):
        raise KeyError
    gc.collect()
    assert iluvatar.memory_info().allocated == before


def test_another_shape_or_dtype_is_refused(nothing_left: None) -> None:
    with iluvatar.DeviceMemory((2, 3)) as memory:
        with pytest.raises(iluvatar.InvalidValueError, match="both must be equal"):
            memory.copy_from(np.zeros((3, 2), np.float32))
        with pytest.raises(ValueError, match="both must be equal"):
            memory.copy_from(np.zeros((2, 3), np.float64))
        with pytest.raises(ValueError, match="out is"):
            memory.to_numpy(np.zeros((2, 3), np.float64))
        with iluvatar.DeviceMemory((3, 2)) as other, pytest.raises(ValueError, match="both must be equal"):
            iluvatar.copy(memory, other)


def test_tensors_of_paddle() -> None:
    tensor = paddle.to_tensor(np.arange(4, dtype=np.float32), place=paddle.CustomPlace("iluvatar", 0))
    with iluvatar.DeviceMemory.from_tensor(tensor) as memory:
        memory.fill(3.0)
        back = memory.to_tensor()
        assert "iluvatar:0" in str(back.place)
        np.testing.assert_array_equal((back + tensor).numpy(), [3, 4, 5, 6])
    del back, tensor


def test_a_limit_holds_for_both_and_its_error_is_a_memory_error(nothing_left: None) -> None:
    iluvatar.empty_cache()
    iluvatar.set_memory_limit(iluvatar.memory_info().reserved + (1 << 20))
    try:
        with pytest.raises(iluvatar.OutOfMemoryError) as caught:
            iluvatar.DeviceMemory(1 << 24)
        assert isinstance(caught.value, MemoryError) and isinstance(caught.value, iluvatar.DeviceError)
        assert caught.value.status == "RESOURCE_EXHAUSTED"
    finally:
        iluvatar.set_memory_limit(0)


def test_streams_and_events_order_copies(nothing_left: None) -> None:
    array = np.arange(1 << 16, dtype=np.float32)
    with iluvatar.Stream() as stream, iluvatar.Stream() as other:
        source = iluvatar.DeviceMemory.from_numpy(array)
        target, last = iluvatar.DeviceMemory(1 << 16), iluvatar.DeviceMemory(1 << 16)
        iluvatar.synchronize()
        with stream.record_event() as begin:
            with iluvatar.stream(stream):
                assert iluvatar.current_stream() is stream
                iluvatar.copy(target, source)
            assert iluvatar.current_stream() is None
            other.wait_stream(stream)
            iluvatar.copy(last, target, stream=other)
            with other.record_event() as end:
                end.synchronize()
                assert end.query() and begin.elapsed_milliseconds(end) >= 0
        assert stream.query() and other.query()
        np.testing.assert_array_equal(last.to_numpy(stream=other), array)
        for memory in (source, target, last):
            memory.free()


def test_pinned_memory_is_an_array_of_the_host(nothing_left: None) -> None:
    with iluvatar.PinnedMemory((2, 2)) as pinned, iluvatar.DeviceMemory((2, 2)) as memory:
        pinned.as_numpy()[...] = [[1, 2], [3, 4]]
        iluvatar.copy(memory, pinned)
        np.testing.assert_array_equal(memory.to_numpy(), [[1, 2], [3, 4]])
        memory.fill(7)
        iluvatar.copy(pinned, memory)
        assert (pinned.as_numpy() == 7).all()


def test_peaks(nothing_left: None) -> None:
    iluvatar.reset_peak_memory()
    before = iluvatar.memory_info()
    assert before.peak == before.allocated and before.total > 0 and before.free <= before.total
    iluvatar.DeviceMemory(1 << 20).free()
    after = iluvatar.memory_info()
    assert after.peak >= before.peak + (4 << 20) and after.allocated == before.allocated


def test_errors_are_those_of_unihal() -> None:
    assert issubclass(iluvatar.OutOfMemoryError, iluvatar.DeviceError)
    assert iluvatar.DeviceUnavailableError is unihal.UnavailableError
