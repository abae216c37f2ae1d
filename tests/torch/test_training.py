"""Models train on the device as they do on PyTorch's CPU, with no fallback."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable

import pytest
import torch
import unihal
from torch import nn
from torch.nn import functional

DEVICE = torch._C._get_privateuse1_backend_name()
STEPS = 4

Optimizer = Callable[[object], torch.optim.Optimizer]


class Block(nn.Module):
    """A residual block."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(out)
        self.second = nn.Conv2d(out, out, 3, 1, 1, groups=2)
        self.way = nn.Conv2d(channels, out, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.second(functional.relu(self.norm(self.first(x)))) + self.way(x))


def residual() -> nn.Module:
    return nn.Sequential(
        Block(3, 8, 1), Block(8, 16, 2), nn.MaxPool2d(3, 2, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)
    )


class Encoder(nn.Module):
    """An encoder of tokens, as BERT and ViT have."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.embedding(x)).mean(1))


class Decoder(nn.Module):
    """A causal decoder, as GPT-2 and LLaMA have."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.norm, self.root = nn.LayerNorm(32), nn.RMSNorm(32)
        self.gate, self.up, self.down = nn.Linear(32, 64), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.embedding(x)
        q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in self.qkv(self.norm(h)).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.out(mixed.transpose(1, 2).flatten(2))
        n = self.root(h)
        h = h + self.down(functional.silu(self.gate(n)) * self.up(n))
        return (h @ self.embedding.weight.t())[:, -1, :10]


def images() -> torch.Tensor:
    return torch.randn(8, 3, 16, 16)


def tokens() -> torch.Tensor:
    return torch.randint(0, 50, (8, 12))


MODELS = {"residual": (residual, images), "encoder": (Encoder, tokens), "decoder": (Decoder, tokens)}
OPTIMIZERS: dict[str, Optimizer] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=1e-4),
    "sgd fused": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=1e-4, nesterov=True, fused=True),
    "adam": lambda p: torch.optim.Adam(p, 1e-3),
    "adam foreach": lambda p: torch.optim.Adam(p, 1e-3, foreach=True),
    "adam fused": lambda p: torch.optim.Adam(p, 1e-3, weight_decay=0.01, fused=True),
    "adamw fused": lambda p: torch.optim.AdamW(p, 1e-3, amsgrad=True, fused=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 1e-3),
    "adagrad": lambda p: torch.optim.Adagrad(p, 1e-2),
}


def losses(model: nn.Module, x: torch.Tensor, y: torch.Tensor, device: str, optimizer: Optimizer) -> list[float]:
    model = copy.deepcopy(model).to(device)
    step = optimizer(model.parameters())
    x, y = x.to(device), y.to(device)
    found = []
    for _ in range(STEPS):
        step.zero_grad()
        loss = functional.cross_entropy(model(x), y, label_smoothing=0.1)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        step.step()
        found.append(loss.item())
    return found


def _fell_back() -> dict[str, int]:
    return {f"{f.op} {f.dtype}: {f.reason}": f.count for f in unihal.fallbacks()}


def _check(model_name: str, optimizer: str) -> None:
    torch.manual_seed(0)
    make, inputs = MODELS[model_name]
    model, x, y = make(), inputs(), torch.randint(0, 10, (8,))
    expected = losses(model, x, y, "cpu", OPTIMIZERS[optimizer])
    before = _fell_back()
    actual = losses(model, x, y, DEVICE, OPTIMIZERS[optimizer])
    assert _fell_back() == before
    torch.testing.assert_close(actual, expected, rtol=2e-4, atol=2e-4)
    assert expected[-1] < expected[0]


SAMPLE = [("residual", "sgd fused"), ("encoder", "adamw fused"), ("decoder", "adam")]


@pytest.mark.parametrize(("model", "optimizer"), SAMPLE)
def test_training_tracks_the_cpu(model: str, optimizer: str) -> None:
    _check(model, optimizer)


@pytest.mark.whole
@pytest.mark.parametrize(("model", "optimizer"), [p for p in itertools.product(MODELS, OPTIMIZERS) if p not in SAMPLE])
def test_all_training_tracks_the_cpu(model: str, optimizer: str) -> None:
    _check(model, optimizer)
