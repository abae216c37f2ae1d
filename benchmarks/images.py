"""Resizes, regions, deformable convolution and suppression by the adapters, against the framework's own CPU.

    python benchmarks/images.py [--device RDNA:0 or rdna:0]

Meant for the stub, with as many threads as the framework takes. Times are medians, in milliseconds, with the operands
on the device and the result waited for; the ratio is ours over the CPU's: at most 1 is wanted.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import measure
import numpy as np

Call = Callable[[], Any]
REPEATS = 9


def milliseconds(call: Call) -> float:
    """The median, after a call that is not counted."""
    call()
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def boxes_in(count: int, height: int, width: int) -> Any:
    """(x0, y0, x1, y1) in pixels."""
    generator = np.random.default_rng(0)
    low = generator.uniform(0, 0.6, (count, 2)) * (width, height)
    size = generator.uniform(0.1, 0.4, (count, 2)) * (width, height)
    return np.concatenate([low, low + size], axis=1).astype("float32")


def of_tensorflow(device: str) -> list[tuple[str, Call]]:
    """Calls of TensorFlow's ops on a device."""
    import tensorflow as tf

    with tf.device(device):
        images = tf.constant(np.random.default_rng(1).normal(size=(4, 512, 512, 3)).astype("float32"))
        features = tf.constant(np.random.default_rng(1).normal(size=(2, 64, 64, 64)).astype("float32"))
        boxes = tf.constant(boxes_in(200, 1, 1)[:, [1, 0, 3, 2]])
        numbers = tf.constant(np.arange(200, dtype="int32") % 2)
        many = tf.constant(boxes_in(4000, 600, 800))
        scores = tf.constant(np.random.default_rng(2).uniform(size=4000).astype("float32"))

    def on(function: Callable[[], Any]) -> Call:
        def call() -> Any:
            with tf.device(device):
                return tf.nest.map_structure(lambda t: t.numpy(), function())

        return call

    return [
        ("bicubic, 512 to 224", on(lambda: tf.image.resize(images, [224, 224], "bicubic"))),
        ("area, 512 to 224", on(lambda: tf.image.resize(images, [224, 224], "area"))),
        ("antialiased bilinear, 512 to 224", on(lambda: tf.image.resize(images, [224, 224], antialias=True))),
        (
            "antialiased lanczos3, 512 to 224",
            on(lambda: tf.image.resize(images, [224, 224], "lanczos3", antialias=True)),
        ),
        ("crop_and_resize, 200 of 14x14", on(lambda: tf.image.crop_and_resize(features, boxes, numbers, [14, 14]))),
        (
            "extract_patches, 3x3",
            on(lambda: tf.image.extract_patches(features, [1, 3, 3, 1], [1] * 4, [1] * 4, "SAME")),
        ),
        ("non_max_suppression of 4000", on(lambda: tf.image.non_max_suppression(many, scores, 4000, 0.5))),
    ]


def of_paddle(device: str) -> list[tuple[str, Call]]:
    """Calls of Paddle's ops on a device."""
    import paddle
    from paddle.vision import ops

    paddle.set_device(device)
    state = np.random.default_rng(1)

    put = measure.paddle_operand

    features = put(state.normal(size=(2, 64, 64, 64)).astype("float32"))
    trained = put(state.normal(size=(2, 64, 64, 64)).astype("float32"), True)
    boxes, counts = put(boxes_in(200, 64, 64)), put(np.int32([100, 100]))
    offsets = put(state.normal(size=(2, 18, 62, 62)).astype("float32"))
    weights = put(state.normal(size=(64, 64, 3, 3)).astype("float32"))
    many = put(boxes_in(4000, 600, 800))

    def align(x: Any) -> Any:
        return ops.roi_align(x, boxes, counts, 7)

    def gradient() -> Any:
        trained.clear_gradient()
        align(trained).sum().backward()
        return trained.grad

    def on(function: Callable[[], Any]) -> Call:
        def call() -> Any:
            paddle.set_device(device)
            return function().numpy()

        return call

    return [
        ("roi_align, 200 of 7x7", on(lambda: align(features))),
        ("roi_align with its gradient", on(gradient)),
        ("deform_conv2d, 3x3", on(lambda: ops.deform_conv2d(features, offsets, weights))),
        ("nms of 4000", on(lambda: ops.nms(many, 0.5))),
        (
            "affine_grid, 16 of 256x256",
            on(lambda: paddle.nn.functional.affine_grid(paddle.ones([16, 2, 3]), [16, 1, 256, 256])),
        ),
    ]


def main() -> None:
    """Prints the table of one framework, or of both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", choices=("tensorflow", "paddle", "both"), default="both")
    parser.add_argument("--device", default="rdna:0")
    given = parser.parse_args()
    os.environ.setdefault("UNIHAL_BACKEND", "stub")
    os.environ.setdefault("UNIHAL_STRICT", "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    makers = []
    if given.framework in ("paddle", "both"):  # first: after TensorFlow it cannot be imported
        makers.append((of_paddle, given.device.lower(), "cpu"))
    if given.framework in ("tensorflow", "both"):
        makers.append((of_tensorflow, f"/device:{given.device.upper()}", "/device:CPU:0"))
    for make, device, cpu in makers:
        print(f"{make.__name__[3:]}: ours and the CPU's in ms, the ratio")
        for (name, ours), (_, theirs) in zip(make(device), make(cpu)):
            times = milliseconds(ours), milliseconds(theirs)
            print(f"  {name:40} {times[0]:9.2f} {times[1]:9.2f} {times[0] / times[1]:6.2f}", flush=True)


if __name__ == "__main__":
    main()
