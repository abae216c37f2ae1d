"""Layers of sparse tensors against Paddle's CPU, with fallbacks forbidden: convolutions, maxima over windows, batch
normalization, a bias; slices, sums of compressed rows, functions of complex values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import paddle.sparse.nn.functional as F
import pytest
from comparison import DEVICE, Array, on, random
from test_sparse import DENSE, dense_of, made

pytestmark = pytest.mark.unihal_no_fallback

DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])
LAYOUTS = pytest.mark.parametrize("layout", ["coo", "csr"])
TOLERANCE = {"float32": 3e-5, "float64": 1e-12, "complex64": 3e-5, "complex128": 1e-12}


def voxels(*shape: int, share: float = 0.3) -> Array:
    """Images whose pixels are elements, or nothing at all."""
    pixels = np.random.RandomState(5).rand(*shape[:-1], 1) < share
    return np.where(pixels, random(*shape, seed=4), 0).astype("float32")


VOXELS = voxels(2, 4, 5, 6, 3)


def run(function: Callable[..., Any], inputs: tuple[Array, ...], device: str, dtype: str) -> list[Array]:
    """The result's places and values; gradients of the sparse operand's values and of the dense operands."""
    with on(device):
        x = paddle.to_tensor(inputs[0].astype(dtype)).to_sparse_coo(inputs[0].ndim - 1)
        others = [paddle.to_tensor(other.astype(dtype)) for other in inputs[1:]]
        for tensor in (x, *others):
            tensor.stop_gradient = False
        y = function(x, *others)
        assert device in str(y.place)
        weight = random(*y.values().shape, seed=9).astype(dtype)
        y.backward(paddle.sparse.sparse_coo_tensor(y.indices(), paddle.to_tensor(weight), y.shape))
        results = [np.array(y.shape), y.indices().numpy(), y.values().numpy(), dense_of(x.grad)]
        return results + [other.grad.numpy() for other in others]


def compare(function: Callable[..., Any], inputs: tuple[Array, ...], dtype: str) -> None:
    ours, theirs = run(function, inputs, DEVICE, dtype), run(function, inputs, "cpu", dtype)
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(
            a, b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * max(1, np.abs(b).max(initial=0))
        )


CONVOLUTIONS: dict[str, Callable[..., Any]] = {
    "plain": lambda x, w: F.conv3d(x, w),
    "padding": lambda x, w: F.conv3d(x, w, padding=1),
    "stride": lambda x, w: F.conv3d(x, w, stride=[1, 2, 3], padding=[1, 0, 2]),
    "dilation": lambda x, w: F.conv3d(x, w, padding=2, dilation=[1, 2, 2]),
    "same places": lambda x, w: F.subm_conv3d(x, w),
}


@DTYPES
@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("images", [VOXELS, voxels(1, 4, 5, 6, 3, share=1.0)], ids=["sparse", "full"])
def test_convolutions(name: str, images: Array, dtype: str) -> None:
    compare(CONVOLUTIONS[name], (images, random(3, 3, 3, 3, 5, seed=1)), dtype)


@DTYPES
def test_convolutions_with_windows_of_other_sizes_and_a_bias(dtype: str) -> None:
    inputs = (VOXELS, random(2, 1, 3, 3, 4, seed=1), random(4, seed=2))
    compare(lambda x, w, b: F.conv3d(x, w, b, stride=2), inputs, dtype)
    compare(lambda x, w, b: F.subm_conv3d(x, w, b), (VOXELS, random(1, 1, 1, 3, 4, seed=1), random(4, seed=2)), dtype)


@DTYPES
def test_convolutions_of_pictures(dtype: str) -> None:
    pictures = voxels(2, 6, 7, 3)
    compare(lambda x, w: F.conv2d(x, w, stride=2, padding=1), (pictures, random(3, 3, 3, 4, seed=1)), dtype)
    compare(lambda x, w: F.subm_conv2d(x, w), (pictures, random(3, 3, 3, 4, seed=1)), dtype)


def test_a_convolution_of_nothing_has_nothing() -> None:
    with on(DEVICE):
        x = paddle.zeros([1, 4, 4, 4, 2]).to_sparse_coo(4)
        w = paddle.to_tensor(random(3, 3, 3, 2, 5))
        assert F.conv3d(x, w, padding=1).nnz() == 0
        y = F.subm_conv3d(x, w)
        assert y.nnz() == 0 and y.shape == [1, 4, 4, 4, 5]
        assert F.max_pool3d(x, 2).nnz() == 0


def test_what_convolutions_refuse() -> None:
    """What Paddle checks by itself is the CPU's refusal too; channels that do not fit are an error on both."""
    with on(DEVICE):
        x = paddle.to_tensor(VOXELS).to_sparse_coo(4)
        with pytest.raises(ValueError, match="channels"):
            F.conv3d(x, paddle.to_tensor(random(3, 3, 3, 4, 5)))
        with pytest.raises(NotImplementedError, match="to_sparse_coo"):
            F.conv3d(paddle.to_tensor(VOXELS).to_sparse_coo(5), paddle.to_tensor(random(3, 3, 3, 3, 5)))


