"""Crops of images, boxes that others suppress, patches."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from compare import AT_ONCE, CPU, DEVICE, check, integers, on, random

RAW = tf.raw_ops

BOXES = np.array(
    [
        [0, 0, 1, 1],
        [0.25, 0.1, 0.8, 0.9],
        [-0.5, 0.2, 0.5, 1.5],
        [1, 1, 0, 0],
        [0.5, 0.5, 0.5, 0.5],
        [2, 2, 3, 3],
        [0.125, 0.3, 0.875, 0.6],
    ],
    "float32",
)
NUMBERS = np.array([0, 1, 1, 0, 1, 0, 1], "int32")


@pytest.mark.parametrize("method", ["bilinear", "nearest"])
def test_crops(method: str) -> None:
    x = random(2, 5, 7, 3).astype("float32")
    for size in ((3, 4), (1, 1), (5, 7), (1, 6)):
        for value in (0.0, -1.5):
            check(
                lambda a, b, i, s=size, v=value: tf.image.crop_and_resize(a, b, i, s, method, v),
                x,
                BOXES,
                NUMBERS,
            )
    check(lambda a, b, i: tf.image.crop_and_resize(a, b, i, (2, 2), method), x, BOXES[:0], NUMBERS[:0])
    check(lambda a, b, i: tf.image.crop_and_resize(a, b, i, (2, 2), method), x[..., :0], BOXES, NUMBERS)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int8", "int16", "int32", "int64", "float16", "float64"])
def test_crops_of_all_dtypes(dtype: str) -> None:
    x = integers(2, 5, 7, 3, high=100)
    check(lambda a, b, i: tf.image.crop_and_resize(tf.cast(a, dtype), b, i, (3, 4)), x, BOXES, NUMBERS)


@pytest.mark.parametrize("method", ["bilinear", "nearest"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_crops_refuse_boxes_that_are_not_finite(value: float, method: str) -> None:
    if not AT_ONCE:
        pytest.skip("the host does not wait for the device to look at them")
    boxes = np.array([[0, 0, 1, 1], [0, value, 1, 1]], "float32")
    for device in (CPU, DEVICE):
        for channels in (0, 2):
            with tf.device(device), pytest.raises(tf.errors.InvalidArgumentError, match="not finite"):
                tf.image.crop_and_resize(tf.zeros([1, 4, 4, channels]), boxes, [0, 0], (2, 3), method)


def test_gradients_of_crops() -> None:
    x = random(2, 5, 7, 3).astype("float32")
    for size in ((3, 4), (1, 1), (5, 7)):
        dy = random(len(BOXES), *size, 3, seed=1).astype("float32")
        check(
            lambda d, a, b, i: RAW.CropAndResizeGradBoxes(grads=d, image=a, boxes=b, box_ind=i, method="bilinear"),
            dy,
            x,
            BOXES,
            NUMBERS,
        )
        for dtype in ("float32", "float16", "float64"):
            for method in ("bilinear", "nearest"):
                check(
                    lambda d, b, i, t=dtype, m=method: RAW.CropAndResizeGradImage(
                        grads=d, boxes=b, box_ind=i, image_size=[2, 5, 7, 3], T=t, method=m
                    ),
                    dy,
                    BOXES,
                    NUMBERS,
                    tolerance=4e-3 if dtype == "float16" else 2e-5,
                )


def test_crops_refuse_images_that_are_not_there() -> None:
    for device in ("CPU:0", DEVICE):
        with tf.device(device):
            for number in (-1, 2):
                with pytest.raises(tf.errors.OutOfRangeError):
                    tf.image.crop_and_resize(tf.zeros([2, 4, 4, 1]), BOXES[:1], np.array([number], "int32"), (2, 2))
            with pytest.raises(tf.errors.InvalidArgumentError):
                tf.image.crop_and_resize(tf.zeros([2, 4, 4, 1]), BOXES, NUMBERS[:2], (2, 2))


def boxes_and_scores(count: int, seed: int = 0) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    middles = generator.integers(0, max(1, count // 6) + 1, (count, 2)) * 4.0
    low, size = middles + generator.normal(0, 0.5, (count, 2)), generator.uniform(0.2, 4, (count, 2))
    boxes = np.concatenate([low, low + size], 1).astype("float32")
    boxes[::3] = boxes[::3][:, [2, 3, 0, 1]]
    # Some scores are equal: then the first counts as the better one.
    return boxes, (generator.integers(0, 40, count) / 40).astype("float32")


@pytest.mark.parametrize("count", [0, 1, 40, 300])
def test_suppression(count: int) -> None:
    boxes, scores = boxes_and_scores(count)
    for most in (0, 5, 400):
        for threshold in (0.0, 0.4, 1.0):
            check(
                lambda b, s, m=most, t=threshold: RAW.NonMaxSuppressionV2(
                    boxes=b, scores=s, max_output_size=m, iou_threshold=t
                ),
                boxes,
                scores,
            )
            check(
                lambda b, s, m=most, t=threshold: RAW.NonMaxSuppressionV3(
                    boxes=b, scores=s, max_output_size=m, iou_threshold=t, score_threshold=0.3
                ),
                boxes,
                scores,
            )
            for pad in (False, True):
                check(
                    lambda b, s, m=most, t=threshold, p=pad: RAW.NonMaxSuppressionV4(
                        boxes=b,
                        scores=s,
                        max_output_size=m,
                        iou_threshold=t,
                        score_threshold=0.3,
                        pad_to_max_output_size=p,
                    ),
                    boxes,
                    scores,
                )


@pytest.mark.parametrize("pad", [False, True])
def test_suppression_with_scores(pad: bool) -> None:
    boxes, scores = boxes_and_scores(40)
    for most in (5, 100):
        check(
            lambda b, s, m=most: RAW.NonMaxSuppressionV5(
                boxes=b,
                scores=s,
                max_output_size=m,
                iou_threshold=0.4,
                score_threshold=0.3,
                soft_nms_sigma=0.0,
                pad_to_max_output_size=pad,
            ),
            boxes,
            scores,
        )


@pytest.mark.parametrize("far", [100, 500, 1300])
def test_suppression_where_the_best_boxes_are_one(far: int) -> None:
    # More than are looked at first are the same box; the next ones lie apart.
    boxes = np.tile(np.float32([0, 0, 1, 1]), (1400, 1))
    boxes[far:] += np.arange(1, 1401 - far, dtype="float32")[:, None] * 2
    scores = np.linspace(1, 0, 1400, dtype="float32")
    for most in (1, 3, 100, 2000):
        check(
            lambda b, s, m=most: RAW.NonMaxSuppressionV3(
                boxes=b, scores=s, max_output_size=m, iou_threshold=0.5, score_threshold=0.01
            ),
            boxes,
            scores,
        )


def test_suppression_of_odd_boxes() -> None:
    boxes, scores = boxes_and_scores(30, seed=3)
    scores[4], scores[9] = np.nan, -np.inf
    boxes[7], boxes[12] = boxes[11], np.zeros(4)
    for threshold in (0.0, 0.5):
        check(
            lambda b, s, t=threshold: RAW.NonMaxSuppressionV3(
                boxes=b, scores=s, max_output_size=30, iou_threshold=t, score_threshold=float("-inf")
            ),
            boxes,
            scores,
        )


def test_suppression_refuses_what_the_cpu_refuses() -> None:
    boxes, scores = boxes_and_scores(4)
    for device in ("CPU:0", DEVICE):
        with tf.device(device):
            for threshold in (-0.1, 1.5):
                with pytest.raises(tf.errors.InvalidArgumentError):
                    RAW.NonMaxSuppressionV3(
                        boxes=boxes, scores=scores, max_output_size=2, iou_threshold=threshold, score_threshold=0.0
                    )
            with pytest.raises(tf.errors.InvalidArgumentError):
                RAW.NonMaxSuppressionV2(boxes=boxes, scores=scores[:3], max_output_size=2, iou_threshold=0.5)
            with pytest.raises(tf.errors.InvalidArgumentError):
                RAW.NonMaxSuppressionV2(boxes=boxes[:, :3], scores=scores, max_output_size=2, iou_threshold=0.5)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "complex64"])
def test_patches(padding: str, dtype: str) -> None:
    x = integers(2, 7, 6, 2, high=100)
    for sizes, strides, rates in (((3, 2), (1, 2), (1, 1)), ((2, 2), (3, 3), (2, 1)), ((1, 1), (1, 1), (1, 1))):
        check(
            lambda a, k=sizes, s=strides, r=rates: tf.image.extract_patches(
                tf.cast(a, dtype), [1, *k, 1], [1, *s, 1], [1, *r, 1], padding
            ),
            x,
        )
    if dtype == "complex64":
        return
    volume = integers(1, 5, 4, 6, 2, high=100)
    for sizes, strides in (((3, 2, 2), (1, 2, 1)), ((1, 1, 1), (2, 2, 2))):
        check(
            lambda a, k=sizes, s=strides: tf.extract_volume_patches(tf.cast(a, dtype), [1, *k, 1], [1, *s, 1], padding),
            volume,
        )


def test_gradients_of_patches() -> None:
    check(
        lambda a: tf.image.extract_patches(a, [1, 2, 3, 1], [1, 2, 1, 1], [1, 1, 1, 1], "SAME"),
        random(1, 5, 6, 2),
        gradients=True,
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "uint8"])
@pytest.mark.parametrize("mode", ["NEAREST", "BILINEAR"])
@pytest.mark.parametrize("fill", ["CONSTANT", "REFLECT", "NEAREST"])
def test_projective_transforms(fill: str, mode: str, dtype: str) -> None:
    x = integers(3, 5, 7, 2, high=100)
    one = np.array([[0.8, -0.31, 0.53, 0.27, 0.9, -1.25, 0.013, 0.007]], "float32")
    turned = np.concatenate([one, one[:, [3, 4, 5, 0, 1, 2, 7, 6]], [[1, 0, -3, 0, 1, 2, 0, 0]]]).astype("float32")
    for transforms in (one, turned):
        for size in ((5, 7), (3, 9)):
            # TensorFlow's CPU computes on float32 whatever the images are.
            limit = 2e-6 if dtype == "float64" else None
            options = {"transforms": transforms, "output_shape": size, "interpolation": mode, "fill_mode": fill}
            check(
                lambda a, o=options: RAW.ImageProjectiveTransformV2(images=tf.cast(a, dtype), **o), x, tolerance=limit
            )
            check(
                lambda a, o=options: RAW.ImageProjectiveTransformV3(images=tf.cast(a, dtype), fill_value=7.0, **o),
                x,
                tolerance=limit,
            )


TRANSFORMS = {
    "identity": [1, 0, 0, 0, 1, 0, 0, 0],
    "half pixels": [1, 0, -0.5, 0, 1, 1.5, 0, 0],
    "far": [-1, 0, 9.5, 0.5, 1, -6.5, 0, 0],
    "projective": [0.8, -0.31, 0.53, 0.27, 0.9, -1.25, 0.013, 0.007],
}


def warped(transform: str, mode: str, fill: str, value: float) -> Callable[[tf.Tensor], tf.Tensor]:
    return lambda images: RAW.ImageProjectiveTransformV3(
        images=images,
        transforms=np.array([TRANSFORMS[transform]], "float32"),
        output_shape=[6, 9],
        fill_value=value,
        interpolation=mode,
        fill_mode=fill,
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "uint8"])
@pytest.mark.parametrize("mode", ["NEAREST", "BILINEAR"])
@pytest.mark.parametrize("value", [-1e5, 1e9, np.nan])
def test_pixels_inside_are_exact_whatever_is_outside(value: float, mode: str, dtype: str) -> None:
    if dtype == "float16" and mode == "BILINEAR" and np.isfinite(value):
        pytest.skip("infinite there, which times a weight of 0 is NaN on the CPU")
    for shape in ((2, 5, 7, 2), (1, 1, 6, 1), (1, 1, 1, 1)):
        x = integers(*shape, high=100).astype("float64")
        for transform in TRANSFORMS:
            with_value, with_zero = warped(transform, mode, "CONSTANT", value), warped(transform, mode, "CONSTANT", 0)
            check(lambda a, f=with_value: f(tf.cast(a, dtype)), x, tolerance=2e-6 if dtype == "float64" else None)
            filled, plain, marks = (
                on(DEVICE, lambda a, f=f: tf.cast(f(tf.cast(a, dtype)), tf.float64), [array], ["float64"])[0].numpy()
                for f, array in ((with_value, x), (with_zero, x), (with_zero, np.ones(shape)))
            )
            if mode == "NEAREST":
                np.testing.assert_array_equal(filled[marks == 1], plain[marks == 1])


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
@pytest.mark.parametrize("fill", ["CONSTANT", "REFLECT", "NEAREST"])
@pytest.mark.parametrize("offset", [-9.5, -7, -1.5, -0.5, 0.5, 2.5, 6, 11.5])
def test_nearest_pixels_of_places_between_two(offset: float, fill: str, dtype: str) -> None:
    for shape in ((2, 4, 4, 1), (1, 1, 5, 2)):
        x = np.arange(np.prod(shape)).reshape(shape)
        for scale in (1, -1, 0.5):
            transform = np.array([[scale, 0, offset, 0, scale, -offset, 0, 0]], "float32")
            check(
                lambda a, t=transform: RAW.ImageProjectiveTransformV2(
                    images=tf.cast(a, dtype),
                    transforms=t,
                    output_shape=[9, 9],
                    interpolation="NEAREST",
                    fill_mode=fill,
                ),
                x,
            )


@pytest.mark.parametrize("fill", ["CONSTANT", "REFLECT", "NEAREST"])
def test_nearest_doubles_keep_their_digits(fill: str) -> None:
    x = 1e6 + random(2, 5, 7, 2)
    for transform in TRANSFORMS:
        check(warped(transform, "NEAREST", fill, 0.5), x, dtype="float64", tolerance=1e-15)
