"""Direct calls of ops, against NumPy. Every op of the interface is called at least once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import unihal
from unihal import Buffer, ops

# float32 results of a few dozen additions differ from NumPy's by some units in the last place.
CLOSE = {"rtol": 2e-5, "atol": 2e-5}


Put = Callable[[Any], Buffer]


def normal(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


# -- elementwise


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(5,), (3, 700), (2, 3, 400), (4, 3, 6), (1,), (0, 3)])
def test_a_range_for_all_elements_is_that_range_for_each(
    put: Put, random: np.random.Generator, dtype: str, shape: tuple[int, ...]
) -> None:
    x = random.normal(0, 3, shape).astype(dtype)
    ends = [np.full(1, end, dtype) for end in (-2.5, 4)]
    if len(shape) == 3:  # of each channel
        ends = [np.linspace(end, 2 * end, 3).astype(dtype).reshape(3, 1) for end in (-2.5, 4)]
    every = [np.broadcast_to(end, shape).copy() for end in ends]
    for name, parameters in (("fake_quantize_range", [0, 255]), ("quantize_dequantize_range", [-128, 127, 1])):
        function = getattr(ops, name)
        few = function(put(x), *map(put, ends), parameters=parameters).numpy()
        np.testing.assert_allclose(
            few, function(put(x), *map(put, every), parameters=parameters).numpy(), rtol=1e-3, atol=1e-3
        )
    gradients = [
        part.numpy() for part in ops.fake_quantize_range_backward(put(x), *map(put, ends), put(x), parameters=[0, 255])
    ]
    of_each = ops.fake_quantize_range_backward(put(x), *map(put, every), put(x), parameters=[0, 255])
    for few, all_of_them in zip(gradients, of_each):
        np.testing.assert_array_equal(few, all_of_them.numpy())


def test_a_chain_is_its_functions_one_after_the_other(put: Put, random: np.random.Generator) -> None:
    x, row, y = normal(random, 3, 5), normal(random, 5), normal(random, 3, 1)
    operands = [put(x), put(row), put(y)]
    steps = [("add", [0, 1], ()), ("leaky_relu", [3], (0.1,)), ("multiply", (4, 2), [])]
    total = x + row
    expected = np.where(total > 0, total, np.float32(0.1) * total) * y
    out = Buffer((3, 5), "float32", operands[0].device)
    product, kept = ops.map_chain(operands, steps, [5, 3], dtypes=["float32", "float64"], out=[out, None])
    assert product is out and kept.dtype == "float64"
    np.testing.assert_allclose(product.numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(kept.numpy(), total.astype("float64"), rtol=1e-6)


@pytest.mark.parametrize(
    ("steps", "results", "message"),
    [
        (
            [("add", [0, 1], ()), ("hypotenuse", [2, 0], ())],
            [3],
            "step 1: there is no elementwise function 'hypotenuse'",
        ),
        ([("add", [0], ())], [2], "step 0: add takes 2 values, not 1"),
        ([("add", [0, 1], (1.0,) * 9)], [2], "step 0: add has at most 8 parameters"),
        ([("add", [0, 2], ())], [2], "step 0"),
        ([("add", [0, 1], ())], [3], "3"),
        ([("add", [0, 1], ())] * 17, [2], "at most 16 steps, not 17"),
        ([("add", [0, 1])], [2], "(a text, a sequence of whole numbers, a sequence of numbers)"),
        ([("add", [0, "x"], ())], [2], "(a text, a sequence of whole numbers, a sequence of numbers)"),
    ],
)
def test_a_chain_that_is_wrong_is_refused(steps: list[Any], results: list[int], message: str, put: Put) -> None:
    x = put(np.ones(3, np.float32))
    with pytest.raises(unihal.InvalidArgumentError, match=re.escape(message)):
        ops.map_chain([x, x], steps, results)


def test_broadcasting_allocates_the_common_shape(put: Put, random: np.random.Generator) -> None:
    a, b = normal(random, 4, 1, 5), normal(random, 3, 1)
    result = ops.multiply(put(a), put(b))
    assert result.shape == (4, 3, 5)
    np.testing.assert_array_equal(result.numpy(), a * b)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("int8", "int8", "int8"),
        ("int8", "int64", "int64"),
        ("uint8", "int8", "int16"),
        ("uint32", "int32", "int64"),
        ("uint64", "int8", "int64"),
        ("bool", "uint16", "uint16"),
        ("int32", "float16", "float16"),
        ("float16", "bfloat16", "float32"),
        ("float32", "float64", "float64"),
    ],
)
def test_dtypes_are_promoted(device: unihal.Device, left: str, right: str, expected: str) -> None:
    a, b = (ops.fill(Buffer((3,), dtype, device), 1) for dtype in (left, right))
    result = ops.add(a, b)
    assert result.dtype == expected == ops.add(b, a).dtype
    assert (ops.cast(result, "float64").numpy() == 2).all()


def test_functions_without_an_integer_form_give_floating_results(put: Put) -> None:
    assert ops.sqrt(put(np.array([4, 9], np.int64))).dtype == "float64"
    assert ops.sqrt(put(np.array([4, 9], np.int8))).dtype == "float32"
    np.testing.assert_array_equal(ops.sqrt(put(np.array([4, 9], np.int8))).numpy(), [2, 3])


def test_complex_numbers_have_real_and_complex_results(put: Put) -> None:
    x = np.array([3 + 4j, -1j], np.complex64)
    for name, expected in (("absolute", np.abs(x)), ("angle", np.angle(x)), ("imaginary", x.imag), ("real", x.real)):
        result = getattr(ops, name)(put(x))
        assert result.dtype == "float32"
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)
    assert ops.absolute(put(x.astype(np.complex128))).dtype == "float64"
    together = ops.complex(put(x.real.copy()), put(x.imag.copy()))
    assert together.dtype == "complex64"
    np.testing.assert_array_equal(together.numpy(), x)
    assert ops.complex(put(np.array([1], np.int32)), put(np.array([2], np.int32))).dtype == "complex128"
    assert ops.multiply(together, put(np.array([2.0, 3.0]))).dtype == "complex128"
    np.testing.assert_allclose(ops.matmul(put(x[None]), put(x[:, None])).numpy(), x[None] @ x[:, None], rtol=1e-6)
    assert ops.equal(together, put(x)).numpy().all()


def test_what_complex_numbers_have_not_is_refused_with_the_reason(put: Put) -> None:
    x = put(np.ones(3, np.complex64))
    with pytest.raises(unihal.InvalidArgumentError, match="less is not defined on complex numbers"):
        ops.less(x, x)
    with pytest.raises(unihal.UnimplementedError, match="maximum is not defined on complex numbers"):
        ops.max(x)
    with pytest.raises(unihal.UnimplementedError, match="complex numbers can fuse no activation"):
        ops.matmul(put(np.ones((2, 2), np.complex64)), put(np.ones((2, 2), np.complex64)), activation="relu")


def test_predicates_give_bool(put: Put) -> None:
    result = ops.greater(put(np.array([1.0, 2.0, np.nan], np.float32)), 1.5)
    assert result.dtype == "bool"
    np.testing.assert_array_equal(result.numpy(), [False, True, False])


def test_select_takes_the_dtype_of_its_values(put: Put) -> None:
    condition = put(np.array([True, False]))
    result = ops.select(condition, put(np.array([1, 2], np.int8)), put(np.array([3, 4], np.int8)))
    assert result.dtype == "int8"
    np.testing.assert_array_equal(result.numpy(), [1, 4])


def test_numbers_stand_for_buffers(put: Put) -> None:
    np.testing.assert_array_equal(ops.subtract(10, put(np.array([1, 2], np.int32))).numpy(), [9, 8])
    np.testing.assert_array_equal(ops.add(put(np.array([1, 2], np.int32)), 0.5).numpy(), [1.5, 2.5])


def test_parameters_reach_the_expression(put: Put) -> None:
    result = ops.leaky_relu(put(np.array([-2.0, 3.0], np.float32)), parameters=[0.25])
    np.testing.assert_array_equal(result.numpy(), [-0.5, 3])


def test_in_place_and_out(put: Put, device: unihal.Device) -> None:
    x = put(np.array([1.0, -1.0], np.float32))
    assert ops.relu(x, out=x) is x
    np.testing.assert_array_equal(x.numpy(), [1, 0])
    wide = Buffer((2,), "float64", device)
    np.testing.assert_array_equal(ops.add(x, 1, out=wide).numpy(), [2, 1])


def test_optimizer_steps_have_several_outputs(put: Put) -> None:
    parameter, gradient, velocity = (put(np.full(5, v, np.float32)) for v in (1, 0.5, 2))
    rate = put(np.float32(0.1))
    ops.momentum(parameter, gradient, velocity, rate, parameters=[0.9, 0, 0, 1], out=[parameter, velocity])
    np.testing.assert_allclose(velocity.numpy(), 0.9 * 2 + 0.5, rtol=1e-6)
    np.testing.assert_allclose(parameter.numpy(), 1 - 0.1 * 2.3, rtol=1e-6)


def test_functions_are_listed_and_described() -> None:
    assert {"add", "silu", "adam", "matmul", "top_k"} <= set(dir(ops))
    assert "x + y" in ops.add.expression
    assert "unihal.ops.add" in repr(ops.add)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: ops.add(x), unihal.InvalidArgumentError, "add takes 2 operands, not 1"),
        (lambda x: ops.add(1, 2), unihal.InvalidArgumentError, "at least one unihal.Buffer"),
        (lambda x: ops.add(x, np.ones(3)), unihal.InvalidArgumentError, "Buffer.from_numpy"),
        (lambda x: ops.add(x, x[:1].broadcast_to((5, 4, 4))), unihal.InvalidArgumentError, "do not broadcast"),
        (lambda x: ops.add(x, x, out=x[0]), unihal.InvalidArgumentError, r"out has the shape \(4,\)"),
        (lambda x: ops.sum(x, 2), IndexError, "axis 2 is outside"),
        (lambda x: ops.matmul(x, x), unihal.InvalidArgumentError, "do not multiply"),
        (lambda x: ops.cast(x, "float7"), unihal.InvalidArgumentError, "is no dtype"),
        (lambda x: ops.argmax(x, 0, dtype="int8"), unihal.InvalidArgumentError, "indices are int32 or int64"),
        (lambda x: ops.max_pool(x, 2), unihal.InvalidArgumentError, "3 to 5 axes"),
        (lambda x: ops.average_pool(x[None], 9), unihal.InvalidArgumentError, "does not fit"),
        (lambda x: ops.average_pool(x[None], (2, 2)), unihal.InvalidArgumentError, "expected 1 positive"),
    ],
)
def test_refusals(device: unihal.Device, call: Callable[[Buffer], Any], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        call(Buffer((3, 4), "float32", device))


def test_unknown_ops_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="has no op 'frobnicate'"):
        ops.frobnicate  # noqa: B018


# -- movement and indexing


def test_copy_cast_fill_iota_triangular(put: Put, device: unihal.Device) -> None:
    array = np.array([[1.9, -1.9, 0.0], [3.5, 2.5, -0.0]], np.float32)
    x = put(array)
    np.testing.assert_array_equal(ops.copy(x.T).numpy(), array.T)
    np.testing.assert_array_equal(ops.cast(x, "int32").numpy(), array.astype(np.int32))
    np.testing.assert_array_equal(ops.cast(x, "bool").numpy(), array != 0)
    big = ops.fill(Buffer((3,), "uint64", device), 2**64 - 1)
    np.testing.assert_array_equal(big.numpy(), np.full(3, 2**64 - 1, np.uint64))
    np.testing.assert_array_equal(ops.iota(5, "int64", device, 10, -3).numpy(), np.arange(10, -5, -3))
    np.testing.assert_allclose(ops.iota(4, "float32", device, 0.5, 0.25).numpy(), [0.5, 0.75, 1, 1.25])
    square = put(np.ones((2, 4, 4), np.float32))
    np.testing.assert_array_equal(ops.triangular(square, diagonal=1).numpy(), np.tril(np.ones((2, 4, 4)), 1))
    np.testing.assert_array_equal(ops.triangular(square, upper=True).numpy(), np.triu(np.ones((2, 4, 4))))


def test_gather_and_scatter(put: Put, random: np.random.Generator) -> None:
    x, indices = normal(random, 4, 5, 3), np.array([[4, 0], [2, 2]])
    np.testing.assert_array_equal(ops.gather(put(x), put(indices), 1).numpy(), np.take(x, indices, 1))
    wrapped = ops.gather(put(x), put(np.array([-1])), -1, negative_wraps=True)
    np.testing.assert_array_equal(wrapped.numpy(), x[..., -1:])
    rows = np.array([[0, 1], [2, 0], [1, 1], [4, 4]])
    batched = ops.gather(put(x), put(rows), 1, batch_dimensions=1)
    np.testing.assert_array_equal(batched.numpy(), np.stack([x[i][rows[i]] for i in range(4)]))

    target, updates = np.zeros((5, 2), np.float32), normal(random, 3, 2)
    expected = target.copy()
    np.add.at(expected, [1, 4, 1], updates)
    y = ops.scatter(put(target), put(np.array([1, 4, 1])), put(updates), combine="sum")
    np.testing.assert_allclose(y.numpy(), expected, **CLOSE)


def test_gather_and_scatter_nd_and_elements(put: Put, random: np.random.Generator) -> None:
    x = normal(random, 4, 5, 3)
    places = np.array([[0, 4], [3, 1]])
    np.testing.assert_array_equal(ops.gather_nd(put(x), put(places)).numpy(), x[places[:, 0], places[:, 1]])
    expected = x.copy()
    updates = normal(random, 2, 3)
    expected[places[:, 0], places[:, 1]] = updates
    np.testing.assert_array_equal(ops.scatter_nd(put(x), put(places), put(updates)).numpy(), expected)

    indices = random.integers(0, 5, (4, 2, 3))
    np.testing.assert_array_equal(
        ops.gather_elements(put(x), put(indices), 1).numpy(), np.take_along_axis(x, indices, 1)
    )
    distinct = np.broadcast_to(np.array([3, 0])[None, :, None], (4, 2, 3)).copy()
    values = normal(random, 4, 2, 3)
    expected = x.copy()
    np.put_along_axis(expected, distinct, values, 1)
    np.testing.assert_array_equal(ops.scatter_elements(put(x), put(distinct), put(values), 1).numpy(), expected)


# Rows that end within a piece of those that are looked at together, along the last axis and another one.
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("columns", [3, 8, 9, 41])
def test_elements_by_indices_in_pieces(
    columns: int, dtype: str, axis: int, put: Put, random: np.random.Generator
) -> None:
    x = normal(random, 6, columns)
    indices = random.integers(0, x.shape[axis], (6, columns)).astype(dtype)
    found = ops.gather_elements(put(x), put(indices), axis)
    np.testing.assert_array_equal(found.numpy(), np.take_along_axis(x, indices.astype("int64"), axis))
    places = list(np.indices(x.shape))
    places[axis] = indices
    expected = np.rint(8 * x)  # whose sums are exact in any order
    updates = np.rint(8 * normal(random, 6, columns))
    summed = ops.scatter_elements(put(expected.copy()), put(indices), put(updates), axis, combine="sum")
    np.add.at(expected, tuple(places), updates)
    np.testing.assert_array_equal(summed.numpy(), expected)


# Those of up to 32 bits, of up to 53, and those of which a float has not every digit.
@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_wide_integers_become_the_nearest_floats(dtype: str, put: Put, random: np.random.Generator) -> None:
    ends = np.iinfo(dtype)
    powers = 2 ** np.arange(63, dtype=dtype)
    edges = np.array([0, ends.min, ends.max, 2**24 + 1, 2**31 - 1, 2**31, 2**53 + 1], dtype)
    small = random.integers(0, 2**31, 600).astype(dtype)
    for x in (small, small[:5], powers + powers.dtype.type(1), edges, random.integers(0, ends.max, 777, dtype=dtype)):
        for target in ("float32", "float64"):
            np.testing.assert_array_equal(ops.cast(put(x), target).numpy(), x.astype(target))


def test_floats_become_wide_integers(put: Put) -> None:
    x = np.array([0, -0.5, 1.9, -1.9, 2**31 - 1, 2**31, -(2**31) - 1, 1e18, -1e18, 3.5] * 60)
    for dtype in ("float32", "float64"):
        floats = x.astype(dtype)
        for some in (floats, floats[:4]):
            np.testing.assert_array_equal(ops.cast(put(some), "int64").numpy(), some.astype("int64"))


def test_an_index_out_of_range_is_an_error_of_the_stream(put: Put, device: unihal.Device) -> None:
    with unihal.Stream(device) as stream:
        with pytest.raises(unihal.OutOfRangeError, match="gather"):
            ops.gather(put(np.ones(3, np.float32)), put(np.array([5])), stream=stream)
            stream.synchronize()
        stream.synchronize()


def test_one_hot(put: Put) -> None:
    result = ops.one_hot(put(np.array([[2, 0], [7, 1]])), 3)
    assert result.shape == (2, 2, 3) and result.dtype == "float32"
    np.testing.assert_array_equal(result.numpy(), np.array([2, 0, 7, 1]).reshape(2, 2, 1) == np.arange(3))
    np.testing.assert_array_equal(ops.one_hot(put(np.array([1, 0])), 2, axis=0).numpy(), [[0, 1], [1, 0]])


# -- reductions


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64", "complex64"])
@pytest.mark.parametrize("rest", [0, 1, 63, 64, 100, 1025])
@pytest.mark.parametrize("columns", [0, 2, 4, 8])
def test_sums_of_more_than_the_first_caches(
    put: Put, random: np.random.Generator, dtype: str, rest: int, columns: int
) -> None:
    """Elements are read at several places in turn there; whole numbers up to 4, so that no order of sums matters."""
    x = random.integers(-4, 5, (1 << 17) + rest * max(columns, 1)).astype(dtype)
    x = x.reshape(-1, columns) if columns else x
    exact = x.astype(np.complex128 if dtype == "complex64" else np.float64)
    found = ops.sum(put(x), 0).numpy()
    np.testing.assert_array_equal(found, exact.sum(0).astype(found.dtype))
    if dtype != "complex64":
        np.testing.assert_array_equal(ops.max(put(x), 0).numpy(), x.max(0))


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (), (1, 0, 2)])
@pytest.mark.parametrize(
    ("ours", "numpys"),
    [
        (ops.sum, np.sum),
        (ops.mean, np.mean),
        (ops.product, np.prod),
        (ops.max, np.max),
        (ops.min, np.min),
        (ops.any, np.any),
        (ops.all, np.all),
    ],
)
def test_reductions(put: Put, random: np.random.Generator, ours: Any, numpys: Any, axis: Any, keep: bool) -> None:
    x = normal(random, 3, 5, 7)
    result = ours(put(x), axis, keep_axes=keep)
    expected = numpys(x.astype(np.float64), axis=axis, keepdims=keep)
    assert result.shape == expected.shape
    np.testing.assert_allclose(result.numpy(), expected, **CLOSE)


def test_reduced_dtypes(put: Put) -> None:
    small = put(np.full((300,), 100, np.int8))
    assert ops.sum(small).dtype == "int64" and ops.sum(small).item() == 30000
    assert ops.sum(put(np.full(3, 255, np.uint8))).dtype == "uint64"
    assert ops.mean(small).dtype == "float32" and ops.mean(small).item() == 100
    assert ops.max(small).dtype == "int8"
    assert ops.any(small).dtype == "bool"


def test_other_reductions(put: Put, random: np.random.Generator) -> None:
    x = normal(random, 6, 5)
    wide = x.astype(np.float64)
    for name, expected in (
        ("sum_of_squares", (wide**2).sum(1)),
        ("l1_norm", np.abs(wide).sum(1)),
        ("l2_norm", np.linalg.norm(wide, axis=1)),
        ("log_sum_exp", np.log(np.exp(wide).sum(1))),
    ):
        np.testing.assert_allclose(ops.reduce(put(x), name, 1).numpy(), expected, **CLOSE)  # type: ignore[arg-type]


def test_reductions_over_nothing_are_neutral(put: Put) -> None:
    empty = put(np.zeros((3, 0), np.float32))
    np.testing.assert_array_equal(ops.sum(empty, 1).numpy(), [0, 0, 0])
    np.testing.assert_array_equal(ops.product(empty, 1).numpy(), [1, 1, 1])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64", "uint8"])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_of_any_length(dtype: str, exclusive: bool, reverse: bool) -> None:
    random = np.random.default_rng(5)
    for length in (1, 2, 3, 4, 5, 8, 11, 1030):
        x = random.integers(0, 3, (3, length)).astype(dtype)
        wide = x.astype(np.float64)[:, ::-1] if reverse else x.astype(np.float64)
        sums = wide.cumsum(1)
        expected = sums - wide if exclusive else sums
        expected = expected[:, ::-1] if reverse else expected
        if dtype == "uint8":
            expected = expected % 256
        b = unihal.Buffer.from_numpy(x, "rdna:0")
        np.testing.assert_array_equal(ops.scan(b, 1, exclusive=exclusive, reverse=reverse).numpy(), expected)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_an_index_outside_among_many(dtype: str) -> None:
    """Wherever it is among those that are looked at together."""
    limits = np.iinfo(dtype)
    x = unihal.Buffer.from_numpy(np.arange(1, 51, dtype=np.float32), "rdna:0")
    for at in (0, 1, 30, 31, 32, 40, 63, 64, 69):
        for wrong in (50, -51, limits.max, limits.min):
            indices = (np.arange(70) % 50).astype(dtype)
            indices[at] = wrong
            y = unihal.Buffer((70,), "float32", "rdna:0")
            with pytest.raises(unihal.OutOfRangeError, match=f"index {wrong} is out of range"):
                ops.gather(x, unihal.Buffer.from_numpy(indices, "rdna:0"), out=y)
                y.device.synchronize()
            expected = (indices.clip(0, 49) + 1).astype(np.float32)
            expected[at] = 0
            np.testing.assert_array_equal(y.numpy(), expected)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int8", "bool"])
def test_short_rows_of_every_length_are_sorted(
    put: Put, random: np.random.Generator, dtype: str, descending: bool
) -> None:
    """Equal ones stay in their order, zeros of both signs are equal, and NaN is larger than all."""
    for length in range(1, 35):
        x = (6 * random.standard_normal((9, length))).astype(dtype)
        if dtype.startswith("float"):
            x[random.random(x.shape) < 0.1] = np.nan
            x[random.random(x.shape) < 0.2] = -0.0
            x[random.random(x.shape) < 0.2] = 0.0
        key = np.where(np.isnan(x), np.inf, x.astype("float64"))
        order = np.argsort(-key if descending else key, 1, kind="stable")
        values, places = ops.sort(put(x), descending=descending)
        np.testing.assert_array_equal(places.numpy(), order)
        np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, order, 1))
        few = (length + 1) // 2
        values, places = ops.top_k(put(x), few, largest=descending, dtype="int32")
        np.testing.assert_array_equal(places.numpy(), order[:, :few])
        np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, order, 1)[:, :few])


def test_scan_argmax_sort_top_k(put: Put, random: np.random.Generator) -> None:
    x = random.permutation(60).reshape(4, 15).astype(np.float32)
    b = put(x)
    np.testing.assert_allclose(ops.scan(b, 1).numpy(), x.cumsum(1), **CLOSE)
    np.testing.assert_allclose(
        ops.scan(b, 0, reverse=True, exclusive=True).numpy(),
        np.vstack([x[::-1].cumsum(0)[::-1][1:], np.zeros((1, 15))]),
        **CLOSE,
    )
    np.testing.assert_array_equal(ops.argmax(b, 1).numpy(), x.argmax(1))
    np.testing.assert_array_equal(ops.argmin(b, 0, keep_axes=True, dtype="int32").numpy(), x.argmin(0)[None])
    values, indices = ops.sort(b, descending=True)
    np.testing.assert_array_equal(values.numpy(), -np.sort(-x, 1))
    np.testing.assert_array_equal(indices.numpy(), np.argsort(-x, 1, kind="stable"))
    values, indices = ops.top_k(b.T, 3, 0)
    np.testing.assert_array_equal(values.numpy(), -np.sort(-x.T, 0)[:3])
    np.testing.assert_array_equal(indices.numpy(), np.argsort(-x.T, 0, kind="stable")[:3])


# -- linear algebra


def test_matmul(put: Put, random: np.random.Generator) -> None:
    a, b, bias = normal(random, 2, 1, 5, 7), normal(random, 3, 7, 4), normal(random, 4)
    result = ops.matmul(put(a), put(b), put(bias), alpha=0.5, beta=2, activation="relu")
    expected = np.maximum(0.5 * (a @ b) + 2 * bias, 0)
    assert result.shape == (2, 3, 5, 4)
    np.testing.assert_allclose(result.numpy(), expected, **CLOSE)
    np.testing.assert_allclose(ops.matmul(put(b).transpose(0, 2, 1), put(b)).numpy(), b.transpose(0, 2, 1) @ b, **CLOSE)


def test_math_modes_reach_the_op(put: Put, random: np.random.Generator) -> None:
    a, image, window = put(normal(random, 4, 4)), put(normal(random, 1, 2, 4, 4)), put(normal(random, 2, 2, 4, 4))
    queries = put(normal(random, 1, 2, 4, 4))
    runs: list[Callable[[Any], Any]] = [
        lambda mode: ops.matmul(a, a, math_mode=mode),
        lambda mode: ops.convolution(image, window, math_mode=mode),
        lambda mode: ops.convolution_backward_data(
            put(np.ones((1, 2, 1, 1), np.float32)), window, (1, 2, 4, 4), math_mode=mode
        ),
        lambda mode: ops.convolution_backward_filter(
            image, put(np.ones((1, 2, 1, 1), np.float32)), (2, 2, 4, 4), math_mode=mode
        ),
        lambda mode: ops.attention(queries, queries, queries, math_mode=mode),
    ]
    for run in runs:
        for mode, allowed in (("strict", False), ("tf32", True)):
            with unihal.profile() as recording:
                run(mode)
            (event,) = (event for event in recording.events if not event.op.startswith("copy"))
            assert event.shape.endswith(", TF32 allowed") == allowed, event
        with pytest.raises(unihal.ArgumentTypeError, match="math_mode"):
            run("bfloat16")
    half = ops.cast(a, "float16")
    with unihal.profile() as recording:
        ops.matmul(half, half, math_mode="tf32")
    assert "TF32" not in recording.events[0].shape
    with pytest.raises(unihal.InvalidArgumentError, match="the attribute math_mode is 2, expected 0 to 1"):
        ops.launch.launch("matmul", [a, a], [ops.copy(a)], {"math_mode": 2})


def test_attention(put: Put, random: np.random.Generator) -> None:
    q, k, v = (normal(random, 2, 3, length, 8) for length in (5, 6, 6))
    scores = np.einsum("bhmd,bhnd->bhmn", q, k) / np.sqrt(8)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v
    y, log_sum_exp = ops.attention(put(q), put(k), put(v))
    np.testing.assert_allclose(y.numpy(), expected, **CLOSE)
    np.testing.assert_allclose(log_sum_exp.numpy(), np.log(np.exp(scores).sum(-1)), **CLOSE)
    gradients = ops.attention_backward(put(q), put(k), put(v), None, y, log_sum_exp, put(np.ones_like(expected)))
    # The softmax weights of a row add up to 1: a gradient of ones flows to v as the columns' sums.
    columns = (weights / weights.sum(-1, keepdims=True)).sum(-2)
    np.testing.assert_allclose(gradients[2].numpy(), np.broadcast_to(columns[..., None], v.shape), **CLOSE)


# -- images


def convolve(x: np.ndarray, w: np.ndarray, stride: int, padding: int) -> np.ndarray:
    """Cross-correlation in float64."""
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    return np.einsum("nchwij,ocij->nohw", windows, w.astype(np.float64))


def test_convolution_and_its_gradients(put: Put, random: np.random.Generator) -> None:
    x, w, bias = normal(random, 2, 3, 9, 7), normal(random, 4, 3, 3, 3), normal(random, 4)
    options: dict[str, Any] = {"stride": 2, "padding": 1}
    y = ops.convolution(put(x), put(w), put(bias), activation="relu", **options)
    expected = convolve(x, w, 2, 1)
    np.testing.assert_allclose(y.numpy(), np.maximum(expected + bias[:, None, None], 0), **CLOSE)

    # Gradients of sum(dy * convolution(x, w)), which is linear in x and in w.
    dy = normal(random, *expected.shape)
    dx = ops.convolution_backward_data(put(dy), put(w), x.shape, **options)
    dw, dbias = ops.convolution_backward_filter(put(x), put(dy), w.shape, with_bias=True, **options)
    assert dbias is not None
    np.testing.assert_allclose(dbias.numpy(), dy.sum((0, 2, 3)), **CLOSE)
    other_x, other_w = normal(random, *x.shape), normal(random, *w.shape)
    np.testing.assert_allclose((dx.numpy() * other_x).sum(), (dy * convolve(other_x, w, 2, 1)).sum(), rtol=1e-3)
    np.testing.assert_allclose((dw.numpy() * other_w).sum(), (dy * convolve(x, other_w, 2, 1)).sum(), rtol=1e-3)


def test_convolution_with_one_sided_padding_and_groups(put: Put, random: np.random.Generator) -> None:
    x, w = normal(random, 1, 4, 6), normal(random, 8, 1, 2)
    y = ops.convolution(put(x), put(w), padding=[(1, 0)], dilation=2, groups=4)
    padded = np.pad(x, [(0, 0), (0, 0), (1, 0)])
    expected = np.stack([padded[:, o // 2, :-2] * w[o, 0, 0] + padded[:, o // 2, 2:] * w[o, 0, 1] for o in range(8)], 1)
    np.testing.assert_allclose(y.numpy(), expected, **CLOSE)


def test_pooling(put: Put, random: np.random.Generator) -> None:
    x = normal(random, 2, 3, 6, 8)
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3))[:, :, ::2, ::2]
    y, indices = ops.max_pool(put(x), 2, indices_dtype="int64")
    np.testing.assert_array_equal(y.numpy(), windows.max((-1, -2)))
    assert indices is not None
    flat = np.take_along_axis(x.reshape(2, 3, 48), indices.numpy().reshape(2, 3, 12), 2)
    np.testing.assert_array_equal(flat.reshape(y.shape), y.numpy())
    dx = ops.pool_backward(put(np.ones(y.shape, np.float32)), put(x), y, 2)
    np.testing.assert_array_equal(dx.numpy(), np.isin(x, y.numpy()))

    mean = ops.average_pool(put(x), 2)
    np.testing.assert_allclose(mean.numpy(), windows.mean((-1, -2)), **CLOSE)
    spread = ops.pool_backward(put(np.ones(y.shape, np.float32)), put(x), mean, 2, mode="average")
    np.testing.assert_allclose(spread.numpy(), np.full(x.shape, 0.25), **CLOSE)
    including = ops.average_pool(put(np.ones((1, 1, 2, 2), np.float32)), 2, padding=1, include_padding=True)
    np.testing.assert_allclose(including.numpy(), np.full((1, 1, 2, 2), 0.25))


def test_resample(put: Put) -> None:
    x = put(np.array([[1, 2, 3, 4], [5, 6, 7, 9]], np.float32))
    first, halves = put(np.array([0, 2, 3], np.int32)), put(np.full((3, 2), 0.5, np.float32))
    assert ops.resample(x, first, halves, -1).numpy().tolist() == [[1.5, 3.5, 2.0], [5.5, 8.0, 4.5]]
    with pytest.raises(unihal.OutOfRangeError):
        ops.resample(x, first, halves, 2)


def test_resize(put: Put) -> None:
    x = put(np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2))
    y = ops.resize(x, (4, 4))
    np.testing.assert_array_equal(y.numpy()[0, 0], np.kron([[0, 1], [2, 3]], np.ones((2, 2))))
    back = ops.resize_backward(put(np.ones((1, 1, 4, 4), np.float32)), (1, 1, 2, 2))
    np.testing.assert_array_equal(back.numpy(), np.full((1, 1, 2, 2), 4))


# -- transforms


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_fourier_transforms(put: Put, random: np.random.Generator, norm: str) -> None:
    x = (random.standard_normal((3, 6, 5)) + 1j * random.standard_normal((3, 6, 5))).astype(np.complex64)
    y = ops.fft(put(x), axes=(0, -1), norm=norm)
    np.testing.assert_allclose(y.numpy(), np.fft.fftn(x, axes=(0, -1), norm=norm), **CLOSE)
    np.testing.assert_allclose(ops.ifft(y, axes=(0, -1), norm=norm).numpy(), x, **CLOSE)
    for length in (8, 9):
        real = normal(random, 4, length)
        half = ops.rfft(put(real), norm=norm)
        np.testing.assert_allclose(half.numpy(), np.fft.rfft(real, norm=norm), **CLOSE)
        np.testing.assert_allclose(ops.irfft(half, length=length, norm=norm).numpy(), real, **CLOSE)
    assert ops.irfft(put(x), axes=1).shape == (3, 10, 5)
    assert ops.rfft(put(np.ones((2, 5), np.float64)), axes=0).dtype == "complex128"


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("length", [16, 56, 60, 63, 96, 128, 253, 256, 343, 1024])
def test_fourier_transforms_of_lines_side_by_side(
    put: Put, random: np.random.Generator, dtype: str, length: int
) -> None:
    # Eight and five lines, whose numbers are neighbours or columns: radices as the first, a middle and the last one.
    x = (random.standard_normal((13, length)) + 1j * random.standard_normal((13, length))).astype(dtype)
    tolerance = 2e-6 if dtype == "complex64" else 1e-14
    for lines, axis in ((x, 1), (np.ascontiguousarray(x.T), 0)):
        for name in ("fft", "ifft"):
            expected = getattr(np.fft, name)(lines.astype(np.complex128), axis=axis)
            error = getattr(ops, name)(put(lines), axes=axis).numpy() - expected
            assert np.abs(error).max() < tolerance * np.abs(expected).max()
        real = np.ascontiguousarray(lines.real)
        half = ops.rfft(put(real), axes=axis)
        expected = np.fft.rfft(real.astype(np.float64), axis=axis)
        assert np.abs(half.numpy() - expected).max() < tolerance * np.abs(expected).max()
        back = ops.irfft(half, axes=axis, length=length).numpy()
        assert np.abs(back - real).max() < 4 * tolerance * np.abs(real).max()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_fourier_transforms_of_every_length(put: Put, random: np.random.Generator, dtype: str) -> None:
    # Which lines lie side by side, and how a line's numbers are parted, depends on its length in a dozen ways.
    tolerance = 2e-6 if dtype == "complex64" else 1e-14
    for length in (*range(2, 202), *range(208, 530, 8)):
        x = (random.standard_normal((5, length)) + 1j * random.standard_normal((5, length))).astype(dtype)
        real = np.ascontiguousarray(x.real)
        half = np.fft.rfft(real.astype(np.float64))
        for name, operand, expected in (
            ("fft", x, np.fft.fft(x.astype(np.complex128))),
            ("ifft", x, np.fft.ifft(x.astype(np.complex128))),
            ("rfft", real, half),
            ("irfft", half.astype(dtype), real),
        ):
            given = {"length": length} if name == "irfft" else {}
            error = getattr(ops, name)(put(operand), axes=1, **given).numpy() - expected
            assert np.abs(error).max() < 2 * tolerance * np.abs(expected).max(), (name, length)


def test_fourier_transforms_say_what_they_take(put: Put) -> None:
    with pytest.raises(unihal.InvalidArgumentError, match="take rfft"):
        ops.fft(put(np.ones(4, np.float32)))
    with pytest.raises(unihal.InvalidArgumentError, match="rfft takes float32 or float64, not float16"):
        ops.rfft(put(np.ones(4, np.float16)))
    with pytest.raises(unihal.InvalidArgumentError, match="those of 6 or 7 numbers, not of 8"):
        ops.irfft(put(np.ones(4, np.complex64)), length=8)
    with pytest.raises(unihal.InvalidArgumentError, match="each once"):
        ops.fft(put(np.ones((4, 4), np.complex64)), axes=(1, -1))
    with pytest.raises(unihal.InvalidArgumentError, match="one to three axes"):
        ops.fft(put(np.ones((2, 2, 2, 2), np.complex64)), axes=(0, 1, 2, 3))


# -- normalization


def test_softmax_and_cross_entropy(put: Put, random: np.random.Generator) -> None:
    x, labels = normal(random, 6, 5), random.integers(0, 5, (6, 1))
    exponentials = np.exp(x.astype(np.float64))
    probabilities = exponentials / exponentials.sum(1, keepdims=True)
    y = ops.softmax(put(x), 1)
    np.testing.assert_allclose(y.numpy(), probabilities, **CLOSE)
    np.testing.assert_allclose(ops.softmax(put(x), logarithm=True).numpy(), np.log(probabilities), **CLOSE)
    dy = normal(random, 6, 5)
    expected = probabilities * (dy - (dy * probabilities).sum(1, keepdims=True))
    np.testing.assert_allclose(ops.softmax_backward(y, put(dy)).numpy(), expected, **CLOSE)

    loss, given, gradient = ops.cross_entropy(put(x), put(labels))
    assert loss.shape == (6, 1)
    assert given is not None and gradient is not None
    np.testing.assert_allclose(loss.numpy(), -np.log(np.take_along_axis(probabilities, labels, 1)), **CLOSE)
    np.testing.assert_allclose(given.numpy(), probabilities, **CLOSE)
    one_hot = labels == np.arange(5)
    np.testing.assert_allclose(gradient.numpy(), probabilities - one_hot, **CLOSE)
    scaled = ops.cross_entropy_backward(given, put(labels), put(np.full((6, 1), 2, np.float32)))
    np.testing.assert_allclose(scaled.numpy(), 2 * (probabilities - one_hot), **CLOSE)
    ignored, _, _ = ops.cross_entropy(put(x), put(labels), ignore_index=int(labels[0, 0]))
    assert ignored.numpy()[0, 0] == 0
    alone, *absent = ops.cross_entropy(put(x), put(labels), loss_only=True)
    assert absent == [None, None]
    np.testing.assert_array_equal(alone.numpy(), loss.numpy())


def test_batch_norm(put: Put, random: np.random.Generator) -> None:
    x, scale, bias = normal(random, 4, 3, 5, 5), normal(random, 3), normal(random, 3)
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    running_mean, running_variance = put(np.zeros(3, np.float32)), put(np.ones(3, np.float32))
    y, given_mean, given_variance = ops.batch_norm(put(x), put(scale), put(bias), running_mean, running_variance)
    by_channel = (slice(None), None, None)
    expected = (x - mean[by_channel]) / np.sqrt(variance[by_channel] + 1e-5) * scale[by_channel] + bias[by_channel]
    np.testing.assert_allclose(y.numpy(), expected, **CLOSE)
    assert given_mean is not None and given_variance is not None
    np.testing.assert_allclose(given_mean.numpy(), mean, **CLOSE)
    np.testing.assert_allclose(running_mean.numpy(), 0.1 * mean, **CLOSE)
    np.testing.assert_allclose(running_variance.numpy(), 0.9 + 0.1 * variance, **CLOSE)

    fixed, none, _ = ops.batch_norm(put(x), None, None, put(mean), put(variance), inference=True)
    assert none is None
    np.testing.assert_allclose(fixed.numpy(), (x - mean[by_channel]) / np.sqrt(variance[by_channel] + 1e-5), **CLOSE)
    dx, dscale, dbias = ops.batch_norm_backward(put(x), put(x), put(scale), given_mean, given_variance)
    np.testing.assert_allclose(dbias.numpy(), x.sum((0, 2, 3)), rtol=1e-4, atol=1e-4)
    normalized = (x - mean[by_channel]) / np.sqrt(variance[by_channel] + 1e-5)
    np.testing.assert_allclose(dscale.numpy(), (x * normalized).sum((0, 2, 3)), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(dx.numpy().sum((0, 2, 3)), np.zeros(3), atol=1e-4)


def test_layer_group_and_rms_norm(put: Put, random: np.random.Generator) -> None:
    x, scale, bias = normal(random, 4, 6, 8), normal(random, 8), normal(random, 8)
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    normalized = (x - mean) / np.sqrt(variance + 1e-5)
    y, given_mean, given_variance = ops.layer_norm(put(x), put(scale), put(bias))
    np.testing.assert_allclose(y.numpy(), normalized * scale + bias, **CLOSE)
    dx, dscale, dbias = ops.layer_norm_backward(put(x), put(x), put(scale), given_mean, given_variance)
    np.testing.assert_allclose(dbias.numpy(), x.sum((0, 1)), **CLOSE)
    np.testing.assert_allclose(dscale.numpy(), (x * normalized).sum((0, 1)), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(dx.numpy().sum(-1), np.zeros((4, 6)), atol=1e-4)

    grouped = x.reshape(4, 2, 24)
    expected = (grouped - grouped.mean(-1, keepdims=True)) / np.sqrt(grouped.var(-1, keepdims=True) + 1e-5)
    y, given_mean, given_variance = ops.group_norm(put(x), 2)
    np.testing.assert_allclose(y.numpy(), expected.reshape(x.shape), **CLOSE)
    _, _, dbias = ops.group_norm_backward(put(x), put(x), 2, None, given_mean, given_variance)
    np.testing.assert_allclose(dbias.numpy(), x.sum((0, 2)), **CLOSE)

    inverse = 1 / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
    y, given_inverse = ops.rms_norm(put(x), put(scale))
    np.testing.assert_allclose(y.numpy(), x * inverse * scale, **CLOSE)
    np.testing.assert_allclose(given_inverse.numpy(), inverse, **CLOSE)
    _, dscale = ops.rms_norm_backward(put(x), put(x), put(scale), given_inverse)
    np.testing.assert_allclose(dscale.numpy(), (x * x * inverse).sum((0, 1)), rtol=1e-4, atol=1e-4)


# -- random


def test_random_numbers_are_a_function_of_key_and_counter(device: unihal.Device) -> None:
    first = ops.random((1001,), "float32", device, key=5, counter=2**100).numpy()
    again = ops.random((1001,), "float32", device, key=5, counter=2**100).numpy()
    other = ops.random((1001,), "float32", device, key=6, counter=2**100).numpy()
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.99
    assert first.min() >= 0 and first.max() < 1 and abs(first.mean() - 0.5) < 0.05
    # A block of the counter gives four words.
    shifted = ops.random((997,), "float32", device, key=5, counter=2**100 + 1).numpy()
    np.testing.assert_array_equal(shifted, first[4:])


def test_distributions(device: unihal.Device) -> None:
    normal_ones = ops.random((20000,), "float32", device, "normal", key=1, a=3, b=2).numpy()
    assert abs(normal_ones.mean() - 3) < 0.1 and abs(normal_ones.std() - 2) < 0.1
    truncated = ops.random((20000,), "float32", device, "truncated_normal", key=1).numpy()
    assert np.abs(truncated).max() <= 2
    coins = ops.random((20000,), "float32", device, "bernoulli", key=1, a=0.25).numpy()
    assert set(np.unique(coins)) == {0, 1} and abs(coins.mean() - 0.25) < 0.02
    integers = ops.random((20000,), "int32", device, key=1, a=-3, b=4).numpy()
    assert set(np.unique(integers)) == set(range(-3, 4))


def test_dropout(put: Put) -> None:
    x = np.ones((100, 101), np.float32)
    y, mask = ops.dropout(put(x), 0.25, key=3)
    kept = mask.numpy()
    assert abs(kept.mean() - 0.75) < 0.02
    np.testing.assert_allclose(y.numpy(), kept / 0.75, rtol=1e-6)


# -- support, launching, profiling


def test_supports(device: unihal.Device) -> None:
    x, square = Buffer((3, 4), "float32", device), Buffer((4, 4), "float32", device)
    assert unihal.supports(device, "matmul", [x, square], [x]) == (True, "")
    supported, reason = unihal.supports(device, "matmul", [x, x], [x])
    assert not supported and "matmul" in reason
    with pytest.raises(unihal.NotFoundError, match="the ops are: map, copy"):
        unihal.supports(device, "matmull", [], [])


def test_attributes_are_checked(device: unihal.Device) -> None:
    x = Buffer((3, 4), "float32", device)
    launch = ops.launch.launch
    with pytest.raises(TypeError, match="there is no attribute aksis; this op has: axis, logarithm"):
        launch("softmax", [x], [x], {"aksis": 1})
    with pytest.raises(TypeError, match="axis is 'one'"):
        launch("softmax", [x], [x], {"axis": "one"})
    with pytest.raises(TypeError, match="copy has no attributes"):
        launch("copy", [x], [x], {"axis": 1})
    with pytest.raises(ValueError, match="stride has at most 3 entries, not 4"):
        launch("convolution", [x], [x], {"stride": [1] * 4})


def test_labels_and_totals_of_the_profiler(put: Put, tmp_path: Any) -> None:
    a = put(np.ones((32, 32), np.float32))
    trace = tmp_path / "trace.json"
    with unihal.profile(trace) as recording:
        ops.launch.launch("matmul", [a, a], [ops.copy(a)], label="my product")
        ops.matmul(a, a)
    totals = {total.op: total for total in recording.totals}
    assert totals["matmul"].calls == 2 and totals["matmul"].flops == 2 * 2 * 32**3
    assert totals["matmul"].bytes == 2 * 3 * 32 * 32 * 4
    assert "my product" in {event.name for event in recording.events}
    assert sum(event.duration_nanoseconds for event in recording.events if event.op == "matmul") == (
        totals["matmul"].duration_nanoseconds
    )
    assert "traceEvents" in trace.read_text()


def test_the_profiler_says_what_products_ran_on(put: Put, tmp_path: Any) -> None:
    small, large = put(np.ones((32, 32), np.float32)), put(np.ones((128, 128), np.float32))
    trace = tmp_path / "trace.json"
    with unihal.profile(trace) as recording:
        for x in (small, large):
            ops.relu(ops.matmul(x, x))
    events = [(event.op, event.implementation) for event in recording.events]
    library = next((part for part in small.device.properties.driver.split(", ") if part.startswith("oneDNN")), None)
    large_one = library or "built-in gemm"
    assert events == [("matmul", "built-in gemm"), ("map.relu", ""), ("matmul", large_one), ("map.relu", "")]
    lines = recording.summary().splitlines()
    assert lines[0].endswith("ran on")
    assert "built-in gemm" in next(line for line in lines if line.startswith("matmul"))
    assert f'"implementation":"{large_one}"' in trace.read_text()


@pytest.mark.parametrize(
    ("size", "channels", "filters"),
    [(2, 512, 512), (1, 512, 512), (128, 1, 16)],
    ids=["to one pixel", "one pixel", "one channel"],
)
def test_convolutions_of_images_that_lie_alike_both_ways_run_on_the_library(
    put: Put, size: int, channels: int, filters: int
) -> None:
    """One pixel, or one channel, is in memory as channels innermost and as channels outermost: neither is our product
    of unfolded images, which takes forty times as long for one pixel."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal((4, channels, size, size)).astype(np.float32)
    w = generator.standard_normal((filters, channels, 3, 3)).astype(np.float32)
    dy = np.ones((4, filters, -(-size // 2), -(-size // 2)), np.float32)
    device_x, device_w, device_dy = put(x), put(w), put(dy)
    with unihal.profile() as recording:
        y = ops.convolution(device_x, device_w, stride=2, padding=1).numpy()
        ops.convolution_backward_data(device_dy, device_w, x.shape, stride=2, padding=1)
        dw, _ = ops.convolution_backward_filter(device_x, device_dy, w.shape, stride=2, padding=1)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))).astype(np.float64)
    np.testing.assert_allclose(y[:, :, 0, 0], np.einsum("nchw,fchw->nf", padded[:, :, :3, :3], w), rtol=1e-3, atol=1e-3)
    steps = np.stack([padded[:, :, 2 * i : 2 * i + 3, 2 * k : 2 * k + 3] for i, k in np.ndindex(dy.shape[2:])])
    np.testing.assert_allclose(dw.numpy(), np.broadcast_to(steps.sum((0, 1)), w.shape), rtol=1e-3, atol=1e-3)
    library = next((part for part in device_x.device.properties.driver.split(", ") if part.startswith("oneDNN")), None)
    ran_on = {event.implementation for event in recording.events if event.op.startswith("convolution")}
    assert ran_on == {library or "built-in gemm"}


