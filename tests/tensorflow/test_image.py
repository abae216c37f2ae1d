"""Resizing, blocks of pixels, diagonals."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from compare import DEVICE, check, integers, random

RAW = tf.raw_ops


@pytest.mark.parametrize("size", [(4, 9), (11, 5), (7, 6)])
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("centers", [False, True])
def test_resize(size: tuple[int, int], corners: bool, centers: bool) -> None:
    if corners and centers:
        pytest.skip("TensorFlow refuses both")
    options = {"align_corners": corners, "half_pixel_centers": centers}
    x = random(2, 7, 6, 3)
    check(lambda a: RAW.ResizeBilinear(images=a, size=size, **options), x, gradients=True)
    check(lambda a: RAW.ResizeNearestNeighbor(images=a, size=size, **options), x, gradients=True)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "uint8"])
@pytest.mark.parametrize(("corners", "centers"), [(False, False), (True, False), (False, True)])
def test_resizes_to_the_same_size_keep_what_is_no_number(corners: bool, centers: bool, dtype: str) -> None:
    x = random(2, 3, 4, 2, low=0)
    if dtype != "uint8":
        x[0, 1, 1, 0], x[1, 2, 3, 1], x[1, 0, 0, 0] = np.inf, np.nan, -np.inf
    options = {"size": (3, 4), "align_corners": corners, "half_pixel_centers": centers}
    check(lambda a: RAW.ResizeBilinear(images=tf.cast(a, dtype), **options), x)
    if dtype in ("float32", "float64"):
        original = np.zeros(x.shape, dtype)
        del options["size"]
        check(
            lambda d, a: RAW.ResizeBilinearGrad(grads=d, original_image=a, **options),
            x.astype("float32"),
            original,
            dtype=dtype,
        )


def test_resize_of_bytes() -> None:
    x = integers(1, 5, 4, 2, high=255, dtype="uint8")
    check(lambda a: tf.image.resize(a, [9, 9]), x)
    check(lambda a: tf.image.resize(a, [3, 8], method="nearest"), x)


def test_blocks() -> None:
    check(lambda a: tf.nn.space_to_depth(a, 2), random(2, 4, 6, 3), gradients=True)
    check(lambda a: tf.nn.depth_to_space(a, 2), random(2, 3, 2, 8), gradients=True)


def test_diagonals() -> None:
    check(lambda: tf.eye(4, 3, batch_shape=[2]))
    check(lambda a: tf.linalg.diag(a), random(2, 4), gradients=True)
    check(lambda a: tf.linalg.diag(a, k=-1, num_rows=6, padding_value=7), random(2, 4))
    for k in (-2, 0, 1):
        check(lambda a, n=k: tf.linalg.diag_part(a, k=n), random(2, 4, 5), gradients=True)
    check(lambda a, b: tf.linalg.set_diag(a, b, k=1), random(2, 4, 4), random(2, 3, seed=1))
    check(lambda a: RAW.MatrixDiagPart(input=a), random(3, 3))


def test_errors() -> None:
    with tf.device(DEVICE):
        with pytest.raises(tf.errors.InvalidArgumentError, match="not divisible by block_size 2"):
            tf.nn.space_to_depth(tf.zeros([1, 3, 4, 1]), 2)
        with pytest.raises(tf.errors.InvalidArgumentError, match="lie outside matrices"):
            tf.linalg.diag_part(tf.zeros([3, 3]), k=5)


def resized(name: str, size: tuple[int, int], **options: Any) -> Callable[..., Any]:
    return lambda a: getattr(RAW, name)(images=a, size=size, **options)


@pytest.mark.parametrize("size", [(4, 9), (11, 5), (7, 6), (1, 1), (2, 31)])
def test_bicubic_and_area_resizes(size: tuple[int, int]) -> None:
    x = random(2, 7, 6, 3)
    for corners, centers in ((False, False), (True, False), (False, True)):
        cubic = resized("ResizeBicubic", size, align_corners=corners, half_pixel_centers=centers)
        check(cubic, x, gradients=True)
    for corners in (False, True):
        check(resized("ResizeArea", size, align_corners=corners), x)
    check(resized("ResizeBicubic", size), random(1, 1, 1, 2), gradients=True)
    check(resized("ResizeArea", size), random(1, 1, 1, 2))


KERNELS = ["lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic"]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("antialias", [False, True])
def test_scale_and_translate(kernel: str, antialias: bool) -> None:
    options = {"kernel_type": kernel, "antialias": antialias}
    moves = [((0.5, 1.5), (0.0, 0.0)), ((1.7, 0.31), (-2.5, 1.25)), ((1.0, 1.0), (20.0, 0.0)), ((4, 4), (0, 0))]
    for scale, translation in moves:
        for size in ((5, 9), (12, 3)):
            check(
                lambda a, s=scale, t=translation, n=size: RAW.ScaleAndTranslate(
                    images=a, size=n, scale=s, translation=t, **options
                ),
                random(2, 8, 7, 3),
                gradients=True,
            )


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "int64", "float16", "bfloat16", "float64"]
)
def test_resizes_by_kernels_of_all_dtypes(dtype: str) -> None:
    x = integers(1, 5, 4, 2, high=100)
    for function in (resized("ResizeBicubic", (9, 3)), resized("ResizeArea", (2, 9))):
        check(lambda a, f=function: f(tf.cast(a, dtype)), x, tolerance=2e-5)
    for method in ("bicubic", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic", "bilinear"):
        check(lambda a, m=method: tf.image.resize(tf.cast(a, dtype), [3, 7], m, antialias=True), x)


def test_gradients_of_bicubic_resizes_of_doubles() -> None:
    """TensorFlow's CPU rounds products to float32 and adds doubles."""
    check(resized("ResizeBicubic", (9, 4)), random(1, 5, 4, 2), dtype="float64", gradients=True, tolerance=2e-6)


