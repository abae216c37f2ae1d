"""Trains a small network on a device and on the CPU: incomplete_training.py TYPE DTYPE...

Convolution, batch norm, pooling, an embedding, an op in place and Adam, in eager mode and as a graph. Prints the
largest differences as JSON, and the fallbacks.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import paddle
import unihal
from paddle import nn


def train(device: str, static: bool, dtype: str) -> np.ndarray:
    """Losses and weights, one after the other."""
    paddle.set_device(device)
    paddle.set_default_dtype(dtype)
    images = nn.Sequential(
        nn.Conv2D(1, 4, 3, padding=1, bias_attr=False),
        nn.BatchNorm2D(4),
        nn.ReLU(),
        nn.MaxPool2D(2),
        nn.Flatten(),
        nn.Linear(64, 10),
    )
    words = nn.Embedding(7, 10)
    parameters = images.parameters() + words.parameters()
    for i, parameter in enumerate(parameters):
        parameter.set_value(np.random.default_rng(i).normal(0, 0.2, parameter.shape).astype(dtype))

    def loss_of(x: Any, w: Any, y: Any) -> Any:
        return nn.functional.cross_entropy(images(x) + words(w).sum(axis=1), y)

    step = paddle.jit.to_static(loss_of, full_graph=True) if static else loss_of
    optimizer = paddle.optimizer.Adam(1e-2, parameters=parameters)
    random = np.random.default_rng(0)
    losses = []
    for _ in range(4):
        x = paddle.to_tensor(random.normal(size=(8, 1, 8, 8)).astype(dtype))
        w = paddle.to_tensor(random.integers(0, 7, (8, 3)))
        loss = step(x, w, paddle.to_tensor(random.integers(0, 10, (8, 1))))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    state = paddle.to_tensor(np.arange(12).reshape(3, 4).astype(dtype))
    state.add_(state)
    weights = [value.numpy() for value in (*images.state_dict().values(), *words.state_dict().values(), state)]
    return np.concatenate([np.ravel(value).astype(np.float64) for value in (losses, *weights)])


def main() -> None:
    device, *dtypes = sys.argv[1:]
    errors = {}
    for dtype in dtypes:
        expected = train("cpu", False, dtype)
        for static in (False, True):
            seen = train(device, static, dtype)
            errors[f"{dtype} {'static' if static else 'eager'}"] = float(np.abs(seen - expected).max())
    fallbacks = [[f.framework, f.op, f.dtype, f.reason, f.count] for f in unihal.fallbacks()]
    print(json.dumps({"errors": errors, "fallbacks": fallbacks}))


if __name__ == "__main__":
    main()