@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
@pytest.mark.parametrize(
    ("size", "window", "stride", "dilation", "padding"),
    [((8, 8), (3, 3), 1, 1, 1), ((7, 5), (3, 2), (2, 1), (1, 2), ((1, 0), (2, 1))), ((4, 16), (1, 3), 1, 1, 0)],
)
def test_convolutions_of_few_numbers_need_no_library(
    put: Put, last: bool, size: Any, window: Any, stride: Any, dilation: Any, padding: Any
) -> None:
    """Their gradients are the forward's transposes: sums of products with any image and any filter are equal."""
    generator = np.random.default_rng(0)
    x, w, bias = (generator.standard_normal(s).astype(np.float32) for s in ((3, 5, *size), (6, 5, *window), (6,)))
    device_x = put(np.ascontiguousarray(x.transpose(0, 2, 3, 1))).transpose(0, 3, 1, 2) if last else put(x)
    device_w = put(w)
    how = {"stride": stride, "dilation": dilation, "padding": padding}
    with unihal.profile() as recording:
        y = ops.convolution(device_x, device_w, put(bias), **how)
        dy = generator.standard_normal(y.shape).astype(np.float32)
        dx = ops.convolution_backward_data(put(dy), device_w, x.shape, **how)
        dw, dbias = ops.convolution_backward_filter(device_x, put(dy), w.shape, with_bias=True, **how)
    (over, under), (left, right) = np.broadcast_to(
        np.reshape(padding, (-1, 1) if np.ndim(padding) == 1 else np.shape(padding)), (2, 2)
    )
    (step_y, step_x), (apart_y, apart_x) = np.broadcast_to(stride, 2), np.broadcast_to(dilation, 2)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (over, under), (left, right)))
    wanted = np.zeros(y.shape) + bias[:, None, None]
    for i, k in np.ndindex(*window):
        rows = padded[:, :, i * apart_y :: step_y, k * apart_x :: step_x][:, :, : y.shape[2], : y.shape[3]]
        wanted += np.einsum("nchw,fc->nfhw", rows, w[:, :, i, k])
    np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-4, atol=1e-4)
    without_bias = np.sum((wanted - bias[:, None, None]) * dy)
    np.testing.assert_allclose(np.sum(dx.numpy() * x, dtype=np.float64), without_bias, rtol=1e-3)
    np.testing.assert_allclose(np.sum(dw.numpy() * w, dtype=np.float64), without_bias, rtol=1e-3)
    assert dbias is not None
    np.testing.assert_allclose(dbias.numpy(), dy.sum((0, 2, 3)), rtol=1e-4, atol=1e-4)
    assert {e.implementation for e in recording.events if e.op.startswith("convolution")} == {"built-in"}


