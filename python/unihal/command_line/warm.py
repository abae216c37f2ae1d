"""What ``unihal cache warm`` runs: the ops of usual training, so that their kernels are compiled and kept.

Each row runs ops on zeros, with shapes and strides that lead to the same kernels as those of real networks:
convolutional networks (digits, ResNet) and transformers, forward, backward and the optimizer's step. Kernels are
specialized by dtype, by how operands are laid out and by few classes of sizes, never by shape, so that small operands
stand for large ones; a network with other ops or layouts still compiles some kernels at their first use. docs/cache.md
says what is covered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context

from .. import errors, ops
from ..buffer import Buffer
from ..device import Device
from ..device import device as device_of
from ..ops.elementwise import MapFunction, map_function
from ..stream import Stream

DTYPES = ("float32", "float16", "bfloat16")

Case = tuple[str, Callable[[], object]]

_UNARY = (
    "identity", "negative", "absolute", "square", "reciprocal", "sqrt", "rsqrt", "exp", "log", "log1p", "sin", "cos",
    "tanh", "sigmoid", "relu", "relu6", "silu", "gelu_erf", "gelu_tanh", "erf", "scale", "clip", "leaky_relu", "elu",
    "hard_swish", "hard_sigmoid", "softplus", "is_nan", "is_finite", "logical_not",
)  # fmt: skip
_BINARY = (
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "squared_difference", "equal", "not_equal",
    "less", "less_equal", "greater", "greater_equal",
)  # fmt: skip
_GRADIENTS = (
    "relu_backward", "relu6_backward", "leaky_relu_backward", "sigmoid_backward", "tanh_backward", "silu_backward",
    "gelu_erf_backward", "gelu_tanh_backward", "sqrt_backward", "rsqrt_backward", "hard_swish_backward",
)  # fmt: skip
# Name, and which operands are single numbers (the learning rate, powers of beta).
_OPTIMIZERS: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("sgd", (2,)),
    ("momentum", (3,)),
    ("momentum_with_rate", (3,)),
    ("momentum_with_rate", (1,)),
    ("adam", (4, 5, 6)),
    ("adam_epsilon_hat", (4, 5, 6)),
    ("adagrad", (3,)),
    ("rmsprop", (4,)),
    ("adam_by_difference", (4,)),
    ("adamw_by_difference", (4, 5)),
)

# Channels, filters, side of the image, window, stride: the convolutions of ResNet-50, with strides in the first 1x1
# convolution of a stage (Keras) or in the 3x3 (Paddle, PyTorch).
_RESNET50 = (
    (3, 64, 224, 7, 2), (64, 64, 56, 1, 1), (64, 64, 56, 3, 1), (64, 256, 56, 1, 1), (256, 64, 56, 1, 1),
    (256, 128, 56, 1, 1), (256, 128, 56, 1, 2), (128, 128, 56, 3, 2), (128, 128, 28, 3, 1), (128, 512, 28, 1, 1),
    (256, 512, 56, 1, 2), (512, 128, 28, 1, 1), (512, 256, 28, 1, 1), (512, 256, 28, 1, 2), (256, 256, 28, 3, 2),
    (256, 256, 14, 3, 1), (256, 1024, 14, 1, 1), (512, 1024, 28, 1, 2), (1024, 256, 14, 1, 1), (1024, 512, 14, 1, 1),
    (1024, 512, 14, 1, 2), (512, 512, 14, 3, 2), (512, 512, 7, 3, 1), (512, 2048, 7, 1, 1), (1024, 2048, 14, 1, 2),
    (2048, 512, 7, 1, 1),
)  # fmt: skip
_IMAGES = 8

# The same of the demonstration's network, whose batches have 64 images.
_DIGITS = ((1, 16, 8, 3, 1), (16, 32, 8, 3, 1))

# BERT-base on 4 sequences of 128 tokens.
_TOKENS, _SEQUENCE, _WIDTH, _HEADS = 512, 128, 768, 12

_COUNT = 4096


class _Maker:
    """Zeros on one device."""

    def __init__(self, device: Device, dtype: str) -> None:
        self.device = device
        self.dtype = dtype

    def __call__(self, *shape: int, dtype: str | None = None) -> Buffer:
        return ops.fill(Buffer(shape, dtype or self.dtype, self.device), 0)


def run(device: Device, dtype: str, jobs: int) -> Iterator[tuple[str, str]]:
    """Runs the table in several processes, since drivers compile a program on one core.

    Yields the name of each case as it is done, in order, and why the device refused it, or an empty text.
    """
    with ProcessPoolExecutor(jobs, get_context("spawn"), _open, (str(device), dtype)) as pool:
        names = [name for name, _ in cases(device, dtype)]
        try:
            yield from zip(names, pool.map(_run_case, range(len(names))))
        except BrokenProcessPool as error:
            raise errors.InternalError(
                "A process that compiled programs died, probably in the driver's compiler. What it had compiled is "
                "kept; `unihal cache warm --jobs 1` goes on from there."
            ) from error


#: The device and the cases, in a process that runs some of them.
_opened: list[tuple[Device, list[Case]]] = []


def _open(name: str, dtype: str) -> None:
    device = device_of(name)
    _opened.append((device, cases(device, dtype)))


def _run_case(number: int) -> str:
    device, rows = _opened[0]
    try:
        rows[number][1]()
        device.synchronize()
    except errors.UnimplementedError as error:
        return str(error)
    return ""


def cases(device: Device, dtype: str) -> list[Case]:
    """The rows of the table, by name."""
    zeros = _Maker(device, dtype)
    rows: list[Case] = [
        *_elementwise(zeros),
        ("optimizers", partial(_optimizers, zeros)),
        ("what frameworks add", partial(_frameworks, zeros)),
        ("movement", partial(_movement, zeros)),
        ("reductions", partial(_reductions, zeros)),
        ("indexing", partial(_indexing, zeros)),
        ("positions and segments", partial(_positions, zeros)),
        ("random numbers", partial(_random, zeros)),
        ("softmax and losses", partial(_losses, zeros)),
        ("normalization", partial(_norms, zeros)),
        ("matrix products", partial(_products, zeros)),
        ("attention", partial(_attention, zeros)),
        ("pooling", partial(_pooling, zeros)),
    ]
    # Filter, stride: the first layers, the body and the shortcuts of ResNets, and those of the digits network.
    # 128 channels are enough for Winograd.
    for window, stride, channels in ((3, 1, 16), (3, 2, 16), (1, 1, 16), (1, 2, 16), (7, 2, 3), (3, 1, 1), (3, 1, 128)):
        name = f"convolution {window}x{window}, stride {stride}, {channels} channels"
        rows.append((name, partial(_convolution, zeros, window, stride, channels)))
    # Which tiles products take depends on their sizes. A processor has one kernel for all, and would take long over
    # these: only where the device has its own memory.
    if not device.properties.unified_memory:
        for layer in _RESNET50:
            name = "ResNet-50: {3}x{3}, stride {4}, {0} to {1} channels, side {2}".format(*layer)
            rows.append((name, partial(_layer, zeros, _IMAGES, *layer)))
        for layer in _DIGITS:
            name = "digits: {3}x{3}, {0} to {1} channels, side {2}".format(*layer)
            rows.append((name, partial(_layer, zeros, 64, *layer)))
        rows.append(("BERT-base: products", partial(_encoder, zeros)))
    return rows


def _elementwise(zeros: _Maker) -> list[Case]:
    return [
        *((name, partial(_unary, zeros, name)) for name in _UNARY),
        *((name, partial(_binary, zeros, name)) for name in _BINARY),
        *((name, partial(_pair, zeros, name)) for name in _GRADIENTS),
        ("select", partial(_select, zeros)),
    ]


def _function(name: str) -> MapFunction:
    function = map_function(name)
    assert function is not None, name
    return function


def _unary(zeros: _Maker, name: str) -> None:
    _function(name)(zeros(_COUNT))


def _pair(zeros: _Maker, name: str) -> None:
    _function(name)(zeros(_COUNT), zeros(_COUNT))


def _binary(zeros: _Maker, name: str) -> None:
    """Both alike; with one number; with a row such as a bias; with a value for each channel."""
    function = _function(name)
    x = zeros(4, 8, 4, 4)
    for other in (x, zeros()):
        function(x, other)
    if name in ("add", "subtract", "multiply", "divide"):
        function(zeros(), x)
        function(x, zeros(4))
        function(x, zeros(8, 1, 1))
        function(zeros(32, 10), zeros(10))  # neither row nor column is a multiple of four
        function(zeros(32, 10), zeros(32, 1))


def _select(zeros: _Maker) -> None:
    condition = zeros(_COUNT, dtype="bool")
    ops.select(condition, zeros(_COUNT), zeros(_COUNT))
    ops.select(condition, zeros(_COUNT), zeros())


def _optimizers(zeros: _Maker) -> None:
    def step(name: str, numbers: tuple[int, ...]) -> None:
        function = _function(name)
        inputs = [zeros(*(() if k in numbers else (_COUNT,)), dtype="float32") for k in range(function.input_count)]
        state = [inputs[0], *inputs[2:]][: function.output_count]
        function(*inputs, out=state, dtype="float32")

    for name, numbers in _OPTIMIZERS:
        step(name, numbers)
        with Stream.default(zeros.device).launch_group():  # the step of many parameters
            step(name, numbers)


def _frameworks(zeros: _Maker) -> None:
    """Counters and seeds, means that are divided by their counts, and the parts of Keras' Adam."""
    for name in ("add", "multiply", "not_equal", "floor_mod"):
        _function(name)(zeros(1, dtype="int64"), zeros(1, dtype="int64"))
    ops.cast(zeros(1, dtype="int64"), "int32")
    _function("scale")(zeros().broadcast_to((_COUNT,)))
    _function("replace_negative_zero")(zeros(_COUNT))
    _function("erfc")(zeros(_COUNT))
    _function("multiply")(zeros(1 << 17, dtype="uint8"), zeros(1 << 17))  # a mask of dropout
    ops.select(zeros(8, 4, dtype="bool"), zeros(8, 4, dtype="int64"), zeros(dtype="int64"))
    for name in ("add", "multiply", "squared_difference"):
        row, column, matrix = zeros(16), zeros(64, 1), zeros(64, 16)
        for x, y in ((row, matrix), (column, matrix), (row, column), (matrix, column)):
            _function(name)(x, y)
    for name in ("divide_no_nan", "adam_rate"):
        _function(name)(zeros(_COUNT), zeros(_COUNT))


