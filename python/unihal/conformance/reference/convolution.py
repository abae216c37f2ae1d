"""UHAL_OP_CONVOLUTION and its gradients: a sum over the taps of the filter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .activation import activate

_ONE = (1, 1, 1)
_ZERO = (0, 0, 0)


@dataclass(frozen=True)
class _Geometry:
    """Which pixels of the padded image each tap of the filter meets."""

    stride: Sequence[int]
    dilation: Sequence[int]
    pad_before: Sequence[int]
    pad_after: Sequence[int]
    groups: int

    def padded(self, spatial: Sequence[int]) -> list[int]:
        return [length + self.pad_before[i] + self.pad_after[i] for i, length in enumerate(spatial)]

    def inside(self, spatial: Sequence[int]) -> tuple[slice, ...]:
        """Where the image lies in the padded one."""
        return tuple(slice(self.pad_before[i], self.pad_before[i] + length) for i, length in enumerate(spatial))

    def outputs(self, spatial: Sequence[int], taps: Sequence[int]) -> list[int]:
        """Output positions along each axis."""
        room = [
            length - self.dilation[i] * (tap - 1) - 1 for i, (length, tap) in enumerate(zip(self.padded(spatial), taps))
        ]
        return [length // self.stride[i] + 1 if length >= 0 else 0 for i, length in enumerate(room)]

    def taps(self, taps: Sequence[int], outputs: Sequence[int]) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        """Each tap, and the pixels of the padded image that it meets: one for each output position."""
        if 0 in outputs:
            return
        for tap in np.ndindex(*taps):
            first = [self.dilation[i] * t for i, t in enumerate(tap)]
            yield (
                tap,
                tuple(
                    slice(start, start + self.stride[i] * (outputs[i] - 1) + 1, self.stride[i])
                    for i, start in enumerate(first)
                ),
            )

    def split(self, array: NDArray[Any], axis: int) -> NDArray[Any]:
        """The channels at ``axis`` as (groups, channels of a group)."""
        shape = array.shape
        return array.reshape(*shape[:axis], self.groups, shape[axis] // self.groups, *shape[axis + 1 :])


def _last(index: Sequence[Any]) -> tuple[Any, ...]:
    """An index of the last axes."""
    return (..., *index)


def _padded_image(x: NDArray[Any], geometry: _Geometry) -> NDArray[Any]:
    padded = np.zeros((*x.shape[:2], *geometry.padded(x.shape[2:])), x.dtype)
    padded[_last(geometry.inside(x.shape[2:]))] = x
    return padded


def output_lengths(
    spatial: Sequence[int],
    taps: Sequence[int],
    *,
    stride: Sequence[int] = _ONE,
    dilation: Sequence[int] = _ONE,
    pad_before: Sequence[int] = _ZERO,
    pad_after: Sequence[int] = _ZERO,
) -> tuple[int, ...]:
    """The spatial lengths of y for those of x and w."""
    return tuple(_Geometry(stride, dilation, pad_before, pad_after, 1).outputs(spatial, taps))


def convolution(
    x: NDArray[Any],
    w: NDArray[Any],
    bias: NDArray[Any] | None = None,
    *,
    stride: Sequence[int] = _ONE,
    dilation: Sequence[int] = _ONE,
    pad_before: Sequence[int] = _ZERO,
    pad_after: Sequence[int] = _ZERO,
    groups: int = 1,
    activation: int = 0,
) -> NDArray[Any]:
    """y[n, o, i] = activation(bias[o] + sum over c, t of w[o, c, t] * x[n, c of o's group, pixel(i, t)]).

    pixel(i, t) = stride * i + dilation * t - pad_before; pixels outside x count as zero.
    """
    geometry = _Geometry(stride, dilation, pad_before, pad_after, groups)
    outputs = geometry.outputs(x.shape[2:], w.shape[2:])
    padded = geometry.split(_padded_image(x, geometry), 1)
    filters = geometry.split(w, 0)
    y = np.zeros((x.shape[0], groups, w.shape[0] // groups, *outputs))
    for tap, pixels in geometry.taps(w.shape[2:], outputs):
        y += np.einsum("ngc...,goc->ngo...", padded[_last(pixels)], filters[_last(tap)])
    y = y.reshape(x.shape[0], w.shape[0], *outputs)
    if bias is not None:
        y = y + bias.reshape(-1, *[1] * len(outputs))
    return activate(y, activation)


def convolution_backward_data(
    dy: NDArray[Any],
    w: NDArray[Any],
    x_shape: Sequence[int],
    *,
    stride: Sequence[int] = _ONE,
    dilation: Sequence[int] = _ONE,
    pad_before: Sequence[int] = _ZERO,
    pad_after: Sequence[int] = _ZERO,
    groups: int = 1,
) -> NDArray[Any]:
    """dx: each pixel gathers w * dy from all outputs that it took part in."""
    geometry = _Geometry(stride, dilation, pad_before, pad_after, groups)
    spatial = x_shape[2:]
    padded = np.zeros((x_shape[0], groups, x_shape[1] // groups, *geometry.padded(spatial)))
    gradient = geometry.split(dy, 1)
    filters = geometry.split(w, 0)
    for tap, pixels in geometry.taps(w.shape[2:], dy.shape[2:]):
        padded[_last(pixels)] += np.einsum("ngo...,goc->ngc...", gradient, filters[_last(tap)])
    return np.asarray(padded[_last(geometry.inside(spatial))].reshape(x_shape))


def convolution_backward_filter(
    x: NDArray[Any],
    dy: NDArray[Any],
    w_shape: Sequence[int],
    *,
    stride: Sequence[int] = _ONE,
    dilation: Sequence[int] = _ONE,
    pad_before: Sequence[int] = _ZERO,
    pad_after: Sequence[int] = _ZERO,
    groups: int = 1,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """(dw, dbias): dw[o, c, t] = sum over n, i of dy[n, o, i] * x at the tap; dbias[o] = sum of dy[:, o]."""
    geometry = _Geometry(stride, dilation, pad_before, pad_after, groups)
    padded = geometry.split(_padded_image(x, geometry), 1)
    gradient = geometry.split(dy, 1)
    outputs = int(np.prod(dy.shape[2:]))
    dw = np.zeros((groups, w_shape[0] // groups, *w_shape[1:]))
    for tap, pixels in geometry.taps(w_shape[2:], dy.shape[2:]):
        under = padded[_last(pixels)]
        columns = under.reshape(*under.shape[:3], outputs)
        dw[_last(tap)] = (gradient.reshape(*gradient.shape[:3], outputs) @ np.swapaxes(columns, -1, -2)).sum(axis=0)
    return dw.reshape(w_shape), dy.sum(axis=(0, *range(2, dy.ndim)))
