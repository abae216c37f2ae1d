"""Gradients of factorizations, and what is made of LU factors, against the CPU with fallbacks forbidden. Results are such
as do not depend on signs and phases, which a factorization may choose. Complex matrices are made of two real inputs, so
that gradients are compared by parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest
from comparison import DEVICE, Array, check, on, random

L = paddle.linalg
TOLERANCE = {"float32": 2e-3, "float64": 1e-8}


def adjoint(x: Any) -> Any:
    return x.mT.conj()


def parts(x: Any) -> list[Any]:
    return [paddle.real(x), paddle.imag(x)] if x.is_complex() else [x]


def of_det(a: Any) -> list[Any]:
    return parts(L.det(a / 2))


def of_slogdet(a: Any) -> list[Any]:
    return [paddle.real(L.slogdet(a)[1])]


def of_inverse(a: Any) -> list[Any]:
    return parts(L.inv(a))


def of_power(a: Any) -> list[Any]:
    return [part for n in (-2, 3) for part in parts(L.matrix_power(a / 4, n))]


def of_eigh(a: Any) -> list[Any]:
    values, vectors = L.eigh(a + adjoint(a))
    return [values, *parts(vectors * paddle.sin(values).unsqueeze(-2).astype(a.dtype) @ adjoint(vectors))]


def of_eigvalsh(a: Any) -> list[Any]:
    return [L.eigvalsh(a + adjoint(a))]


def of_eig(a: Any) -> list[Any]:
    values, vectors = L.eig(a / 4)
    return [*parts((values**3).sum(-1)), (vectors.abs() ** 4).sum([-1, -2])]


def of_qr(a: Any) -> list[Any]:
    return [factor.abs() for factor in L.qr(a[..., :3])] + [L.qr(a[..., :2, :])[1].abs()]


def of_svd(a: Any) -> list[Any]:
    wide = L.svd(a[..., :3, :])
    u, s, vh = L.svd(a[..., :3])
    return [u.abs(), s, vh.abs(), *parts(u @ vh), *parts(wide[0] @ wide[2])]


def of_lu(a: Any) -> list[Any]:
    factors, pivots = L.lu(a)
    _, lower, upper = L.lu_unpack(factors, pivots)
    return parts(lower) + parts(upper)


def of_lu_solve(a: Any) -> list[Any]:
    factors, pivots = L.lu(a)
    right = a[..., :2] * 0.5
    return [part for trans in "NT" for part in parts(L.lu_solve(right, factors, pivots, trans))]


FUNCTIONS = (of_det, of_slogdet, of_inverse, of_power, of_eigh, of_eigvalsh, of_eig, of_qr, of_svd, of_lu, of_lu_solve)


def matrices(*shape: int, seed: int = 0) -> Array:
    """Well-conditioned, with eigenvalues and singular values apart, and pivots that exchange rows."""
    side = shape[-1]
    return random(*shape, seed=seed) / 3 + np.diag(np.arange(1.0, side + 1))[::-1].astype("float32")


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__[3:])
def test_gradients(function: Callable[..., Any], dtype: str) -> None:
    tolerance = TOLERANCE[dtype]
    for shape in ((4, 4), (2, 4, 4)):
        check(function, matrices(*shape), dtype=dtype, tolerance=tolerance)
        check(
            lambda re, im: function(paddle.complex(re, im)),
            *(matrices(*shape), random(*shape, seed=4) / 3),
            dtype=dtype,
            tolerance=tolerance,
        )


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_solve(dtype: str) -> None:
    for shape, columns in (((4, 4), (4, 2)), ((2, 4, 4), (2, 4, 3)), ((4, 4), (3, 4, 2)), ((4, 4), (4,))):
        check(L.solve, matrices(*shape), random(*columns, seed=2), dtype=dtype, tolerance=TOLERANCE[dtype])


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
def test_least_squares(driver: str) -> None:
    for shape, columns in (((5, 3), (5, 2)), ((3, 5), (3, 2)), ((2, 4, 3), (2, 4, 1)), ((4, 4), (4, 2))):
        for dtype, tolerance in (("float32", 1e-3), ("float64", 1e-9)):
            check(
                lambda a, b: [x for x in L.lstsq(a, b, driver=driver) if x.size > 0],
                *(random(*shape), random(*columns, seed=2)),
                dtype=dtype,
                gradient=False,
                tolerance=tolerance,
            )


def test_least_squares_without_full_rank() -> None:
    a = random(5, 2) @ random(2, 3, seed=1)  # of rank 2
    b = random(5, 2, seed=2)
    for driver in ("gelsy", "gelsd", "gelss"):
        with on(DEVICE):
            found = L.lstsq(paddle.to_tensor(a), paddle.to_tensor(b), rcond=1e-4, driver=driver)
            solution, residuals, rank = (each.numpy() for each in found[:3])
        np.testing.assert_allclose(solution, np.linalg.lstsq(a, b, rcond=1e-4)[0], atol=1e-4)
        assert rank == 2 and residuals.size == 0


def test_pivots() -> None:
    for shape in ((5, 3), (3, 5), (2, 4, 4)):
        a = random(*shape)
        with on(DEVICE):
            p, lower, upper = (x.numpy() for x in L.lu_unpack(*L.lu(paddle.to_tensor(a))))
        np.testing.assert_allclose(p @ lower @ upper, a, atol=1e-5)
    with on(DEVICE):
        factors, pivots = L.lu(paddle.to_tensor(random(3, 3)))
        with pytest.raises(ValueError, match="a pivot is 9, expected 1 to 3"):
            L.lu_unpack(factors, paddle.full_like(pivots, 9))
        with pytest.raises(ValueError, match="valid driver"):
            L.lstsq(factors, factors, driver="qr")
