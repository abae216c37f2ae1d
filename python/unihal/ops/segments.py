"""Reductions over segments of rows, and what they make up: bags of embeddings, sums over the edges of graphs."""

from __future__ import annotations

from typing import Literal

from .. import dtypes
from ..buffer import Buffer
from ..stream import Stream
from .elementwise import map_function
from .launch import launch, output
from .movement import cast, gather
from .reduction import REDUCTIONS

SegmentReduction = Literal["sum", "mean", "product", "maximum", "minimum"]
SegmentForm = Literal["unsorted", "sorted", "offsets"]
_FORMS = {"unsorted": 0, "sorted": 1, "offsets": 2}


def segment_reduce(
    x: Buffer,
    ids: Buffer,
    segments: int,
    reduction: SegmentReduction = "sum",
    *,
    form: SegmentForm = "unsorted",
    indices: Buffer | None = None,
    weights: Buffer | None = None,
    empty: float = 0,
    ignore_negative: bool = False,
    ignore_out_of_range: bool = False,
    counts: Buffer | None = None,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """The reduction of the rows of each segment, (segments, ...) for ``x`` (rows, ...).

    Element i is row i of ``x``, or row ``indices[i]``, times ``weights[i]``. ``ids[i]`` is its segment; of the form
    "offsets", elements ``ids[s]`` to ``ids[s + 1] - 1`` are segment s. ``empty`` is the result of a segment without
    elements. ``counts`` (segments,), int32 or int64, gets the number of elements of each.
    """
    result = output((segments, *x.shape[1:]), x.dtype, x, out, stream)
    attributes = {
        "reduction": REDUCTIONS[reduction],
        "form": _FORMS[form],
        "ignore_negative": int(ignore_negative),
        "ignore_out_of_range": int(ignore_out_of_range),
        "empty": float(empty),
        "integer_empty": int(empty) if x.dtype in dtypes.INTEGERS else 0,
    }
    launch("segment_reduce", [x, ids, indices, weights], [result, counts], attributes, stream=stream)
    return result


def segment_sum(x: Buffer, ids: Buffer, segments: int, *, stream: Stream | None = None) -> Buffer:
    """The sum of the rows of each segment; that of none is 0."""
    return segment_reduce(x, ids, segments, "sum", stream=stream)


def segment_mean(x: Buffer, ids: Buffer, segments: int, *, stream: Stream | None = None) -> Buffer:
    """The mean of the rows of each segment; that of none is 0."""
    return segment_reduce(x, ids, segments, "mean", stream=stream)


def segment_product(x: Buffer, ids: Buffer, segments: int, *, stream: Stream | None = None) -> Buffer:
    """The product of the rows of each segment; that of none is 1."""
    return segment_reduce(x, ids, segments, "product", empty=1, stream=stream)


def segment_max(x: Buffer, ids: Buffer, segments: int, *, empty: float = 0, stream: Stream | None = None) -> Buffer:
    """The greatest of the rows of each segment, element by element; NaN wins."""
    return segment_reduce(x, ids, segments, "maximum", empty=empty, stream=stream)


def segment_min(x: Buffer, ids: Buffer, segments: int, *, empty: float = 0, stream: Stream | None = None) -> Buffer:
    """The smallest of the rows of each segment, element by element; NaN wins."""
    return segment_reduce(x, ids, segments, "minimum", empty=empty, stream=stream)


def segment_reduce_backward(
    dy: Buffer,
    x: Buffer,
    y: Buffer,
    ids: Buffer,
    reduction: Literal["sum", "mean", "maximum", "minimum"] = "sum",
    *,
    stream: Stream | None = None,
) -> Buffer:
    """The gradient of ``x`` (rows, ...), of which ``ids`` (rows,) are the segments and ``y`` is the result.

    Of a maximum or minimum that several rows have, each gets an equal part, as in TensorFlow. Composed: gather, map,
    segment_reduce.
    """
    if reduction in ("sum", "mean"):
        if reduction == "mean":
            counts = output((dy.shape[0],), "int64", x, stream=stream)
            segment_reduce(x, ids, dy.shape[0], "mean", counts=counts, stream=stream)
            divisors = _columns(cast(counts, dy.dtype, stream=stream), dy.ndim)
            # A segment without elements is divided by 0, and asked by nobody.
            dy = _map("divide_no_nan", dy, divisors, stream=stream)
        return gather(dy, ids, stream=stream)
    chosen = cast(_map("equal", x, gather(y, ids, stream=stream), stream=stream), dy.dtype, stream=stream)
    equals = segment_reduce(chosen, ids, dy.shape[0], stream=stream)
    shares = gather(_map("divide_no_nan", dy, equals, stream=stream), ids, stream=stream)
    return _map("multiply", chosen, shares, stream=stream)


# -- what they make up


def embedding_bag(
    table: Buffer,
    indices: Buffer,
    offsets: Buffer,
    reduction: SegmentReduction = "sum",
    *,
    weights: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """The reduction of the rows of ``table`` of each bag; bag b is indices ``offsets[b]`` to ``offsets[b + 1] - 1``."""
    return segment_reduce(
        table, offsets, offsets.shape[0] - 1, reduction, form="offsets", indices=indices, weights=weights, stream=stream
    )


def send_and_receive(
    x: Buffer,
    sources: Buffer,
    targets: Buffer,
    reduction: SegmentReduction = "sum",
    node_count: int | None = None,
    *,
    edges: Buffer | None = None,
    message: Literal["add", "multiply"] = "add",
    stream: Stream | None = None,
) -> Buffer:
    """What each node receives of its edges: row ``sources[e]`` of ``x``, plus or times row e of ``edges`` (broadcast).

    Paddle's send_u_recv and send_ue_recv. A node without edges gets 0.
    """
    count = x.shape[0] if node_count is None else node_count
    if edges is None:
        return segment_reduce(x, targets, count, reduction, indices=sources, stream=stream)
    sent = _map(message, gather(x, sources, stream=stream), edges, stream=stream)
    return segment_reduce(sent, targets, count, reduction, stream=stream)


def _columns(row: Buffer, rank: int) -> Buffer:
    return row.reshape(row.size, *[1] * (rank - 1))


def _map(name: str, *operands: Buffer, stream: Stream | None = None) -> Buffer:
    function = map_function(name)
    assert function is not None, name
    result: Buffer = function(*operands, stream=stream)
    return result
