"""Gradients by central differences: an oracle that shares nothing with the formulas that it judges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_EPSILON = float(np.finfo(np.float64).eps)

#: Step relative to max(1, |x|). A central difference errs by step^2 / 6 * |f'''| from truncation and about
#: epsilon / step * |f| from rounding; with derivatives of the order of f their sum is least near epsilon^(1/3).
STEP = _EPSILON ** (1 / 3)

#: What remains of both errors at that step, relative to the larger of |f| and |f'''|: about epsilon^(2/3), 4e-11. The
#: factor covers third derivatives up to some hundred times the function, as steep activations and norms of few
#: elements have them.
TOLERANCE = 256 * _EPSILON ** (2 / 3)


def gradient(forward: Callable[[NDArray[Any]], NDArray[Any]], x: NDArray[Any], dy: NDArray[Any]) -> NDArray[Any]:
    """d sum(forward(x) * dy) / dx, element by element; ``forward`` must be smooth within a step of x."""
    result = np.empty(x.shape)
    moved = x.astype(np.float64)
    for index in np.ndindex(*x.shape):
        value = moved[index]
        step = STEP * max(1.0, abs(float(value)))
        moved[index] = value + step
        upper = forward(moved)
        moved[index] = value - step
        lower = forward(moved)
        moved[index] = value
        # The difference of the outputs before the sum: terms that do not depend on this element cancel exactly.
        result[index] = np.sum((upper - lower) * dy) / ((value + step) - (value - step))
    return result
