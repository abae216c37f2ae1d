"""Counts, sums without NaN, ranks, logarithms of determinants, norms, factors per channel, with fallbacks forbidden."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import DEVICE, Array, check, check_in_graph, on, random

pytestmark = pytest.mark.unihal_no_fallback

L, ops = paddle.linalg, paddle._C_ops
DRAW = np.random.RandomState(0)
NUMBERS = DRAW.randint(0, 7, 9)
HOLES = random(3, 5)
HOLES[0, 1] = HOLES[2, 2] = np.nan
SQUARE = random(2, 4, 4) + 3 * np.eye(4, dtype="float32")
TALL = random(5, 2, seed=3)
LOW = np.float32(TALL @ TALL.T)  # of rank 2
MANY, OTHERS = random(40), random(40, seed=1)
IMAGE, SCALE, BIAS = random(2, 3, 4, 5), random(3), random(3, seed=2)
BEAMS, PARENTS = DRAW.randint(0, 9, (5, 2, 3)), DRAW.randint(0, 3, (5, 2, 3))
U, V = random(4, low=0.1), random(6, low=0.1)

#: name, function, inputs, whether gradients are the CPU's
CASES: list[tuple[str, Callable[..., Any], tuple[Array, ...], bool]] = [
    ("nansum", lambda x: paddle.nansum(x, 1), (HOLES,), True),
    ("nansum of all", paddle.nansum, (HOLES,), True),
    ("nansum keepdim", lambda x: paddle.nansum(x, [0], keepdim=True), (HOLES,), True),
    ("bincount", paddle.bincount, (NUMBERS,), False),
    ("bincount of weights", paddle.bincount, (NUMBERS, random(9)), False),
    ("bincount minlength", lambda i: paddle.bincount(i, minlength=12), (NUMBERS,), False),
    ("bincount of nothing", paddle.bincount, (NUMBERS[:0],), False),
    ("histogram", lambda x: paddle.histogram(x, 7), (MANY,), False),
    ("histogram in a range", lambda x: paddle.histogram(x, 5, -1, 1), (MANY,), False),
    ("histogram of weights", lambda x, w: paddle.histogram(x, 5, -1, 1, weight=w), (MANY, OTHERS), False),
    ("histogram density", lambda x: paddle.histogram(x, 5, -1, 1, density=True), (MANY,), False),
    ("histogram of integers", lambda x: paddle.histogram(x, 4), (NUMBERS,), False),
    ("affine_channel", lambda *x: ops.affine_channel(*x, "NCHW"), (IMAGE, SCALE, BIAS), True),
    ("affine_channel NHWC", lambda *x: ops.affine_channel(*x, "NHWC"), (random(2, 4, 5, 3), SCALE, BIAS), True),
    ("gather_tree", F.gather_tree, (BEAMS, PARENTS), False),
    ("matrix_rank", L.matrix_rank, (np.stack([LOW, LOW + np.eye(5, dtype="float32")]),), False),
    ("matrix_rank of one", L.matrix_rank, (LOW,), False),
    ("matrix_rank hermitian", lambda x: L.matrix_rank(x, hermitian=True), (LOW,), False),
    ("matrix_rank tol", lambda x: L.matrix_rank(x, 0.5), (random(4, 5, 6),), False),
    ("matrix_rank tols", L.matrix_rank, (random(4, 5, 6), np.float32([0.1, 1, 2, 3])), False),
    ("matrix_rank atol", lambda x: L.matrix_rank(x, atol=0.5), (random(4, 5, 6),), False),
    ("matrix_rank rtol", lambda x: L.matrix_rank(x, rtol=0.5), (random(4, 5, 6),), False),
    ("matrix_rank both", lambda x: L.matrix_rank(x, atol=0.5, rtol=0.3), (random(4, 5, 6),), False),
    ("slogdet", L.slogdet, (SQUARE,), True),
    ("slogdet of one", L.slogdet, (-SQUARE[0],), True),
    ("spectral_norm", lambda w, u, v: ops.spectral_norm(w, u, v, 0, 2, 1e-8), (random(4, 3, 2), U, V), False),
    ("spectral_norm, axis 1", lambda *x: ops.spectral_norm(*x, 1, 1, 1e-8), (random(3, 4, 2), U, V), False),
    *([("rint", ops.rint, (3 * random(3, 5),), True)] if hasattr(ops, "rint") else []),  # not in 3.0
]
#: Logarithms and singular values of well-conditioned matrices.
TOLERANCE = {"float32": 1e-4, "float64": 1e-9}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("name", "function", "inputs", "gradient"), CASES, ids=lambda part: part if isinstance(part, str) else ""
)
def test_as_on_the_cpu(
    name: str, function: Callable[..., Any], inputs: tuple[Array, ...], gradient: bool, dtype: str
) -> None:
    tolerance = TOLERANCE["float32" if "histogram" in name else dtype]  # whose results are float32
    check(function, *inputs, dtype=dtype, gradient=gradient, tolerance=tolerance)


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7, 10, 12, 13])
def test_beams_of_many_steps(steps: int) -> None:
    """Steps are taken in groups, of which the first one may have fewer."""
    state = np.random.RandomState(steps)
    check(F.gather_tree, state.randint(0, 99, (steps, 2, 5)), state.randint(0, 5, (steps, 2, 5)), gradient=False)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("weighted", [False, True])
def test_histograms_of_what_lies_at_and_beyond_the_ends(weighted: bool, dtype: str) -> None:
    x = np.array([-3, -1, -1, 0, 1, 2, 2, 3, 4, 100, -100, 2], dtype)
    if "float" in dtype:
        x[3:5] = np.nan, np.inf
    weights = [np.arange(1, 13).astype(dtype)] if weighted else []

    def function(x: Any, weight: Any = None) -> Any:
        return paddle.histogram(x, 5, -3, 3, weight=weight)

    def counted(device: str) -> Any:
        with on(device):
            return function(*map(paddle.to_tensor, (x, *weights))).numpy()

    ours, theirs = counted(DEVICE), counted("cpu")
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "function", "inputs", "gradient"), CASES, ids=lambda part: part if isinstance(part, str) else ""
)
def test_in_graphs(name: str, function: Callable[..., Any], inputs: tuple[Array, ...], gradient: bool) -> None:
    # Paddle declares slogdet's shape as its operand's, which a program for gradients cannot be built with.
    check_in_graph(function, *inputs, gradient=gradient and "slogdet" not in name, tolerance=TOLERANCE["float32"])


def derivative(loss: Callable[[Array], float], x: Array) -> Array:
    """By finite differences; of complex numbers, those of both parts."""
    found, step = np.zeros_like(x), 1e-6
    for index in np.ndindex(*x.shape):
        for unit in (1, 1j) if x.dtype.kind == "c" else (1,):
            above, below = x.copy(), x.copy()
            above[index] += step * unit
            below[index] -= step * unit
            found[index] += unit * (loss(above) - loss(below)) / (2 * step)
    return found


def gradients_are_derivatives(function: Callable[[Any], Any], x: Array, tolerance: float) -> None:
    """Where those of Paddle's CPU are not."""

    def loss(array: Array, leaf: list[Any]) -> Any:
        leaf.append(paddle.to_tensor(array, stop_gradient=False))
        y = function(leaf[0])
        y = paddle.real(y) if "complex" in str(y.dtype) else y
        return (y * paddle.to_tensor(random(*y.shape, seed=5).astype("float64"))).sum()

    with on(DEVICE):
        leaf: list[Any] = []
        loss(x, leaf).backward()
        expected = derivative(lambda array: float(loss(array, [])), x)
        np.testing.assert_allclose(leaf[0].grad.numpy(), expected, atol=tolerance)


