"""Gradients of factorizations, and what is made of LU factors, with fallbacks forbidden.

Results, such as do not depend on signs and phases that a factorization may choose, are compared with the CPU's.
Gradients are compared with finite differences of the CPU's results, since some of the CPU's gradients are wrong: of
complex powers, of complex singular vectors where both sides count, of lu_solve. Complex matrices are made of two real
inputs, so that gradients are compared by parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest
from comparison import DEVICE, Array, assert_equal, check, flatten, on, random, run

L = paddle.linalg
TOLERANCE = {"float32": 2e-3, "float64": 1e-8}


def adjoint(x: Any) -> Any:
    return x.mT.conj()


def parts(x: Any) -> list[Any]:
    return [paddle.real(x), paddle.imag(x)] if x.is_complex() else [x]


def of_det(a: Any) -> list[Any]:
    return parts(L.det(a / 2))


def of_slogdet(a: Any) -> list[Any]:
    return parts(L.slogdet(a)[1])[:1]


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
    return [factor.abs() for part in (a, a[..., :3], a[..., :2, :]) for factor in L.qr(part)]


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


FUNCTIONS = (of_det, of_slogdet, of_inverse, of_power, of_eigh, of_eigvalsh, of_qr, of_svd, of_lu, of_lu_solve)


def matrices(*shape: int, seed: int = 0) -> Array:
    """Well-conditioned, with eigenvalues and singular values apart, and pivots that exchange rows."""
    side = shape[-1]
    return random(*shape, seed=seed) / 3 + np.diag(np.arange(1.0, side + 1))[::-1].astype("float32")


def loss(function: Callable[..., Any], inputs: list[Array]) -> float:
    """What run() differentiates, by the CPU in float64."""
    with on("cpu"), paddle.no_grad():
        results = flatten(function(*(paddle.to_tensor(x) for x in inputs)))
    return sum(float((x.numpy() * random(*x.shape, seed=7)).sum()) for x in results)


def differences(function: Callable[..., Any], inputs: list[Array]) -> list[Array]:
    """The gradients by central differences."""
    step = 1e-6
    gradients = [np.zeros_like(x) for x in inputs]
    for gradient, x in zip(gradients, inputs, strict=True):
        for at in np.ndindex(*x.shape):
            value = x[at]
            around = []
            for x[at] in (value + step, value - step):
                around.append(loss(function, inputs))
            x[at] = value
            gradient[at] = (around[0] - around[1]) / (2 * step)
    return gradients


# Paddle makes no real gradient of a complex one on the devices of its plugins.
CASES = [(function, is_complex) for function in FUNCTIONS for is_complex in (False, True)] + [(of_eig, True)]


@pytest.mark.parametrize(
    ("function", "is_complex"), CASES, ids=lambda x: x.__name__[3:] if callable(x) else "complex" if x else "real"
)
def test_gradients(function: Callable[..., Any], is_complex: bool) -> None:
    call = (lambda re, im: function(paddle.complex(re, im))) if is_complex else function
    for shape in ((4, 4), (2, 3, 3)):
        inputs = [matrices(*shape), random(*shape, seed=4) / 3][: 1 + is_complex]
        expected = differences(call, [x.astype("float64") for x in inputs])
        for dtype, tolerance in (("float32", 5e-3), ("float64", 1e-6)):
            results, _ = run(call, inputs, "cpu", dtype, False)
            ours, gradients = run(call, inputs, DEVICE, dtype, True)
            assert_equal((ours, gradients), (results, expected), tolerance)


def test_results_that_nothing_is_made_of() -> None:
    x = random(4, 3)
    with on(DEVICE):
        for function, sides in (
            (L.qr, 2),
            (L.svd, 3),
            (lambda a: L.eigh(a[:3]), 2),
            (lambda a: L.lu_unpack(*L.lu(a[:3])), 3),
        ):
            for which in range(sides):
                a = paddle.to_tensor(x)
                a.stop_gradient = False
                result = function(a)[which]
                if not result.stop_gradient:
                    result.abs().sum().backward()
                    assert np.isfinite(a.grad.numpy()).all()


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
