"""Every kernel's results and gradients against Paddle's CPU, with fallbacks forbidden.

A row names the call, its inputs, and what it does not have (gradients, dtypes)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import DEVICE, Array, check, check_in_graph, on, random


class Case(NamedTuple):
    name: str
    function: Callable[..., Any]
    inputs: tuple[Array, ...]
    gradient: bool = True
    tolerance: float | None = None


def indices(*shape: int, high: int, seed: int = 0) -> Array:
    return np.random.RandomState(seed).randint(0, high, shape).astype("int64")


X = random(3, 5)
POSITIVE = random(3, 5, low=0.1, high=2.0)
INSIDE = random(3, 5, low=-0.9, high=0.9)
ABOVE_ONE = random(3, 5, low=1.1, high=3.0)
Y = random(3, 5, seed=1)
TENTHS = np.float32([0.1, 0.1, -0.1, 0.1, 0.1])

UNARY = [
    Case("abs", paddle.abs, (X,)),
    Case("acos", paddle.acos, (INSIDE,), False),
    Case("acosh", paddle.acosh, (ABOVE_ONE,), False),
    Case("asin", paddle.asin, (INSIDE,), False),
    Case("asinh", paddle.asinh, (X,), False),
    Case("atan", paddle.atan, (X,), False),
    Case("atanh", paddle.atanh, (INSIDE,), False),
    Case("ceil", paddle.ceil, (X,)),
    Case("clip", lambda x: paddle.clip(x, -0.5, 1.0), (X,)),
    Case("cos", paddle.cos, (X,)),
    Case("cosh", paddle.cosh, (X,), False),
    Case("elu", lambda x: F.elu(x, 0.7), (X,)),
    Case("erf", paddle.erf, (X,)),
    Case("exp", paddle.exp, (X,)),
    Case("expm1", paddle.expm1, (X,), False),
    Case("floor", paddle.floor, (X,)),
    Case("gelu", F.gelu, (X,)),
    Case("gelu tanh", lambda x: F.gelu(x, approximate=True), (X,)),
    Case("hardshrink", F.hardshrink, (X,), False),
    Case("hardsigmoid", F.hardsigmoid, (4 * X,)),
    Case("hardswish", F.hardswish, (3 * X,)),
    Case("hardtanh", F.hardtanh, (X,)),
    Case("leaky_relu", lambda x: F.leaky_relu(x, 0.2), (X,)),
    Case("log", paddle.log, (POSITIVE,)),
    Case("log10", paddle.log10, (POSITIVE,), False),
    Case("log1p", paddle.log1p, (POSITIVE,), False),
    Case("log2", paddle.log2, (POSITIVE,), False),
    Case("log_sigmoid", F.log_sigmoid, (X,)),
    Case("pow", lambda x: paddle.pow(x, 2.5), (POSITIVE,)),
    Case("reciprocal", paddle.reciprocal, (POSITIVE,)),
    Case("relu", F.relu, (X,)),
    Case("relu6", F.relu6, (4 * X,)),
    Case("rsqrt", paddle.rsqrt, (POSITIVE,)),
    Case("scale", lambda x: paddle.scale(x, 2.0, 1.0), (X,)),
    Case("scale, bias first", lambda x: paddle.scale(x, 2.0, 1.0, bias_after_scale=False), (X,)),
    Case("selu", F.selu, (X,)),
    Case("sigmoid", F.sigmoid, (X,)),
    Case("sign", paddle.sign, (X,), False),
    Case("silu", F.silu, (X,)),
    Case("sin", paddle.sin, (X,)),
    Case("sinh", paddle.sinh, (X,), False),
    Case("softplus", F.softplus, (X,)),
    Case("softshrink", F.softshrink, (X,), False),
    Case("softsign", F.softsign, (X,)),
    Case("sqrt", paddle.sqrt, (POSITIVE,)),
    Case("square", paddle.square, (X,)),
    Case("swish", F.swish, (X,)),
    Case("tan", paddle.tan, (INSIDE,), False),
    Case("tanh", paddle.tanh, (X,)),
    Case("trunc", paddle.trunc, (X,), False),
    Case("expm1 gradient", paddle.expm1, (X,)),
    Case("log10 gradient", paddle.log10, (POSITIVE,)),
    Case("log1p gradient", paddle.log1p, (POSITIVE,)),
    Case("log2 gradient", paddle.log2, (POSITIVE,)),
    Case("mish", F.mish, (X,), False),
    Case("thresholded_relu", lambda x: F.thresholded_relu(x, 0.5), (X,), False),
]

ROW, COLUMN = random(1, 5, seed=2), random(3, 1, seed=3)
BINARY = [
    Case("add", paddle.add, (X, Y)),
    Case("add broadcast", paddle.add, (ROW, COLUMN)),
    Case("add bias", paddle.add, (random(2, 3, 5), random(5, seed=1))),
    Case("subtract broadcast", paddle.subtract, (ROW, COLUMN)),
    Case("multiply", paddle.multiply, (X, Y)),
    Case("multiply broadcast", paddle.multiply, (X, ROW)),
    Case("divide", paddle.divide, (X, POSITIVE)),
    Case("divide broadcast", paddle.divide, (ROW, POSITIVE)),
    Case("maximum", paddle.maximum, (X, Y)),
    Case("minimum broadcast", paddle.minimum, (X, ROW)),
    Case("atan2", paddle.atan2, (X, Y), False),
    Case("elementwise_pow", paddle.pow, (POSITIVE, Y), False),
    Case("remainder", paddle.remainder, (X, POSITIVE), False),
    Case("floor_divide", paddle.floor_divide, (4 * X, POSITIVE), False),
    Case("floor_divide of tenths", paddle.floor_divide, (np.float32([1, -1, 1, 0.3, -0.5]), TENTHS), False),
    Case("where", lambda x, y: paddle.where(x > 0, x, y), (X, Y)),
    Case("lerp", lambda x, y: paddle.lerp(x, y, paddle.full_like(x, 0.25)), (X, Y), False),
    Case("isclose", lambda x, y: paddle.isclose(x, x + 1e-7 * y), (X, Y), False),
]

MATRIX = [
    Case("matmul", paddle.matmul, (random(3, 5), random(5, 4, seed=1))),
    Case(
        "matmul x transposed", lambda x, y: paddle.matmul(x, y, transpose_x=True), (random(5, 3), random(5, 4, seed=1))
    ),
    Case(
        "matmul y transposed", lambda x, y: paddle.matmul(x, y, transpose_y=True), (random(3, 5), random(4, 5, seed=1))
    ),
    Case("matmul both", lambda x, y: paddle.matmul(x, y, True, True), (random(5, 3), random(4, 5, seed=1))),
    Case("matmul batched", paddle.matmul, (random(2, 3, 4, 5), random(2, 3, 5, 6, seed=1))),
    Case("matmul broadcast", paddle.matmul, (random(2, 3, 4, 5), random(5, 6, seed=1))),
    Case("matmul broadcast batch", paddle.matmul, (random(2, 1, 4, 5), random(1, 3, 5, 6, seed=1))),
    Case("matmul vectors", paddle.matmul, (random(5), random(5, seed=1))),
    Case("matmul vector left", paddle.matmul, (random(5), random(5, 4, seed=1))),
    Case("matmul vector right", paddle.matmul, (random(3, 5), random(5, seed=1))),
    Case("mv", paddle.mv, (random(3, 5), random(5, seed=1))),
    Case("bmm", paddle.bmm, (random(2, 3, 5), random(2, 5, 4, seed=1))),
    Case(
        "baddbmm",
        lambda c, x, y: paddle.baddbmm(c, x, y, 0.5, 2.0),
        (random(2, 3, 4), random(2, 3, 5), random(2, 5, 4)),
        False,
    ),
    Case("addmm", lambda c, x, y: paddle.addmm(c, x, y, 0.5, 2.0), (random(3, 4), random(3, 5), random(5, 4)), False),
    Case("linear", F.linear, (random(3, 5), random(5, 4, seed=1), random(4, seed=2))),
]

IMAGE, FILTER = random(2, 4, 7, 6), random(6, 4, 3, 3, seed=1)
IMAGES = [
    Case("conv2d", F.conv2d, (IMAGE, FILTER)),
    Case("conv2d stride", lambda x, w: F.conv2d(x, w, stride=2, padding=1), (IMAGE, FILTER)),
    Case("conv2d dilated", lambda x, w: F.conv2d(x, w, dilation=2, padding=[2, 1]), (IMAGE, FILTER)),
    Case("conv2d same", lambda x, w: F.conv2d(x, w, stride=2, padding="SAME"), (IMAGE, FILTER)),
    Case("conv2d padding of four", lambda x, w: F.conv2d(x, w, padding=[1, 0, 2, 1]), (IMAGE, FILTER)),
    Case("conv2d grouped", lambda x, w: F.conv2d(x, w, groups=2), (IMAGE, random(6, 2, 3, 3, seed=1))),
    Case("conv2d depthwise", lambda x, w: F.conv2d(x, w, groups=4, padding=1), (IMAGE, random(4, 1, 3, 3, seed=1))),
    Case("conv2d NHWC", lambda x, w: F.conv2d(x, w, data_format="NHWC"), (random(2, 7, 6, 4), FILTER)),
    Case("conv3d", F.conv3d, (random(2, 3, 5, 4, 4), random(2, 3, 2, 2, 2, seed=1))),
    Case(
        "conv2d_transpose",
        lambda x, w: F.conv2d_transpose(x, w, stride=2, padding=1),
        (IMAGE, random(4, 3, 3, 3, seed=1)),
    ),
    Case("max_pool2d", lambda x: F.max_pool2d(x, 2), (IMAGE,)),
    Case("max_pool2d overlap", lambda x: F.max_pool2d(x, 3, 2, 1), (IMAGE,)),
    Case("max_pool2d ceil", lambda x: F.max_pool2d(x, 2, 2, ceil_mode=True), (IMAGE,)),
    Case("avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1), (IMAGE,)),
    Case("avg_pool2d inclusive", lambda x: F.avg_pool2d(x, 3, 2, 1, exclusive=False), (IMAGE,)),
    Case("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, 3), (IMAGE,)),
    Case("adaptive_avg_pool2d one", lambda x: F.adaptive_avg_pool2d(x, 1), (IMAGE,)),
    Case("avg_pool3d", lambda x: F.avg_pool3d(x, 2), (random(2, 3, 4, 4, 4),)),
]


def places(*shape: int) -> Array:
    """In steps that place some at the edges and halfway between pixels, and outside."""
    return (np.random.RandomState(5).randint(-12, 13, shape) / 8).astype("float32")


SAMPLING = [
    Case(
        f"grid_sample {mode} {padding} {corners} {len(shape)}D",
        partial(F.grid_sample, mode=mode, padding_mode=padding, align_corners=corners),
        (random(*shape), places(*grid)),
    )
    for mode in ("bilinear", "nearest")
    for padding in ("zeros", "border", "reflection")
    for corners in (True, False)
    for shape, grid in (((2, 3, 4, 5), (2, 3, 6, 2)), ((1, 2, 3, 4, 2), (1, 2, 3, 5, 3)))
] + [
    Case("grid_sample one pixel", F.grid_sample, (random(2, 3, 1, 1), places(2, 3, 2, 2))),
]

GAMMA, BETA = random(4, seed=1), random(4, seed=2)
NORMS = [
    Case("layer_norm", lambda x, g, b: F.layer_norm(x, 5, g, b), (X, random(5, seed=1), random(5, seed=2))),
    Case("layer_norm two axes", lambda x: F.layer_norm(x, [4, 5]), (random(3, 4, 5),)),
    Case("group_norm", lambda x, g, b: F.group_norm(x, 2, 1e-5, g, b), (IMAGE, GAMMA, BETA)),
    Case("instance_norm", lambda x, g, b: F.instance_norm(x, weight=g, bias=b), (IMAGE, GAMMA, BETA)),
    Case("softmax", F.softmax, (X,)),
    Case("softmax axis 0", lambda x: F.softmax(x, 0), (X,)),
    Case("log_softmax", F.log_softmax, (X,)),
]

# Zeta and its kin differ from Paddle's in their last digits: Paddle computes them in the dtype itself, by other series.
SPECIAL = [
    Case("lgamma", paddle.lgamma, (POSITIVE,)),
    Case("lgamma of negative", paddle.lgamma, (random(3, 5, low=-2.9, high=-2.1),)),
    Case("gammaln", paddle.gammaln, (POSITIVE,)),
    Case("digamma", paddle.digamma, (POSITIVE,)),
    Case("polygamma", lambda x: paddle.polygamma(x, 2), (POSITIVE,)),
    Case("polygamma 0", lambda x: paddle.polygamma(x, 0), (POSITIVE,)),
    Case("gammaincc", lambda y: paddle.gammaincc(paddle.full_like(y, 1.5), y), (POSITIVE,)),
    Case("gammainc", lambda x, y: paddle.gammainc(x, y), (POSITIVE, random(3, 5, low=0.1, seed=1)), False),
    Case("i0", paddle.i0, (3 * X,)),
    Case("i0e", paddle.i0e, (3 * X,)),
    Case("i1", paddle.i1, (3 * X,)),
    Case("i1e", paddle.i1e, (3 * X,)),
    Case("erfinv", paddle.erfinv, (INSIDE,)),
    Case("fmax", paddle.fmax, (X, Y)),
    Case("fmin", paddle.fmin, (X, random(1, 5, seed=1))),
    Case("fmax of NaN", paddle.fmax, (np.float32([np.nan, 1, np.nan]), np.float32([2, np.nan, np.nan])), False),
    Case("heaviside", paddle.heaviside, (np.float32([-1, 0, 2, 0]), np.float32([0.5, 0.25, 3, 4]))),
    Case("copysign", paddle.copysign, (X, Y)),
    Case("copysign broadcast", paddle.copysign, (X, random(1, 5, seed=1))),
    Case("copysign of zeros", paddle.copysign, (np.float32([1, -2, 0, 3]), np.float32([-0.0, 0.0, -1, 2])), False),
]

REDUCTIONS = [
    Case("sum", paddle.sum, (X,)),
    Case("sum axis", lambda x: paddle.sum(x, [0, 2]), (random(2, 3, 4),)),
    Case("sum keepdim", lambda x: paddle.sum(x, -1, keepdim=True), (X,)),
    Case("mean", paddle.mean, (X,)),
    Case("mean axis", lambda x: paddle.mean(x, 1), (random(2, 3, 4),)),
    Case("max", lambda x: paddle.max(x, 1), (X,)),
    Case("min", lambda x: paddle.min(x, 0, keepdim=True), (X,)),
    Case("amax", lambda x: paddle.amax(x, 1), (X,), False),
    Case("amin", lambda x: paddle.amin(x, 1), (X,), False),
    Case("prod", lambda x: paddle.prod(x, 1), (X,), False),
    Case("any", lambda x: paddle.any(x > 1, 1), (X,), False),
    Case("all", lambda x: paddle.all(x > -1, 1), (X,), False),
    Case("norm 1", lambda x: paddle.norm(x, 1, 1), (X,), False),
    Case("norm 2", lambda x: paddle.norm(x, 2, 1), (X,), False),
    Case("norm 3", lambda x: paddle.norm(x, 3, 1), (X,), False),
    Case("norm infinite", lambda x: paddle.norm(x, float("inf"), 1), (X,), False),
    Case("norm 0", lambda x: paddle.norm(x, 0, 1), (X,), False),
    Case("logsumexp", lambda x: paddle.logsumexp(x, 1), (X,), False),
    Case("add_n", lambda x, y: paddle.add_n([x, y, x]), (X, Y)),
    Case("logit", lambda x: paddle.logit(x, 0.2), (random(3, 5, low=0, high=1),), False),
    Case("logit without epsilon", paddle.logit, (random(3, 5, low=0.1, high=0.9),), False),
    Case("cumprod", lambda x: paddle.cumprod(x, 1), (X,), False),
    Case("cumsum", lambda x: paddle.cumsum(x, 1), (X,)),
    Case("cumsum flat", paddle.cumsum, (X,)),
    Case("kthvalue", lambda x: paddle.kthvalue(x, 2, 1), (X,)),
    Case("kthvalue axis 0, kept", lambda x: paddle.kthvalue(x, 3, 0, True), (X,)),
    Case("kthvalue integers", lambda x: paddle.kthvalue(x, 4), (np.int64([[3, 1, 2, 9, 7], [5, 4, 6, 0, 8]]),), False),
    Case(
        "kthvalue scalar", lambda x: paddle.kthvalue(x, 1), (np.float32(2.5),), False
    ),  # its CPU's gradient is 1, whatever comes
    Case("mode", paddle.mode, (np.float32([[3, 1, 2, 1, 3, 3], [2, 2, 1, 1, 5, 0], [np.nan, 1, 2, np.nan, 0, 0]]),)),
    Case("mode axis 0, kept", lambda x: paddle.mode(x, 0, True), (indices(5, 4, high=3).astype("float32"),)),
    Case("mode integers", paddle.mode, (indices(4, 9, high=4),), False),
    Case("logcumsumexp", lambda x: paddle.logcumsumexp(x, 1), (5 * X,)),
    Case("logcumsumexp flat", paddle.logcumsumexp, (X,)),
    Case("logcumsumexp axis 0", lambda x: paddle.logcumsumexp(x, 0), (30 * random(40, 3),)),
    Case("cummax", lambda x: paddle.cummax(x, 1), (X,)),
    Case("cummin flat", paddle.cummin, (X,)),
    Case("cummax of equals", lambda x: paddle.cummax(x, 0, "int32"), (np.float32([1, 3, 3, 2, 3, 4, 4]),)),
    Case("cummin of NaN", lambda x: paddle.cummin(x, 0), (np.float32([2, np.nan, 1, np.nan, 3]),), False),
    Case("argmax", lambda x: paddle.argmax(x, 1), (X,), False),
    Case("argmin flat", paddle.argmin, (X,), False),
    Case("argsort", lambda x: paddle.argsort(x, 1, descending=True), (X,), False),
    Case("sort", lambda x: paddle.sort(x, 1), (X,)),
    Case("topk", lambda x: paddle.topk(x, 2), (X,)),
]

SHAPES = [
    Case("transpose", lambda x: x.transpose([2, 0, 1]).contiguous(), (random(2, 3, 4),)),
    Case("reshape", lambda x: x.reshape([4, 6]) * 2, (random(2, 3, 4),)),
    Case("concat", lambda x, y: paddle.concat([x, y], 1), (random(2, 3), random(2, 4, seed=1))),
    Case("stack", lambda x, y: paddle.stack([x, y], 1), (X, Y)),
    Case("split", lambda x: paddle.split(x, [1, 2, 2], 1), (X,)),
    Case("split equal", lambda x: paddle.split(x, 3, 0), (X,)),
    Case("unbind", lambda x: paddle.unbind(x, 1), (X,)),
    Case("slice", lambda x: x[1:, 1:4], (X,)),
    Case("strided slice", lambda x: x[::2, ::-1], (X,)),
    Case("expand", lambda x: x.expand([4, 3, 5]) + 1, (X,)),
    Case("tile", lambda x: paddle.tile(x, [2, 3]), (X,)),
    Case("tile more axes", lambda x: paddle.tile(x, [2, 1, 3]), (X,)),
    Case("flip", lambda x: paddle.flip(x, [0, 1]), (X,)),
    Case("roll", lambda x: paddle.roll(x, [1, -2], [0, 1]), (X,)),
    Case("roll flat", lambda x: paddle.roll(x, 3), (X,)),
    Case("pad", lambda x: F.pad(x, [1, 2, 0, 1], value=0.5), (X,)),
    Case("tril", lambda x: paddle.tril(x, 1), (X,)),
    Case("triu", lambda x: paddle.triu(x, -1), (X,)),
    Case("squeeze", lambda x: x.squeeze(1) * 2, (random(3, 1, 5),)),
    Case("unsqueeze", lambda x: x.unsqueeze(1) * 2, (X,)),
    Case("non-contiguous operand", lambda x: x.t() + x.t().contiguous(), (X,)),
    Case("write into a view", lambda x: paddle.assign(x).t().contiguous(), (X,)),
]

TABLE = random(7, 4)
SEGMENTS = lambda: paddle.to_tensor([0, 0, 1, 1, 1, 3, 3])  # noqa: E731
EDGES = lambda: (paddle.to_tensor([0, 6, 6, 2, 3]), paddle.to_tensor([1, 1, 2, 5, 1]))  # noqa: E731
MASK = np.array([[True, False, True, True]])
INDEXING = [
    Case("embedding", lambda t: F.embedding(paddle.to_tensor(indices(2, 3, high=7)), t), (TABLE,)),
    Case(
        "embedding padding", lambda t: F.embedding(paddle.to_tensor(indices(2, 5, high=4)), t, padding_idx=1), (TABLE,)
    ),
    Case("gather", lambda x: paddle.gather(x, paddle.to_tensor(indices(4, high=7))), (TABLE,)),
    Case("gather axis 1", lambda x: paddle.gather(x, paddle.to_tensor(indices(5, high=4)), 1), (TABLE,)),
    Case("gather_nd", lambda x: paddle.gather_nd(x, paddle.to_tensor(indices(3, 2, high=4))), (TABLE,)),
    Case("masked_select", lambda x: paddle.masked_select(x, x > 0.5), (TABLE,)),
    Case("masked_select broadcast", lambda x: paddle.masked_select(x, paddle.to_tensor(MASK)), (TABLE,)),
    Case("masked_select of nothing", lambda x: paddle.masked_select(x, x > 9), (TABLE,)),
    *(
        Case(f"segment {name}", lambda x, f=f"segment_{name}": getattr(paddle.geometric, f)(x, SEGMENTS()), (TABLE,))
        for name in ("sum", "mean", "max", "min")
    ),
    *(
        Case(f"send_u_recv {name}", lambda x, name=name: paddle.geometric.send_u_recv(x, *EDGES(), name), (TABLE,))
        for name in ("sum", "mean", "max", "min")
    ),
    Case("send_u_recv size", lambda x: paddle.geometric.send_u_recv(x, *EDGES(), "sum", 9), (TABLE,)),
    Case("index_select", lambda x: paddle.index_select(x, paddle.to_tensor(indices(5, high=4)), 1), (TABLE,)),
    Case("take_along_axis", lambda x: paddle.take_along_axis(x, paddle.to_tensor(indices(7, 2, high=4)), 1), (TABLE,)),
    Case("scatter", lambda x, u: paddle.scatter(x, paddle.to_tensor([2, 0, 5]), u), (TABLE, random(3, 4)), False),
    Case(
        "scatter add",
        lambda x, u: paddle.scatter(x, paddle.to_tensor([2, 0, 2]), u, overwrite=False),
        (TABLE, random(3, 4)),
        False,
    ),
    Case(
        "scatter_nd_add",
        lambda x, u: paddle.scatter_nd_add(x, paddle.to_tensor([[2], [0], [2]]), u),
        (TABLE, random(3, 4)),
        False,
    ),
    Case("one_hot", lambda i: F.one_hot(i, 5), (indices(2, 3, high=5),), False),
]

LABELS = indices(3, 1, high=5)
PROBABILITIES = np.exp(Y) / np.exp(Y).sum(-1, keepdims=True)
LOSSES = [
    Case(
        "binary cross-entropy",
        lambda x: F.binary_cross_entropy(x, (paddle.to_tensor(Y) > 0).astype(x.dtype)),
        (random(3, 5, low=0.05, high=0.95),),
    ),
    Case(
        "binary cross-entropy of 0 and 1",
        lambda x: F.binary_cross_entropy(x, paddle.to_tensor([0.0, 1.0, 1.0, 0.0]).astype(x.dtype)),
        (np.float32([0, 1, 0, 1]),),
        False,
    ),
    Case(
        "binary cross-entropy with logits",
        lambda x: F.binary_cross_entropy_with_logits(x, (paddle.to_tensor(Y) > 0).astype(x.dtype)),
        (X,),
    ),
    Case(
        "binary cross-entropy with pos_weight",
        lambda x: F.binary_cross_entropy_with_logits(
            x,
            (paddle.to_tensor(Y) > 0).astype(x.dtype),
            pos_weight=paddle.to_tensor(random(5, low=0.5)).astype(x.dtype),
        ),
        (X,),
    ),
    Case(
        "binary cross-entropy normalized",
        lambda x: paddle._C_ops.sigmoid_cross_entropy_with_logits(
            x, paddle.to_tensor(indices(3, 5, high=3)).astype(x.dtype), None, True, 2
        ),
        (X,),
    ),
    Case("cross_entropy", lambda x: F.cross_entropy(x, paddle.to_tensor(LABELS)), (X,)),
    Case(
        "cross_entropy of probabilities",
        lambda x: F.cross_entropy(
            F.softmax(x), paddle.to_tensor(LABELS), ignore_index=int(LABELS[1, 0]), use_softmax=False, reduction="none"
        ),
        (X,),
    ),
    Case(
        "cross_entropy of probabilities, soft",
        lambda x: F.cross_entropy(
            F.softmax(x), paddle.to_tensor(PROBABILITIES).astype(x.dtype), soft_label=True, use_softmax=False, axis=-1
        ),
        (X,),
    ),
    Case(
        "cross_entropy ignore",
        lambda x: F.cross_entropy(x, paddle.to_tensor(LABELS), ignore_index=int(LABELS[1, 0])),
        (X,),
    ),
    Case(
        "cross_entropy soft",
        lambda x: F.cross_entropy(
            x, paddle.to_tensor(PROBABILITIES).astype(x.dtype), soft_label=True, reduction="none"
        ),
        (X,),
    ),
    Case(
        "cross_entropy axis 1",
        lambda x: F.cross_entropy(x, paddle.to_tensor(indices(2, 4, high=3)), axis=1, reduction="none"),
        (random(2, 3, 4),),
    ),
]

# (batch, length, heads, features)
QUERY, KEY, VALUE = (random(2, 5, 4, 8, seed=seed) for seed in range(3))
LONGER = [random(2, 7, 4, 8, seed=seed) for seed in (1, 2)]
SHARED = [random(2, 5, 2, 8, seed=seed) for seed in (1, 2)]
SCORE_MASK = np.where(random(2, 1, 5, 5, seed=3) > 1, np.float32(-3), np.float32(0.5))


def attend(*operands: Any, **attributes: Any) -> Any:
    return F.scaled_dot_product_attention(*operands, **attributes)


def mask_like(x: Any, mask: Array = SCORE_MASK) -> Any:
    return paddle.to_tensor(mask).astype(x.dtype)


ATTENTION = [
    Case("attention", attend, (QUERY, KEY, VALUE)),
    Case("attention, causal", lambda q, k, v: attend(q, k, v, is_causal=True), (QUERY, KEY, VALUE)),
    Case("attention of other lengths", attend, (QUERY, *LONGER)),
    Case("attention of other lengths, causal", lambda q, k, v: attend(q, k, v, is_causal=True), (QUERY, *LONGER)),
    Case("attention with a mask", lambda q, k, v: attend(q, k, v, mask_like(q)), (QUERY, KEY, VALUE)),
    Case(
        "attention with a mask of truth values",
        lambda q, k, v: attend(q, k, v, paddle.to_tensor(SCORE_MASK > 0)),
        (QUERY, KEY, VALUE),
    ),
    Case(
        "attention with a mask of rows",
        lambda q, k, v: attend(q, k, v, mask_like(q, SCORE_MASK[0, 0])),
        (QUERY, KEY, VALUE),
    ),
    Case("attention with a scale", lambda q, k, v: attend(q, k, v, scale=0.3), (QUERY, KEY, VALUE)),
    Case(
        "attention with a scale, causal",
        lambda q, k, v: attend(q, k, v, is_causal=True, scale=0.3),
        (QUERY, KEY, VALUE),
    ),
    Case("attention of shared heads", attend, (QUERY, *SHARED)),
    Case(
        "attention of shared heads, with a scale",
        lambda q, k, v: attend(q, k, v, scale=0.3, is_causal=True),
        (QUERY, *SHARED),
    ),
    Case("attention of another width", attend, (QUERY, KEY, random(2, 5, 4, 3, seed=2))),
    Case("attention without a batch", attend, (QUERY[0], KEY[0], VALUE[0])),
    Case("attention, its mask's gradient too", attend, (QUERY, KEY, VALUE, SCORE_MASK)),
    Case("flash_attention", lambda q, k, v: F.flash_attention.flash_attention(q, k, v)[0], (QUERY, KEY, VALUE)),
    Case(
        "flash_attention, causal",
        lambda q, k, v: F.flash_attention.flash_attention(q, k, v, causal=True)[0],
        (QUERY, KEY, VALUE),
    ),
    Case(
        "flash_attention with its weights",
        lambda q, k, v: F.flash_attention.flash_attention(q, k, v, return_softmax=True),
        (QUERY, KEY, VALUE),
    ),
]

# What is composed of several ops.
SIGNAL = random(2, 12)
VIDEO = random(6, 4, 3, 2)
CHAIN = (random(3, 5), random(5, 2, seed=1), random(2, 6, seed=2), random(6, 4, seed=3))
WITH_ZEROS = np.where(random(3, 5, seed=5) > 1, np.float32(0), X)
CLASSES = np.log(PROBABILITIES).astype("float32")
CLASS_WEIGHTS = random(5, low=0.5, high=2, seed=4)


def pads(size: int, mode: str, data_format: str = "NCHW", axes: int = 2) -> Any:
    numbers = [1, 2, 2, 0, 1, 1][: 2 * axes] if size == 1 else [-1, 2, 1, -2][: 2 * axes]
    return lambda x: F.pad(x, numbers, mode=mode, value=0.5, data_format=data_format)


def resize(mode: str, **attributes: Any) -> Callable[[Any], Any]:
    return lambda x: F.interpolate(x, mode=mode, **attributes)


COMPOSED = [
    *(Case(f"pad {mode}", pads(1, mode), (IMAGE,)) for mode in ("constant", "reflect", "replicate", "circular")),
    *(Case(f"pad NHWC {mode}", pads(1, mode, "NHWC"), (IMAGE,)) for mode in ("constant", "reflect", "replicate")),
    *(
        Case(f"pad3d {mode}", pads(1, mode, "NCDHW", 3), (random(2, 3, 3, 4, 5),))
        for mode in ("constant", "reflect", "replicate", "circular")
    ),
    Case("pad and cut", pads(2, "constant"), (IMAGE,)),
    Case("pad circular, more than once around", lambda x: F.pad(x, [7, 8, 0, 0], mode="circular"), (IMAGE,)),
    Case("pad of one pixel", lambda x: F.pad(x, [2, 3, 1, 0], mode="replicate"), (random(1, 2, 1, 1),)),
    *(
        Case(f"norm {order} gradient", lambda x, p=order: paddle.norm(x, p, 1), (X,))
        for order in (0, 1, 2, 3, 0.5, float("inf"), -float("inf"))
    ),
    Case("norm of all", lambda x: paddle.norm(x, 3), (X,)),
    Case("frobenius norm", lambda x: paddle.linalg.norm(x, "fro", [0, 2]), (random(2, 3, 4),)),
    Case("logsumexp gradient", lambda x: paddle.logsumexp(x, 1), (X,)),
    Case("logsumexp of all", paddle.logsumexp, (X,)),
    Case("prod gradient", lambda x: paddle.prod(x, 1), (X,)),
    *(Case(f"dist {p}", lambda x, y, p=p: paddle.dist(x, y, p), (X, ROW)) for p in (0, 1, 2, 3.5, float("inf"))),
    Case("dist of rank 0", paddle.dist, (random(1)[0].reshape(()), random(3, seed=1))),
    Case("broadcast_tensors", lambda x, y: paddle.broadcast_tensors([x, y, x]), (ROW, COLUMN)),
    Case("meshgrid", lambda x, y, z: paddle.meshgrid(x, y, z), (random(3), random(4, seed=1), random(2, seed=2))),
    Case("prelu", lambda x, a: F.prelu(x, a), (IMAGE, random(1))),
    Case("prelu of channels", lambda x, a: F.prelu(x, a), (IMAGE, random(4))),
    Case("prelu of channels, NHWC", lambda x, a: F.prelu(x, a, data_format="NHWC"), (IMAGE, random(6))),
    Case(
        "prelu of elements",
        lambda x, a: (
            paddle._C_ops.prelu(x, a, "NCHW", "element")
            if paddle.in_dynamic_mode()
            else F.prelu(x, a.sum().reshape([1]))
        ),
        (IMAGE, random(1, 4, 7, 6, seed=1)),
    ),
    Case("diag of a vector", lambda x: paddle.diag(x, 1), (random(4),)),
    Case("diag of a vector, padded", lambda x: paddle.diag(x, -2, 0.5), (random(4),)),
    Case("diag of a matrix", lambda x: paddle.diag(x, -1), (X,)),
    Case("diagonal", lambda x: paddle.diagonal(x, 1, 0, 2) * 2, (random(3, 2, 4),)),
    Case("diag_embed", lambda x: paddle.diag_embed(x, -1, 0, 2), (random(3, 4),), False),
    Case("trace", lambda x: paddle.trace(x, 1, 0, 2), (random(3, 2, 4),)),
    Case("multi_dot", lambda *x: paddle.linalg.multi_dot(list(x)), CHAIN),
    Case("multi_dot of vectors", lambda *x: paddle.linalg.multi_dot(list(x)), (random(5), random(5, 4), random(4))),
    Case("lerp gradient", lambda x, y: paddle.lerp(x, y, paddle.full_like(x, 0.25)), (X, Y)),
    Case("lerp broadcast", lambda x, y: paddle.lerp(x, y, 0.25), (ROW, COLUMN)),
    Case("power gradient", paddle.pow, (POSITIVE, Y)),
    Case("power broadcast", paddle.pow, (POSITIVE, ROW)),
    Case("power of zeros", paddle.pow, (np.float32([0, 0, 2, 0.5]), np.float32([2, 0, 0, 3]))),
    Case("remainder gradient", paddle.remainder, (X, POSITIVE)),
    Case("atan2 gradient", paddle.atan2, (X, ROW)),
    Case("dot", paddle.dot, (random(5), random(5, seed=1))),
    Case("dot of rows", paddle.dot, (X, Y)),
    Case("swiglu gradient", paddle.incubate.nn.functional.swiglu, (X, Y)),
    Case("swiglu of one, gradient", paddle.incubate.nn.functional.swiglu, (random(3, 6),)),
    Case("index_sample", lambda x: paddle.index_sample(x, paddle.to_tensor(indices(7, 6, high=4))), (random(7, 4),)),
    *(
        Case(
            f"kl_div {reduction}{' of logarithms' if log else ''}",
            lambda x, r=reduction, g=log: F.kl_div(x, paddle.to_tensor(np.maximum(Y, 0)).astype(x.dtype), r, g),
            (CLASSES,),
        )
        for reduction in ("none", "mean", "sum", "batchmean")
        for log in (False, True)
    ),
    Case("label_smooth", lambda x: F.label_smooth(x, epsilon=0.2), (X,)),
    Case("label_smooth with a prior", lambda x: F.label_smooth(x, paddle.full([1, 5], 0.2).astype(x.dtype), 0.3), (X,)),
    *(
        Case(
            f"nll_loss {reduction}{' with weights' if weighted else ''}",
            lambda x, r=reduction, w=weighted: F.nll_loss(
                x,
                paddle.to_tensor(LABELS[:, 0]),
                paddle.to_tensor(CLASS_WEIGHTS).astype(x.dtype) if w else None,
                ignore_index=int(LABELS[1, 0]),
                reduction=r,
            ),
            (CLASSES,),
        )
        for reduction in ("none", "mean", "sum")
        for weighted in (False, True)
    ),
    Case("nll_loss of images", lambda x: F.nll_loss(x, paddle.to_tensor(indices(2, 7, 6, high=4))), (IMAGE,)),
    Case("smooth_l1_loss", lambda x, y: F.smooth_l1_loss(x, y, delta=0.7), (X, Y)),
    Case("cumprod gradient", lambda x: paddle.cumprod(x, 1), (X,)),
    Case("cumprod of zeros", lambda x: paddle.cumprod(x, 0), (WITH_ZEROS,)),
    Case("cumprod of zeros, other axis", lambda x: paddle.cumprod(x, -1), (WITH_ZEROS,)),
    Case("frame", lambda x: paddle.signal.frame(x, 5, 2), (SIGNAL,)),
    Case("frame in front", lambda x: paddle.signal.frame(x, 5, 3, axis=0), (random(12, 2),)),
    Case("frame apart", lambda x: paddle.signal.frame(x, 2, 5), (SIGNAL,)),
    Case("frame of a vector", lambda x: paddle.signal.frame(x, 4, 4), (random(9),)),
    Case("overlap_add", lambda x: paddle.signal.overlap_add(x, 2), (random(3, 5, 4),)),
    Case("overlap_add in front", lambda x: paddle.signal.overlap_add(x, 3, axis=0), (random(4, 5, 2),)),
    Case("maxout", lambda x: F.maxout(x, 2), (IMAGE,)),
    Case("maxout of the last axis", lambda x: F.maxout(x, 3, axis=-1), (IMAGE,)),
    Case("addmm gradient", lambda c, x, y: paddle.addmm(c, x, y, 0.5, 2.0), (random(3, 4), random(3, 5), random(5, 4))),
    Case("addmm of a row", lambda c, x, y: paddle.addmm(c, x, y), (random(1, 4), random(3, 5), random(5, 4))),
    Case(
        "baddbmm gradient",
        lambda c, x, y: paddle.baddbmm(c, x, y, 0.5, 2.0),
        (random(2, 3, 4), random(2, 3, 5), random(2, 5, 4)),
    ),
    Case("reduce_as", lambda x: paddle.reduce_as(x, paddle.zeros([3, 1], x.dtype)), (random(2, 3, 5),)),
    Case("repeat_interleave", lambda x: paddle.repeat_interleave(x, 3, 1), (X,)),
    Case(
        "repeat_interleave by a tensor",
        lambda x, repeats: paddle.repeat_interleave(x, repeats, 1),
        (X, np.int64([2, 0, 1, 3, 1])),
    ),
    Case(
        "repeat_interleave by a tensor, nothing",
        lambda x, repeats: paddle.repeat_interleave(x, repeats, 0),
        (X, np.int32([0, 0, 0])),
    ),
    Case("unfold", lambda x: F.unfold(x, [3, 2], 2, [1, 0, 2, 1], [1, 2]), (IMAGE,)),
    Case("fold", lambda x: F.fold(x, [4, 5], [2, 3], [1, 2], [1, 0], [2, 1]), (random(2, 12, 8),)),
    Case("temporal_shift", lambda x: F.temporal_shift(x, 3, 0.25), (VIDEO,)),
    Case("temporal_shift NHWC", lambda x: F.temporal_shift(x, 2, 0.4, data_format="NHWC"), (random(6, 3, 2, 5),)),
    Case("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), (random(2, 8, 3, 2),)),
    Case("pixel_shuffle NHWC", lambda x: F.pixel_shuffle(x, 2, "NHWC"), (random(2, 3, 2, 8),)),
    Case("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), (random(2, 3, 4, 6),)),
    Case("pixel_unshuffle NHWC", lambda x: F.pixel_unshuffle(x, 2, "NHWC"), (random(2, 4, 6, 3),)),
    Case("channel_shuffle", lambda x: F.channel_shuffle(x, 2), (random(2, 6, 3, 2),)),
    Case("channel_shuffle NHWC", lambda x: F.channel_shuffle(x, 3, "NHWC"), (random(2, 3, 2, 6),)),
    Case("crop", lambda x: paddle.crop(x, [2, -1], [1, 2]), (X,)),
    Case("mish gradient", F.mish, (8 * X,)),
    Case("softshrink gradient", F.softshrink, (X,)),
    Case("hardshrink gradient", F.hardshrink, (X,)),
    Case("thresholded_relu gradient", lambda x: F.thresholded_relu(x, 0.5), (X,)),
    *(
        Case(f"{name} gradient", getattr(paddle, name), (inputs,))
        for name, inputs in [
            ("acos", INSIDE),
            ("acosh", ABOVE_ONE),
            ("asin", INSIDE),
            ("asinh", X),
            ("atan", X),
            ("atanh", INSIDE),
            ("cosh", X),
            ("sinh", X),
            ("tan", INSIDE),
            ("trunc", X),
            ("stanh", X),
        ]
    ),
    Case("celu", lambda x: F.celu(x, 0.7), (X,)),
    Case("tanhshrink", F.tanhshrink, (X,)),
    Case("scatter gradient", lambda x, u: paddle.scatter(x, paddle.to_tensor([2, 0, 5]), u), (TABLE, random(3, 4))),
    Case(
        "scatter add gradient",
        lambda x, u: paddle.scatter(x, paddle.to_tensor([2, 0, 2]), u, overwrite=False),
        (TABLE, random(3, 4)),
    ),
    Case(
        "scatter_nd_add gradient",
        lambda x, u: paddle.scatter_nd_add(x, paddle.to_tensor([[2], [0], [2]]), u),
        (TABLE, random(3, 4)),
    ),
    Case("max_pool2d and where", lambda x: F.max_pool2d(x, 3, 2, 1, return_mask=True), (IMAGE,)),
    Case("max_pool2d and where, ceil", lambda x: F.max_pool2d(x, 2, 2, ceil_mode=True, return_mask=True), (IMAGE,)),
    Case("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, 3, return_mask=True), (IMAGE,)),
    Case("max_pool3d and where", lambda x: F.max_pool3d(x, 2, return_mask=True), (random(2, 3, 4, 4, 4),)),
    *(Case(f"interpolate {mode}", resize(mode, size=[5, 9]), (IMAGE,)) for mode in ("nearest", "bilinear", "bicubic")),
    *(
        Case(f"interpolate {mode} by a scale", resize(mode, scale_factor=[1.7, 0.6]), (IMAGE,))
        for mode in ("nearest", "bilinear", "bicubic")
    ),
    *(
        Case(f"interpolate {mode} NHWC", resize(mode, size=[4, 9], data_format="NHWC"), (IMAGE,))
        for mode in ("nearest", "bilinear", "bicubic")
    ),
    *(
        Case(f"interpolate {mode}, corners aligned", resize(mode, size=[5, 9], align_corners=True), (IMAGE,))
        for mode in ("bilinear", "bicubic")
    ),
    Case("interpolate bilinear, whole steps", resize("bilinear", size=[5, 9], align_mode=1), (IMAGE,)),
    *(
        Case(f"interpolate {mode} to one row", resize(mode, size=[1, 9]), (IMAGE,))
        for mode in ("nearest", "bilinear", "bicubic")
    ),
    Case("interpolate to one pixel", resize("bilinear", size=[1, 1], align_corners=True), (IMAGE,)),
    Case("interpolate to the same size", resize("bilinear", size=[7, 6]), (IMAGE,)),
    Case("interpolate linear", resize("linear", size=[9], data_format="NCW"), (random(2, 3, 5),)),
    Case("interpolate linear NWC", resize("linear", size=[9], data_format="NWC"), (random(2, 5, 3),)),
    Case("interpolate trilinear", resize("trilinear", size=[3, 5, 6], data_format="NCDHW"), (random(2, 3, 4, 4, 4),)),
    Case("interpolate nearest in 3D", resize("nearest", size=[3, 5, 6], data_format="NCDHW"), (random(2, 3, 4, 4, 4),)),
]

# Paddle has these for float32 and float64 only, and for complex numbers.
WIDE = [
    Case("complex gradient", lambda x, y: paddle.as_real(paddle.complex(x, y)), (X, ROW)),
    Case("conj", lambda x, y: paddle.as_real(paddle.conj(paddle.complex(x, y))), (X, Y)),
    Case("angle", lambda x, y: paddle.angle(paddle.complex(x, y)), (X, Y)),
    Case("angle of real numbers", paddle.angle, (X,)),
    *(
        Case(f"rfft {norm}", lambda x, n=norm: paddle.as_real(paddle.fft.rfft(x, norm=n)), (random(3, length),))
        for norm, length in [("backward", 8), ("ortho", 7), ("forward", 5)]
    ),
    Case("ihfft", lambda x: paddle.as_real(paddle.fft.ihfft(x)), (random(3, 8),)),
    Case("fft of real numbers", lambda x: paddle.as_real(paddle.fft.fft(x)), (random(3, 7),)),
    Case("rfftn", lambda x: paddle.as_real(paddle.fft.rfftn(x)), (random(3, 4, 5, 6),)),
    Case("rfft2", lambda x: paddle.as_real(paddle.fft.rfft2(x, axes=[0, 1])), (random(3, 4, 5),)),
    *(
        Case(
            f"{name} {norm}",
            lambda x, y, f=name, n=norm: paddle.as_real(getattr(paddle.fft, f)(paddle.complex(x, y), norm=n)),
            (random(3, 4, 5), random(3, 4, 5, seed=1)),
        )
        for name in ("fft", "ifft", "fft2", "ifftn")
        for norm in ("backward", "ortho")
    ),
    Case(
        "fftn of five axes",
        lambda x, y: paddle.as_real(paddle.fft.fftn(paddle.complex(x, y))),
        (random(2, 3, 2, 3, 2), random(2, 3, 2, 3, 2, seed=1)),
    ),
    *(
        Case(
            f"{name} of {length}",
            lambda x, y, f=name, n=length: getattr(paddle.fft, f)(paddle.complex(x, y), n),
            (random(3, 5), random(3, 5, seed=1)),
        )
        for name in ("irfft", "hfft")
        for length in (7, 8, 9)
    ),
    Case(
        "irfftn",
        lambda x, y: paddle.fft.irfftn(paddle.complex(x, y)),
        (random(2, 3, 4, 4), random(2, 3, 4, 4, seed=1)),
    ),
    Case("stft", lambda x: paddle.as_real(paddle.signal.stft(x, 8, 3)), (random(2, 20),)),
]

NARROW = (
    UNARY
    + BINARY
    + MATRIX
    + IMAGES
    + SAMPLING
    + NORMS
    + SPECIAL
    + REDUCTIONS
    + SHAPES
    + INDEXING
    + LOSSES
    + ATTENTION
    + COMPOSED
)
CASES = NARROW + WIDE


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_float32(case: Case) -> None:
    check(case.function, *case.inputs, gradient=case.gradient, tolerance=case.tolerance)


# Where Paddle's own CPU kernel computes a factor (a window's size, an attribute) in float32.
FLOAT64_TOLERANCE = dict.fromkeys(
    ("selu", "norm 3", "norm 3 gradient", "norm of all", "dist 3.5", "label_smooth", "label_smooth with a prior"), 1e-6
) | {case.name: 1e-6 for case in IMAGES + COMPOSED if "avg_pool" in case.name or "interpolate" in case.name}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_float64(case: Case) -> None:
    tolerance = FLOAT64_TOLERANCE.get(case.name)
    check(case.function, *case.inputs, gradient=case.gradient, dtype="float64", tolerance=tolerance)


# Discontinuous functions and orders may turn on the rounding of their inputs, so these get exact halves.
HALF_CASES = [case for case in NARROW if case.name not in ("floor_divide", "remainder", "tan")]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("case", HALF_CASES, ids=lambda case: case.name)
def test_half_precision(case: Case, dtype: str) -> None:
    check(case.function, *case.inputs, gradient=False, dtype=dtype)


# A kernel in a graph is what it is outside: every other one in `make test`.
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=pytest.mark.whole if i % 2 else ()) for i, case in enumerate(CASES)],
)
def test_in_a_graph(case: Case) -> None:
    check_in_graph(case.function, *case.inputs, gradient=case.gradient, tolerance=case.tolerance)


def number(value: float, dtype: str = "int64") -> Array:
    return np.array(value, dtype)


CUBE, ONE, TWO = random(2, 3, 4), number(1), number(2)
# What eager mode knows when it calls, and a graph when it runs: axes, sizes and bounds that are tensors, and with them
# the shapes of results. The kernels behind such an op see shapes that were unknown when the graph was built.
KNOWN_AT_RUN_TIME = [
    Case("slice, stop", lambda x, k: x[:, : k + 1], (X, TWO)),
    Case("slice, start", lambda x, k: x[k:, 1], (X, ONE)),
    Case("slice, index", lambda x, k: x[..., k], (X, ONE)),
    Case("slice, all", lambda x, k: x[k : k + 2, k], (X, ONE)),
    Case("slice of a list", lambda x, k: paddle.slice(x, [0, 1], [k, 0], [3, k + 2]), (X, ONE)),
    Case("slice of tensors", lambda x, k: paddle.slice(x, [0, 1], k, k + 2), (X, np.array([1, 0]))),
    Case("strided slice", lambda x, k: paddle.strided_slice(x, [0, 1], k - k, k + 3, k), (X, np.array([2, 1]))),
    Case("reshape", lambda x, k: x.reshape(k) * 2, (CUBE, np.array([6, 4]))),
    Case("reshape of a list", lambda x, k: paddle.reshape(x, [k, -1]) * 2, (CUBE, number(6))),
    Case("expand", lambda x, k: paddle.expand(x, k) * 2, (random(1, 3), np.array([4, 3]))),
    Case("expand of a list", lambda x, k: paddle.expand(x, [k, 3]) * 2, (random(1, 3), number(4))),
    Case("expand_as", lambda x, k: paddle.expand_as(x[:1], x[:k]) * 2, (X, TWO)),
    Case("tile", paddle.tile, (X, np.array([2, 3]))),
    Case("tile of a list", lambda x, k: paddle.tile(x, [k, 2]), (X, TWO)),
    Case("full", lambda x, k: paddle.full(k, 1.5) + x.sum(), (X, np.array([2, 3]))),
    Case("full of a list", lambda x, k: paddle.full([k, 3], 2) + x.sum(), (X, TWO)),
    Case("full with a value", lambda x: paddle.full([2, 3], x, "float32"), (number(2.5, "float32"),), False),
    Case("arange", lambda x, k: paddle.arange(k) + x.sum(), (X, number(5))),
    Case("linspace", lambda x, k: paddle.linspace(0, 1, k) + x.sum(), (X, number(5, "int32"))),
    Case("split, sections", lambda x, k: paddle.split(x, [k, 2, 2], 1), (X, ONE)),
    Case("split, axis", lambda x, k: paddle.split(x, [1, 2], k), (X, number(0))),
    Case("split equal, axis", lambda x, k: paddle.split(x, 3, k), (X, number(0))),
    Case("unstack", lambda x: paddle.unstack(x, 1), (X,)),
    Case("concat, axis", lambda x, k: paddle.concat([x, x * 2], k), (X, ONE)),
    Case("topk", paddle.topk, (X, TWO)),
    Case("one_hot", F.one_hot, (indices(2, 3, high=4), number(5)), False),
    Case("sum, axes", paddle.sum, (CUBE, np.array([0, 2]))),
    Case("sum, axes of a list", lambda x, k: paddle.sum(x, [k, 2]), (CUBE, number(0))),
    Case("sum keepdim", lambda x, k: paddle.sum(x, k, keepdim=True), (CUBE, ONE)),
    Case("mean, axes", paddle.mean, (CUBE, np.array([0, 2]))),
    Case("max, axis", paddle.max, (CUBE, ONE)),
    Case("min, axis", paddle.min, (CUBE, ONE)),
    Case("argmax, axis", paddle.argmax, (CUBE, ONE), False),
    Case("roll", lambda x, k: paddle.roll(x, k, [0, 1]), (X, np.array([1, -2]))),
    Case("squeeze", lambda x, k: paddle.squeeze(x, k) * 2, (random(3, 1, 5), ONE)),
    Case("unsqueeze", lambda x, k: paddle.unsqueeze(x, k) * 2, (X, ONE)),
    Case("clip", paddle.clip, (X, number(-0.5, "float32"), number(1, "float32")), False),
    Case("scale", paddle.scale, (X, number(2.5, "float32")), False),
    Case("full_like", paddle.full_like, (X, number(2.5, "float32")), False),
    Case("uniform", lambda x, k: paddle.uniform(k) * 0 + x.sum(), (X, np.array([2, 3])), False),
    Case("normal", lambda x, k: paddle.randn(k) * 0 + x.sum(), (X, np.array([2, 3])), False),
    Case("randint", lambda k: paddle.randint(0, 5, k) * 0, (np.array([2, 3]),), False),
    Case("interpolate, list of sizes", lambda x, k: F.interpolate(x, [k, 9], mode="bilinear"), (IMAGE, number(5))),
    Case("interpolate, sizes", lambda x, k: F.interpolate(x, k, mode="nearest"), (IMAGE, np.array([5, 9], "int32"))),
    Case(
        "interpolate, scale",
        lambda x, k: F.interpolate(x, scale_factor=k, mode="bicubic"),
        (IMAGE, number(2.5, "float32")),
        False,
    ),
    Case("shape", lambda x, k: paddle.shape(x[k:]) + 0, (X, ONE), False),
    Case("numel", lambda x, k: paddle.numel(x[k:]) + 0, (X, ONE), False),
    *(
        Case(f"{name} of an unknown shape", lambda x, k, f=function: f(x[:k]), (inputs, TWO), gradient)
        for name, inputs, function, gradient in [
            ("matmul", random(3, 2), lambda x: x.matmul(x), True),
            ("conv2d", IMAGE, lambda x: F.conv2d(x, paddle.ones([2, 4, 3, 3])), True),
            ("max_pool2d", IMAGE, lambda x: F.max_pool2d(x, 2), True),
            ("adaptive_avg_pool2d", IMAGE, lambda x: F.adaptive_avg_pool2d(x, 2), True),
            ("softmax", X, F.softmax, True),
            ("layer_norm", X, lambda x: F.layer_norm(x, [5]) * x, True),
            ("argsort", X, paddle.argsort, False),
            ("concat", X, lambda x: paddle.concat([x, x]), True),
            ("stack", X, lambda x: paddle.stack([x, x]), True),
            ("split", X, lambda x: paddle.split(x, [2, 3], 1), True),
            ("tril", X, paddle.tril, True),
            ("transpose", X, lambda x: x.transpose([1, 0]) * 2, True),
            ("flatten", X, lambda x: x.flatten() * 2, True),
            ("cumsum", X, lambda x: paddle.cumsum(x, 0), True),
            ("where", X, lambda x: paddle.where(x > 0, x, 2 * x), True),
            ("flip", X, lambda x: paddle.flip(x, [0]), True),
            ("cross_entropy", X, lambda x: F.cross_entropy(x, paddle.to_tensor([[1], [2]])), True),
        ]
    ),
]


@pytest.mark.parametrize("case", KNOWN_AT_RUN_TIME, ids=lambda case: case.name)
def test_what_a_graph_knows_at_run_time(case: Case) -> None:
    check_in_graph(case.function, *case.inputs, gradient=case.gradient)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float64"]
)
def test_constants_of_a_graph(dtype: str) -> None:
    values = [0, 1, 3, 0, 7, 100]
    wide = "float32" if "float" in dtype else "int64"

    def constants(x: Any) -> list[Any]:
        return [paddle.to_tensor(data, dtype=dtype).astype(wide) + x for data in (values, values[:1], values[4])]

    check_in_graph(constants, np.zeros([1], wide), gradient=False)


INTEGERS = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "floor_divide": lambda x, y: x // y,
    "remainder": lambda x, y: x % y,
    "maximum": paddle.maximum,
    "bitwise_and": lambda x, y: x & y,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_xor": lambda x, y: x ^ y,
    "shift left": paddle.bitwise_left_shift,
    "shift right": paddle.bitwise_right_shift,
    "logical shift right": lambda x, y: paddle.bitwise_right_shift(x, y, False),
    "shift by too much": lambda x, y: paddle.bitwise_left_shift(x, y * 16),
    "cumprod": lambda x, y: paddle.cumprod(x, 0),
    "equal": lambda x, y: x == y,
    "less_than": lambda x, y: x < y,
    "greater_equal": lambda x, y: x >= y,
    "not_equal": lambda x, y: x != y,
    "sum": lambda x, y: (x + y).sum(0),
    "cast": lambda x, y: x.astype("float32") / y.astype("float32"),
    "concat": lambda x, y: paddle.concat([x, y]),
}


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name: str, dtype: str) -> None:
    x = np.random.RandomState(0).randint(-9, 9, (3, 5)).astype(dtype)
    y = np.random.RandomState(1).randint(1, 5, (3, 5)).astype(dtype)
    check(INTEGERS[name], x, y, gradient=False)


@pytest.mark.parametrize("name", ["and", "or", "xor"])
def test_logic(name: str) -> None:
    function = getattr(paddle, f"logical_{name}")
    check(function, np.array([True, True, False, False]), np.array([True, False, True, False]), gradient=False)


def test_tests_for_special_values() -> None:
    values = np.array([1.0, np.inf, -np.inf, np.nan, 0.0], "float32")
    check(
        lambda x: [paddle.isnan(x), paddle.isinf(x), paddle.isfinite(x), paddle.logical_not(x)], values, gradient=False
    )


def test_creation() -> None:
    check(
        lambda x: [paddle.full([2, 3], 7, "int64"), paddle.full_like(x, 0.5), paddle.arange(2, 11, 3)],
        X,
        gradient=False,
    )
    check(
        lambda x: [paddle.arange(0, 1, 0.25), paddle.zeros([0, 3]), paddle.to_tensor([True]).fill_(False)],
        X,
        gradient=False,
    )


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float64", "complex64"]
)
def test_copies_of_every_dtype(dtype: str) -> None:
    value = (np.arange(12).reshape(3, 4) % 5).astype(dtype)
    check(lambda x: [x.t().contiguous(), paddle.assign(x), paddle.concat([x, x])], value, gradient=False)
    check(lambda x: x.clone().fill_(3), value, gradient=False)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_empty_tensors(shape: tuple[int, int]) -> None:
    check(lambda x: [x + x, F.relu(x), x.transpose([1, 0]).contiguous()], random(*shape), gradient=False)


def test_a_scalar_tensor() -> None:
    check(lambda x: [x + x, F.sigmoid(x), x.sum(), F.softmax(x)], np.float32(0.5).reshape(()), gradient=False)


def test_batch_norm_in_training_and_inference() -> None:
    mean, variance = random(4, seed=3), random(4, low=0.5, high=2, seed=4)

    def normalize(x: Any, g: Any, b: Any, m: Any, v: Any, training: bool) -> Any:
        m, v = m.detach().clone(), v.detach().clone()
        y = F.batch_norm(x, m, v, g, b, training=training)
        return [y, m.detach(), v.detach()]

    for training in (True, False):
        check(
            lambda x, g, b: normalize(x, g, b, paddle.to_tensor(mean), paddle.to_tensor(variance), training),
            IMAGE,
            GAMMA,
            BETA,
        )


def test_infinities_and_nan_are_close_to_themselves() -> None:
    x = np.array([1.0, np.inf, np.inf, np.nan, 2.0], "float32")
    y = np.array([1.0, np.inf, 3.0, np.nan, 2.1], "float32")
    for equal_nan in (False, True):
        check(lambda a, b: paddle.isclose(a, b, equal_nan=equal_nan), x, y, gradient=False)
        check(lambda a, b: paddle.allclose(a, b, equal_nan=equal_nan), x, y, gradient=False)


def test_numbers_from_ranges() -> None:
    check(
        lambda x: [paddle.linspace(0, 1, 7), paddle.linspace(3, 3, 1), paddle.eye(3, 5), paddle.eye(4)],
        X,
        gradient=False,
    )
    check(lambda x: [paddle.increment(paddle.zeros([1])), paddle.round(x * 3)], X, gradient=False)


def test_accuracy() -> None:
    scores, labels = random(20, 6), indices(20, 1, high=6)
    check(lambda x, y: paddle.metric.accuracy(F.softmax(x), y, k=2), scores, labels, gradient=False)


def test_random_kernels() -> None:
    with on(DEVICE):
        order = paddle.randperm(100).numpy()
        assert sorted(order) == list(range(100)) and list(order) != list(range(100))
        drawn = paddle.randint(-3, 4, [2000]).numpy()
        assert set(drawn) == set(range(-3, 4))
        coin = paddle.bernoulli(paddle.full([4000], 0.3)).numpy()
        assert set(coin) == {0, 1} and abs(coin.mean() - 0.3) < 0.04
        waiting = paddle.zeros([4000]).exponential_(2.0).numpy()
        assert waiting.min() >= 0 and abs(waiting.mean() - 0.5) < 0.05


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_uniform_numbers_with_a_diagonal(dtype: str) -> None:
    """As many rows as x has, and a value where a matrix two wide has its diagonal."""
    with on(DEVICE):
        arguments = ([-1, 2], 0, 0, -1.0, 2.0, 0, 2, 2, 7.0, getattr(paddle, dtype))
        drawn = paddle._C_ops.uniform_random_batch_size_like(paddle.ones([2000, 3]), *arguments)
        assert drawn.dtype == getattr(paddle, dtype) and drawn.shape == [2000, 2]
        numbers = drawn.astype("float32").numpy()
    assert numbers[0, 0] == numbers[1, 1] == 7 and (numbers == 7).sum() == 2
    rest = numbers[2:]
    assert rest.min() >= -1 and rest.max() <= 2 and abs(rest.mean() - 0.5) < 0.06


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "int32", "int64"])
def test_labels_of_every_integer_dtype(dtype: str) -> None:
    labels = LABELS.astype(dtype)
    for use_softmax in (True, False):
        check(
            lambda x: paddle._C_ops.cross_entropy_with_softmax(
                F.softmax(x), paddle.to_tensor(labels), False, use_softmax, True, 2, -1
            )[1],
            X,
        )


def test_full_like_without_a_dtype() -> None:
    # The gradients of ops that overwrite their operand ask for zeros so.
    check(lambda x: (x * 1).exponential_() * 0, X)
    check(lambda x: paddle._C_ops.fill(x * 1, 2.0), X)


def test_soft_labels_with_pos_weight() -> None:
    labels, weights = random(3, 5, low=0, high=1, seed=3), random(5, low=0.5, high=3, seed=4)
    check(
        lambda x: F.binary_cross_entropy_with_logits(
            x, paddle.to_tensor(labels), pos_weight=paddle.to_tensor(weights), reduction="none"
        ),
        X,
    )


def test_a_dtype_that_is_not_supported_is_named_with_its_op() -> None:
    with on(DEVICE), pytest.raises(NotImplementedError, match="cast: an output of this dtype"):
        paddle.to_tensor(X).astype("float8_e4m3fn")


@pytest.mark.parametrize("name", ["allclose", "isclose"])
def test_tolerances_have_the_dtypes_that_the_cpu_takes(name: str) -> None:
    for device in ("cpu", DEVICE):
        with on(device), pytest.raises(ValueError, match=r"[Rr]tol"):
            getattr(paddle._C_ops, name)(paddle.to_tensor(X), paddle.to_tensor(Y), paddle.to_tensor([1]), 1e-8, False)


IN_PLACE = [
    "equal",
    "not_equal",
    "less_than",
    "less_equal",
    "greater_than",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int8"])
@pytest.mark.parametrize("name", [*IN_PLACE, "logical_not"])
def test_comparisons_in_place(name: str, dtype: str) -> None:
    x, y = indices(3, 5, high=3).astype(dtype), indices(3, 5, high=3, seed=1).astype(dtype)

    def compare(a: Any, b: Any) -> Any:
        a = a.clone()
        getattr(a, name + "_")(*([] if name == "logical_not" else [b]))
        return a

    check(compare, x, y, gradient=False)


TIED = np.random.RandomState(0).choice(np.array([-1, 0, 0.5, 1, 3, 6], "float32"), (4, 6))
TIED_WITH = np.random.RandomState(1).choice(np.array([-1, 0, 0.5, 1, 3, 6], "float32"), (4, 6))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["maximum", "minimum", "logaddexp"])
def test_equal_operands_share_the_gradient(name: str, dtype: str) -> None:
    check(getattr(paddle, name), TIED, TIED_WITH, dtype=dtype)
    check(getattr(paddle, name), TIED, TIED_WITH[:1], dtype=dtype)


@pytest.mark.parametrize("axis", [None, 0, 1, [0, 1]], ids=str)
@pytest.mark.parametrize("name", ["max", "min", "amax", "amin"])
def test_equal_elements_share_the_gradient(name: str, axis: Any) -> None:
    check(lambda x: getattr(paddle, name)(x, axis), TIED)
    check(lambda x: getattr(paddle, name)(x, axis, keepdim=True), np.zeros((4, 6), "float32"))


def test_a_quotient_of_tiny_numbers_has_a_finite_gradient() -> None:
    x, y = random(3, 5, low=1e-25, high=2e-25), random(3, 5, low=1e-25, high=2e-25, seed=1)
    with on(DEVICE):
        a, b = (paddle.to_tensor(v, stop_gradient=False) for v in (x, y))
        (a / b).sum().backward()
        expected = -x.astype("float64") / y.astype("float64") ** 2
        np.testing.assert_allclose(b.grad.numpy(), expected, rtol=1e-5)


def test_numbers_of_small_shapes_are_not_zero() -> None:
    with on(DEVICE):
        paddle.seed(0)
        for dtype in ("float32", "float64"):
            least = float(np.finfo(dtype).tiny)
            assert float(paddle.standard_gamma(paddle.full([20000], 0.001, dtype)).min()) == least
            parts = paddle.distribution.Dirichlet(paddle.full([20000, 2], 0.02, dtype)).sample()
            assert not bool(paddle.isnan(parts).any()) and float(parts.min()) > 0
            assert all(float(paddle.zeros([1 << 22], dtype).exponential_().min()) > 0 for _ in range(8))
        for _ in range(8):  # of a single class the softmax of any finite noise is 1
            assert bool((paddle.nn.functional.gumbel_softmax(paddle.zeros([1 << 22, 1])) == 1).all())


@pytest.mark.parametrize(("low", "high"), [(2**60, 2**60 + 10), (-(2**63), 2**63 - 1), (2**53, 2**53 + 3), (-3, 4)])
def test_whole_numbers_beyond_those_of_doubles(low: int, high: int) -> None:
    with on(DEVICE):
        paddle.seed(0)
        numbers = paddle.zeros([5000], "int64").random_(low, high).numpy()
    assert low <= numbers.min() and numbers.max() < high
    assert len(np.unique(numbers)) == min(high - low, len(numbers))
