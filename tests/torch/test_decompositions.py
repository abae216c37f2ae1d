"""Factors, eigenvalues and least squares of matrices of unusual sizes and numbers, beside PyTorch's CPU."""

from __future__ import annotations

import math

import pytest
import torch
from beside_cpu import DEVICE, FLOATS, check


def _symmetric(count: int, side: int, dtype: torch.dtype) -> torch.Tensor:
    x = torch.randn(count, side, side, dtype=dtype)
    x = x + x.mT
    x[0] = 0.0
    x[1] = torch.eye(side)  # one value, many times
    x[2] *= 2.0 ** (100 if dtype == torch.float32 else 900)
    x[3] *= 2.0 ** (-120 if dtype == torch.float32 else -1000)
    x[4] = torch.diag(torch.arange(side, 0, -1, dtype=dtype))
    x[5] = 1.0  # of rank 1
    x[6] *= 2.0 ** (-138 if dtype == torch.float32 else -1062)  # denormal
    return x


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("side", [1, 2, 3, 8, 9, 16, 17, 24, 25])
@pytest.mark.parametrize("upper", [False, True])
def test_eigenvalues_of_many_small_matrices(dtype: torch.dtype, side: int, upper: bool) -> None:
    torch.manual_seed(side)
    x = _symmetric(19, side, dtype)
    triangle = "U" if upper else "L"
    half = (x.triu() if upper else x.tril()).to(DEVICE)  # the other half is not looked at
    values, vectors = (part.cpu().double() for part in torch.linalg.eigh(half, UPLO=triangle))
    norms = x.double().abs().amax((1, 2)).clamp(min=torch.finfo(dtype).tiny)[:, None] * max(side, 2)
    limit = 16 * torch.finfo(dtype).eps
    exact = torch.linalg.eigvalsh(x.double())
    assert bool(((values - exact).abs() <= limit * norms).all())
    assert bool((values.diff(dim=1) >= 0).all())
    alone = torch.linalg.eigvalsh(half, UPLO=triangle).cpu().double()
    assert bool(((alone - exact).abs() <= limit * norms).all())
    identity = torch.eye(side, dtype=torch.float64)
    assert bool(((vectors.mT @ vectors - identity).abs() <= limit * max(side, 2)).all())
    again = vectors @ (values[:, :, None] * vectors.mT)
    assert bool(((again - x.double()).abs() <= limit * norms[:, :, None]).all())


@pytest.mark.parametrize("number", [math.nan, math.inf])
@pytest.mark.parametrize("side", [2, 3, 4])
def test_small_matrices_without_eigenvalues(number: float, side: int) -> None:
    x = _symmetric(8, side, torch.float32)
    x[7, side - 1, 0] = number
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.eigh(x.to(DEVICE))


@pytest.mark.parametrize("driver", [None, "gels", "gelsd"])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(
    ("left", "right"),
    [((1, 5, 3), (4, 5)), ((4, 5, 3), (1, 5)), ((2, 1, 5, 3), (1, 3, 5)), ((1, 3, 5), (4, 3)), ((4, 5, 3), (4, 5))],
)
def test_least_squares_of_broadcast_batches(
    driver: str | None, columns: int, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    # Few columns go another way than many, and a rank that is surely full another one than one that is not.
    torch.manual_seed(5)
    a, b = torch.randn(left, dtype=torch.float64), torch.randn(*right, columns, dtype=torch.float64)
    check(lambda x, y: torch.linalg.lstsq(x, y, driver=driver)[0], a, b, exact=False, rtol=1e-11, atol=1e-11)
    check(lambda x, y: torch.linalg.lstsq(x, y, driver=driver)[2], a, b)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("other", [math.nan, math.inf, -math.inf, 1e30, 30.0])
def test_exponentials_of_matrices_beside_others(dtype: torch.dtype, other: float) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 3, 3, dtype=dtype) * torch.tensor([0.01, 1, 7]).reshape(3, 1, 1)
    x[1, 1] = other * torch.eye(3, dtype=dtype)
    single = dtype in (torch.float32, torch.complex64)
    found, expected = torch.linalg.matrix_exp(x.to(DEVICE)).cpu(), torch.linalg.matrix_exp(x)
    for ours, theirs in zip(found.flatten(0, 1), expected.flatten(0, 1)):
        if theirs.abs().isfinite().all():
            scale = float(theirs.abs().max())
            torch.testing.assert_close(ours / scale, theirs / scale, rtol=0, atol=1e-5 if single else 1e-13)
        else:
            assert bool(ours.abs().isnan().any())


