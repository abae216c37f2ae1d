"""UHAL_OP_GRID_SAMPLE and its gradients: what each place reads, for all places at a time."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .enums import GridSampleMode, GridSamplePadding

Array = NDArray[Any]


def _position(coordinate: Array, length: int, attributes: dict[str, Any]) -> tuple[Array, Array]:
    """Where coordinates lie, and the derivatives of that."""
    padding, corners, edge_gradient = (attributes[name] for name in ("padding", "align_corners", "edge_gradient"))
    slope = (length - 1) / 2 if corners else length / 2
    with np.errstate(invalid="ignore"):  # of infinite coordinates
        at = (coordinate + 1) * slope - (0.0 if corners else 0.5)
    if attributes["in_pixels"]:
        at, slope = coordinate, 1.0
    last = length - 1.0
    finite = np.isfinite(at)
    if padding == GridSamplePadding.ZEROS:
        return np.where(finite, at, -2.0), np.where(finite, slope, 0.0)
    slopes = np.full(at.shape, slope)
    if padding == GridSamplePadding.REFLECTION:
        low, span = (0.0, last) if corners else (-0.5, float(length))
        if span == 0:
            return np.zeros(at.shape), np.zeros(at.shape)
        with np.errstate(invalid="ignore"):
            rest = np.abs(at - low) % (2 * span)
        turns = rest > span
        slopes = np.where((at < low) == turns, slope, -slope)
        at = np.where(finite, low + np.where(turns, 2 * span - rest, rest), np.nan)
    inside = (at >= 0) & (at <= last) if edge_gradient else (at > 0) & (at < last)
    return np.where(np.isnan(at), 0.0, np.clip(at, 0.0, last)), np.where(inside, slopes, 0.0)


def _padded(pixel: Array, length: int, attributes: dict[str, Any]) -> Array:
    """The pixels that stand for those outside, if any do."""
    if attributes["padding"] == GridSamplePadding.BORDER:
        return np.clip(pixel, 0, length - 1)
    if attributes["padding"] == GridSamplePadding.REFLECTION:
        line = list(range(length))
        period = line + line[-2:0:-1] if attributes["align_corners"] else line + line[::-1]
        return np.asarray(np.array(period)[pixel % len(period)])
    return pixel


def _keys(d: Array) -> tuple[Array, Array]:
    """The cubic convolution's weights at distances, and their derivatives by those."""
    a = -0.75
    near = d <= 1
    weight = np.where(near, (a + 2) * d**3 - (a + 3) * d**2 + 1, a * (d**3 - 5 * d**2 + 8 * d - 4))
    return weight, np.where(near, 3 * (a + 2) * d**2 - 2 * (a + 3) * d, a * (3 * d**2 - 10 * d + 8))


def _cubic_taps(coordinate: Array, length: int, attributes: dict[str, Any]) -> list[tuple[Array, Array, Array]]:
    at, slope = _position(coordinate, length, attributes | {"padding": GridSamplePadding.ZEROS})
    nowhere = -4.0 if attributes["padding"] == GridSamplePadding.ZEROS else 0.0
    at = np.where((slope == 0) & ~np.isfinite(coordinate), nowhere, at)
    before = np.floor(at).astype(np.int64)
    taps = []
    for pixel in (before - 1, before, before + 1, before + 2):
        weight, derivative = _keys(np.abs(at - pixel))
        taps.append((_padded(pixel, length, attributes), weight, derivative * slope * np.where(at >= pixel, 1.0, -1.0)))
    return taps


def _axis_taps(coordinate: Array, length: int, attributes: dict[str, Any]) -> list[tuple[Array, Array, Array]]:
    """(pixels, weights, derivatives of the weights) along an axis."""
    if attributes["mode"] == GridSampleMode.CUBIC:
        return _cubic_taps(coordinate, length, attributes)
    at, slope = _position(coordinate, length, attributes)
    if attributes["mode"] == GridSampleMode.NEAREST:
        return [(np.rint(at).astype(np.int64), np.ones(at.shape), np.zeros(at.shape))]
    before = np.floor(at).astype(np.int64)
    return [(before, 1 - (at - before), -slope), (before + 1, at - before, slope)]


