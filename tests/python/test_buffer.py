"""Buffers: creation, views, exchange with NumPy, lifetime."""

from __future__ import annotations

import gc
import io

import ml_dtypes
import numpy as np
import pytest
import unihal
from hypothesis import given
from hypothesis import strategies as st
from unihal import Buffer, ops

ALL_DTYPES = [
    "bool",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
SHAPES = [(), (0,), (1,), (7,), (3, 0, 2), (3, 5), (2, 3, 4, 5)]


def example(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    count = int(np.prod(shape))
    return (np.arange(count) % 100).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_round_trip_through_numpy(device: unihal.Device, shape: tuple[int, ...], dtype: str) -> None:
    array = example(shape, dtype)
    buffer = Buffer.from_numpy(array, device)
    assert buffer.shape == shape and buffer.dtype == dtype and buffer.size == array.size
    assert buffer.nbytes == array.nbytes
    back = buffer.numpy()
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_bfloat16(device: unihal.Device) -> None:
    array = np.array([1.0, -2.5, 3e38, np.inf], ml_dtypes.bfloat16)
    buffer = Buffer.from_numpy(array, device)
    assert buffer.dtype == "bfloat16" and buffer.itemsize == 2
    np.testing.assert_array_equal(buffer.numpy().view(np.uint16), array.view(np.uint16))
    with pytest.raises(BufferError, match="no buffer format"):
        memoryview(buffer)


def test_non_contiguous_arrays_are_copied_as_seen(device: unihal.Device) -> None:
    array = np.arange(24, dtype=np.int32).reshape(4, 6)[::-1, ::2].T
    np.testing.assert_array_equal(Buffer.from_numpy(array, device).numpy(), array)


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([None]), np.zeros(2, "datetime64[s]")])
def test_dtypes_without_a_counterpart_are_refused(array: np.ndarray, device: unihal.Device) -> None:
    with pytest.raises(unihal.InvalidArgumentError, match="is no dtype; the dtypes are: bool"):
        Buffer.from_numpy(array, device)


def test_foreign_byte_order_is_refused(device: unihal.Device) -> None:
    with pytest.raises(unihal.InvalidArgumentError, match="byte order"):
        Buffer.from_numpy(np.zeros(2, ">f4"), device)


INDICES = [
    0,
    -1,
    slice(1, 3),
    slice(None, None, -1),
    slice(10, 2),
    (slice(None), 2),
    (..., -1),
    (1, ..., slice(None, None, 2)),
    (None, slice(1, None), None),
    (slice(-3, None, 2), slice(None), slice(4, 0, -3)),
]


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_indexing_is_numpys(device: unihal.Device, index: object) -> None:
    array = np.arange(4 * 5 * 6, dtype=np.float32).reshape(4, 5, 6)
    view = Buffer.from_numpy(array, device)[index]  # type: ignore[index]
    expected = array[index]  # type: ignore[index]
    assert view.shape == expected.shape
    np.testing.assert_array_equal(view.numpy(), expected)


@given(st.data())
def test_random_slices_are_numpys(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=4)))
    bound = st.none() | st.integers(-7, 7)
    step = st.none() | st.integers(-3, 3).filter(bool)
    index = tuple(slice(data.draw(bound), data.draw(bound), data.draw(step)) for _ in shape)
    array = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    np.testing.assert_array_equal(Buffer.from_numpy(array, "rdna:0")[index].numpy(), array[index])


@pytest.mark.parametrize("index", [5, -6, (0, 0, 0), (..., ...)], ids=repr)
def test_indices_outside_are_refused(device: unihal.Device, index: object) -> None:
    with pytest.raises(IndexError):
        Buffer((5, 3), "float32", device)[index]  # type: ignore[index]


def test_fancy_indexing_names_the_alternative(device: unihal.Device) -> None:
    with pytest.raises(unihal.InvalidArgumentError, match=r"ops\.gather"):
        Buffer((5,), "float32", device)[[0, 1]]  # type: ignore[index]


def test_views_share_memory(device: unihal.Device) -> None:
    buffer = Buffer.from_numpy(np.zeros((4, 6), np.float32), device)
    ops.fill(buffer.T[1:3, ::2], 7)
    expected = np.zeros((4, 6), np.float32)
    expected.T[1:3, ::2] = 7
    np.testing.assert_array_equal(buffer.numpy(), expected)


