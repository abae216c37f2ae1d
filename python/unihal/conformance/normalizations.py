"""Cases of batch, layer, group and RMS norm; their gradients are in normalization_gradients.py.

Errors. A mean of n elements is off by roundings of sum|x| / n. The variance's error is relative to sqrt(variance) times
the root mean square of x, as it is with Welford's and with two-pass methods (Chan, Golub and LeVeque, Algorithms for
computing the sample variance, The American Statistician 37, 1983); the difference of a mean of squares and a squared
mean would be off by roundings of the mean square itself, and does not pass where the mean is large.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Optional

import numpy as np

from .activations import activated
from .case import Array, Case, Expected, Operand, Values, written
from .layout import IMAGE_LAYOUTS
from .reference import normalization
from .reference.enums import Activation
from .sweep import FLOATING, shape_name, sweep
from .tolerance import summation_roundings, unit_roundoff
from .values import normal, uniform

#: Differences, quotients, a root (rsqrt may be off by 2 ulps) and products besides the sums.
ROUNDINGS = 16

_Shape = tuple[int, ...]

_IMAGES: tuple[_Shape, ...] = (
    (4, 6, 5, 3),
    (3, 6),
    (2, 6, 31),
    (2, 6, 3, 4, 5),
    (1, 6, 2, 2),
    (5, 6, 1, 1),
    (8, 66, 17, 15),
    (2, 65538, 2),
    (65539, 2),
)
_EMPTY_IMAGES: tuple[_Shape, ...] = ((2, 0, 3, 4), (0, 6, 3, 4))

#: (shape, first normalized axis).
_ROWS: tuple[tuple[_Shape, int], ...] = (
    ((3, 5, 7), -1),
    ((3, 5, 7), 1),
    ((3, 5, 7), 0),
    ((3, 5, 7), 2),
    ((31,), 0),
    ((4, 1), -1),
    ((0, 5), -1),
    ((5, 1031), -1),
    ((1031, 300), 1),
    ((2, 70001), 1),
    ((65539, 3), -1),
    ((2, 1, 3, 2, 2, 1, 3), 3),
)


@dataclass(frozen=True, eq=False)
class Problem:
    """One normalization: which statistics there are of x, and what scale and bias look like."""

    kind: str
    x: _Shape
    attributes: dict[str, Any]

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that statistics are taken over, of ``grouped(x)``."""
        if self.kind == "batch_norm":
            return (0, *range(2, len(self.x)))
        if self.kind == "group_norm":
            return (2,)
        return tuple(range(self.attributes["axis"] % len(self.x), len(self.x)))

    def grouped(self, x: Array) -> Array:
        """x with the axes that ``axes`` speaks of."""
        if self.kind != "group_norm":
            return x
        groups = self.attributes["groups"]
        return x.reshape(x.shape[0], groups, int(np.prod(x.shape[1:])) // groups)

    @property
    def scale(self) -> _Shape:
        """The shape of scale and bias."""
        if self.kind in ("batch_norm", "group_norm"):
            return (self.x[1],)
        return self.x[self.axes[0] :]

    @property
    def statistics(self) -> _Shape:
        """The shape of mean and variance."""
        if self.kind == "batch_norm":
            return (self.x[1],)
        if self.kind == "group_norm":
            return (self.x[0], self.attributes["groups"])
        return tuple(1 if axis in self.axes else length for axis, length in enumerate(self.x))

    @property
    def terms(self) -> int:
        """Elements behind each statistic."""
        statistics = max(1, int(np.prod(self.statistics)))
        return max(1, int(np.prod(self.x)) // statistics)

    @property
    def name(self) -> str:
        """For the names of cases."""
        text = shape_name(self.x)
        if "axis" in self.attributes:
            text += f"/axis{self.attributes['axis']}"
        if "groups" in self.attributes:
            text += f"/groups{self.attributes['groups']}"
        return text


def statistics_dtype(dtype: str) -> str:
    """The dtype of statistics, scale and bias beside x."""
    return "float64" if dtype == "float64" else "float32"


SCALES: Values = uniform(0.5, 1.5)
_OptionalArray = Optional[Array]


@dataclass(frozen=True)
class Sizes:
    """Magnitudes that errors are relative to; they broadcast against the grouped x."""

    normalized: Array  # of (x - mean) / sqrt(variance + epsilon)
    mean: Array
    variance: Array
    inverse: Array


def sizes_of(problem: Problem, x: Array, epsilon: float) -> Sizes:
    """The magnitudes for an x."""
    grouped = problem.grouped(x)
    axes = problem.axes
    with np.errstate(invalid="ignore", divide="ignore"):
        centred = problem.kind != "rms_norm"
        mean = grouped.mean(axis=axes, keepdims=True) if centred else np.zeros(())
        variance = np.mean((grouped - mean) ** 2, axis=axes, keepdims=True)
        square = np.mean(grouped**2, axis=axes, keepdims=True)
        absolute = np.mean(np.abs(grouped), axis=axes, keepdims=True) if centred else np.zeros(())
    inverse = 1 / np.sqrt(variance + epsilon)
    # The square of the mean's own error comes on top: all there is where x is constant.
    of_mean = (summation_roundings(problem.terms) + ROUNDINGS) * unit_roundoff("float32")
    spread = np.sqrt(variance * square) + of_mean * square
    normalized = (np.abs(grouped) + absolute) * inverse + np.abs(grouped - mean) * inverse * spread * inverse**2
    return Sizes(normalized, absolute, spread, inverse)


def _forward_expected(problem: Problem, inputs: Sequence[Any], attributes: dict[str, Any]) -> list[Expected | None]:
    epsilon = attributes.get("epsilon", 1e-5)
    linear = {name: value for name, value in attributes.items() if name != "activation"}
    x, scale = inputs[0], inputs[1]
    bias = inputs[2] if problem.kind != "rms_norm" else None
    given = inputs if problem.kind != "rms_norm" else inputs[:2]
    values = getattr(normalization, problem.kind)(*given, **linear)
    roundings = summation_roundings(problem.terms) + ROUNDINGS
    sizes = sizes_of(problem, x, epsilon)
    magnitude = sizes.normalized.reshape(x.shape)
    if attributes.get("inference"):
        inverse = _per_channel(1 / np.sqrt(inputs[4] + epsilon), x.ndim)
        magnitude = (np.abs(x) + np.abs(_per_channel(inputs[3], x.ndim))) * inverse
    magnitude = magnitude * np.abs(beside(problem, scale, 1.0)) + np.abs(beside(problem, bias, 0.0))
    y = activated(Expected(values[0], roundings, magnitude), attributes.get("activation", Activation.NONE))
    if attributes.get("inference"):
        return [y, None, None, None, None]
    if problem.kind == "rms_norm":
        return [y, Expected(values[1], roundings)]
    statistics: list[Expected | None] = [
        Expected(values[1], roundings, sizes.mean.reshape(values[1].shape)),
        Expected(values[2], roundings, sizes.variance.reshape(values[2].shape)),
    ]
    for value, size, former in zip(values[3:], (sizes.mean, sizes.variance), inputs[3:]):
        if value is None:
            statistics.append(None)
        else:
            # The unbiased variance is up to twice the biased one, of two elements.
            statistics.append(Expected(value, roundings, 2 * size.reshape(value.shape) + np.abs(former)))
    return [y, *statistics]


def _per_channel(vector: Array, rank: int) -> Array:
    return vector.reshape(1, -1, *[1] * (rank - 2))


def beside(problem: Problem, vector: _OptionalArray, otherwise: float) -> Array:
    """Scale or bias as it broadcasts against x."""
    if vector is None:
        return np.full((), otherwise)
    if problem.kind in ("batch_norm", "group_norm"):
        return _per_channel(vector, len(problem.x))
    return vector


def _outputs(
    problem: Problem, statistics: str, layout: str, attributes: dict[str, Any], running: bool
) -> list[Operand | None]:
    """All outputs but y."""
    if attributes.get("inference"):
        return [None] * 4
    one = written(statistics, problem.statistics, layout)
    if problem.kind == "rms_norm":
        return [one]
    if problem.kind == "batch_norm":
        return [one, one, *([one, one] if running else [None, None])]
    return [one, one]


def _forward_case(
    dtype: str,
    problem: Problem,
    layout: str,
    *,
    operands: str = "scale-bias",
    running: bool = True,
    extra: dict[str, Any] | None = None,
    values: Values | None = None,
    name: str = "",
) -> Case:
    attributes = {**problem.attributes, **(extra or {})}
    statistics = statistics_dtype(dtype)
    scale = Operand(statistics, problem.scale, SCALES, layout) if "scale" in operands else None
    bias = Operand(statistics, problem.scale, normal(), layout) if "bias" in operands else None
    inputs: list[Operand | None] = [Operand(dtype, problem.x, values or normal(), layout), scale]
    if problem.kind != "rms_norm":
        inputs.append(bias)
    if problem.kind == "batch_norm":
        given = running or attributes.get("inference")
        inputs.append(Operand(statistics, problem.statistics, normal(), layout) if given else None)
        inputs.append(Operand(statistics, problem.statistics, uniform(0.5, 2), layout) if given else None)
    parts = [name or "plain", dtype, problem.name, layout]
    parts += [] if operands == "scale-bias" else [operands or "neither"]
    parts += [] if running else ["no-running"]
    return Case(
        op=problem.kind,
        variant="/".join(parts),
        dtype=dtype,
        inputs=tuple(inputs),
        outputs=(written(dtype, problem.x, layout), *_outputs(problem, statistics, layout, attributes, running)),
        reference=lambda inputs: _forward_expected(problem, inputs, attributes),
        attributes=attributes,
    )


def _nan(generator: np.random.Generator, shape: _Shape) -> Array:
    """NaN in the first channel, none in the others."""
    x = generator.normal(0, 1, shape)
    x.flat[1] = np.nan
    return x


def _running_in_place(dtype: str, shape: _Shape, layout: str) -> Case:
    """Running statistics that are one view in and out."""
    problem = Problem("batch_norm", shape, {"momentum": 0.7, "unbiased_running": 1})
    case = _forward_case(dtype, problem, layout, name="running-in-place")
    mean, variance = case.inputs[3:5]
    return Case(
        op=case.op,
        variant=case.variant,
        dtype=dtype,
        inputs=case.inputs,
        outputs=(*case.outputs[:3], mean, variance),
        reference=lambda inputs: _forward_expected(problem, inputs[:5], problem.attributes),
        attributes=case.attributes,
        in_place=((3, 3), (4, 4)),
    )


def problems_of(kind: str) -> list[Problem]:
    """What a kind is tried with."""
    if kind == "batch_norm":
        return [Problem(kind, shape, {}) for shape in (*_IMAGES, *_EMPTY_IMAGES[:1])]
    if kind == "group_norm":
        problems = [Problem(kind, shape, {"groups": groups}) for shape in _IMAGES for groups in (2, 1)]
        by_channel = [Problem(kind, shape, {"groups": shape[1]}) for shape in _IMAGES[:3]]
        return [*problems, *by_channel, Problem(kind, _EMPTY_IMAGES[1], {"groups": 3})]
    return [Problem(kind, shape, {"axis": axis}) for shape, axis in _ROWS]


def _forward_cases(kind: str, seed: int) -> Iterator[Case]:
    problems = problems_of(kind)
    few = problems[:6]
    yield from sweep(partial(_forward_case), seed, dtypes=FLOATING, shapes=problems, layouts=IMAGE_LAYOUTS, draws=20)
    for operands in ("",) if kind == "rms_norm" else ("scale", "bias", ""):
        yield from sweep(partial(_forward_case, operands=operands), seed, shapes=few, layouts=IMAGE_LAYOUTS)
    for epsilon in (1e-3, 0.5):
        other = partial(_forward_case, extra={"epsilon": epsilon}, name=f"epsilon{epsilon:g}")
        yield from sweep(other, seed, shapes=few, layouts=IMAGE_LAYOUTS)
    for activation in list(Activation)[1:]:
        fused = partial(_forward_case, extra={"activation": int(activation)}, name=activation.name.lower())
        yield from sweep(fused, seed, shapes=few[:3], layouts=IMAGE_LAYOUTS[:3], draws=2)
    for dtype in ("float32", "float64"):
        for problem in few[:3]:
            # A single-pass variance loses all digits here.
            far = partial(_forward_case, values=uniform(999, 1001), name="far-from-zero")
            yield far(dtype, problem, "contiguous")


def _batch_norm_cases(seed: int) -> Iterator[Case]:
    """What only batch norm has: running statistics and inference."""
    few = problems_of("batch_norm")[:6]
    yield from sweep(partial(_forward_case, running=False), seed, shapes=few, layouts=IMAGE_LAYOUTS)
    for extra in (
        {"momentum": 0.5},
        {"momentum": 0.99, "unbiased_running": 1},
        {"momentum": 0.0, "unbiased_running": 1},
    ):
        build = partial(_forward_case, extra=extra, name="-".join(f"{key}{value:g}" for key, value in extra.items()))
        yield from sweep(build, seed, shapes=few, layouts=IMAGE_LAYOUTS)
    for operands in ("scale-bias", "scale", ""):
        inference = partial(_forward_case, operands=operands, extra={"inference": 1}, name="inference")
        yield from sweep(inference, seed, shapes=[*few, *problems_of("batch_norm")[-2:]], layouts=IMAGE_LAYOUTS)
    for epsilon in (1e-3, 0.5):
        other = partial(_forward_case, extra={"inference": 1, "epsilon": epsilon}, name=f"inference-epsilon{epsilon:g}")
        yield from sweep(other, seed, shapes=few[:3], layouts=IMAGE_LAYOUTS[:3], draws=2)
    for dtype in FLOATING:
        for activation in (Activation.NONE, Activation.RELU, Activation.RELU6):
            for mode in (0, 1):
                extra = {"inference": mode, "activation": int(activation)}
                name = f"nan-{activation.name.lower()}{'-inference' if mode else ''}"
                problem = problems_of("batch_norm")[0]
                yield _forward_case(dtype, problem, "contiguous", running=False, extra=extra, name=name, values=_nan)
    for dtype in FLOATING:
        for layout in ("contiguous", "channels_last", "reversed"):
            yield _running_in_place(dtype, (4, 6, 5, 3), layout)


def cases(seed: int) -> Iterator[Case]:
    """All cases of the four kinds."""
    for kind in ("batch_norm", "layer_norm", "group_norm", "rms_norm"):
        yield from _forward_cases(kind, seed)
    yield from _batch_norm_cases(seed)
