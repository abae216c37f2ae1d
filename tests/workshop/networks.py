"""Networks for plans: some as people run them, and random ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, channels: int, middle: int, stride: int = 1) -> None:
        super().__init__()
        out = 4 * middle
        self.conv1, self.bn1 = nn.Conv2d(channels, middle, 1, bias=False), nn.BatchNorm2d(middle)
        self.conv2, self.bn2 = nn.Conv2d(middle, middle, 3, stride, 1, bias=False), nn.BatchNorm2d(middle)
        self.conv3, self.bn3 = nn.Conv2d(middle, out, 1, bias=False), nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.down = None
        if stride != 1 or channels != out:
            self.down = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x if self.down is None else self.down(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        x = self.bn3(self.conv3(x))
        x += shortcut
        return self.relu(x)


def resnet(blocks: tuple[int, ...] = (3, 4, 6, 3), classes: int = 1000) -> nn.Module:
    """ResNet-50 by its default."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    channels = 64
    for stage, count in enumerate(blocks):
        for block in range(count):
            layers.append(Bottleneck(channels, 64 << stage, 2 if stage and not block else 1))
            channels = 4 * (64 << stage)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


class Language(nn.Module):
    """Words through two LSTMs."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.cells = nn.Embedding(1000, 64), nn.LSTM(64, 128, 2, batch_first=True)
        self.out = nn.Linear(128, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.cells(self.words(x))[0])


class UNet(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()

        def block(channels: int, out: int) -> nn.Module:
            one = (nn.Conv2d(channels, out, 3, padding=1), nn.GroupNorm(8, out), nn.SiLU())
            return nn.Sequential(*one, nn.Conv2d(out, out, 3, padding=1), nn.GroupNorm(8, out), nn.SiLU())

        self.down1, self.down2, self.middle = block(3, width), block(width, 2 * width), block(2 * width, 4 * width)
        self.up2, self.up1, self.out = block(6 * width, 2 * width), block(3 * width, width), nn.Conv2d(width, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.down1(x)
        b = self.down2(F.avg_pool2d(a, 2))
        m = self.middle(F.avg_pool2d(b, 2))
        u = self.up2(torch.cat([F.interpolate(m, scale_factor=2.0), b], 1))
        return self.out(self.up1(torch.cat([F.interpolate(u, scale_factor=2.0), a], 1)))


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "resnet50": (resnet, lambda: (torch.zeros(2, 3, 96, 96),)),
    "transformer": (transformer, lambda: (torch.zeros(4, 64, 128),)),
    "unet": (UNet, lambda: (torch.zeros(2, 3, 64, 64),)),
    "lstm": (Language, lambda: (torch.zeros(8, 20, dtype=torch.int64),)),
}


# -- random ones ---------------------------------------------------------------------------------------------------


class Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inner(x)


class Both(nn.Module):
    """Two ways, side by side in the features."""

    def __init__(self, first: nn.Module, second: nn.Module, axis: int) -> None:
        super().__init__()
        self.first, self.second, self.axis = first, second, axis

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.first(x), self.second(x)], self.axis)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.qkv, self.out, self.heads, self.causal = (
            nn.Linear(width, 3 * width),
            nn.Linear(width, width),
            heads,
            causal,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, c = x.shape
        q, k, v = (each.view(n, t, self.heads, c // self.heads).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(n, t, c))


class Function(nn.Module):
    def __init__(self, name: str, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.name, self.function = name, function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


POINTWISE: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "relu_": lambda: nn.ReLU(inplace=True),
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "leaky": nn.LeakyReLU,
    "hardswish": nn.Hardswish,
    "softplus": nn.Softplus,
    "dropout": lambda: nn.Dropout(0.25),
    "square": lambda: Function("square", lambda x: x * x),
    "scale": lambda: Function("scale", lambda x: x * 0.5 + 1),
    "clamp": lambda: Function("clamp", lambda x: x.clamp(-1, 1)),
    "where": lambda: Function("where", lambda x: torch.where(x > 0, x, 0.1 * x)),
    "half": lambda: Function("half", lambda x: x.to(torch.float16).to(x.dtype)),
    "mean": lambda: Function("mean", lambda x: x - x.mean(-1, keepdim=True)),
    "var": lambda: Function("var", lambda x: x / (x.var(-1, keepdim=True) + 1).sqrt()),
    "softmax": lambda: nn.Softmax(-1),
    "log_softmax": lambda: nn.LogSoftmax(-1),
    "norm": lambda: Function("norm", lambda x: F.normalize(x, dim=-1)),
    "cumsum": lambda: Function("cumsum", lambda x: x.cumsum(-1)),
    "flip": lambda: Function("flip", lambda x: x.flip(-1)),
    "roll": lambda: Function("roll", lambda x: x.roll(1, -1)),
}


def image_layer(kind: str, channels: int, pick: Callable[[list[Any]], Any]) -> tuple[nn.Module, int]:
    """A layer for images, and its number of channels."""
    out = pick([8, 16, 24])
    if kind == "conv":
        return nn.Conv2d(channels, out, pick([1, 3]), padding=pick([0, 1]), bias=pick([True, False])), out
    if kind == "strided":
        return nn.Conv2d(channels, out, 3, 2, 1), out
    if kind == "depthwise":
        return nn.Conv2d(channels, channels, 3, padding=1, groups=channels), channels
    if kind == "transposed":
        return nn.ConvTranspose2d(channels, out, 2, 2), out
    layers: dict[str, Callable[[], nn.Module]] = {
        "batch_norm": lambda: nn.BatchNorm2d(channels),
        "group_norm": lambda: nn.GroupNorm(pick([1, 4, 8]), channels),
        "instance_norm": lambda: nn.InstanceNorm2d(channels, affine=True),
        "max_pool": lambda: nn.MaxPool2d(2),
        "avg_pool": lambda: nn.AvgPool2d(2),
        "adaptive": lambda: nn.AdaptiveAvgPool2d(6),
        "nearest": lambda: nn.Upsample(scale_factor=2),
        "bilinear": lambda: nn.Upsample(scale_factor=2, mode="bilinear"),
        "pad": lambda: nn.ZeroPad2d(1),
        "reflect": lambda: nn.ReflectionPad2d(1),
        "residual": lambda: Residual(nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU())),
    }
    if kind == "both":
        return Both(nn.Conv2d(channels, out, 1), nn.Conv2d(channels, out, 1), 1), 2 * out
    return layers[kind](), channels


IMAGE = (
    *(
        "conv",
        "strided",
        "depthwise",
        "transposed",
        "batch_norm",
        "group_norm",
        "instance_norm",
        "max_pool",
        "avg_pool",
    ),
    *("adaptive", "nearest", "bilinear", "pad", "reflect", "residual", "both"),
)


def word_layer(kind: str, width: int, pick: Callable[[list[Any]], Any]) -> tuple[nn.Module, int]:
    """A layer for sequences, and its width."""
    out = pick([16, 32, 64])
    if kind == "linear":
        return nn.Linear(width, out, bias=pick([True, False])), out
    if kind == "both":
        return Both(nn.Linear(width, out), nn.Linear(width, out), -1), 2 * out
    if kind == "gru":
        return nn.Sequential(nn.GRU(width, out, batch_first=True), Function("first", lambda x: x[0])), out
    if kind == "lstm":
        return nn.Sequential(nn.LSTM(width, out, batch_first=True), Function("first", lambda x: x[0])), out
    layers: dict[str, Callable[[], nn.Module]] = {
        "layer_norm": lambda: nn.LayerNorm(width),
        "rms_norm": lambda: nn.RMSNorm(width),
        "attention": lambda: Attention(width, 4, pick([True, False])),
        "encoder": lambda: nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True),
        "residual": lambda: Residual(nn.Sequential(nn.Linear(width, width), nn.GELU())),
    }
    return layers[kind](), width


WORDS = ("linear", "both", "gru", "lstm", "layer_norm", "rms_norm", "attention", "encoder", "residual")


def random_case(pick: Callable[[list[Any]], Any]) -> tuple[nn.Module, tuple[torch.Tensor, ...], list[str]]:
    """A network, its inputs, and the names of its layers; `pick` chooses among a list."""
    start = pick([8, 16])
    of_images = pick([True, False])
    names: list[str] = []
    layers: list[nn.Module] = []
    size = start
    for _ in range(pick([2, 3, 4, 5, 6])):
        if pick([True, False]):
            name = pick(sorted(POINTWISE))
            layers.append(POINTWISE[name]())
        else:
            name = pick(list(IMAGE if of_images else WORDS))
            layer, size = (image_layer if of_images else word_layer)(name, size, pick)
            layers.append(layer)
        names.append(name)
    shape = (pick([1, 3]), start, 24, 20) if of_images else (pick([1, 4]), pick([17, 48]), start)
    return nn.Sequential(*layers), (torch.zeros(shape),), names
