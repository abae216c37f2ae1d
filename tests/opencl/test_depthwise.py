"""Depthwise convolutions by kernels of their own, which devices that are no CPU take by themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import unihal
from numpy.typing import NDArray
from unihal import Buffer, _core, op_kinds, ops, tuning
from unihal.stream import default_stream

#: Layers of odd sizes, in the words of `unihal tune`: planes with lines in units and without, and channels that are
#: last, in units and without, of windows and strides that differ by axis, with filters in each order.
LAYERS = (
    "n2 c3 h9 w11 k3 3x3 p1 g3",
    "n2 c2 h10 w16 k2 3x3 s2 p1 g2",
    "n1 c2 h13 w24 k2 5x5 s2 p2 g2",
    "n2 c4 h6 w9 k4 2x4 s1x2 p1x0 g4",
    "n3 c2 h1 w16 k2 1x4 p0x3 g2",
    "n1 c2 h9 w12 k2 7x7 p3 g2",
    "n2 c8 h7 w7 k8 5x5 p2 g8 nhwc ohwi",
    "n1 c12 h9 w16 k12 5x5 s2 p2 g12 nhwc",
    "n2 c5 h10 w6 k5 3x3 s2 p1 g5 nhwc",
    "n2 c8 h6 w9 k8 2x4 s2x1 p0x2 g8 nhwc hwio",
)

#: What a rounding of the result is, against the largest number, with some for the sums.
ROUNDING = {"float32": 3e-6, "float64": 1e-12, "bfloat16": 6e-3, "float16": 1e-3}


def _products(layer: tuning.Convolution, x: Any, w: Any, dy: Any) -> dict[str, NDArray[Any]]:
    """The convolution and both gradients, tap by tap."""
    (down, right), (top, left) = layer._axes(layer.stride), layer._axes(layer.padding)
    height, width = dy.shape[2:]
    room = np.zeros((*x.shape[:2], x.shape[2] + 2 * top + down, x.shape[3] + 2 * left + right))
    inside = (..., slice(top, top + x.shape[2]), slice(left, left + x.shape[3]))
    room[inside] = x
    y, dx, dw = np.zeros(dy.shape), np.zeros_like(room), np.zeros(w.shape)
    for i, j in np.ndindex(*layer.window):
        at = (..., slice(i, i + (height - 1) * down + 1, down), slice(j, j + (width - 1) * right + 1, right))
        tap = w[:, 0, i, j, None, None]
        y += room[at] * tap
        dx[at] += dy * tap
        dw[:, 0, i, j] = (room[at] * dy).sum((0, 2, 3))
    return {"forward": y, "backward_data": dx[inside], "backward_filter": dw}


def _launch(device: unihal.Device, layer: tuning.Convolution, make: Any) -> tuple[list[Buffer], Buffer]:
    inputs, (result,), attributes = layer.operands(make)
    op = (device._handle, op_kinds.number(layer.kind), inputs, [result], attributes)
    names = [name for name, _ in _core.tuning_describe(*op)[1]]
    _core.tuning_choose(*op, names.index("depthwise"))
    try:
        ops.fill(result, np.nan)
        _core.launch(default_stream(device)._handle, *op[1:])
    finally:
        _core.tuning_choose(*op, -1)
    return inputs, result


def _wide(buffer: Buffer) -> NDArray[Any]:
    return ops.cast(buffer, "float64").numpy()


def _check(device: unihal.Device, text: str, dtype: str) -> None:
    generator = np.random.default_rng(0)

    def make(shape: Any, given: str) -> Buffer:
        numbers = generator.standard_normal(shape).astype("float64" if given == "float64" else "float32")
        return ops.cast(Buffer.from_numpy(numbers, device), given)

    for layer in tuning.Convolution.parse(text, dtype):
        inputs, result = _launch(device, layer, make)
        first, second = map(_wide, inputs)
        image = np.zeros((layer.batch, layer.channels, *layer.image))
        output = np.zeros((layer.batch, layer.filters, *layer.output))
        filters = np.zeros((layer.filters, 1, *layer.window))
        x, w, dy = {
            "forward": (first, second, output),
            "backward_data": (image, second, first),
            "backward_filter": (first, filters, second),
        }[layer.direction]
        expected = _products(layer, x, w, dy)[layer.direction]
        largest = np.abs(expected).max()
        np.testing.assert_allclose(_wide(result), expected, rtol=0, atol=ROUNDING[dtype] * largest, err_msg=str(layer))


@pytest.mark.parametrize("text", [LAYERS[0], LAYERS[8]])
def test_layers_of_odd_sizes(device: unihal.Device, text: str) -> None:
    _check(device, text, "float32")


def _in_whole(layer: int, dtype: str) -> bool:
    """PoCL takes a minute for some: every second layer in one dtype is `whole`, all others are `long`."""
    return layer % 2 == 1 and dtype == list(ROUNDING)[(layer // 2 + 1) % len(ROUNDING)]


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        pytest.param(text, dtype, marks=pytest.mark.whole if _in_whole(i, dtype) else pytest.mark.long)
        for i, text in enumerate(LAYERS)
        for dtype in ROUNDING
    ],
)
def test_all_layers(device: unihal.Device, text: str, dtype: str) -> None:
    _check(device, text, dtype)


def test_a_nan_reaches_the_pixels_and_taps_that_see_it(device: unihal.Device) -> None:
    x = np.ones((1, 1, 5, 6), np.float32)
    x[0, 0, 4, 5] = np.nan  # no tap but the last sees it
    forward, _, gradient = tuning.Convolution.parse("n1 c1 h5 w6 k1 3x3 g1", "float32")
    (_, y), (_, dw) = (
        _launch(
            device,
            layer,
            lambda shape, _: Buffer.from_numpy(x if tuple(shape[-2:]) == (5, 6) else np.ones(shape, "f4"), device),
        )
        for layer in (forward, gradient)
    )
    assert np.argwhere(np.isnan(y.numpy())).tolist() == [[0, 0, 2, 3]]
    assert np.argwhere(np.isnan(dw.numpy())).tolist() == [[0, 0, 2, 2]]


def test_what_is_no_small_window_of_each_channel_is_refused(device: unihal.Device) -> None:
    for text in (
        "n1 c4 h8 w8 k8 3x3 g4",
        "n1 c4 h8 w8 k4 3x3 d2 g4",
        "n1 c4 h9 w9 k4 9x9 g4",
        "n1 c4 h9 w9 k4 3x3 s3 g4",
    ):
        for layer in tuning.Convolution.parse(text, "float32"):
            operands = layer.operands(lambda shape, dtype: Buffer(shape, dtype, device))
            candidates = dict(_core.tuning_describe(device._handle, op_kinds.number(layer.kind), *operands)[1])
            assert not candidates["depthwise"], layer
