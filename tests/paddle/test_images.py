"""Pools whose windows reach beyond their padding, pools by powers, regions of more boxes than there are."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import DEVICE, check, on, random
from paddle.vision import ops as vision

IMAGES = {1: random(2, 3, 9), 2: random(2, 3, 9, 7), 3: random(2, 3, 5, 6, 7)}
AVERAGES: dict[int, Callable[..., Any]] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
POWERS: dict[int, Callable[..., Any]] = {1: F.lp_pool1d, 2: F.lp_pool2d}


# Paddle's CPU divides float64 by what it rounded to float32; of a window over nothing it makes NaN.
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("window", [(3, 2), (4, 4), (4, 3)])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_averages_divide_by_what_lies_within_the_padding(axes: int, window: tuple[int, int], padding: int) -> None:
    size, stride = window
    check(lambda x: AVERAGES[axes](x, size, stride, padding, exclusive=False, ceil_mode=True), IMAGES[axes])


@pytest.mark.parametrize("axes", [2, 3])
def test_averages_of_padding_that_keeps_sizes(axes: int) -> None:
    check(lambda x: AVERAGES[axes](x, 2, 3, "SAME", exclusive=False), IMAGES[axes])


@pytest.mark.parametrize("norm", [float("inf"), 1.0, 2.0])
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("axes", [1, 2])
def test_pools_by_powers(axes: int, ceil: bool, norm: float) -> None:
    x = IMAGES[axes] if norm != 2 else np.abs(IMAGES[axes])
    check(lambda x: POWERS[axes](x, norm, 4, 4, ceil_mode=ceil), x)


POOLS: dict[str, Callable[..., Any]] = {
    "roi_align": vision.roi_align,
    "roi_pool": vision.roi_pool,
    "psroi_pool": vision.psroi_pool,
}


@pytest.mark.skipif(
    os.environ.get("UNIHAL_BACKEND", "stub") != "stub" or os.environ.get("UNIHAL_STUB") == "strict",
    reason="counts of boxes are not waited for",
)
@pytest.mark.parametrize("name", list(POOLS))
def test_counts_that_are_not_those_of_the_boxes_are_refused(name: str) -> None:
    with on(DEVICE):
        x, boxes = paddle.rand([2, 8, 6, 6]), paddle.to_tensor(np.float32([[0, 0, 3, 3], [1, 1, 4, 4], [0, 0, 2, 2]]))
        assert POOLS[name](x, boxes, paddle.to_tensor(np.int32([1, 2])), 2).shape[0] == 3
        for counts in ([1, 1], [3, 3]):
            with pytest.raises(ValueError, match=f"adds up to {sum(counts)}, but there are 3 boxes"):
                POOLS[name](x, boxes, paddle.to_tensor(np.int32(counts)), 2)
