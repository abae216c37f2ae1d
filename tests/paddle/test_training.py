"""Whole training runs track the CPU, with fallbacks forbidden: dygraph and graphs."""

from __future__ import annotations

import os

import numpy as np
import pytest
from comparison import DEVICE
from models import Weights, train

# The strict stub shows what it has to show in few steps, and so does hardware: each takes longer there.
STEPS = 6 if os.environ.get("UNIHAL_STUB") == "strict" or os.environ["UNIHAL_BACKEND"] != "stub" else 20


@pytest.mark.parametrize(
    ("kind", "tolerance", "static"),
    # Rounding differences grow with depth and steps; batch norm over four images amplifies them most.
    [
        pytest.param(kind, tolerance, static, marks=[pytest.mark.whole] if static and kind == "resnet18" else [])
        for kind, tolerance in (("digits", 1e-4), ("resnet18", 5e-3), ("transformer", 1e-4))
        for static in (False, True)
    ],
    ids=lambda value: ("dygraph", "to_static")[value] if isinstance(value, bool) else None,
)
def test_training_tracks_the_cpu(kind: str, tolerance: float, static: bool) -> None:
    losses, weights, masks = train(kind, DEVICE, STEPS, static)
    assert losses[-1] < 0.99 * losses[0]
    masks = masks if kind == "transformer" else None
    try:
        agree(losses, weights, train(kind, "cpu", STEPS, masks=masks), tolerance)
    except AssertionError:
        # On some processors the CPU's rounding takes an activation over the kink of a relu, or another element of a
        # pool, which Adam makes a step of: then it is the CPU's float64 that says what is right.
        agree(losses, weights, train(kind, "cpu", STEPS, masks=masks, dtype="float64"), tolerance)


def agree(
    losses: list[float], weights: Weights, expected: tuple[list[float], Weights, object], tolerance: float
) -> None:
    expected_losses, expected_weights, _ = expected
    np.testing.assert_allclose(losses, expected_losses, rtol=tolerance)
    assert weights.keys() == expected_weights.keys()
    for name, value in weights.items():
        scale = max(float(np.abs(expected_weights[name]).max()), 0.1)
        np.testing.assert_allclose(value, expected_weights[name], rtol=0, atol=tolerance * scale, err_msg=name)


def test_dropout_masks_keep_the_right_share() -> None:
    _, _, masks = train("transformer", DEVICE, 3)
    kept = np.mean([mask.mean() for step in masks for mask in step])
    # 3 steps x 4 masks x 1,536 elements kept with probability 0.9: the standard error is 0.0022.
    assert abs(kept - 0.9) < 0.01
    assert not np.array_equal(masks[0][0], masks[1][0])


def test_running_statistics_of_batch_norm_move_in_graphs() -> None:
    _, weights, _ = train("resnet18", DEVICE, 2, static=True)
    assert np.abs(weights["stem_norm._mean"]).max() > 1e-3
    assert np.abs(weights["stem_norm._variance"] - 1).max() > 1e-3
