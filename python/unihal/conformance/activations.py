"""How a fused activation changes what an op must give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .case import Expected
from .reference.activation import activate
from .reference.enums import Activation

#: No activation is steeper than this; gelu_erf is the steepest, with 1.129 at the square root of 2.
_STEEPEST = 1.13

#: erf may be off by 16 ulps, exp and tanh by less (OpenCL C 1.2, section 7.4); the rest is arithmetic.
_ROUNDINGS = 40


#: Whether a value is rounded before or after makes no difference to these.
COMMUTE_WITH_ROUNDING = (Activation.NONE, Activation.RELU, Activation.RELU6)


def activated(before: Expected, activation: int) -> Expected:
    """What remains of a result and its error when the activation is applied.

    The error before grows by the slope at most. The activation's own is relative to |x| + 1: those that multiply x by a
    factor in [0, 1] compute the factor to within roundings of 1.
    """
    if activation == Activation.NONE:
        return before
    values = activate(before.values, activation)
    if activation in COMMUTE_WITH_ROUNDING:
        return replace(before, values=values)
    size = np.abs(before.values)
    magnitude = size if before.magnitude is None else before.magnitude
    return replace(
        before,
        values=values,
        roundings=before.roundings + _ROUNDINGS,
        magnitude=_STEEPEST * magnitude + size + 1,
        error=_STEEPEST * before.error,
    )