def test_gradient_of_spectral_norm() -> None:
    u, v = U.astype("float64"), V.astype("float64")

    def function(w: Any) -> Any:  # so many iterations that the vectors do not change
        return ops.spectral_norm(w, paddle.to_tensor(u), paddle.to_tensor(v), 0, 200, 1e-12)

    gradients_are_derivatives(function, random(4, 3, 2).astype("float64"), 1e-5)


@pytest.mark.parametrize("exponent", [-2, -1, 2, 3])
def test_gradient_of_powers_of_complex_matrices(exponent: int) -> None:
    x = (SQUARE[0] + 0.5j * SQUARE[1]).astype("complex128")
    gradients_are_derivatives(lambda z: L.matrix_power(z, exponent), x, 1e-6)


def test_gumbel_softmax_draws_classes() -> None:
    with on(DEVICE):
        logits = paddle.to_tensor(np.log(np.float32([[0.1, 0.2, 0.7]])), stop_gradient=False)
        soft = F.gumbel_softmax(logits.expand([20000, 3]), 0.5)
        np.testing.assert_allclose(soft.sum(-1).numpy(), 1, atol=1e-5)
        soft[:, 0].sum().backward()
        assert logits.grad is not None
        hard = F.gumbel_softmax(logits.expand([20000, 3]), 0.5, hard=True).numpy()
        assert set(np.unique(hard)) == {0, 1} and (hard.sum(-1) == 1).all()
        # Within five standard deviations of a share of 20,000 draws.
        np.testing.assert_allclose(hard.mean(0), [0.1, 0.2, 0.7], atol=5 * 0.5 / 141)


def test_negative_numbers_are_not_counted() -> None:
    for device in ("cpu", DEVICE):
        with on(device), pytest.raises(ValueError):
            paddle.bincount(paddle.to_tensor([-1, 2]))
