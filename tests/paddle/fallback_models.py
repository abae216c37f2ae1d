"""A program: models with ops that fall back, trained in graphs on devices, against the same in dynamic mode on the CPU.

A fallback's results go back to the device that the graph is for, and what an op of the device left goes to the host. It
ends with an assertion, or prints each model and device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn


class Llama(nn.Layer):
    """Rotary positions, RMS norms, gated layers; add_position_encoding falls back."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.q, self.k, self.v, self.o = (nn.Linear(16, 16, bias_attr=False) for _ in range(4))
        self.gate, self.up, self.down = nn.Linear(16, 32), nn.Linear(16, 32), nn.Linear(32, 16)
        self.scale = self.create_parameter([16], default_initializer=nn.initializer.Constant(1.0))
        self.head = nn.Linear(16, 20)

    def norm(self, x: Any) -> Any:
        return x * paddle.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * self.scale

    def rotate(self, x: Any) -> Any:
        positions = paddle.arange(x.shape[1], dtype="float32").unsqueeze(-1)
        angle = positions * paddle.pow(paddle.to_tensor(10000.0), -paddle.arange(0, 4, dtype="float32") / 4)
        cos, sin = paddle.cos(angle).unsqueeze(1), paddle.sin(angle).unsqueeze(1)
        a, b = paddle.chunk(x, 2, axis=-1)
        return paddle.concat([a * cos - b * sin, a * sin + b * cos], -1)

    def forward(self, ids: Any) -> Any:
        x = self.embed(ids)
        h = self.norm(x)
        q, k, v = (w(h).reshape([h.shape[0], h.shape[1], 2, 8]) for w in (self.q, self.k, self.v))
        q, k, v = (t.transpose([0, 2, 1, 3]) for t in (self.rotate(q), self.rotate(k), v))
        scores = paddle.matmul(q, k, transpose_y=True) / 8**0.5
        mask = paddle.triu(paddle.full([ids.shape[1], ids.shape[1]], -1e9), 1)
        y = paddle.matmul(F.softmax(scores + mask), v).transpose([0, 2, 1, 3]).flatten(2)
        x = x + self.o(y)
        h = self.norm(x)
        x = x + self.down(F.silu(self.gate(h)) * self.up(h))
        same = paddle._C_ops.add_position_encoding(x, 1.0, 0.0)
        return self.head(same)


class UNet(nn.Layer):
    """Convolutions down and up, and images at places that are made of a matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle = nn.Conv2D(1, 4, 3, padding=1), nn.Conv2D(4, 4, 3, padding=1)
        self.up, self.last = nn.Conv2DTranspose(4, 4, 2, stride=2), nn.Conv2D(8, 1, 1)

    def forward(self, x: Any) -> Any:
        a = F.relu(self.down(x))
        b = F.relu(self.middle(F.max_pool2d(a, 2)))
        turned = paddle.to_tensor([[[0.9, 0.1, 0.0], [-0.1, 0.9, 0.0]]]).expand([x.shape[0], 2, 3])
        c = F.grid_sample(self.up(b), F.affine_grid(turned, [x.shape[0], 4, 8, 8]))
        return self.last(paddle.concat([a, c], 1))


class BiLstm(nn.Layer):
    """A recurrent layer, in two directions."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(6, 8, direction="bidirect"), nn.Linear(16, 3)

    def forward(self, x: Any) -> Any:
        y, _ = self.lstm(x)
        return self.head(y[:, -1])


def train(kind: str, device: str, static: bool) -> list[float]:
    """The losses of three steps."""
    paddle.set_device(device)
    random = np.random.RandomState(0)
    makers: dict[str, Any] = {
        "llama": lambda: (Llama(), random.randint(0, 20, (2, 5))),
        "unet": lambda: (UNet(), random.rand(2, 1, 8, 8).astype("float32")),
        "bilstm": lambda: (BiLstm(), random.rand(2, 5, 6).astype("float32")),
    }
    network, x = makers[kind]()
    for parameter in network.parameters():
        parameter.set_value(random.uniform(-0.5, 0.5, parameter.shape).astype("float32"))
    forward = paddle.jit.to_static(network, full_graph=True) if static else network
    optimizer = paddle.optimizer.SGD(0.1, parameters=network.parameters())
    losses = []
    for _ in range(3):
        loss = (forward(paddle.to_tensor(x)) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    return losses


def main() -> None:
    for kind in ("llama", "unet", "bilstm"):
        expected = train(kind, "cpu", False)
        for device in ("iluvatar", "rdna", "polaris"):
            # Rounding differences grow over the steps.
            np.testing.assert_allclose(train(kind, device, True), expected, rtol=1e-4, err_msg=f"{kind} on {device}")
            print(kind, device)


if __name__ == "__main__":
    main()
