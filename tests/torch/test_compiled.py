"""torch.compile with `aot_eager`: graphs of forward and gradient, whose strides PyTorch foretells."""

from __future__ import annotations

import copy

import pytest
import torch
from test_training import MODELS
from torch import nn
from torch.nn import functional

DEVICE = torch._C._get_privateuse1_backend_name()


@pytest.mark.parametrize("name", MODELS)
def test_a_compiled_model_has_the_eager_one_s_gradients(name: str) -> None:
    torch.manual_seed(0)
    make, inputs = MODELS[name]
    model, x, labels = make().to(DEVICE), inputs().to(DEVICE), torch.randint(0, 10, (8,), device=DEVICE)
    compiled = copy.deepcopy(model)
    losses = [
        functional.cross_entropy(run(x), labels) for run in (model, torch.compile(compiled, backend="aot_eager"))
    ]
    for loss in losses:
        loss.backward()
    torch.testing.assert_close(losses[1], losses[0])
    for ours, theirs in zip(compiled.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)


def test_an_encoder_with_dropout_can_be_compiled() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, 0.1, batch_first=True).to(DEVICE)
    torch.compile(layer, backend="aot_eager")(torch.randn(2, 8, 16, device=DEVICE)).square().sum().backward()
    assert all(bool(parameter.grad.isfinite().all()) for parameter in layer.parameters())
