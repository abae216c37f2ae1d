"""Gradients of factorizations and of what follows from them, in all four dtypes, against the CPU, without fallbacks.
Results are such as do not depend on signs and phases, which a factorization may choose."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

DEVICE = torch._C._get_privateuse1_backend_name()
L = torch.linalg
Function = Callable[[torch.Tensor], list[torch.Tensor]]


def of_eigh(a: torch.Tensor) -> list[torch.Tensor]:
    values, vectors = L.eigh(a + a.mH)
    return [values, (vectors * torch.sin(values)[..., None, :].to(a.dtype)) @ vectors.mH]


def of_svd(a: torch.Tensor) -> list[torch.Tensor]:
    u, _, vh = L.svd(a, full_matrices=False)
    return [*(part.abs() for part in L.svd(a[..., :3], full_matrices=False)), u @ vh]


FUNCTIONS: dict[str, Function] = {
    "cholesky": lambda a: [L.cholesky(a @ a.mH + torch.eye(4, dtype=a.dtype, device=a.device))],
    "det": lambda a: [L.det(a)],
    "eig": lambda a: [(L.eig(a)[0] ** 3).sum(-1)],
    "eigh": of_eigh,
    "inv": lambda a: [L.inv(a)],
    "lstsq": lambda a: [L.lstsq(a[..., :3], a[..., :2] * 0.5)[0]],
    "lu": lambda a: list(L.lu(a)[1:]),
    "lu_solve": lambda a: [L.lu_solve(*L.lu_factor(a), a[..., :2] * 0.5)],
    "pinv": lambda a: [L.pinv(a[..., :3])],
    "qr": lambda a: [part.abs() for part in L.qr(a[..., :3])],
    "slogdet": lambda a: [L.slogdet(a)[1]],
    "solve": lambda a: [L.solve(a, a[..., :2] * 0.5)],
    "solve_triangular": lambda a: [L.solve_triangular(a, a * 0.5, upper=True)],
    "svd": of_svd,
}


@pytest.fixture(autouse=True)
def no_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIHAL_STRICT", "1")


TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-9, torch.complex64: 1e-3, torch.complex128: 1e-9}


def gradient(function: Function, base: torch.Tensor, device: str) -> torch.Tensor:
    """Of a sum in which each part of each result has a weight of its own."""
    a = base.clone().to(device).requires_grad_()
    generator = torch.Generator().manual_seed(1)
    loss = torch.zeros((), dtype=torch.float64, device=device)
    for result in function(a):
        parts = torch.view_as_real(result) if result.is_complex() else result
        weights = torch.randn(parts.shape, generator=generator, dtype=torch.float64).to(device)
        loss = loss + (parts.double() * weights).sum()
    loss.backward()
    assert a.grad is not None and a.grad.device.type == torch.device(device).type
    return a.grad.cpu()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(2, 4, 4, dtype=dtype, generator=generator) / 3
    base = noise + torch.diag(torch.arange(1.0, 5)).to(dtype)
    expected = gradient(FUNCTIONS[name], base, "cpu")
    actual = gradient(FUNCTIONS[name], base, DEVICE)
    scale = max(1.0, expected.abs().max().item())
    assert (actual - expected).abs().max().item() <= TOLERANCE[dtype] * scale