def test_transpose_reshape_broadcast_and_view(device: unihal.Device) -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    buffer = Buffer.from_numpy(array, device)
    np.testing.assert_array_equal(buffer.transpose(2, 0, -2).numpy(), array.transpose(2, 0, 1))
    np.testing.assert_array_equal(buffer.T.numpy(), array.T)
    np.testing.assert_array_equal(buffer.reshape(6, -1).numpy(), array.reshape(6, 4))
    np.testing.assert_array_equal(
        buffer[:, :1].broadcast_to((5, 2, 3, 4)).numpy(), np.broadcast_to(array[:, :1], (5, 2, 3, 4))
    )
    np.testing.assert_array_equal(buffer.view("int32").numpy(), array.view(np.int32))
    assert buffer.T.contiguous().dense and not buffer.T.dense


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: b.transpose(0, 0), "is no order of 2 axes"),
        (lambda b: b.reshape(5, 2), "6 elements have no shape"),
        (lambda b: b.reshape(-6, -1), "6 elements have no shape"),
        (lambda b: b.T.reshape(6), "contiguous"),
        (lambda b: b.broadcast_to((2, 4)), "does not broadcast"),
        (lambda b: b.broadcast_to((3,)), "does not broadcast"),
        (lambda b: b.view("float64"), "differ in size"),
        (lambda b: b.view("float33"), "is no dtype"),
        (lambda b: b.copy_from(np.zeros((3, 2), np.float32)), "both must be equal"),
        (lambda b: b.copy_from(np.zeros((2, 3), np.float64)), "both must be equal"),
    ],
)
def test_impossible_views_are_refused(device: unihal.Device, call: object, message: str) -> None:
    with pytest.raises(unihal.InvalidArgumentError, match=message):
        call(Buffer((2, 3), "float32", device))  # type: ignore[operator]


@pytest.mark.parametrize("shape", [(-1,), (3, -2)])
def test_negative_shapes_are_refused(device: unihal.Device, shape: tuple[int, ...]) -> None:
    with pytest.raises(unihal.InvalidArgumentError, match="negative"):
        Buffer(shape, "float32", device)


def test_overflowing_shapes_are_refused(device: unihal.Device) -> None:
    with pytest.raises(unihal.OutOfMemoryError):
        Buffer((2**40, 2**40), "float32", device)
    with pytest.raises(unihal.OutOfMemoryError, match="Out of device memory"):
        Buffer((2**40,), "float32", device)


def test_what_a_failed_construction_leaves_can_be_looked_at(device: unihal.Device) -> None:
    with pytest.raises(unihal.OutOfMemoryError) as caught:
        Buffer((2**40,), "float32", device)
    # As a debugger does, or pytest when it prints a failure.
    buffer = next(entry.frame.f_locals["self"] for entry in caught.traceback if entry.name == "__init__")
    assert type(buffer) is Buffer
    for look in (repr, len, np.asarray, lambda x: x.device, lambda x: x.shape, lambda x: ops.add(x, x)):
        with pytest.raises(TypeError, match="its construction failed"):
            look(buffer)
    with pytest.raises(BufferError, match="its construction failed"):
        memoryview(buffer)


def test_ranks_above_the_limit_are_refused(device: unihal.Device) -> None:
    with pytest.raises(unihal.InvalidArgumentError, match="at most 10 axes"):
        Buffer((1,) * 11, "float32", device)


def test_buffer_protocol_looks_at_the_memory(device: unihal.Device) -> None:
    buffer = Buffer.from_numpy(np.arange(12, dtype=np.float32).reshape(3, 4), device)
    view = np.asarray(buffer.T)
    assert view.shape == (4, 3) and view.strides == (4, 16)
    view[1, 2] = 100
    assert buffer.numpy()[2, 1] == 100
    with memoryview(buffer) as memory:
        assert memory.format == "f" and memory.shape == (3, 4) and memory.c_contiguous
        assert memory[2, 1] == 100
    with pytest.raises(BufferError, match="not contiguous"):
        io.BytesIO().write(buffer.T)  # asks for one plain block
    del view


def test_memory_that_is_looked_at_cannot_be_freed(device: unihal.Device) -> None:
    buffer = Buffer.from_numpy(np.ones(3, np.float32), device)
    for look in (np.asarray, memoryview, np.from_dlpack):
        seen = look(buffer)
        with pytest.raises(BufferError, match="the memory is in use"):
            buffer.close()
        del seen
        gc.collect()
    buffer.close()
    assert buffer.closed


