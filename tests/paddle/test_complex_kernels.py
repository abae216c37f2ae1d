"""Kernels of complex numbers against the CPU, with fallbacks forbidden: elementwise functions with their gradients,
moves, reductions and scans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest
from comparison import check, random

RE, IM = random(3, 4, low=0.3, high=1.5), random(3, 4, low=0.3, high=1.5, seed=1)
OTHER = (random(3, 4, seed=2), random(3, 4, seed=3))
ROWS, PLACES = np.array([2, 0, 2], np.int64), np.array([[0, 1], [2, 3], [0, 1]], np.int64)
MASK = random(3, 4, seed=4) > 0

Maps = Callable[..., Any]

#: Paddle's CPU has the exponential of complex128 in float32.
BY_EXPONENTIALS = ("exp", "sigmoid", "silu")

#: Functions of a complex matrix, with whether their gradient is compared.
FUNCTIONS: list[tuple[str, Maps, bool]] = [
    ("abs", paddle.abs, True),
    ("acos", paddle.acos, False),
    ("acosh", paddle.acosh, False),
    ("asin", paddle.asin, False),
    ("asinh", paddle.asinh, False),
    ("atan", lambda x: paddle.atan(x / 4), False),
    ("atanh", lambda x: paddle.atanh(x / 4), False),
    ("cos", paddle.cos, True),
    ("cosh", paddle.cosh, False),
    ("exp", paddle.exp, True),
    ("expm1", paddle.expm1, True),
    ("log", paddle.log, True),
    ("log10", paddle.log10, True),
    ("log1p", paddle.log1p, True),
    ("log2", paddle.log2, True),
    ("pow", lambda x: paddle.pow(x, 3.0), True),
    ("reciprocal", paddle.reciprocal, True),
    ("sigmoid", paddle.nn.functional.sigmoid, True),
    ("sign", paddle.sgn, False),
    ("silu", paddle.nn.functional.silu, True),
    ("sin", paddle.sin, True),
    ("sinh", paddle.sinh, False),
    ("sqrt", paddle.sqrt, True),
    ("square", paddle.square, True),
    ("tan", paddle.tan, False),
    ("tanh", paddle.tanh, True),
    ("divide", lambda x: x / 2.5, True),
    ("complex numbers", lambda x: [x / (1 + 2j), x * (2 - 1j), x + 3j, paddle.full_like(x, 1 + 2j)], False),
    ("mean", paddle.mean, True),
    ("mean of rows", lambda x: paddle.mean(x, axis=1), True),
    ("sum", lambda x: paddle.sum(x, axis=0), True),
    ("prod", lambda x: paddle.prod(x, axis=1), False),
    ("cumsum", lambda x: paddle.cumsum(x, axis=1), True),
    ("cumprod", lambda x: paddle.cumprod(x, dim=1), False),
    ("add_n", lambda x: paddle.add_n([x, x * 2]), True),
    ("gather", lambda x: paddle.gather(x, paddle.to_tensor(ROWS)), True),
    ("gather_nd", lambda x: paddle.gather_nd(x, paddle.to_tensor(PLACES)), True),
    ("index_select", lambda x: paddle.index_select(x, paddle.to_tensor(ROWS), axis=1), True),
    ("indexing", lambda x: x[paddle.to_tensor(ROWS)], True),
    ("index_put", lambda x: paddle.index_put(x, (paddle.to_tensor(ROWS[:2]),), x[:1] * 2), True),
    ("masked_select", lambda x: paddle.masked_select(x, paddle.to_tensor(MASK)), True),
    ("masked_fill", lambda x: paddle.masked_fill(x, paddle.to_tensor(MASK), x[0, 0] * 2), True),
    ("where", lambda x: paddle.where(paddle.to_tensor(MASK), x, x * 2), True),
    ("tril", paddle.tril, True),
    ("triu", lambda x: paddle.triu(x, 1), True),
    ("equal", lambda x: [x == x, x == x * 2, x != x * 2], False),
    ("isnan", lambda x: [paddle.isnan(x * float("nan")), paddle.isfinite(x), paddle.isinf(x)], False),
    ("logical_and", lambda x: [paddle.logical_and(x, x), paddle.logical_not(x)], False),
    ("sparse", lambda x: (x * (x.abs() > 1).astype(x.dtype)).to_sparse_coo(2).to_dense(), False),
]


def parts(value: Any) -> list[Any]:
    results = value if isinstance(value, list) else [value]
    return [part for x in results for part in ([paddle.real(x), paddle.imag(x)] if x.is_complex() else [x])]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "function", "gradient"), FUNCTIONS, ids=[row[0] for row in FUNCTIONS])
def test_functions(name: str, function: Maps, gradient: bool, dtype: str) -> None:
    check(
        lambda re, im: parts(function(paddle.complex(re, im))),
        *(RE, IM),
        dtype=dtype,
        gradient=gradient,
        tolerance=2e-5 if dtype == "float32" else 1e-6 if name in BY_EXPONENTIALS else 1e-10,
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers(dtype: str) -> None:
    check(
        lambda a, b, c, d: parts(paddle.pow(paddle.complex(a, b), paddle.complex(c, d))),
        *(RE, IM, *OTHER),
        dtype=dtype,
        gradient=False,
    )
