"""Matrix products and attention."""

from __future__ import annotations

from typing import Literal

from .. import _core, dtypes, errors
from ..buffer import Buffer
from ..stream import Stream
from .launch import broadcast_shapes, launch, output, statistics_dtype

#: An activation that is computed while the result is written.
Activation = Literal["none", "relu", "gelu_erf", "gelu_tanh", "sigmoid", "tanh", "silu", "relu6"]

#: Numbers of uhal_activation.
ACTIVATIONS: dict[str, int] = {
    "none": 0,
    "relu": 1,
    "gelu_erf": 2,
    "gelu_tanh": 3,
    "sigmoid": 4,
    "tanh": 5,
    "silu": 6,
    "relu6": 7,
}

#: How precisely float32 is multiplied: ``tf32`` allows a device to round factors to 10 bits of mantissa.
MathMode = Literal["strict", "tf32"]

#: Numbers of uhal_math_mode.
MATH_MODES: dict[str, int] = {"strict": 0, "tf32": 1}


def matmul(
    a: Buffer,
    b: Buffer,
    c: Buffer | None = None,
    *,
    alpha: float = 1,
    beta: float = 1,
    activation: Activation = "none",
    math_mode: MathMode = "strict",
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """``activation(alpha * a @ b + beta * c)``; leading axes broadcast, and so does ``c``."""
    if c is None and alpha == 1 and activation == "none":
        queue = None if stream is None else stream._handle
        made = _core.matmul(Buffer, a, b, out, MATH_MODES[math_mode], queue)
        if made is not None:
            return made
    rows, columns = a.shape, b.shape
    if len(rows) < 2 or len(columns) < 2 or rows[-1] != columns[-2]:
        raise errors.InvalidArgumentError(
            f"the shapes {rows} and {columns} do not multiply; expected (..., m, k) and (..., k, n)"
        )
    batch = broadcast_shapes([rows[:-2], columns[:-2]])
    result = output((*batch, rows[-2], columns[-1]), dtypes.promote((a.dtype, b.dtype)), a, out, stream)
    attributes = {
        "alpha": alpha,
        "beta": beta,
        "activation": ACTIVATIONS[activation],
        "math_mode": MATH_MODES[math_mode],
    }
    launch("matmul", [a, b, c], [result], attributes, stream=stream)
    return result


def attention(
    q: Buffer,
    k: Buffer,
    v: Buffer,
    mask: Buffer | None = None,
    *,
    scale: float = 0,
    causal: bool = False,
    math_mode: MathMode = "strict",
    stream: Stream | None = None,
) -> tuple[Buffer, Buffer]:
    """``softmax(scale * q @ k^T + mask) @ v`` and the logarithm of the softmax's sums.

    Operands are (batch, heads, length, features); a scale of 0 stands for ``1 / sqrt(features)``.
    """
    y = output((*q.shape[:-1], v.shape[-1]), q.dtype, q, stream=stream)
    log_sum_exp = output(q.shape[:-1], statistics_dtype(q), q, stream=stream)
    attributes = {"scale": scale, "causal": int(causal), "math_mode": MATH_MODES[math_mode]}
    launch("attention", [q, k, v, mask], [y, log_sum_exp], attributes, stream=stream)
    return y, log_sum_exp


def attention_backward(
    q: Buffer,
    k: Buffer,
    v: Buffer,
    mask: Buffer | None,
    y: Buffer,
    log_sum_exp: Buffer,
    dy: Buffer,
    *,
    scale: float = 0,
    causal: bool = False,
    math_mode: MathMode = "strict",
    stream: Stream | None = None,
) -> tuple[Buffer, Buffer, Buffer]:
    """The gradients of q, k and v."""
    dq, dk, dv = (output(x.shape, x.dtype, x, stream=stream) for x in (q, k, v))
    attributes = {"scale": scale, "causal": int(causal), "math_mode": MATH_MODES[math_mode]}
    launch("attention_backward", [q, k, v, mask, y, log_sum_exp, dy], [dq, dk, dv], attributes, stream=stream)
    return dq, dk, dv
