"""Results whose size depends on data: positions, unique elements, counts. Each waits for the size by one small copy."""

from __future__ import annotations

from typing import NamedTuple

from .. import dtypes, errors
from ..buffer import Buffer
from ..stream import Stream
from .elementwise import map_function
from .launch import index_dtype, launch, output
from .movement import cast, copy, fill, gather, gather_nd, scatter
from .reduction import max as maximum_of
from .reduction import scan, sort
from .segments import segment_reduce


def nonzero(mask: Buffer, *, coordinates: bool = True, dtype: str = "int64", stream: Stream | None = None) -> Buffer:
    """Where the elements of ``mask`` that are not 0 are, in row-major order.

    The coordinates as (count, axes), NumPy's ``argwhere``; or the numbers of the elements as (count,), its
    ``flatnonzero``. The memory is that of the largest case, of which the result is the first part.
    """
    shape = (mask.size, mask.ndim) if coordinates else (mask.size,)
    indices = output(shape, index_dtype(dtype), mask, stream=stream)
    count = output((), dtype, mask, stream=stream)
    launch("nonzero", [mask], [count, indices], stream=stream)
    return indices[: _number(count, stream)]


def count_nonzero(mask: Buffer, *, dtype: str = "int64", stream: Stream | None = None) -> Buffer:
    """How many elements of ``mask`` are not 0, a scalar on the device."""
    count = output((), index_dtype(dtype), mask, stream=stream)
    launch("nonzero", [mask], [count], stream=stream)
    return count


def masked_select(x: Buffer, mask: Buffer, *, stream: Stream | None = None) -> Buffer:
    """The parts of ``x`` where ``mask`` is not 0, as NumPy's ``x[mask]``: ``mask`` has the first axes of ``x``.

    Where it has all of them, the memory is that of the largest case, of which the result is the first part.
    """
    if mask.shape != x.shape[: mask.ndim]:
        raise errors.InvalidArgumentError(f"mask has the shape {mask.shape}; expected the first axes of {x.shape}")
    if mask.shape == x.shape:
        values = output((x.size,), x.dtype, x, stream=stream)
        count = output((), "int64", x, stream=stream)
        launch("compact", [x, mask], [values, count], stream=stream)
        return values[: _number(count, stream)]
    if not x.dense:
        return gather_nd(x, nonzero(mask, stream=stream), stream=stream)
    numbers = nonzero(mask, coordinates=False, stream=stream)
    return gather(x.reshape(mask.size, *x.shape[mask.ndim :]), numbers, stream=stream)


def search_sorted(
    sorted: Buffer, values: Buffer, *, right: bool = False, dtype: str = "int64", stream: Stream | None = None
) -> Buffer:
    """How many elements of ``sorted`` go before each value, with ``right`` also those that equal it.

    ``sorted`` is in ascending order, of rank 1 or with one row for each row of ``values``; NaN counts as the largest.
    """
    result = output(values.shape, index_dtype(dtype), values, stream=stream)
    launch("search_sorted", [sorted, values], [result], {"right": int(right)}, stream=stream)
    return result


class Unique(NamedTuple):
    """What `unique` gives: elements, where each is first, the number of each element of x among them, and counts."""

    values: Buffer
    indices: Buffer
    inverse: Buffer
    counts: Buffer


def unique(x: Buffer, *, stream: Stream | None = None) -> Unique:
    """The different elements of ``x`` in ascending order, NaN last and once; ``inverse`` has the shape of ``x``.

    As NumPy's ``unique`` with all of its results. Composed of sort, a comparison of neighbours, nonzero and gather.
    """
    flat = x.contiguous(stream=stream).reshape(x.size)
    values, order = sort(flat, stream=stream)
    return _of_runs(values, order, x.shape, stream)


def unique_consecutive(x: Buffer, *, stream: Stream | None = None) -> Unique:
    """The elements of ``x`` without those that equal the one before them (NaN equals NaN here)."""
    return _of_runs(x.contiguous(stream=stream).reshape(x.size), None, x.shape, stream)


