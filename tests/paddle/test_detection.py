"""Regions, affine grids, convolutions at offsets and boxes, with fallbacks forbidden."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import DEVICE, Array, check, check_in_graph, on, random
from paddle.vision import ops

WIDE = ["float32", "float64"]
BOXES = np.float32(
    [
        [0, 0, 4, 3],
        [1.25, 0.5, 6.5, 4.75],
        [-2, -1, 3, 2.5],
        [3, 3, 1, 1],
        [2, 2, 2, 2],
        [9, 9, 12, 15],
        [0.3, 0.7, 7.1, 5.9],
    ]
)
COUNTS = np.int32([3, 0, 4])


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("samples", [-1, 0, 1, 2])
@pytest.mark.parametrize("aligned", [False, True])
def test_regions(samples: int, aligned: bool, dtype: str) -> None:
    x = random(3, 4, 6, 8)
    # Of aligned boxes that are empty Paddle's CPU gives NaN, and of turned ones it never ends; ours have no places.
    boxes = np.where(np.isin(np.arange(7), (3, 4))[:, None], BOXES[6] / 2, BOXES) if aligned else BOXES
    for bins, scale in (((2, 3), 1.0), ((1, 1), 0.5), ((7, 7), 1.0)):
        check(
            lambda x, b=bins, s=scale: ops.roi_align(
                x, paddle.to_tensor(boxes, x.dtype), paddle.to_tensor(COUNTS), b, s, samples, aligned
            ),
            x,
            dtype=dtype,
        )


@pytest.mark.parametrize("dtype", WIDE)
def test_pools_of_regions(dtype: str) -> None:
    x, by_position = random(3, 4, 6, 8), random(3, 12, 6, 8)
    for bins, scale in (((2, 3), 1.0), ((1, 1), 0.5), ((7, 7), 1.0)):
        check(
            lambda x, b=bins, s=scale: ops.roi_pool(
                x, paddle.to_tensor(BOXES, x.dtype), paddle.to_tensor(COUNTS), b, s
            ),
            x,
            dtype=dtype,
        )
    for bins, scale in (((2, 3), 1.0), ((1, 4), 0.5), ((2, 2), 0.25)):
        check(
            lambda x, b=bins, s=scale: ops.psroi_pool(
                x[:, : 12 // (b[0] * b[1]) * b[0] * b[1]],
                paddle.to_tensor(BOXES, x.dtype),
                paddle.to_tensor(COUNTS),
                b,
                s,
            ),
            by_position,
            dtype=dtype,
        )


def test_regions_in_a_graph() -> None:
    def function(x: Any, boxes: Any, counts: Any) -> Any:
        return ops.roi_align(x, boxes, counts, (2, 3), aligned=False)

    check_in_graph(function, random(3, 4, 6, 8), BOXES, COUNTS, gradient=False)


def test_regions_refuse_what_does_not_fit() -> None:
    with on(DEVICE):
        x, boxes = paddle.zeros([3, 4, 6, 8]), paddle.to_tensor(BOXES)
        with pytest.raises(ValueError, match="boxes_num has 2 numbers for 3 images"):
            ops.roi_align(x, boxes, paddle.to_tensor(np.int32([3, 4])), 2)


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 1, 4), (1, 2, 3, 2, 4)], ids=str)
def test_affine_grids(shape: tuple[int, ...], corners: bool, dtype: str) -> None:
    if corners and 1 in shape[2:]:
        pytest.skip("Paddle's CPU divides by 0")
    axes = len(shape) - 2
    theta = random(shape[0], axes, axes + 1)
    check(lambda t: F.affine_grid(t, list(shape), corners), theta, dtype=dtype)
    check_in_graph(lambda t: F.affine_grid(t, list(shape), corners), theta)
    image = random(*shape, seed=1)
    check(lambda t, x: F.grid_sample(x, F.affine_grid(t, list(shape), corners)), theta / 4, image, dtype=dtype)


CONVOLUTIONS = {
    "plain": ((2, 4, 6, 7), (6, 4, 3, 3), {}),
    "stride and padding": ((2, 4, 6, 7), (6, 4, 3, 2), {"stride": [2, 1], "padding": [1, 2]}),
    "dilation": ((1, 4, 8, 9), (2, 4, 3, 3), {"dilation": [1, 2], "padding": 2}),
    "groups": ((2, 4, 6, 7), (6, 2, 3, 3), {"groups": 2}),
    "deformable groups": ((2, 4, 6, 7), (6, 4, 3, 3), {"deformable_groups": 2, "padding": 1}),
    "both groups": ((1, 4, 5, 5), (4, 1, 2, 2), {"groups": 4, "deformable_groups": 2}),
    "one element": ((2, 3, 4, 5), (2, 3, 1, 1), {}),
}


def outputs(x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any]) -> list[int]:
    def pair(name: str, default: int) -> list[int]:
        given = options.get(name, default)
        return given if isinstance(given, list) else [given, given]

    stride, padding, dilation = pair("stride", 1), pair("padding", 0), pair("dilation", 1)
    return [(x[2 + i] + 2 * padding[i] - dilation[i] * (w[2 + i] - 1) - 1) // stride[i] + 1 for i in (0, 1)]


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("masked", [False, True])
def test_convolutions_at_offsets(name: str, masked: bool, dtype: str) -> None:
    x, w, options = CONVOLUTIONS[name]
    elements = w[2] * w[3] * options.get("deformable_groups", 1)
    size = outputs(x, w, options)
    operands = [random(*x), random(x[0], 2 * elements, *size, seed=1), random(*w, seed=2)]
    if masked:
        operands.append(random(x[0], elements, *size, seed=3))

    def function(x: Any, offset: Any, w: Any, mask: Any = None) -> Any:
        return ops.deform_conv2d(x, offset, w, mask=mask, **options)

    check(function, *operands, dtype=dtype, tolerance=5e-5 if dtype == "float32" else None)


def test_convolutions_at_offsets_of_whole_pixels() -> None:
    """Where training begins: offsets are 0, and their gradients are those to the right."""
    x, w = random(1, 3, 5, 6), random(2, 3, 3, 3, seed=2)
    offset = np.zeros((1, 18, 3, 4), np.float32)
    check(lambda x, o, w: ops.deform_conv2d(x, o, w), x, offset, w, tolerance=5e-5)
    check_in_graph(lambda x, o, w: ops.deform_conv2d(x, o, w), x, offset, w, tolerance=5e-5)


def some_boxes(count: int) -> Array:
    state = np.random.RandomState(count)
    low = state.randint(0, max(1, count // 6) + 1, (count, 2)) * 4 + state.normal(0, 0.5, (count, 2))
    return np.concatenate([low, low + state.uniform(0.2, 4, (count, 2))], axis=1).astype("float32")


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("count", [1, 40, 300])
def test_suppression(count: int, dtype: str) -> None:
    boxes, scores = some_boxes(count), random(count, seed=1)
    for threshold in (0.0, 0.3, 0.8):
        check(lambda b, t=threshold: ops.nms(b, t), boxes, gradient=False, dtype=dtype)
        check(lambda b, s, t=threshold: ops.nms(b, t, s), boxes, scores, gradient=False, dtype=dtype)


def some_scores(images: int, classes: int, count: int) -> Array:
    """No two are the same; a few are no numbers."""
    state = np.random.RandomState(count)
    scores = state.permutation(images * classes * count).reshape(images, classes, count) / (images * classes * count)
    scores[state.uniform(size=scores.shape) < 0.02] = np.nan
    return scores.astype("float32")


#: score_threshold, nms_top_k, keep_top_k, nms_threshold, normalized, nms_eta, background_label.
SUPPRESSIONS = [
    (0.1, -1, -1, 0.3, True, 1.0, -1),
    (0.3, 10, 7, 0.5, True, 1.0, 0),
    (0.05, 1000, 20, 0.1, False, 1.0, 2),
    (0.0, 30, 1, 0.45, False, 1.0, 7),
    (0.2, 0, 5, 0.3, True, 1.0, 0),
    (0.2, 5, 0, 0.3, True, 1.0, 0),
    (2.0, -1, -1, 0.3, True, 1.0, 0),  # nothing is left
    (0.1, -1, 50, 0.8, True, 0.9, 0),  # the threshold falls with each box that is kept
]


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("options", SUPPRESSIONS, ids=str)
def test_suppression_by_class(options: tuple[Any, ...], dtype: str) -> None:
    for images, classes, count in ((2, 3, 60), (1, 1, 1)):
        boxes = np.stack([some_boxes(count + i)[:count] for i in range(images)])
        scores = some_scores(images, classes, count)
        check(
            lambda b, s: paddle._C_ops.multiclass_nms3(b, s, None, *options), boxes, scores, gradient=False, dtype=dtype
        )


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("options", SUPPRESSIONS, ids=str)
def test_suppression_of_boxes_of_each_class(options: tuple[Any, ...], dtype: str) -> None:
    classes, counts = 3, np.int32([20, 0, 33])
    boxes = np.stack([some_boxes(53 + i)[:53] for i in range(classes)], axis=1)
    scores = np.ascontiguousarray(some_scores(1, classes, 53)[0].T)
    check(
        lambda b, s: paddle._C_ops.multiclass_nms3(b, s, paddle.to_tensor(counts), *options),
        boxes,
        scores,
        gradient=False,
        dtype=dtype,
    )


def lowered(*arguments: Any, **options: Any) -> Any:
    return ops.matrix_nms(*arguments, **options, return_index=True)


def test_suppression_of_boxes_without_area() -> None:
    """Boxes that are the same point, touch, are turned round, or lie less than a pixel apart."""
    boxes = np.float32(
        [[[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 2, 2], [2, 0, 4, 2], [3, 3, 1, 1], [2.5, 2.5, 4, 4], [1, 1, 3, 3]]]
    )
    scores = np.float32([[[0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3]]])
    for normalized in (True, False):
        for threshold in (0.0, 0.3):
            check(
                lambda b, s, n=normalized, t=threshold: paddle._C_ops.multiclass_nms3(
                    b, s, None, 0.0, -1, -1, t, n, 1.0, -1
                ),
                boxes,
                scores,
                gradient=False,
            )
        check(lambda b, s, n=normalized: lowered(b, s, 0.0, 0.0, -1, -1, normalized=n), boxes, scores, gradient=False)


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("gaussian", [False, True])
def test_scores_that_overlaps_lower(gaussian: bool, dtype: str) -> None:
    boxes = np.stack([some_boxes(60 + i)[:60] for i in range(2)])
    scores = np.nan_to_num(some_scores(2, 3, 60))  # the CPU sorts by comparisons, in which NaN is nowhere
    for least, post, first, kept, background, normalized in (
        (0.1, 0.0, -1, -1, -1, True),
        (0.3, 0.2, 10, 7, 0, True),
        (0.05, 0.01, 1000, 20, 2, False),
        (0.2, 0.1, 5, 0, 0, True),
        (2.0, 0.1, 5, 5, 0, True),
    ):

        def function(b: Any, s: Any, o: tuple[Any, ...] = (least, post, first, kept), g: int = background) -> Any:
            return lowered(b, s, *o, gaussian, 1.5, g, normalized)

        check(function, boxes, scores, gradient=False, dtype=dtype)
    check_in_graph(lambda b, s: lowered(b, s, 0.1, 0.05, 20, 30, gaussian), boxes, scores, gradient=False)


def test_suppression_refuses_what_does_not_fit() -> None:
    options = (0.1, -1, -1, 0.3, True, 1.0, 0)
    with on(DEVICE):
        boxes, scores = paddle.zeros([5, 3, 4]), paddle.zeros([5, 3])
        with pytest.raises(ValueError, match="rois_num has more than the 5 boxes"):
            paddle._C_ops.multiclass_nms3(boxes, scores, paddle.to_tensor(np.int32([3, 3])), *options)
        with pytest.raises((NotImplementedError, RuntimeError), match="a box of 8 numbers is not supported"):
            paddle._C_ops.multiclass_nms3(paddle.zeros([1, 5, 8]), paddle.zeros([1, 3, 5]), None, *options)


def test_prior_boxes() -> None:
    features, image = random(1, 3, 4, 5), random(1, 3, 32, 40)
    for options in (
        {"min_sizes": [4.0]},
        {"min_sizes": [4.0, 8.0], "max_sizes": [6.0, 12.0], "aspect_ratios": [1.0, 2.0, 0.5], "flip": True},
        {"min_sizes": [4.0], "max_sizes": [9.0], "clip": True, "steps": [7.0, 8.0], "offset": 0.25},
        {"min_sizes": [4.0], "max_sizes": [9.0], "aspect_ratios": [3.0], "min_max_aspect_ratios_order": True},
    ):
        check(lambda f, i, o=options: ops.prior_box(f, i, **o), features, image, gradient=False)


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("normalized", [True, False])
def test_coded_boxes(normalized: bool, dtype: str) -> None:
    state = np.random.RandomState(3)
    low = state.uniform(0, 5, (4, 2))
    priors = np.concatenate([low, low + state.uniform(1, 4, (4, 2))], 1).astype("float32")
    targets = np.concatenate([low[:3] + 0.5, low[:3] + state.uniform(1, 4, (3, 2))], 1).astype("float32")
    spread = np.abs(random(4, 4, seed=4)) + 0.1
    options = {"box_normalized": normalized}
    for variance in (spread, [0.1, 0.1, 0.2, 0.2]):

        def encode(p: Any, t: Any, v: Any = variance) -> Any:
            return ops.box_coder(p, paddle.to_tensor(v, p.dtype) if isinstance(v, np.ndarray) else v, t, **options)

        check(encode, priors, targets, gradient=False, dtype=dtype)
        if dtype == "float64" and isinstance(variance, list):
            continue  # Paddle's CPU decodes with other numbers then than with the same ones in a tensor
        for axis in (0, 1):

            def decode(p: Any, t: Any, v: Any = variance, axis: int = axis) -> Any:
                v = paddle.to_tensor(v, p.dtype) if isinstance(v, np.ndarray) else v
                return ops.box_coder(p, v, t, "decode_center_size", axis=axis, **options)

            codes = random(*((3, 4, 4) if axis == 0 else (4, 3, 4)), seed=5) / 2
            check(decode, priors, codes, gradient=False, dtype=dtype)


@pytest.mark.parametrize("dtype", WIDE)
def test_boxes_of_yolo(dtype: str) -> None:
    sizes = np.int32([[320, 416], [100, 37]])
    for overlaps in (False, True):
        for clips, scale in ((True, 1.0), (False, 1.2)):

            def function(x: Any, overlaps: bool = overlaps, clips: bool = clips, scale: float = scale) -> Any:
                return ops.yolo_box(
                    x,
                    paddle.to_tensor(sizes),
                    anchors=[10, 13, 16, 30, 33, 23],
                    class_num=2,
                    conf_thresh=0.4,
                    downsample_ratio=32,
                    clip_bbox=clips,
                    scale_x_y=scale,
                    iou_aware=overlaps,
                    iou_aware_factor=0.3,
                )

            check(function, random(2, 24 if overlaps else 21, 3, 4), gradient=False, dtype=dtype)
