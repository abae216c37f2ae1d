"""Ops whose results' size depends on data, segments, and what is composed of them, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import unihal
from unihal import ops

DEVICE = "rdna:0"


def _buffer(array: object) -> unihal.Buffer:
    return unihal.Buffer.from_numpy(np.asarray(array), DEVICE)


@pytest.fixture
def generator() -> np.random.Generator:
    return np.random.default_rng(13)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (7, 5), (2, 3, 4)])
def test_nonzero(generator: np.random.Generator, shape: tuple[int, ...]) -> None:
    mask = generator.integers(0, 2, shape)
    found = ops.nonzero(_buffer(mask), dtype="int32")
    assert found.dtype == "int32"
    assert np.array_equal(found.numpy(), np.argwhere(mask))
    assert np.array_equal(ops.nonzero(_buffer(mask), coordinates=False).numpy(), np.flatnonzero(mask))
    assert ops.count_nonzero(_buffer(mask)).item() == np.count_nonzero(mask)


@pytest.mark.parametrize("part", [0.0, 0.002, 0.1, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 1031, 65536 + 13, 140001])
def test_places_of_long_masks(generator: np.random.Generator, part: float, count: int) -> None:
    """Of any share of flags, over the ends of words, blocks and parts; what is beyond the count stays as it was."""
    mask = generator.random(count) < part
    expected = np.flatnonzero(mask)
    given = np.where(mask, generator.integers(1, 256, count), 0)
    for flags in (mask, given.astype(np.uint8), given.astype(np.float32)):
        for dtype in ("int32", "int64"):
            for room in {len(expected) + 20, len(expected), max(len(expected) - 5, 0)}:
                total, places = _buffer(np.int64(-1)), _buffer(np.full(room, -7, dtype))
                ops.launch.launch("nonzero", [_buffer(flags)], [total, places])
                assert total.item() == len(expected)
                kept = expected[:room]
                assert np.array_equal(places.numpy()[: len(kept)], kept)
                assert np.all(places.numpy()[len(kept) :] == -7)


@pytest.mark.parametrize("part", [0.0, 0.01, 0.031, 0.06, 0.5])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64", "complex128"])
def test_elements_at_long_masks(generator: np.random.Generator, part: float, dtype: str) -> None:
    """Of sparse and dense stretches side by side, in order and every second one; what is beyond stays as it was."""
    mask = generator.random(200003) < part
    mask[70000:140000] = generator.random(70000) < 0.02
    x = generator.integers(0, 200, mask.shape).astype(dtype)
    for given, flags in ((x, mask), (x[::-2], mask[::-2])):
        expected = given[flags]
        for room in (len(expected) + 20, max(len(expected) - 700, 0)):
            total, values = _buffer(np.int64(-1)), _buffer(np.full(room, 7, dtype))
            step = -2 if given is not x else 1
            operands = [_buffer(x)[::step], _buffer(mask)[::step]]
            ops.launch.launch("compact", operands, [values, total])
            assert total.item() == len(expected)
            kept = expected[:room]
            assert np.array_equal(values.numpy()[: len(kept)], kept)
            assert np.all(values.numpy()[len(kept) :] == 7)


def test_masked_select(generator: np.random.Generator) -> None:
    x = generator.normal(size=(6, 5, 2)).astype(np.float32)
    for mask in (x > 0, x[..., 0] > 0, x[:, 0, 0] > 0, np.zeros((6, 5), bool)):
        assert np.array_equal(ops.masked_select(_buffer(x), _buffer(mask)).numpy(), x[mask])
        assert np.array_equal(ops.masked_select(_buffer(x)[::-1], _buffer(mask)).numpy(), x[::-1][mask])
    with pytest.raises(unihal.InvalidArgumentError, match=r"mask has the shape \(5,\)"):
        ops.masked_select(_buffer(x), _buffer(np.ones(5, bool)))


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32", "float64", "bool"])
@pytest.mark.parametrize("shape", [(0,), (1,), (40, 7), ()])
def test_unique(generator: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> None:
    x = np.asarray(generator.integers(0, 2 if dtype == "bool" else 9, shape)).astype(dtype)
    if dtype == "float32" and x.size > 3:
        x.flat[[1, 3]] = np.nan
    found = ops.unique(_buffer(x))
    expected = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    for seen, wanted in zip(found, expected):
        assert np.array_equal(seen.numpy().ravel(), wanted.ravel(), equal_nan=dtype.startswith("float"))
    assert found.inverse.shape == x.shape


def test_unique_consecutive() -> None:
    x = np.array([2, 2, 1, 1, 1, 2, 3, 3], np.int32)
    values, indices, inverse, counts = (each.numpy() for each in ops.unique_consecutive(_buffer(x)))
    assert values.tolist() == [2, 1, 2, 3]
    assert indices.tolist() == [0, 2, 5, 6]
    assert inverse.tolist() == [0, 0, 1, 1, 1, 2, 3, 3]
    assert counts.tolist() == [2, 3, 1, 2]


def test_bin_count(generator: np.random.Generator) -> None:
    x = generator.integers(0, 12, 3001).astype(np.int32)
    weights = generator.normal(size=x.shape)
    assert np.array_equal(ops.bin_count(_buffer(x)).numpy(), np.bincount(x))
    assert np.array_equal(ops.bin_count(_buffer(x), length=20).numpy(), np.bincount(x, minlength=20))
    assert np.allclose(ops.bin_count(_buffer(x), _buffer(weights)).numpy(), np.bincount(x, weights))
    assert ops.bin_count(_buffer(x[:0])).shape == (0,)
    short = ops.bin_count(_buffer(x), length=5, ignore_out_of_range=True)
    assert np.array_equal(short.numpy(), np.bincount(x)[:5])
    ops.bin_count(_buffer(x), length=5)
    with pytest.raises(unihal.OutOfRangeError, match="id .* is out of range; expected 0 to 4"):
        unihal.device(DEVICE).synchronize()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_histogram(generator: np.random.Generator, dtype: str) -> None:
    x = generator.integers(-6, 12, 5000).astype(dtype)
    edges = np.linspace(-4, 8, 7).astype(dtype)
    weights = generator.normal(size=x.shape).astype(np.float32)
    assert np.array_equal(ops.histogram(_buffer(x), _buffer(edges)).numpy(), np.histogram(x, edges)[0])
    weighted = ops.histogram(_buffer(x), _buffer(edges), _buffer(weights))
    assert np.allclose(weighted.numpy(), np.histogram(x, edges, weights=weights)[0], atol=1e-4)
    if dtype != "int32":
        x[3] = np.nan
        known = np.histogram(np.delete(x, 3), edges)[0]
        assert np.array_equal(ops.histogram(_buffer(x), _buffer(edges)).numpy(), known)


def test_search_sorted(generator: np.random.Generator) -> None:
    table = np.sort(generator.integers(0, 30, 100)).astype(np.int32)
    values = generator.integers(-3, 33, (4, 9)).astype(np.int32)
    for right in (False, True):
        found = ops.search_sorted(_buffer(table), _buffer(values), right=right, dtype="int32")
        assert np.array_equal(found.numpy(), np.searchsorted(table, values, "right" if right else "left"))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint64"])
def test_search_sorted_in_rows_and_columns(dtype: str, generator: np.random.Generator) -> None:
    table = np.sort(generator.integers(0, 300, 77)).astype(dtype)
    values = generator.integers(0, 310, 71).astype(dtype)
    if dtype.startswith("float"):
        values[3] = np.nan
    steps = _buffer(np.stack([table, table[::-1]], 1))[:, 0]  # every second element of the memory
    for right in (False, True):
        expected = np.searchsorted(table, values, "right" if right else "left")
        for row in (_buffer(table), steps):
            assert np.array_equal(ops.search_sorted(row, _buffer(values), right=right).numpy(), expected)


def test_set_difference(generator: np.random.Generator) -> None:
    x, y = generator.integers(0, 50, 60), generator.integers(0, 50, 20)
    assert np.array_equal(ops.set_difference(_buffer(x), _buffer(y)).numpy(), np.setdiff1d(x, y))
    assert np.array_equal(ops.set_difference(_buffer(x), _buffer(y[:0])).numpy(), np.unique(x))


def test_segments(generator: np.random.Generator) -> None:
    x = generator.normal(size=(50, 3)).astype(np.float32)
    ids = generator.integers(0, 6, 50)
    rows = [x[ids == segment] for segment in range(7)]
    arguments = (_buffer(x), _buffer(ids), 7)
    wanted = {
        ops.segment_sum: [part.sum(0) for part in rows],
        ops.segment_mean: [part.mean(0) if len(part) else np.zeros(3) for part in rows],
        ops.segment_product: [part.prod(0) for part in rows],
        ops.segment_max: [part.max(0) if len(part) else np.zeros(3) for part in rows],
        ops.segment_min: [part.min(0) if len(part) else np.zeros(3) for part in rows],
    }
    for function, expected in wanted.items():
        assert np.allclose(function(*arguments).numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("reduction", ["sum", "mean", "maximum", "minimum"])
def test_gradients_of_segments(generator: np.random.Generator, reduction: str) -> None:
    x = generator.permutation(60).reshape(20, 3).astype(np.float64)
    ids, dy = generator.integers(0, 5, 20), generator.normal(size=(5, 3))
    function = lambda x: ops.segment_reduce(_buffer(x), _buffer(ids), 5, reduction).numpy()  # noqa: E731
    y = function(x)
    dx = ops.segment_reduce_backward(_buffer(dy), _buffer(x), _buffer(y), _buffer(ids), reduction).numpy()
    for place in np.ndindex(x.shape):
        moved = x.copy()
        moved[place] += 0.25
        assert np.isclose(dx[place], ((function(moved) - y) * dy).sum() / 0.25)


def test_a_gradient_is_shared_by_equal_rows() -> None:
    x, ids = np.array([1.0, 3, 3, 3, 2]), np.array([0, 0, 0, 1, 1])
    dx = ops.segment_reduce_backward(
        _buffer(np.array([6.0, 5])), _buffer(x), _buffer(np.array([3.0, 3])), _buffer(ids), "maximum"
    )
    assert dx.numpy().tolist() == [0, 3, 3, 5, 0]


def test_sparse_products(generator: np.random.Generator) -> None:
    matrix = generator.normal(size=(9, 13)) * (generator.integers(0, 4, (9, 13)) == 0)
    dense = generator.normal(size=(13, 4))
    rows, columns = np.nonzero(matrix)
    values = matrix[rows, columns]
    offsets = np.searchsorted(rows, np.arange(10)).astype(np.int32)
    by_offsets = ops.csr_matmul(_buffer(offsets), _buffer(columns), _buffer(values), _buffer(dense))
    assert np.allclose(by_offsets.numpy(), matrix @ dense)
    mixed = generator.permutation(len(rows))
    by_rows = ops.coo_matmul(*(_buffer(part[mixed]) for part in (rows, columns, values)), _buffer(dense), 9)
    assert np.allclose(by_rows.numpy(), matrix @ dense)
    back = generator.normal(size=(9, 4))
    transposed = ops.coo_matmul(*(_buffer(part) for part in (columns, rows, values)), _buffer(back), 13)
    assert np.allclose(transposed.numpy(), matrix.T @ back)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_rows_of_long_segments_are_looked_up(generator: np.random.Generator, dtype: str) -> None:
    lengths = [0, 1, 255, 256, 0, 257, 3, 16, 17, 40, 0]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    count, rows = int(offsets[-1]), generator.normal(size=(50, 67))
    indices = generator.integers(0, 50, count + 9).astype(dtype)
    indices[count:] = 99  # of no segment
    weights = generator.normal(size=count + 9)
    for factors in (None, weights):
        looked_up = rows[indices[:count]] * (np.ones(count) if factors is None else factors[:count])[:, None]
        expected = [looked_up[begin:end].sum(0) for begin, end in zip(offsets[:-1], offsets[1:], strict=True)]
        options = {} if factors is None else {"weights": _buffer(factors)}
        sums = ops.segment_reduce(
            _buffer(rows), _buffer(offsets), len(lengths), form="offsets", indices=_buffer(indices), **options
        )
        assert np.allclose(sums.numpy(), expected)
    indices[count - 1] = -1
    ops.segment_reduce(_buffer(rows), _buffer(offsets), len(lengths), form="offsets", indices=_buffer(indices))
    with pytest.raises(unihal.OutOfRangeError, match="index -1 is out of range"):
        unihal.device(DEVICE).synchronize()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("width", [1, 8, 23, 130])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_rows_that_do_not_exist_are_zeros_in_their_segments(
    generator: np.random.Generator, dtype: str, width: int, reduction: str
) -> None:
    rows = generator.normal(size=(9, width)).astype(dtype)
    rows[4, 0] = np.nan
    offsets = np.array([-3, 2, 2, 7, 40, 41, 99])  # of the first and the last only what there is
    indices = generator.integers(0, 4, 60)
    indices[[3, 30, 50]], indices[40] = [9, -1, 12], 4
    found = np.where(((indices < 0) | (indices > 8))[:, None], 0, rows[np.clip(indices, 0, 8)].astype("float64"))
    parts = [found[max(begin, 0) : max(end, 0)] for begin, end in zip(offsets[:-1], offsets[1:], strict=True)]
    divisors = [len(part) if reduction == "mean" and len(part) else 1 for part in parts]
    expected = np.stack([part.sum(0) / divisor for part, divisor in zip(parts, divisors, strict=True)])
    sums = ops.segment_reduce(
        _buffer(rows), _buffer(offsets), len(parts), reduction, form="offsets", indices=_buffer(indices)
    )
    with pytest.raises(unihal.OutOfRangeError, match=r"index (9|-1|12) is out of range"):
        unihal.device(DEVICE).synchronize()
    tolerance = 4 * float(np.finfo(dtype).eps)
    assert np.allclose(sums.numpy().astype("float64"), expected, rtol=tolerance, atol=40 * tolerance, equal_nan=True)


def test_coalesce(generator: np.random.Generator) -> None:
    shape = (4, 3, 5)
    coordinates = np.stack([generator.integers(0, length, 40) for length in shape], 1).astype(np.int32)
    values = generator.normal(size=(40, 2))
    dense = np.zeros((*shape, 2))
    np.add.at(dense, tuple(coordinates.T), values)
    found, sums = (each.numpy() for each in ops.coalesce(_buffer(coordinates), _buffer(values), shape))
    assert np.array_equal(found, np.unique(coordinates, axis=0))
    assert np.allclose(sums, dense[tuple(found.T)])


def test_embedding_bag(generator: np.random.Generator) -> None:
    table, indices = generator.normal(size=(10, 6)).astype(np.float32), generator.integers(0, 10, 12)
    offsets, weights = np.array([0, 3, 3, 12]), generator.normal(size=12).astype(np.float32)
    bags = [table[indices[a:b]] for a, b in zip(offsets, offsets[1:])]
    arguments = [_buffer(each) for each in (table, indices, offsets)]
    mean = ops.embedding_bag(*arguments, "mean").numpy()
    assert np.allclose(mean, [bag.mean(0) if len(bag) else np.zeros(6) for bag in bags], atol=1e-6)
    weighted = ops.embedding_bag(*arguments, weights=_buffer(weights)).numpy()
    assert np.allclose(weighted, [weights[a:b] @ table[indices[a:b]] for a, b in zip(offsets, offsets[1:])], atol=1e-5)


def test_graphs(generator: np.random.Generator) -> None:
    x, edges = generator.normal(size=(5, 3)), generator.normal(size=(8, 1))
    sources, targets = generator.integers(0, 5, 8), generator.integers(0, 5, 8)
    expected = np.zeros_like(x)
    np.add.at(expected, targets, x[sources])
    assert np.allclose(ops.send_and_receive(*map(_buffer, (x, sources, targets))).numpy(), expected)
    expected[:] = 0
    np.add.at(expected, targets, x[sources] * edges)
    received = ops.send_and_receive(*map(_buffer, (x, sources, targets)), edges=_buffer(edges), message="multiply")
    assert np.allclose(received.numpy(), expected)


def test_rows_of_gradients(generator: np.random.Generator) -> None:
    """Adam on the rows that a gradient has is Adam on the whole table where the other rows stay as they are."""
    table, first, second = (generator.uniform(0.5, 1, (9, 4)) for _ in range(3))
    indices, gradient = np.array([7, 2, 7, 0]), generator.normal(size=(4, 4))
    whole = np.zeros((9, 4))
    np.add.at(whole, indices, gradient)
    rates = [np.array(0.1), np.array(0.9), np.array(0.99)]
    parameters = (0.9, 0.99, 1e-8, 0, 1)
    states = [_buffer(each) for each in (table, first, second)]
    expected = ops.adam(
        states[0], _buffer(whole), *states[1:], *map(_buffer, rates), parameters=parameters, dtype="float64"
    )
    rows, sums = ops.coalesce_rows(_buffer(indices), _buffer(gradient))
    assert rows.numpy().tolist() == [0, 2, 7]
    ops.update_rows(ops.adam, rows, [states[0], sums, *states[1:], *map(_buffer, rates)], parameters=parameters)
    touched = np.isin(np.arange(9), indices)
    for state, before, wanted in zip(states, (table, first, second), expected):
        assert np.allclose(state.numpy()[touched], wanted.numpy()[touched])
        assert np.array_equal(state.numpy()[~touched], before[~touched])
