"""Convolution, pooling and resizing. Images are (N, C, spatial...), filters (O, C / groups, spatial...)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Union

from .. import _core, errors
from ..arguments import whole_numbers
from ..buffer import Buffer
from ..stream import Stream
from .launch import axis_of, index_dtype, launch, output, prepared
from .linear import ACTIVATIONS, MATH_MODES, Activation, MathMode

#: One number for all spatial axes, or one for each.
PerAxis = Union[int, Sequence[int]]

#: As PerAxis, or a pair (before, after) for each spatial axis.
Padding = Union[int, Sequence[int], Sequence[tuple[int, int]]]

_POOL_MAXIMUM = 0
_POOL_AVERAGE_INCLUDE_PADDING = 1
_POOL_AVERAGE_EXCLUDE_PADDING = 2

_RESIZE_MODES: dict[str, int] = {"nearest": 0, "linear": 1, "cubic": 2}
_SAMPLE_MODES: dict[str, int] = {"nearest": 0, "linear": 1, "cubic": 2}
_SAMPLE_PADDINGS: dict[str, int] = {"zeros": 0, "border": 1, "reflection": 2}

SampleMode = Literal["nearest", "linear", "cubic"]
SamplePadding = Literal["zeros", "border", "reflection"]


@dataclass(frozen=True)
class _Window:
    """Where windows lie along the spatial axes."""

    stride: tuple[int, ...]
    pad_before: tuple[int, ...]
    pad_after: tuple[int, ...]

    @classmethod
    def of(cls, rank: int, stride: PerAxis, padding: Padding) -> _Window:
        given: Any = padding  # NumPy's numbers and arrays too
        sides = list(given) if hasattr(given, "__len__") else [given] * rank
        pairs = [(entry[0], entry[1]) if hasattr(entry, "__len__") else (entry, entry) for entry in sides]
        if len(pairs) != rank:
            raise errors.InvalidArgumentError(f"the padding {padding} has {len(pairs)} entries for {rank} spatial axes")
        steps = _per_axis("stride", stride, rank)
        return cls(steps, tuple(before for before, _ in pairs), tuple(after for _, after in pairs))

    def attributes(self) -> dict[str, Any]:
        return {"stride": self.stride, "pad_before": self.pad_before, "pad_after": self.pad_after}


@functools.lru_cache(maxsize=1024)
def _output_shape(
    window: _Window, spatial: tuple[int, ...], extent: tuple[int, ...], ceil_mode: bool = False
) -> tuple[int, ...]:
    """The number of windows of an extent along each axis; in ceil mode with those that reach beyond the padding."""
    shape = []
    for length, reach, step, before, after in zip(spatial, extent, window.stride, window.pad_before, window.pad_after):
        room = length + before + after - reach
        count = room // step + 1
        # A window more, unless it would begin behind the image.
        if ceil_mode and room >= 0 and room % step != 0 and count * step < length + before:
            count += 1
        shape.append(count)
    if any(length < 1 for length in shape):
        raise errors.InvalidArgumentError(
            f"a window of {extent} does not fit into {spatial} with padding {window.pad_before} before and "
            f"{window.pad_after} after"
        )
    return tuple(shape)


def _per_axis(name: str, value: PerAxis, rank: int) -> tuple[int, ...]:
    given = whole_numbers(value)
    entries = given if hasattr(value, "__len__") else given * rank
    if len(entries) != rank or any(entry < 1 for entry in entries):
        raise errors.InvalidArgumentError(f"{name} is {value}; expected {rank} positive numbers, or one for all axes")
    return tuple(entries)


@dataclass(frozen=True)
class _Convolution:
    """What the shapes of a convolution and of its gradients follow from, and their attributes."""

    window: _Window
    dilation: tuple[int, ...]
    attributes: _core.Attributes
    #: The results' shapes by those of images and filters, as far as they were asked for.
    shapes: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, ...]] = field(default_factory=dict, compare=False)

    #: Programs whose images change all the time start again at this number.
    MOST_SHAPES: ClassVar[int] = 256

    def shape_of(self, x: tuple[int, ...], w: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the result."""
        found = self.shapes.get((x, w))
        if found is not None:
            return found
        if len(w) != len(x):
            raise errors.InvalidArgumentError(f"the filter {w} and the image {x} differ in rank")
        extent = tuple((length - 1) * step + 1 for length, step in zip(w[2:], self.dilation))
        made = (x[0], w[0], *_output_shape(self.window, x[2:], extent))
        if len(self.shapes) >= self.MOST_SHAPES:
            self.shapes.clear()
        self.shapes[x, w] = made
        return made

    @classmethod
    def of(
        cls,
        rank: int,
        stride: PerAxis,
        padding: Padding,
        dilation: PerAxis,
        groups: int,
        math_mode: MathMode,
        activation: Activation = "none",
    ) -> _Convolution:
        window = _Window.of(rank, stride, padding)
        spread = _per_axis("dilation", dilation, rank)
        values = {
            **window.attributes(),
            "dilation": spread,
            "groups": groups,
            "activation": ACTIVATIONS[activation],
            "math_mode": MATH_MODES[math_mode],
        }
        return cls(window, spread, prepared("convolution", values))


