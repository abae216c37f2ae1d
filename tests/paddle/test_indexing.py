"""Reading and writing parts of tensors, against NumPy, with fallbacks forbidden: of dense tensors and of views."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import DEVICE, check, on, random

Array = np.ndarray[Any, Any]
X = random(5, 6, 7)
ROWS, GRID, MASK = np.array([0, 3, -1]), np.array([[0], [2]]), X[:, 0, 0] > 0
ALL = slice(None)

# The parts that both NumPy and Paddle put in the same place.
INDICES: dict[str, tuple[Any, ...]] = {
    "integer": (1,),
    "slice": (slice(1, 4), slice(None, None, 2)),
    "backward": (slice(None, None, -2), 2),
    "ellipsis": (..., slice(2, 5)),
    "new axis": (0, None, slice(1, 3)),
    "new axis in front": (None, 0),
    "new axis at the end": (slice(1, 3), 1, 2, None),
    "rows": (ROWS,),
    "inner axis": (ALL, ROWS),
    "last axis": (ALL, ALL, ROWS),
    "two together": (ROWS, ROWS),
    "two apart from the first": (ALL, GRID, ROWS),
    "slice and rows": (slice(1, 4), ROWS),
    "step and rows": (slice(None, None, 2), ROWS),
    "mask of rows": (MASK,),
}
VIEWS: dict[str, Callable[[Any], Any]] = {
    "dense": lambda x: x,
    "transposed": lambda x: x.transpose((1, 0, 2)),
    "sliced": lambda x: x[:, 1:6, ::2],
}


def to_device(index: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(paddle.to_tensor(part) if isinstance(part, np.ndarray) else part for part in index)


def fits(view: str, index: str) -> bool:
    """NumPy's own index is in range, and the mask has the axis' length."""
    try:
        VIEWS[view](X)[INDICES[index]]
    except IndexError:
        return False
    return True


OUTSIDE, LABELS = np.array([0, 9]), np.array([0, 1, 9, 2, 0])
TABLE_ROWS = random(5, 6)
#: What Paddle's CPU refuses. It does not look at the indices of others: those of `x[...]`, of `index_put`.
REFUSED: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "gather": lambda t: paddle.gather(t(TABLE_ROWS), t(OUTSIDE)),
    "gather_nd": lambda t: paddle.gather_nd(t(TABLE_ROWS), t(OUTSIDE[:, None])),
    "scatter": lambda t: paddle.scatter(t(TABLE_ROWS), t(OUTSIDE), t(TABLE_ROWS[:2])),
    "scatter_nd_add": lambda t: paddle.scatter_nd_add(t(TABLE_ROWS), t(OUTSIDE[:, None]), t(TABLE_ROWS[:2])),
    "index_select": lambda t: paddle.index_select(t(TABLE_ROWS), t(OUTSIDE)),
    "index_add": lambda t: paddle.index_add(t(TABLE_ROWS), t(OUTSIDE), 0, t(TABLE_ROWS[:2])),
    "index_sample": lambda t: paddle.index_sample(t(TABLE_ROWS), t(np.full((5, 1), 9))),
    "take": lambda t: paddle.take(t(TABLE_ROWS), t(np.array([0, 99]))),
    "take_along_axis": lambda t: paddle.take_along_axis(t(TABLE_ROWS), t(np.full((1, 6), 9)), 0, broadcast=False),
    "embedding": lambda t: F.embedding(t(OUTSIDE), t(TABLE_ROWS)),
    "nll_loss": lambda t: F.nll_loss(t(TABLE_ROWS), t(LABELS)),
    "cross_entropy": lambda t: F.cross_entropy(t(TABLE_ROWS), t(LABELS)),
    "one_hot": lambda t: F.one_hot(t(OUTSIDE), 3),
    "segment_sum": lambda t: paddle.geometric.segment_sum(t(TABLE_ROWS), t(np.array([0, 2, 1, 1, 1]))),
    "multiplex": lambda t: paddle.multiplex([t(TABLE_ROWS)] * 2, t(np.array([[0], [1], [5], [0], [0]], "int32"))),
}


@pytest.mark.skipif(
    os.environ.get("UNIHAL_BACKEND", "stub") != "stub" or os.environ.get("UNIHAL_STUB") == "strict",
    reason="launches of other devices find a number outside later",
)
@pytest.mark.parametrize("name", list(REFUSED))
def test_the_call_refuses_a_number_outside_as_the_cpu_does(name: str) -> None:
    errors = []
    for place in ("cpu", DEVICE):
        with on(place), pytest.raises(Exception) as raised:
            REFUSED[name](paddle.to_tensor)
        errors.append(raised)
    theirs, ours = errors
    assert ours.type is theirs.type
    assert "(unihal)" in str(ours.value)
    assert "Earlier work" not in str(ours.value)


# Paddle 3.3 gets these of a view's inner axes wrong on the CPU too, before any kernel is chosen.
WRONG_IN_PADDLE = ("inner axis", "last axis", "two apart from the first", "slice and rows", "step and rows")
PARTS = [(view, index) for view in VIEWS for index in INDICES if fits(view, index)]


@pytest.mark.parametrize(
    ("view", "index"), [row for row in PARTS if row[0] == "dense" or row[1] not in WRONG_IN_PADDLE]
)
def test_getting(view: str, index: str) -> None:
    with on(DEVICE):
        x = paddle.to_tensor(X)
        np.testing.assert_array_equal(VIEWS[view](x)[to_device(INDICES[index])].numpy(), VIEWS[view](X)[INDICES[index]])


@pytest.mark.parametrize("value", ["number", "tensor", "broadcast"])
@pytest.mark.parametrize(("view", "index"), PARTS)
def test_putting_changes_the_tensor_that_a_view_is_of(view: str, index: str, value: str) -> None:
    expected = X.copy()
    part = VIEWS[view](expected)[INDICES[index]]
    values = {"number": 0.5, "tensor": random(*part.shape, seed=1), "broadcast": random(part.shape[-1], seed=2)}[value]
    VIEWS[view](expected)[INDICES[index]] = values
    with on(DEVICE):
        x = paddle.to_tensor(X)
        target = VIEWS[view](x)
        target[to_device(INDICES[index])] = values if isinstance(values, float) else paddle.to_tensor(values)
        np.testing.assert_array_equal(target.numpy(), VIEWS[view](expected))
        if view != "dense":  # Paddle's own rule: what is written to a view is seen in what it is of
            np.testing.assert_array_equal(x.numpy(), expected)


@pytest.mark.parametrize("dtype", ["int64", "bool", "float16", "uint8"])
def test_putting_in_other_dtypes(dtype: str) -> None:
    expected = (np.arange(24).reshape(4, 6) % 3).astype(dtype)
    with on(DEVICE):
        x = paddle.to_tensor(expected)
        for index, value in (((1,), 1), ((slice(1, 3), slice(None, None, 2)), 0), ((np.array([0, 2]),), 1)):
            x[to_device(index)] = value
            expected[index] = value
        np.testing.assert_array_equal(x.numpy(), expected)


def masked(x: Any) -> Any:
    return x > 0.3


def put_rows(x: Any, value: Any) -> Any:
    y = x * 1.0
    y[1:3] = value
    return y


FEW, CROSSED, COLUMNS = np.array([0, 2]), np.array([[1], [0]]), np.array([[0, 1, 3], [2, 2, 0]])
SMALL = random(4, 6)
CALLS: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
    "index_put": (lambda x, v: paddle.index_put(x, (paddle.to_tensor(FEW),), v), (SMALL, random(2, 6, seed=1))),
    "index_put of broadcast indices": (
        lambda x, v: paddle.index_put(x, (paddle.to_tensor(FEW), paddle.to_tensor(CROSSED)), v),
        (SMALL, random(2, 2, seed=1)),
    ),
    "index_put accumulate": (
        lambda x, v: paddle.index_put(x, (paddle.to_tensor(np.array([1, 1])),), v, accumulate=True),
        (SMALL, random(2, 6, seed=1)),
    ),
    "index_put of a mask": (lambda x, v: paddle.index_put(x, (masked(x.detach()),), v), (SMALL, random(1, seed=1))),
    "index_add": (
        lambda x, v: paddle.index_add(x, paddle.to_tensor(np.array([1, 1])), 1, v),
        (SMALL, random(4, 2, seed=1)),
    ),
    "index_fill": (lambda x: paddle.index_fill(x, paddle.to_tensor(FEW), 1, 0.5), (SMALL,)),
    "masked_fill": (lambda x: paddle.masked_fill(x, masked(x.detach()), 0.25), (SMALL,)),
    "masked_fill of a tensor": (
        lambda x, v: paddle.masked_fill(x, masked(x.detach()), v.sum()),
        (SMALL, random(2, seed=1)),
    ),
    "put_along_axis": (
        lambda x, v: paddle.put_along_axis(x, paddle.to_tensor(COLUMNS[:, :3]), v, 1),
        (SMALL[:2], random(2, 3, seed=1)),
    ),
    "put_along_axis add": (
        lambda x, v: paddle.put_along_axis(x, paddle.to_tensor(COLUMNS), v, 1, "add"),
        (SMALL[:2], random(2, 3, seed=1)),
    ),
    "fill_diagonal_tensor": (
        lambda x: x.fill_diagonal_tensor(paddle.to_tensor(SMALL[:, 1]).astype(x.dtype), offset=1),
        (SMALL,),
    ),
    "set_value": (put_rows, (SMALL, random(6, seed=1))),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_and_their_gradients(name: str) -> None:
    function, inputs = CALLS[name]
    check(function, *inputs)


@pytest.mark.parametrize("reduce", ["add", "mul", "amin", "amax", "mean"])
@pytest.mark.parametrize("include_self", [True, False])
def test_put_along_axis_reduces(reduce: str, include_self: bool) -> None:
    def call(x: Any, values: Any) -> Any:
        return paddle.put_along_axis(x, paddle.to_tensor(COLUMNS), values, 1, reduce, include_self=include_self)

    check(call, SMALL[:2], random(2, 3, seed=1))
    # Several updates of a place, some of them equal to one another and to what is there.
    state = np.random.RandomState(1)
    few, updates = (state.randint(1, 4, shape).astype("float32") for shape in ((2, 6), COLUMNS.shape))
    check(call, few, updates)


@pytest.mark.parametrize(("shape", "offset", "wrap"), [((4, 6), 0, False), ((6, 4), 1, False), ((6, 4), -1, False)])
def test_fill_diagonal(shape: tuple[int, int], offset: int, wrap: bool) -> None:
    check(lambda x: (x * 1.0).fill_diagonal_(0.5, offset, wrap), random(*shape), gradient=False)


def test_fill_diagonal_wraps_and_fills_cubes() -> None:
    tall = X[0].repeat(3, axis=0)[:, :4]
    expected = tall.copy()
    np.fill_diagonal(expected, 0.5, wrap=True)
    cube = random(4, 4, 4)
    filled = cube.copy()
    np.fill_diagonal(filled, 0.5)
    with on(DEVICE):
        np.testing.assert_array_equal(paddle.to_tensor(tall).fill_diagonal_(0.5, wrap=True).numpy(), expected)
        np.testing.assert_array_equal(paddle.to_tensor(cube).fill_diagonal_(0.5).numpy(), filled)


def test_nonzero() -> None:
    values = np.array([[0.0, 2.0, 0.0], [3.0, 0.0, np.nan]], "float32")
    with on(DEVICE):
        np.testing.assert_array_equal(paddle.nonzero(paddle.to_tensor(values)).numpy(), np.argwhere(values))
        assert paddle.nonzero(paddle.zeros([3, 2])).shape == [0, 2]


def test_searchsorted() -> None:
    table, values = np.sort(np.random.RandomState(0).randint(0, 9, (3, 12))).astype("float32"), X[:3, 0, :5] * 4
    for right in (False, True):
        check(lambda a, b, r=right: paddle.searchsorted(a, b, right=r), table, values, gradient=False)
        check(lambda a, b, r=right: paddle.searchsorted(a, b, True, r), table[0], values, gradient=False)


def test_numbers_that_take_no_part_are_passed_over_by_fmax_and_fmin() -> None:
    x, y = np.array([1.0, np.nan, 3.0, np.nan], "float32"), np.array([2.0, 1.0, np.nan, np.nan], "float32")
    check(lambda a, b: [paddle.fmax(a, b), paddle.fmin(a, b)], x, y, gradient=False)
    check(lambda a, b: [paddle.fmax(a, b), paddle.fmin(a, b)], FEW, COLUMNS[:, :2], gradient=False)


def test_writing_in_a_graph_is_kept() -> None:
    def function(x: Any) -> Any:
        y = x * 1.0
        y[:, 1] = 5.0
        y[paddle.to_tensor(FEW)] = 2.0
        return paddle.index_put_(y, (paddle.to_tensor(FEW), paddle.to_tensor(FEW)), paddle.ones([2]))

    expected = SMALL.copy()
    expected[:, 1] = 5
    expected[FEW] = 2
    expected[FEW, FEW] = 1
    with on(DEVICE):
        result = paddle.jit.to_static(function, full_graph=True)(paddle.to_tensor(SMALL))
        np.testing.assert_array_equal(result.numpy(), expected)


def test_indices_values_and_gradients_that_are_views() -> None:
    """What paddle.where gives are columns of one tensor."""
    mask = np.array([[1, 0, 1, 1], [0, 1, 0, 1]])

    def getting(x: Any) -> Any:
        rows, columns = paddle.where(paddle.to_tensor(mask))
        return x[columns, rows]

    def putting(x: Any, values: Any) -> Any:
        y = x * 1.0
        rows, columns = paddle.where(paddle.to_tensor(mask))
        y[columns, rows] = values[:, 1]
        return y

    check(getting, random(4, 2))
    check(putting, random(4, 2), random(5, 3, seed=1))
    check(lambda x: paddle.stack([getting(x), getting(x)], 1).t()[0], random(4, 2))


@pytest.mark.parametrize(
    ("shape", "part"),
    [
        ((40, 30, 8), np.s_[:, :, ::4]),
        ((20, 50, 9), np.s_[:, 1::2, ::3]),
        ((7, 33, 64), np.s_[:, :, ::-16]),
        ((6, 9, 40), np.s_[::3, :, :]),
    ],
)
def test_parts_of_short_rows_with_gaps(shape: tuple[int, ...], part: Any) -> None:
    """A copy goes along a longer axis there."""
    expected = random(*shape)
    values = random(*expected[part].shape, seed=1)
    with on(DEVICE):
        y = paddle.to_tensor(expected)
        y[part] = paddle.to_tensor(values)
        expected[part] = values
        np.testing.assert_array_equal(y.numpy(), expected)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "float64"])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_elements_taken_along_rows_of_any_length(dtype: str, index: str) -> None:
    state = np.random.RandomState(4)
    for shape, axis in (((5, 1, 3), 2), ((40, 7), 1), ((3, 6, 8), 0), ((2, 3, 1024), 2), ((2, 1025), 1), ((0, 3), 1)):
        for turned in (False, True):
            x = state.randint(0, 99, shape).astype(dtype)
            length = shape[axis]
            at = state.randint(-length, max(length, 1), shape).astype(index)
            expected = np.take_along_axis(x, at.astype("int64"), axis)
            with on(DEVICE):
                given, places = paddle.to_tensor(x.T if turned else x), paddle.to_tensor(at)
                found = paddle.take_along_axis(given.T if turned else given, places, axis)
                np.testing.assert_array_equal(found.numpy(), expected)
