"""Products of sparse matrices with vectors, and with dense matrices that are added to: against NumPy, since Paddle's
CPU has no addmm."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
from comparison import DEVICE, on, random

DENSE = random(4, 5) * (random(4, 5, seed=1) > 0.3)
S = paddle.sparse


def sparse_of(dense: Any, layout: str) -> Any:
    x = paddle.to_tensor(dense)
    return x.to_sparse_coo(2) if layout == "coo" else x.to_sparse_csr()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_products(layout: str, dtype: str) -> None:
    dense, vector = DENSE.astype(dtype), random(5, seed=2).astype(dtype)
    matrix, given = random(5, 3, seed=3).astype(dtype), random(4, 3, seed=4).astype(dtype)
    slope, slopes = random(4, seed=5).astype(dtype), random(4, 3, seed=6).astype(dtype)
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    places = dense != 0
    with on(DEVICE):
        x, v = sparse_of(dense, layout), paddle.to_tensor(vector)
        x.stop_gradient = v.stop_gradient = False
        product = S.mv(x, v)
        product.backward(paddle.to_tensor(slope))
        np.testing.assert_allclose(product.numpy(), dense @ vector, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(v.grad.numpy(), dense.T @ slope, rtol=tolerance, atol=tolerance)
        expected = np.outer(slope, vector)[places]
        np.testing.assert_allclose(x.grad.values().numpy(), expected, rtol=tolerance, atol=tolerance)

        x, y, z = sparse_of(dense, layout), paddle.to_tensor(matrix), paddle.to_tensor(given)
        for each in (x, y, z):
            each.stop_gradient = False
        total = S.addmm(z, x, y, beta=0.5, alpha=2.0)
        total.backward(paddle.to_tensor(slopes))
        np.testing.assert_allclose(total.numpy(), 0.5 * given + 2 * dense @ matrix, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(z.grad.numpy(), 0.5 * slopes, rtol=tolerance)
        np.testing.assert_allclose(y.grad.numpy(), 2 * dense.T @ slopes, rtol=tolerance, atol=tolerance)
        expected = 2 * (slopes @ matrix.T)[places]
        np.testing.assert_allclose(x.grad.values().numpy(), expected, rtol=tolerance, atol=tolerance)


def test_errors() -> None:
    with on(DEVICE):
        x = sparse_of(DENSE, "csr")
        with pytest.raises(ValueError):
            S.mv(x, paddle.ones([4]))
        with pytest.raises(ValueError):
            S.addmm(paddle.ones([4, 3]), x, paddle.ones([4, 3]))
