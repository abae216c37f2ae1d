"""Numbers of two bytes: their loops convert them on the way, tile by tile, and round each result once."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import unihal
from unihal import Buffer, ops

DTYPES = ("float16", "bfloat16")
# Around the ends of tiles, blocks and runs of elements.
COUNTS = (0, 1, 15, 16, 17, 31, 32, 33, 65, 1000, 1024, 1025, 2085)


def of(dtype: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def same(found: np.ndarray, expected: np.ndarray) -> None:
    """Bit by bit, but for what NaN carries."""
    assert found.dtype == expected.dtype and found.shape == expected.shape
    is_nan = np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(found.astype(np.float32)), is_nan)
    np.testing.assert_array_equal(found.view(np.uint16)[~is_nan], expected.view(np.uint16)[~is_nan])


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(17)


def numbers(random: np.random.Generator, dtype: str, *shape: int) -> np.ndarray:
    """Any bits: subnormal numbers, infinities and NaN among them."""
    return random.integers(0, 1 << 16, shape).astype(np.uint16).view(of(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", COUNTS)
def test_functions_of_all_numbers(device: unihal.Device, random: np.random.Generator, dtype: str, count: int) -> None:
    x, y, z = (numbers(random, dtype, count) for _ in range(3))
    a, b, c = (each.astype(np.float32) for each in (x, y, z))
    on = [Buffer.from_numpy(each, device) for each in (x, y, z)]
    with np.errstate(all="ignore"):
        same(ops.add(on[0], on[1]).numpy(), (a + b).astype(of(dtype)))
        same(ops.multiply(on[0], on[1]).numpy(), (a * b).astype(of(dtype)))
        same(ops.divide(on[0], on[1]).numpy(), (a / b).astype(of(dtype)))
        same(ops.sqrt(on[0]).numpy(), np.sqrt(a).astype(of(dtype)))
        same(ops.floor(on[0]).numpy(), np.floor(a).astype(of(dtype)))
        same(ops.negative(on[0]).numpy(), (-a).astype(of(dtype)))
        same(ops.absolute(on[0]).numpy(), np.abs(a).astype(of(dtype)))
        same(ops.maximum(on[0], on[1]).numpy(), np.maximum(a, b).astype(of(dtype)))
        same(ops.select(on[0], on[1], on[2]).numpy(), np.where(a != 0, b, c).astype(of(dtype)))
        same(ops.scale(on[0], parameters=[1.1, 0]).numpy(), (a * np.float32(1.1)).astype(of(dtype)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_layouts(device: unihal.Device, random: np.random.Generator, dtype: str) -> None:
    """Numbers and rows that stand for many, steps, turned axes, and a result in an operand's place."""
    x, y = (random.normal(size=(70, 90)).astype(of(dtype)) for _ in range(2))
    a, b = x.astype(np.float32), y.astype(np.float32)
    on_x, on_y = Buffer.from_numpy(x, device), Buffer.from_numpy(y, device)
    same(ops.add(on_x, on_y[0]).numpy(), (a + b[0]).astype(of(dtype)))
    same(ops.add(on_x, on_y[:, :1]).numpy(), (a + b[:, :1]).astype(of(dtype)))
    same(ops.add(on_x, on_y[:1, :1]).numpy(), (a + b[:1, :1]).astype(of(dtype)))
    same(ops.add(on_x[::2, ::3], on_y[1::2, ::3]).numpy(), (a[::2, ::3] + b[1::2, ::3]).astype(of(dtype)))
    same(ops.add(on_x[:, :70].T, on_y[:, :70]).numpy(), (a[:, :70].T + b[:, :70]).astype(of(dtype)))
    out = Buffer.from_numpy(x, device)
    ops.multiply(out, on_y, out=out)
    same(out.numpy(), (a * b).astype(of(dtype)))
    # Of several dtypes nothing is rounded before the end.
    third = Buffer.from_numpy(np.full((1, 1), 1 / 3, np.float32), device)
    product = ops.multiply(on_x, third, out=Buffer(x.shape, dtype, device))
    same(product.numpy(), (a * np.float32(1 / 3)).astype(of(dtype)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions_of_all_numbers(device: unihal.Device, random: np.random.Generator, dtype: str) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(of(dtype))
    wide = ops.cast(Buffer.from_numpy(every, device), "float32").numpy()
    np.testing.assert_array_equal(wide, every.astype(np.float32))
    same(ops.cast(Buffer.from_numpy(wide, device), dtype).numpy(), every)
    # Halfway between neighbours, and beside it: to the even one, or the nearer.
    finite = np.sort(wide[np.isfinite(wide)])
    halfway = finite[:-1] + (finite[1:] - finite[:-1]) / 2
    near = np.concatenate(
        [np.nextafter(halfway, np.float32(-np.inf)), halfway, np.nextafter(halfway, np.float32(np.inf))]
    )
    anything = random.integers(0, 1 << 32, 1 << 16, dtype=np.uint32).view(np.float32)
    for values in (near, anything):
        for piece in (values, values[:37], values[5::3]):
            with np.errstate(all="ignore"):
                same(ops.cast(Buffer.from_numpy(piece.copy(), device), dtype).numpy(), piece.astype(of(dtype)))


def test_float8_e5m2_of_any_number(device: unihal.Device, random: np.random.Generator) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    anything = random.integers(0, 1 << 32, 1 << 16, dtype=np.uint32).view(np.float32)
    for values in (halves, anything):
        found = ops.cast(Buffer.from_numpy(values, device), "float8_e5m2").numpy()
        with np.errstate(all="ignore"):
            expected = values.astype(ml_dtypes.float8_e5m2)
        is_nan = np.isnan(values)
        np.testing.assert_array_equal(np.isnan(found.astype(np.float32)), is_nan)
        np.testing.assert_array_equal(found.view(np.uint8)[~is_nan], expected.view(np.uint8)[~is_nan])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 1), (3, 7), (9, 16), (8, 40), (17, 64), (70, 1000), (1030, 33), (2, 0)])
