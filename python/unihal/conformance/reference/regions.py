"""UHAL_OP_ROI_ALIGN and its gradient: what each bin reads, by the definition of Mask R-CNN (He et al. 2017)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MOST_SAMPLES = 2**20


def _places(low: float, high: float, bins: int, attributes: dict[str, Any]) -> tuple[float, float, int]:
    """Where the bins begin, how long each is, and how many places one has."""
    offset = 0.5 if attributes["aligned"] else 0.0
    start = low * attributes["scale"] - offset
    size = high * attributes["scale"] - offset - start
    if not attributes["aligned"] and size < 1:
        size = 1.0
    samples = attributes["samples"]
    if bins == 0:
        return start, 0.0, 0
    if samples == 0:
        samples = 0 if math.isnan(size) else int(min(max(math.ceil(min(size / bins, 1e9)), 0), _MOST_SAMPLES))
    return start, size / bins, samples


def _taps(at: float, length: int) -> list[tuple[int, float]]:
    """(pixel, weight) of a place along an axis."""
    if not -1 <= at <= length or length == 0:
        return []
    inside = min(max(at, 0.0), length - 1.0)
    first = math.floor(inside)
    return [(first, 1 - (inside - first)), (first + 1, inside - first)] if inside > first else [(first, 1.0)]


def _weights(start: float, size: float, samples: int, at: int, length: int) -> NDArray[Any]:
    """The sum of the weights of all places of bin `at`, for each pixel."""
    weights = np.zeros(length)
    if not (math.isfinite(start) and math.isfinite(size)):
        return weights  # all places are far outside, or nowhere
    step = size / samples if samples else 0.0
    # Places of huge boxes are far outside, but for those from here to there.
    first, last = 0, samples
    if step > 0 and samples > 4096:
        first = max(0, int(min(max((-2 - start - at * size) / step, 0), samples)) - 2)
        last = min(samples, int(min(max((length + 2 - start - at * size) / step, 0), samples)) + 2)
    for sample in range(first, last):
        for pixel, weight in _taps(start + at * size + (sample + 0.5) * step, length):
            weights[pixel] += weight
    return weights


def _bins(
    boxes: NDArray[Any], images: NDArray[Any], count: int, spatial: Any, bins: Any, given: Any
) -> Iterator[tuple[int, int, int, int, NDArray[Any]]]:
    """(box, image, row, column, weights of the image's pixels) of all bins whose image there is."""
    attributes = {"scale": 1.0, "samples": 0, "aligned": 0} | given
    for box, image in enumerate(images):
        if not 0 <= image < count:
            continue
        x0, y0, x1, y1 = (float(corner) for corner in boxes[box])
        down, across = _places(y0, y1, bins[0], attributes), _places(x0, x1, bins[1], attributes)
        rows = [_weights(*down, row, spatial[0]) for row in range(bins[0])]
        columns = [_weights(*across, column, spatial[1]) for column in range(bins[1])]
        for row, column in np.ndindex(*bins):
            yield box, int(image), row, column, np.outer(rows[row], columns[column]) / max(down[2] * across[2], 1)


def roi_align(
    x: NDArray[Any], boxes: NDArray[Any], images: NDArray[Any], bins: tuple[int, int], **attributes: Any
) -> NDArray[Any]:
    """y (R, C, rows, columns); ``bins`` are the last two."""
    y = np.zeros((boxes.shape[0], x.shape[1], *bins))
    for box, image, row, column, weights in _bins(boxes, images, x.shape[0], x.shape[2:], bins, attributes):
        y[box, :, row, column] = (x[image] * weights).sum(axis=(1, 2))
    return y


def roi_align_backward(
    dy: NDArray[Any], boxes: NDArray[Any], images: NDArray[Any], shape: tuple[int, ...], **attributes: Any
) -> NDArray[Any]:
    """dx of that shape."""
    dx = np.zeros(shape)
    for box, image, row, column, weights in _bins(boxes, images, shape[0], shape[2:], dy.shape[2:], attributes):
        dx[image] += dy[box, :, row, column, None, None] * weights
    return dx
