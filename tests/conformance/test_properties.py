"""Properties of ops over arbitrary views: random shapes, strides (zero, negative, overlapping) and offsets.

Numbers are small whole ones, so that sums and products are exact in every floating dtype and results can be compared
for equality. Examples are the same in every run; write `derandomize=False` below to look for others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import unihal
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided
from unihal import Buffer, _core, ops
from unihal.ops.launch import launch
from unihal.ops.reduction import REDUCTIONS

_INTEGERS = ("int32", "int64", "int16", "int8", "uint8", "uint16", "uint32", "uint64")
_FLOATING = ("float32", "float64", "float16", "bfloat16")
_REAL = (*_FLOATING, *_INTEGERS, "bool")

_EXAMPLES = settings(deadline=None, derandomize=True, max_examples=250)
_MAX_RANK = 5


@pytest.fixture(scope="module")
def device() -> Iterator[unihal.Device]:
    """A device, with nothing left allocated at the end; one for all examples of a test."""
    found = unihal.device("rdna:0")
    before = found.memory_stats().live_allocations
    yield found
    assert found.memory_stats().live_allocations == before


@dataclass(frozen=True)
class View:
    """Where elements lie in a block of memory: shape, strides and offset in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    length: int

    def of_array(self, block: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The view of a block on the host."""
        if 0 in self.shape:
            return np.empty(self.shape, block.dtype)
        return as_strided(block[self.offset :], self.shape, [stride * block.itemsize for stride in self.strides])

    def of_buffer(self, block: Buffer) -> Buffer:
        """The same view on the device."""
        return block._view(self.shape, self.strides, self.offset * block.itemsize)


_SHAPES = st.lists(st.integers(0, 5), max_size=_MAX_RANK).map(tuple)


def _enclosing(shape: Sequence[int], strides: Sequence[int], before: int, after: int) -> View:
    reach = [(length - 1) * stride for length, stride in zip(shape, strides)] if 0 not in shape else []
    low = sum(step for step in reach if step < 0)
    high = sum(step for step in reach if step > 0)
    return View(tuple(shape), tuple(strides), before - low, before - low + high + 1 + after)


@st.composite
def read_views(draw: st.DrawFn, shape: Sequence[int] | None = None) -> View:
    """Any view: elements may coincide."""
    dims = draw(_SHAPES) if shape is None else tuple(shape)
    strides = [draw(st.integers(-7, 7)) for _ in dims]
    return _enclosing(dims, strides, draw(st.integers(0, 3)), draw(st.integers(0, 3)))


@st.composite
def written_views(draw: st.DrawFn, shape: Sequence[int]) -> View:
    """A view of distinct elements: axes in any order and direction, with gaps."""
    strides = [0] * len(shape)
    stride = draw(st.integers(1, 2))
    for axis in draw(st.permutations(range(len(shape)))):
        strides[axis] = stride * draw(st.sampled_from((1, -1)))
        stride = stride * max(1, shape[axis]) + draw(st.integers(0, 2))
    return _enclosing(shape, strides, draw(st.integers(0, 3)), draw(st.integers(0, 3)))


def _numpy_dtype(dtype: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def _block(length: int, dtype: str, seed: int, low: int = -4, high: int = 5) -> np.ndarray[Any, Any]:
    smallest = 0 if dtype.startswith(("u", "b")) and dtype != "bfloat16" else low
    return np.random.default_rng(seed).integers(smallest, high, length).astype(_numpy_dtype(dtype))


def _read(view: View, dtype: str, device: unihal.Device, seed: int) -> tuple[np.ndarray[Any, Any], Buffer]:
    """An operand on the host and on the device."""
    block = _block(view.length, dtype, seed)
    return view.of_array(block), view.of_buffer(Buffer.from_numpy(block, device))


class Written:
    """An output on the device; knows which bytes of its block no op may touch."""

    def __init__(self, view: View, dtype: str, device: unihal.Device) -> None:
        self._view = view
        self._before = _block(view.length, dtype, 99)
        self._block = Buffer.from_numpy(self._before, device)
        self.buffer = view.of_buffer(self._block)

    def check(self, expected: np.ndarray[Any, Any]) -> None:
        """The view holds what is expected, and everything else what it held before."""
        wanted = self._before.copy()
        if 0 not in self._view.shape:
            self._view.of_array(wanted)[...] = expected.astype(wanted.dtype)
        np.testing.assert_array_equal(self._block.numpy(), wanted)


_SEEDS = st.integers(0, 1000)

# -- against NumPy


@_EXAMPLES
@given(data=st.data(), x_view=read_views(), dtype=st.sampled_from((*_REAL, "complex64")), seed=_SEEDS)
def test_copy(device: unihal.Device, data: st.DataObject, x_view: View, dtype: str, seed: int) -> None:
    x, on_device = _read(x_view, dtype, device, seed)
    y = Written(data.draw(written_views(x_view.shape)), dtype, device)
    launch("copy", [on_device], [y.buffer])
    y.check(x)


@_EXAMPLES
@given(data=st.data(), x_view=read_views(), seed=_SEEDS)
def test_cast(device: unihal.Device, data: st.DataObject, x_view: View, seed: int) -> None:
    source, target = data.draw(st.sampled_from(_REAL)), data.draw(st.sampled_from(_REAL))
    x, on_device = _read(x_view, source, device, seed)
    if target.startswith("uint"):  # what becomes of numbers below 0 is nobody's promise
        on_device = ops.absolute(on_device)
        x = on_device.numpy()
    y = Written(data.draw(written_views(x_view.shape)), target, device)
    launch("cast", [on_device], [y.buffer])
    y.check(x.astype(np.float64) != 0 if target == "bool" else x.astype(np.float64))


@st.composite
def broadcast_views(draw: st.DrawFn, shape: Sequence[int]) -> View:
    """A view that broadcasts to the shape: axes of length 1, leading axes left out."""
    kept = [length if draw(st.booleans()) else 1 for length in shape]
    return draw(read_views(shape=kept[draw(st.integers(0, len(kept))) :]))


_BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


@_EXAMPLES
@given(data=st.data(), shape=_SHAPES, name=st.sampled_from(sorted(_BINARY)), dtype=st.sampled_from(_REAL[:-1]))
def test_map_with_broadcasting(
    device: unihal.Device, data: st.DataObject, shape: tuple[int, ...], name: str, dtype: str
) -> None:
    x, x_device = _read(data.draw(broadcast_views(shape)), dtype, device, 1)
    z, z_device = _read(data.draw(broadcast_views(shape)), dtype, device, 2)
    y = Written(data.draw(written_views(shape)), dtype, device)
    launch("map", [x_device, z_device], [y.buffer], {"function": _core.map_functions()[name]["number"]})
    y.check(np.broadcast_to(_BINARY[name](x, z), shape))


_REDUCED = {"sum": np.sum, "product": np.prod, "maximum": np.max, "minimum": np.min}


@_EXAMPLES
@given(data=st.data(), x_view=read_views(), name=st.sampled_from(sorted(_REDUCED)), seed=_SEEDS)
def test_reduce(device: unihal.Device, data: st.DataObject, x_view: View, name: str, seed: int) -> None:
    dtype = data.draw(st.sampled_from(("float64", "int64", "float32")))
    if name == "product" and int(np.prod(x_view.shape)) > 11:  # 4^11 is exact in float32
        name = "sum"
    axes = tuple(axis for axis in range(len(x_view.shape)) if data.draw(st.booleans()))
    x, on_device = _read(x_view, dtype, device, seed)
    initial = {}
    if name in ("maximum", "minimum"):
        limits = (np.iinfo(np.int64).min, np.iinfo(np.int64).max) if dtype == "int64" else (-np.inf, np.inf)
        initial = {"initial": limits[name == "minimum"]}
    expected = _REDUCED[name](x, axis=axes, keepdims=True, **initial)
    y = Written(data.draw(written_views(expected.shape)), dtype, device)
    launch("reduce", [on_device], [y.buffer], {"reduction": REDUCTIONS[name]})
    y.check(expected)


@_EXAMPLES
@given(data=st.data(), dtype=st.sampled_from((*_FLOATING, "int32", "int64")))
def test_matmul(device: unihal.Device, data: st.DataObject, dtype: str) -> None:
    batch = data.draw(st.lists(st.integers(0, 3), max_size=3).map(tuple))
    m, k, n = (data.draw(st.integers(0, 6)) for _ in range(3))

    def batch_of(rows: int, columns: int) -> tuple[int, ...]:
        kept = tuple(length if data.draw(st.booleans()) else 1 for length in batch)
        return (*kept[data.draw(st.integers(0, len(kept))) :], rows, columns)

    a, a_device = _read(data.draw(read_views(shape=batch_of(m, k))), dtype, device, 1)
    b, b_device = _read(data.draw(read_views(shape=batch_of(k, n))), dtype, device, 2)
    d = Written(data.draw(written_views((*batch, m, n))), dtype, device)
    launch("matmul", [a_device, b_device], [d.buffer])
    d.check(np.broadcast_to(np.matmul(a.astype(np.float64), b.astype(np.float64)), (*batch, m, n)))


# -- identities


@_EXAMPLES
@given(x_view=read_views(), dtype=st.sampled_from(_REAL), seed=_SEEDS)
def test_a_copy_of_a_transposed_copy_transposed_is_the_same(
    device: unihal.Device, x_view: View, dtype: str, seed: int
) -> None:
    x, on_device = _read(x_view, dtype, device, seed)
    np.testing.assert_array_equal(ops.copy(ops.copy(on_device).T).T.numpy(), x)


@_EXAMPLES
@given(data=st.data(), x_view=read_views(), seed=_SEEDS)
def test_a_sum_over_axes_is_a_sum_of_sums(device: unihal.Device, data: st.DataObject, x_view: View, seed: int) -> None:
    _, on_device = _read(x_view, "int64", device, seed)
    first = [axis for axis in range(len(x_view.shape)) if data.draw(st.booleans())]
    second = [axis for axis in range(len(x_view.shape)) if axis not in first]
    whole = ops.sum(on_device, keep_axes=True)
    in_two = ops.sum(ops.sum(on_device, first, keep_axes=True), second, keep_axes=True)
    np.testing.assert_array_equal(in_two.numpy(), whole.numpy())


@_EXAMPLES
@given(data=st.data(), x_view=read_views(), seed=_SEEDS)
def test_a_scan_ends_with_the_sum(device: unihal.Device, data: st.DataObject, x_view: View, seed: int) -> None:
    if not x_view.shape:
        return
    axis = data.draw(st.integers(0, len(x_view.shape) - 1))
    x, on_device = _read(x_view, "int64", device, seed)
    inclusive, exclusive = (ops.scan(on_device, axis, exclusive=flag) for flag in (False, True))
    np.testing.assert_array_equal(ops.subtract(inclusive, exclusive).numpy(), x)
    if x.shape[axis]:
        last = inclusive[(slice(None),) * axis + (slice(-1, None),)]
        np.testing.assert_array_equal(last.numpy(), ops.sum(on_device, axis, keep_axes=True).numpy())


@_EXAMPLES
@given(data=st.data(), updates=read_views(), seed=_SEEDS)
def test_what_was_scattered_is_gathered(device: unihal.Device, data: st.DataObject, updates: View, seed: int) -> None:
    if not updates.shape:
        return
    axis = data.draw(st.integers(0, len(updates.shape) - 1))
    rows = updates.shape[axis] + data.draw(st.integers(0, 3))
    places = data.draw(st.permutations(range(rows)))[: updates.shape[axis]]
    index = Buffer.from_numpy(np.array(places, data.draw(st.sampled_from(("int32", "int64")))), device)
    x, on_device = _read(updates, "float32", device, seed)
    table = Written(data.draw(written_views((*x.shape[:axis], rows, *x.shape[axis + 1 :]))), "float32", device)
    before = table.buffer.numpy()
    launch("scatter", [index, on_device], [table.buffer], {"axis": axis})
    gathered = Written(data.draw(written_views(x.shape)), "float32", device)
    launch("gather", [table.buffer, index], [gathered.buffer], {"axis": axis})
    gathered.check(x)
    untouched = [row for row in range(rows) if row not in places]
    np.testing.assert_array_equal(np.take(table.buffer.numpy(), untouched, axis), np.take(before, untouched, axis))


@_EXAMPLES
@given(data=st.data(), x_view=read_views(), dtype=st.sampled_from(_REAL), seed=_SEEDS)
def test_sorting_names_the_places_of_its_values(
    device: unihal.Device, data: st.DataObject, x_view: View, dtype: str, seed: int
) -> None:
    if not x_view.shape:
        return
    axis = data.draw(st.integers(0, len(x_view.shape) - 1))
    descending = data.draw(st.booleans())
    x, on_device = _read(x_view, dtype, device, seed)
    values, indices = ops.sort(on_device, axis, descending=descending)
    ordered = np.sort(x.astype(np.float64), axis)
    np.testing.assert_array_equal(values.numpy().astype(np.float64), np.flip(ordered, axis) if descending else ordered)
    found = ops.gather_elements(on_device, indices, axis=axis)
    np.testing.assert_array_equal(found.numpy(), values.numpy())
    if x.shape[axis]:
        first = (ops.argmax if descending else ops.argmin)(on_device, axis, keep_axes=True)
        np.testing.assert_array_equal(first.numpy(), np.take(indices.numpy(), [0], axis))


@_EXAMPLES
@given(data=st.data(), shape=_SHAPES, seed=_SEEDS)
def test_convolution_with_a_unit_filter_is_the_image(
    device: unihal.Device, data: st.DataObject, shape: tuple[int, ...], seed: int
) -> None:
    spatial = (*shape, 3)[: data.draw(st.integers(1, 3))]
    channels = data.draw(st.integers(1, 3))
    image = (data.draw(st.integers(0, 2)), channels, *spatial)
    x, on_device = _read(data.draw(read_views(shape=image)), "float32", device, seed)
    unit = np.zeros((channels, 1, *(3 for _ in spatial)), np.float32)
    unit[(..., *(1 for _ in spatial))] = 1
    y = Written(data.draw(written_views(image)), "float32", device)
    window = {"pad_before": [1] * len(spatial), "pad_after": [1] * len(spatial), "groups": channels}
    launch("convolution", [on_device, Buffer.from_numpy(unit, device)], [y.buffer], window)
    y.check(x)