#: A network's layers ask for the same few in each step. Types count: 1.0 is no whole number.
_kept_convolution = functools.lru_cache(maxsize=1024, typed=True)(_Convolution.of)


def _convolution(
    rank: int,
    stride: PerAxis,
    padding: Padding,
    dilation: PerAxis,
    groups: int,
    math_mode: MathMode,
    activation: Activation = "none",
) -> _Convolution:
    # Of numbers it is kept, not of lists or of tuples of anything.
    if isinstance(stride, int) and isinstance(padding, int) and isinstance(dilation, int):
        return _kept_convolution(rank, stride, padding, dilation, groups, math_mode, activation)
    return _Convolution.of(rank, stride, padding, dilation, groups, math_mode, activation)


def _spatial_rank(x: Buffer) -> int:
    if not 3 <= x.ndim <= 5:
        raise errors.InvalidArgumentError(f"images have the shape (N, C, spatial...) with 3 to 5 axes, not {x.shape}")
    return x.ndim - 2


def convolution(
    x: Buffer,
    w: Buffer,
    bias: Buffer | None = None,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    activation: Activation = "none",
    math_mode: MathMode = "strict",
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """Cross-correlation of images with filters, as all frameworks mean by convolution."""
    kept = _convolution(_spatial_rank(x), stride, padding, dilation, groups, math_mode, activation)
    y = output(kept.shape_of(x.shape, w.shape), x.dtype, x, out, stream)
    launch("convolution", [x, w, bias], [y], kept.attributes, stream=stream)
    return y


def convolution_backward_data(
    dy: Buffer,
    w: Buffer,
    x_shape: Sequence[int],
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    math_mode: MathMode = "strict",
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """The gradient of the image; also the forward transposed convolution."""
    rank = _spatial_rank(dy)
    dx = output(x_shape, dy.dtype, dy, out, stream)
    attributes = _convolution(rank, stride, padding, dilation, groups, math_mode).attributes
    launch("convolution_backward_data", [dy, w], [dx], attributes, stream=stream)
    return dx


def convolution_backward_filter(
    x: Buffer,
    dy: Buffer,
    w_shape: Sequence[int],
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    math_mode: MathMode = "strict",
    with_bias: bool = False,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> tuple[Buffer, Buffer | None]:
    """The gradients of the filter, into ``out`` if it is given, and, if wanted, of the bias."""
    rank = _spatial_rank(x)
    dw = output(w_shape, x.dtype, x, out, stream)
    dbias = output((w_shape[0],), x.dtype, x, stream=stream) if with_bias else None
    attributes = _convolution(rank, stride, padding, dilation, groups, math_mode).attributes
    launch("convolution_backward_filter", [x, dy], [dw, dbias], attributes, stream=stream)
    return dw, dbias


def max_pool(
    x: Buffer,
    window: PerAxis,
    *,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    indices_dtype: str | None = None,
    stream: Stream | None = None,
) -> tuple[Buffer, Buffer | None]:
    """The greatest of each window and, if ``indices_dtype`` is given, its flat spatial index in ``x``.

    In ceil mode windows may reach beyond the image and its padding, as long as they begin before its end.
    """
    shape, attributes = _pool(x, window, stride, padding, _POOL_MAXIMUM, ceil_mode)
    return _max_pool(x, shape, attributes, indices_dtype, stream)


def adaptive_max_pool(
    x: Buffer, size: PerAxis, *, indices_dtype: str | None = None, stream: Stream | None = None
) -> tuple[Buffer, Buffer | None]:
    """As ``max_pool``, with windows that divide the image evenly into the given size."""
    shape, attributes = _adaptive(x, size, _POOL_MAXIMUM)
    return _max_pool(x, shape, attributes, indices_dtype, stream)


def _max_pool(
    x: Buffer, shape: Sequence[int], attributes: dict[str, Any], indices_dtype: str | None, stream: Stream | None
) -> tuple[Buffer, Buffer | None]:
    y = output(shape, x.dtype, x, stream=stream)
    indices = output(shape, index_dtype(indices_dtype), x, stream=stream) if indices_dtype is not None else None
    launch("pool", [x], [y, indices], attributes, stream=stream)
    return y, indices


def average_pool(
    x: Buffer,
    window: PerAxis,
    *,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    include_padding: bool = False,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """The mean of each window; ceil mode as for ``max_pool``."""
    mode = _POOL_AVERAGE_INCLUDE_PADDING if include_padding else _POOL_AVERAGE_EXCLUDE_PADDING
    shape, attributes = _pool(x, window, stride, padding, mode, ceil_mode)
    y = output(shape, x.dtype, x, out, stream)
    launch("pool", [x], [y], attributes, stream=stream)
    return y


def adaptive_average_pool(
    x: Buffer, size: PerAxis, *, out: Buffer | None = None, stream: Stream | None = None
) -> Buffer:
    """The means of windows that divide the image evenly into the given size."""
    shape, attributes = _adaptive(x, size, _POOL_AVERAGE_EXCLUDE_PADDING)
    y = output(shape, x.dtype, x, out, stream)
    launch("pool", [x], [y], attributes, stream=stream)
    return y


def pool_backward(
    dy: Buffer,
    x: Buffer,
    y: Buffer,
    window: PerAxis,
    *,
    mode: Literal["max", "average"] = "max",
    stride: PerAxis | None = None,
    padding: Padding = 0,
    include_padding: bool = False,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """The gradient of the pooled image ``x``; ``y`` is the forward's output, in ceil mode or not."""
    if mode == "max":
        number = _POOL_MAXIMUM
    else:
        number = _POOL_AVERAGE_INCLUDE_PADDING if include_padding else _POOL_AVERAGE_EXCLUDE_PADDING
    _, attributes = _pool(x, window, stride, padding, number)
    return _pool_backward(dy, x, y, attributes, out, stream)


def adaptive_pool_backward(
    dy: Buffer,
    x: Buffer,
    y: Buffer,
    *,
    mode: Literal["max", "average"] = "max",
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """The gradient of the image ``x`` of ``adaptive_max_pool`` or ``adaptive_average_pool``."""
    number = _POOL_MAXIMUM if mode == "max" else _POOL_AVERAGE_EXCLUDE_PADDING
    _, attributes = _adaptive(x, y.shape[2:], number)
    return _pool_backward(dy, x, y, attributes, out, stream)


def _pool_backward(
    dy: Buffer, x: Buffer, y: Buffer, attributes: dict[str, Any], out: Buffer | None, stream: Stream | None
) -> Buffer:
    dx = output(x.shape, x.dtype, x, out, stream)
    operands = [dy, x, y] if attributes["mode"] == _POOL_MAXIMUM else [dy]
    launch("pool_backward", operands, [dx], attributes, stream=stream)
    return dx


def _pool(
    x: Buffer, window: PerAxis, stride: PerAxis | None, padding: Padding, mode: int, ceil_mode: bool = False
) -> tuple[list[int], dict[str, Any]]:
    """The output's shape and the attributes."""
    rank = _spatial_rank(x)
    extent = _per_axis("window", window, rank)
    placed = _Window.of(rank, extent if stride is None else stride, padding)
    shape = [*x.shape[:2], *_output_shape(placed, x.shape[2:], extent, ceil_mode)]
    return shape, {**placed.attributes(), "window": extent, "mode": mode}


def _adaptive(x: Buffer, size: PerAxis, mode: int) -> tuple[list[int], dict[str, Any]]:
    """The same for windows that are given by their number."""
    shape = [*x.shape[:2], *_per_axis("size", size, _spatial_rank(x))]
    return shape, {"mode": mode, "adaptive": 1}


def resize(
    x: Buffer,
    size: Sequence[int],
    mode: Literal["nearest", "linear", "cubic"] = "nearest",
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
    scale: float | Sequence[float] = 0,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """The image at another spatial size.

    ``scale`` is the step in ``x`` per step in the output, one for all axes or one for each; 0: from the sizes.
    """
    y = output((*x.shape[:2], *size), x.dtype, x, out, stream)
    attributes = _resize_attributes(x, mode, align_corners, half_pixel_centers, scale)
    launch("resize", [x], [y], attributes, stream=stream)
    return y


def resize_backward(
    dy: Buffer,
    x_shape: Sequence[int],
    mode: Literal["nearest", "linear", "cubic"] = "nearest",
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
    scale: float | Sequence[float] = 0,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """The gradient of the resized image."""
    dx = output(x_shape, dy.dtype, dy, out, stream)
    attributes = _resize_attributes(dy, mode, align_corners, half_pixel_centers, scale)
    launch("resize_backward", [dy], [dx], attributes, stream=stream)
    return dx


def _resize_attributes(
    x: Buffer, mode: str, align_corners: bool, half_pixel_centers: bool, scale: float | Sequence[float]
) -> dict[str, Any]:
    rank = _spatial_rank(x)
    scales = [scale] * rank if isinstance(scale, (int, float)) else list(scale)
    if len(scales) != rank or any(entry < 0 for entry in scales):
        raise errors.InvalidArgumentError(
            f"scale is {scale}; expected {rank} steps that are positive or 0, or one for all axes"
        )
    return {
        "mode": _RESIZE_MODES[mode],
        "align_corners": int(align_corners),
        "half_pixel_centers": int(half_pixel_centers),
        "scale": scales,
    }


def resample(
    x: Buffer,
    first: Buffer,
    weights: Buffer,
    axis: int,
    *,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """Weighted sums of neighbours along an axis: element i is the sum over t of ``weights[i, t] * x[first[i] + t]``.

    ``first`` (n, int32) may lie outside: what is not there counts as 0, and so does what a weight of 0 meets. A resize
    by any kernel is one call for each axis; its gradient is that with the tables of the transpose.
    """
    number = axis_of(x, axis)
    y = output((*x.shape[:number], weights.shape[0], *x.shape[number + 1 :]), x.dtype, x, out, stream)
    launch("resample", [x, first, weights], [y], {"axis": number}, stream=stream)
    return y


def roi_align(
    x: Buffer,
    boxes: Buffer,
    images: Buffer,
    bins: PerAxis,
    *,
    scale: float = 1,
    samples: int = 0,
    aligned: bool = False,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """The means of the bins of regions of images (N, C, height, width): (boxes, C, rows, columns).

    A box is (x0, y0, x1, y1), in pixels once it is multiplied by ``scale``; box r is of image ``images[r]`` (int32).
    Each bin has ``samples`` x ``samples`` places, or for 0 as many as it has pixels.
    """
    y = output((boxes.shape[0], x.shape[1], *_per_axis("bins", bins, 2)), x.dtype, x, out, stream)
    launch("roi_align", [x, boxes, images], [y], _region_attributes(scale, samples, aligned), stream=stream)
    return y


def roi_align_backward(
    dy: Buffer,
    boxes: Buffer,
    images: Buffer,
    x_shape: Sequence[int],
    *,
    scale: float = 1,
    samples: int = 0,
    aligned: bool = False,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """The gradient of the images."""
    dx = output(x_shape, dy.dtype, dy, out, stream)
    attributes = _region_attributes(scale, samples, aligned)
    launch("roi_align_backward", [dy, boxes, images], [dx], attributes, stream=stream)
    return dx


def _region_attributes(scale: float, samples: int, aligned: bool) -> dict[str, Any]:
    return {"scale": scale, "samples": samples, "aligned": int(aligned)}


def roi_pool(
    x: Buffer,
    boxes: Buffer,
    images: Buffer,
    bins: PerAxis,
    mode: Literal["max", "average_by_position"] = "max",
    *,
    scale: float = 1,
    stream: Stream | None = None,
) -> tuple[Buffer, Buffer | None]:
    """Pools of whole pixels of images (N, C, height, width) over the bins of regions: (boxes, D, rows, columns), and
    for ``max`` the pixels of the maxima in the same shape (int64; row * width + column, -1: none), else None.

    A box is (x0, y0, x1, y1), in pixels once it is multiplied by ``scale``; box r is of image ``images[r]`` (int32).
    D is C for ``max``; for ``average_by_position`` x has a channel for each channel and bin of the result.
    """
    rows, columns = _per_axis("bins", bins, 2)
    is_max = mode == "max"
    depth = x.shape[1] if is_max else x.shape[1] // max(rows * columns, 1)
    y = output((boxes.shape[0], depth, rows, columns), x.dtype, x, None, stream)
    indices = output(y.shape, "int64", x, None, stream) if is_max else None
    outputs = [y] if indices is None else [y, indices]
    launch("roi_pool", [x, boxes, images], outputs, {"mode": int(not is_max), "scale": scale}, stream=stream)
    return y, indices


def roi_pool_backward(
    dy: Buffer,
    boxes: Buffer,
    images: Buffer,
    x_shape: Sequence[int],
    indices: Buffer | None = None,
    *,
    scale: float = 1,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """The gradient of the images: of maxima with their ``indices``, of averages by position without."""
    dx = output(x_shape, dy.dtype, dy, out, stream)
    inputs = [dy, boxes, images] if indices is None else [dy, boxes, images, indices]
    launch("roi_pool_backward", inputs, [dx], {"mode": int(indices is None), "scale": scale}, stream=stream)
    return dx


def non_max_suppression(
    boxes: Buffer,
    threshold: float = 0.5,
    *,
    decay: float = 1,
    extent: float = 0,
    ordered: bool = False,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """Of boxes (n, 4) in their order: whether no box kept before overlaps one by more than ``threshold``; bool (n).

    A box is two opposite corners (x, y, x, y); boxes overlap by the area that they share over the area that they cover.
    Of lists of boxes (lists, n, 4) each is worked on by itself. While the threshold is above 0.5, each box that is kept
    multiplies it by ``decay``. ``ordered`` boxes have the low corner first and are longer than their corners are apart
    by ``extent``; include/unihal/op.h says what then becomes of boxes without area.
    """
    keep = output(boxes.shape[:-1], "bool", boxes, out, stream)
    attributes = {"threshold": threshold, "decay": decay, "extent": extent, "ordered": int(ordered)}
    launch("non_max_suppression", [boxes], [keep], attributes, stream=stream)
    return keep


def grid_sample(
    x: Buffer,
    grid: Buffer,
    mode: SampleMode = "linear",
    *,
    padding: SamplePadding = "zeros",
    align_corners: bool = False,
    in_pixels: bool = False,
    images: Buffer | None = None,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """Images (N, C, spatial...) of two or three spatial axes at the places that ``grid`` (N, spatial..., 2 or 3) names.

    A place has a coordinate for each spatial axis, that of the last one first: -1 and 1 are the outer edges of the
    first and the last pixel, with ``align_corners`` their centres. Outside are zeros, the nearest pixel, or the
    image's reflection. Of two pixels as near the even one is taken. ``cubic``, of two spatial axes, weighs four by four
    pixels by cubic convolution with a = -0.75. With ``in_pixels`` a coordinate is itself the
    position among the pixels, from 0. With ``images`` (int32) there are any number of grids, each of the image that it
    names.
    """
    _spatial_rank(x)
    y = output((grid.shape[0], x.shape[1], *grid.shape[1:-1]), x.dtype, x, out, stream)
    attributes = _sample_attributes(mode, padding, align_corners, in_pixels)
    launch("grid_sample", _with_images([x, grid], images), [y], attributes, stream=stream)
    return y


def grid_sample_backward_data(
    dy: Buffer,
    grid: Buffer,
    x_shape: Sequence[int],
    mode: SampleMode = "linear",
    *,
    padding: SamplePadding = "zeros",
    align_corners: bool = False,
    in_pixels: bool = False,
    images: Buffer | None = None,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """The gradient of the images."""
    dx = output(x_shape, dy.dtype, dy, out, stream)
    attributes = _sample_attributes(mode, padding, align_corners, in_pixels)
    launch("grid_sample_backward_data", _with_images([dy, grid], images), [dx], attributes, stream=stream)
    return dx


def grid_sample_backward_grid(
    dy: Buffer,
    x: Buffer,
    grid: Buffer,
    mode: SampleMode = "linear",
    *,
    padding: SamplePadding = "zeros",
    align_corners: bool = False,
    edge_gradient: bool = False,
    in_pixels: bool = False,
    images: Buffer | None = None,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """The gradient of the places; with ``edge_gradient`` also of those that padding finds or leaves at an end."""
    dgrid = output(grid.shape, grid.dtype, dy, out, stream)
    attributes = _sample_attributes(mode, padding, align_corners, in_pixels) | {"edge_gradient": int(edge_gradient)}
    launch("grid_sample_backward_grid", _with_images([dy, x, grid], images), [dgrid], attributes, stream=stream)
    return dgrid


def _with_images(operands: list[Buffer], images: Buffer | None) -> list[Buffer]:
    return operands if images is None else [*operands, images]


def _sample_attributes(mode: str, padding: str, align_corners: bool, in_pixels: bool) -> dict[str, Any]:
    return {
        "mode": _SAMPLE_MODES[mode],
        "padding": _SAMPLE_PADDINGS[padding],
        "align_corners": int(align_corners),
        "in_pixels": int(in_pixels),
    }
