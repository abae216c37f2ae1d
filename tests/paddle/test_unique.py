"""The different numbers and slices of tensors against Paddle's CPU, with fallbacks forbidden."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
from comparison import Array, check, check_in_graph

pytestmark = pytest.mark.unihal_no_fallback

DRAW = np.random.RandomState(0)
NUMBERS = DRAW.randint(0, 6, (4, 7))
SLICES = DRAW.randint(0, 2, (6, 2, 3))
INPUTS: list[tuple[Array, int | None]] = [
    (NUMBERS, None),
    (NUMBERS.astype("float32") / 4 - 0.5, None),
    (NUMBERS[0], None),
    (NUMBERS[0], 0),
    (NUMBERS[:1, :1], None),
    (NUMBERS[:, :0], None),
    (SLICES, 0),
    (SLICES, 1),
    (SLICES, 2),
    (SLICES.astype("float32"), -1),
]


def everything(x: Any, axis: int | None, dtype: str = "int64") -> Any:
    return paddle.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis, dtype=dtype)


def runs(x: Any, axis: int | None) -> Any:
    return paddle.unique_consecutive(x, return_inverse=True, return_counts=True, axis=axis)


@pytest.mark.parametrize(("x", "axis"), INPUTS, ids=lambda part: str(getattr(part, "shape", part)))
def test_different_numbers(x: Array, axis: int | None) -> None:
    for dtype in ("int32", "int64"):
        check(lambda x: everything(x, axis, dtype), x, gradient=False)
    check(lambda x: paddle.unique(x, axis=axis), x, gradient=False)
    check(lambda x: runs(x, axis), np.sort(x.ravel())[::-1].reshape(x.shape), gradient=False)
    check(lambda x: runs(x, axis), x, gradient=False)
    check(lambda x: paddle.unique_consecutive(x, axis=axis), x, gradient=False)


def test_different_numbers_in_graphs() -> None:
    check_in_graph(lambda x: everything(x, None), NUMBERS, gradient=False)
    check_in_graph(lambda x: runs(x, 0), SLICES, gradient=False)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_powers_at_equal_distances(dtype: str) -> None:
    def function(x: Any) -> Any:
        return paddle.logspace(0, 3, 7, base=2, dtype=dtype) + x.astype(dtype) * 0

    check(function, np.zeros(1, "float32"), gradient=False)
    check_in_graph(function, np.zeros(1, "float32"), gradient=False)
