"""Recurrent layers and their gradients, and losses over sequences."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..buffer import Buffer
from ..stream import Stream
from .launch import launch, output
from .linear import MATH_MODES, MathMode

#: The cell of a recurrent layer; ``tanh`` and ``relu`` are plain ones.
RnnMode = Literal["lstm", "gru", "tanh", "relu"]

_MODES: dict[str, int] = {"lstm": 0, "gru": 1, "tanh": 2, "relu": 3}
_RESERVED: dict[str, int] = {"lstm": 5, "gru": 4, "tanh": 0, "relu": 0}


class RnnResult(NamedTuple):
    """What :func:`rnn` gives."""

    #: (D, T, B, H): the state after each step.
    y: Buffer
    #: (D, B, H): an LSTM's cells after the last step; None of others.
    c_last: Buffer | None
    #: What :func:`rnn_backward` needs of an LSTM and a GRU; None of others, or where nobody asked for it.
    reserve: Buffer | None


class RnnGradients(NamedTuple):
    """What :func:`rnn_backward` gives."""

    #: (D, T, B, G H)
    dx: Buffer
    #: (D, T, B, G H): of the products with ``r``, from which come the gradients of ``r`` (``dproduct^T h`` over all
    #: steps, of the states before them) and of ``bias`` (the sum). Other cells' than a GRU's is ``dx``.
    dproduct: Buffer
    #: (D, B, H)
    dh0: Buffer
    #: (D, B, H) of an LSTM; None of others.
    dc0: Buffer | None


def rnn(
    x: Buffer,
    r: Buffer,
    h0: Buffer | None = None,
    c0: Buffer | None = None,
    *,
    mode: RnnMode = "lstm",
    bias: Buffer | None = None,
    lengths: Buffer | None = None,
    reverse: int = 0,
    cell_clip: float = 0,
    reserve: bool = True,
    math_mode: MathMode = "strict",
    stream: Stream | None = None,
) -> RnnResult:
    """A recurrent layer over T steps of B sequences, in D directions.

    ``x`` (D, T, B, G H) is the product of the inputs with the input matrices, ``r`` (D, G H, H) has the matrices of the
    states; G is 4 of an LSTM (its gates in the order i, f, g, o), 3 of a GRU (r, z, n), else 1. Bit d of ``reverse``
    lets direction d begin at the last step. Steps beyond ``lengths`` (B,) leave a sequence's states as they are. The
    equations are in include/unihal/op.h. ``reserve=False`` saves the memory that only a gradient needs.
    """
    directions, steps, batch, _ = x.shape
    states = (directions, batch, r.shape[2])
    y = output((directions, steps, batch, r.shape[2]), x.dtype, x, stream=stream)
    c_last = output(states, x.dtype, x, stream=stream) if mode == "lstm" else None
    kept = None
    if reserve and _RESERVED[mode]:
        kept = output((directions, steps, batch, _RESERVED[mode] * r.shape[2]), x.dtype, x, stream=stream)
    attributes = _attributes(mode, reverse, cell_clip, math_mode)
    launch("rnn", [x, r, h0, c0, bias, lengths], [y, c_last, kept], attributes, stream=stream)
    return RnnResult(y, c_last, kept)


def rnn_backward(
    dy: Buffer,
    r: Buffer,
    result: RnnResult,
    h0: Buffer | None = None,
    c0: Buffer | None = None,
    *,
    mode: RnnMode = "lstm",
    lengths: Buffer | None = None,
    reverse: int = 0,
    dh_last: Buffer | None = None,
    dc_last: Buffer | None = None,
    math_mode: MathMode = "strict",
    stream: Stream | None = None,
) -> RnnGradients:
    """The gradients of :func:`rnn`, given its result; ``dh_last`` and ``dc_last`` are those of the last states beside
    ``dy``."""
    directions, steps, batch, hidden = dy.shape
    states = (directions, batch, hidden)
    dx = output((directions, steps, batch, r.shape[1]), dy.dtype, dy, stream=stream)
    dproduct = output(dx.shape, dy.dtype, dy, stream=stream) if mode == "gru" else None
    dh0 = output(states, dy.dtype, dy, stream=stream)
    dc0 = output(states, dy.dtype, dy, stream=stream) if mode == "lstm" else None
    initial = {"lstm": c0, "gru": h0}.get(mode)
    launch(
        "rnn_backward",
        [dy, r, result.y, result.reserve, initial, lengths, dh_last, dc_last],
        [dx, dproduct, dh0, dc0],
        _attributes(mode, reverse, 0, math_mode),
        stream=stream,
    )
    return RnnGradients(dx, dx if dproduct is None else dproduct, dh0, dc0)


def ctc_loss(
    logits: Buffer,
    labels: Buffer,
    logit_lengths: Buffer | None = None,
    label_lengths: Buffer | None = None,
    *,
    blank: int = 0,
    zero_infinity: bool = False,
    gradient: bool = True,
    stream: Stream | None = None,
) -> tuple[Buffer, Buffer | None]:
    """Connectionist temporal classification: the losses (B,), and the gradient of their sum, (T, B, C).

    ``logits`` (T, B, C) become probabilities by softmax; ``labels`` (B, L), int32 or int64, do not have the class
    ``blank``. Lengths are those of all rows where they are not given. A sequence without a path has an infinite loss,
    or 0 with ``zero_infinity``, and no gradient.
    """
    loss = output(logits.shape[1:2], logits.dtype, logits, stream=stream)
    slope = output(logits.shape, logits.dtype, logits, stream=stream) if gradient else None
    attributes = {"blank": blank, "zero_infinity": int(zero_infinity)}
    launch("ctc_loss", [logits, labels, logit_lengths, label_lengths], [loss, slope], attributes, stream=stream)
    return loss, slope


def _attributes(mode: str, reverse: int, cell_clip: float, math_mode: str) -> dict[str, float]:
    return {
        "mode": _MODES[mode],
        "reverse": reverse,
        "cell_clip": cell_clip,
        "math_mode": MATH_MODES[math_mode],
    }
