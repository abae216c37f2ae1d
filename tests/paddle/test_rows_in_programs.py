"""Tensors of rows (SelectedRows) as saved programs and gradients of sparse tables have them: what is done to them, and
what makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import DEVICE, Array, on, random
from paddle.base import core

pytestmark = pytest.mark.unihal_no_fallback

INT64, FLOAT32, TYPE = 3, 5, core.VarDesc.VarType.SELECTED_ROWS
TABLE, IDS = random(6, 3), np.array([0, 2, 2, 5])


def run_program(build: Callable[[Any], tuple[dict[str, Array], list[Any]]]) -> list[Array]:
    """What a program of the old representation gives: `build` returns what it is fed and what is fetched."""
    paddle.enable_static()
    try:
        with paddle.pir_utils.OldIrGuard():
            main = paddle.static.Program()
            with paddle.static.program_guard(main, paddle.static.Program()):
                feed, fetch = build(main.global_block())
            place = paddle.CustomPlace(DEVICE, 0)
            return list(paddle.static.Executor(place).run(main, feed=feed, fetch_list=fetch))
    finally:
        paddle.disable_static()


def data(name: str, array: Array, feed: dict[str, Array]) -> Any:
    feed[name] = array
    return paddle.static.data(name, array.shape, str(array.dtype))


def values_of(block: Any, rows: Any) -> Any:
    dense = block.create_var(name="values", dtype="float32")
    block.append_op(type="get_tensor_from_selected_rows", inputs={"X": rows}, outputs={"Out": dense})
    return dense


def made(op: str, attributes: dict[str, Any], inputs: dict[str, Array] | None = None) -> Array:
    """The values of rows that an op without operands makes."""

    def build(block: Any) -> tuple[dict[str, Array], list[Any]]:
        feed: dict[str, Array] = {}
        given = {slot: data(slot, array, feed) for slot, array in (inputs or {}).items()}
        rows = block.create_var(name="rows", type=TYPE, dtype="float32")
        block.append_op(type=op, inputs=given, outputs={"Out": rows}, attrs=attributes)
        return feed, [values_of(block, rows)]

    return run_program(build)[0]


def gradient(block: Any, feed: dict[str, Array]) -> Any:
    """That of a table, which has the rows that were looked up: IDS, with the weights of what was found."""
    table, ids = data("table", TABLE, feed), data("ids", IDS, feed)
    weights = data("weights", WEIGHTS, feed)
    table.stop_gradient = False
    found = block.create_var(name="found", dtype="float32")
    attributes = {"is_sparse": True, "padding_idx": -1}
    block.append_op(type="lookup_table_v2", inputs={"W": table, "Ids": ids}, outputs={"Out": found}, attrs=attributes)
    return paddle.static.gradients([found], [table], [weights])[0]


WEIGHTS = random(4, 3, seed=1)


def test_constants() -> None:
    np.testing.assert_array_equal(
        made("fill_constant", {"shape": [3, 2], "value": 1.5, "dtype": FLOAT32}), np.full((3, 2), 1.5, "float32")
    )
    value = {"ValueTensor": np.array([2.5], "float32")}
    np.testing.assert_array_equal(
        made("fill_constant", {"shape": [2, 2], "value": 0.0, "dtype": FLOAT32}, value), np.full((2, 2), 2.5)
    )


def test_random_numbers() -> None:
    attributes = {"shape": [40, 50], "min": -1.0, "max": 3.0, "dtype": FLOAT32}
    plain = made("uniform_random", attributes)
    assert plain.shape == (40, 50) and plain.min() >= -1 and plain.max() <= 3 and abs(plain.mean() - 1) < 0.15
    square = attributes | {"shape": [40, 40], "diag_num": 40, "diag_step": 40, "diag_val": 7.0, "seed": 5}
    first, second = made("uniform_random", square), made("uniform_random", square)
    np.testing.assert_array_equal(first, second)
    assert np.all(np.diag(first) == 7) and abs(first[~np.eye(40, dtype=bool)].mean() - 1) < 0.15


def drawn(op: str, dtype: str, attributes: dict[str, Any]) -> Array:
    """The dense tensor that an op of random numbers makes."""

    def build(block: Any) -> tuple[dict[str, Array], list[Any]]:
        out = block.create_var(name="drawn", dtype=dtype)
        block.append_op(type=op, inputs={}, outputs={"Out": out}, attrs=attributes)
        return {}, [out]

    return run_program(build)[0]


def test_random_numbers_of_old_programs() -> None:
    """Those of a seed are the same each time (Paddle's programs give its kernels no more than that there is one); on a
    diagonal stands a value."""
    whole = {"shape": [30, 40], "low": -3, "high": 9, "dtype": INT64, "seed": 5}
    first, second = drawn("randint", "int64", whole), drawn("randint", "int64", whole)
    np.testing.assert_array_equal(first, second)
    assert first.shape == (30, 40) and sorted(set(first.ravel().tolist())) == list(range(-3, 9))
    assert first.dtype == np.int64 and drawn("randint", "int32", whole | {"dtype": 2}).dtype == np.int32
    diagonal = {"diag_num": 40, "diag_step": 40, "diag_val": 7.0, "seed": 5}
    square = drawn(
        "uniform_random", "float32", {"shape": [40, 40], "min": -1.0, "max": 3.0, "dtype": FLOAT32} | diagonal
    )
    others = square[~np.eye(40, dtype=bool)]
    assert np.all(np.diag(square) == 7) and others.min() >= -1 and others.max() <= 3 and abs(others.mean() - 1) < 0.15


def test_a_diagonal_outside_is_refused() -> None:
    attributes = {"shape": [4, 4], "min": 0.0, "max": 1.0, "dtype": FLOAT32, "diag_num": 5, "diag_step": 4}
    with pytest.raises(ValueError, match="diagonal"):
        drawn("uniform_random", "float32", attributes | {"diag_val": 1.0})


def test_as_many_random_rows_as_another_has() -> None:
    def build(block: Any) -> tuple[dict[str, Array], list[Any]]:
        feed: dict[str, Array] = {}
        like = gradient(block, feed)
        rows = block.create_var(name="rows", type=TYPE, dtype="float32")
        attributes = {"shape": [-1, 50], "input_dim_idx": 0, "output_dim_idx": 0, "min": -1.0, "max": 1.0}
        block.append_op(
            type="uniform_random_batch_size_like",
            inputs={"Input": like},
            outputs={"Out": rows},
            attrs=attributes | {"dtype": FLOAT32},
        )
        return feed, [values_of(block, rows)]

    found = run_program(build)[0]
    assert found.shape == (4, 50) and np.abs(found).max() <= 1 and abs(found.mean()) < 0.2 and found.std() > 0.4


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_products_with_a_number(axis: int) -> None:
    def build(block: Any) -> tuple[dict[str, Array], list[Any]]:
        feed: dict[str, Array] = {}
        given, factor = gradient(block, feed), data("factor", np.array([2.5], "float32"), feed)
        rows = block.create_var(name="rows", type=TYPE, dtype="float32")
        inputs = {"X": given, "Y": factor}
        block.append_op(type="elementwise_mul", inputs=inputs, outputs={"Out": rows}, attrs={"axis": axis})
        return feed, [values_of(block, rows)]

    np.testing.assert_allclose(run_program(build)[0], 2.5 * WEIGHTS, rtol=1e-6)


def test_follow_the_regularized_leader() -> None:
    """A step by the rows of a gradient is that of a dense one, of which the other rows stay as they are."""
    state = {
        "Param": TABLE,
        "SquaredAccumulator": random(6, 3, low=0.2, high=2, seed=2),
        "LinearAccumulator": random(6, 3, seed=3),
        "LearningRate": np.array([0.1], "float32"),
    }
    dense = np.zeros((6, 3), "float32")
    np.add.at(dense, IDS, WEIGHTS)

    def step(sparse: bool) -> list[Array]:
        def build(block: Any) -> tuple[dict[str, Array], list[Any]]:
            feed: dict[str, Array] = {}
            inputs = {slot: data(slot, array, feed) for slot, array in state.items()}
            inputs["Grad"] = gradient(block, feed) if sparse else data("dense", dense, feed)
            names = ("ParamOut", "SquaredAccumOut", "LinearAccumOut")
            outputs = {name: block.create_var(name=name, dtype="float32") for name in names}
            attributes = {"l1": 0.1, "l2": 0.2, "lr_power": -0.5}
            block.append_op(type="ftrl", inputs=inputs, outputs=outputs, attrs=attributes)
            return feed, list(outputs.values())

        return run_program(build)

    touched = sorted(set(IDS.tolist()))
    for ours, theirs, before in zip(step(True), step(False), list(state.values()), strict=False):
        np.testing.assert_allclose(ours[touched], theirs[touched], rtol=1e-5)
        np.testing.assert_array_equal(ours[[1, 3, 4]], before[[1, 3, 4]])


def test_a_hierarchical_sigmoid_of_rows() -> None:
    """Those of a path's decisions. Paddle's CPU ends the process; the dense gradient is the reference."""
    arrays = {
        "X": random(3, 4),
        "W": random(7, 4, seed=1),
        "Label": np.array([[0], [1], [2]]),
        "PathTable": np.array([[0, 2, 4], [0, 1, -1], [0, 5, 4]]),
        "PathCode": np.array([[1, 0, 1], [0, 1, -1], [1, 1, 0]]),
        "Bias": random(7, 1, seed=2),
    }

    def gradients(sparse: bool) -> list[Array]:
        def build(block: Any) -> tuple[dict[str, Array], list[Any]]:
            feed: dict[str, Array] = {}
            inputs = {slot: data(slot, array, feed) for slot, array in arrays.items()}
            leaves = [inputs[slot] for slot in ("X", "W", "Bias")]
            for leaf in leaves:
                leaf.stop_gradient = False
            outputs = {name: block.create_var(name=name, dtype="float32") for name in ("Out", "PreOut", "W_Out")}
            attributes = {"num_classes": 8, "is_sparse": sparse}
            block.append_op(type="hierarchical_sigmoid", inputs=inputs, outputs=outputs, attrs=attributes)
            dx, dw, dbias = paddle.static.gradients([outputs["Out"]], leaves)
            assert (dw.type == TYPE) == sparse
            return feed, [dx, values_of(block, dw) if sparse else dw, dbias]

        return run_program(build)

    ours, theirs = gradients(True), gradients(False)
    rows = [0, 1, 2, 4, 5]
    assert not theirs[1][[3, 6]].any()
    for a, b in zip(ours, [theirs[0], theirs[1][rows], theirs[2]], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite"])
def test_numbers_that_are_none(name: str) -> None:
    special = np.float32([[1, np.nan, np.inf], [2, -np.inf, 0], [np.nan, 3, 4], [5, 6, 7]])
    with on(DEVICE):
        table = paddle.to_tensor(TABLE, stop_gradient=False)
        found = F.embedding(paddle.to_tensor(IDS), table, sparse=True)
        paddle.autograd.backward([found], [paddle.to_tensor(special)])
        assert table.grad.is_selected_rows()
        result = getattr(paddle, name)(table.grad)
        assert DEVICE in str(result.place) and result.is_selected_rows() and result.rows() == IDS.tolist()
        np.testing.assert_array_equal(result.numpy(), getattr(np, name)(special))
