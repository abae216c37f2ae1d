"""UHAL_OP_CTC_LOSS."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .softmax import softmax

Array = NDArray[Any]


def _length(lengths: Array | None, sequence: int, most: int) -> int:
    return most if lengths is None else int(np.clip(lengths[sequence], 0, most))


def _log_add(*values: Array) -> Array:
    stacked = np.stack(values)
    largest = np.max(stacked, axis=0)
    finite = np.where(np.isfinite(largest), largest, 0)
    with np.errstate(divide="ignore"):
        return np.asarray(finite + np.log(np.sum(np.exp(stacked - finite), axis=0)))


def _shifted(values: Array, by: int) -> Array:
    """values[s - by], impossible where there is none; a negative number takes later ones."""
    result = np.full(values.shape, -np.inf)
    if by > 0:
        result[by:] = values[:-by]
    else:
        result[:by] = values[-by:]
    return result


def ctc_loss(
    logits: Array,
    labels: Array,
    logit_lengths: Array | None = None,
    label_lengths: Array | None = None,
    *,
    blank: int = 0,
    zero_infinity: int = 0,
) -> tuple[Array, Array]:
    """The losses, and the gradient of their sum."""
    steps, batch, classes = logits.shape
    logs, probabilities = softmax(logits, logarithm=1), softmax(logits)
    losses, gradient = np.zeros(batch), np.zeros(logits.shape)
    for b in range(batch):
        length = _length(logit_lengths, b, steps)
        row = np.asarray(labels[b, : _length(label_lengths, b, labels.shape[1])], np.int64)
        states = np.full(2 * len(row) + 1, blank)
        states[1::2] = row
        seen = (states >= 0) & (states < classes)
        seen[1::2] &= row != blank
        emitted = np.where(seen, logs[:, b, np.where(seen, states, 0)], -np.inf)
        skips = np.full(len(states), -np.inf)
        skips[3::2] = np.where(states[3::2] != states[1:-2:2], 0, -np.inf)
        alphas = np.full((length, len(states)), -np.inf)
        for t in range(length):
            if t == 0:
                alphas[0, :2] = emitted[0, :2]
            else:
                last = alphas[t - 1]
                alphas[t] = _log_add(last, _shifted(last, 1), _shifted(last, 2) + skips) + emitted[t]
        total = 0.0 if len(row) == 0 else -np.inf
        if length > 0:
            total = float(_log_add(*alphas[-1, -2:, None])[0])
        losses[b] = 0 if total == -np.inf and zero_infinity else -total
        if total == -np.inf:
            continue
        beta = np.full(len(states), -np.inf)
        beta[-2:] = 0
        for t in range(length - 1, -1, -1):
            if t < length - 1:
                entered = beta + emitted[t + 1]
                beta = _log_add(entered, _shifted(entered, -1), _shifted(entered + skips, -2))
            gradient[t, b] = probabilities[t, b]
            np.subtract.at(gradient[t, b], states, np.exp(alphas[t] + beta - total))
    return losses, gradient


def loss_by_paths(logits: Array, labels: list[int], blank: int) -> float:
    """The loss of one sequence (T, C) by the definition: all paths, one by one."""
    steps, classes = logits.shape
    probabilities = softmax(logits)
    total = 0.0
    for path in np.ndindex(*(classes,) * steps):
        joined = [c for t, c in enumerate(path) if t == 0 or c != path[t - 1]]
        if [c for c in joined if c != blank] == labels:
            total += float(np.prod([probabilities[t, c] for t, c in enumerate(path)]))
    return -float(np.log(total)) if total > 0 else np.inf
