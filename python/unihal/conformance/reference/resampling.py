"""UHAL_OP_RESIZE and its gradient: one matrix of weights for each axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .enums import ResizeMode


def _position(output: int, length: int, outputs: int, step: float, align_corners: int, half_pixel: int) -> float:
    """Where on the input axis an output pixel lies."""
    if align_corners:
        return output * (length - 1) / (outputs - 1) if outputs > 1 else 0.0
    return (output + 0.5) * step - 0.5 if half_pixel else output * step


def _cubic(distance: float) -> float:
    """Keys' cubic convolution (IEEE Transactions on Acoustics, Speech and Signal Processing 29, 1981), a = -3/4."""
    a, t = -0.75, abs(distance)
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0


def _taps(position: float, mode: int) -> list[tuple[int, float]]:
    """(input pixel, weight) of one output pixel; a pixel outside the image stands for the nearest inside."""
    if mode == ResizeMode.LINEAR:
        inside = max(position, 0.0)
        first = math.floor(inside)
        return [(first, 1 - (inside - first)), (first + 1, inside - first)]
    first = math.floor(position)
    return [(pixel, _cubic(position - pixel)) for pixel in range(first - 1, first + 3)]


def _nearest(output: int, length: int, outputs: int, align_corners: int, half_pixel_centers: int, scale: float) -> int:
    """The pixel by integers, or by the product of float32 that frameworks round down."""
    if align_corners:
        return (2 * output * (length - 1) + outputs - 1) // (2 * (outputs - 1)) if outputs > 1 else 0
    if scale > 0:
        return math.floor((np.float32(output) + np.float32(0.5 * half_pixel_centers)) * np.float32(scale))
    return (2 * output + half_pixel_centers) * length // (2 * outputs)


def weights(
    length: int, outputs: int, *, mode: int, align_corners: int, half_pixel_centers: int, scale: float
) -> NDArray[Any]:
    """The matrix (outputs, length) of one axis."""
    scale = min(scale, 2.0 * (length + 4))  # all beyond are alike, and numbers hold no fractions of a pixel there
    step = scale if scale > 0 else length / max(1, outputs)
    matrix = np.zeros((outputs, length))
    for output in range(outputs):
        position = _position(output, length, outputs, step, align_corners, half_pixel_centers)
        taps = _taps(position, mode)
        if mode == ResizeMode.NEAREST:
            taps = [(_nearest(output, length, outputs, align_corners, half_pixel_centers, scale), 1.0)]
        for pixel, weight in taps:
            matrix[output, min(max(pixel, 0), length - 1)] += weight
    return matrix


def _matrices(
    spatial: Sequence[int],
    outputs: Sequence[int],
    mode: int,
    align_corners: int,
    half_pixel_centers: int,
    scale: Sequence[float],
) -> list[NDArray[Any]]:
    return [
        weights(
            length,
            outputs[i],
            mode=mode,
            align_corners=align_corners,
            half_pixel_centers=half_pixel_centers,
            scale=scale[i],
        )
        for i, length in enumerate(spatial)
    ]


def resize(
    x: NDArray[Any],
    outputs: Sequence[int],
    *,
    mode: int = ResizeMode.NEAREST,
    align_corners: int = 0,
    half_pixel_centers: int = 0,
    scale: Sequence[float] = (0, 0, 0),
) -> NDArray[Any]:
    """y = the product of x with the weights along each spatial axis; ``outputs`` are y's spatial lengths."""
    y = x
    matrices = _matrices(x.shape[2:], outputs, mode, align_corners, half_pixel_centers, scale)
    for axis, matrix in enumerate(matrices, start=2):
        y = np.moveaxis(np.moveaxis(y, axis, -1) @ matrix.T, -1, axis)
    return y


def resize_backward(
    dy: NDArray[Any],
    spatial: Sequence[int],
    *,
    mode: int = ResizeMode.NEAREST,
    align_corners: int = 0,
    half_pixel_centers: int = 0,
    scale: Sequence[float] = (0, 0, 0),
) -> NDArray[Any]:
    """dx = the product with the transposed weights; ``spatial`` are dx's spatial lengths."""
    dx = dy
    matrices = _matrices(spatial, dy.shape[2:], mode, align_corners, half_pixel_centers, scale)
    for axis, matrix in enumerate(matrices, start=2):
        dx = np.moveaxis(np.moveaxis(dx, axis, -1) @ matrix, -1, axis)
    return dx
