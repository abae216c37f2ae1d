"""UHAL_OP_GRID_SAMPLE and its gradients: what each place reads, as a matrix with a row for each place."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .enums import GridSampleMode, GridSamplePadding


def _position(coordinate: float, length: int, attributes: dict[str, Any]) -> tuple[float, float]:
    """Where a coordinate lies, and the derivative of that."""
    padding, corners, edge_gradient = (attributes[name] for name in ("padding", "align_corners", "edge_gradient"))
    slope = (length - 1) / 2 if corners else length / 2
    at = (coordinate + 1) * slope - (0.0 if corners else 0.5)
    if attributes["in_pixels"]:
        at, slope = coordinate, 1.0
    last = length - 1.0
    if padding == GridSamplePadding.ZEROS:
        return (at, slope) if math.isfinite(at) else (-2.0, 0.0)
    if padding == GridSamplePadding.REFLECTION:
        low, span = (0.0, last) if corners else (-0.5, float(length))
        if span == 0 or not math.isfinite(at):
            return 0.0, 0.0
        rest = abs(at - low) % (2 * span)
        turns = rest > span
        slope = slope if (at < low) == turns else -slope
        at = low + (2 * span - rest if turns else rest)
    if math.isnan(at):
        return 0.0, 0.0
    inside = 0 <= at <= last if edge_gradient else 0 < at < last
    return min(max(at, 0.0), last), slope if inside else 0.0


def _padded(pixel: int, length: int, attributes: dict[str, Any]) -> int:
    """The pixel that stands for one outside, if any does."""
    if attributes["padding"] == GridSamplePadding.BORDER:
        return min(max(pixel, 0), length - 1)
    if attributes["padding"] == GridSamplePadding.REFLECTION:
        line = list(range(length))
        period = line + line[-2:0:-1] if attributes["align_corners"] else line + line[::-1]
        return period[pixel % len(period)]
    return pixel


def _keys(d: float) -> tuple[float, float]:
    """The cubic convolution's weight at a distance, and its derivative by that."""
    a = -0.75
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1, 3 * (a + 2) * d**2 - 2 * (a + 3) * d
    return a * (d**3 - 5 * d**2 + 8 * d - 4), a * (3 * d**2 - 10 * d + 8)


def _cubic_taps(coordinate: float, length: int, attributes: dict[str, Any]) -> list[tuple[int, float, float]]:
    at, slope = _position(coordinate, length, attributes | {"padding": GridSamplePadding.ZEROS})
    if slope == 0 and not math.isfinite(coordinate):
        at = -4.0 if attributes["padding"] == GridSamplePadding.ZEROS else 0.0
    before = math.floor(at)
    taps = []
    for pixel in range(before - 1, before + 3):
        weight, derivative = _keys(abs(at - pixel))
        taps.append((_padded(pixel, length, attributes), weight, derivative * slope * (1 if at >= pixel else -1)))
    return taps


def _axis_taps(coordinate: float, length: int, attributes: dict[str, Any]) -> list[tuple[int, float, float]]:
    """(pixel, weight, derivative of the weight) along an axis."""
    if attributes["mode"] == GridSampleMode.CUBIC:
        return _cubic_taps(coordinate, length, attributes)
    at, slope = _position(coordinate, length, attributes)
    if attributes["mode"] == GridSampleMode.NEAREST:
        return [(int(np.rint(at)), 1.0, 0.0)]
    before = math.floor(at)
    return [(before, 1 - (at - before), -slope), (before + 1, at - before, slope)]


def _taps(
    place: NDArray[Any], spatial: tuple[int, ...], attributes: dict[str, Any]
) -> Iterator[tuple[tuple[int, ...], float, list[float]]]:
    """(pixel, weight, its derivatives by the place's coordinates) of the taps that are inside."""
    axes = [_axis_taps(float(place[-1 - axis]), length, attributes) for axis, length in enumerate(spatial)]
    for chosen in product(*axes):
        pixel = tuple(tap[0] for tap in chosen)
        if not all(0 <= at < length for at, length in zip(pixel, spatial)):
            continue
        weights = [tap[1] for tap in chosen]
        slopes = [
            chosen[axis][2] * math.prod(weights[:axis] + weights[axis + 1 :]) for axis in reversed(range(len(spatial)))
        ]
        yield pixel, math.prod(weights), slopes


def _complete(attributes: dict[str, Any]) -> dict[str, Any]:
    return {"mode": 1, "padding": 0, "align_corners": 0, "edge_gradient": 0, "in_pixels": 0} | attributes


def _sampled(grid: NDArray[Any], images: NDArray[Any] | None, count: int) -> Iterator[Any]:
    """(grid, its image of ``count``, place) of all places whose image there is."""
    for m, *place in np.ndindex(*grid.shape[:-1]):
        n = m if images is None else int(images[m])
        if 0 <= n < count:
            yield m, n, tuple(place)


def grid_sample(
    x: NDArray[Any],
    grid: NDArray[Any],
    images: NDArray[Any] | None = None,
    *,
    absolute: bool = False,
    **attributes: Any,
) -> NDArray[Any]:
    """y (M, C, spatial...) from x (N, C, spatial...) and grid (M, spatial..., coordinates); M is N without images.
    ``absolute``: by the absolute values of the weights, here and below."""
    y = np.zeros((grid.shape[0], x.shape[1], *grid.shape[1:-1]))
    for m, n, place in _sampled(grid, images, x.shape[0]):
        for pixel, weight, _ in _taps(grid[(m, *place)], x.shape[2:], _complete(attributes)):
            y[(m, slice(None), *place)] += (abs(weight) if absolute else weight) * x[(n, slice(None), *pixel)]
    return y


def backward_data(
    dy: NDArray[Any],
    grid: NDArray[Any],
    images: NDArray[Any] | None = None,
    *,
    shape: tuple[int, ...],
    absolute: bool = False,
    **attributes: Any,
) -> NDArray[Any]:
    """dx of that shape."""
    dx, spatial = np.zeros(shape), shape[2:]
    for m, n, place in _sampled(grid, images, shape[0]):
        for pixel, weight, _ in _taps(grid[(m, *place)], spatial, _complete(attributes)):
            dx[(n, slice(None), *pixel)] += (abs(weight) if absolute else weight) * dy[(m, slice(None), *place)]
    return dx


def backward_grid(
    dy: NDArray[Any],
    x: NDArray[Any],
    grid: NDArray[Any],
    images: NDArray[Any] | None = None,
    *,
    absolute: bool = False,
    **attributes: Any,
) -> NDArray[Any]:
    """dgrid; ``absolute``: the sum of its terms' absolute values instead."""
    dgrid = np.zeros(grid.shape)
    for m, n, place in _sampled(grid, images, x.shape[0]):
        for pixel, _, slopes in _taps(grid[(m, *place)], x.shape[2:], _complete(attributes)):
            terms = dy[(m, slice(None), *place)] * x[(n, slice(None), *pixel)]
            if absolute:
                dgrid[(m, *place)] += np.abs(slopes) * np.abs(terms).sum()
            else:
                dgrid[(m, *place)] += np.array(slopes) * terms.sum()
    return dgrid
