"""Detectors of two stages: proposals around anchors, and the levels of a pyramid that they belong to."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
from comparison import DEVICE, Array, assert_equal, check, on, run, run_in_graph
from op_modes import place_of
from paddle.vision import ops

pytestmark = pytest.mark.unihal_no_fallback


def head(dtype: str, seed: int = 1) -> tuple[Array, ...]:
    """Scores, moves, sizes of images, anchors and variances."""
    state = np.random.RandomState(seed)
    scores, moves = state.rand(2, 3, 5, 4), state.rand(2, 12, 5, 4) - 0.5
    centers = np.stack(np.meshgrid(np.arange(4), np.arange(5)), -1)[:, :, None, :] * 8.0 + 4
    half = np.array([4.0, 8.0, 12.0])[None, None, :, None]
    anchors = np.concatenate([centers - half, centers + half], -1)
    sizes = np.array([[40, 30], [30, 36]])
    return tuple(a.astype(dtype) for a in (scores, moves, sizes, anchors, np.full_like(anchors, 0.5)))


SETTINGS = {
    "some before and after": (30, 10, 0.5, 2.0, 1.0, False),
    "pixels, all": (0, 100, 0.5, 1.0, 1.0, True),
    "large ones": (75, 5, 0.7, 20.0, 1.0, False),
    "none is large enough": (20, 8, 0.5, 200.0, 1.0, True),
    "not suppressed": (0, 8, 0.0, 1.0, 1.0, False),
    "a threshold that falls": (40, 40, 0.8, 1.0, 0.9, False),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SETTINGS)
def test_proposals(name: str, dtype: str) -> None:
    *numbers, pixels = SETTINGS[name]

    def function(*inputs: Any) -> list[Any]:
        return list(ops.generate_proposals(*inputs, *numbers, pixel_offset=pixels, return_rois_num=True))

    check(function, *head(dtype), dtype=dtype, gradient=False)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("pixels", [False, True])
def test_levels_of_a_pyramid(pixels: bool, dtype: str) -> None:
    state = np.random.RandomState(3)
    low = state.uniform(0, 40, (23, 2))
    boxes = np.concatenate([low, low + 2 ** state.uniform(-3, 7, (23, 2))], 1).astype(dtype)
    boxes[4, 2:] = boxes[4, :2] - 3  # turned

    for counts in ([23, 0], [9, 14], [0, 23]):

        def function(b: Any, c: Any) -> list[Any]:
            levels, restore, each = ops.distribute_fpn_proposals(b, 2, 5, 4, 224, pixels, rois_num=c)
            return [*levels, restore, *each]

        check(function, boxes, np.int32(counts), dtype=dtype, gradient=False)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("most", [7, 11, 100])
def test_the_best_of_all_levels(most: int, dtype: str) -> None:
    state = np.random.RandomState(5)
    counts = [np.int32([4, 3]), np.int32([2, 6])]
    boxes = [state.rand(n.sum(), 4).astype(dtype) for n in counts]
    scores = [state.rand(n.sum(), 1).astype(dtype) for n in counts]

    def function(a: Any, b: Any, of_a: Any, of_b: Any, m: Any, n: Any) -> list[Any]:
        return list(paddle._C_ops.collect_fpn_proposals([a, b], [of_a, of_b], [m, n], most))

    inputs = (*boxes, *scores, *counts)
    check(function, *inputs, dtype=dtype, gradient=False)
    # The CPU's programs give levels of detail besides.
    expected = run(function, inputs, "cpu", dtype, False)
    with paddle.pir_utils.IrGuard():
        assert_equal(run_in_graph(function, inputs, DEVICE, False), expected, 0)


@pytest.mark.parametrize("highest", [3, 4, 7])
def test_any_number_of_levels_and_images(highest: int) -> None:
    state = np.random.RandomState(highest)
    low = state.uniform(0, 40, (17, 2))
    boxes = np.concatenate([low, low + 2 ** state.uniform(0, 9, (17, 2))], 1).astype("float32")

    def function(b: Any, c: Any) -> list[Any]:
        levels, restore, each = ops.distribute_fpn_proposals(b, 2, highest, 4, 100, True, rois_num=c)
        return [*levels, restore, *each]

    for counts in ([17], [3, 0, 9, 5], [11], [3, 0, 5], [0, 2]):  # boxes behind those of the images are none's
        check(function, boxes, np.int32(counts), dtype="float32", gradient=False)


@pytest.mark.parametrize("counts", [[5000], [3000, 0, 2000], [4500], [3000, 0, 1500]])
def test_more_boxes_than_the_host_distributes(counts: list[int]) -> None:
    state = np.random.RandomState(7)
    low = state.uniform(0, 40, (5000, 2))
    boxes = np.concatenate([low, low + 2 ** state.uniform(0, 9, (5000, 2))], 1).astype("float32")

    def function(b: Any, c: Any) -> list[Any]:
        levels, restore, each = ops.distribute_fpn_proposals(b, 2, 5, 4, 100, False, rois_num=c)
        return [*levels, restore, *each]

    check(function, boxes, np.int32(counts), dtype="float32", gradient=False)


def test_boxes_that_are_no_numbers_have_no_level() -> None:
    boxes = np.float32([[0, 0, 9, 9], [0, np.nan, 5, 5], [1, 1, 90, 90], [np.nan] * 4])
    with on(DEVICE):
        for repeats in (1, 2000):  # distributed by the host, and by the device
            given = paddle.to_tensor(np.tile(boxes, (repeats, 1)))
            count = paddle.to_tensor([4 * repeats], dtype="int32")
            levels, restore, each = ops.distribute_fpn_proposals(given, 2, 5, 4, 224, rois_num=count)
            assert [n.numpy().tolist() for n in each] == [[repeats * 2], [0], [0], [0]]
            assert levels[0].numpy().tolist() == boxes[[0, 2]].tolist() * repeats
            assert restore.numpy().reshape(-1).tolist() == [i // 2 + i % 2 * 2 * repeats for i in range(4 * repeats)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("pixels", [False, True])
def test_the_host_counts_what_the_device_sorts(pixels: bool, dtype: str) -> None:
    infinite, none = float("inf"), float("nan")
    boxes = np.array(
        [[0, 0, infinite, 3], [5, 5, 1, 9], [5, 5, 1, infinite], [5, 5, 1, none], [2, 2, 2, 2], [0, 0, 900, 80]], dtype
    )
    found = []
    with on(DEVICE):
        for repeats in (1, 1000):
            given = paddle.to_tensor(np.tile(boxes, (repeats, 1)))
            count = paddle.to_tensor([6 * repeats], dtype="int32")
            _, _, each = ops.distribute_fpn_proposals(given, 2, 5, 4, 224, pixels, rois_num=count)
            found.append([n.numpy().item() // repeats for n in each])
    assert found[0] == found[1]


def test_levels_of_nothing() -> None:
    with on(DEVICE):
        levels, restore, each = ops.distribute_fpn_proposals(
            paddle.zeros([0, 4]), 2, 4, 3, 56, rois_num=paddle.zeros([2], "int32")
        )
        assert [level.shape for level in levels] == [[0, 4]] * 3 and restore.shape[0] == 0
        assert all(part.numpy().tolist() == [0, 0] for part in each)


def test_a_pyramid_in_a_program() -> None:
    """Proposals, their levels, and regions of the features: results as on the CPU."""
    scores, moves, sizes, anchors, variances = head("float32")
    features = np.random.RandomState(5).rand(2, 6, 10, 8).astype("float32")
    outcome = []
    for device in (DEVICE, "cpu"):
        main = paddle.static.Program()
        feeds = {"s": scores, "d": moves, "z": sizes, "a": anchors, "v": variances, "f": features}
        with paddle.pir_utils.IrGuard(), on(device), paddle.static.program_guard(main, paddle.static.Program()):
            s, d, z, a, v, f = (paddle.static.data(n, x.shape, "float32") for n, x in feeds.items())
            boxes, _, counts = ops.generate_proposals(s, d, z, a, v, 30, 10, 0.5, 2.0, return_rois_num=True)
            levels, _, each = ops.distribute_fpn_proposals(boxes, 2, 3, 2, 12, rois_num=counts)
            regions = [
                ops.roi_align(f, level, n, 2, scale)
                for level, n, scale in zip(levels, each, (0.25, 0.125), strict=True)
            ]
            outcome.append(paddle.static.Executor(place_of(device)).run(main, feed=feeds, fetch_list=[boxes, *regions]))
    for ours, theirs in zip(*outcome, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_what_does_not_fit_is_refused() -> None:
    with on(DEVICE):
        scores, moves, sizes, anchors, variances = (paddle.to_tensor(a) for a in head("float32"))
        with pytest.raises(ValueError, match="four numbers"):
            ops.generate_proposals(scores, moves, sizes, anchors[:2], variances[:2], return_rois_num=True)
        box, score = paddle.rand([3, 4]), paddle.rand([3, 1])
        for counts in ([2, 2], [4, -1], [1, 1]):
            given = paddle.to_tensor(counts, dtype="int32")
            with pytest.raises(ValueError, match="rois_num"):
                paddle._C_ops.collect_fpn_proposals([box], [score], [given], 2)
        with pytest.raises(ValueError, match="fit"):
            paddle._C_ops.collect_fpn_proposals([box], [score[:2]], [paddle.to_tensor([3], dtype="int32")], 2)
