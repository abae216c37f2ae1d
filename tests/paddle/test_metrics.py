"""Metrics: the area under a curve, batch by batch, and distances of texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
from comparison import DEVICE, Array, check, check_in_graph, on

pytestmark = pytest.mark.unihal_no_fallback


def batches(count: int, seed: int = 0) -> list[tuple[Array, Array]]:
    state = np.random.RandomState(seed)
    found = []
    for _ in range(count):
        labels = state.randint(0, 2, (20, 1))
        positive = np.clip(0.3 * labels + 0.7 * state.rand(20, 1), 0, 1)
        found.append((np.concatenate([1 - positive, positive], 1).astype("float32"), labels))
    return found


def areas(device: str, slide_steps: int, weight: float | None = None) -> list[Array]:
    """Areas and counts after each of some batches."""
    thresholds = 63
    kept = (1 + slide_steps) * (thresholds + 1) + (1 if slide_steps else 0)
    found: list[Array] = []
    with on(device):
        positive, negative = (paddle.zeros([kept], "int64") for _ in range(2))
        given = None if weight is None else paddle.full([1, 1], weight)
        for probabilities, labels in batches(5):
            x, y = paddle.to_tensor(probabilities), paddle.to_tensor(labels)
            area, positive, negative = paddle._C_ops.auc(
                x, y, positive, negative, given, "ROC", thresholds, slide_steps
            )
            assert device in str(area.place)
            found += [area.numpy(), positive.numpy(), negative.numpy()]
    return found


@pytest.mark.parametrize("slide_steps", [0, 1, 3])
@pytest.mark.parametrize("weight", [None, 1.0])
def test_areas(slide_steps: int, weight: float | None) -> None:
    for ours, theirs in zip(*(areas(d, slide_steps, weight) for d in (DEVICE, "cpu")), strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("slide_steps", [0, 1, 3])
def test_examples_without_weight_do_not_count(slide_steps: int) -> None:
    found = areas(DEVICE, slide_steps, 0.0)
    assert all(float(area) == 0 for area in found[::3])
    buckets = 64 * (1 + slide_steps)
    assert not any(counts[:buckets].any() for counts in [*found[1::3], *found[2::3]])
    if slide_steps:
        assert found[-1][-1] == 5, "the batches are counted all the same"


def test_areas_of_one_kind_and_of_nothing() -> None:
    with on(DEVICE):
        counts = [paddle.zeros([1, 16], "int64") for _ in range(2)]
        for x, y in (([[0.25, 0.75]], [[1]]), ([[0.25, 0.75]], [[0]])):
            area, *_ = paddle._C_ops.auc(paddle.to_tensor(x), paddle.to_tensor(y), *counts, None, "ROC", 15, 0)
            assert float(area) == 0


@pytest.mark.parametrize(
    ("probability", "kept", "thresholds", "steps"),
    [(1.5, 16, 15, 0), (-0.01, 16, 15, 0), (np.nan, 16, 15, 0), (0.5, 15, 15, 0), (0.5, 16, 15, 1), (0.5, 16, 0, 0)],
)
def test_areas_of_what_does_not_fit_are_refused(probability: float, kept: int, thresholds: int, steps: int) -> None:
    with on(DEVICE), pytest.raises(ValueError):
        x = paddle.to_tensor(np.float32([[1 - probability, probability]]))
        counts = [paddle.zeros([kept], "int64") for _ in range(2)]
        paddle._C_ops.auc(x, paddle.to_tensor([[1]]), *counts, None, "ROC", thresholds, steps)


HYPOTHESES = np.array([[1, 2, 3, 4, 5], [1, 1, 1, 9, 9], [7, 8, 9, 1, 2], [3, 3, 3, 3, 3]])
REFERENCES = np.array([[1, 3, 4, 6], [1, 1, 2, 0], [5, 5, 5, 5], [3, 3, 3, 3]])


def distances(normalized: bool) -> Any:
    def function(h: Any, r: Any, m: Any, n: Any) -> list[Any]:
        return list(paddle._C_ops.edit_distance(h, r, m, n, normalized))

    return function


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("lengths", [([5, 5, 5, 5], [4, 4, 4, 4]), ([0, 3, 5, 4], [2, 3, 1, 4])])
@pytest.mark.parametrize("compare", [check, check_in_graph])
def test_distances(compare: Any, lengths: tuple[list[int], list[int]], normalized: bool) -> None:
    compare(distances(normalized), HYPOTHESES, REFERENCES, *map(np.array, lengths), gradient=False)


def test_distances_of_texts_of_many_lengths() -> None:
    state = np.random.RandomState(3)
    texts = [state.randint(0, 4, shape) for shape in ((9, 11), (9, 13))]
    lengths = [state.randint(0, 12, 9), state.randint(1, 14, 9)]
    check(distances(True), *texts, *lengths, gradient=False)
    check(distances(False), texts[0], texts[1][:, :0], lengths[0], 0 * lengths[1], gradient=False)


def test_distances_from_nothing() -> None:
    check(distances(False), HYPOTHESES, REFERENCES, np.array([5, 0, 2, 0]), np.array([0, 4, 0, 0]), gradient=False)


@pytest.mark.parametrize(
    ("tall", "wide", "normalized"),
    [
        ([5, 5, 5, 6], [4, 4, 4, 4], False),
        ([5, 5, 5, -1], [4, 4, 4, 4], False),
        ([5, 5, 5, 5], [4, 4, 5, 4], False),
        ([5, 5, 5], [4, 4, 4, 4], False),
        ([5, 5, 5, 5], [4, 4, 0, 4], True),
    ],
)
def test_distances_of_what_does_not_fit_are_refused(tall: list[int], wide: list[int], normalized: bool) -> None:
    with on(DEVICE), pytest.raises(ValueError):
        distances(normalized)(*map(paddle.to_tensor, (HYPOTHESES, REFERENCES, tall, wide)))
