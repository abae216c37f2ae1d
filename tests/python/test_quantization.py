"""Numbers of few bits in unihal.ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import unihal
from unihal import ops
from unihal.conformance.reference.quantization import dequantized, unpacked

DEVICE = "iluvatar:0"


def put(array: Any) -> unihal.Buffer:
    return unihal.Buffer.from_numpy(np.ascontiguousarray(array), DEVICE)


@pytest.mark.parametrize("dtype", ("int8", "uint8"))
@pytest.mark.parametrize("shape, axis", (((6, 5), 0), ((7, 5), 0), ((3, 7), 1), ((1, 4), 0)))
def test_halves_go_two_a_byte_and_back(dtype: str, shape: tuple[int, int], axis: int) -> None:
    low, high = (-8, 8) if dtype == "int8" else (0, 16)
    numbers = np.random.default_rng(1).integers(low, high, shape).astype(dtype)
    packed = ops.pack_halves(put(numbers), axis)
    assert packed.shape[axis] == (shape[axis] + 1) // 2
    along_0 = packed.numpy() if axis == 0 else packed.numpy().T.copy()
    expected = numbers if axis == 0 else numbers.T
    np.testing.assert_array_equal(unpacked(along_0, shape[axis]), expected)
    np.testing.assert_array_equal(ops.unpack_halves(packed, shape[axis], axis).numpy(), numbers)


def test_a_product_with_weights_of_onnx_runtime_needs_no_repacking() -> None:
    """MatMulNBits: B (n, blocks, block_size / 2), scales (n, blocks), zero points (n, ceil(blocks / 2))."""
    k, n, block = 96, 7, 32
    generator = np.random.default_rng(2)
    q = generator.integers(0, 16, (n, k // block, block))
    b = (q[..., ::2] | q[..., 1::2] << 4).astype(np.uint8)
    scales = generator.uniform(0.5, 1, (n, k // block)).astype(np.float32)
    zeros = generator.integers(0, 16, (n, 4))
    zero_points = (zeros[:, ::2] | zeros[:, 1::2] << 4).astype(np.uint8)
    a = generator.standard_normal((3, k)).astype(np.float32)
    weights = ((q - zeros[:, :3, None]) * scales[..., None]).reshape(n, k)
    y = ops.matmul_quantized(
        put(a), put(b).reshape(n, k // 2).T, put(scales).T, put(zero_points).T, bits=4, block_size=block
    )
    np.testing.assert_allclose(y.numpy(), a @ weights.T, rtol=1e-5, atol=1e-4)
    without = ops.matmul_quantized(
        put(a), put(b).reshape(n, k // 2).T, put(scales).T, bits=4, block_size=block, zero_point=8
    )
    weights = ((q - 8) * scales[..., None]).reshape(n, k)
    np.testing.assert_allclose(without.numpy(), a @ weights.T, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("bits, dtype", ((8, "int8"), (4, "int8"), (4, "uint8")))
def test_quantized_weights_multiply_as_what_they_stand_for(bits: int, dtype: str) -> None:
    k, n, block = 80, 9, 16
    generator = np.random.default_rng(3)
    w = generator.standard_normal((k, n)).astype(np.float32)
    a = generator.standard_normal((4, k)).astype(np.float32)
    most = {(8, "int8"): 127, (4, "int8"): 7, (4, "uint8"): 15}[bits, dtype]
    scales = np.abs(w).reshape(k // block, block, n).max(1) / (most / (2 if dtype == "uint8" else 1))
    zero = None if dtype == "int8" else put(np.full((k // block, n), 8, dtype))
    q = ops.quantize(put(w), put(scales.astype(np.float32)), zero, dtype, bits=bits, axis=0, block_size=block)
    packed = ops.pack_halves(q) if bits == 4 else q
    y = ops.matmul_quantized(
        put(a), packed, put(scales.astype(np.float32)), bits=bits, block_size=block, zero_point=0 if zero is None else 8
    )
    back = ops.dequantize(q, put(scales.astype(np.float32)), zero, axis=0, block_size=block)
    np.testing.assert_allclose(
        back.numpy(),
        dequantized(packed.numpy(), scales, None, k, bits=bits, block_size=block, zero_point=0 if zero is None else 8),
        rtol=1e-6,
        atol=1e-6,
    )
    np.testing.assert_allclose(y.numpy(), a @ back.numpy(), rtol=1e-4, atol=1e-4)
    assert np.abs(back.numpy() - w).max() <= scales.max() * (0.51 if bits == 8 or dtype == "int8" else 1.1)


@pytest.mark.parametrize("bits", (4, 8))
@pytest.mark.parametrize("dtype", ("float32", "float16"))
def test_many_rows_by_more_channels_than_a_panel_has(dtype: str, bits: int) -> None:
    k, n, block = 8192, 200, 64
    generator = np.random.default_rng(4)
    q = generator.integers(0, 1 << bits, (n, k))
    packed = q[:, ::2] | q[:, 1::2] << 4 if bits == 4 else q
    scales = generator.uniform(0.5, 1, (n, k // block)).astype(dtype)
    a = (generator.standard_normal((2, 20, k)) / 64).astype(dtype)
    c = generator.standard_normal((1, 1, n)).astype(dtype)
    middle = 1 << (bits - 1)
    weights = (q - middle) * np.repeat(scales.astype(np.float64), block, 1)
    expected = np.maximum(a.astype(np.float64) @ weights.T + c, 0)
    y = ops.matmul_quantized(
        put(a),
        put(packed.astype(np.uint8)).T,
        put(scales).T,
        c=put(c),
        bits=bits,
        block_size=block,
        zero_point=middle,
        activation="relu",
    )
    tolerance = 1e-3 if dtype == "float16" else 1e-5
    np.testing.assert_allclose(y.numpy(), expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("dtype, least, most", (("int8", -128, 127), ("uint8", 0, 255), ("int16", -32768, 32767)))
def test_quantize_rounds_half_to_even_and_saturates(dtype: str, least: int, most: int) -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1e6, -1e6, 3.0], np.float32)
    for zero in (0, 3):
        y = ops.quantize(put(x), put(np.float32(1)), put(np.array(zero, dtype)), dtype)
        np.testing.assert_array_equal(y.numpy(), np.clip(np.rint(x) + zero, least, most).astype(dtype))


def test_sums_of_int32_are_requantized_by_channel() -> None:
    generator = np.random.default_rng(4)
    a = generator.integers(-128, 128, (5, 64)).astype(np.int8)
    b = generator.integers(-128, 128, (64, 3)).astype(np.int8)
    sums = unihal.Buffer((5, 3), "int32", DEVICE)
    ops.matmul(put(a), put(b), out=sums)
    np.testing.assert_array_equal(sums.numpy(), a.astype(np.int32) @ b.astype(np.int32))
    scales = np.array([512, 256, 1024], np.float32)
    y = ops.quantize(sums, put(scales), put(np.int8(-3)), "int8")
    expected = np.clip(np.rint(sums.numpy() / scales) - 3, -128, 127)
    np.testing.assert_array_equal(y.numpy(), expected)


def test_blocks_need_not_divide_the_axis() -> None:
    x = np.random.default_rng(5).standard_normal((3, 21)).astype(np.float32)
    scales = np.random.default_rng(6).choice([0.25, 0.5, 1], (3, 3)).astype(np.float32)
    q = ops.quantize(put(x), put(scales), axis=1, block_size=8)
    each = np.repeat(scales, 8, axis=1)[:, :21]
    np.testing.assert_array_equal(q.numpy(), np.rint(x / each).astype(np.int8))
    back = ops.dequantize(q, put(scales), dtype="float32", axis=-1, block_size=8)
    np.testing.assert_array_equal(back.numpy(), q.numpy() * each)


def test_float8_keeps_what_fits() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    every = np.arange(256, dtype=np.uint8)
    for name in ("float8_e4m3fn", "float8_e5m2"):
        numpy_dtype = np.dtype(getattr(ml_dtypes, name))
        stored = put(every.view(numpy_dtype))
        assert stored.dtype == name
        np.testing.assert_array_equal(stored.numpy().view(np.uint8), every)
        wide = unihal.Buffer((256,), "float32", DEVICE)
        ops.cast(stored, "float32", out=wide)
        np.testing.assert_array_equal(wide.numpy(), every.view(numpy_dtype).astype(np.float32))
        with np.errstate(over="ignore"):
            values = np.concatenate(
                [
                    np.random.default_rng(7).standard_normal(5000) * 10.0 ** np.linspace(-6, 6, 5000),
                    [464, 465, 61440, 61439, np.inf, -np.inf],
                ]
            ).astype(np.float32)
            expected = values.astype(numpy_dtype)
        assert (ops.cast(put(values), name).numpy().astype(np.float32).tobytes()) == expected.astype(
            np.float32
        ).tobytes()
        scale = put(np.float32(0.01))
        q = ops.quantize(put(values[:100]), scale, dtype=name)
        largest = float(ml_dtypes.finfo(numpy_dtype).max)
        want = np.clip(values[:100] / np.float32(0.01), -largest, largest).astype(numpy_dtype)
        np.testing.assert_array_equal(q.numpy().view(np.uint8), want.view(np.uint8))
        np.testing.assert_array_equal(
            ops.gather(stored, put(np.array([3, 200], np.int32))).numpy().view(np.uint8), [3, 200]
        )
        with pytest.raises(unihal.errors.InvalidArgumentError, match="cast it first"):
            ops.add(stored, stored)


def test_fake_quantization_has_the_straight_through_gradient() -> None:
    x = np.linspace(-3, 3, 61).astype(np.float32)
    dy = np.arange(61, dtype=np.float32)
    scale, zero = put(np.float32(0.015625)), put(np.float32(4))
    y = ops.fake_quantize(put(x), scale, zero)
    q = ops.quantize(put(x), scale, put(np.int8(4)))
    np.testing.assert_array_equal(y.numpy(), ops.dequantize(q, scale, put(np.int8(4))).numpy())
    dx = ops.fake_quantize_backward(put(x), scale, zero, put(dy)).numpy()
    whole = np.rint(x / 0.015625) + 4
    np.testing.assert_array_equal(dx, np.where((whole >= -128) & (whole <= 127), dy, 0))


def test_what_does_not_fit_is_refused_by_name() -> None:
    x = put(np.ones((4, 4), np.float32))
    with pytest.raises(unihal.errors.InvalidArgumentError, match="quantize: to float32 is not possible"):
        ops.quantize(x, x, dtype="float32")
    with pytest.raises(unihal.errors.InvalidArgumentError, match="pack_halves takes int8 or uint8, not float32"):
        ops.pack_halves(x)
    with pytest.raises(unihal.errors.InvalidArgumentError, match="int8 has no numbers of 9 bits"):
        ops.quantize(x, x, bits=9)
    with pytest.raises(unihal.errors.InvalidArgumentError, match="expected \\(\\.\\.\\., m, k\\) and \\(k, n\\)"):
        ops.matmul_quantized(x, x[0], x)
