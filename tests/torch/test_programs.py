"""What a program counts on beside single ops: parameters that stay, an end, profiles, the same bits again."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
import unihal
from torch import nn

DEVICE = torch._C._get_privateuse1_backend_name()


def test_a_moved_module_keeps_its_parameters() -> None:
    """Those that two parts share stay shared, and an optimizer that was made before knows them, as with CUDA."""
    table, head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
    head.weight = table.weight
    model = nn.ModuleList([table, head])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model.to(DEVICE)
    assert head.weight is table.weight and table.weight.device.type == DEVICE
    before = table.weight.detach().cpu().clone()
    head(table(torch.tensor([1, 2], device=DEVICE))).sum().backward()
    optimizer.step()
    assert not torch.equal(table.weight.detach().cpu(), before)
    model.cpu()
    assert head.weight is table.weight and table.weight.device.type == "cpu"


def test_data_of_another_device_may_be_taken_over() -> None:
    x = torch.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    x.data = x.data.to(DEVICE)
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [3.0] * 3 and x.grad.device.type == DEVICE


def test_a_program_that_ends_with_backward_ends_well() -> None:
    """PyTorch's thread for a device's gradients must not be waiting for Python when that ends."""
    program = f"import torch\nx = torch.randn(3, 4, device='{DEVICE}', requires_grad=True)\n(x * 2).sum().backward()\n"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", program], check=True, env=dict(os.environ), timeout=120)


def test_channels_last_results_are_right() -> None:
    """PyTorch's iterators name the layout of their results, and count on it."""
    torch.manual_seed(0)
    x, y = (torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last) for _ in range(2))
    a, b = (t.to(DEVICE, memory_format=torch.preserve_format) for t in (x, y))
    assert a.is_contiguous(memory_format=torch.channels_last)
    for function in (torch.add, torch.mul, torch.sub, torch.maximum, lambda s, t: torch.lerp(s, t, 0.3)):
        result = function(a, b)
        assert result.is_contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(result.cpu(), function(x, y))


@pytest.mark.parametrize("way", ["torch.profiler", "activities", "autograd"])
def test_a_profile_has_the_device_s_time_of_each_op(way: str) -> None:
    if way == "torch.profiler" and torch.cuda.is_available():
        pytest.skip("on such a machine the device that is profiled by default is PyTorch's own")
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
    profile = {
        "torch.profiler": lambda: torch.profiler.profile(),
        "activities": lambda: torch.profiler.profile(activities=activities),
        "autograd": lambda: torch.autograd.profiler.profile(use_device=DEVICE),
    }[way]()
    model, x = nn.Linear(64, 64).to(DEVICE), torch.randn(64, 64, device=DEVICE)
    with profile as found:
        model(x).sum().backward()
    times = {event.key: event.device_time_total for event in found.key_averages()}
    assert times["aten::addmm"] > 0 and times["aten::mm"] > 0
    # A PyTorch that was built for CUDA calls the times of `torch.profiler.profile()` so, whosever they are.
    names = {DEVICE.upper()} | ({"CUDA"} if torch.version.cuda else set())
    assert any(f"Self {name}" in found.key_averages().table() for name in names)


def test_deterministic_algorithms_are_what_there_is() -> None:
    """Nothing is refused, sums by index give the same bits again, and new memory is NaN."""
    torch.manual_seed(0)
    index, x = torch.randint(0, 5, (4000,), device=DEVICE), torch.randn(4000, device=DEVICE)
    image = torch.randn(1, 2, 5, 5, device=DEVICE, requires_grad=True)

    def sums() -> list[torch.Tensor]:
        zeros = torch.zeros(5, device=DEVICE)
        large = nn.functional.interpolate(image, scale_factor=2.5, mode="bicubic")
        return [
            zeros.index_add(0, index, x),
            zeros.scatter_add(0, index, x),
            zeros.index_put((index,), x, accumulate=True),
            torch.bincount(index, x),
            *torch.autograd.grad(large.square().sum(), image),
        ]

    torch.use_deterministic_algorithms(True)
    try:
        first, second = sums(), sums()
        assert all(torch.equal(a, b) for a, b in zip(first, second))
        assert bool(torch.empty(9, device=DEVICE).isnan().all())
    finally:
        torch.use_deterministic_algorithms(False)


