"""nn.SyncBatchNorm in one process, where it is batch normalization; that of two is in test_distributed.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
from comparison import DEVICE, on, random, to_numpy
from paddle import nn

pytestmark = pytest.mark.unihal_no_fallback

SHAPES = {
    "NC": (6, 4),
    "NCL": (6, 4, 5),
    "NLC": (6, 5, 4),
    "NCHW": (6, 4, 3, 5),
    "NHWC": (6, 3, 5, 4),
    "NCDHW": (3, 4, 2, 3, 5),
    "NDHWC": (3, 2, 3, 5, 4),
}
PLAIN = {2: nn.BatchNorm1D, 3: nn.BatchNorm1D, 4: nn.BatchNorm2D, 5: nn.BatchNorm3D}
Arrays = list[np.ndarray[Any, Any]]


def results(layer: Any, shape: tuple[int, ...], dtype: str, training: bool = True, static: bool = False) -> Arrays:
    """y, gradients and running statistics after two steps."""
    layer.weight.set_value(random(4, low=0.5, seed=1))
    layer.bias.set_value(random(4, seed=2))
    layer._mean.set_value(random(4, seed=3))
    layer._variance.set_value(random(4, low=0.5, seed=4))
    if dtype == "float64":
        layer.to(dtype=dtype)
    if not training:
        layer.eval()
    call = paddle.jit.to_static(layer, full_graph=True) if static else layer
    tensors = []
    for step in range(2):
        x = paddle.to_tensor(random(*shape, seed=5 + step)).astype(dtype)
        x.stop_gradient = False
        y = call(x)
        y.backward(paddle.to_tensor(random(*shape, seed=7)).astype(dtype))
        tensors += [y, x.grad]
    tensors += [layer.weight.grad, layer.bias.grad, layer._mean, layer._variance]
    if static and not training:  # Paddle makes no gradients of such a graph
        tensors = [tensor for tensor in tensors if tensor is not None]
    assert all(DEVICE in str(tensor.place) for tensor in tensors)
    return [to_numpy(tensor) for tensor in tensors]


def assert_as_batch_norm(data_format: str, *arguments: Any) -> None:
    """To the bit: it is the same work."""
    shape = SHAPES[data_format]
    with on(DEVICE):
        options = {"momentum": 0.8, "epsilon": 1e-3, "data_format": data_format}
        found = results(nn.SyncBatchNorm(4, **options), shape, *arguments)
        expected = results(PLAIN[len(shape)](4, **options), shape, *arguments)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("training", [True, False], ids=["training", "test"])
@pytest.mark.parametrize("data_format", SHAPES)
def test_is_batch_norm(data_format: str, training: bool) -> None:
    assert_as_batch_norm(data_format, "float32", training)


@pytest.mark.parametrize("training", [True, False], ids=["training", "test"])
@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_is_batch_norm_of_other_dtypes(dtype: str, data_format: str, training: bool) -> None:
    assert_as_batch_norm(data_format, dtype, training)


@pytest.mark.parametrize("training", [True, False], ids=["training", "test"])
def test_is_batch_norm_in_a_graph(training: bool) -> None:
    assert_as_batch_norm("NCHW", "float32", training, True)


def test_a_converted_network_trains() -> None:
    with on(DEVICE):
        paddle.seed(1)
        model = nn.Sequential(nn.Conv2D(1, 4, 3), nn.BatchNorm2D(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
        assert any(isinstance(layer, nn.SyncBatchNorm) for layer in model.sublayers())
        optimizer = paddle.optimizer.Momentum(0.05, parameters=model.parameters())
        x, label = paddle.to_tensor(random(8, 1, 8, 8)), paddle.to_tensor(np.arange(8) % 2)
        losses = []
        for _ in range(10):
            with paddle.amp.auto_cast(level="O1", dtype="bfloat16"):
                loss = nn.functional.cross_entropy(model(x), label)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(float(loss))
        assert losses[-1] < 0.2 * losses[0]
