"""Resizing, blocks of pixels, diagonals."""

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