def _movement(zeros: _Maker) -> None:
    image = zeros(4, 32, 32, 32)
    ops.copy(image.transpose(0, 2, 3, 1))
    ops.copy(zeros(64, 64).transpose(1, 0))
    ops.copy(zeros(4, 6, 32, 16).transpose(0, 2, 1, 3))
    ops.copy(zeros(64, 64)[:, 1:33])
    ops.copy(zeros(64, 64)[:, 1:34])
    for other in ("float32", "float16", "int32", "int64", "bool"):
        if other != zeros.dtype:
            ops.cast(zeros(_COUNT), other)
            ops.cast(zeros(_COUNT, dtype=other), zeros.dtype)
    ops.fill(zeros(64, 64)[:, 1:33], 0)
    ops.triangular(zeros(64, 64))


def _reductions(zeros: _Maker) -> None:
    x = zeros(64, 256)
    image = zeros(8, 16, 8, 8)
    for reduction in (ops.sum, ops.mean, ops.max, ops.min):
        for axes in (None, 0, 1):
            reduction(x, axes)
    ops.sum(image, (0, 2, 3))
    ops.mean(image, (2, 3))
    ops.reduce(x, "sum_of_squares")
    ops.argmax(x, 1)
    ops.sum(zeros(64, 16, dtype="int64"), 1)


