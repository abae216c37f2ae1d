"""Root-mean-square normalization, which Paddle 3.3 has no CPU kernel of: against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import DEVICE, TOLERANCE, on, random, to_numpy

pytestmark = [
    pytest.mark.unihal_no_fallback,
    pytest.mark.skipif(not hasattr(F, "rms_norm"), reason="this Paddle has no F.rms_norm"),
]
WEIGHT = random(4, 5, 6, seed=7)


def normalized(*arguments: Any) -> Any:
    """The first of two results, behind which come the factors of the rows."""
    return F.rms_norm(*arguments)[0]


def rounded(array: Any, dtype: str) -> Any:
    with on("cpu"):
        return paddle.to_tensor(array).astype(dtype).astype("float64").numpy()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [(6,), (5, 6)], ids=str)
@pytest.mark.parametrize("scaled", [True, False])
def test_as_numpy(shape: tuple[int, ...], scaled: bool, dtype: str) -> None:
    x, gamma, dy = (rounded(a, dtype) for a in (random(4, 5, 6), random(*shape, low=0.5, seed=1), WEIGHT))
    axes = tuple(range(3 - len(shape), 3))
    inverse = 1 / np.sqrt((x * x).mean(axes, keepdims=True) + 1e-5)
    normal, scale = x * inverse, gamma if scaled else 1.0
    g = dy * scale
    expected = [normal * scale, inverse * (g - normal * (g * normal).mean(axes, keepdims=True))]
    if scaled:
        expected.append((dy * normal).sum(tuple(range(3 - len(shape)))))
    with on(DEVICE):
        a = paddle.to_tensor(x).astype(dtype)
        s = paddle.to_tensor(gamma).astype(dtype) if scaled else None
        leaves = [t for t in (a, s) if t is not None]
        for leaf in leaves:
            leaf.stop_gradient = False
        y = normalized(a, list(shape), s, 1e-5)
        y.backward(paddle.to_tensor(dy).astype(dtype))
        found = [to_numpy(t) for t in (y, *(leaf.grad for leaf in leaves))]
        assert all(DEVICE in str(t.place) for t in (y, *(leaf.grad for leaf in leaves)))
    for ours, theirs in zip(found, expected, strict=True):
        limit = TOLERANCE[dtype]
        np.testing.assert_allclose(ours, theirs, rtol=limit, atol=limit * np.abs(theirs).max())


def test_large_numbers_of_float16() -> None:
    """Whose squares float16 has not."""
    with on(DEVICE):
        y = normalized(paddle.full([2, 8], 6e4, "float16"), [8], None, 1e-5)
        np.testing.assert_allclose(y.astype("float32").numpy(), 1, rtol=1e-3)


def test_rows_of_nothing_and_what_does_not_fit() -> None:
    with on(DEVICE):
        assert normalized(paddle.zeros([0, 8]), [8]).shape == [0, 8]
        with pytest.raises(ValueError, match="normalized_shape"):
            normalized(paddle.zeros([2, 8]), [4])


def test_a_layer_trains() -> None:
    if not hasattr(paddle.nn, "RMSNorm"):
        pytest.skip("this Paddle has no nn.RMSNorm")
    with on(DEVICE):
        net = paddle.nn.Sequential(paddle.nn.Linear(6, 8), paddle.nn.RMSNorm(8), paddle.nn.Linear(8, 1))
        optimizer = paddle.optimizer.AdamW(0.05, parameters=net.parameters())
        x, y = paddle.to_tensor(random(16, 6)), paddle.to_tensor(random(16, 1, seed=2))
        losses = []
        for _ in range(20):
            loss = F.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(float(loss))
        assert losses[-1] < 0.5 * losses[0]
