"""Gradients of gradients, as gradient penalties and physics-informed networks take them: against Paddle's CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import DEVICE, Array, on, random, to_numpy

pytestmark = pytest.mark.unihal_no_fallback

Function = Callable[..., Any]

X, Y = random(3, 5), random(3, 5, seed=1)
POSITIVE = random(3, 5, low=0.3, high=2)


# Squares, for the sum of what is normalized and squared hardly depends on x.
def batch_norm(x: Any, weight: Any, bias: Any, **others: Any) -> Any:
    statistic = "float64" if x.dtype == paddle.float64 else "float32"  # also of narrower x
    mean, variance = paddle.zeros([3], statistic), paddle.ones([3], statistic)
    return paddle.square(F.batch_norm(x, mean, variance, weight, bias, training=True, **others)) / 8


CASES: dict[str, tuple[Function, tuple[Array, ...]]] = {
    "abs": (paddle.abs, (X,)),
    "add": (paddle.add, (X, Y)),
    "add a row": (paddle.add, (X, Y[:1])),
    "celu": (lambda x: F.celu(x, 0.7), (X,)),
    "cos": (paddle.cos, (X,)),
    "divide": (paddle.divide, (X, POSITIVE)),
    "divide by a row": (paddle.divide, (X, POSITIVE[:1])),
    "elu": (lambda x: F.elu(x, 0.7), (X,)),
    "leaky_relu": (F.leaky_relu, (X,)),
    "log": (paddle.log, (POSITIVE,)),
    "multiply": (paddle.multiply, (X, Y)),
    "multiply by a row": (paddle.multiply, (X, Y[:1])),
    "pow": (lambda x: paddle.pow(x, 3), (X,)),
    "relu": (F.relu, (X,)),
    "rsqrt": (paddle.rsqrt, (POSITIVE,)),
    "sigmoid": (F.sigmoid, (X,)),
    "sin": (paddle.sin, (X,)),
    "softplus": (F.softplus, (X,)),
    "sqrt": (paddle.sqrt, (POSITIVE,)),
    "square": (paddle.square, (X,)),
    "subtract": (paddle.subtract, (X, Y)),
    "tanh": (paddle.tanh, (X,)),
    "matmul": (lambda x, y: paddle.matmul(x, y, transpose_y=True), (X, Y)),
    "conv2d": (lambda x, w: F.conv2d(x, w, padding=1), (random(2, 3, 5, 4), random(4, 3, 3, 3, seed=1))),
    "batch_norm": (batch_norm, (random(4, 3, 5, 4), random(3, low=0.5), random(3))),
    "batch_norm without parameters": (lambda x: batch_norm(x, None, None), (random(4, 3, 5),)),
    "batch_norm by given statistics": (
        lambda x, w, b: batch_norm(x, w, b, use_global_stats=True),
        (random(4, 3, 5, 4), random(3, low=0.5), random(3)),
    ),
    "batch_norm channels last": (
        lambda x, w, b: batch_norm(x, w, b, data_format="NHWC"),
        (random(4, 5, 4, 3), random(3, low=0.5), random(3)),
    ),
    "instance_norm": (
        lambda x, w, b: paddle.square(F.instance_norm(x, weight=w, bias=b)) / 8,
        (random(4, 3, 5, 4), random(3, low=0.5), random(3)),
    ),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), (random(2, 3, 7, 6),)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, [3, 2]), (random(2, 3, 7, 6),)),
    "grouped conv2d": (lambda x, w: F.conv2d(x, w, groups=2), (random(2, 4, 5, 4), random(6, 2, 3, 3, seed=1))),
}


def spread(x: Any, stride: int) -> Any:
    """x with stride - 1 zeros between neighbors, by products: the CPU has all of their gradients."""
    height, width = (paddle.eye(size)[:, :, None] for size in x.shape[2:])
    rows, columns = (
        paddle.nn.functional.pad(unit, [0, 0, 0, 0, 0, stride - 1]).reshape([unit.shape[0], -1])[
            :, : 1 - stride or None
        ]
        for unit in (height, width)
    )
    return rows.astype(x.dtype).transpose([1, 0]) @ x @ columns.astype(x.dtype)


def transposed_by_definition(x: Any, w: Any, stride: int, padding: int, dilation: int, groups: int) -> Any:
    """A convolution of what lies `stride` apart with the filters turned around, their channels exchanged."""
    given, each, *size = w.shape
    turned = w.reshape([groups, given // groups, each, *size]).transpose([0, 2, 1, 3, 4]).flip([3, 4])
    turned = turned.reshape([groups * each, given // groups, *size])
    edges = [dilation * (extent - 1) - padding for extent in size]
    return F.conv2d(spread(x, stride), turned, padding=edges, dilation=dilation, groups=groups)


def transposed(**attributes: int) -> tuple[Function, Function]:
    return lambda x, w: F.conv2d_transpose(x, w, **attributes), lambda x, w: transposed_by_definition(
        x, w, **attributes
    )


#: What only Paddle's GPUs have kernels for: what our device runs, and what the CPU does.
WITHOUT_CPU_KERNEL: dict[str, tuple[Function, Function, tuple[Array, ...]]] = {
    "depthwise conv2d": (
        lambda x, w: F.conv2d(x, w, stride=2, padding=1, groups=3),
        lambda x, w: paddle._C_ops.conv2d(x, w, [2, 2], [1, 1], "EXPLICIT", [1, 1], 3, "NCHW"),
        (random(2, 3, 6, 5), random(6, 1, 3, 3, seed=1)),
    ),
    "conv2d_transpose": (
        *transposed(stride=1, padding=0, dilation=1, groups=1),
        (random(2, 3, 4, 5), random(3, 4, 3, 2, seed=1)),
    ),
    "grouped conv2d_transpose": (
        *transposed(stride=2, padding=1, dilation=2, groups=2),
        (random(2, 4, 4, 5), random(4, 3, 3, 2, seed=1)),
    ),
    "conv2d_transpose channels last": (
        lambda x, w: F.conv2d_transpose(x, w, stride=2, data_format="NHWC"),
        lambda x, w: transposed_by_definition(x.transpose([0, 3, 1, 2]), w, 2, 0, 1, 1).transpose([0, 2, 3, 1]),
        (random(2, 4, 5, 3), random(3, 4, 3, 2, seed=1)),
    ),
}


def given(array: Array, device: str, dtype: str) -> Any:
    """Of float16 and bfloat16 the CPU gets the same numbers in float32."""
    narrow = dtype in ("float16", "bfloat16")
    tensor = paddle.to_tensor(array.astype("float32" if narrow else dtype))
    if narrow:
        tensor = tensor.astype(dtype)
        tensor = tensor.astype("float32") if device == "cpu" else tensor
    tensor.stop_gradient = False
    return tensor


def second_gradients(function: Function, inputs: tuple[Array, ...], device: str, dtype: str) -> list[Array]:
    """Of the squared norm of the first gradients."""
    with on(device):
        tensors = [given(array, device, dtype) for array in inputs]
        result = function(*tensors)
        first = paddle.grad((result * result).sum(), tensors, create_graph=True)
        second = paddle.grad(sum((gradient * gradient).sum() for gradient in first), tensors)
        return [to_numpy(gradient) for gradient in (*first, *second)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_as_on_the_cpu(name: str, dtype: str) -> None:
    function, inputs = CASES[name]
    ours, theirs = (second_gradients(function, inputs, device, dtype) for device in (DEVICE, "cpu"))
    # The CPU divides by the size of a window in float32.
    limit = 1e-4 if dtype == "float32" else 1e-6 if "pool" in name else 1e-11
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=limit, atol=limit * np.abs(other).max())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", WITHOUT_CPU_KERNEL)
def test_as_composed_on_the_cpu(name: str, dtype: str) -> None:
    function, composed, inputs = WITHOUT_CPU_KERNEL[name]
    ours = second_gradients(function, inputs, DEVICE, dtype)
    theirs = second_gradients(composed, inputs, "cpu", dtype)
    limit = 1e-4 if dtype == "float32" else 1e-11
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=limit, atol=limit * np.abs(other).max())


def test_a_penalty_of_images_alone() -> None:
    """What a critic of depthwise convolutions is trained with; of a transposed one Paddle wants both gradients."""
    function, composed, (x, w) = WITHOUT_CPU_KERNEL["depthwise conv2d"]
    answers = []
    for device, run in ((DEVICE, function), ("cpu", composed)):
        with on(device):
            images = paddle.to_tensor(x, stop_gradient=False)
            (first,) = paddle.grad(run(images, paddle.to_tensor(w)).square().sum(), [images], create_graph=True)
            (second,) = paddle.grad((first * first).sum(), [images])
            answers.append(to_numpy(second))
    np.testing.assert_allclose(*answers, rtol=1e-4, atol=1e-4 * np.abs(answers[1]).max())
