"""ResNet-50, for `workshop plan resnet.py:inference` and `workshop plan resnet.py:training` (docs/workshop.md)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Bottleneck(nn.Module):
    """Three convolutions, and what goes around them."""

    def __init__(self, channels: int, middle: int, stride: int) -> None:
        super().__init__()
        out = 4 * middle
        self.body = nn.Sequential(
            *(nn.Conv2d(channels, middle, 1, bias=False), nn.BatchNorm2d(middle), nn.ReLU(True)),
            *(nn.Conv2d(middle, middle, 3, stride, 1, bias=False), nn.BatchNorm2d(middle), nn.ReLU(True)),
            *(nn.Conv2d(middle, out, 1, bias=False), nn.BatchNorm2d(out)),
        )
        self.around: nn.Module = nn.Identity()
        if stride != 1 or channels != out:
            self.around = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.around(x))


def resnet50() -> nn.Module:
    """The network with random weights."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            layers.append(Bottleneck(channels, 64 << stage, 2 if stage and not block else 1))
            channels = 4 * (64 << stage)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def inference() -> Any:
    """A picture of 224x224; `meta` has a shape and no memory."""
    return resnet50().eval(), (torch.empty(1, 3, 224, 224, device="meta"),)


def training() -> Any:
    """A step of Adam on eight pictures."""
    return {
        "model": resnet50(),
        "inputs": (torch.empty(8, 3, 224, 224, device="meta"),),
        "training": True,
        "optimizer": torch.optim.Adam,
    }
