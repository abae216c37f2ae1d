"""Convolutions by Winograd, which only large ones take by themselves."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import unihal
from numpy.typing import NDArray
from processes import run_command
from unihal import Buffer, _core, op_kinds
from unihal.conformance.case import Expected
from unihal.conformance.reference.convolution import convolution, convolution_backward_filter
from unihal.conformance.tolerance import Arithmetic, mismatches, summation_roundings
from unihal.stream import default_stream

pytestmark = pytest.mark.whole

UNIHAL = [sys.executable, "-m", "unihal.command_line"]
KIND = op_kinds.number("convolution_backward_filter")

#: The axes in memory, the fastest last.
CHANNELS_FIRST = (0, 1, 2, 3)
CHANNELS_LAST = (0, 2, 3, 1)
TAPS_FIRST = (2, 3, 1, 0)


def _placed(array: NDArray[Any], order: Sequence[int], device: unihal.Device) -> Buffer:
    buffer = Buffer.from_numpy(np.ascontiguousarray(array.transpose(order)), device)
    return buffer.transpose(*(int(axis) for axis in np.argsort(order)))


def _launch_winograd(device: unihal.Device, op: tuple[Any, ...]) -> None:
    names = [name for name, _ in _core.tuning_describe(*op)[1]]
    _core.tuning_choose(*op, names.index("winograd"))
    try:
        _core.launch(default_stream(device)._handle, *op[1:])
    finally:
        _core.tuning_choose(*op, -1)


class _Gradient:
    """A gradient of a filter on a device, and what it should be."""

    def __init__(
        self,
        device: unihal.Device,
        x: Sequence[int],
        filters: int,
        padding: int,
        orders: Sequence[Sequence[int]] = (CHANNELS_FIRST,) * 3,
        dtype: str = "float32",
    ) -> None:
        images, channels, *lengths = x
        generator = np.random.default_rng(0)
        y = (images, filters, *(length + 2 * padding - 2 for length in lengths))
        self.x, self.dy = (generator.standard_normal(shape).astype(dtype) for shape in (x, y))
        self.w = (filters, channels, 3, 3)
        self.dtype = dtype
        self.padding = {"pad_before": (padding, padding), "pad_after": (padding, padding)}
        self.result = _placed(np.full(self.w, np.nan, dtype), orders[2], device)
        inputs = [_placed(self.x, orders[0], device), _placed(self.dy, orders[1], device)]
        attributes = {**self.padding, "stride": (1, 1), "dilation": (1, 1), "groups": 1}
        self.op = (device._handle, KIND, inputs, [self.result, None], attributes)
        self.device = device

    def is_taken(self) -> bool:
        """Whether Winograd can do it."""
        return dict(_core.tuning_describe(*self.op)[1])["winograd"]

    def run(self) -> NDArray[Any]:
        """By Winograd."""
        _launch_winograd(self.device, self.op)
        return self.result.numpy()

    def wrong(self, result: NDArray[Any]) -> int:
        """The number of elements farther off than conformance allows."""
        x, dy = self.x.astype(np.float64), self.dy.astype(np.float64)
        values, sizes = (
            convolution_backward_filter(a, b, self.w, **self.padding)[0] for a, b in ((x, dy), (abs(x), abs(dy)))
        )
        terms = dy.shape[0] * dy.shape[2] * dy.shape[3]
        expected = Expected(values, summation_roundings(terms), sizes)
        return int(mismatches(result, expected, self.dtype, Arithmetic("float32")).sum())


@pytest.mark.parametrize(
    ("x", "filters", "padding"),
    [
        ((1, 5, 24, 25), 7, 1),
        ((3, 4, 17, 15), 6, 0),
        ((8, 9, 7, 10), 13, 2),
        ((60, 1, 5, 5), 33, 0),
        ((2, 3, 6, 90), 1, 1),
    ],
)
def test_of_any_geometry(device: unihal.Device, x: Sequence[int], filters: int, padding: int) -> None:
    gradient = _Gradient(device, x, filters, padding)
    assert gradient.is_taken()
    assert gradient.wrong(gradient.run()) == 0


@pytest.mark.parametrize(
    "orders",
    [
        (CHANNELS_LAST, CHANNELS_LAST, CHANNELS_LAST),
        (CHANNELS_LAST, CHANNELS_LAST, TAPS_FIRST),
        (CHANNELS_FIRST, CHANNELS_LAST, CHANNELS_FIRST),
        (CHANNELS_LAST, CHANNELS_FIRST, TAPS_FIRST),
        (TAPS_FIRST, TAPS_FIRST, TAPS_FIRST),
    ],
)
def test_of_any_layout(device: unihal.Device, orders: Sequence[Sequence[int]]) -> None:
    gradient = _Gradient(device, (3, 6, 15, 18), 10, 1, orders)
    assert gradient.wrong(gradient.run()) == 0


def test_of_float16(device: unihal.Device) -> None:
    gradient = _Gradient(device, (3, 6, 15, 18), 10, 1, dtype="float16")
    assert gradient.wrong(gradient.run()) == 0


@pytest.mark.parametrize(
    "x",
    [
        (9, 3, 344, 341),  # seven of the images at a time: 7396 tiles of 36 numbers of 8 channels are 8.5 MB
        (1, 3, 1001, 999),  # 932 of its lines at a time
    ],
)
def test_slices_of_the_images_are_added_up(device: unihal.Device, x: Sequence[int]) -> None:
    gradient = _Gradient(device, x, 5, 1)
    first = gradient.run()
    assert gradient.wrong(first) == 0
    np.testing.assert_array_equal(gradient.run(), first)


@pytest.mark.parametrize(
    ("x", "padding"),
    [
        ((1, 5, 22, 22), 1),  # 21 x 21 products for the corners: too few for its digits
        ((600, 5, 1, 1), 1),  # the corners meet nothing but padding
    ],
)
def test_short_sums_are_left_to_others(device: unihal.Device, x: Sequence[int], padding: int) -> None:
    assert not _Gradient(device, x, 5, padding).is_taken()


@pytest.mark.parametrize("backward", [False, True])
def test_a_large_image_is_convolved_in_slices(device: unihal.Device, backward: bool) -> None:
    generator = np.random.default_rng(0)
    image = generator.standard_normal((1, 3, 1001, 999), np.float32)
    filters = generator.standard_normal((3, 5, 3, 3) if backward else (5, 3, 3, 3), np.float32)
    inputs = [Buffer.from_numpy(array, device) for array in (image, filters)]
    result = Buffer((1, 5, 1001, 999), "float32", device)
    kind = op_kinds.number("convolution_backward_data" if backward else "convolution")
    attributes = {"stride": (1, 1), "dilation": (1, 1), "pad_before": (1, 1), "pad_after": (1, 1), "groups": 1}
    _launch_winograd(device, (device._handle, kind, inputs, [result], attributes))
    x, w = image.astype(np.float64), filters.astype(np.float64)
    if backward:
        w = w.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]
    expected = convolution(x, w, pad_before=(1, 1), pad_after=(1, 1))
    np.testing.assert_allclose(result.numpy(), expected, rtol=0, atol=1e-3)


@pytest.mark.timeout(500)
def test_gradients_of_many_filters_take_it(device: unihal.Device, tmp_path: Path) -> None:
    """And on the kernels for GPUs."""
    variables = {"UNIHAL_OPENCL_KERNELS": "gpu", "UNIHAL_CACHE": "on", "UNIHAL_CACHE_DIR": str(tmp_path)}
    case = "convolution_backward_filter/long-sums/no-bias/float32/contiguous"
    process = run_command([*UNIHAL, "conformance", "--backend", "opencl", "--case", case], timeout=480, **variables)
    assert process.returncode == 0, process.stdout + process.stderr
    kinds = json.loads(run_command([*UNIHAL, "cache", "info", "--json"], **variables).stdout)["kinds"]
    assert kinds["program winograd"]["entries"] == 3, kinds
    assert not any("convolution" in kind for kind in kinds)
