"""Factorizations, solutions and determinants, with fallbacks forbidden, and the errors of bad matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest
from comparison import DEVICE, Array, check, check_in_graph, on, random

L = paddle.linalg
#: Sums of some dozens of products, divided by pivots of well-conditioned matrices.
TOLERANCE = {"float32": 1e-4, "float64": 1e-9}


def definite(*shape: int) -> Array:
    x = random(*shape, shape[-1], seed=3)
    return x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1], dtype=np.float32)


def compare(function: Callable[..., Any], *inputs: Array, dtype: str = "float32", gradient: bool = False) -> None:
    check(function, *inputs, dtype=dtype, gradient=gradient, tolerance=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 1, 3)], ids=str)
def test_solutions(shape: tuple[int, ...], dtype: str) -> None:
    a, b = definite(*shape), random(*shape, 2, seed=1)
    compare(L.inv, a, dtype=dtype, gradient=True)
    compare(L.solve, a, b, dtype=dtype)
    for upper in (False, True):
        for transpose in (False, True):
            for unit in (False, True):
                # Paddle's CPU gives a gradient to the diagonal of ones, and to one beside it that was not read.
                compare(
                    lambda a, b, u=upper, t=transpose, i=unit: L.triangular_solve(a / 4, b, u, t, i),
                    *(a, b),
                    dtype=dtype,
                    gradient=upper or not unit,
                )
        compare(lambda a, u=upper: L.cholesky(a, u), a, dtype=dtype, gradient=True)
        compare(lambda a, b, u=upper: L.cholesky_solve(b, L.cholesky(a, u), u), a, b, dtype=dtype)
    compare(L.det, a, dtype=dtype)
    for exponent in (-3, 0, 1, 6):
        compare(lambda a, n=exponent: L.matrix_power(a / 8, n), a, dtype=dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_right_hand_sides_that_broadcast(dtype: str) -> None:
    compare(L.solve, definite(3), random(3), dtype=dtype)
    compare(L.solve, definite(2, 3), random(2, 3), dtype=dtype)
    compare(L.solve, definite(3), random(2, 3, 4), dtype=dtype)
    compare(lambda a, b: L.triangular_solve(a, b), definite(3), random(2, 3, 4), dtype=dtype, gradient=True)
    compare(lambda a, b: L.triangular_solve(a, b), definite(2, 3), random(3, 4), dtype=dtype, gradient=True)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_factors(dtype: str) -> None:
    for shape in ((5, 3), (3, 5), (2, 4, 4), (13, 4, 3)):
        x = random(*shape)
        compare(lambda x: L.lu(x, get_infos=True), x, dtype=dtype)
        for mode in ("reduced", "complete"):
            compare(lambda x, m=mode: (lambda q, r: (q @ r, abs(r)))(*L.qr(x, m)), x, dtype=dtype)
        compare(lambda x: abs(L.qr(x, "r")), x, dtype=dtype)
        compare(L.svdvals, x, dtype=dtype)
        compare(lambda x: (lambda u, s, v: (s, u * s.unsqueeze(-2) @ v))(*L.svd(x)), x, dtype=dtype)
        compare(
            lambda x: (lambda u, s, v: (abs(u).shape, s, abs(v).shape)[1])(*L.svd(x, full_matrices=True)),
            x,
            dtype=dtype,
        )
    for shape in ((5,), (3, 4), (13, 4)):
        a = definite(*shape)
        for triangle in ("L", "U"):
            compare(lambda a, t=triangle: L.eigvalsh(a, t), a, dtype=dtype)
            compare(lambda a, t=triangle: (lambda w, v: (w, v * w.unsqueeze(-2) @ v.mT))(*L.eigh(a, t)), a, dtype=dtype)


def test_eigenvalues() -> None:
    a = random(4, 4)
    with on(DEVICE):
        values, vectors = L.eig(paddle.to_tensor(a))
        alone = L.eigvals(paddle.to_tensor(a))
    w, v = values.numpy(), vectors.numpy()
    np.testing.assert_allclose(a @ v, v * w, atol=1e-4)
    np.testing.assert_allclose(np.sort_complex(alone.numpy()), np.sort_complex(np.linalg.eigvals(a)), atol=1e-4)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_matrices(dtype: str) -> None:
    x = (random(3, 4, 4) + 1j * random(3, 4, 4, seed=5)).astype(dtype)
    hermitian = x @ np.conj(np.swapaxes(x, 1, 2)) + np.eye(4)
    with on(DEVICE):
        put = paddle.to_tensor(x)
        np.testing.assert_allclose(L.inv(put).numpy() @ x, np.tile(np.eye(4), (3, 1, 1)), atol=1e-3)
        np.testing.assert_allclose(L.det(put).numpy(), np.linalg.det(x), rtol=1e-3)
        solved = L.triangular_solve(put, put, upper=False, transpose=True).numpy()
        np.testing.assert_allclose(np.swapaxes(np.tril(x), 1, 2) @ solved, x, rtol=1e-2, atol=1e-2)
        values, vectors = L.eigh(paddle.to_tensor(hermitian.astype(dtype)))
        low = paddle.to_tensor(x[:, :, :2] @ x[:, :2])
        assert L.matrix_rank(low).numpy().tolist() == [2, 2, 2]
    np.testing.assert_allclose(values.numpy(), np.linalg.eigvalsh(hermitian), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(hermitian @ vectors.numpy(), vectors.numpy() * values.numpy()[:, None], atol=1e-3)


def test_in_a_graph() -> None:
    a, b = definite(2, 3), random(2, 3, 2)
    for function in (L.solve, lambda a, b: L.triangular_solve(a, b, upper=False)):
        check_in_graph(function, a, b, gradient=False, tolerance=1e-4)
    for function in (L.inv, L.cholesky, L.det, L.svdvals):
        check_in_graph(function, a, gradient=False, tolerance=1e-4)


def test_errors() -> None:
    with on(DEVICE):
        singular = paddle.ones([2, 3, 3])
        for function, error, message in (
            (L.inv, ValueError, "is singular"),
            (lambda x: L.solve(x, x), ValueError, "is singular"),
            (lambda x: L.matrix_power(x, -1), ValueError, "is singular"),
            (lambda x: L.cholesky(-x), ValueError, "not positive definite"),
            (lambda x: L.svd(x * float("nan")), ValueError, "singular values"),
            (lambda x: L.eigh(x * float("nan")), RuntimeError, "eigenvalues"),
        ):
            with pytest.raises(error, match=message):
                function(singular)
        assert L.det(singular).numpy().tolist() == [0, 0]
        assert L.lu(singular, get_infos=True)[2].numpy().tolist() == [2, 2]


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_matrices_with_nan(dtype: str) -> None:
    first, last = (np.diag([*d]).astype(dtype) for d in ([np.nan, 1, 1], [1, 1, np.nan]))
    functions = (L.inv, lambda a: L.solve(a, a), lambda a: L.matrix_power(a, -2), lambda a: L.cond(a, 1))
    for place in ("cpu", DEVICE):
        with on(place):
            for function in functions:
                assert bool(paddle.isnan(function(paddle.to_tensor(last))).any())
                for bad in (first, np.stack([np.eye(3, dtype=dtype), first])):
                    with pytest.raises(ValueError):
                        function(paddle.to_tensor(bad))
            with pytest.raises(ValueError):
                L.cholesky_inverse(paddle.to_tensor(first))
            # Paddle's CPU factorizes them.
            assert bool(paddle.isnan(L.cholesky(paddle.to_tensor(first))).any())
            with pytest.raises(ValueError):
                L.cholesky(paddle.to_tensor(np.stack([first, -np.eye(3, dtype=dtype)])))
