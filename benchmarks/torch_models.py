"""Models of PyTorch's benchmarks, of torch.nn alone: a machine that is measured needs no torchvision.

Each function gives a model with random weights in training mode, on the CPU. Weights depend on torch.manual_seed only.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

#: Blocks of each of the four stages, by the model's depth; from 50 on blocks have a bottleneck of a quarter.
STAGES = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions, or 1x1, 3x3 (which has the stride) and 1x1; around them a convolution, or nothing."""

    def __init__(self, channels: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        filters = width * 4 if bottleneck else width
        windows = (
            ((width, 1, 1), (width, 3, stride), (filters, 1, 1)) if bottleneck else ((width, 3, stride), (width, 3, 1))
        )
        layers: list[nn.Module] = []
        given = channels
        for count, window, step in windows:
            layers += [
                nn.Conv2d(given, count, window, step, window // 2, bias=False),
                nn.BatchNorm2d(count),
                nn.ReLU(True),
            ]
            given = count
        self.layers = nn.Sequential(*layers[:-1])
        self.around = (
            nn.Sequential(nn.Conv2d(channels, filters, 1, stride, bias=False), nn.BatchNorm2d(filters))
            if stride != 1 or channels != filters
            else nn.Identity()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu(self.layers(x) + self.around(x), inplace=True)


def resnet(depth: int, classes: int) -> nn.Module:
    """Images (N, 3, H, W) -> logits (N, classes), as torchvision's ResNets of version 1.5 compute them."""
    bottleneck = depth >= 50
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(True),
        nn.MaxPool2d(3, 2, 1),
    ]
    channels = 64
    for stage, blocks in enumerate(STAGES[depth]):
        for block in range(blocks):
            width, stride = 64 << stage, 2 if stage > 0 and block == 0 else 1
            layers.append(ResidualBlock(channels, width, stride, bottleneck))
            channels = width * 4 if bottleneck else width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model


def encoder(vocabulary: int, width: int, heads: int, layers: int, classes: int, dropout: float) -> nn.Module:
    """BERT's encoder: token numbers (N, length) -> logits of each token (N, length, classes)."""
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=dropout, activation="gelu", batch_first=True)
    return nn.Sequential(
        nn.Embedding(vocabulary, width),
        nn.TransformerEncoder(layer, layers, enable_nested_tensor=False),
        nn.Linear(width, classes),
    )


class DecoderBlock(nn.Module):
    """A block of GPT-2."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        joined = self.queries_keys_values(self.first_norm(x)).unflatten(-1, (3, self.heads, -1))
        query, key, value = (part.transpose(1, 2) for part in joined.unbind(2))
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(seen.transpose(1, 2).flatten(-2))
        return x + self.narrow(nn.functional.gelu(self.widen(self.second_norm(x)), approximate="tanh"))


class Decoder(nn.Module):
    """GPT-2 without dropout: token numbers (N, length) -> logits (N, length, vocabulary), by the embedding's matrix."""

    def __init__(self, vocabulary: int, positions: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        for table in (self.tokens, self.positions):
            nn.init.normal_(table.weight, std=0.02)
        self.blocks = nn.Sequential(*(DecoderBlock(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Any) -> Any:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        return nn.functional.linear(self.norm(self.blocks(x)), self.tokens.weight)
