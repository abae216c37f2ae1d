"""Small networks of the kinds that people run, exported by PyTorch's own exporter."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as f

if TYPE_CHECKING:
    import onnx  # which a machine that only runs models may not have


class Residual(nn.Module):
    """A bottleneck of ResNet."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, out, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        same = stride == 1 and channels == out
        self.side = nn.Identity() if same else nn.Sequential(nn.Conv2d(channels, out, 1, stride), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return f.relu(self.body(x) + self.side(x))


class ResNet(nn.Module):
    """A ResNet of bottlenecks; (3, 4, 6, 3) of width 64 is ResNet-50."""

    def __init__(self, blocks: tuple[int, ...] = (1, 2), width: int = 8, classes: int = 10) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(3, width, 7, 2, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        ]
        channels = width
        for stage, count in enumerate(blocks):
            for number in range(count):
                inner = width << stage
                layers.append(Residual(channels, inner, 2 if stage > 0 and number == 0 else 1))
                channels = 4 * inner
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x).mean((2, 3)))


class MobileNet(nn.Module):
    """Inverted bottlenecks with squeeze and excitation, hard swish and depthwise filters, as in MobileNetV3."""

    def __init__(self, channels: int = 16, classes: int = 10) -> None:
        super().__init__()
        wide = 4 * channels
        self.stem = nn.Sequential(nn.Conv2d(3, channels, 3, 2, 1), nn.BatchNorm2d(channels), nn.Hardswish())
        self.expand = nn.Sequential(nn.Conv2d(channels, wide, 1), nn.BatchNorm2d(wide), nn.Hardswish())
        self.depthwise = nn.Sequential(
            nn.Conv2d(wide, wide, 5, 1, 2, groups=wide), nn.BatchNorm2d(wide), nn.Hardswish()
        )
        self.squeeze = nn.Sequential(
            nn.Conv2d(wide, channels, 1), nn.ReLU(), nn.Conv2d(channels, wide, 1), nn.Hardsigmoid()
        )
        self.project = nn.Sequential(nn.Conv2d(wide, channels, 1), nn.BatchNorm2d(channels))
        self.head = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        y = self.depthwise(self.expand(x))
        y = y * self.squeeze(f.adaptive_avg_pool2d(y, 1))
        return self.head((x + self.project(y)).mean((2, 3)))


class Bert(nn.Module):
    """An encoder with learned positions and a mask of padding."""

    def __init__(self, words: int = 100, width: int = 32, heads: int = 4, layers: int = 2, length: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.positions = nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "qkv": nn.Linear(width, 3 * width),
                    "out": nn.Linear(width, width),
                    "norm1": nn.LayerNorm(width),
                    "up": nn.Linear(width, 4 * width),
                    "down": nn.Linear(4 * width, width),
                    "norm2": nn.LayerNorm(width),
                }
            )
            for _ in range(layers)
        )
        self.heads = heads

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.words(ids) + self.positions(torch.arange(ids.shape[1])))
        added = (1 - mask[:, None, None, :].to(x.dtype)) * -1e4
        for layer in self.layers:
            q, k, v = (
                part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in layer["qkv"](x).chunk(3, dim=-1)
            )
            scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + added
            mixed = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
            x = layer["norm1"](x + layer["out"](mixed))
            x = layer["norm2"](x + layer["down"](f.gelu(layer["up"](x))))
        return x


class Llama(nn.Module):
    """A decoder with rotary embeddings, RMS norms, grouped keys and a gated feed-forward part."""

    def __init__(self, words: int = 100, width: int = 32, heads: int = 4, groups: int = 2, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        head = width // heads
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "q": nn.Linear(width, width, bias=False),
                    "k": nn.Linear(width, groups * head, bias=False),
                    "v": nn.Linear(width, groups * head, bias=False),
                    "o": nn.Linear(width, width, bias=False),
                    "gate": nn.Linear(width, 3 * width, bias=False),
                    "up": nn.Linear(width, 3 * width, bias=False),
                    "down": nn.Linear(3 * width, width, bias=False),
                }
            )
            for _ in range(layers)
        )
        self.scales = nn.ParameterList(nn.Parameter(torch.rand(width) + 0.5) for _ in range(2 * layers + 1))
        self.heads, self.groups = heads, groups
        self.register_buffer("rates", 1 / 10000 ** (torch.arange(0, head, 2) / head))

    def normed(self, x: torch.Tensor, number: int) -> torch.Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.scales[number]

    @staticmethod
    def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        length = ids.shape[1]
        angles = torch.arange(length)[:, None] * self.rates.float()[None, :]
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        hidden = torch.full((length, length), -1e4, dtype=x.dtype).triu(1)
        for number, layer in enumerate(self.layers):
            y = self.normed(x, 2 * number)
            q, k, v = (
                layer[name](y).unflatten(-1, (count, -1)).transpose(1, 2)
                for name, count in (("q", self.heads), ("k", self.groups), ("v", self.groups))
            )
            q, k = self.turned(q, cos, sin), self.turned(k, cos, sin)
            k, v = (part.repeat_interleave(self.heads // self.groups, dim=1) for part in (k, v))
            scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + hidden
            x = x + layer["o"]((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
            y = self.normed(x, 2 * number + 1)
            x = x + layer["down"](f.silu(layer["gate"](y)) * layer["up"](y))
        return self.normed(x, -1) @ self.words.weight.T


def example(name: str, seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs of a network, by name; floating ones are float32."""
    rng = np.random.default_rng(seed)
    if name in ("resnet", "mobilenet"):
        return {"x": rng.standard_normal((2, 3, 32, 32)).astype(np.float32)}
    feeds = {"ids": rng.integers(0, 100, (2, 12))}
    if name == "bert":
        feeds["mask"] = (np.arange(12) < np.array([[12], [7]])).astype(np.int64)
    return feeds


NETWORKS: dict[str, Any] = {"resnet": ResNet, "mobilenet": MobileNet, "bert": Bert, "llama": Llama}


def export(
    module: nn.Module,
    feeds: dict[str, np.ndarray],
    dtype: torch.dtype = torch.float32,
    opset: int | None = None,
    free_length: bool = True,
) -> onnx.ModelProto:
    """A network as an ONNX model with the parameters' dtype; the batch is free, and the length of a text."""
    module = module.eval().to(dtype)
    arguments = tuple(
        torch.from_numpy(value).to(dtype) if value.dtype == np.float32 else torch.from_numpy(value)
        for value in feeds.values()
    )
    batch, length = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=2, max=512)
    shapes = tuple(
        {0: batch} if value.ndim == 4 else {0: batch, 1: length} if free_length else {0: batch}
        for value in feeds.values()
    )
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), io.StringIO() as quiet:
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(quiet):
            program = torch.onnx.export(
                module,
                arguments,
                dynamo=True,
                dynamic_shapes=shapes,
                input_names=list(feeds),
                opset_version=opset,
                verbose=False,
            )
    model: onnx.ModelProto = program.model_proto
    return model


def build(name: str, dtype: torch.dtype = torch.float32) -> onnx.ModelProto:
    """A small network of a kind, with random parameters."""
    torch.manual_seed(0)
    module = NETWORKS[name]()
    for part in module.modules():  # statistics other than 0 and 1
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.uniform_(-0.5, 0.5)
            part.running_var.uniform_(0.5, 1.5)
    return export(module, example(name), dtype)