def _indexing(zeros: _Maker) -> None:
    table, updates = zeros(64, 32), zeros(8, 16, 32)
    for dtype in ("int32", "int64"):
        indices = zeros(8, 16, dtype=dtype)
        ops.gather(table, indices)
        ops.scatter(table, indices, updates, combine="sum")
        ops.one_hot(indices, 10, zeros.dtype)
    ops.gather(zeros(64, 1, dtype="int64"), zeros(8, dtype="int64"))  # labels of a batch


def _positions(zeros: _Maker) -> None:
    """Masks, labels counted, and segments: few rows, and so many that partial sums are joined."""
    ops.nonzero(zeros(64, 32, dtype="bool"))
    ops.masked_select(zeros(64, 32), zeros(64, 32, dtype="bool"))
    ops.nonzero(zeros(64, 32, dtype="bool"), coordinates=False)
    ops.search_sorted(zeros(64), zeros(16))
    for dtype in ("int32", "int64"):
        ops.bin_count(zeros(64, dtype=dtype), length=10)
    for rows in (16, 256):
        ops.segment_mean(zeros(rows, 32), zeros(rows, dtype="int32"), 8)


def _random(zeros: _Maker) -> None:
    for distribution in ("uniform", "normal", "truncated_normal"):
        ops.random((_COUNT,), zeros.dtype, zeros.device, distribution, key=1)
    ops.dropout(zeros(_COUNT), 0.5, key=1)


