"""Every kernel of the adapter as calls of Paddle's Python functions, and ways to vary their arguments.

A call names a function and its arguments: arrays become tensors, everything else is an attribute. Attributes that are
not named have the defaults of the function's own signature, and are varied too (variations.py)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import paddle
import paddle.nn.functional as F

Array = np.ndarray[Any, Any]
ops = paddle._C_ops


class Call(NamedTuple):
    name: str
    function: Callable[..., Any]
    arguments: dict[str, Any]
    random: bool = False  # results differ between devices: only shapes and errors are compared


def random(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> Array:
    return np.random.RandomState(seed).uniform(low, high, shape).astype("float32")


def indices(*shape: int, high: int, seed: int = 0) -> Array:
    return np.random.RandomState(seed).randint(0, high, shape).astype("int64")


def attributes_of(call: Call) -> dict[str, Any]:
    """All attributes of a call, with the defaults of its function."""
    ignored = {"name", "out", "act", "device", "requires_grad", "pin_memory", "correct", "total"}
    defaults = {
        parameter.name: parameter.default
        for parameter in inspect.signature(call.function).parameters.values()
        if parameter.default is not parameter.empty and parameter.name not in ignored
    }
    return {name: value for name, value in {**defaults, **call.arguments}.items() if not is_tensor(value)}


def is_tensor(value: Any) -> bool:
    return isinstance(value, np.ndarray) or (isinstance(value, list) and any(isinstance(v, np.ndarray) for v in value))


X, Y = random(3, 5), random(3, 5, seed=1)
POSITIVE, INSIDE = random(3, 5, low=0.1), random(3, 5, low=-0.9, high=0.9)
CUBE, ROW, TABLE = random(2, 3, 4), random(1, 5, seed=2), random(7, 4)
IMAGE, VOLUME = random(2, 4, 7, 6), random(2, 3, 4, 4, 5)
SIGNS = X > 0

UNARY = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "expm1",
    "floor", "log", "log10", "log1p", "log2", "reciprocal", "rsqrt", "sign", "sin", "sinh", "sqrt", "square",
    "tan", "tanh", "trunc", "isfinite", "isinf", "isnan", "logical_not", "assign", "numel", "t",
]  # fmt: skip
ACTIVATIONS = [
    "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "log_sigmoid",
    "log_softmax", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "softmax", "softplus", "softshrink",
    "softsign", "swish", "thresholded_relu",
]  # fmt: skip
BINARY = [
    "add", "atan2", "divide", "floor_divide", "maximum", "minimum", "multiply", "pow", "remainder", "subtract",
    "equal", "greater_equal", "greater_than", "less_equal", "less_than", "not_equal", "equal_all", "isclose",
    "allclose", "logical_and", "logical_or", "logical_xor",
]  # fmt: skip
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor")


def batch_norm(
    x: Any,
    mean: Any,
    variance: Any,
    weight: Any,
    bias: Any,
    training: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    data_format: str = "NCHW",
    use_global_stats: Any = None,
) -> Any:
    mean, variance = mean.detach().clone(), variance.detach().clone()
    y = F.batch_norm(x, mean, variance, weight, bias, training, momentum, epsilon, data_format, use_global_stats)
    return [y, mean.detach(), variance.detach()]


def pool2d(
    x: Any,
    window: Any = (2, 3),
    strides: Any = (2, 1),
    paddings: Any = (0, 1),
    ceil: bool = False,
    exclusive: bool = True,
    data_format: str = "NCHW",
    kind: str = "avg",
    whole: bool = False,
    adaptive: bool = False,
    algorithm: str = "EXPLICIT",
) -> Any:
    return ops.pool2d(
        x,
        list(window),
        list(strides),
        list(paddings),
        ceil,
        exclusive,
        data_format,
        kind,
        whole,
        adaptive,
        algorithm,
    )


# Its channels may be axis 1 or the last.
SQUARE = random(2, 4, 7, 4)
NEARLY = (np.array([1, 100, 1e-9], "float32"), np.array([1.00003, 100.0003, 1.4e-8], "float32"))
NAN = np.array([1, np.nan], "float32")
MEAN, VARIANCE, GAMMA, BETA = random(4), random(4, low=0.5), random(4, seed=1), random(4, seed=2)
LABELS = indices(3, 1, high=5)

CALLS: list[Call] = [
    *(Call(name, getattr(paddle, name), {"input" if name in ("t", "trunc") else "x": INSIDE}) for name in UNARY),
    *(Call(name, getattr(F, name), {"x": X}) for name in ACTIVATIONS),
    *(Call(name, getattr(paddle, name), {"x": X, "y": Y}) for name in BINARY),
    *(
        Call(name + " broadcast", getattr(paddle, name), {"x": X, "y": ROW})
        for name in BINARY
        if name not in ("equal_all", "isclose", "allclose")
    ),
    *(
        Call(
            name + " int",
            getattr(paddle, name),
            {"x": indices(3, 5, high=9) - 4, "y": indices(3, 5, high=9, seed=1) + 1},
        )
        for name in (*BINARY, *BITS)
        if name not in ("atan2", "isclose")
    ),
    *(
        Call(name + " nearly", getattr(paddle, name), {"x": NEARLY[0], "y": NEARLY[1]})
        for name in ("isclose", "allclose")
    ),
    *(Call(name + " of NaN", getattr(paddle, name), {"x": NAN, "y": NAN}) for name in ("isclose", "allclose")),
    *(
        Call(name + " in any layout", getattr(F, name), {"x": SQUARE, **arguments})
        for name, arguments in (
            ("conv2d", {"weight": random(6, 4, 3, 3, seed=1)}),
            ("conv2d_transpose", {"weight": random(4, 3, 3, 3, seed=1)}),
            ("group_norm", {"num_groups": 2, "weight": random(4), "bias": random(4, seed=1)}),
        )
    ),
    Call(
        "batch_norm in any layout",
        batch_norm,
        {"x": SQUARE, "mean": MEAN, "variance": VARIANCE, "weight": GAMMA, "bias": BETA},
    ),
    Call(
        "take_along_axis square",
        paddle.take_along_axis,
        {"arr": TABLE[:4], "indices": indices(4, 4, high=4), "axis": 1},
    ),
    Call("bitwise_not", paddle.bitwise_not, {"x": indices(3, 5, high=9)}),
    Call("sigmoid, softplus", lambda x, beta=1.0, threshold=20.0: F.softplus(x, beta, threshold), {"x": 30 * X}),
    Call("clip", paddle.clip, {"x": X, "min": -0.5, "max": 1.0}),
    Call("clip int", paddle.clip, {"x": indices(3, 5, high=9), "min": 2, "max": 5}),
    Call("scale", paddle.scale, {"x": X, "scale": 2.0, "bias": 1.0}),
    Call("scale int", paddle.scale, {"x": indices(3, 5, high=9), "scale": 2.0, "bias": 1.0}),
    Call("pow", lambda x, y=2.5: paddle.pow(x, y), {"x": POSITIVE}),
    Call("pow int", lambda x, y=3: paddle.pow(x, y), {"x": indices(3, 5, high=9)}),
    Call("round", paddle.round, {"x": X, "decimals": 1}),
    Call("fmax", paddle.fmax, {"x": X, "y": Y}),
    Call("fmin", paddle.fmin, {"x": X, "y": ROW}),
    Call("heaviside", paddle.heaviside, {"x": X, "y": Y}),
    Call("copysign", paddle.copysign, {"x": X, "y": ROW}),
    Call("nextafter", paddle.nextafter, {"x": X, "y": Y}),
    Call("gammaincc", paddle.gammaincc, {"x": POSITIVE, "y": POSITIVE}),
    Call("polygamma", paddle.polygamma, {"x": POSITIVE, "n": 2}),
    *(
        Call(name, getattr(paddle, name), {"x": POSITIVE})
        for name in ("lgamma", "gammaln", "digamma", "i0", "i0e", "i1", "i1e")
    ),
    Call("erfinv", paddle.erfinv, {"x": INSIDE}),
    Call("lerp", paddle.lerp, {"x": X, "y": Y, "weight": random(3, 5, low=0, high=1)}),
    Call("swiglu", paddle.incubate.nn.functional.swiglu, {"x": random(3, 4), "y": random(3, 4, seed=1)}),
    Call("swiglu of one", paddle.incubate.nn.functional.swiglu, {"x": random(3, 4)}),
    Call("where", paddle.where, {"condition": SIGNS, "x": X, "y": Y}),
    Call("where broadcast", paddle.where, {"condition": SIGNS, "x": ROW, "y": Y}),
    Call("add_n", lambda x: paddle.add_n(x), {"x": [X, Y, X]}),
    Call("logaddexp", paddle.logaddexp, {"x": X, "y": Y}),
    Call("increment", lambda x, value=1.0: paddle.increment(x.clone(), value), {"x": random(1)}),
    *(
        Call(name, getattr(paddle, name), {"x": CUBE, "axis": axis})
        for name in ("sum", "mean", "max", "min", "amax", "amin", "prod", "logsumexp", "any", "all")
        for axis in (None, 1, [0, 2])
    ),
    *(
        Call(name + " int", getattr(paddle, name), {"x": indices(2, 3, 4, high=9), "axis": 1})
        for name in ("sum", "max", "min", "amax", "amin", "prod")
    ),
    Call("sum bool", paddle.sum, {"x": SIGNS, "axis": 1}),
    Call("any bool", paddle.any, {"x": SIGNS, "axis": 1}),
    Call("mean_all", lambda x: ops.mean_all(x), {"x": X}),
    Call("squared_l2_norm", lambda x: ops.squared_l2_norm(x), {"x": X}),
    Call(
        "frobenius_norm",
        lambda x, axis=(0, 2), keepdim=False, all=False: ops.frobenius_norm(x, list(axis), keepdim, all),
        {"x": CUBE},
    ),
    Call(
        "p_norm",
        lambda x, p=2.0, axis=1, epsilon=1e-12, keepdim=False, all=False: ops.p_norm(x, p, axis, epsilon, keepdim, all),
        {"x": CUBE},
    ),
    Call("norm 3", paddle.norm, {"x": CUBE, "p": 3.0, "axis": 1}),
    Call("cumsum", paddle.cumsum, {"x": CUBE, "axis": 1}),
    Call(
        "cumsum op",
        lambda x, axis=1, flatten=False, exclusive=False, reverse=False: ops.cumsum(
            x, axis, flatten, exclusive, reverse
        ),
        {"x": CUBE},
    ),
    Call("cummax", paddle.cummax, {"x": CUBE, "axis": 1}),
    Call("kthvalue", paddle.kthvalue, {"x": CUBE, "k": 2, "axis": 1}),
    Call("logcumsumexp", paddle.logcumsumexp, {"x": CUBE, "axis": 1}),
    Call("cummin", paddle.cummin, {"x": CUBE, "axis": 2}),
    Call("argmax", paddle.argmax, {"x": CUBE, "axis": 1}),
    Call("argmax flat", paddle.argmax, {"x": CUBE}),
    Call("argmin", paddle.argmin, {"x": CUBE, "axis": 1}),
    Call("argsort", paddle.argsort, {"x": CUBE, "axis": 1, "stable": True}),
    Call("sort", paddle.sort, {"x": CUBE, "axis": 1, "stable": True}),
    Call("topk", paddle.topk, {"x": CUBE, "k": 2, "axis": 1}),
    Call("matmul", paddle.matmul, {"x": random(4, 4), "y": random(4, 4, seed=1)}),
    Call("matmul batched", paddle.matmul, {"x": random(2, 3, 4), "y": random(2, 4, 5, seed=1)}),
    Call("matmul of vectors", paddle.matmul, {"x": random(4), "y": random(4, seed=1)}),
    Call("bmm", paddle.bmm, {"x": random(2, 3, 4), "y": random(2, 4, 5, seed=1)}),
    Call("mv", paddle.mv, {"x": random(3, 4), "vec": random(4, seed=1)}),
    Call(
        "addmm", paddle.addmm, {"input": random(3, 5), "x": random(3, 4), "y": random(4, 5), "beta": 0.5, "alpha": 2.0}
    ),
    Call("linear", F.linear, {"x": random(3, 4), "weight": random(4, 5), "bias": random(5)}),
    Call("conv2d", F.conv2d, {"x": IMAGE, "weight": random(6, 4, 3, 3, seed=1), "bias": random(6)}),
    Call(
        "conv2d grouped",
        F.conv2d,
        {"x": IMAGE, "weight": random(6, 2, 3, 3, seed=1), "groups": 2, "stride": 2, "padding": 1},
    ),
    Call(
        "conv2d NHWC",
        F.conv2d,
        {
            "x": random(2, 7, 6, 4),
            "weight": random(6, 4, 3, 2, seed=1),
            "data_format": "NHWC",
            "padding": [1, 0],
            "dilation": [2, 1],
        },
    ),
    Call("depthwise_conv2d", F.conv2d, {"x": IMAGE, "weight": random(4, 1, 3, 3, seed=1), "groups": 4}),
    Call("conv1d", F.conv1d, {"x": random(2, 4, 7), "weight": random(6, 4, 3, seed=1)}),
    Call("conv3d", F.conv3d, {"x": VOLUME, "weight": random(2, 3, 2, 2, 2, seed=1)}),
    Call("conv2d_transpose", F.conv2d_transpose, {"x": IMAGE, "weight": random(4, 3, 3, 3, seed=1), "stride": 2}),
    Call(
        "conv2d_transpose NHWC",
        F.conv2d_transpose,
        {"x": random(2, 7, 6, 4), "weight": random(4, 3, 3, 3, seed=1), "data_format": "NHWC"},
    ),
    Call("grid_sample", F.grid_sample, {"x": IMAGE, "grid": random(2, 3, 5, 2), "mode": "bilinear"}),
    Call("max_pool2d", F.max_pool2d, {"x": IMAGE, "kernel_size": 3, "stride": 2, "padding": 1}),
    Call(
        "max_pool2d NHWC",
        F.max_pool2d,
        {"x": random(2, 7, 6, 4), "kernel_size": 3, "stride": 2, "padding": 1, "data_format": "NHWC"},
    ),
    Call("avg_pool2d", F.avg_pool2d, {"x": IMAGE, "kernel_size": 3, "stride": 2, "padding": 1}),
    Call("avg_pool2d windows", F.avg_pool2d, {"x": IMAGE, "kernel_size": [3, 2], "stride": [2, 1], "padding": [1, 0]}),
    Call("avg_pool3d", F.avg_pool3d, {"x": VOLUME, "kernel_size": 2, "stride": 2, "padding": 1}),
    Call("max_pool3d", F.max_pool3d, {"x": VOLUME, "kernel_size": 2, "stride": 2, "padding": 1}),
    Call("adaptive_avg_pool2d", F.adaptive_avg_pool2d, {"x": IMAGE, "output_size": 3}),
    Call("adaptive_avg_pool2d sizes", F.adaptive_avg_pool2d, {"x": IMAGE, "output_size": [3, 2]}),
    Call("adaptive_avg_pool3d", F.adaptive_avg_pool3d, {"x": VOLUME, "output_size": 3}),
    Call("adaptive_max_pool2d", F.adaptive_max_pool2d, {"x": IMAGE, "output_size": 3}),
    Call(
        "global pool2d",
        lambda x, kind="avg": ops.pool2d(x, [1, 1], [1, 1], [0, 0], False, True, "NCHW", kind, True, False, "EXPLICIT"),
        {"x": IMAGE},
    ),
    Call("pool2d", pool2d, {"x": IMAGE}),
    Call("batch_norm", batch_norm, {"x": IMAGE, "mean": MEAN, "variance": VARIANCE, "weight": GAMMA, "bias": BETA}),
    Call(
        "batch_norm in training",
        batch_norm,
        {"x": IMAGE, "mean": MEAN, "variance": VARIANCE, "weight": GAMMA, "bias": BETA, "training": True},
    ),
    Call(
        "layer_norm",
        F.layer_norm,
        {"x": CUBE, "normalized_shape": [3, 4], "weight": random(12), "bias": random(12, seed=1)},
    ),
    Call("layer_norm without", F.layer_norm, {"x": CUBE, "normalized_shape": 4}),
    Call("group_norm", F.group_norm, {"x": IMAGE, "num_groups": 2, "weight": GAMMA, "bias": BETA}),
    Call(
        "group_norm NHWC",
        F.group_norm,
        {"x": random(2, 7, 6, 4), "num_groups": 2, "weight": GAMMA, "bias": BETA, "data_format": "NHWC"},
    ),
    Call("instance_norm", F.instance_norm, {"x": IMAGE, "weight": GAMMA, "bias": BETA}),
    Call("cross_entropy", F.cross_entropy, {"input": X, "label": LABELS}),
    Call(
        "cross_entropy none",
        F.cross_entropy,
        {"input": random(2, 3, 4), "label": indices(2, 4, high=3), "axis": 1, "reduction": "none"},
    ),
    Call(
        "cross_entropy soft",
        F.cross_entropy,
        {"input": X, "label": np.full((3, 5), 0.2, "float32"), "soft_label": True},
    ),
    Call("softmax_with_cross_entropy", F.softmax_with_cross_entropy, {"logits": X, "label": LABELS}),
    Call(
        "binary_cross_entropy_with_logits",
        F.binary_cross_entropy_with_logits,
        {"logit": X, "label": SIGNS.astype("float32"), "pos_weight": random(5, low=0.5)},
    ),
    Call(
        "sigmoid_cross_entropy_with_logits",
        lambda x, label, normalize=False, ignore_index=-100: ops.sigmoid_cross_entropy_with_logits(
            x, label, None, normalize, ignore_index
        ),
        {"x": X, "label": indices(3, 5, high=2).astype("float32")},
    ),
    Call("accuracy", paddle.metric.accuracy, {"input": random(6, 5), "label": indices(6, 1, high=5), "k": 2}),
    Call("reshape", lambda x, shape=(5, 3): paddle.reshape(x, list(shape)) * 2, {"x": X}),
    Call("flatten", lambda x, start=0, stop=-1: paddle.flatten(x, start, stop) * 2, {"x": CUBE}),
    Call("squeeze", lambda x, axis=1: paddle.squeeze(x, axis) * 2, {"x": random(3, 1, 5)}),
    Call("unsqueeze", lambda x, axis=1: paddle.unsqueeze(x, axis) * 2, {"x": X}),
    Call("transpose", lambda x, perm=(2, 0, 1): paddle.transpose(x, list(perm)).contiguous(), {"x": CUBE}),
    Call("concat", lambda x, axis=0: paddle.concat(x, axis), {"x": [X, Y]}),
    Call("stack", lambda x, axis=0: paddle.stack(x, axis), {"x": [X, Y]}),
    Call(
        "split",
        lambda x, num_or_sections=2, axis=2: [y * 2 for y in paddle.split(x, num_or_sections, axis)],
        {"x": CUBE},
    ),
    Call(
        "split sections",
        lambda x, num_or_sections=(1, 3), axis=2: [y * 2 for y in paddle.split(x, list(num_or_sections), axis)],
        {"x": CUBE},
    ),
    Call("unbind", lambda x, axis=0: [y * 2 for y in paddle.unbind(x, axis)], {"x": CUBE}),
    Call("unstack", lambda x, axis=0, num=None: [y * 2 for y in paddle.unstack(x, axis, num)], {"x": CUBE}),
    Call(
        "slice",
        lambda x, axes=(0, 2), starts=(0, 1), ends=(1, 4): paddle.slice(x, list(axes), list(starts), list(ends)) * 2,
        {"x": CUBE},
    ),
    Call(
        "strided_slice",
        lambda x, axes=(0, 2), starts=(0, 1), ends=(1, 4), strides=(1, 2): (
            paddle.strided_slice(x, list(axes), list(starts), list(ends), list(strides)) * 2
        ),
        {"x": CUBE},
    ),
    Call("expand", lambda x, shape=(3, 5): paddle.expand(x, list(shape)) * 2, {"x": ROW}),
    Call("expand_as", lambda x, y: paddle.expand_as(x, y) * 2, {"x": ROW, "y": X}),
    Call("broadcast_to", lambda x, shape=(2, 3, 5): paddle.broadcast_to(x, list(shape)) * 2, {"x": ROW}),
    Call("tile", lambda x, repeat_times=(2, 3): paddle.tile(x, list(repeat_times)), {"x": X}),
    Call("flip", lambda x, axis=(0, 1): paddle.flip(x, list(axis)), {"x": X}),
    Call("roll", lambda x, shifts=(1, -2), axis=(0, 1): paddle.roll(x, list(shifts), list(axis)), {"x": X}),
    Call("roll flat", lambda x, shifts=3: paddle.roll(x, shifts), {"x": X}),
    Call("pad op", lambda x, paddings=(1, 2, 0, 1), value=0.5: ops.pad(x, list(paddings), value), {"x": X}),
    Call("pad", F.pad, {"x": X, "pad": [1, 2, 0, 1]}),
    Call("tril", paddle.tril, {"x": X, "diagonal": 1}),
    Call("triu", paddle.triu, {"x": CUBE, "diagonal": -1}),
    Call("embedding", F.embedding, {"x": indices(2, 3, high=7), "weight": TABLE}),
    Call("embedding padding", F.embedding, {"x": indices(2, 3, high=7), "weight": TABLE, "padding_idx": 1}),
    Call("gather", paddle.gather, {"x": TABLE, "index": indices(5, high=4), "axis": 1}),
    Call("gather column", paddle.gather, {"x": TABLE, "index": indices(5, 1, high=4), "axis": 0}),
    Call("gather_nd", paddle.gather_nd, {"x": TABLE, "index": indices(3, 2, high=4)}),
    Call("masked_select", paddle.masked_select, {"x": X, "mask": SIGNS}),
    Call("nonzero", paddle.nonzero, {"x": X}),
    Call("index_select", paddle.index_select, {"x": TABLE, "index": indices(5, high=4), "axis": 1}),
    Call("take_along_axis", paddle.take_along_axis, {"arr": TABLE, "indices": indices(7, 2, high=4), "axis": 1}),
    Call("scatter", paddle.scatter, {"x": TABLE, "index": np.array([2, 0, 5]), "updates": random(3, 4)}),
    Call(
        "scatter add",
        paddle.scatter,
        {"x": TABLE, "index": np.array([2, 0, 2]), "updates": random(3, 4), "overwrite": False},
    ),
    Call(
        "scatter_nd_add",
        paddle.scatter_nd_add,
        {"x": TABLE, "index": np.array([[2], [0], [2]]), "updates": random(3, 4)},
    ),
    Call("one_hot", F.one_hot, {"x": indices(2, 3, high=5), "num_classes": 5}),
    Call("full", paddle.full, {"shape": [2, 3], "fill_value": 0.5}),
    Call("full int", paddle.full, {"shape": [2, 3], "fill_value": 7, "dtype": "int64"}),
    Call("full_like", paddle.full_like, {"x": X, "fill_value": 0.5}),
    Call(
        "full_like undefined",
        lambda x, value=0.5: ops.full_like(
            x, value, paddle.base.core.DataType.UNDEFINED, paddle.framework._current_expected_place()
        ),
        {"x": X},
    ),
    Call("arange", paddle.arange, {"start": 2, "end": 11, "step": 3}),
    Call("arange float", paddle.arange, {"start": 0.0, "end": 1.0, "step": 0.25}),
    Call("linspace", paddle.linspace, {"start": 0, "stop": 1, "num": 7}),
    Call("eye", paddle.eye, {"num_rows": 3, "num_columns": 5}),
    Call("cast", lambda x, dtype="int32": paddle.cast(x, dtype), {"x": 3 * X}),
    Call("fill_", lambda x, value=3: x.clone().fill_(value), {"x": X}),
    Call("fill_ int", lambda x, value=3: x.clone().fill_(value), {"x": indices(3, high=5)}),
    Call(
        "pad NCHW",
        lambda x, pad=(1, 2, 2, 0), mode="constant", value=0.5: F.pad(x, list(pad), mode, value),
        {"x": IMAGE},
    ),
    *(
        Call(f"pad {mode}", lambda x, pad=(1, 2, 2, 0), mode=mode: F.pad(x, list(pad), mode), {"x": IMAGE})
        for mode in ("reflect", "replicate", "circular")
    ),
    Call(
        "pad NDHWC",
        lambda x, pad=(1, 2, 2, 0, 1, 1), mode="replicate": F.pad(x, list(pad), mode, data_format="NDHWC"),
        {"x": VOLUME},
    ),
    *(Call(f"norm {p}", paddle.norm, {"x": CUBE, "p": p, "axis": 1}) for p in (0, 1, 2.5, float("inf"))),
    Call("dist", paddle.dist, {"x": X, "y": ROW, "p": 2}),
    Call("broadcast_tensors", lambda x, y: paddle.broadcast_tensors([x, y]), {"x": ROW, "y": random(3, 1)}),
    Call("meshgrid", lambda x, y: paddle.meshgrid(x, y), {"x": random(3), "y": random(4)}),
    Call("prelu", F.prelu, {"x": IMAGE, "weight": random(4)}),
    Call("prelu of one", F.prelu, {"x": IMAGE, "weight": random(1)}),
    Call("diag", paddle.diag, {"x": random(4), "offset": 1, "padding_value": 0.5}),
    Call("diag of a matrix", paddle.diag, {"x": X, "offset": 1}),
    Call("diagonal", lambda x, offset=0, axis1=0, axis2=1: paddle.diagonal(x, offset, axis1, axis2) * 2, {"x": CUBE}),
    Call("diag_embed", paddle.diag_embed, {"input": CUBE, "offset": 1}),
    Call("trace", paddle.trace, {"x": CUBE, "offset": 1}),
    Call(
        "multi_dot",
        lambda x, y, z: paddle.linalg.multi_dot([x, y, z]),
        {"x": random(3, 4), "y": random(4, 2), "z": random(2, 5)},
    ),
    Call("lerp gradient", paddle.lerp, {"x": X, "y": ROW, "weight": random(3, 5, low=0, high=1)}),
    Call("dot", paddle.dot, {"x": X, "y": Y}),
    Call("index_sample", paddle.index_sample, {"x": TABLE, "index": indices(7, 3, high=4)}),
    Call("kl_div", F.kl_div, {"input": X, "label": POSITIVE}),
    Call("label_smooth", F.label_smooth, {"label": X}),
    Call("label_smooth with a prior", F.label_smooth, {"label": X, "prior_dist": random(1, 5)}),
    Call("nll_loss", F.nll_loss, {"input": X, "label": indices(3, high=5), "weight": random(5, low=0.5)}),
    Call("smooth_l1_loss", F.smooth_l1_loss, {"input": X, "label": Y}),
    Call("cumprod", lambda x, dim=1: paddle.cumprod(x, dim), {"x": CUBE}),
    Call("frame", paddle.signal.frame, {"x": random(2, 12), "frame_length": 5, "hop_length": 2}),
    Call("overlap_add", paddle.signal.overlap_add, {"x": random(2, 5, 4), "hop_length": 2}),
    Call("maxout", F.maxout, {"x": IMAGE, "groups": 2}),
    Call("reduce_as", paddle.reduce_as, {"x": X, "target": ROW}),
    Call("repeat_interleave", paddle.repeat_interleave, {"x": CUBE, "repeats": 3, "axis": 1}),
    Call("unfold", F.unfold, {"x": IMAGE, "kernel_sizes": [3, 2], "strides": 2, "paddings": 1}),
    Call("fold", F.fold, {"x": random(2, 12, 9), "output_sizes": [4, 5], "kernel_sizes": [2, 3]}),
    Call("temporal_shift", F.temporal_shift, {"x": random(6, 4, 3, 2), "seg_num": 3}),
    Call("pixel_shuffle", F.pixel_shuffle, {"x": random(2, 8, 3, 2), "upscale_factor": 2}),
    Call("pixel_unshuffle", F.pixel_unshuffle, {"x": random(2, 3, 4, 6), "downscale_factor": 2}),
    Call("channel_shuffle", F.channel_shuffle, {"x": random(2, 6, 3, 6), "groups": 2}),
    Call("crop", lambda x, shape=(2, 3), offsets=(1, 2): paddle.crop(x, list(shape), list(offsets)), {"x": X}),
    Call("stanh", paddle.stanh, {"x": X}),
    Call("celu", F.celu, {"x": X}),
    Call("tanhshrink", F.tanhshrink, {"x": X}),
    Call(
        "max_pool2d and where",
        F.max_pool2d,
        {"x": IMAGE, "kernel_size": 3, "stride": 2, "padding": 1, "return_mask": True},
    ),
    *(
        Call(f"interpolate {mode}", F.interpolate, {"x": IMAGE, "size": [5, 9], "mode": mode})
        for mode in ("nearest", "bilinear", "bicubic")
    ),
    *(
        Call(f"interpolate {mode} by a scale", F.interpolate, {"x": IMAGE, "scale_factor": [1.7, 0.6], "mode": mode})
        for mode in ("nearest", "bilinear", "bicubic")
    ),
    Call("rfft", lambda x, n=None, axis=-1, norm="backward": paddle.fft.rfft(x, n, axis, norm), {"x": CUBE}),
    Call(
        "irfft",
        lambda x, n=None, axis=-1, norm="backward": paddle.fft.irfft(paddle.complex(x, x), n, axis, norm),
        {"x": CUBE},
    ),
    Call(
        "fft",
        lambda x, n=None, axis=-1, norm="backward": paddle.fft.fft(paddle.complex(x, x), n, axis, norm),
        {"x": CUBE},
    ),
    Call("complex", lambda x, y: paddle.real(paddle.complex(x, y)) * 2, {"x": X, "y": ROW}),
    Call("uniform", paddle.uniform, {"shape": [2, 3]}, True),
    Call(
        "gaussian",
        lambda shape=(2, 3), mean=0.0, std=1.0, dtype="float32": paddle.tensor.random.gaussian(
            list(shape), mean, std, dtype=dtype
        ),
        {},
        True,
    ),
    Call("randint", paddle.randint, {"low": 0, "high": 5, "shape": [2, 3]}, True),
    Call("randperm", paddle.randperm, {"n": 7}, True),
    Call("bernoulli", lambda x: paddle.bernoulli(x), {"x": random(3, 4, low=0, high=1)}, True),
    Call("exponential_", lambda x, lam=1.0: x.clone().exponential_(lam), {"x": X}, True),
    Call("dropout", F.dropout, {"x": X}, True),
    Call("dropout in inference", F.dropout, {"x": X, "training": False, "mode": "downscale_in_infer"}),
    Call(
        "truncated_gaussian",
        lambda shape=(2, 3), mean=0.0, std=1.0, low=-2.0, high=2.0: ops.truncated_gaussian_random(
            list(shape), mean, std, 0, low, high, paddle.float32, paddle.framework._current_expected_place()
        ),
        {},
        True,
    ),
]
