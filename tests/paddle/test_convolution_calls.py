"""Layers that call their convolution directly (patches/convolutions.py) give what Paddle's own function gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
from comparison import on, random
from paddle import nn

MODULE = paddle.nn.functional.conv
#: An AttributeError says that this Paddle's function has other arguments than the adapter knows.
ORIGINAL = MODULE._conv_nd.__wrapped__

#: Of a layer for images with 4 channels.
LAYERS: dict[str, dict[str, Any]] = {
    "bias": {"out_channels": 6, "kernel_size": 3, "padding": 1},
    "no bias": {"out_channels": 6, "kernel_size": 3, "bias_attr": False},
    "channels last": {"out_channels": 6, "kernel_size": 3, "data_format": "NHWC", "padding": "SAME", "stride": 2},
    "groups": {"out_channels": 8, "kernel_size": 3, "groups": 2, "dilation": 2},
    "depthwise": {"out_channels": 8, "kernel_size": 3, "groups": 4, "dilation": 2, "padding": (1, 2)},
}


def answers(layer: Any, dtype: str) -> list[Any]:
    """The result, first gradients, and those of a gradient's sum."""
    x = paddle.to_tensor(
        random(2, 9, 9, 4) if layer._data_format == "NHWC" else random(2, 4, 9, 9), stop_gradient=False
    )
    with paddle.amp.auto_cast(dtype != "float32", dtype=dtype if dtype != "float32" else "bfloat16"):
        y = layer(x)
    first = paddle.grad(y.astype("float32").square().sum(), [x, *layer.parameters()], create_graph=True)
    return [y, *first, *paddle.grad(first[0].square().sum(), [x, layer.weight])]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", LAYERS)
def test_a_convolution_gives_what_paddles_function_gives(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags: list[Any] = []
    monkeypatch.setattr(paddle, "get_flags", lambda names: flags.append(names) or {})
    with on("iluvatar"):
        layer = nn.Conv2D(4, **LAYERS[name])
        ours = answers(layer, dtype)
        assert not flags, "a layer's call asked for flags"
        monkeypatch.setattr(MODULE, "_conv_nd", ORIGINAL)
        theirs = answers(layer, dtype)
    assert [a.dtype for a in ours] == [a.dtype for a in theirs]
    for a, b in zip(ours, theirs):
        np.testing.assert_array_equal(a.astype("float32").numpy(), b.astype("float32").numpy())


def test_a_convolution_refuses_what_paddles_function_refuses() -> None:
    for data_format, shape in (("NCHW", (2, 3, 9, 9)), ("NCHW", (4, 9, 9))):
        for device in ("cpu", "iluvatar"):
            with on(device):
                layer = nn.Conv2D(4, 6, 3, data_format=data_format)
                with pytest.raises(ValueError):
                    layer(paddle.to_tensor(random(*shape)))


def test_a_convolution_in_a_graph_is_paddles() -> None:
    with on("iluvatar"):
        layer = nn.Conv2D(4, 6, 3)
        x = paddle.to_tensor(random(2, 4, 9, 9))
        eager = layer(x)
        for full_graph in (True, False):
            graph = paddle.jit.to_static(layer, full_graph=full_graph)
            np.testing.assert_array_equal(graph(x).numpy(), eager.numpy())
