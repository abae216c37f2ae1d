"""Arithmetic of sparse tensors on the device, against dense NumPy in float64: what Paddle's CPU has no kernels for, or
has wrong gradients of, is compared too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest
from comparison import DEVICE, Array, on, random
from test_sparse import DENSE, OTHER, dense_of, made

pytestmark = pytest.mark.unihal_no_fallback

LAYOUTS = pytest.mark.parametrize("layout", ["coo", "csr"])
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])
MASK, OTHER_MASK = DENSE != 0, OTHER != 0
TOLERANCE = {"float32": 2e-5, "float64": 1e-12}


def numbers(*shape: int, **options: Any) -> Array:
    """In float64, so that what is expected is not rounded."""
    return random(*shape, **options).astype("float64")


def close(ours: Any, expected: Array, dtype: str = "float32") -> None:
    assert DEVICE in str(ours.place)
    found = dense_of(ours)
    assert found.shape == expected.shape and found.dtype == np.dtype(dtype)
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def operands(layout: str, dtype: str) -> tuple[Any, Any, Array, Array]:
    a, b = DENSE.astype(dtype), OTHER.astype(dtype)
    return made(layout, a), made(layout, b), a.astype("float64"), b.astype("float64")


def run_back(z: Any, weight: Array) -> None:
    """Backward with a sparse gradient at z's places."""
    z.backward(paddle.sparse.mask_as(paddle.to_tensor(weight.astype(str(z.dtype).split(".")[-1])), z.detach()))


@LAYOUTS
@DTYPES
@pytest.mark.parametrize("name", ["add", "subtract", "multiply"])
def test_of_two_with_other_places(name: str, layout: str, dtype: str) -> None:
    weight = numbers(4, 5, seed=3)
    with on(DEVICE):
        x, y, a, b = operands(layout, dtype)
        z = getattr(paddle.sparse, name)(x, y)
        assert z.nnz() == int((MASK | OTHER_MASK).sum())
        close(z, getattr(np, name)(a, b), dtype)
        run_back(z, weight)
        by_x, by_y = {"add": (1, 1), "subtract": (1, -1), "multiply": (b, a)}[name]
        close(x.grad, weight * by_x * MASK, dtype)
        close(y.grad, weight * by_y * OTHER_MASK, dtype)


@LAYOUTS
@DTYPES
def test_quotients(layout: str, dtype: str) -> None:
    """Have an element everywhere, as on the CPU: 0 / 0 where neither operand has one."""
    with on(DEVICE), np.errstate(all="ignore"):
        x, y, a, b = operands(layout, dtype)
        z = paddle.sparse.divide(x, y)
        assert z.nnz() == 20
        close(z, a / b, dtype)
    same = np.where(MASK, numbers(4, 5, low=1, high=2, seed=4), 0).astype(dtype).astype("float64")
    with on(DEVICE), np.errstate(all="ignore"):
        x, y = made(layout, a.astype(dtype)), made(layout, same.astype(dtype))
        z = paddle.sparse.divide(x, y)
        z.backward(z.detach())
        quotient = np.where(MASK, a / same, 0)
        close(x.grad, np.where(MASK, quotient / same, 0), dtype)
        close(y.grad, np.where(MASK, -quotient * quotient / same, 0), dtype)


@LAYOUTS
@DTYPES
def test_a_dense_tensor_at_places(layout: str, dtype: str) -> None:
    values, weight = numbers(4, 5, seed=5), numbers(4, 5, seed=6)
    with on(DEVICE):
        x = paddle.to_tensor(values.astype(dtype), stop_gradient=False)
        y = paddle.sparse.mask_as(x, made(layout).detach())
        close(y, values * MASK, dtype)
        run_back(y, weight)
        close(x.grad, weight * MASK, dtype)


@LAYOUTS
@DTYPES
@pytest.mark.parametrize("name", ["matmul", "mv", "addmm"])
def test_products_with_dense_operands(name: str, layout: str, dtype: str) -> None:
    other, added, weight = numbers(5, 3, seed=7), numbers(4, 3, seed=8), numbers(4, 3, seed=9)
    if name == "mv":
        other, weight = other[:, 0], weight[:, 0]
    alpha = 3.0 if name == "addmm" else 1.0
    with on(DEVICE):
        x = made(layout, DENSE.astype(dtype))
        b, c = (paddle.to_tensor(v.astype(dtype), stop_gradient=False) for v in (other, added))
        calls: dict[str, Callable[[], Any]] = {
            "matmul": lambda: paddle.sparse.matmul(x, b),
            "mv": lambda: paddle.sparse.mv(x, b),
            "addmm": lambda: paddle.sparse.addmm(c, x, b, 2.0, alpha),
        }
        z = calls[name]()
        a = DENSE.astype(dtype).astype("float64")
        close(z, alpha * (a @ other) + (2 * added if name == "addmm" else 0), dtype)
        z.backward(paddle.to_tensor(weight.astype(dtype)))
        close(x.grad, alpha * (weight.reshape(4, -1) @ other.reshape(5, -1).T) * MASK, dtype)
        close(b.grad, alpha * (a.T @ weight), dtype)
        if name == "addmm":
            close(c.grad, 2 * weight, dtype)


