"""The loss of YOLOv3's heads, with its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
from comparison import DEVICE, Array, check_in_graph, on, random
from paddle.vision import ops

pytestmark = pytest.mark.unihal_no_fallback

ANCHORS = [10, 13, 16, 30, 33, 23, 30, 61, 62, 45]
CLASSES = 4


def inputs(dtype: str = "float32", seed: int = 0) -> tuple[Array, ...]:
    """A head of three of the anchors, and six boxes of each of two images: two of them in one cell, one of nothing."""
    state = np.random.RandomState(seed)
    x = random(2, 3 * (5 + CLASSES), 5, 5, seed=seed).astype(dtype)
    boxes = state.uniform(0.05, 0.95, (2, 6, 4)) * [1, 1, 0.5, 0.5]
    boxes[:, 1] = boxes[:, 0]
    boxes[1, 3, 2:] = 0
    labels = state.randint(0, CLASSES, (2, 6)).astype("int32")
    return x, boxes.astype(dtype), labels, state.uniform(0.3, 1, (2, 6)).astype(dtype)


def loss(threshold: float = 0.3, smooth: bool = True, scale: float = 1.0, score: bool = True) -> Any:
    def function(x: Any, boxes: Any, labels: Any, scores: Any) -> Any:
        boxes.stop_gradient = scores.stop_gradient = True
        given = scores if score else None
        return ops.yolo_loss(x, boxes, labels, ANCHORS, [1, 4, 2], CLASSES, threshold, 8, given, smooth, None, scale)

    return function


def gradients(function: Any, arrays: tuple[Array, ...], device: str) -> list[Array]:
    """The losses, and their gradient by x."""
    with on(device):
        x, *others = map(paddle.to_tensor, arrays)
        x.stop_gradient = False
        found = function(x, *others)
        (found * paddle.to_tensor([1.5, -0.5]).astype(found.dtype)).sum().backward()
        assert device in str(found.place) and device in str(x.grad.place)
        return [found.numpy(), x.grad.numpy()]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"score": False}, {"smooth": False}, {"scale": 1.2}, {"threshold": 0.05}, {"threshold": 0.9}],
    ids=str,
)
def test_as_on_the_cpu(settings: dict[str, Any], dtype: str) -> None:
    arrays = inputs(dtype)
    function = loss(**settings)
    for ours, theirs in zip(*(gradients(function, arrays, d) for d in (DEVICE, "cpu")), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5 if dtype == "float32" else 1e-10)


def test_in_a_program() -> None:
    x, boxes, labels, scores = inputs()
    function = loss()
    check_in_graph(lambda *given: function(*given), x, boxes, labels, scores, gradient=False)


def test_no_boxes() -> None:
    x, boxes, labels, scores = inputs()
    none = (x, np.zeros_like(boxes), labels, scores)
    for ours, theirs in zip(*(gradients(loss(), none, d) for d in (DEVICE, "cpu")), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "changed",
    [
        {"anchor_mask": [1, 4, 5]},
        {"anchor_mask": [1, -1, 2]},
        {"anchors": [10, 13, 16]},
        {"class_num": 3},
        {"class_num": -1},
        {"downsample_ratio": 0},
        {"gt_box": np.zeros((1, 6, 4), "float32")},
        {"gt_label": np.zeros((2, 5), "int32")},
        {"gt_score": np.zeros((2, 5), "float32")},
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(changed: dict[str, Any]) -> None:
    x, boxes, labels, scores = inputs()
    arguments = {
        "x": x, "gt_box": boxes, "gt_label": labels, "gt_score": scores, "anchors": ANCHORS, "anchor_mask": [1, 4, 2],
        "class_num": CLASSES, "ignore_thresh": 0.5, "downsample_ratio": 8,
    } | changed  # fmt: skip
    with on(DEVICE), pytest.raises(ValueError):
        given = {n: paddle.to_tensor(v) if isinstance(v, np.ndarray) else v for n, v in arguments.items()}
        ops.yolo_loss(**given).numpy()


def test_a_box_outside_of_its_image_is_refused() -> None:
    x, boxes, labels, scores = inputs()
    boxes[:, :, :2] = 30
    with on(DEVICE), pytest.raises(IndexError):
        loss()(*map(paddle.to_tensor, (x, boxes, labels, scores))).numpy()
