"""Numbers of few bits: quantized weights and their products, quantizing, dequantizing, and training with both."""

from __future__ import annotations

from collections.abc import Sequence

from .. import errors
from ..buffer import Buffer
from ..stream import Stream
from .elementwise import map_function
from .launch import axis_of, launch, output
from .linear import ACTIVATIONS, Activation

#: The least and the largest number of a dtype with so many bits of it in use.
_RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535)}
_HALF_RANGES = {"int8": (-8, 7), "uint8": (0, 15)}
_FLOAT8 = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}


def matmul_quantized(
    a: Buffer,
    b: Buffer,
    scales: Buffer,
    zero_points: Buffer | None = None,
    c: Buffer | None = None,
    *,
    bits: int = 8,
    block_size: int = 0,
    zero_point: float = 0,
    activation: Activation = "none",
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """``activation(a @ w + c)`` of weights stored in 8 or 4 bits, ``w = (b - zero_points) * scales`` by blocks of
    ``block_size`` rows (0: by channel). include/unihal/op.h says how 4 bits are packed: see ``pack_halves``."""
    if a.ndim < 2 or b.ndim != 2:
        raise errors.InvalidArgumentError(
            f"matmul_quantized: a has the shape {a.shape} and b {b.shape}; expected (..., m, k) and (k, n), of 4 bits "
            "(k / 2, n)"
        )
    result = output((*a.shape[:-1], b.shape[1]), a.dtype, a, out, stream)
    attributes = {
        "bits": bits,
        "block_size": block_size,
        "zero_point": zero_point,
        "activation": ACTIVATIONS[activation],
    }
    launch("matmul_quantized", [a, b, scales, zero_points, c], [result], attributes, stream=stream)
    return result


def quantize(
    x: Buffer,
    scale: Buffer,
    zero_point: Buffer | None = None,
    dtype: str = "int8",
    *,
    bits: int = 0,
    axis: int = 0,
    block_size: int = 0,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """``x / scale`` rounded to the nearest integer (ties to even), plus ``zero_point``, saturated to the dtype.

    ``dtype`` is int8, uint8, int16, uint16, float8_e4m3fn or float8_e5m2; ``bits`` of an integer one, if fewer are
    used. ``scale`` and ``zero_point`` broadcast to x; with ``block_size`` they have, along ``axis``, an element for
    each block of so many of x.
    """
    own_scale, own_zero = _operands(x, scale, zero_point, axis, block_size)
    result = output(x.shape, dtype, x, out, stream)
    if dtype in _FLOAT8:
        if zero_point is not None:
            raise errors.InvalidArgumentError(f"quantize: {dtype} has no zero points")
        largest = _FLOAT8[dtype]
        scaled = output(x.shape, "float32", x, stream=stream)
        for part, s, _, to in _pieces(x, own_scale, None, scaled, axis, block_size):
            _function("divide")(part, s, out=to, stream=stream)
        _function("clip")(scaled, out=scaled, parameters=(-largest, largest), stream=stream)
        launch("cast", [scaled], [result], stream=stream)
        return result
    least, most = _range_of(dtype, bits)
    for part, s, z, to in _pieces(x, own_scale, own_zero, result, axis, block_size):
        _function("quantize_linear")(part, s, 0.0 if z is None else z, out=to, parameters=(least, most), stream=stream)
    return result


def dequantize(
    x: Buffer,
    scale: Buffer,
    zero_point: Buffer | None = None,
    dtype: str = "float32",
    *,
    axis: int = 0,
    block_size: int = 0,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """``(x - zero_point) * scale``; operands as of ``quantize``. x may have any integer dtype, int32 sums included."""
    own_scale, own_zero = _operands(x, scale, zero_point, axis, block_size)
    result = output(x.shape, dtype, x, out, stream)
    if x.dtype in _FLOAT8:
        wide = output(x.shape, "float32", x, stream=stream)
        launch("cast", [x], [wide], stream=stream)
        x = wide
    for part, s, z, to in _pieces(x, own_scale, own_zero, result, axis, block_size):
        _function("dequantize_linear")(part, s, 0.0 if z is None else z, out=to, stream=stream)
    return result


def fake_quantize(
    x: Buffer,
    scale: Buffer,
    zero_point: Buffer | None = None,
    *,
    least: int = -128,
    largest: int = 127,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """What is left of x when it is quantized to [least, largest] and dequantized again."""
    result = output(x.shape, x.dtype, x, out, stream)
    zero = 0.0 if zero_point is None else zero_point
    _function("fake_quantize_linear")(x, scale, zero, out=result, parameters=(least, largest), stream=stream)
    return result


def fake_quantize_backward(
    x: Buffer,
    scale: Buffer,
    zero_point: Buffer | None,
    dy: Buffer,
    *,
    least: int = -128,
    largest: int = 127,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """The gradient with respect to x, straight through: dy where x was not clipped, else 0."""
    result = output(x.shape, x.dtype, x, out, stream)
    zero = 0.0 if zero_point is None else zero_point
    _function("fake_quantize_linear_backward")(
        x, scale, zero, dy, out=result, parameters=(least, largest), stream=stream
    )
    return result


def pack_halves(x: Buffer, axis: int = 0, *, stream: Stream | None = None) -> Buffer:
    """Numbers of 4 bits, one an element (int8 or uint8), as two a byte along an axis, the low half first."""
    axis = axis_of(x, axis)
    _expect_bytes(x, "pack_halves")
    length = x.shape[axis]
    result = output((*x.shape[:axis], -(-length // 2), *x.shape[axis + 1 :]), x.dtype, x, stream=stream)
    low, high = _stepped(x, axis, 0), _stepped(x, axis, 1)
    function = _function("bitwise_and")
    whole = _cut(result, axis, length // 2)
    if length % 2:
        function(_cut(low, axis, 1, from_end=True), 15, out=_cut(result, axis, 1, from_end=True), stream=stream)
    shifted = _function("shift_left")(high, 4, stream=stream)
    function(_cut(low, axis, length // 2), 15, out=whole, stream=stream)
    _function("bitwise_or")(whole, shifted, out=whole, stream=stream)
    return result


def unpack_halves(x: Buffer, length: int, axis: int = 0, *, stream: Stream | None = None) -> Buffer:
    """The inverse of ``pack_halves``: int8 gives numbers from -8 to 7, uint8 from 0 to 15."""
    axis = axis_of(x, axis)
    _expect_bytes(x, "unpack_halves")
    if x.shape[axis] != -(-length // 2):
        raise errors.InvalidArgumentError(
            f"unpack_halves: {length} numbers need {-(-length // 2)} bytes along axis {axis}, x has the shape {x.shape}"
        )
    result = output((*x.shape[:axis], length, *x.shape[axis + 1 :]), x.dtype, x, stream=stream)
    low, high = _stepped(result, axis, 0), _stepped(result, axis, 1)
    if x.dtype == "uint8":
        _function("bitwise_and")(x, 15, out=low, stream=stream)
        _function("shift_right")(_cut(x, axis, length // 2), 4, out=high, stream=stream)
        return result
    # The sign's bit of the low half moves to the byte's, and comes back with its copies.
    shifted = _function("shift_left")(x, 4, stream=stream)
    _function("shift_right")(shifted, 4, out=low, stream=stream)
    _function("shift_right")(_cut(x, axis, length // 2), 4, out=high, stream=stream)
    return result


# -- what they share


def _function(name: str):  # type: ignore[no-untyped-def]
    function = map_function(name)
    assert function is not None
    return function


def _range_of(dtype: str, bits: int) -> tuple[int, int]:
    if dtype not in _RANGES:
        known = ", ".join((*_RANGES, *_FLOAT8))
        raise errors.InvalidArgumentError(f"quantize: to {dtype} is not possible; expected one of {known}")
    least, most = _RANGES[dtype]
    if bits == 0:
        return least, most
    width = 8 if dtype in ("int8", "uint8") else 16
    if not 1 < bits <= width:
        raise errors.InvalidArgumentError(f"quantize: {dtype} has no numbers of {bits} bits; expected 2 to {width}")
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if dtype.startswith("int") else (0, 2**bits - 1)


def _operands(
    x: Buffer, scale: Buffer, zero_point: Buffer | None, axis: int, block_size: int
) -> tuple[Buffer, Buffer | None]:
    shape: Sequence[int] = x.shape
    if block_size < 0:
        raise errors.InvalidArgumentError(f"the block size is {block_size}; expected 1 or more, or 0 for none")
    if block_size:
        axis = axis_of(x, axis)
        shape = (*x.shape[:axis], -(-x.shape[axis] // block_size), *x.shape[axis + 1 :])
    return scale.broadcast_to(shape), None if zero_point is None else zero_point.broadcast_to(shape)


def _pieces(
    x: Buffer, scale: Buffer, zero: Buffer | None, to: Buffer, axis: int, block_size: int
) -> list[tuple[Buffer, Buffer, Buffer | None, Buffer]]:
    """What one launch takes each: all of it, or with blocks the whole ones and the rest, as views that the block's
    scale is broadcast to."""
    if block_size == 0:
        return [(x, scale, zero, to)]
    axis = axis_of(x, axis)
    length = x.shape[axis]
    pieces = []
    for blocks, size, from_end in ((length // block_size, block_size, False), (1, length % block_size, True)):
        if blocks * size == 0:
            continue

        def blocked(view: Buffer, many: int = blocks * size, each: int = size, last: bool = from_end) -> Buffer:
            part = _cut(view, axis, many, from_end=last)
            return _split(part, axis, each)

        def spread(view: Buffer, many: int = blocks, last: bool = from_end) -> Buffer:
            part = _cut(view, axis, many, from_end=last)
            return part[(slice(None),) * (axis + 1) + (None,)]

        pieces.append((blocked(x), spread(scale), None if zero is None else spread(zero), blocked(to)))
    return pieces


def _cut(x: Buffer, axis: int, count: int, *, from_end: bool = False) -> Buffer:
    start = x.shape[axis] - count if from_end else 0
    return x[(slice(None),) * axis + (slice(start, start + count),)]


def _stepped(x: Buffer, axis: int, start: int) -> Buffer:
    return x[(slice(None),) * axis + (slice(start, None, 2),)]


def _split(x: Buffer, axis: int, size: int) -> Buffer:
    """A view with an axis in two, of which the inner one has so many elements."""
    shape = (*x.shape[:axis], x.shape[axis] // size, size, *x.shape[axis + 1 :])
    strides = (*x.strides[:axis], x.strides[axis] * size, x.strides[axis], *x.strides[axis + 1 :])
    return x._view(shape, strides)


def _expect_bytes(x: Buffer, name: str) -> None:
    if x.dtype not in ("int8", "uint8"):
        raise errors.InvalidArgumentError(f"{name} takes int8 or uint8, not {x.dtype}; cast it first")
