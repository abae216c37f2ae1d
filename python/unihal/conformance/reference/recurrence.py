"""UHAL_OP_RNN and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .enums import RnnMode

Array = NDArray[Any]

#: Parts of what a step gets, and of a reserve, each as wide as the state.
GATES = {RnnMode.LSTM: 4, RnnMode.GRU: 3, RnnMode.TANH: 1, RnnMode.RELU: 1}
RESERVED = {RnnMode.LSTM: 5, RnnMode.GRU: 4, RnnMode.TANH: 0, RnnMode.RELU: 0}


def _sigmoid(x: Array) -> Array:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


def _places(direction: int, steps: int, reverse: int) -> range:
    """The places along T that a direction visits, in its order."""
    return range(steps - 1, -1, -1) if reverse >> direction & 1 else range(steps)


def _states(given: Array | None, shape: tuple[int, ...]) -> Array:
    return np.zeros(shape) if given is None else np.array(given, np.float64)


def rnn(
    x: Array,
    r: Array,
    h0: Array | None = None,
    c0: Array | None = None,
    bias: Array | None = None,
    lengths: Array | None = None,
    *,
    mode: int = 0,
    reverse: int = 0,
    cell_clip: float = 0.0,
    added: Array | None = None,
) -> tuple[Array, Array | None, Array | None]:
    """y, the last cells and the reserve; ``added`` is added to each step's product, for derivatives with respect to
    that."""
    kind = RnnMode(mode)
    (directions, steps, batch, _), hidden = x.shape, r.shape[2]
    h, c = (_states(given, (directions, batch, hidden)) for given in (h0, c0))
    y = np.zeros((directions, steps, batch, hidden))
    reserve = np.zeros((directions, steps, batch, RESERVED[kind] * hidden))
    for d in range(directions):
        for t in _places(d, steps, reverse):
            taken = np.full((batch, 1), True) if lengths is None else (t < lengths)[:, None]
            p = h[d] @ r[d].T + (0 if bias is None else bias[d]) + (0 if added is None else added[d, t])
            xs, ps = (np.split(values, GATES[kind], axis=-1) for values in (x[d, t], p))
            kept: list[Array] = []
            if kind == RnnMode.LSTM:
                i, f, o = (_sigmoid(xs[k] + ps[k]) for k in (0, 1, 3))
                g = np.tanh(xs[2] + ps[2])
                cell = f * c[d] + i * g
                if cell_clip > 0:
                    cell = np.clip(cell, -cell_clip, cell_clip)
                c[d] = np.where(taken, cell, c[d])
                state = o * np.tanh(cell)
                kept = [np.where(taken, gate, 0) for gate in (i, f, g, o)] + [c[d]]
            elif kind == RnnMode.GRU:
                gate, z = (_sigmoid(xs[k] + ps[k]) for k in (0, 1))
                n = np.tanh(xs[2] + gate * ps[2])
                state = (1 - z) * n + z * h[d]
                kept = [np.where(taken, value, 0) for value in (gate, z, n, ps[2])]
            else:
                state = np.tanh(x[d, t] + p) if kind == RnnMode.TANH else np.maximum(x[d, t] + p, 0)
            h[d] = np.where(taken, state, h[d])
            y[d, t] = h[d]
            if kept:
                reserve[d, t] = np.concatenate(kept, axis=-1)
    return y, c if kind == RnnMode.LSTM else None, reserve if RESERVED[kind] else None


def rnn_backward(
    dy: Array,
    r: Array,
    y: Array,
    reserve: Array | None = None,
    initial: Array | None = None,
    lengths: Array | None = None,
    dh_last: Array | None = None,
    dc_last: Array | None = None,
    *,
    mode: int = 0,
    reverse: int = 0,
    cell_clip: float = 0.0,
) -> tuple[Array, Array | None, Array, Array | None]:
    """Gradients of x, of a GRU's product, of h0 and of an LSTM's c0."""
    kind = RnnMode(mode)
    directions, steps, batch, hidden = y.shape
    dh, dc, first = (_states(given, (directions, batch, hidden)) for given in (dh_last, dc_last, initial))
    dx, dp = (np.zeros((directions, steps, batch, GATES[kind] * hidden)) for _ in range(2))
    for d in range(directions):
        places = _places(d, steps, reverse)
        for step in range(steps - 1, -1, -1):
            t = places[step]
            taken = np.full((batch, 1), True) if lengths is None else (t < lengths)[:, None]
            dh[d] += dy[d, t]
            past: Array = np.zeros_like(dh[d])
            if kind == RnnMode.LSTM:
                assert reserve is not None
                i, f, g, o, c = np.split(reserve[d, t], 5, axis=-1)
                before = reserve[d, places[step - 1]][:, 4 * hidden :] if step > 0 else first[d]
                shown = np.tanh(c)
                cell = dc[d] + dh[d] * o * (1 - shown**2)
                parts = [
                    cell * g * i * (1 - i),
                    cell * before * f * (1 - f),
                    cell * i * (1 - g**2),
                    dh[d] * shown * o * (1 - o),
                ]
                dc[d] = np.where(taken, cell * f, dc[d])
            elif kind == RnnMode.GRU:
                assert reserve is not None
                gate, z, n, p = np.split(reserve[d, t], 4, axis=-1)
                before = y[d, places[step - 1]] if step > 0 else first[d]
                dn = dh[d] * (1 - z) * (1 - n**2)
                parts = [dn * p * gate * (1 - gate), dh[d] * (before - n) * z * (1 - z), dn]
                past = dh[d] * z
            elif kind == RnnMode.TANH:
                parts = [dh[d] * (1 - y[d, t] ** 2)]
            else:
                parts = [np.where(y[d, t] > 0, dh[d], 0)]
            dx[d, t] = np.where(taken, np.concatenate(parts, axis=-1), 0)
            if kind == RnnMode.GRU:
                parts[2] = parts[2] * gate
            dp[d, t] = np.where(taken, np.concatenate(parts, axis=-1), 0)
            dh[d] = np.where(taken, past + dp[d, t] @ r[d], dh[d])
    return dx, dp if kind == RnnMode.GRU else None, dh, dc if kind == RnnMode.LSTM else None