def test_reductions(device: unihal.Device, random: np.random.Generator, dtype: str, shape: tuple[int, int]) -> None:
    x = random.uniform(0.5, 1.5, shape).astype(of(dtype))
    wide = x.astype(np.float64)
    on = Buffer.from_numpy(x, device)
    for axis in (0, 1):
        for name, function in (("sum", np.sum), ("product", np.prod)):
            found = getattr(ops, name)(on, axis).numpy().astype(np.float64)
            with np.errstate(all="ignore"):
                expected = function(wide, axis).astype(of(dtype)).astype(np.float64)
            np.testing.assert_allclose(found, expected, rtol=1e-2 if dtype == "bfloat16" else 1e-3)
        if shape[axis] == 0:
            continue
        same(ops.reduce(on, "maximum", axis=axis).numpy(), wide.max(axis).astype(of(dtype)))
        same(ops.reduce(on.T, "minimum", axis=1 - axis).numpy(), wide.min(axis).astype(of(dtype)))
        expected = np.log(np.exp(wide).sum(axis))
        found = ops.reduce(on, "log_sum_exp", axis=axis).numpy().astype(np.float64)
        np.testing.assert_allclose(found, expected, rtol=1e-2 if dtype == "bfloat16" else 1e-3)


@pytest.mark.parametrize("dtype", (*DTYPES, "float32", "float64"))
def test_extremes_with_nan(device: unihal.Device, random: np.random.Generator, dtype: str) -> None:
    x = random.normal(size=(37, 90)).astype(of(dtype))
    x[3, 5], x[36, 89], x[8, 0] = np.nan, np.nan, -np.inf
    on = Buffer.from_numpy(x, device)
    for axis in (0, 1):
        largest = ops.reduce(on, "maximum", axis).numpy().astype(np.float64)
        smallest = ops.reduce(on, "minimum", axis).numpy().astype(np.float64)
        np.testing.assert_array_equal(largest, x.astype(np.float64).max(axis))
        np.testing.assert_array_equal(smallest, x.astype(np.float64).min(axis))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 1), (3, 33), (4, 1000)])
