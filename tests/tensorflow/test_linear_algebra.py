"""Factorizations, solutions and determinants."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from compare import CPU, DEVICE, check, on, random

RAW = tf.raw_ops
#: Sums of some dozens of products, divided by pivots of well-conditioned matrices.
TOLERANCE = {"float32": 1e-4, "float64": 1e-11}


def definite(*shape: int) -> np.ndarray:
    x = random(*shape, shape[-1], seed=3)
    return x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1])


def compare(function: Callable[..., Any], *arrays: Any, dtype: str, gradients: bool = False) -> None:
    check(function, *arrays, dtype=dtype, gradients=gradients, tolerance=TOLERANCE[dtype])


def compare_complex(function: Callable[..., Any], *arrays: np.ndarray) -> None:
    """As compare, of complex matrices in both precisions."""
    for dtype, tolerance in (("complex64", 1e-3), ("complex128", 1e-10)):
        actual, expected = (on(d, function, list(arrays), [dtype] * len(arrays)) for d in (DEVICE, CPU))
        for a, e in zip(actual, expected, strict=True):
            assert DEVICE in a.device and a.dtype == e.dtype
            np.testing.assert_allclose(a.numpy(), e.numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_solutions(dtype: str) -> None:
    for batch in ((), (3,), (2, 2)):
        a, b = definite(*batch, 5), random(*batch, 5, 2, seed=1)
        for adjoint in (False, True):
            compare(lambda a, b, t=adjoint: tf.linalg.solve(a, b, adjoint=t), a, b, dtype=dtype, gradients=True)
            compare(lambda a, t=adjoint: tf.linalg.inv(a, adjoint=t), a, dtype=dtype, gradients=True)
            for lower in (False, True):
                compare(
                    lambda a, b, low=lower, t=adjoint: tf.linalg.triangular_solve(a, b, low, t),
                    *(a, b),
                    dtype=dtype,
                    gradients=True,
                )
    compare(tf.linalg.triangular_solve, definite(5), random(3, 5, 2), dtype=dtype)
    compare(tf.linalg.triangular_solve, definite(2, 1, 5), random(3, 5, 2), dtype=dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_cholesky_and_determinants(dtype: str) -> None:
    for shape in ((5,), (3, 4), (1,), (0,), (2, 0)):
        a = definite(*shape)
        has_elements = 0 not in shape
        compare(tf.linalg.cholesky, a, dtype=dtype, gradients=has_elements)
        compare(tf.linalg.det, a, dtype=dtype, gradients=has_elements)
        compare(tf.linalg.slogdet, a, dtype=dtype, gradients=has_elements)
    compare(tf.linalg.slogdet, random(4, 5, 5), dtype=dtype)
    compare(tf.linalg.det, np.ones((2, 3, 3)), dtype=dtype)
    compare(lambda x: tf.linalg.lu(x, tf.int64), random(3, 6, 6), dtype=dtype)
    compare(tf.linalg.lu, random(6, 6), dtype=dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_orthogonal_factors(dtype: str) -> None:
    """What is not unique is compared by what does not depend on signs."""
    for shape in ((5, 3), (3, 5), (2, 4, 4), (0, 3, 2)):
        for full in (False, True):

            def product(x: tf.Tensor, full: bool = full) -> tuple[tf.Tensor, ...]:
                q, r = tf.linalg.qr(x, full)
                return tf.abs(r[..., : min(x.shape[-2:]), :]), q @ r

            def singular(x: tf.Tensor, full: bool = full) -> tuple[tf.Tensor, ...]:
                k = min(x.shape[-2:])
                s, u, v = tf.linalg.svd(x, full)
                return s, u[..., :k] * s[..., None, :] @ tf.linalg.matrix_transpose(v[..., :k])

            compare(product, random(*shape), dtype=dtype)
            compare(singular, random(*shape), dtype=dtype)
        compare(lambda x: tf.linalg.svd(x, compute_uv=False), random(*shape), dtype=dtype)
    for shape in ((5,), (3, 4)):
        compare(tf.linalg.eigvalsh, definite(*shape), dtype=dtype)

        def symmetric(x: tf.Tensor) -> tuple[tf.Tensor, ...]:
            values, vectors = tf.linalg.eigh(x)
            return values, vectors * values[..., None, :] @ tf.linalg.matrix_transpose(vectors)

        compare(symmetric, definite(*shape), dtype=dtype, gradients=True)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_gradients_of_factors(dtype: str) -> None:
    """TensorFlow composes them; of what does not depend on signs."""
    for shape in ((4, 3), (2, 4, 4)):
        x = random(*shape) + 2 * np.eye(*shape[-2:])
        check(lambda x: [tf.abs(part) for part in tf.linalg.qr(x)], x, dtype=dtype, gradients=True, tolerance=2e-3)
        check(lambda x: [tf.abs(part) for part in tf.linalg.svd(x)], x, dtype=dtype, gradients=True, tolerance=2e-3)


def least_squares(a: tf.Tensor, b: tf.Tensor, regularizer: float = 0.0, fast: bool = True) -> tf.Tensor:
    """The op; what tf.linalg.lstsq makes of a fast one is composed."""
    return RAW.MatrixSolveLs(matrix=a, rhs=b, l2_regularizer=tf.constant(regularizer, tf.float64), fast=fast)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_least_squares(dtype: str) -> None:
    for shape, columns in (((5, 3), (5, 2)), ((3, 5), (3, 2)), ((2, 4, 3), (2, 4, 1)), ((4, 4), (4, 2))):
        for fast, regularizer in ((True, 0.0), (True, 0.5), (False, 0.0)):
            compare(
                lambda a, b, f=fast, r=regularizer: least_squares(a, b, r, f),
                *(random(*shape) + 2 * np.eye(*shape[-2:]), random(*columns, seed=1)),
                dtype=dtype,
                gradients=fast,
            )
    compare(lambda a, b: tf.linalg.lstsq(a, b, fast=False), random(5, 3), random(5, 2, seed=1), dtype=dtype)


def test_least_squares_of_bad_matrices() -> None:
    a = random(5, 2) @ random(2, 3, seed=1)  # of rank 2
    b = random(5, 2, seed=2)
    compare(lambda a, b: least_squares(a, b, fast=False), a, b, dtype="float64")
    for device in (CPU, DEVICE):
        for function, message in (
            (lambda a, b: least_squares(a * 0, b), "rank deficient or ill-conditioned"),
            (lambda a, b: least_squares(a, b[:2]), "matrix and rhs are incompatible"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                on(device, function, [a, b], ["float32", "float32"])


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_eigenvalues(dtype: str) -> None:
    x = (random(3, 5, 5) + (1j * random(3, 5, 5, seed=5) if dtype == "complex128" else 0)).astype(dtype)
    values, vectors = (result.numpy() for result in on(DEVICE, tf.linalg.eig, [x], [dtype]))
    np.testing.assert_allclose(x @ vectors, vectors * values[:, None], atol=1e-4)
    (alone,) = (result.numpy() for result in on(DEVICE, tf.linalg.eigvals, [x], [dtype]))
    np.testing.assert_allclose(np.sort_complex(alone), np.sort_complex(np.linalg.eigvals(x)), atol=1e-4)


def test_complex_matrices() -> None:
    x = random(3, 4, 4) + 1j * random(3, 4, 4, seed=5)
    y, hermitian = x[::-1].copy(), x @ np.conj(np.swapaxes(x, 1, 2)) + np.eye(4)
    for adjoint in (False, True):
        compare_complex(lambda a, t=adjoint: tf.linalg.inv(a, adjoint=t), x)
        compare_complex(lambda a, b, t=adjoint: tf.linalg.solve(a, b, adjoint=t), x, y)
        compare_complex(lambda a, b, t=adjoint: tf.linalg.triangular_solve(a, b, True, t), x + 4 * np.eye(4), y)
    compare_complex(least_squares, x, y)
    compare_complex(lambda a, b: least_squares(a, b, fast=False), x[:, :3], y[:, :3])
    for function in (tf.linalg.det, tf.linalg.slogdet):
        compare_complex(function, x)
    for function in (tf.linalg.cholesky, tf.linalg.eigvalsh):
        compare_complex(function, hermitian)
    s, u, v = (result.numpy() for result in on(DEVICE, lambda a: RAW.Svd(input=a), [x], ["complex128"]))
    np.testing.assert_allclose(u * s[:, None] @ np.conj(np.swapaxes(v, 1, 2)), x, atol=1e-10)


def test_errors() -> None:
    singular = tf.ones([2, 3, 3])
    with tf.device(DEVICE):
        singular = tf.identity(singular)
        for function, message in (
            (tf.linalg.inv, "Input is not invertible"),
            (tf.linalg.lu, "Input is not invertible"),
            (lambda x: tf.linalg.solve(x, x), "Input matrix is not invertible"),
            (lambda x: tf.linalg.eigh(x * np.nan), "Self-adjoint eigen decomposition was not successful"),
            (lambda x: tf.linalg.cholesky(x[:, :2]), "Input matrix must be square"),
            (lambda x: tf.linalg.det(x[:, :2]), "Input matrix must be square"),
            (lambda x: tf.linalg.qr(x[0, 0]), "must have rank >= 2, got 1"),
            (lambda x: RAW.MatrixSolve(matrix=x, rhs=x[0]), "must have the same rank"),
            (lambda x: tf.linalg.triangular_solve(x, x[0, :2]), "mismatch In.1. shape: 3 vs. 2"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                function(singular)
        assert np.isnan(tf.linalg.cholesky(-singular).numpy()[0, 0, 0])  # as on TensorFlow's CPU
        assert np.isnan(tf.linalg.svd(singular * np.nan, compute_uv=False).numpy()).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_matrices_with_nan(dtype: str) -> None:
    first, last = (tf.cast(tf.linalg.diag(d), dtype) for d in ([np.nan, 1.0, 1.0], [1.0, 1.0, np.nan]))
    for function in (tf.linalg.inv, tf.linalg.lu, lambda a: tf.linalg.solve(a, a)):
        for device in (CPU, DEVICE):
            with tf.device(device):
                function(last)
                with pytest.raises(tf.errors.InvalidArgumentError):
                    function(first)
                with pytest.raises(tf.errors.InvalidArgumentError):
                    function(tf.stack([tf.eye(3, dtype=dtype), first]))
    lower = tf.cast([[1.0, 0.0], [np.nan, 1.0]], dtype)
    results = [on(device, tf.linalg.cholesky, [lower.numpy()], [dtype]) for device in (DEVICE, CPU)]
    for actual, expected in zip(*(tf.nest.flatten(r) for r in results), strict=True):
        np.testing.assert_array_equal(actual.numpy(), expected.numpy())


@pytest.mark.parametrize("dtype", ["float32", "float64"])  # of complex ones TensorFlow's CPU gives 0
@pytest.mark.parametrize("pivoting", [True, False])
def test_tridiagonal_systems_without_solution(dtype: str, pivoting: bool) -> None:
    regular, zero = [[1.0, 1, 0], [4, 5, 6], [0, 1, 1]], np.zeros([3, 3])
    singular = [[1.0, 1, 0], [1, 2, 0], [0, 1, 0]]
    rhs = np.arange(9.0).reshape(3, 3, 1)
    solve = lambda a, b: tf.linalg.tridiagonal_solve(a, b, partial_pivoting=pivoting)  # noqa: E731
    actual, expected = (
        tf.nest.flatten(on(device, solve, [np.array([regular, zero, singular]), rhs], [dtype, dtype]))
        for device in (DEVICE, CPU)
    )
    np.testing.assert_allclose(actual[0].numpy(), expected[0].numpy(), rtol=1e-5)
