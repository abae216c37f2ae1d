"""Models that `workshop plan file.py:function` names, in processes of their own."""

from __future__ import annotations

from typing import Any

import torch
from networks import resnet


def resnet50() -> Any:
    """ResNet-50 on small pictures."""
    return resnet().eval(), (torch.empty(1, 3, 64, 64, device="meta"),)


def small_resnet() -> Any:
    """One block of each kind."""
    return resnet((1, 1, 1, 1), 10).eval(), (torch.empty(1, 3, 32, 32, device="meta"),)


def linear() -> Any:
    """A model that `workshop plan` may name."""
    return torch.nn.Linear(64, 64), (torch.empty(2, 64, device="meta"),)


def too_large() -> Any:
    with torch.device("meta"):
        module = torch.nn.Sequential(*(torch.nn.Linear(16384, 16384, bias=False) for _ in range(8)))
    return {"model": module, "inputs": (torch.empty(1, 16384, device="meta"),)}


def training() -> Any:
    return {"model": linear()[0], "inputs": linear()[1], "training": True, "optimizer": torch.optim.Adam}


def deep() -> Any:
    """Layers in a list, whose activations are large beside their weights."""
    blocks = (torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Tanh()) for _ in range(12))
    return torch.nn.Sequential(*blocks), (torch.empty(4096, 64, device="meta"),)


def wrong() -> Any:
    return {"modle": 3}