@DTYPES
@pytest.mark.parametrize("options", [{}, {"stride": 2}, {"stride": [1, 2, 1], "padding": 1}], ids=str)
def test_maxima_over_windows(options: dict[str, Any], dtype: str) -> None:
    compare(lambda x: F.max_pool3d(x, [2, 3, 2], **options), (VOXELS,), dtype)


@DTYPES
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(training: bool, dtype: str) -> None:
    def run_on(device: str) -> list[Array]:
        with on(device):
            layer = paddle.sparse.nn.BatchNorm(3)
            layer.train() if training else layer.eval()
            layer.to(dtype=dtype)
            layer.weight.set_value(random(3, low=0.5, seed=6).astype(dtype))
            x = paddle.to_tensor(VOXELS.astype(dtype)).to_sparse_coo(4)
            x.stop_gradient = False
            y = layer(x)
            assert device in str(y.place)
            y.backward(paddle.sparse.sparse_coo_tensor(y.indices(), y.values().detach() ** 2, y.shape))
            parts = [y.values(), x.grad.values(), layer.weight.grad, layer.bias.grad, layer._mean, layer._variance]
            return [part.numpy() for part in parts]

    for ours, theirs in zip(run_on(DEVICE), run_on("cpu"), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=10 * TOLERANCE[dtype], atol=10 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("training", [True, False])
def test_a_norm_by_all_processes_is_batch_norm_in_one(training: bool, dtype: str) -> None:
    """That of two is in test_distributed.py."""

    def results(layer: Any, values_of: Any) -> list[Array]:
        layer.train() if training else layer.eval()
        layer.weight.set_value(random(3, low=0.5, seed=6).astype(of_parameters))
        values = paddle.to_tensor(VOXELS[VOXELS.any(-1)]).astype(dtype)
        values.stop_gradient = False
        y = values_of(layer, values)
        assert DEVICE in str(y.place)
        y.backward(y.detach() ** 2)
        parts = [y, values.grad, layer.weight.grad, layer.bias.grad, layer._mean, layer._variance]
        return [part.numpy() for part in parts]

    def of_elements(layer: Any, values: Any) -> Any:
        places = paddle.to_tensor(np.stack(VOXELS.any(-1).nonzero()))
        return layer(paddle.sparse.sparse_coo_tensor(places, values, VOXELS.shape, stop_gradient=False)).values()

    of_parameters = "float64" if dtype == "float64" else "float32"
    with on(DEVICE):
        paddle.set_default_dtype(of_parameters)  # `to` leaves Paddle 3.3 with gradients in float32
        try:
            layers = paddle.sparse.nn.SyncBatchNorm(3, data_format="NDHWC"), paddle.nn.BatchNorm1D(3)
        finally:
            paddle.set_default_dtype("float32")
        found, expected = results(layers[0], of_elements), results(layers[1], lambda layer, values: layer(values))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_a_dense_vector_is_added_to_each_element(dtype: str) -> None:
    results = []
    for device in (DEVICE, "cpu"):
        with on(device):
            x = paddle.to_tensor((3 * VOXELS).astype(dtype)).to_sparse_coo(4)
            results.append(paddle.sparse.add(x, paddle.to_tensor(np.arange(3).astype(dtype))).values().numpy())
    np.testing.assert_allclose(*results, rtol=1e-6)


def test_sums_with_other_dense_tensors_are_refused_as_on_the_cpu() -> None:
    for device in ("cpu", DEVICE):
        with on(device), pytest.raises(NotImplementedError):
            paddle.sparse.add(paddle.to_tensor(VOXELS).to_sparse_coo(4), paddle.to_tensor(random(6, 3)))


SLICES = [
    ([0], [1], [3]),
    ([0, 1], [1, -3], [4, -1]),
    ([1], [-100], [100]),
    ([1], [3], [1]),
    ([-1], [1], [3]),
    ([1], [9], [10]),
]


@LAYOUTS
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int32", "int64"])
@pytest.mark.parametrize(("axes", "starts", "ends"), SLICES)
def test_slices(axes: list[int], starts: list[int], ends: list[int], dtype: str, layout: str) -> None:
    def run_on(device: str) -> list[Array]:
        with on(device):
            x = made(layout, (3 * DENSE).astype(dtype))
            y = paddle.sparse.slice(x, axes, starts, ends)
            assert device in str(y.place)
            parts = [np.array([*y.shape, y.nnz()]), dense_of(y)]
            if dtype.startswith("float") and y.nnz():
                y.backward(y.detach())
                parts += [np.array(x.grad.nnz()), dense_of(x.grad)]
            return parts

    ours = run_on(DEVICE)
    if axes == [-1]:  # which the CPU ignores
        np.testing.assert_array_equal(ours[1], (3 * DENSE).astype(dtype)[:, 1:3])
        return
    for a, b in zip(ours, run_on("cpu"), strict=True):
        np.testing.assert_array_equal(a, b)


@LAYOUTS
def test_slices_along_no_axis_are_refused_as_on_the_cpu(layout: str) -> None:
    for device in ("cpu", DEVICE):
        with on(device), pytest.raises(ValueError):
            paddle.sparse.slice(made(layout), [2], [0], [1])


ROWS = np.where(np.arange(4)[:, None] == 2, 0, DENSE)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("axis", [None, -1])
@pytest.mark.parametrize("given", [None, "float64"])
def test_sums_of_compressed_rows(axis: int | None, dtype: str, given: str | None) -> None:
    """The CPU gives each element the last row's gradient; ours has its own row's."""
    rows = (3 * ROWS).astype(dtype)
    found = {}
    for device in (DEVICE, "cpu"):
        with on(device):
            x = made("csr", rows)
            y = paddle.sparse.sum(x, axis, given)
            assert device in str(y.place)
            # The CPU cannot make dense what it sums of int32.
            found[device] = [part.numpy() for part in (y.crows(), y.cols(), y.values())] + [np.array(y.shape)]
            if device == DEVICE and dtype.startswith("float"):
                y.backward(y.detach())
                expected = (rows != 0) * rows.sum(axis=axis, keepdims=True)
                np.testing.assert_allclose(dense_of(x.grad), expected, rtol=1e-5)
    for ours, theirs in zip(found[DEVICE], found["cpu"], strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_sums_of_compressed_rows_along_another_axis_are_refused_as_on_the_cpu() -> None:
    for device in ("cpu", DEVICE):
        with on(device), pytest.raises(NotImplementedError):
            paddle.sparse.sum(made("csr"), 0)


FUNCTIONS = ["abs", "asin", "asinh", "atan", "atanh", "expm1", "log1p", "sin", "sinh", "square", "tan", "tanh"]


@LAYOUTS
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_complex_values(name: str, dtype: str, layout: str) -> None:
    numbers = ((0.3 + 0.2j) * DENSE).astype(dtype)

    def run_on(device: str, sparse: bool) -> list[Array]:
        with on(device):
            x = made(layout, numbers) if sparse else paddle.to_tensor(numbers, stop_gradient=False)
            y = getattr(paddle.sparse if sparse else paddle, name)(x)
            y.backward(y.detach())
            return [dense_of(y), dense_of(x.grad)] if sparse else [y.numpy(), x.grad.numpy() * (DENSE != 0)]

    for ours, theirs in zip(run_on(DEVICE, True), run_on("cpu", False), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