def test_dense_operands_of_other_shapes_are_refused() -> None:
    with on(DEVICE):
        x = made("csr")
        with pytest.raises(ValueError):
            paddle.sparse.mv(x, paddle.ones([4]))
        with pytest.raises(ValueError):
            paddle.sparse.addmm(paddle.ones([4, 3]), x, paddle.ones([4, 3]))


@LAYOUTS
@DTYPES
def test_softmax_of_what_is_there(layout: str, dtype: str) -> None:
    weight = numbers(4, 5, seed=3)
    with on(DEVICE):
        x = made(layout, DENSE.astype(dtype))
        y = paddle.sparse.nn.functional.softmax(x)
        powers = np.exp(DENSE.astype("float64")) * MASK
        expected = powers / np.maximum(powers.sum(-1, keepdims=True), 1e-300)
        close(y, expected, dtype)
        run_back(y, weight)
        inner = (weight * expected).sum(-1, keepdims=True)
        close(x.grad, expected * (weight - inner) * MASK, dtype)


def test_softmax_of_elements_in_any_order() -> None:
    with on(DEVICE):
        places = np.array([[1, 0, 1, 0, 1], [2, 0, 0, 1, 1]])
        values = random(5)
        x = paddle.sparse.sparse_coo_tensor(places, paddle.to_tensor(values), [2, 3])
        y = paddle.sparse.nn.functional.softmax(x)
        powers = np.zeros((2, 3))
        powers[tuple(places)] = np.exp(values)
        close(y, powers / powers.sum(-1, keepdims=True))


@LAYOUTS
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_other_shapes(layout: str, dtype: str) -> None:
    whole = dtype.startswith("int")
    a = (np.round(10 * DENSE) if whole else DENSE).astype(dtype)
    with on(DEVICE):
        x = made(layout, a).detach()
        for y, expected in (
            (paddle.sparse.transpose(x, [1, 0]), a.T),
            (paddle.sparse.transpose(x, [0, 1]), a),
            (paddle.sparse.reshape(x, [2, 10]), a.reshape(2, 10)),
            (paddle.sparse.reshape(x, [10, -1]), a.reshape(10, 2)),
        ):
            np.testing.assert_array_equal(dense_of(y), expected)
            assert y.is_sparse_csr() == (layout == "csr") and y.nnz() == x.nnz()
        with pytest.raises(ValueError, match="shape"):
            paddle.sparse.reshape(x, [3, 7])


@LAYOUTS
def test_gradients_of_other_shapes(layout: str) -> None:
    weight = numbers(4, 5, seed=3)
    with on(DEVICE):
        for function, turned in (
            (lambda x: paddle.sparse.transpose(x, [1, 0]), weight.T),
            (lambda x: paddle.sparse.reshape(x, [2, 10]), weight.reshape(2, 10)),
        ):
            x = made(layout)
            run_back(function(x), turned)
            close(x.grad, weight * MASK)


def test_three_axes() -> None:
    a = np.where(np.arange(24).reshape(2, 3, 4) % 3 == 1, random(2, 3, 4), 0)
    with on(DEVICE):
        x = made("coo", a)
        close(paddle.sparse.transpose(x, [2, 0, 1]), a.transpose(2, 0, 1))
        close(paddle.sparse.reshape(x, [4, 6]), a.reshape(4, 6))
        close(paddle.sparse.multiply(x, x), a * a)
        run_back(paddle.sparse.transpose(x, [2, 0, 1]), numbers(4, 2, 3, seed=1))
        close(x.grad, numbers(4, 2, 3, seed=1).transpose(1, 2, 0) * (a != 0))


@LAYOUTS
def test_tests_and_constants(layout: str) -> None:
    with on(DEVICE):
        x = made(layout, np.where(MASK, np.nan, 0).astype("float32")).detach()
        np.testing.assert_array_equal(paddle.sparse.isnan(x).values().numpy(), True)


@LAYOUTS
def test_attention_of_a_sparse_matrix_trains(layout: str) -> None:
    """Scores at the places of a mask, their softmax, and what they weigh: a graph network's attention."""
    with on(DEVICE):
        layer = paddle.nn.Linear(3, 2)
        optimizer = paddle.optimizer.SGD(0.5, parameters=layer.parameters())
        mask, nodes = made(layout, DENSE[:, :4]).detach(), paddle.to_tensor(random(4, 3))
        losses = []
        for _ in range(5):
            h = layer(nodes)
            scores = paddle.sparse.mask_as(paddle.matmul(h, h, transpose_y=True), mask)
            mixed = paddle.sparse.matmul(paddle.sparse.nn.functional.softmax(scores), h)
            loss = (mixed - 1).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(float(loss))
        assert losses == sorted(losses, reverse=True) and losses[-1] < 0.9 * losses[0]