def _losses(zeros: _Maker) -> None:
    for classes in (10, 1000):
        logits = zeros(32, classes)
        dy = zeros(32, classes)
        for logarithm in (False, True):
            y = ops.softmax(logits, logarithm=logarithm)
            ops.softmax_backward(y, dy, logarithm=logarithm)
        for dtype in ("int32", "int64"):
            labels = zeros(32, 1, dtype=dtype)
            loss, probabilities, _ = ops.cross_entropy(logits, labels)
            assert probabilities is not None
            ops.cross_entropy_backward(probabilities, labels, loss)
        ops.cross_entropy(logits, zeros(32, classes))


def _norms(zeros: _Maker) -> None:
    x = zeros(8, 16, 8, 8)
    channel = [zeros(16, dtype="float32") for _ in range(4)]
    for nhwc in (False, True):
        image = ops.copy(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) if nhwc else x
        _, mean, variance = ops.batch_norm(image, *channel)
        assert mean is not None and variance is not None
        ops.batch_norm_backward(image, image, channel[0], mean, variance)
        ops.batch_norm(image, *channel, inference=True)
    for width in (64, 768):
        rows = zeros(32, width)
        scale, bias = zeros(width, dtype="float32"), zeros(width, dtype="float32")
        _, mean, variance = ops.layer_norm(rows, scale, bias)
        ops.layer_norm_backward(rows, rows, scale, mean, variance)


def _products(zeros: _Maker) -> None:
    for rows, depth, columns in ((64, 64, 64), (32, 64, 10), (256, 256, 256), (64, 512, 10), (1, 64, 10)):
        a, b = zeros(rows, depth), zeros(depth, columns)
        bias = zeros(columns)
        ops.matmul(a, b)
        ops.matmul(a, b, bias)
        ops.matmul(a, b, bias, activation="relu")
        ops.matmul(zeros(depth, rows).transpose(1, 0), b)
        ops.matmul(a, zeros(columns, depth).transpose(1, 0))
    batch = zeros(8, 64, 64)
    ops.matmul(batch, batch)
    ops.matmul(batch, batch.transpose(0, 2, 1))
    ops.matmul(batch.transpose(0, 2, 1), batch)