def test_rows_of_softmax_and_norms(
    device: unihal.Device, random: np.random.Generator, dtype: str, shape: tuple[int, int]
) -> None:
    """As in float32, rounded at the end; along rows and along columns."""
    x, dy = (random.normal(size=shape).astype(of(dtype)) for _ in range(2))
    half = [Buffer.from_numpy(each, device) for each in (x, dy)]
    wide = [Buffer.from_numpy(each.astype(np.float32), device) for each in (x, dy)]
    scale = Buffer.from_numpy(random.normal(size=shape[1:]).astype(np.float32), device)

    def near(found: Buffer, expected: Buffer) -> None:
        step = 2.0**-7 if dtype == "bfloat16" else 2.0**-10
        np.testing.assert_allclose(found.numpy().astype(np.float32), expected.numpy(), rtol=step, atol=step / 8)

    for axis in (0, 1):
        for logarithm in (False, True):
            y = ops.softmax(half[0], axis, logarithm=logarithm)
            near(y, ops.softmax(wide[0], axis, logarithm=logarithm))
            near(
                ops.softmax_backward(y, half[1], axis, logarithm=logarithm),
                ops.softmax_backward(ops.cast(y, "float32"), wide[1], axis, logarithm=logarithm),
            )
    y, mean, variance = ops.layer_norm(half[0], scale)
    assert y.dtype == dtype
    near(y, ops.layer_norm(wide[0], scale)[0])
    near(ops.rms_norm(half[0], scale)[0], ops.rms_norm(wide[0], scale)[0])
    if shape[1] > 1:  # else all gradients are 0, but for what is rounded
        gradients = ops.layer_norm_backward(half[0], half[1], scale, mean, variance)
        for found, expected in zip(gradients, ops.layer_norm_backward(wide[0], wide[1], scale, mean, variance)):
            near(found, expected)


@pytest.mark.parametrize("dtype", ("float16", "bfloat16", "float32", "float64"))
@pytest.mark.parametrize("columns", [1, 5, 64])
def test_bags_by_offsets(device: unihal.Device, random: np.random.Generator, dtype: str, columns: int) -> None:
    """More bags than are summed before their results are stored; some empty, some of rows that do not exist."""
    bags, rows = 700, 50
    table = random.normal(size=(rows, columns)).astype(of(dtype))
    lengths = random.integers(0, 6, bags)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    for index_dtype in ("int32", "int64"):
        indices = random.integers(0, rows, offsets[-1]).astype(index_dtype)
        indices[7], indices[300] = -1, rows
        exists = (indices >= 0) & (indices < rows)
        picked = np.where(exists[:, None], table.astype(np.float64)[np.where(exists, indices, 0)], 0)
        expected = np.stack([picked[begin:end].sum(0) for begin, end in zip(offsets[:-1], offsets[1:])])
        for reduction in ("sum", "mean"):
            counts = Buffer((bags,), "int64", device)
            found = ops.segment_reduce(
                Buffer.from_numpy(table, device),
                Buffer.from_numpy(offsets, device),
                bags,
                reduction,
                form="offsets",
                indices=Buffer.from_numpy(indices, device),
                ignore_out_of_range=True,
                counts=counts,
            ).numpy()
            np.testing.assert_array_equal(counts.numpy(), lengths)
            divisor = np.maximum(lengths, 1)[:, None] if reduction == "mean" else 1
            step = {"bfloat16": 2.0**-7, "float16": 2.0**-10}.get(dtype, 1e-5)
            np.testing.assert_allclose(found.astype(np.float64), expected / divisor, rtol=step, atol=step)