def test_resizes_by_kernels_refuse_what_the_cpu_refuses() -> None:
    x = tf.zeros([1, 4, 4, 2])
    for device in ("CPU:0", DEVICE):
        with tf.device(device):
            for name in ("ResizeBicubic", "ResizeArea"):
                for size in ((0, 3), (3, -1), (1, 2, 3)):
                    with pytest.raises(tf.errors.InvalidArgumentError):
                        resized(name, size)(x)
                with pytest.raises(tf.errors.InvalidArgumentError):
                    resized(name, (2, 2))(tf.zeros([1, 0, 4, 2]))
            for arguments in (
                {"size": [2, 2], "scale": [0.0, 1.0], "translation": [0.0, 0.0]},
                {"size": [2, 2], "scale": [1.0, -1.0], "translation": [0.0, 0.0]},
                {"size": [0, 2], "scale": [1.0, 1.0], "translation": [0.0, 0.0]},
                {"size": [2, 2], "scale": [1.0], "translation": [0.0, 0.0]},
                {"size": [2, 2], "scale": [1.0, 1.0], "translation": [0.0, 0.0], "kernel_type": "nonesuch"},
            ):
                with pytest.raises(tf.errors.InvalidArgumentError):
                    RAW.ScaleAndTranslate(images=x, **arguments)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_colors(dtype: str) -> None:
    for x in (random(2, 5, 7, 3, low=0, high=1), integers(40, 3, high=4) / 4.0):
        check(lambda a: RAW.RGBToHSV(images=a), x, dtype=dtype, tolerance=2e-2 if dtype == "bfloat16" else None)
        check(lambda a: RAW.HSVToRGB(images=a), x, dtype=dtype, tolerance=6e-2 if dtype == "bfloat16" else None)


def test_adjustments_of_colors() -> None:
    for x in (random(2, 5, 7, 3), random(2, 5, 7, 3, low=0, high=1), integers(2, 8, 5, 3, high=4) / 4.0):
        for amount in (0.0, 0.3, -0.7, 1.0, 1.5):
            images = tf.constant(x, tf.float32)
            for function in (
                lambda a, d: RAW.AdjustHue(images=a, delta=d),
                lambda a, d: RAW.AdjustSaturation(images=a, scale=d),
                lambda a, d: RAW.AdjustContrastv2(images=a, contrast_factor=d),
            ):
                check(function, images.numpy(), amount)
    check(lambda a: tf.image.adjust_contrast(a, 2.0), random(3, 2, 4, 5, 2))
    check(lambda a: tf.image.adjust_hue(tf.image.adjust_saturation(a, 1.5), 0.2), random(4, 6, 3, low=0, high=1))