@pytest.mark.parametrize("dtype", ALL_DTYPES)
def test_dlpack_round_trip(device: unihal.Device, dtype: str) -> None:
    array = example((3, 4), dtype)
    buffer = Buffer.from_dlpack(array.T, device)
    assert buffer.dtype == dtype and buffer.shape == (4, 3)
    back = np.from_dlpack(buffer)
    np.testing.assert_array_equal(back, array.T)
    if array.size:
        assert np.shares_memory(back, np.asarray(buffer))


def test_dlpack_without_versions(device: unihal.Device) -> None:
    buffer = Buffer.from_numpy(np.arange(3), device)
    assert '"dltensor"' in repr(buffer.__dlpack__())
    assert '"dltensor_versioned"' in repr(buffer.__dlpack__(max_version=(1, 0)))
    assert buffer.__dlpack_device__() == (1, 0)


def test_dlpack_copy_is_a_copy(device: unihal.Device) -> None:
    buffer = Buffer.from_numpy(np.arange(3), device)
    copied = np.from_dlpack(buffer, copy=True)
    assert not np.shares_memory(copied, np.asarray(buffer))
    np.testing.assert_array_equal(copied, [0, 1, 2])


def test_dlpack_refusals(device: unihal.Device) -> None:
    buffer = Buffer.from_numpy(np.arange(3), device)
    with pytest.raises(BufferError, match="the host"):
        buffer.__dlpack__(dl_device=(2, 0))

    class Once:
        def __init__(self) -> None:
            self.capsule = np.arange(3).__dlpack__()

        def __dlpack__(self) -> object:
            return self.capsule

    once = Once()
    Buffer.from_dlpack(once, device)
    with pytest.raises(TypeError, match="consumed before"):
        Buffer.from_dlpack(once, device)


def test_a_buffer_passes_through_dlpack_as_itself(device: unihal.Device) -> None:
    buffer = Buffer((2,), "float32", device)
    assert Buffer.from_dlpack(buffer, device) is buffer


def test_context_manager_frees(device: unihal.Device) -> None:
    before = device.memory_stats().allocated_bytes
    with Buffer((1000,), "float64", device) as buffer:
        view = buffer[::2]
        assert device.memory_stats().allocated_bytes > before
    assert device.memory_stats().allocated_bytes == before
    assert buffer.closed and view.closed
    with pytest.raises(unihal.InvalidArgumentError, match="memory was freed"):
        view.numpy()
    with pytest.raises(unihal.InvalidArgumentError, match="memory was freed"):
        ops.add(buffer, 1)


def test_the_last_view_keeps_the_memory(device: unihal.Device) -> None:
    before = device.memory_stats().allocated_bytes
    view = Buffer.from_numpy(np.arange(10), device)[3:5]
    assert device.memory_stats().allocated_bytes > before
    np.testing.assert_array_equal(view.numpy(), [3, 4])
    del view
    assert device.memory_stats().allocated_bytes == before


def test_memory_used_on_several_streams_is_freed_in_order(device: unihal.Device) -> None:
    with unihal.Stream(device) as first, unihal.Stream(device) as second:
        for _ in range(20):
            x = Buffer.from_numpy(np.ones(5000, np.float32), device, stream=first)
            second.wait(first.record())
            y = ops.add(x, x, stream=second)
            x.close()
            assert (y.numpy(stream=second) == 2).all()
            y.close()


@pytest.mark.parametrize("kind", ["pinned", "managed"])
def test_other_kinds_of_memory(device: unihal.Device, kind: str) -> None:
    try:
        buffer = Buffer((4,), "float32", device, kind=kind)  # type: ignore[arg-type]
    except unihal.UnimplementedError:
        pytest.skip(f"the backend has no {kind} memory")
    np.asarray(buffer)[:] = 3
    assert buffer.__dlpack_device__() == (1, 0)
    assert (np.asarray(buffer) == 3).all()


def test_repr() -> None:
    with Buffer((2, 3), "int8", "rdna") as buffer:
        assert repr(buffer) == "unihal.Buffer(int8, shape=(2, 3), on='rdna:0')"
    assert repr(buffer) == "unihal.Buffer(int8, shape=(2, 3), on='rdna:0', closed)"


def test_length_and_item(device: unihal.Device) -> None:
    assert len(Buffer((4, 2), "float32", device)) == 4
    with pytest.raises(TypeError, match="no length"):
        len(Buffer((), "float32", device))
    assert Buffer.from_numpy(np.float64(2.5), device).item() == 2.5
