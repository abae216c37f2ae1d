"""The steps that optimizers take by default, held against the CPU's, and how many launches they are."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
import unihal
from torch import nn

DEVICE = torch._C._get_privateuse1_backend_name()
STEPS = 4

Optimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]

OPTIMIZERS: dict[str, Optimizer] = {
    "adam": lambda p: torch.optim.Adam(p, 1e-2, betas=(0.8, 0.95)),
    "adam, decay, amsgrad, maximize": lambda p: torch.optim.Adam(
        p, 1e-2, weight_decay=0.1, amsgrad=True, maximize=True
    ),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-2, weight_decay=0.1),
    "adamw, amsgrad": lambda p: torch.optim.AdamW(p, 1e-2, amsgrad=True, foreach=True),
    "sgd": lambda p: torch.optim.SGD(p, 1e-2),
    "sgd, decay, maximize": lambda p: torch.optim.SGD(p, 1e-2, weight_decay=0.1, maximize=True),
    "sgd, momentum, dampening": lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9, dampening=0.3, weight_decay=0.1),
    "sgd, nesterov": lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9, nesterov=True, foreach=True),
}


def network(dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4), nn.Tanh(), nn.Linear(4, 4)).to(dtype)


def gradients(model: nn.Module, step: int) -> None:
    """The same on every device; those of one parameter are missing in the first step."""
    generator = torch.Generator().manual_seed(step)
    for number, parameter in enumerate(model.parameters()):
        gradient = torch.randn(parameter.shape, generator=generator).to(parameter)
        parameter.grad = None if step == 0 and number == 3 else gradient


def trained(device: str, make: Optimizer, dtype: torch.dtype, first: int = 0) -> tuple[nn.Module, Any]:
    model = network(dtype).to(device)
    optimizer = make(model.parameters())
    for step in range(first, STEPS):
        gradients(model, step)
        optimizer.step()
    return model, optimizer


def fell_back() -> int:
    return sum(entry.count for entry in unihal.fallbacks())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_the_cpu(name: str, dtype: torch.dtype) -> None:
    before = fell_back()
    model, optimizer = trained(DEVICE, OPTIMIZERS[name], dtype)
    assert fell_back() == before
    expected, reference = trained("cpu", OPTIMIZERS[name], dtype)
    # The CPU rounds to bfloat16 after each of its ops, the device once a step: half a place each time.
    tolerance = {"rtol": 3e-2, "atol": 1e-2} if dtype == torch.bfloat16 else {}
    for mine, theirs in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(mine.detach().cpu(), theirs.detach(), **tolerance)
    for state, other in zip(optimizer.state.values(), reference.state.values(), strict=True):
        assert list(state) == list(other)
        for key, value in other.items():
            if value is not None:
                torch.testing.assert_close(state[key].cpu(), value, **tolerance)


def test_what_was_saved_goes_on_as_on_the_cpu() -> None:
    make = OPTIMIZERS["adamw"]
    model, optimizer = trained(DEVICE, make, torch.float32)
    saved = copy.deepcopy(optimizer.state_dict())
    on_cpu = network(torch.float32)
    on_cpu.load_state_dict({key: value.cpu() for key, value in model.state_dict().items()})
    other = make(on_cpu.parameters())
    other.load_state_dict(saved)
    for each, its_optimizer in ((model, optimizer), (on_cpu, other)):
        gradients(each, STEPS)
        its_optimizer.step()
    for mine, theirs in zip(model.parameters(), on_cpu.parameters(), strict=True):
        torch.testing.assert_close(mine.detach().cpu(), theirs.detach())


@pytest.mark.parametrize("name", ["adamw", "sgd, nesterov"])
def test_a_step_is_a_launch_a_parameter(name: str) -> None:
    model, optimizer = trained(DEVICE, OPTIMIZERS[name], torch.float32, first=1)
    gradients(model, STEPS)
    getattr(torch, DEVICE).synchronize()
    with unihal.profile() as recorded:
        optimizer.step()
        getattr(torch, DEVICE).synchronize()
    constants = 3  # the rate and the powers of both betas
    assert len(list(model.parameters())) <= len(recorded.events) <= len(list(model.parameters())) + constants


@pytest.mark.parametrize("name", ["adam", "adamw, amsgrad", "sgd, nesterov"])
def test_a_fused_step_is_a_launch_a_parameter(name: str) -> None:
    """Adam counts its steps on the device then: once for all, whose powers are taken together too."""
    options = {"fused": True, "foreach": False}
    kind = type(OPTIMIZERS[name]([nn.Parameter(torch.ones(1))]))
    extra = {"amsgrad": True} if "amsgrad" in name else {"momentum": 0.9, "nesterov": True} if "sgd" in name else {}
    model, optimizer = trained(DEVICE, lambda p: kind(p, 1e-2, **extra, **options), torch.float32, first=1)
    gradients(model, STEPS)
    getattr(torch, DEVICE).synchronize()
    with unihal.profile() as recorded:
        optimizer.step()
        getattr(torch, DEVICE).synchronize()
    together = 3  # the rate, the counts, the powers
    assert len(list(model.parameters())) <= len(recorded.events) <= len(list(model.parameters())) + together


def test_counts_that_lie_together_are_of_their_parameters() -> None:
    """Also where a parameter has no gradient in some steps, where a state was loaded, and where a step is left out."""
    results = []
    for device in (DEVICE, "cpu"):
        model = network(torch.float32).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2, fused=True)
        scaler = torch.amp.GradScaler(device, init_scale=4.0)
        for step in range(2 * STEPS):
            gradients(model, step % STEPS)
            if step == STEPS:
                state = copy.deepcopy(optimizer.state_dict())
                optimizer = torch.optim.AdamW(model.parameters(), 1e-2, fused=True)
                optimizer.load_state_dict(state)
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad.mul_(float("inf") if step == 2 else 4)
            scaler.scale(torch.zeros((), device=device))
            scaler.step(optimizer)
            scaler.update(4.0)
        counts = [optimizer.state[parameter]["step"].item() for parameter in model.parameters()]
        results.append((counts, [parameter.detach().cpu() for parameter in model.parameters()]))
    assert results[0][0] == results[1][0] == [7, 7, 7, 5, 7, 7]
    torch.testing.assert_close(results[0][1], results[1][1])


@pytest.mark.parametrize("rate", [1e-2, torch.tensor(1e-2)], ids=["number", "tensor"])
def test_what_the_steps_are_not_for_goes_as_pytorch_goes(rate: Any) -> None:
    """Complex parameters, and rates in tensors, which PyTorch does not take together with foreach=True."""
    parameters = [nn.Parameter(torch.ones(3, dtype=torch.complex64, device=device)) for device in (DEVICE, "cpu")]
    for parameter in parameters:
        optimizer = torch.optim.Adam([parameter], rate)
        parameter.grad = torch.full_like(parameter, 1 + 2j)
        optimizer.step()
    torch.testing.assert_close(parameters[0].detach().cpu(), parameters[1].detach())
    refused = torch.optim.Adam([parameters[0]], torch.tensor(1e-2), foreach=False)
    parameters[0].grad = None
    refused.step()
    with pytest.raises(ValueError, match="lr as a Tensor is not supported for capturable=False and foreach=True"):
        torch.optim.Adam([parameters[0]], torch.tensor(1e-2), foreach=True)
