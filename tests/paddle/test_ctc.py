"""Connectionist temporal classification against Paddle's CPU, with fallbacks forbidden."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import DEVICE, TOLERANCE, on, random

STEPS, BATCH, CLASSES = 9, 4, 6
LABELS = np.array([[1, 2, 2], [3, 0, 0], [5, 5, 1], [4, 3, 2]], np.int32)


def run(device: str, dtype: str, **options: Any) -> list[np.ndarray[Any, Any]]:
    """The losses and the logits' gradients."""
    lengths = options.pop("lengths", ([9, 5, 7, 3], [3, 1, 3, 2]))
    labels = options.pop("labels", LABELS)
    with on(device):
        logits = paddle.to_tensor(random(STEPS, BATCH, CLASSES)).astype(dtype)
        logits.stop_gradient = False
        counts = [paddle.to_tensor(np.array(given, np.int64)) for given in lengths]
        loss = F.ctc_loss(logits, paddle.to_tensor(labels), *counts, **options)
        assert device in str(loss.place)
        (loss * paddle.to_tensor(random(*loss.shape, seed=1)).astype(dtype)).sum().backward()
        return [loss.numpy(), logits.grad.numpy()]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"reduction": "none"},
        {"reduction": "sum", "norm_by_times": True},
        {"reduction": "none", "norm_by_times": True},
        {"reduction": "none", "blank": 5, "labels": np.minimum(LABELS, 4)},
        {"reduction": "none", "lengths": ([9, 5, 3, 3], [3, 0, 3, 3])},
    ],
    ids=str,
)
def test_losses_and_gradients(options: dict[str, Any], dtype: str) -> None:
    actual, expected = run(DEVICE, dtype, **options), run("cpu", dtype, **options)
    for ours, theirs in zip(actual, expected):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=20 * TOLERANCE[dtype])


def test_what_the_cpu_refuses() -> None:
    for device in ("cpu", DEVICE):
        with pytest.raises(ValueError):
            run(device, "float32", blank=CLASSES)
