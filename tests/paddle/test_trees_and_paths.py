"""Kernels that are composed of many launches: Viterbi's algorithm, the hierarchical sigmoid, pools with windows of
various sizes, steps of many parameters. Against Paddle's CPU, with fallbacks forbidden."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import DEVICE, Array, on, random

pytestmark = pytest.mark.unihal_no_fallback

DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])
TOLERANCE = {"float32": 2e-5, "float64": 1e-12, "float16": 2e-3, "bfloat16": 2e-2}


def on_each(work: Callable[[str], list[Any]], tolerance: float) -> None:
    outcome = []
    for device in (DEVICE, "cpu"):
        with on(device):
            results = work(device)
            for result in results:
                assert device in str(result.place)
            outcome.append([result.numpy() for result in results])
    for ours, theirs in zip(*outcome, strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * max(1, np.abs(theirs).max(initial=0)))


# -- Viterbi's algorithm


@DTYPES
@pytest.mark.parametrize("borders", [True, False])
@pytest.mark.parametrize("lengths", [[7, 7, 7, 7], [3, 7, 1, 5], [3, 2, 1, 3], [1, 1, 1, 1]], ids=str)
def test_viterbi(lengths: list[int], borders: bool, dtype: str) -> None:
    def work(_: str) -> list[Any]:
        potentials = paddle.to_tensor(random(4, 7, 6).astype(dtype))
        rules = paddle.to_tensor(random(6, 6, seed=1).astype(dtype))
        return list(paddle.text.viterbi_decode(potentials, rules, paddle.to_tensor(np.array(lengths)), borders))

    on_each(work, TOLERANCE[dtype])


@DTYPES
def test_viterbi_of_many_tags(dtype: str) -> None:
    def work(_: str) -> list[Any]:
        decoder = paddle.text.ViterbiDecoder(paddle.to_tensor(random(40, 40, seed=1).astype(dtype)), False)
        lengths = np.random.RandomState(3).randint(1, 30, 17)
        return list(decoder(paddle.to_tensor(random(17, 30, 40).astype(dtype)), paddle.to_tensor(lengths)))

    on_each(work, TOLERANCE[dtype])


def test_viterbi_refuses_what_does_not_fit() -> None:
    with on(DEVICE):
        x, lengths = paddle.to_tensor(random(2, 3, 4)), paddle.to_tensor(np.array([3, 3]))
        with pytest.raises(ValueError):
            paddle.text.viterbi_decode(x, paddle.to_tensor(random(5, 5)), lengths)
        with pytest.raises(ValueError, match="a length is 9"):
            paddle.text.viterbi_decode(x, paddle.to_tensor(random(4, 4)), lengths * 3)


# -- the hierarchical sigmoid

TABLE = np.array([[0, 2, -1, -1], [0, 1, 3, -1], [0, 1, 4, 5], [0, -1, -1, -1], [0, 1, 4, 5]])
CODE = np.array([[0, 1, -1, -1], [1, 0, 1, -1], [1, 1, 0, 0], [0, -1, -1, -1], [1, 1, 0, 1]])


@DTYPES
@pytest.mark.parametrize("classes", [2, 3, 6, 8, 100])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("custom", [True, False])
def test_hierarchical_sigmoid(custom: bool, bias: bool, classes: int, dtype: str) -> None:
    if custom and classes != 8:
        pytest.skip("a tree of one's own has the classes of its table")

    def work(_: str) -> list[Any]:
        labels = np.random.RandomState(0).randint(0, classes, (5, 1))
        leaves = [random(5, 4), random(classes - 1, 4, seed=1), *([random(classes - 1, 1, seed=2)] if bias else [])]
        given = [paddle.to_tensor(leaf.astype(dtype), stop_gradient=False) for leaf in leaves]
        path = [paddle.to_tensor(TABLE), paddle.to_tensor(CODE)] if custom else [None, None]
        x, weight, *rest = given
        loss = F.hsigmoid_loss(x, paddle.to_tensor(labels), classes, weight, rest[0] if rest else None, *path)
        (loss * paddle.to_tensor(random(5, 1, seed=3).astype(dtype))).sum().backward()
        return [loss, *(leaf.grad for leaf in given)]

    on_each(work, TOLERANCE[dtype])


@DTYPES
def test_hierarchical_sigmoid_of_large_products(dtype: str) -> None:
    """Products are cut at 40, and what is cut has a gradient nevertheless."""

    def work(_: str) -> list[Any]:
        x = paddle.to_tensor((60 * random(5, 4)).astype(dtype), stop_gradient=False)
        weight = paddle.to_tensor(random(7, 4, seed=1).astype(dtype), stop_gradient=False)
        loss = F.hsigmoid_loss(x, paddle.to_tensor(np.arange(5)[:, None]), 8, weight)
        loss.sum().backward()
        return [loss, x.grad, weight.grad]

    on_each(work, TOLERANCE[dtype])


# -- pools with windows of various sizes

PICTURES, VOLUMES = random(2, 3, 13, 17), random(2, 3, 7, 9, 8)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("u", [0.1, 0.3, 0.77, 0.999])
@pytest.mark.parametrize(
    ("size", "kernel"),
    [
        *[([5, 6], None), (4, None), ([1, 1], None), ([13, 17], None), ([5, 6], 3), ([6, 7], [2, 4])],
        *[([12, 16], [1, 2]), ([12, 17], [2, 1]), ([5, 6], [5, 2]), ([13, 17], 1), ([5, 6], [1, 5]), ([5, 6], [3, 4])],
    ],
    ids=str,
)
def test_fractional_pools_of_pictures(size: Any, kernel: Any, u: float, dtype: str) -> None:
    def work(_: str) -> list[Any]:
        x = paddle.to_tensor(PICTURES).astype(dtype)
        x.stop_gradient = False
        y, mask = F.fractional_max_pool2d(x, size, kernel, u, return_mask=True)
        y.backward(paddle.to_tensor(random(*y.shape, seed=2)).astype(dtype))
        return [y, mask, x.grad]

    on_each(work, TOLERANCE[dtype])


@DTYPES
@pytest.mark.parametrize(("size", "kernel"), [([3, 4, 3], None), (2, None), ([3, 4, 3], 2)], ids=str)
def test_fractional_pools_of_volumes(size: Any, kernel: Any, dtype: str) -> None:
    def work(_: str) -> list[Any]:
        x = paddle.to_tensor(VOLUMES.astype(dtype), stop_gradient=False)
        y, mask = F.fractional_max_pool3d(x, size, kernel, 0.4, return_mask=True)
        (y * y).sum().backward()
        return [y, mask, x.grad]

    on_each(work, TOLERANCE[dtype])


@pytest.mark.parametrize("kernel", [2, 3, 5])
def test_fractional_pools_of_equals_and_nan(kernel: int) -> None:
    """Of equal pixels the first counts, and NaN before all."""
    pictures = np.float32([[[[0, 1, 1, 0, 2, 2], [1, 1, 0, 0, 2, 2]] * 3]])
    with on(DEVICE):
        x = paddle.to_tensor(pictures)
        y, mask = F.fractional_max_pool2d(x, [2, 2], kernel, 0.5, return_mask=True)
        expected, places = (part.numpy() for part in (y, mask))
        np.testing.assert_array_equal(pictures.ravel()[places], expected)
        pictures[..., 0, 0] = pictures[..., -1, -1] = pictures[..., -1, -2] = np.nan
        y, mask = F.fractional_max_pool2d(paddle.to_tensor(pictures), [2, 2], kernel, 0.5, return_mask=True)
        np.testing.assert_array_equal(pictures.ravel()[mask.numpy()], y.numpy())
        assert np.isnan(y.numpy()[0, 0, [0, 1], [0, 1]]).all() and mask.numpy()[0, 0, 0, 0] == 0
        assert mask.numpy()[0, 0, 1, 1] == 34
        if kernel < 5:  # these windows do not reach so far
            np.testing.assert_array_equal(y.numpy()[0, 0, [0, 1], [1, 0]], expected[0, 0, [0, 1], [1, 0]])


def test_fractional_pools_draw_their_number() -> None:
    with on(DEVICE):
        x = paddle.to_tensor(random(1, 1, 40, 40))
        drawn = [F.fractional_max_pool2d(x, 7).numpy() for _ in range(8)]
        assert any(not np.array_equal(drawn[0], other) for other in drawn[1:])


# -- resampling with antialiasing


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize(
    "size",
    [{"size": [5, 6]}, {"size": [20, 31]}, {"size": [1, 40]}, {"size": [13, 17]}, {"scale_factor": [0.4, 0.7]}],
    ids=str,
)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_antialiasing(layout: str, size: dict[str, Any], corners: bool, mode: str, dtype: str) -> None:
    def work(_: str) -> list[Any]:
        pictures = PICTURES if layout == "NCHW" else PICTURES.transpose(0, 2, 3, 1)
        x = paddle.to_tensor(np.ascontiguousarray(pictures).astype(dtype), stop_gradient=False)
        y = F.interpolate(x, **size, mode=mode, align_corners=corners, antialias=True, data_format=layout)
        y.backward(paddle.to_tensor(random(*y.shape, seed=2).astype(dtype)))
        return [y, x.grad]

    on_each(work, 2e-5 if dtype == "float32" else 1e-6)


# -- steps of many parameters


def train(device: str, make: Callable[[Any], Any], dtype: str, steps: int = 4) -> list[Any]:
    paddle.seed(3)
    model = paddle.nn.Sequential(paddle.nn.Linear(6, 5), paddle.nn.Tanh(), paddle.nn.Linear(5, 3))
    for i, parameter in enumerate(model.parameters()):
        parameter.set_value(random(*parameter.shape, seed=i))
    model.to(dtype=dtype)
    optimizer = make(model.parameters())
    x = paddle.to_tensor(random(8, 6, seed=20)).astype(dtype)
    for _ in range(steps):
        (model(x) ** 2).mean().backward()
        optimizer.step()
        optimizer.clear_grad()
    return [parameter.astype("float32") for parameter in model.parameters()]


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "momentum": lambda p: paddle.optimizer.Momentum(0.1, 0.9, p, use_multi_tensor=True),
    "Nesterov's momentum": lambda p: paddle.optimizer.Momentum(
        0.1, 0.9, p, use_nesterov=True, weight_decay=paddle.regularizer.L2Decay(0.1), use_multi_tensor=True
    ),
    "Adam": lambda p: paddle.optimizer.Adam(0.01, parameters=p, use_multi_tensor=True),
    "AMSGrad": lambda p: paddle.optimizer.Adam(0.01, parameters=p, use_multi_tensor=True, amsgrad=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_of_many_parameters(name: str) -> None:
    """In float32, the one dtype that Paddle takes for them on its CPU too."""
    on_each(lambda device: train(device, OPTIMIZERS[name], "float32"), 1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_of_many_parameters_with_masters(name: str, dtype: str) -> None:
    """Against the device's steps one by one, since Paddle's CPU has none in these dtypes."""
    many = OPTIMIZERS[name]

    def one_by_one(parameters: Any) -> Any:
        optimizer = many(parameters)
        optimizer._use_multi_tensor = False
        return optimizer

    def with_masters(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def made(parameters: Any) -> Any:
            optimizer = make(parameters)
            optimizer._multi_precision = True
            return optimizer

        return made

    with on(DEVICE):
        ours, theirs = (train(DEVICE, with_masters(make), dtype) for make in (many, one_by_one))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("decay", [0.0, 0.02])
@pytest.mark.parametrize("rescale", [1.0, 0.5])
def test_lars(rescale: float, decay: float) -> None:
    """Of which Paddle has a form for programs only."""
    first = random(6, 5)

    def train_on(device: str) -> list[float]:
        paddle.enable_static()
        try:
            with paddle.pir_utils.IrGuard(), on(device):
                main, start = paddle.static.Program(), paddle.static.Program()
                with paddle.static.program_guard(main, start):
                    x = paddle.static.data("x", [8, 6], "float32")
                    initial = paddle.nn.initializer.Assign(first)
                    weight = paddle.create_parameter([6, 5], "float32", default_initializer=initial)
                    loss = (paddle.matmul(x, weight) ** 2).mean()
                    paddle.incubate.optimizer.LarsMomentumOptimizer(
                        50.0, 0.9, lars_weight_decay=decay, rescale_grad=rescale
                    ).minimize(loss)
                place = paddle.CPUPlace() if device == "cpu" else paddle.CustomPlace(device, 0)
                executor = paddle.static.Executor(place)
                executor.run(start)
                feed = {"x": random(8, 6, seed=20)}
                return [float(executor.run(main, feed=feed, fetch_list=[loss])[0]) for _ in range(5)]
        finally:
            paddle.disable_static()

    ours = train_on(DEVICE)
    assert len(set(ours)) == 5
    np.testing.assert_allclose(ours, train_on("cpu"), rtol=1e-4)


# -- gradients of gradients' gradients

THIRD: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: (x + x[:1]) ** 3,
    "multiply": lambda x: (x * x[:1]) * x,
    "matmul": lambda x: paddle.matmul(paddle.matmul(x, x, transpose_y=True), x),
    "cos": paddle.cos,
    "pow": lambda x: paddle.pow(x, 4),
    "pow of 2": lambda x: paddle.pow(x, 2),
    "sigmoid": F.sigmoid,
    "sin": paddle.sin,
    "tanh": paddle.tanh,
}


@pytest.mark.parametrize("name", THIRD)
@pytest.mark.parametrize("device", [DEVICE, "cpu"])
@pytest.mark.parametrize("simple", [True, False])
def test_third_gradients(name: str, device: str, simple: bool) -> None:
    """Against differences: of sums, and of squares, in which the lower gradients count too."""

    def second(values: Array) -> tuple[Any, Any]:
        x = paddle.to_tensor(values, stop_gradient=False)
        y = THIRD[name](x)
        first = paddle.grad(y if simple else y * y, x, create_graph=True)[0]
        return x, paddle.grad(first if simple else first * first, x, create_graph=True)[0]

    with on(device):
        values = random(3, 5).astype("float64") + 0.1
        x, curve = second(values)
        third = paddle.grad(curve, x)[0].numpy()
        step = 1e-5
        slope = (second(values + step)[1].numpy() - second(values - step)[1].numpy()) / (2 * step)
    np.testing.assert_allclose(third, slope, rtol=1e-5, atol=1e-5)
