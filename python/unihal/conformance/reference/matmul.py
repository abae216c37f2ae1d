"""UHAL_OP_MATMUL."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .activation import activate


def matmul(
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any] | None = None,
    *,
    alpha: float = 1,
    beta: float = 1,
    activation: int = 0,
) -> NDArray[Any]:
    """activation(alpha * a @ b + beta * c)."""
    product = np.matmul(a, b)
    result = product * product.dtype.type(alpha)
    if c is not None:
        result = result + c * product.dtype.type(beta)
    return activate(result, activation)
