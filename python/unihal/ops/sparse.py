"""Sparse matrices, and gradients that have some rows only: products, sums of equal indices, optimizer steps."""

from __future__ import annotations

from collections.abc import Sequence

from .. import errors
from ..buffer import Buffer
from ..stream import Stream
from .data_dependent import run_starts
from .elementwise import MapFunction, map_function
from .launch import output
from .movement import cast, copy, fill, gather, scatter
from .reduction import sort
from .segments import SegmentForm, segment_reduce


def csr_matmul(
    offsets: Buffer, columns: Buffer, values: Buffer, dense: Buffer, *, stream: Stream | None = None
) -> Buffer:
    """A sparse matrix (rows of ``offsets``, less one) times a dense one (n, ...): segments of weighted rows."""
    rows = offsets.shape[0] - 1
    return segment_reduce(dense, offsets, rows, form="offsets", indices=columns, weights=values, stream=stream)


def coo_matmul(
    rows: Buffer,
    columns: Buffer,
    values: Buffer,
    dense: Buffer,
    row_count: int,
    *,
    in_order: bool = False,
    stream: Stream | None = None,
) -> Buffer:
    """A sparse matrix of elements ``values[i]`` at ``rows[i]``, ``columns[i]`` times a dense one (n, ...).

    ``in_order``: rows ascend. The transposed matrix is ``rows`` and ``columns`` exchanged.
    """
    form: SegmentForm = "sorted" if in_order else "unsorted"
    return segment_reduce(dense, rows, row_count, form=form, indices=columns, weights=values, stream=stream)


def coalesce_rows(indices: Buffer, rows: Buffer, *, stream: Stream | None = None) -> tuple[Buffer, Buffer]:
    """The different ``indices`` in ascending order, and for each the sum of its rows of ``rows`` (elements, ...).

    What makes a gradient with repeated rows (SelectedRows, IndexedSlices) one that has each row once. Composed: sort,
    the beginnings of runs, and segments of the rows in that order; sums are in the order of the elements.
    """
    if indices.size == 0:
        return indices, rows
    keys, order = sort(indices, stream=stream)
    _, starts = run_starts(keys, stream=stream)
    offsets = output((starts.size + 1,), "int64", indices, stream=stream)
    copy(starts, out=offsets[:-1], stream=stream)
    fill(offsets[-1:], indices.size, stream=stream)
    summed = segment_reduce(rows, offsets, starts.size, form="offsets", indices=order, stream=stream)
    return gather(keys, starts, stream=stream), summed


def coalesce(
    coordinates: Buffer, values: Buffer, shape: Sequence[int], *, stream: Stream | None = None
) -> tuple[Buffer, Buffer]:
    """The ``coordinates`` (elements, axes) of a sparse array in order, each once, and the sums of its ``values``."""
    keys = None
    for axis, length in enumerate(shape):
        numbers = cast(coordinates[:, axis], "int64", stream=stream)
        if keys is not None:
            numbers = _map("add", _map("multiply", keys, length, stream=stream), numbers, stream=stream)
        keys = numbers
    if keys is None:
        raise errors.InvalidArgumentError("an array without axes has no coordinates; expected at least one axis")
    found, summed = coalesce_rows(keys, values, stream=stream)
    result = output((found.size, len(shape)), coordinates.dtype, coordinates, stream=stream)
    for axis in reversed(range(len(shape))):
        length = max(shape[axis], 1)
        _map("floor_mod", found, length, out=result[:, axis], stream=stream)
        found = _map("floor_divide", found, length, stream=stream)
    return result, summed


def update_rows(
    function: MapFunction,
    indices: Buffer,
    operands: Sequence[Buffer],
    *,
    parameters: Sequence[float] = (),
    stream: Stream | None = None,
) -> None:
    """An optimizer's step on the rows that a sparse gradient has, in place.

    ``operands`` are those of ``function`` (an optimizer step of the map table): the parameter, the gradient's rows (one
    for each of ``indices``, which are all different: see ``coalesce_rows``), then the states and rates. What the
    function gives out, the parameter and states, is read and written at the rows; the others are used as they are.
    """
    if len(operands) != function.input_count:
        raise errors.InvalidArgumentError(
            f"{function.name} takes {function.input_count} operands, not {len(operands)}: {function.expression}"
        )
    states = [0, *range(2, function.output_count + 1)]
    rows = [
        gather(operand, indices, stream=stream) if number in states else operand
        for number, operand in enumerate(operands)
    ]
    function(*rows, parameters=parameters, out=[rows[number] for number in states], stream=stream)
    for number in states:
        scatter(operands[number], indices, rows[number], stream=stream)


def _map(name: str, *operands: Buffer | int, out: Buffer | None = None, stream: Stream | None = None) -> Buffer:
    function = map_function(name)
    assert function is not None, name
    result: Buffer = function(*operands, out=out, stream=stream)
    return result
