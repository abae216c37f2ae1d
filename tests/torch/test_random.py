"""Random numbers: their ranges, and what their distributions never give."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from beside_cpu import DEVICE, FLOATS, check


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (-(2**63), 2**63 - 1),
        (2**60, 2**60 + 10),
        (2**53, 2**53 + 3),
        (0, 2**62 + 12345),
        (-(2**63), -(2**63) + 5),
        (-3, 4),
    ],
)
def test_whole_numbers_beyond_those_of_doubles(low: int, high: int) -> None:
    torch.manual_seed(0)
    numbers = torch.randint(low, high, (3, 4000), device=DEVICE).cpu()
    assert low <= int(numbers.min()) and int(numbers.max()) < high
    assert len(numbers.unique()) == min(high - low, numbers.numel())
    assert abs(np.mean([(int(n) - low) / (high - 1 - low) for n in numbers.flatten()]) - 0.5) < 0.02
    turned = torch.empty(40, 30, dtype=torch.int64, device=DEVICE).t().random_(low, high).cpu()
    assert low <= int(turned.min()) and int(turned.max()) < high


def test_whole_numbers_of_no_range() -> None:
    torch.manual_seed(0)
    empty = torch.empty(4000, dtype=torch.int64, device=DEVICE)
    numbers = empty.clone().random_().cpu()
    assert int(numbers.min()) >= 0 and int(numbers.max()) > 2**62
    numbers = empty.clone().random_(-(2**63), None).cpu()
    assert int(numbers.min()) < -(2**62) and int(numbers.max()) > 2**62
    assert int(empty.clone().random_(2**63 - 5, None).cpu().min()) >= 2**63 - 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_waiting_times_are_not_zero(dtype: torch.dtype) -> None:
    torch.manual_seed(0)  # of 2^23 uniform numbers one is 0
    assert all(bool((torch.empty(1 << 22, dtype=dtype, device=DEVICE).exponential_() > 0).all()) for _ in range(8))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gamma_numbers_of_small_shapes(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    limits = torch.finfo(dtype)
    small = torch.full((20000,), 0.001, dtype=dtype, device=DEVICE)
    assert float(torch._standard_gamma(small).min()) == limits.smallest_normal
    edges = torch.tensor([0.0, -1.0, math.nan, math.inf], dtype=dtype)
    assert torch.equal(torch._standard_gamma(edges.to(DEVICE)).cpu(), torch._standard_gamma(edges))
    parts = torch._sample_dirichlet(torch.full((20000, 2), 0.02, dtype=dtype, device=DEVICE))
    assert parts.dtype == dtype and float(parts.min()) > 0 and float(parts.max()) < 1
    torch.testing.assert_close(parts.sum(-1), torch.ones_like(parts[:, 0]))
    for shape in (torch.zeros(2, dtype=dtype), torch.tensor([math.inf, 1], dtype=dtype)):
        assert torch.equal(torch._sample_dirichlet(shape.to(DEVICE)).cpu(), torch._sample_dirichlet(shape))


def test_binomial_numbers_outside_the_domain() -> None:
    check(torch.binomial, torch.tensor([-3.0, 2.0, 2.0, 0.0]), torch.tensor([0.5, -1.0, 2.0, 0.5]))


@pytest.mark.parametrize("mean", [torch.float16, torch.float32, torch.float64, torch.complex64], ids=str)
@pytest.mark.parametrize("deviation", FLOATS, ids=str)
def test_normal_numbers_have_the_mean_s_dtype(mean: torch.dtype, deviation: torch.dtype) -> None:
    parts = torch.zeros(3, 1, dtype=mean), torch.zeros(2, dtype=deviation)
    check(torch.normal, *parts)
