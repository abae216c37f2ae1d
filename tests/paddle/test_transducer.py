"""The loss of transducers, of sequences of several lengths, with its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import DEVICE, Array, check, check_in_graph, on, random

pytestmark = pytest.mark.unihal_no_fallback

B, T, U, D = 3, 5, 4, 6
STEPS, COUNTS = np.array([5, 2, 4], "int32"), np.array([3, 1, 0], "int32")
LABELS = np.array([[1, 2, 2], [3, -1, 77], [0, 9, 5]], "int32")  # behind the last one anything may stand


def logarithms(seed: int = 0) -> Array:
    x = random(B, T, U, D, seed=seed).astype("float64")
    return np.asarray(x - np.log(np.exp(x).sum(-1, keepdims=True)))


def loss(blank: int, fast_emit: float) -> Any:
    def function(x: Any, labels: Any, steps: Any, counts: Any) -> Any:
        return F.rnnt_loss(x, labels, steps, counts, blank, fast_emit, "none")

    return function


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("blank", "fast_emit"), [(0, 0.0), (5, 0.0), (4, 0.25)])
def test_as_on_the_cpu(blank: int, fast_emit: float, dtype: str) -> None:
    tolerance = 2e-5 if dtype == "float32" else 1e-10
    check(loss(blank, fast_emit), logarithms().astype(dtype), LABELS, STEPS, COUNTS, dtype=dtype, tolerance=tolerance)


def test_in_a_program() -> None:
    check_in_graph(loss(0, 0.001), logarithms().astype("float32"), LABELS, STEPS, COUNTS)


def test_against_all_paths() -> None:
    """The probability of each way through the lattice, added up."""
    x = logarithms(seed=3)

    def ways(b: int, t: int, u: int) -> float:
        if t == STEPS[b] - 1 and u == COUNTS[b]:
            return float(np.exp(x[b, t, u, 0]))
        on_blank = np.exp(x[b, t, u, 0]) * ways(b, t + 1, u) if t + 1 < STEPS[b] else 0
        on_label = np.exp(x[b, t, u, LABELS[b, u]]) * ways(b, t, u + 1) if u < COUNTS[b] else 0
        return float(on_blank + on_label)

    with on(DEVICE):
        found = loss(0, 0.0)(*map(paddle.to_tensor, (x, LABELS, STEPS, COUNTS))).numpy()
    np.testing.assert_allclose(found, [-np.log(ways(b, 0, 0)) for b in range(B)], rtol=1e-10)


def test_a_sequence_without_numbers_leaves_the_others_alone() -> None:
    """All sequences lie side by side in what is computed."""
    x = logarithms()
    with on("cpu"):
        expected = loss(0, 0.0)(*map(paddle.to_tensor, (x, LABELS, STEPS, COUNTS))).numpy()
    for broken in range(B):
        spoilt = x.copy()
        spoilt[broken] = np.nan
        with on(DEVICE):
            given = paddle.to_tensor(spoilt, stop_gradient=False)
            found = loss(0, 0.0)(given, *map(paddle.to_tensor, (LABELS, STEPS, COUNTS)))
            found.sum().backward()
            gradient = given.grad.numpy()
        others = [b for b in range(B) if b != broken]
        np.testing.assert_allclose(found.numpy()[others], expected[others], rtol=1e-10)
        assert np.isnan(found.numpy()[broken]) and np.isfinite(gradient[others]).all()


def test_what_cannot_be() -> None:
    """No way has a probability: the loss is infinite."""
    x = logarithms().astype("float32")
    x[:, 0] = -np.inf
    with on(DEVICE):
        found = loss(0, 0.0)(*map(paddle.to_tensor, (x, LABELS, STEPS, COUNTS))).numpy()
    assert np.all(found == np.inf)


def test_one_cell() -> None:
    """No labels: that a blank comes at each step. Paddle's CPU refuses it."""
    x = np.log(np.full((1, 2, 1, 2), 0.25, "float32"))
    with on(DEVICE):
        found = loss(0, 0.0)(*map(paddle.to_tensor, (x, np.zeros((1, 0), "int32"), STEPS[1:2], COUNTS[2:]))).numpy()
    np.testing.assert_allclose(found, [2 * np.log(4)], rtol=1e-6)


@pytest.mark.parametrize(
    ("labels", "steps", "counts", "blank", "error"),
    [
        (LABELS, STEPS + 1, COUNTS, 0, ValueError),
        (LABELS, STEPS - 2, COUNTS, 0, ValueError),
        (LABELS, STEPS, COUNTS + 1, 0, ValueError),
        (LABELS, STEPS, COUNTS - 1, 0, ValueError),
        (LABELS, STEPS[:2], COUNTS, 0, ValueError),
        (LABELS, STEPS, COUNTS, 6, ValueError),
        (LABELS, STEPS, COUNTS, -1, ValueError),
        (LABELS[:, :2], STEPS, COUNTS, 0, ValueError),
        (LABELS[:2], STEPS, COUNTS, 0, ValueError),
        (np.where(LABELS == 2, 6, LABELS), STEPS, COUNTS, 0, IndexError),
    ],
)
def test_what_does_not_fit_is_refused(labels: Array, steps: Array, counts: Array, blank: int, error: Any) -> None:
    with on(DEVICE), pytest.raises(error):
        x = paddle.to_tensor(logarithms().astype("float32"))
        loss(blank, 0.0)(x, *map(paddle.to_tensor, (labels.astype("int32"), steps, counts))).numpy()