def test_profiles_do_not_nest() -> None:
    with unihal.profile(), pytest.raises(unihal.FailedPreconditionError), unihal.profile():
        pass


def test_a_trace_that_cannot_be_written_is_an_error(tmp_path: Any) -> None:
    with pytest.raises(unihal.NotFoundError, match=r"trace\.json"), unihal.profile(tmp_path / "missing" / "trace.json"):
        pass


# -- pooling and resizing that frameworks have: NumPy references -------------------------------------------------------


def pooled(x: np.ndarray[Any, Any], windows: list[list[tuple[int, int]]], combine: Callable[..., Any]) -> Any:
    """Combines windows, given per spatial axis as (begin, end) inside the image."""
    shape = [len(axis) for axis in windows]
    y = np.empty((*x.shape[:2], *shape))
    for place in np.ndindex(*shape):
        part = x[(slice(None), slice(None), *(slice(*windows[i][k]) for i, k in enumerate(place)))]
        y[(slice(None), slice(None), *place)] = combine(part, axis=tuple(range(2, x.ndim)))
    return y


def ceil_windows(length: int, window: int, stride: int, pad: int) -> list[tuple[int, int]]:
    """All windows that begin before the image's end; the last may reach beyond its padding."""
    begins = [-pad]
    while begins[-1] + window < length + pad and begins[-1] + stride < length:
        begins.append(begins[-1] + stride)
    return [(max(begin, 0), min(begin + window, length)) for begin in begins]


