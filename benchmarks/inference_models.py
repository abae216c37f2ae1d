"""Networks whose inference is measured, of torch.nn alone: a machine that is measured needs no torchvision.

Each of MODELS gives a module with random weights in evaluation mode, on the CPU, which depend on torch.manual_seed
only; `inputs` gives what it takes. Attention is PyTorch's own scaled_dot_product_attention, so that PyTorch is measured
at its best.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as f
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torch_models import resnet

#: Of MobileNetV3 large: window, channels within, channels after, whether it squeezes, whether its activation is hard
#: swish, stride.
MOBILE_BLOCKS = (
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
)

LENGTH = 128


def convolution(channels: int, out: int, window: int, stride: int, groups: int, activation: nn.Module) -> nn.Sequential:
    """A convolution that keeps the size, its normalization and an activation."""
    return nn.Sequential(
        nn.Conv2d(channels, out, window, stride, window // 2, groups=groups, bias=False),
        nn.BatchNorm2d(out, eps=1e-3),
        activation,
    )


class Squeeze(nn.Module):
    """Weighs channels by a small network of their means."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        inner = max(8, (channels // 4 + 4) // 8 * 8)
        self.layers = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, inner, 1),
            nn.ReLU(),
            nn.Conv2d(inner, channels, 1),
            nn.Hardsigmoid(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.layers(x)


class InvertedResidual(nn.Module):
    """A block of MobileNetV3."""

    def __init__(self, channels: int, window: int, wide: int, out: int, squeezes: bool, swishes: bool, stride: int):
        super().__init__()
        make: Callable[[], nn.Module] = nn.Hardswish if swishes else nn.ReLU
        layers: list[nn.Module] = []
        if wide != channels:
            layers.append(convolution(channels, wide, 1, 1, 1, make()))
        layers.append(convolution(wide, wide, window, stride, wide, make()))
        if squeezes:
            layers.append(Squeeze(wide))
        layers.append(convolution(wide, out, 1, 1, 1, nn.Identity()))
        self.layers = nn.Sequential(*layers)
        self.adds = stride == 1 and channels == out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.adds else self.layers(x)


def mobilenet() -> nn.Module:
    """MobileNetV3 large: images (N, 3, 224, 224) -> logits (N, 1000)."""
    layers: list[nn.Module] = [convolution(3, 16, 3, 2, 1, nn.Hardswish())]
    channels = 16
    for window, wide, out, squeezes, swishes, stride in MOBILE_BLOCKS:
        layers.append(InvertedResidual(channels, window, wide, out, squeezes, swishes, stride))
        channels = out
    layers += [
        convolution(channels, 960, 1, 1, 1, nn.Hardswish()),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(960, 1280),
        nn.Hardswish(),
        nn.Linear(1280, 1000),
    ]
    return nn.Sequential(*layers)


class Encoder(nn.Module):
    """BERT base: word numbers (N, length) -> (N, length, width)."""

    def __init__(self, words: int = 30522, width: int = 768, heads: int = 12, layers: int = 12) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(512, width)
        self.norm, self.heads = nn.LayerNorm(width), heads
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "qkv": nn.Linear(width, 3 * width),
                    "out": nn.Linear(width, width),
                    "first": nn.LayerNorm(width),
                    "up": nn.Linear(width, 4 * width),
                    "down": nn.Linear(4 * width, width),
                    "second": nn.LayerNorm(width),
                }
            )
            for _ in range(layers)
        )

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.words(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device)))
        for layer in self.layers:
            q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in layer["qkv"](x).chunk(3, dim=-1))
            mixed = f.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            x = layer["first"](x + layer["out"](mixed))
            x = layer["second"](x + layer["down"](f.gelu(layer["up"](x))))
        return x


class Decoder(nn.Module):
    """A small LLaMA, of 110 million parameters: word numbers (N, length) -> logits (N, length, words)."""

    def __init__(
        self, words: int = 32000, width: int = 768, heads: int = 12, groups: int = 4, layers: int = 12
    ) -> None:
        super().__init__()
        self.words, self.heads, self.groups = nn.Embedding(words, width), heads, groups
        head, inner = width // heads, 2048
        sizes = {
            "q": (width, width),
            "k": (width, groups * head),
            "v": (width, groups * head),
            "o": (width, width),
            "gate": (width, inner),
            "up": (width, inner),
            "down": (inner, width),
        }
        self.layers = nn.ModuleList(
            nn.ModuleDict({name: nn.Linear(*size, bias=False) for name, size in sizes.items()}) for _ in range(layers)
        )
        self.scales = nn.ParameterList(nn.Parameter(torch.rand(width) + 0.5) for _ in range(2 * layers + 1))
        angles = torch.arange(LENGTH)[:, None] / 10000 ** (torch.arange(0, head, 2) / head)[None, :]
        self.register_buffer("cosines", angles.cos())
        self.register_buffer("sines", angles.sin())
        nn.init.normal_(self.words.weight, std=0.02)

    def normed(self, x: torch.Tensor, number: int) -> torch.Tensor:
        return f.rms_norm(x, x.shape[-1:], self.scales[number], 1e-5)

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        cosines, sines = self.cosines, self.sines
        return torch.cat([first * cosines - second * sines, second * cosines + first * sines], dim=-1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        for number, layer in enumerate(self.layers):
            y = self.normed(x, 2 * number)
            q, k, v = (
                layer[name](y).unflatten(-1, (count, -1)).transpose(1, 2)
                for name, count in (("q", self.heads), ("k", self.groups), ("v", self.groups))
            )
            q, k = self.turned(q), self.turned(k)
            mixed = f.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = x + layer["o"](mixed.transpose(1, 2).flatten(2))
            y = self.normed(x, 2 * number + 1)
            x = x + layer["down"](f.silu(layer["gate"](y)) * layer["up"](y))
        return f.linear(self.normed(x, -1), self.words.weight)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "resnet50": lambda: resnet(50, 1000),
    "mobilenetv3": mobilenet,
    "bert": Encoder,
    "llama": Decoder,
}


def build(name: str, dtype: torch.dtype) -> nn.Module:
    """A network in evaluation mode; its normalizations have seen no data, but not all alike."""
    torch.manual_seed(0)
    module = MODELS[name]()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.running_mean, -0.1, 0.1)
            nn.init.uniform_(part.running_var, 0.5, 1.5)
    return module.eval().to(dtype)


def folded(module: nn.Module) -> nn.Module:
    """A copy whose convolutions have the normalizations after them in their weights, as exporters write them."""
    result = copy.deepcopy(module)
    for part in result.modules():
        if not isinstance(part, nn.Sequential):
            continue
        for first, second in zip(list(part.named_children()), list(part.named_children())[1:]):
            if isinstance(first[1], nn.Conv2d) and isinstance(second[1], nn.BatchNorm2d):
                setattr(part, first[0], fuse_conv_bn_eval(first[1], second[1]))
                setattr(part, second[0], nn.Identity())
    return result


def inputs(name: str, batch: int, dtype: Any = np.float32) -> dict[str, np.ndarray]:
    """Of a batch, by name: images, or 128 words each."""
    rng = np.random.default_rng(0)
    if name in ("resnet50", "mobilenetv3"):
        return {"x": rng.standard_normal((batch, 3, 224, 224)).astype(dtype)}
    return {"ids": rng.integers(0, 30000, (batch, LENGTH))}
