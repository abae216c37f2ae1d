"""Medians against Paddle's CPU, with fallbacks forbidden."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
from comparison import DEVICE, check, check_in_graph, on, random

X = random(3, 4, 5)
TIES = np.rint(random(4, 7, seed=1))
HOLES = np.where(random(4, 7, seed=2) > 0.7, np.nan, random(4, 7, seed=3)).astype("float32")
HOLES[1] = np.nan
SHARED = hasattr(paddle._C_ops, "median_grad")  # equal elements share the gradient since Paddle 3.2


@pytest.mark.parametrize("mode", ["avg", "min"])
@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_medians(name: str, mode: str) -> None:
    function = getattr(paddle, name)
    for x in (X, X[:, :3], TIES, HOLES, HOLES[:, :1]):
        for axis in (None, 0, -1):
            for keep in (False, True):

                def run(x: Any, axis: Any = axis, keep: bool = keep) -> Any:
                    y = function(x, axis, keepdim=keep, mode=mode)
                    return y[0] if isinstance(y, tuple) else y

                # Which of equal elements was found is chance on Paddle's CPU, and has the gradient there.
                if SHARED:
                    found = x is TIES and axis is not None and (mode == "min" or axis == 0)
                else:  # there NaN are equal too to a median that is composed
                    found = x is TIES or (name == "median" and bool(np.isnan(x).any()))
                check(run, x, gradient=not found)
    check(lambda x: function(x, 1, mode=mode), X, dtype="float64", gradient=mode == "avg")


@pytest.mark.parametrize("axes", [[0, 2], [1, -1]])
def test_nanmedians_along_several_axes(axes: list[int]) -> None:
    check(lambda x: paddle.nanmedian(x, axes), X)
    check(lambda x: paddle.nanmedian(x, axes, keepdim=True, mode="min"), np.where(X > 1, np.nan, X).astype("float32"))


def test_places_and_integers() -> None:
    check(lambda x: paddle.median(x, 1, mode="min"), X, gradient=False)
    check(lambda x: paddle.median(x, 1, mode="min"), HOLES, gradient=False)
    for dtype in ("int32", "int64"):
        check(lambda x: paddle.median(x, 1, mode="min")[0], TIES.astype(dtype), gradient=False)
        check(lambda x: paddle.median(x, 1), TIES.astype(dtype), gradient=False)


def test_medians_of_nothing() -> None:
    for function in (paddle.median, paddle.nanmedian):
        for shape, axis in (((3, 0), 1), ((0,), None), ((0, 3), 1)):
            check(lambda x, f=function, a=axis: f(x, a), np.zeros(shape, np.float32), gradient=False)


def test_medians_in_a_graph() -> None:
    check_in_graph(lambda x: paddle.median(x, axis=1), X)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_random_slopes(dtype: str) -> None:
    check(lambda x: paddle.nn.functional.rrelu(x, 0.1, 0.4, training=False), X, dtype=dtype)
    with on(DEVICE):
        x = paddle.to_tensor(np.linspace(-2, 2, 20001), dtype)
        x.stop_gradient = False
        y = paddle.nn.functional.rrelu(x, 0.1, 0.4)
        y.sum().backward()
        slopes, given = x.grad.astype("float64").numpy(), x.astype("float64").numpy()
        np.testing.assert_allclose(y.astype("float64").numpy(), slopes * given, rtol=2e-3)
    assert np.all(slopes[given >= 0] == 1)
    drawn = slopes[given < 0]
    assert drawn.min() >= 0.0999 and drawn.max() <= 0.4001
    # A uniform distribution's mean and standard deviation, within five of their own.
    assert abs(drawn.mean() - 0.25) < 5 * 0.3 / np.sqrt(12 * drawn.size) + 1e-3
    assert abs(drawn.std() - 0.3 / np.sqrt(12)) < 2e-3