@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("side", [1, 3, 70])
@pytest.mark.parametrize("upper", [False, True])
def test_factors_of_matrices_with_nan(dtype: torch.dtype, side: int, upper: bool) -> None:
    x = torch.eye(side, dtype=dtype).repeat(3, 1, 1)
    x[1, side // 2, side // 2] = math.nan
    x[2, side - 1, 0] = x[2, 0, side - 1] = math.nan
    check(lambda a: torch.linalg.cholesky_ex(a, upper=upper).info, x)
    check(lambda a: torch.linalg.cholesky_ex(a, upper=upper).info, x.mT)
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.cholesky(x.to(DEVICE))


@pytest.mark.parametrize("driver", ["gels", "gelsd", "gelss"])
def test_least_squares_of_nothing(driver: str) -> None:
    for a, b in (((0, 3, 2), (0, 3, 1)), ((3, 0), (3, 1)), ((3, 2), (3, 0)), ((2, 3, 0), (2, 3, 2)), ((0, 2), (0, 1))):
        check(lambda x, y: tuple(torch.linalg.lstsq(x, y, driver=driver)), torch.zeros(a), torch.ones(b))


@pytest.mark.parametrize("rcond", [-1.0, 0.0, 2.0, 1e-3])
@pytest.mark.parametrize("driver", ["gelsd", "gelss"])
@pytest.mark.parametrize("least", [0.5, 9e-8, 5e-8, 1e-9, 0.0])
def test_ranks_of_least_squares(rcond: float, driver: str, least: float) -> None:
    x = torch.tensor([[1, 0], [0, least], [0, 0]])
    check(lambda a: torch.linalg.lstsq(a, torch.ones(3, 1, device=a.device), rcond, driver=driver).rank, x)


def test_least_squares_of_zeros() -> None:
    for x in (torch.zeros(3, 2), torch.zeros(2, 3), torch.stack([torch.zeros(3, 2), torch.eye(3, 2)])):
        b = torch.ones(*x.shape[:-1], 2)
        check(lambda a, y: tuple(torch.linalg.lstsq(a, y, driver="gels")), x, b, exact=False, rtol=1e-6, atol=1e-6)


def test_singular_values_of_infinities() -> None:
    x = torch.stack([torch.eye(2), torch.full((2, 2), math.inf), torch.tensor([[math.inf, 0], [0, 1]])])
    check(torch.linalg.svdvals, x, exact=False, rtol=1e-6, atol=0.0)
    check(lambda a: torch.linalg.matrix_norm(a, 2), x, exact=False, rtol=1e-6, atol=0.0)
    check(lambda a: torch.linalg.svd(a[1]), x)


def test_decompositions_into_their_operands() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 3)
    x = x + x.mT

    def like(a: torch.Tensor, *sizes: int) -> torch.Tensor:
        return torch.empty(*sizes, dtype=a.dtype, device=a.device)

    def compose(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first, second, third, fourth = (a.clone() for _ in range(4))
        q, r = torch.linalg.qr(first, out=(first, like(a, 3, 3)))
        w, v = torch.linalg.eigh(second, out=(like(a, 3), second))
        u, s, vh = torch.linalg.svd(third, out=(third, like(a, 3), like(a, 3, 3)))
        values = torch.linalg.svdvals(fourth, out=fourth[0])
        return q @ r, v * w @ v.mT, u * s @ vh, values

    check(compose, x, exact=False, rtol=1e-5, atol=1e-5)
    check(
        lambda a: torch.linalg.eigvals(a, out=torch.empty(3, dtype=torch.complex128, device=a.device)),
        torch.diag(torch.tensor([1.0, 2.0, 3.0])),
    )
