"""The models of the adapter's training tests, and one way to train each on any device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
from comparison import on
from paddle import nn


class DigitsNetwork(nn.Layer):
    """A small convolutional network for 8x8 images."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2D(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2D(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2D(2),
            nn.Flatten(),
            nn.Linear(512, 64),
            nn.ReLU(),
            nn.Linear(64, 10),
        )

    def forward(self, x: Any) -> Any:
        return self.layers(x)


class ResidualBlock(nn.Layer):
    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2D(channels_in, channels, 3, stride=stride, padding=1, bias_attr=False)
        self.first_norm = nn.BatchNorm2D(channels)
        self.second = nn.Conv2D(channels, channels, 3, padding=1, bias_attr=False)
        self.second_norm = nn.BatchNorm2D(channels)
        self.shortcut: Any = None
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2D(channels_in, channels, 1, stride=stride, bias_attr=False), nn.BatchNorm2D(channels)
            )

    def forward(self, x: Any) -> Any:
        y = F.relu(self.first_norm(self.first(x)))
        y = self.second_norm(self.second(y))
        return F.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class ResNet18(nn.Layer):
    """ResNet-18 in its form for 32x32 images: a 3x3 stem and no first pooling."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        widths = [width, 2 * width, 4 * width, 8 * width]
        blocks: list[nn.Layer] = []
        channels = width
        for stage, wide in enumerate(widths):
            for block in range(2):
                blocks.append(ResidualBlock(channels, wide, 2 if stage > 0 and block == 0 else 1))
                channels = wide
        self.stem = nn.Conv2D(3, width, 3, padding=1, bias_attr=False)
        self.stem_norm = nn.BatchNorm2D(width)
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2D(1)
        self.classifier = nn.Linear(channels, 10)

    def forward(self, x: Any) -> Any:
        x = self.blocks(F.relu(self.stem_norm(self.stem(x))))
        return self.classifier(paddle.flatten(self.pool(x), 1))


class Masks:
    """Dropout masks. The generators of two devices differ, so one run records the masks of the real dropout op, and
    the other multiplies by them."""

    def __init__(self, recorded: list[np.ndarray[Any, Any]] | None = None) -> None:
        self.replay = recorded is not None
        self.recorded = recorded or []
        self.step: list[Any] = []

    def dropout(self, x: Any, p: float) -> Any:
        if self.replay:
            return x * self.step.pop(0) / (1 - p)
        y = F.dropout(x, p)
        self.step.append((y != 0).detach())
        return y


class EncoderLayer(nn.Layer):
    """Attention written out as products and softmax, then a feed-forward network; normalized before each."""

    def __init__(self, width: int, heads: int, p: float, masks: Masks) -> None:
        super().__init__()
        self.heads, self.p, self.masks = heads, p, masks
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        # No bias: the gradient of a key's bias is zero but for rounding, and Adam would blow that up.
        self.qkv, self.project = nn.Linear(width, 3 * width, bias_attr=False), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).reshape([batch, length, 3, self.heads, width // self.heads])
        q, k, v = qkv.transpose([2, 0, 3, 1, 4]).unbind(0)
        weights = F.softmax(paddle.matmul(q, k, transpose_y=True) * (width // self.heads) ** -0.5, axis=-1)
        attended = paddle.matmul(weights, v).transpose([0, 2, 1, 3]).reshape([batch, length, width])
        x = x + self.masks.dropout(self.project(attended), self.p)
        return x + self.masks.dropout(self.down(F.gelu(self.up(self.norm2(x)))), self.p)


class Transformer(nn.Layer):
    """A two-layer encoder that predicts every token's class."""

    def __init__(self, masks: Masks, vocabulary: int = 50, width: int = 32, heads: int = 4, p: float = 0.1) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(64, width)
        self.layers = nn.LayerList([EncoderLayer(width, heads, p, masks) for _ in range(2)])
        self.norm = nn.LayerNorm(width)
        self.classifier = nn.Linear(width, vocabulary)

    def forward(self, ids: Any) -> Any:
        x = self.tokens(ids) + self.positions(paddle.arange(ids.shape[1], dtype="int64"))
        for layer in self.layers:
            x = layer(x)
        return self.classifier(self.norm(x))