@pytest.mark.parametrize("spatial", [(7,), (7, 8), (5, 6, 9)])
@pytest.mark.parametrize(("window", "stride", "pad"), [(2, 2, 0), (3, 2, 1), (2, 3, 0), (3, 3, 1), (2, 5, 1)])
def test_pooling_in_ceil_mode(
    device: unihal.Device, spatial: tuple[int, ...], window: int, stride: int, pad: int
) -> None:
    x = np.random.default_rng(3).normal(size=(2, 3, *spatial)).astype(np.float32)
    windows = [ceil_windows(length, window, stride, pad) for length in spatial]
    on = Buffer.from_numpy(x, device)
    y, indices = ops.max_pool(on, window, stride=stride, padding=pad, ceil_mode=True, indices_dtype="int64")
    expected = pooled(x, windows, np.max)
    np.testing.assert_array_equal(y.numpy(), expected.astype(np.float32))
    assert indices is not None
    np.testing.assert_array_equal(
        np.take_along_axis(x.reshape(2, 3, -1), indices.numpy().reshape(2, 3, -1), 2).reshape(y.shape), y.numpy()
    )
    mean = ops.average_pool(on, window, stride=stride, padding=pad, ceil_mode=True)
    # The mean of up to 27 float32: one rounding each.
    np.testing.assert_allclose(mean.numpy(), pooled(x.astype(np.float64), windows, np.mean), rtol=27e-7, atol=1e-6)
    dx = ops.pool_backward(y, on, y, window, stride=stride, padding=pad)
    np.testing.assert_allclose(dx.numpy().sum(), expected.sum(), rtol=1e-4)