def test_gamma_poisson_and_binomial_have_their_moments() -> None:
    torch.manual_seed(0)
    count = 20_000

    def near(x: torch.Tensor, mean: float, variance: float) -> None:
        assert x.device.type == DEVICE
        assert abs(x.mean().item() - mean) < 6 * (variance / count) ** 0.5
        assert abs(x.var().item() / variance - 1) < 0.15

    before = unihal.fallbacks()
    near(torch._standard_gamma(torch.full((count,), 2.5, device=DEVICE)), 2.5, 2.5)
    near(torch.poisson(torch.full((count,), 4.0, device=DEVICE)), 4.0, 4.0)
    near(torch.binomial(torch.full((count,), 10.0, device=DEVICE), torch.full((count,), 0.3, device=DEVICE)), 3.0, 2.1)
    near(torch.normal(torch.full((count,), 1.0, device=DEVICE), torch.full((count,), 2.0, device=DEVICE)), 1.0, 4.0)
    shares = torch._sample_dirichlet(torch.tensor([1.0, 2.0, 3.0], device=DEVICE).expand(count, 3))
    torch.testing.assert_close(shares.sum(-1).cpu(), torch.ones(count))
    torch.testing.assert_close(shares.mean(0).cpu(), torch.tensor([1 / 6, 1 / 3, 1 / 2]), rtol=0.03, atol=0.01)
    rate = torch.full((count,), 2.5, device=DEVICE, requires_grad=True)
    slope = torch.autograd.grad(torch.distributions.Gamma(rate, torch.ones_like(rate)).rsample().sum(), rate)[0]
    assert abs(slope.mean().item() - 1) < 0.05  # the mean of a gamma number is its shape
    assert unihal.fallbacks() == before


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize(("start", "end", "steps"), [(0, 100, 50), (4, 97, 50), (3, 250, 7), (200, 11, 64), (5, 5, 3)])
def test_whole_numbers_of_a_line_are_cut_off(start: int, end: int, steps: int, dtype: torch.dtype) -> None:
    """By the definition: PyTorch's CPU, whose vectors begin each at a number that was cut off, differs from it."""
    found = torch.linspace(start, end, steps, dtype=dtype, device=DEVICE).tolist()
    for i, value in enumerate(found):
        above, rest = divmod(start * (steps - 1) + (end - start) * i, steps - 1)
        # What is whole in exact numbers may be rounded to just below.
        assert value == above or (rest == 0 and value == above - 1 and 0 < i < steps - 1), (i, value, above)


@pytest.mark.parametrize("eps", [0.2, 0.5, 0.69])
def test_logit_clamps_as_on_the_cpu(eps: float) -> None:
    """Also with an epsilon above 0.5, of which the database has no sample before PyTorch 2.14."""
    x = torch.tensor([0.1, 0.3, 0.5, 0.9, float("nan")], requires_grad=True)
    ours = x.detach().to(DEVICE).requires_grad_()
    expected, actual = torch.logit(x, eps), torch.logit(ours, eps)
    torch.testing.assert_close(actual.cpu(), expected, equal_nan=True)
    (slope,), (own,) = torch.autograd.grad(expected.sum(), x), torch.autograd.grad(actual.sum(), ours)
    torch.testing.assert_close(own.cpu(), slope, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float32])
@pytest.mark.parametrize("line", [(0.0, -8.000001, -4.0), (0.0, 8.000001, 4.0), (0.5, 8.7, 2.5), (0, 7, 3), (7, 0, -3)])
def test_a_line_has_as_many_numbers_as_on_the_cpu(line: tuple[float, float, float], dtype: torch.dtype) -> None:
    assert torch.equal(torch.arange(*line, dtype=dtype, device=DEVICE).cpu(), torch.arange(*line, dtype=dtype))


def test_attention_with_dropout_in_double_precision_has_second_derivatives() -> None:
    q, k = (torch.randn(1, 2, 5, 4, dtype=torch.float64, device=DEVICE, requires_grad=True) for _ in range(2))
    result = nn.functional.scaled_dot_product_attention(q, k, k, dropout_p=0.5)
    (slope,) = torch.autograd.grad(result.sum(), q, create_graph=True)
    (second,) = torch.autograd.grad(slope.square().sum(), k)
    assert bool(second.isfinite().all()) and second.norm() > 0