#: Adam divides a gradient by its size plus this. At the usual 1e-8 a gradient that is but rounding, of which dropout's
#: masks leave one now and then, becomes a whole step, of another sign on another device.
ADAM_EPSILON = 1e-4

Weights = dict[str, np.ndarray[Any, Any]]


def weights_of(network: nn.Layer) -> Weights:
    return {name: value.numpy() for name, value in network.state_dict().items()}


def initial_weights(network: nn.Layer) -> Weights:
    """Reproducible weights of the usual sizes; norms and running statistics keep their ones and zeros."""
    random = np.random.RandomState(3)
    weights = weights_of(network)
    for name, value in weights.items():
        if value.ndim > 1:
            fan_in = np.prod(value.shape[1:]) if value.ndim == 4 else value.shape[0]
            weights[name] = (random.standard_normal(value.shape) * (1 / fan_in) ** 0.5).astype(value.dtype)
    return weights


@contextmanager
def default_dtype(dtype: str) -> Iterator[None]:
    """Layers made meanwhile have weights of it."""
    before = paddle.get_default_dtype()
    paddle.set_default_dtype(dtype)
    try:
        yield
    finally:
        paddle.set_default_dtype(before)


def train(
    kind: str,
    device: str,
    steps: int,
    static: bool = False,
    masks: list[np.ndarray[Any, Any]] | None = None,
    dtype: str = "float32",
) -> tuple[list[float], Weights, list[np.ndarray[Any, Any]]]:
    """Trains a model for some steps on two batches in turn.

    Returns its losses, its weights at the end, and the dropout masks that it used."""
    with on(device), default_dtype(dtype):
        random = np.random.RandomState(11)
        paddle.seed(11)  # of masks drawn anew each time, one in some dozens would not let the loss fall far enough
        recorder = Masks(masks)
        if kind == "digits":
            network: nn.Layer = DigitsNetwork()
            batches = [(random.rand(16, 1, 8, 8), random.randint(0, 10, (16,))) for _ in range(2)]
        elif kind == "resnet18":
            network = ResNet18()
            batches = [(random.rand(4, 3, 32, 32), random.randint(0, 10, (4,))) for _ in range(2)]
        else:
            network = Transformer(recorder)
            batches = [(random.randint(0, 50, (4, 12)), random.randint(0, 50, (4, 12))) for _ in range(2)]
        network.set_state_dict({name: paddle.to_tensor(value) for name, value in initial_weights(network).items()})
        optimizer: Any
        if kind == "digits":
            optimizer = paddle.optimizer.Adam(1e-3, epsilon=ADAM_EPSILON, parameters=network.parameters())
        elif kind == "resnet18":
            optimizer = paddle.optimizer.Momentum(
                5e-3, 0.9, parameters=network.parameters(), use_nesterov=True, weight_decay=1e-4
            )
        else:
            optimizer = paddle.optimizer.AdamW(
                1e-3,
                epsilon=ADAM_EPSILON,
                parameters=network.parameters(),
                weight_decay=0.01,
                grad_clip=nn.ClipGradByGlobalNorm(1.0),
            )

        def loss_of(x: Any, y: Any, step_masks: list[Any]) -> Any:
            recorder.step = list(step_masks)
            logits = network(x)
            loss = F.cross_entropy(logits.reshape([-1, logits.shape[-1]]), y.reshape([-1]))
            return loss, ([] if recorder.replay else recorder.step)

        forward = paddle.jit.to_static(loss_of, full_graph=True) if static else loss_of
        losses = []
        recorded: list[Any] = []
        for number in range(steps):
            x, y = batches[number % len(batches)]
            inputs = paddle.to_tensor(x.astype("int64" if x.dtype.kind == "i" else dtype))
            given = [paddle.to_tensor(mask.astype(dtype)) for mask in masks[number]] if masks else []
            loss, used = forward(inputs, paddle.to_tensor(y.astype("int64")), given)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(float(loss))
            recorded.append([mask.numpy() for mask in used])
        return losses, weights_of(network), recorded
