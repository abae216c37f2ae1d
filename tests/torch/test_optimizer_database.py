"""PyTorch's database of optimizers: each, in all its ways and with all its options, steps as it does on the CPU.

`python tests/torch/test_optimizer_database.py` counts the cases.
"""

from __future__ import annotations

import copy
import os
import sys
import warnings
from collections import Counter
from typing import Any

os.environ.setdefault("UNIHAL_BACKEND", "stub")

import pytest
import torch
from op_database import DEVICE, fallback_counts, to_device
from torch import nn
from torch.testing._internal.common_optimizers import (
    OptimizerInfo,
    _get_optim_inputs_including_global_cliquey_kwargs,
    optim_db,
)

#: Optimizers whose gradients are sparse tensors, which this device does not have.
SPARSE = ("SparseAdam",)
#: Those with one parameter a launch where fused=True is asked for; the CPU has Adagrad too.
FUSED = ("SGD", "Adam", "AdamW")
STEPS = 4


class Model(nn.Module):
    """Parameters of several shapes, one of them without a gradient."""

    def __init__(self, matrices_only: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 7, bias=not matrices_only), nn.Linear(7, 3, bias=not matrices_only)
        self.unused = nn.Parameter(torch.ones(2, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x))).square().mean()


def _run(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, steps: int) -> list[float]:
    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x)
        loss.backward()
        return loss

    return [float(optimizer.step(closure)) for _ in range(steps)]


def _check(info: OptimizerInfo, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = Model(matrices_only=info.optim_cls.__name__ == "Muon")
    ours = copy.deepcopy(model).to(DEVICE)
    x = torch.randn(6, 5)
    theirs_by, ours_by = (
        info.optim_cls(net.parameters(), **to_device(options) if net is ours else options) for net in (model, ours)
    )
    expected, actual = _run(model, theirs_by, x, STEPS), _run(ours, ours_by, x.to(DEVICE), STEPS)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    # A new optimizer goes on from the state.
    follower = info.optim_cls(ours.parameters(), **to_device(options))
    follower.load_state_dict(ours_by.state_dict())
    more = _run(ours, follower, x.to(DEVICE), 2)
    torch.testing.assert_close(more, _run(model, theirs_by, x, 2), rtol=1e-4, atol=1e-5)
    for a, e in zip(ours.parameters(), model.parameters()):
        assert a.device.type == DEVICE
        torch.testing.assert_close(a.detach().cpu(), e.detach(), rtol=1e-3, atol=1e-5)


def ask(info: OptimizerInfo) -> Counter[str]:
    """Runs all ways and options of an optimizer; AssertionError with the case where one fails."""
    name = info.optim_cls.__name__
    if name in SPARSE:
        return Counter({"sparse gradients": 1})
    found: Counter[str] = Counter()
    inputs = _get_optim_inputs_including_global_cliquey_kwargs("cpu", torch.float32, info, skip=("differentiable",))
    for one in inputs:
        options = {key: value for key, value in one.kwargs.items() if key != "params"}
        if options.get("fused") and name not in FUSED:
            found["fused, of which there is none"] += 1
            continue
        if name == "LBFGS" and options.get("maximize"):
            found["an ascent without a bound, which amplifies roundings"] += 1  # since 2.15
            continue
        before = fallback_counts()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _check(info, options)
        except Exception as error:
            raise AssertionError(f"{name} {options}: {type(error).__name__}: {error}") from error
        fallen = fallback_counts() - before
        assert not fallen, f"{name} {options}: {dict(fallen)}"
        found["passed"] += 1
    return found


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(i.optim_cls.__name__, marks=() if i.optim_cls.__name__ == "Adam" else pytest.mark.whole)
        for i in optim_db
    ],
)
def test_an_optimizer_steps_as_on_the_cpu(name: str) -> None:
    (info,) = [i for i in optim_db if i.optim_cls.__name__ == name]
    found = ask(info)
    assert found["passed"] > 0 or name in SPARSE


def main() -> None:
    """Counts, and what failed."""
    total: Counter[str] = Counter()
    for info in optim_db:
        try:
            total.update(ask(info))
        except AssertionError as wrong:
            total["failed"] += 1
            print(str(wrong)[:500].replace("\n", " "), file=sys.stderr)
    print(f"{len(optim_db)} optimizers: {dict(total)}")


if __name__ == "__main__":
    main()
