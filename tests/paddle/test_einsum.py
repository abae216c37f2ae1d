"""Einstein's notation against Paddle's CPU, with fallbacks forbidden: results, gradients, and graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
from comparison import DEVICE, check, check_in_graph, on, random

EQUATIONS: list[tuple[str, list[tuple[int, ...]]]] = [
    ("ij->ji", [(3, 4)]),
    ("ij->", [(3, 4)]),
    ("ij->i", [(3, 4)]),
    ("ii->i", [(3, 3)]),
    ("ii->", [(3, 3)]),
    ("...->...", [(2, 3)]),
    ("i,i->", [(5,), (5,)]),
    ("i,j->ij", [(3,), (4,)]),
    ("i,i->i", [(5,), (5,)]),
    ("ij,j->ij", [(0, 3), (3,)]),
    ("ij,jk->ik", [(3, 4), (4, 5)]),
    ("ij,jk->ik", [(3, 0), (0, 4)]),
    ("ij,kl->il", [(3, 4), (2, 5)]),
    ("ii,ij->j", [(3, 3), (3, 4)]),
    ("i,->i", [(3,), ()]),
    ("ijk,jk->i", [(2, 3, 4), (3, 4)]),
    ("bij,bkj->bik", [(2, 3, 4), (2, 5, 4)]),
    ("bhqd,bkhd->qkhb", [(2, 2, 3, 4), (2, 5, 2, 4)]),
    ("i...,i...->...", [(3, 2, 4), (3, 2, 4)]),
    ("...ij,jk->...ik", [(2, 6, 3, 4), (4, 5)]),
    ("...ij,...jk->...ki", [(2, 1, 3, 4), (5, 4, 6)]),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
]


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS, ids=str)
def test_sums_of_products(equation: str, shapes: list[tuple[int, ...]]) -> None:
    operands = [random(*shape, seed=seed) for seed, shape in enumerate(shapes)]

    def of_real(*given: Any) -> Any:
        return paddle.einsum(equation, *given)

    def of_complex(*given: Any) -> Any:
        return paddle.as_real(paddle.einsum(equation, *[paddle.complex(x, 2 * x + 1) for x in given]))

    check(of_real, *operands)
    check(of_real, *operands, dtype="float64")
    check(of_real, *operands, dtype="bfloat16", gradient=False)
    check_in_graph(of_real, *operands)
    # The gradient of one complex operand is conjugated on Paddle's CPU, though not that of two.
    check(of_complex, *operands, gradient=len(operands) > 1)


def test_a_complex_operand_gets_the_gradient_as_it_is() -> None:
    with on(DEVICE):
        x = paddle.complex(paddle.to_tensor(random(3, 4)), paddle.to_tensor(random(3, 4, seed=1)))
        x.stop_gradient = False
        gradient = paddle.complex(paddle.to_tensor(random(4, 3)), paddle.to_tensor(random(4, 3, seed=2)))
        paddle.autograd.backward([paddle.einsum("ij->ji", x)], [gradient])
        np.testing.assert_array_equal(x.grad.numpy(), gradient.numpy().T)


def test_lengths_that_do_not_fit_are_refused() -> None:
    with on(DEVICE), pytest.raises((ValueError, RuntimeError)):
        paddle.einsum("ij,jk->ik", paddle.ones([2, 3]), paddle.ones([4, 5]))
