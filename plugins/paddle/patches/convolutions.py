"""Convolutions on our devices call their ops with nothing in between.

Paddle's function for layers asks at each call for flags that concern other vendors' devices, and shapes the bias by a
function that any of Paddle's programs may call in several ways. That takes some 10 us a layer of the host's time, which
networks of many small layers wait for: of a training step of SqueezeNet it is a twelfth.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

from unihal_paddle_device import present_device_is_ours

PARAMETERS = (
    "x", "weight", "bias", "stride", "padding", "padding_algorithm", "dilation", "groups", "data_format", "channel_dim",
    "op_type", "use_cudnn", "name",
)  # fmt: skip


def patch_convolutions(functional: Any) -> None:
    """Two-dimensional ones; others are too few, and too large, for their calls to matter."""
    module = functional.conv
    original, ops = module._conv_nd, module._C_ops
    if tuple(inspect.signature(original).parameters) != PARAMETERS:
        return  # another Paddle's, which may do more
    add, reshape, in_dynamic_mode = ops.add, ops.reshape, module.in_dynamic_mode
    dense, depthwise = ops.conv2d, ops.depthwise_conv2d

    @functools.wraps(original)
    def convolve(
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        padding_algorithm: Any = None,
        dilation: Any = 1,
        groups: int = 1,
        data_format: str = "NCHW",
        channel_dim: int = 1,
        op_type: str = "conv2d",
        use_cudnn: bool = True,
        name: str | None = None,
    ) -> Any:
        if op_type not in ("conv2d", "depthwise_conv2d") or not in_dynamic_mode() or not present_device_is_ours():
            return original(
                x, weight, bias, stride, padding, padding_algorithm, dilation, groups, data_format, channel_dim,
                op_type, use_cudnn, name,
            )  # fmt: skip
        if op_type == "conv2d":
            y = dense(x, weight, stride, padding, padding_algorithm, dilation, groups, data_format)
        else:
            y = depthwise(x, weight, stride, padding, padding_algorithm, groups, dilation, data_format)
        if bias is None:
            return y
        shape = [1] * x.ndim
        shape[channel_dim] = -1
        return add(y, reshape(bias, shape))

    module._conv_nd = convolve
