"""UHAL_OP_ATTENTION and its gradient."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def _scores(
    q: NDArray[Any], k: NDArray[Any], mask: NDArray[Any] | None, scale: float, causal: int
) -> tuple[NDArray[Any], float]:
    """(scale * q @ k^T + mask with -infinity where a row does not see a column, the scale in force)."""
    factor = scale or 1 / math.sqrt(max(1, q.shape[-1]))
    scores = factor * (q @ np.swapaxes(k, -1, -2))
    if mask is not None:
        scores = scores + mask
    if causal:
        rows, columns = scores.shape[-2:]
        hidden = np.arange(columns) > np.arange(rows)[:, None] + columns - rows
        scores = np.where(hidden, -np.inf, scores)
    return scores, factor


def attention(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    mask: NDArray[Any] | None = None,
    *,
    scale: float = 0,
    causal: int = 0,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """(y, logsumexp): y = softmax(scale * q @ k^T + mask) @ v.

    A row that sees nothing is a sum over nothing: zeros, with the logsumexp -infinity.
    """
    scores, _ = _scores(q, k, mask, scale, causal)
    top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    powers = np.exp(scores - top)
    total = powers.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        logsumexp = (np.log(total) + top)[..., 0]
    return (powers / np.where(total == 0, 1, total)) @ v, logsumexp


def attention_backward(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    mask: NDArray[Any] | None,
    y: NDArray[Any],
    logsumexp: NDArray[Any],
    dy: NDArray[Any],
    *,
    scale: float = 0,
    causal: int = 0,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(dq, dk, dv).

    With p = exp(scores - logsumexp): dv = p^T @ dy, dscores = p * (dy @ v^T - sum(y * dy)), dq = scale * dscores @ k,
    dk = scale * dscores^T @ q.
    """
    scores, factor = _scores(q, k, mask, scale, causal)
    shift = np.where(np.isfinite(logsumexp), logsumexp, 0)[..., None]
    p = np.exp(scores - shift)
    dscores = p * (dy @ np.swapaxes(v, -1, -2) - np.sum(y * dy, axis=-1, keepdims=True)) * factor
    return dscores @ k, np.swapaxes(dscores, -1, -2) @ q, np.swapaxes(p, -1, -2) @ dy