def _taps(
    grid: Array, images: Array | None, count: int, spatial: tuple[int, ...], attributes: dict[str, Any]
) -> tuple[tuple[Array, ...], Array, Array, Array]:
    """What the places of a grid (M, spatial..., coordinates) read of ``count`` images: for each tap of each place the
    (image, pixel), 0 where that is not there; whether it is there; the weight; and, with one axis more at the end,
    the weight's derivatives by the place's coordinates."""
    axes = [_axis_taps(grid[..., -1 - axis], length, attributes) for axis, length in enumerate(spatial)]
    chosen = list(product(*axes))
    pixels = [np.stack([taps[axis][0] for taps in chosen], -1) for axis in range(len(spatial))]
    weights = [np.stack([taps[axis][1] for taps in chosen], -1) for axis in range(len(spatial))]
    derivatives = [np.stack([taps[axis][2] for taps in chosen], -1) for axis in range(len(spatial))]
    slopes = [
        derivatives[axis] * math.prod(weights[:axis] + weights[axis + 1 :]) for axis in reversed(range(len(spatial)))
    ]
    numbers = np.arange(grid.shape[0]) if images is None else np.asarray(images).astype(np.int64)
    image = np.broadcast_to(numbers.reshape(-1, *[1] * len(spatial), 1), pixels[0].shape)
    index = (image, *pixels)
    there = np.logical_and.reduce([(at >= 0) & (at < length) for at, length in zip(index, (count, *spatial))])
    weight = np.asarray(math.prod(weights))
    return tuple(np.where(there, at, 0) for at in index), np.asarray(there), weight, np.stack(slopes, -1)


def _complete(attributes: dict[str, Any]) -> dict[str, Any]:
    return {"mode": 1, "padding": 0, "align_corners": 0, "edge_gradient": 0, "in_pixels": 0} | attributes


def _read(x: Array, index: tuple[Array, ...]) -> Array:
    """The channels of x (N, C, spatial...) at each (image, pixel), on the last axis."""
    if 0 in x.shape:
        return np.zeros((*index[0].shape, x.shape[1]))  # nothing is there
    return np.asarray(np.moveaxis(x, 1, -1)[index])


def grid_sample(
    x: Array, grid: Array, images: Array | None = None, *, absolute: bool = False, **attributes: Any
) -> Array:
    """y (M, C, spatial...) from x (N, C, spatial...) and grid (M, spatial..., coordinates); M is N without images.
    ``absolute``: by the absolute values of the weights, here and below."""
    index, there, weight, _ = _taps(grid, images, x.shape[0], x.shape[2:], _complete(attributes))
    weight = np.abs(weight) if absolute else weight
    terms = np.where(there[..., None], weight[..., None] * _read(x, index), 0)
    return np.moveaxis(terms.sum(axis=-2), -1, 1)


def backward_data(
    dy: Array,
    grid: Array,
    images: Array | None = None,
    *,
    shape: tuple[int, ...],
    absolute: bool = False,
    **attributes: Any,
) -> Array:
    """dx of that shape."""
    index, there, weight, _ = _taps(grid, images, shape[0], shape[2:], _complete(attributes))
    weight = np.abs(weight) if absolute else weight
    dx = np.zeros((shape[0], *shape[2:], shape[1]))
    terms = weight[..., None] * np.moveaxis(dy, 1, -1)[..., None, :]
    np.add.at(dx, tuple(at[there] for at in index), terms[there])
    return np.moveaxis(dx, -1, 1)


def backward_grid(
    dy: Array, x: Array, grid: Array, images: Array | None = None, *, absolute: bool = False, **attributes: Any
) -> Array:
    """dgrid; ``absolute``: the sum of its terms' absolute values instead."""
    index, there, _, slopes = _taps(grid, images, x.shape[0], x.shape[2:], _complete(attributes))
    terms = np.moveaxis(dy, 1, -1)[..., None, :] * _read(x, index)
    if absolute:
        terms, slopes = np.abs(terms), np.abs(slopes)
    return np.asarray(np.where(there[..., None], slopes * terms.sum(axis=-1)[..., None], 0).sum(axis=-2))