@pytest.mark.parametrize("spatial", [(7,), (7, 8), (5, 6, 9)])
@pytest.mark.parametrize("size", [1, 3, 5])
def test_adaptive_pooling(device: unihal.Device, spatial: tuple[int, ...], size: int) -> None:
    x = np.random.default_rng(4).normal(size=(2, 3, *spatial)).astype(np.float32)
    windows = [[(i * length // size, -(-(i + 1) * length // size)) for i in range(size)] for length in spatial]
    on = Buffer.from_numpy(x, device)
    y, indices = ops.adaptive_max_pool(on, size, indices_dtype="int32")
    np.testing.assert_array_equal(y.numpy(), pooled(x, windows, np.max).astype(np.float32))
    assert indices is not None and indices.dtype == "int32"
    mean = ops.adaptive_average_pool(on, [size] * len(spatial))
    reference = pooled(x.astype(np.float64), windows, np.mean)
    # The mean of up to 270 float32.
    np.testing.assert_allclose(mean.numpy(), reference, rtol=1e-5, atol=1e-6)
    # Each mean's gradient is spread evenly over its window.
    dy = np.random.default_rng(5).normal(size=y.shape).astype(np.float32)
    expected = np.zeros(x.shape)
    for place in np.ndindex(*y.shape[2:]):
        part = tuple(slice(*windows[i][k]) for i, k in enumerate(place))
        count = np.prod([windows[i][k][1] - windows[i][k][0] for i, k in enumerate(place)])
        share = dy[(slice(None), slice(None), *place)] / count
        expected[(slice(None), slice(None), *part)] += share.reshape(2, 3, *[1] * len(spatial))
    dx = ops.adaptive_pool_backward(Buffer.from_numpy(dy, device), on, mean, mode="average")
    np.testing.assert_allclose(dx.numpy(), expected, rtol=1e-5, atol=1e-6)
    largest = ops.adaptive_pool_backward(Buffer.from_numpy(dy, device), on, y)
    np.testing.assert_allclose(largest.numpy().sum(), dy.sum(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scale", [0.5, 0.75, 1.5, (0.4, 1.25)])
def test_resizing_with_a_scale(device: unihal.Device, scale: float | tuple[float, float]) -> None:
    x = np.random.default_rng(6).normal(size=(2, 3, 6, 9)).astype(np.float32)
    steps = scale if isinstance(scale, tuple) else (scale, scale)
    on = Buffer.from_numpy(x, device)
    # Nearest: the pixel at or before the position.
    rows, columns = (
        np.minimum(np.floor(np.arange(n) * step).astype(int), length - 1)
        for n, step, length in zip((8, 5), steps, (6, 9))
    )
    y = ops.resize(on, (8, 5), scale=scale)
    np.testing.assert_array_equal(y.numpy(), x[:, :, rows][:, :, :, columns])
    dx = ops.resize_backward(y, x.shape, scale=scale)
    expected = np.zeros(x.shape)
    np.add.at(expected, (slice(None), slice(None), rows[:, None], columns[None, :]), y.numpy())
    np.testing.assert_allclose(dx.numpy(), expected, rtol=1e-5, atol=1e-6)
    # Linear, with pixels at half positions.
    position = [
        np.clip((np.arange(n) + 0.5) * step - 0.5, 0, length - 1) for n, step, length in zip((8, 5), steps, (6, 9))
    ]
    weights = []
    for at, length in zip(position, (6, 9)):
        low = np.minimum(np.floor(at).astype(int), length - 1)
        high = np.minimum(low + 1, length - 1)
        matrix = np.zeros((len(at), length))
        np.add.at(matrix, (np.arange(len(at)), low), 1 - (at - low))
        np.add.at(matrix, (np.arange(len(at)), high), at - low)
        weights.append(matrix)
    linear = ops.resize(on, (8, 5), "linear", half_pixel_centers=True, scale=scale)
    reference = np.einsum("pi,ncij,qj->ncpq", weights[0], x.astype(np.float64), weights[1])
    np.testing.assert_allclose(linear.numpy(), reference, rtol=1e-5, atol=1e-5)


def test_scales_are_checked(device: unihal.Device) -> None:
    x = Buffer((1, 1, 4, 4), "float32", device)
    for scale in (-1, (1, 2, 3), (1, -2)):
        with pytest.raises(unihal.InvalidArgumentError, match="expected 2 steps"):
            ops.resize(x, (2, 2), scale=scale)
    x.close()


# -- extremes, and integers of one and two bytes, in vectors of their own


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("length", [1, 31, 127, 128, 1000, 2048, 9001])
def test_the_first_extreme_of_rows_of_narrow_integers(
    put: Put, random: np.random.Generator, dtype: str, length: int
) -> None:
    limits = np.iinfo(dtype)
    wide = random.integers(limits.min, limits.max, (4, length), dtype=dtype, endpoint=True)
    few = random.integers(0, 3, (4, length), dtype=dtype)
    late = np.full((1, length), 5, dtype)
    late[0, -1] = 6
    for x in (wide, few, late, 11 - late):
        np.testing.assert_array_equal(ops.argmax(put(x), -1).numpy(), x.argmax(-1))
        np.testing.assert_array_equal(ops.argmin(put(x), -1).numpy(), x.argmin(-1))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint64"])
@pytest.mark.parametrize("length", [1, 15, 31, 32, 96, 127, 191, 384, 1000, 2049])
def test_the_first_extreme_of_rows(put: Put, random: np.random.Generator, dtype: str, length: int) -> None:
    wide = (random.standard_normal((5, length)) * 1000).astype(dtype)
    few = random.integers(0, 3, (5, length)).astype(dtype)
    late = np.full((1, length), 5, dtype)
    late[0, -1] = 6
    given = [wide, few, late, 11 - late]
    if dtype.startswith("float"):  # a NaN in each row, which wins wherever it is
        at = np.minimum([0, length // 3, length // 2, length - 2, length - 1], length - 1).clip(0)
        given.append(wide.copy())
        given[-1][np.arange(5), at] = np.nan
        given += [np.full((2, length), np.inf, dtype), np.full((2, length), -np.inf, dtype)]
    for x in given:
        np.testing.assert_array_equal(ops.argmax(put(x), -1).numpy(), x.argmax(-1))
        np.testing.assert_array_equal(ops.argmin(put(x), -1).numpy(), x.argmin(-1))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64", "uint8"])
@pytest.mark.parametrize("shape", [(3, 5, 8), (2, 21, 4, 33), (7, 1500), (1, 2, 1024)])
def test_the_first_extreme_of_columns(
    put: Put, random: np.random.Generator, shape: tuple[int, ...], dtype: str
) -> None:
    """Along an axis that is not the innermost: equal ones, a NaN or several, and views."""
    few = random.integers(0, 4, shape).astype(dtype)
    cases = [few, random.normal(0, 50, shape).astype(dtype) if dtype.startswith("float") else few]
    if dtype.startswith("float"):
        holes = few.copy()
        holes[random.uniform(size=shape) < 0.2] = np.nan
        cases.append(holes)
    for x in cases:
        for axis in range(x.ndim - 1):
            np.testing.assert_array_equal(ops.argmax(put(x), axis).numpy(), x.argmax(axis))
            np.testing.assert_array_equal(ops.argmin(put(x), axis).numpy(), x.argmin(axis))


@pytest.mark.parametrize("shape", [(4, 4, 1), (5, 7, 17), (6, 513, 16), (241, 1025, 257), (3, 9, 40)])
@pytest.mark.parametrize("dtypes", [("int8", "int8"), ("uint8", "int8"), ("int8", "uint8"), ("uint8", "uint8")])
def test_products_of_bytes_are_exact(
    put: Put, random: np.random.Generator, shape: tuple[int, int, int], dtypes: tuple[str, str]
) -> None:
    m, k, n = shape
    limits = [np.iinfo(dtype) for dtype in dtypes]
    a = random.integers(limits[0].min, limits[0].max, (2, m, k), dtype=dtypes[0], endpoint=True)
    b = random.integers(limits[1].min, limits[1].max, (k, n), dtype=dtypes[1], endpoint=True)
    expected = a.astype(np.int32) @ b.astype(np.int32)
    for left in (put(a), put(a.swapaxes(1, 2).copy()).transpose(0, 2, 1)):
        for right in (put(b), put(b.T.copy()).T):
            out = put(np.zeros((2, m, n), np.int32))
            ops.matmul(left, right, out=out)
            np.testing.assert_array_equal(out.numpy(), expected)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_numbers_beyond_32_bits_wrap_among_those_within(put: Put, source: str, dtype: str) -> None:
    x = np.arange(-700, 700).astype(source)
    x[[3, 300, 1399]] = [2.0**32 + 512, -(2.0**31), 2.0**40 + 2.0**17]
    expected = x.astype(np.int64).astype(dtype)
    np.testing.assert_array_equal(ops.cast(put(x), dtype).numpy(), expected)
