"""Sparse tensors on the device: results and gradients as on the CPU, and an error for what has no kernel."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest
import unihal
from comparison import DEVICE, on, random

pytestmark = pytest.mark.unihal_no_fallback

DENSE = np.where(np.arange(20).reshape(4, 5) % 3 == 1, random(4, 5, low=0.1, high=0.9), 0).astype("float32")
OTHER = np.where(np.arange(20).reshape(4, 5) % 4 == 1, random(4, 5, low=0.1, high=0.9, seed=1), 0).astype("float32")
UNARY = [
    "abs", "asin", "asinh", "atan", "atanh", "expm1", "log1p", "sin", "sinh", "sqrt", "square", "tan", "tanh",
]  # fmt: skip


def dense_of(value: Any) -> Any:
    return (value.to_dense() if value.is_sparse() else value).numpy()


def on_each(function: Callable[[], list[Any]]) -> None:
    outcome = {}
    for device in (DEVICE, "cpu"):
        with on(device):
            results = function()
            for result in results:
                assert device in str(result.place)
            outcome[device] = [dense_of(result) for result in results]
    for ours, theirs in zip(outcome[DEVICE], outcome["cpu"], strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)


def made(layout: str, array: Any = DENSE) -> Any:
    x = paddle.to_tensor(array)
    sparse = x.to_sparse_coo(x.ndim) if layout == "coo" else x.to_sparse_csr()
    sparse.stop_gradient = False
    return sparse


def with_gradient(x: Any, y: Any) -> list[Any]:
    # The CPU has no gradient of to_dense() of compressed rows.
    if y.is_sparse_csr():
        y.backward(y.detach())
    else:
        y.to_dense().backward(paddle.to_tensor(random(*y.shape, seed=3)))
    return [y, x.grad]


@pytest.mark.parametrize("layout", ["coo", "csr"])
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_values(name: str, layout: str) -> None:
    def work() -> list[Any]:
        x = made(layout)
        return with_gradient(x, getattr(paddle.sparse, name)(x))

    on_each(work)


@pytest.mark.parametrize("layout", ["coo", "csr"])
@pytest.mark.parametrize("name", ["relu", "relu6", "leaky_relu"])
def test_activations(name: str, layout: str) -> None:
    def work() -> list[Any]:
        x = made(layout, DENSE - 0.4 * (DENSE != 0).astype("float32"))
        return with_gradient(x, getattr(paddle.sparse.nn.functional, name)(x))

    on_each(work)


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_functions_with_numbers(layout: str) -> None:
    def power() -> list[Any]:
        x = made(layout)
        return with_gradient(x, paddle.sparse.pow(x, 3.0))

    on_each(power)
    on_each(lambda: [paddle.sparse.divide(made(layout), 4.0), paddle.sparse.neg(made(layout))])
    on_each(lambda: [paddle.sparse.cast(made(layout), "int32", "float64")])


def test_made_of_coordinates() -> None:
    """In any order, with gradients of the values; the same place twice adds up in coalesce()."""
    places = np.array([[2, 0, 2, 1], [1, 3, 1, 0]])

    def work() -> list[Any]:
        values = paddle.to_tensor(random(4), stop_gradient=False)
        x = paddle.sparse.sparse_coo_tensor(places, values, [3, 4], stop_gradient=False)
        assert not x.is_coalesced()
        x.values().sum().backward()
        merged = x.detach().coalesce()
        assert merged.nnz() == 3
        return [x.indices(), x.values(), values.grad, merged, merged.indices()]

    on_each(work)


def test_slices_as_values() -> None:
    """Coordinates of the first axes, dense vectors behind."""

    def work() -> list[Any]:
        x = paddle.to_tensor(np.stack([DENSE, DENSE * 2], -1), stop_gradient=False)
        sparse = x.to_sparse_coo(2)
        assert sparse.values().shape == [int((DENSE != 0).sum()), 2]
        return [sparse, sparse.values(), sparse.indices()]

    on_each(work)


def test_layouts_turn_into_one_another() -> None:
    def work() -> list[Any]:
        coo, csr = made("coo"), made("csr")
        turned = coo.detach().to_sparse_csr()
        assert turned.is_sparse_csr() and csr.detach().to_sparse_coo(2).is_sparse_coo()
        return [csr.crows(), csr.cols(), csr.values(), turned.crows(), turned.cols(), csr.detach().to_sparse_coo(2)]

    on_each(work)


def test_a_sparse_tensor_of_nothing() -> None:
    zeros = np.zeros((3, 4), "float32")
    on_each(lambda: [made("coo", zeros).detach()])
    with on(DEVICE):
        assert made("coo", zeros).nnz() == 0
        # The CPU leaves in crows what was in memory.
        np.testing.assert_array_equal(made("csr", zeros).detach().crows().numpy(), [0, 0, 0, 0])


@pytest.mark.parametrize("name", ["add", "subtract"])
def test_sums(name: str) -> None:
    """Of tensors with other places. The CPU's gradients are wrong there, and write outside their memory."""
    sign = 1 if name == "add" else -1
    weight = random(4, 5, seed=3)
    with on(DEVICE):
        x, y = made("coo"), made("coo", OTHER)
        z = getattr(paddle.sparse, name)(x, y)
        z.to_dense().backward(paddle.to_tensor(weight))
        np.testing.assert_allclose(dense_of(z), DENSE + sign * OTHER, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(dense_of(x.grad), weight * (DENSE != 0), rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(dense_of(y.grad), sign * weight * (OTHER != 0), rtol=2e-5, atol=2e-5)


def test_products_of_compressed_rows() -> None:
    def matmul() -> list[Any]:
        x, y = made("csr"), paddle.to_tensor(random(5, 3), stop_gradient=False)
        z = paddle.sparse.matmul(x, y)
        z.backward(paddle.to_tensor(random(4, 3, seed=3)))
        return [z, x.grad, y.grad]

    # The CPU has no such kernel: the dense product is the reference.
    with on(DEVICE):
        z, dx, dy = [dense_of(r) for r in matmul()]
    np.testing.assert_allclose(z, DENSE @ random(5, 3), rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(dx, (random(4, 3, seed=3) @ random(5, 3).T) * (DENSE != 0), rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(dy, DENSE.T @ random(4, 3, seed=3), rtol=2e-5, atol=2e-5)


def test_masked_products() -> None:
    with on(DEVICE):
        x, y = (paddle.to_tensor(random(*s, seed=i), stop_gradient=False) for i, s in enumerate([(4, 3), (3, 5)]))
        z = paddle.sparse.masked_matmul(x, y, made("csr").detach())
        z.backward(z.detach())
        a, b, mask = x.numpy(), y.numpy(), DENSE != 0
        np.testing.assert_allclose(dense_of(z), a @ b * mask, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(x.grad.numpy(), (a @ b * mask) @ b.T, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(y.grad.numpy(), a.T @ (a @ b * mask), rtol=2e-5, atol=2e-5)


def test_training_by_a_sparse_matrix() -> None:
    """A step of a graph network whose adjacency is sparse."""
    with on(DEVICE):
        layer = paddle.nn.Linear(3, 2)
        optimizer = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
        adjacency, x = made("csr", DENSE[:, :4]).detach(), paddle.to_tensor(random(4, 3))
        losses = []
        for _ in range(5):
            loss = paddle.sparse.matmul(adjacency, layer(x)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(float(loss))
        assert losses[-1] < losses[0]


def test_what_has_no_kernel_is_an_error() -> None:
    """With fallbacks allowed too: Paddle would read the device's memory on the host."""
    program = "\n".join(
        [
            "import paddle",
            f"paddle.set_device('{DEVICE}')",
            "x = paddle.ones([3, 4], 'bool').to_sparse_coo(2)",
            "try:",
            "    paddle.sparse.sum(x)",
            "except NotImplementedError as error:",
            "    print(error)",
        ]
    )
    environment = os.environ | {"UNIHAL_STRICT": "0"}
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert child.returncode == 0, child.stderr
    assert "the sparse op 'sum_coo' of bool" in child.stdout
    assert "to_dense()" in child.stdout


@pytest.mark.skipif(DEVICE != "iluvatar", reason="the table is the same for each backend")
def test_each_row_is_registered() -> None:
    library = ctypes.CDLL(f"{unihal.library_dir()}/libunihal_paddle.so")
    library.uhal_paddle_coverage.restype = ctypes.c_char_p
    rows = json.loads(library.uhal_paddle_coverage().decode())
    skipped = {r["kernel"]: r["skipped"] for r in rows if "_coo" in r["kernel"] or "_csr" in r["kernel"]}
    assert len(skipped) > 60
    assert not {name: why for name, why in skipped.items() if why}