def run_starts(values: Buffer, *, stream: Stream | None = None) -> tuple[Buffer, Buffer]:
    """Where runs of equal neighbours of a row begin: a bool for each element, and the places of the true ones."""
    differs = fill(output(values.shape, "bool", values, stream=stream), 1, stream=stream)
    if values.size > 1:
        before, after, rest = values[:-1], values[1:], differs[1:]
        _map("not_equal", before, after, out=rest, stream=stream)
        if values.dtype not in dtypes.INTEGERS:
            # NaN differs from itself: two of them are one run.
            numbers = [_map("equal", each, each, stream=stream) for each in (before, after)]
            _map("logical_and", rest, _map("logical_or", *numbers, stream=stream), out=rest, stream=stream)
    return differs, nonzero(differs, coordinates=False, stream=stream)


def _of_runs(values: Buffer, order: Buffer | None, shape: tuple[int, ...], stream: Stream | None) -> Unique:
    differs, starts = run_starts(values, stream=stream)
    count = starts.size
    counts = output((count,), "int64", values, stream=stream)
    inverse = output((values.size,), "int64", values, stream=stream)
    if count:
        fill(counts[-1:], values.size, stream=stream)
        copy(starts[1:], out=counts[:-1], stream=stream)
        _map("subtract", counts, starts, out=counts, stream=stream)
        runs = scan(cast(differs, "int64", stream=stream), 0, stream=stream)
        _map("subtract", runs, 1, out=runs, stream=stream)
        if order is None:
            inverse = runs
        else:
            scatter(inverse, order, runs, stream=stream)
    indices = starts if order is None else gather(order, starts, stream=stream)
    return Unique(gather(values, starts, stream=stream), indices, inverse.reshape(*shape), counts)


def bin_count(
    x: Buffer,
    weights: Buffer | None = None,
    length: int | None = None,
    *,
    ignore_out_of_range: bool = False,
    stream: Stream | None = None,
) -> Buffer:
    """How often each number from 0 to ``length`` - 1 occurs in ``x`` (int32 or int64), or the sum of its weights.

    Without ``length`` it is what the largest number of ``x`` needs. Numbers outside are errors of the stream, unless
    ``ignore_out_of_range``. Counts are int64, sums of weights have their dtype.
    """
    ids = x.contiguous(stream=stream).reshape(x.size)
    if length is None:
        length = _number(maximum_of(ids, stream=stream), stream) + 1 if ids.size else 0
    if weights is None:
        ones = fill(output((1,), "int64", x, stream=stream), 1, stream=stream).broadcast_to(ids.shape)
    else:
        ones = weights.contiguous(stream=stream).reshape(weights.size)
    length = length if length > 0 else 0
    return segment_reduce(ones, ids, length, ignore_out_of_range=ignore_out_of_range, stream=stream)


def histogram(
    x: Buffer,
    edges: Buffer,
    weights: Buffer | None = None,
    *,
    stream: Stream | None = None,
) -> Buffer:
    """How many elements of ``x`` lie between neighbours of ``edges`` (ascending, of ``x``'s dtype), or their weights.

    An element that equals an edge is above it; of the last edge, below. Others, and NaN, are in no bin. ``edges`` of
    bins of one width are ``np.linspace(low, high, bins + 1)``.
    """
    flat = x.contiguous(stream=stream).reshape(x.size)
    below = search_sorted(edges, flat, right=True, stream=stream)
    _map("subtract", below, _map("equal", flat, edges[-1:], stream=stream), out=below, stream=stream)
    _map("subtract", below, 1, out=below, stream=stream)
    return bin_count(below, weights, max(edges.size - 1, 0), ignore_out_of_range=True, stream=stream)


def set_difference(x: Buffer, y: Buffer, *, stream: Stream | None = None) -> Buffer:
    """The different elements of ``x`` that are not in ``y``, in ascending order."""
    values = unique(x, stream=stream).values
    flat, _ = sort(y.contiguous(stream=stream).reshape(y.size), stream=stream)
    before = search_sorted(flat, values, stream=stream)
    absent = _map("equal", before, search_sorted(flat, values, right=True, stream=stream), stream=stream)
    return masked_select(values, absent, stream=stream)


def _map(name: str, *operands: Buffer | int, out: Buffer | None = None, stream: Stream | None = None) -> Buffer:
    function = map_function(name)
    assert function is not None, name
    result: Buffer = function(*operands, out=out, stream=stream)
    return result


def _number(count: Buffer, stream: Stream | None) -> int:
    return int(count.numpy(stream=stream).item())
