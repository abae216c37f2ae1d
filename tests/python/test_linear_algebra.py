"""Linear algebra by ops, against NumPy and by what the factors have to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import unihal
from unihal import Buffer, ops

Put = Callable[[Any], Buffer]


def matrices(random: np.random.Generator, dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    x = random.standard_normal(shape) + (1j * random.standard_normal(shape) if dtype.startswith("complex") else 0)
    return np.asarray(x, dtype)


NUMBERS = ["float32", "float64", "complex64", "complex128"]
ROUGH = {"rtol": 1e-3, "atol": 1e-3}


@pytest.mark.parametrize("dtype", NUMBERS)
def test_solutions_and_determinants(put: Put, random: np.random.Generator, dtype: str) -> None:
    a, b = matrices(random, dtype, 3, 5, 5), matrices(random, dtype, 3, 5, 2)
    np.testing.assert_allclose(a @ ops.solve(put(a), put(b)).numpy(), b, **ROUGH)
    np.testing.assert_allclose(a[0] @ ops.solve(put(a[0]), put(b)).numpy(), b, **ROUGH)
    np.testing.assert_allclose(ops.inv(put(a)).numpy() @ a, np.tile(np.eye(5), (3, 1, 1)), **ROUGH)
    np.testing.assert_allclose(ops.det(put(a)).numpy(), np.linalg.det(a), **ROUGH)
    large = matrices(random, dtype, 2, 65, 65) + 9 * np.eye(65, dtype=dtype)  # whose transposes are factorized
    np.testing.assert_allclose(ops.inv(put(large)).numpy(), np.linalg.inv(large), **ROUGH)
    sign, logarithm = ops.slogdet(put(a))
    np.testing.assert_allclose(sign.numpy(), np.linalg.slogdet(a).sign, **ROUGH)
    np.testing.assert_allclose(logarithm.numpy(), np.linalg.slogdet(a).logabsdet, **ROUGH)
    for exponent in (-2, 0, 1, 5):
        power = ops.matrix_power(put(a[0] / 4), exponent).numpy()
        np.testing.assert_allclose(power, np.linalg.matrix_power(a[0] / 4, exponent), rtol=1e-2, atol=1e-3)
    definite = a @ np.conj(np.swapaxes(a, 1, 2)) + np.eye(5, dtype=dtype)
    for upper in (False, True):
        factor = ops.cholesky(put(definite), upper=upper)
        np.testing.assert_allclose(
            definite @ ops.cholesky_solve(put(b), factor, upper=upper).numpy(), b, rtol=1e-2, atol=1e-2
        )


@pytest.mark.parametrize("dtype", NUMBERS)
def test_eigenvalues_and_singular_values(put: Put, random: np.random.Generator, dtype: str) -> None:
    a = matrices(random, dtype, 2, 5, 3)
    square = a @ np.conj(np.swapaxes(a, 1, 2))
    values, vectors = ops.eigh(put(square))
    np.testing.assert_allclose(values.numpy(), np.linalg.eigvalsh(square), **ROUGH)
    np.testing.assert_allclose(ops.eigvalsh(put(square), upper=True).numpy(), values.numpy(), **ROUGH)
    np.testing.assert_allclose(square @ vectors.numpy(), vectors.numpy() * values.numpy()[:, None], **ROUGH)
    general = ops.eig(put(square))
    np.testing.assert_allclose(
        square @ general.vectors.numpy(), general.vectors.numpy() * general.values.numpy()[:, None], **ROUGH
    )
    for full in (False, True):
        u, s, vh = ops.svd(put(a), full_matrices=full)
        assert u.shape == (2, 5, 5 if full else 3) and vh.shape == (2, 3, 3)
        np.testing.assert_allclose(u.numpy()[..., :3] * s.numpy()[:, None] @ vh.numpy(), a, **ROUGH)
    np.testing.assert_allclose(ops.svdvals(put(a)).numpy(), s.numpy(), **ROUGH)
    np.testing.assert_allclose(ops.pinv(put(a)).numpy(), np.linalg.pinv(a), **ROUGH)
    assert ops.matrix_rank(put(square), relative_tolerance=1e-4).numpy().tolist() == [3, 3]
    b = matrices(random, dtype, 2, 5, 2)
    np.testing.assert_allclose(ops.lstsq(put(a), put(b)).numpy(), np.linalg.pinv(a) @ b, **ROUGH)
    for complete in (False, True):
        q, r = ops.qr(put(a), complete=complete)
        assert q.shape == (2, 5, 5 if complete else 3)
        np.testing.assert_allclose(q.numpy() @ r.numpy(), a, **ROUGH)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "shape", [(1, 4, 4), (11, 5, 5), (2, 16, 16), (3, 33, 20), (5, 20, 33), (9, 64, 64), (2, 1, 1)]
)
def test_factorizations_of_many_small_matrices(
    put: Put, random: np.random.Generator, dtype: str, shape: tuple[int, int, int]
) -> None:
    """Of as many as fit beside each other, and of those that are left: each as if it were alone."""
    a = matrices(random, dtype, *shape)
    a[-1, :, 0] = 0  # without a pivot
    for x in (a, np.swapaxes(a, 1, 2).copy().swapaxes(1, 2)):
        result = ops.lu(put(x))
        pivots, factors = result.pivots.numpy(), result.lu.numpy()
        side = min(shape[1:])
        for matrix, own, lu in zip(a, pivots, factors):
            rows = np.arange(shape[1])
            for k, pivot in enumerate(own):
                assert k <= pivot < shape[1]
                rows[[k, pivot]] = rows[[pivot, k]]
            lower, upper = np.tril(lu, -1)[:, :side] + np.eye(shape[1], side, dtype=dtype), np.triu(lu)[:side]
            assert np.abs(lower).max() <= 1
            np.testing.assert_allclose(lower @ upper, matrix[rows], **ROUGH)
        for complete in (False, True):
            q, r = (part.numpy() for part in ops.qr(put(x), complete=complete))
            np.testing.assert_allclose(q @ r, a, **ROUGH)
            np.testing.assert_allclose(np.swapaxes(q, 1, 2) @ q, np.tile(np.eye(q.shape[2]), (len(a), 1, 1)), **ROUGH)
            assert (np.tril(r, -1) == 0).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("shape", [(1, 300, 47), (2, 41, 250), (3, 130, 96), (1, 100, 100)])
def test_qr_of_several_panels(put: Put, random: np.random.Generator, dtype: str, shape: tuple[int, int, int]) -> None:
    a = matrices(random, dtype, *shape)
    a[-1, :, 1] = 0  # of lower rank
    for complete in (False, True):
        q, r = (part.numpy() for part in ops.qr(put(a), complete=complete))
        assert q.shape[2] == (shape[1] if complete else min(shape[1:]))
        np.testing.assert_allclose(q @ r, a, **ROUGH)
        np.testing.assert_allclose(
            np.swapaxes(q, 1, 2).conj() @ q, np.tile(np.eye(q.shape[2]), (len(a), 1, 1)), **ROUGH
        )
        assert (np.tril(r, -1) == 0).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [3, 4, 21])
def test_eigenvalues_of_many_small_matrices(put: Put, random: np.random.Generator, dtype: str, count: int) -> None:
    """Of one triangle, of values that repeat, of nothing but zeros, of sizes that no square can have."""
    for n in (1, 2, 7, 16, 25, 33):
        a = matrices(random, dtype, count, n, n)
        a = a + np.swapaxes(a, 1, 2)
        q = np.linalg.qr(a[0].astype("float64"))[0]
        a[0] = q @ np.diag([1.0, *[2.0] * (n - 1)]) @ q.T
        a[1] = 0
        a[2] *= np.sqrt(np.finfo(dtype).max)
        for upper in (False, True):
            reads = np.triu(np.ones((n, n), bool)) if upper else np.tril(np.ones((n, n), bool))
            given = np.where(reads, a, np.nan if n % 2 else 0).astype(dtype)
            values, vectors = (part.numpy().astype("float64") for part in ops.eigh(put(given), upper=upper))
            whole = a.astype("float64")
            sizes = np.abs(whole).max((1, 2), initial=0)[:, None] + np.finfo(dtype).tiny
            roundoff = 30 * n * np.finfo(dtype).eps
            assert (np.abs(values - np.linalg.eigvalsh(whole)) <= roundoff * n * sizes).all()
            assert (np.diff(values, axis=1) >= 0).all()
            np.testing.assert_allclose(
                np.swapaxes(vectors, 1, 2) @ vectors, np.tile(np.eye(n), (count, 1, 1)), rtol=0, atol=roundoff
            )
            difference = np.abs(whole @ vectors - vectors * values[:, None])
            assert (difference <= roundoff * n * sizes[..., None]).all()
            alone = ops.eigvalsh(put(given), upper=upper).numpy()
            assert (np.abs(values - alone) <= roundoff * n * sizes).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "shape", [(3, 5, 4), (4, 5, 5), (21, 16, 16), (13, 3, 40), (13, 40, 3), (9, 25, 28), (9, 33, 40), (5, 1, 1)]
)
def test_singular_values_of_many_small_matrices(
    put: Put, random: np.random.Generator, dtype: str, shape: tuple[int, int, int]
) -> None:
    """Of values that repeat, of nothing but zeros, of a rank less, of sizes that no square can have."""
    count, m, n = shape
    a = matrices(random, dtype, *shape)
    a[0] = np.eye(m, n) * 3
    a[1] = 0
    a[2] *= np.sqrt(np.finfo(dtype).max)
    a[-1, :, 0] = a[-1, :, -1]
    whole = a.astype("float64")
    u, values, vh = (part.numpy().astype("float64") for part in ops.svd(put(a)))
    k = min(m, n)
    roundoff = 30 * max(m, n) * np.finfo(dtype).eps
    sizes = np.abs(whole).max((1, 2))[:, None] * k + np.finfo(dtype).tiny
    assert (np.abs(values - np.linalg.svd(whole, compute_uv=False)) <= roundoff * sizes).all()
    assert (np.diff(values, axis=1) <= 0).all() and (values >= 0).all()
    for columns in (u, np.swapaxes(vh, 1, 2)):
        products = np.swapaxes(columns, 1, 2) @ columns
        np.testing.assert_allclose(products, np.tile(np.eye(k), (count, 1, 1)), rtol=0, atol=roundoff)
    assert (np.abs(u * values[:, None] @ vh - whole) <= roundoff * sizes[..., None]).all()
    alone = ops.svdvals(put(a)).numpy()
    assert (np.abs(values - alone) <= roundoff * sizes).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_matrix_that_is_not_finite_or_tiny_does_not_touch_those_beside_it(
    put: Put, random: np.random.Generator, dtype: str
) -> None:
    a = matrices(random, dtype, 12, 6, 6)
    alone_lu, (alone_q, alone_r) = ops.lu(put(a)).lu.numpy(), (part.numpy() for part in ops.qr(put(a)))
    alone_values, alone_singular = ops.eigvalsh(put(a)).numpy(), ops.svdvals(put(a)).numpy()
    tiny = np.finfo(dtype).tiny
    odd = a.copy()
    odd[2, 3, 3], odd[5, 0, 1], odd[9] = np.nan, np.inf, a[9] * tiny * 8
    lu, (q, r) = ops.lu(put(odd)).lu.numpy(), (part.numpy() for part in ops.qr(put(odd)))
    finite = put(np.where(np.isfinite(odd), odd, 0).astype(dtype))
    values, singular = ops.eigvalsh(finite).numpy(), ops.svdvals(finite).numpy()
    others = [i for i in range(12) if i not in (2, 5, 9)]
    np.testing.assert_array_equal(lu[others], alone_lu[others])
    np.testing.assert_array_equal(q[others], alone_q[others])
    np.testing.assert_array_equal(r[others], alone_r[others])
    np.testing.assert_array_equal(values[others], alone_values[others])
    np.testing.assert_array_equal(singular[others], alone_singular[others])
    assert np.isnan(lu[2]).any() and np.isnan(r[2]).any() and not np.isfinite(lu[5]).all()
    np.testing.assert_allclose(np.swapaxes(q[9], 0, 1) @ q[9], np.eye(6), **ROUGH)


def test_linear_algebra_says_what_it_takes(put: Put) -> None:
    singular = np.ones((2, 3, 3), np.float32)
    singular[0] = np.eye(3)
    with pytest.raises(unihal.InvalidArgumentError, match="solve: matrix 1 is singular: u.2, 2."):
        ops.solve(put(singular), put(np.ones((2, 3, 1), np.float32)))
    with pytest.raises(unihal.InvalidArgumentError, match="inv: the matrix is singular"):
        ops.inv(put(singular[1]))
    with pytest.raises(unihal.InvalidArgumentError, match="inv: matrix 1 is singular: u.2, 2."):
        ops.inv(put(np.stack([np.eye(70), np.ones((70, 70))]).astype(np.float32)))
    assert ops.det(put(singular)).numpy().tolist() == [1, 0]
    with pytest.raises(unihal.InvalidArgumentError, match="minor of order 2 is not positive"):
        ops.cholesky(put(np.diag([1.0, -1, 1])))
    assert np.isnan(ops.cholesky(put(np.diag([1.0, -1, 1])), check=False).numpy()[0, 0])
    with pytest.raises(unihal.InvalidArgumentError, match="svd: the matrix has infinity or NaN"):
        ops.svd(put(np.full((2, 2), np.nan)))
    with pytest.raises(unihal.InvalidArgumentError, match="lu takes float32, .* not float16; cast it first"):
        ops.lu(put(np.ones((2, 2), np.float16)))
    with pytest.raises(unihal.InvalidArgumentError, match="square matrices"):
        ops.cholesky(put(np.ones((2, 3), np.float32)))
    with pytest.raises(unihal.InvalidArgumentError, match="expected .*n, n. and"):
        ops.triangular_solve(put(np.ones((3, 3), np.float32)), put(np.ones((2, 3), np.float32)))


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize(
    ("n", "columns"),
    [(1, 16), (5, 17), (16, 15), (31, 48), (64, 97), (65, 40), (128, 32), (200, 70), (200, 31), (1100, 20)],
)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("a_in_columns", [False, True])
@pytest.mark.parametrize("x_in_columns", [False, True])
def test_triangular_systems_in_vectors_and_halves(
    put: Put,
    random: np.random.Generator,
    dtype: str,
    n: int,
    columns: int,
    upper: bool,
    a_in_columns: bool,
    x_in_columns: bool,
) -> None:
    """Panels and vectors that are full and not, whichever way operands lie; the other triangle is not read."""
    a = matrices(random, dtype, n, n) / n + 2 * np.eye(n, dtype=dtype)
    b = matrices(random, dtype, n, columns)
    read = np.triu(a) if upper else np.tril(a)
    a[np.tril_indices(n, -1) if upper else np.triu_indices(n, 1)] = np.nan
    given = put(np.ascontiguousarray(a.T)).transpose() if a_in_columns else put(a)
    out = put(np.zeros((columns, n), dtype)).transpose() if x_in_columns else None
    for unit in (False, True):
        for conjugate in (False, True):
            matrix = read - np.diag(np.diag(read)) + np.eye(n) if unit else read
            matrix = matrix.conj() if conjugate else matrix
            x = ops.triangular_solve(
                given, put(b), upper=upper, unit_diagonal=unit, conjugate=conjugate, out=out
            ).numpy()
            # Substitution's backward error (Higham, theorem 8.5), with room for a product's order.
            bound = 2 * n * np.finfo(dtype).eps * (np.abs(matrix) @ np.abs(x))
            assert (np.abs(matrix.astype(np.complex128) @ x - b) <= bound).all()