def _attention(zeros: _Maker) -> None:
    q = zeros(2, 4, 64, 32)
    for causal in (False, True):
        y, log_sum_exp = ops.attention(q, q, q, causal=causal)
        ops.attention_backward(q, q, q, None, y, log_sum_exp, y, causal=causal)


def _pooling(zeros: _Maker) -> None:
    x = zeros(4, 8, 8, 8)
    for window, stride, padding in ((2, 2, 0), (3, 2, 1)):
        y, _ = ops.max_pool(x, window, stride=stride, padding=padding)
        ops.pool_backward(y, x, y, window, stride=stride, padding=padding)
    y = ops.average_pool(x, 8)
    ops.pool_backward(y, x, y, 8, mode="average")


def _convolution(zeros: _Maker, window: int, stride: int, channels: int) -> None:
    filters = max(32, channels)
    x, w = zeros(8, channels, 16, 16), zeros(filters, channels, window, window)
    bias = zeros(filters)
    padding = window // 2
    y = ops.convolution(x, w, stride=stride, padding=padding)
    ops.convolution(x, w, bias, stride=stride, padding=padding)
    ops.convolution(x, w, bias, stride=stride, padding=padding, activation="relu")
    ops.convolution_backward_data(y, w, x.shape, stride=stride, padding=padding)
    ops.convolution_backward_filter(x, y, w.shape, stride=stride, padding=padding)
    ops.convolution_backward_filter(x, y, w.shape, stride=stride, padding=padding, with_bias=True)


def _layer(zeros: _Maker, images: int, channels: int, filters: int, side: int, window: int, stride: int) -> None:
    """A convolution and its gradients, with channels after or before the pixels in memory."""
    padding = window // 2
    for last in (False, True):
        result_side = (side + 2 * padding - window) // stride + 1
        if last:
            x = zeros(images, side, side, channels).transpose(0, 3, 1, 2)
            w = zeros(window, window, channels, filters).transpose(3, 2, 0, 1)
            y = zeros(images, result_side, result_side, filters).transpose(0, 3, 1, 2)
            dx = zeros(images, side, side, channels).transpose(0, 3, 1, 2)
            dw = zeros(window, window, channels, filters).transpose(3, 2, 0, 1)
        else:
            x, w = zeros(images, channels, side, side), zeros(filters, channels, window, window)
            y = zeros(images, filters, result_side, result_side)
            dx, dw = zeros(*x.shape), zeros(*w.shape)
        ops.convolution(x, w, stride=stride, padding=padding, out=y)
        ops.convolution_backward_data(y, w, x.shape, stride=stride, padding=padding, out=dx)
        ops.convolution_backward_filter(x, y, w.shape, stride=stride, padding=padding, out=dw)


def _encoder(zeros: _Maker) -> None:
    """The products of a layer, forward and backward."""
    for depth, columns in ((_WIDTH, _WIDTH), (_WIDTH, 4 * _WIDTH), (4 * _WIDTH, _WIDTH), (_WIDTH, 2), (2048, 10)):
        rows = _TOKENS if depth != 2048 else _IMAGES  # the last: the head of ResNet-50
        x, w, dy = zeros(rows, depth), zeros(depth, columns), zeros(rows, columns)
        ops.matmul(x, w)
        ops.matmul(dy, w.transpose(1, 0))
        ops.matmul(x.transpose(1, 0), dy)
    heads = _TOKENS // _SEQUENCE * _HEADS
    values, scores = zeros(heads, _SEQUENCE, _WIDTH // _HEADS), zeros(heads, _SEQUENCE, _SEQUENCE)
    ops.matmul(values, values.transpose(0, 2, 1))
    ops.matmul(scores, values)
    ops.matmul(scores.transpose(0, 2, 1), values)
