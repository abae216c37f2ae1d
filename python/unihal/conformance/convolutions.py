"""Cases of convolution and its two gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from .activations import COMMUTE_WITH_ROUNDING, activated
from .case import Array, Case, Expected, Operand, Values, written
from .layout import IMAGE_LAYOUTS
from .reference.convolution import (
    convolution,
    convolution_backward_data,
    convolution_backward_filter,
    output_lengths,
)
from .reference.enums import Activation, MathMode
from .sweep import FLOATING, sweep
from .tolerance import early_rounding_error, factor_error, summation_roundings
from .values import integers, normal


@dataclass(frozen=True, eq=False)
class _Problem:
    """Shapes, and attributes by the names of uhal_convolution_attributes."""

    name: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def y(self) -> tuple[int, ...]:
        others = ("groups", "activation", "math_mode")
        window = {name: value for name, value in self.attributes.items() if name not in others}
        return (self.x[0], self.w[0], *output_lengths(self.x[2:], self.w[2:], **window))

    @property
    def gradient_attributes(self) -> dict[str, Any]:
        return {name: value for name, value in self.attributes.items() if name != "activation"}

    @property
    def geometry(self) -> dict[str, Any]:
        """What the reference takes."""
        return {name: value for name, value in self.gradient_attributes.items() if name != "math_mode"}


_PROBLEMS = (
    _Problem("plain", (2, 3, 7, 9), (5, 3, 3, 3)),
    _Problem("pointwise", (2, 5, 7, 9), (3, 5, 1, 1)),
    _Problem("pointwise-strided", (2, 5, 7, 9), (3, 5, 1, 1), {"stride": (2, 3)}),
    _Problem("pointwise-padded", (1, 2, 3, 3), (3, 2, 1, 1), {"pad_before": (1, 1), "pad_after": (1, 1)}),
    _Problem("one-axis", (2, 3, 31), (4, 3, 5)),
    _Problem(
        "one-axis-all",
        (2, 4, 31),
        (6, 2, 3),
        {"stride": (2,), "dilation": (3,), "pad_before": (4,), "pad_after": (1,), "groups": 2},
    ),
    _Problem("three-axes", (1, 2, 4, 5, 6), (3, 2, 2, 3, 2)),
    _Problem(
        "three-axes-all",
        (2, 4, 5, 6, 7),
        (4, 2, 2, 3, 2),
        {"stride": (1, 2, 3), "dilation": (2, 1, 2), "pad_before": (1, 0, 2), "pad_after": (0, 2, 1), "groups": 2},
    ),
    _Problem("stride", (2, 3, 9, 8), (4, 3, 3, 2), {"stride": (2, 3)}),
    _Problem("stride-beyond-window", (2, 3, 11, 10), (4, 3, 2, 1), {"stride": (4, 3)}),
    _Problem("symmetric-padding", (2, 3, 5, 6), (4, 3, 3, 3), {"pad_before": (1, 1), "pad_after": (1, 1)}),
    _Problem("asymmetric-padding", (2, 3, 5, 6), (4, 3, 3, 3), {"pad_before": (2, 0), "pad_after": (0, 3)}),
    _Problem("padding-beyond-window", (1, 2, 3, 3), (2, 2, 2, 2), {"pad_before": (4, 3), "pad_after": (3, 4)}),
    _Problem("dilation", (2, 3, 11, 12), (4, 3, 3, 3), {"dilation": (2, 3)}),
    _Problem(
        "dilation-stride-padding",
        (1, 3, 11, 12),
        (4, 3, 3, 3),
        {"dilation": (3, 2), "stride": (2, 2), "pad_before": (1, 3), "pad_after": (2, 0)},
    ),
    _Problem("groups", (2, 6, 7, 6), (9, 2, 3, 3), {"groups": 3}),
    _Problem("depthwise", (2, 6, 7, 6), (6, 1, 3, 3), {"groups": 6, "pad_before": (1, 1), "pad_after": (1, 1)}),
    _Problem("depthwise-multiplier", (2, 5, 7, 6), (10, 1, 3, 2), {"groups": 5, "stride": (2, 1)}),
    _Problem("window-is-image", (2, 3, 5, 6), (4, 3, 5, 6)),
    _Problem("window-beyond-image", (2, 3, 5, 6), (4, 3, 6, 7)),
    _Problem("remainder", (1, 2, 8, 9), (3, 2, 3, 3), {"stride": (4, 5)}),
    _Problem("one-element", (1, 1, 1, 1), (1, 1, 1, 1)),
    _Problem("no-images", (0, 3, 5, 6), (4, 3, 3, 3)),
    _Problem("no-channels", (2, 0, 5, 6), (4, 0, 3, 3)),
    _Problem("no-filters", (2, 3, 5, 6), (0, 3, 3, 3)),
    _Problem("no-pixels", (2, 3, 0, 6), (4, 3, 1, 1)),
    _Problem("only-padding", (2, 3, 0, 4), (4, 3, 2, 2), {"pad_before": (1, 1), "pad_after": (1, 1)}),
    _Problem("many-channels", (1, 67, 9, 9), (65, 67, 3, 3), {"pad_before": (1, 1), "pad_after": (1, 1)}),
    _Problem("larger", (4, 16, 33, 35), (24, 16, 3, 3), {"pad_before": (1, 1), "pad_after": (1, 1)}),
    _Problem("wide", (2, 64, 13, 15), (130, 64, 3, 3), {"pad_before": (1, 1), "pad_after": (1, 1)}),
    _Problem("wide-strided", (2, 40, 17, 30), (130, 40, 3, 3), {"stride": (2, 2), "pad_before": (1, 1)}),
    _Problem("wide-pointwise", (2, 40, 23, 24), (72, 40, 1, 1)),
    _Problem("more-than-65536-channels", (1, 65537, 3), (65537, 1, 2), {"groups": 65537}),
    _Problem("more-than-65536-filters", (1, 2, 3), (65537, 2, 2)),
    _Problem("more-than-65536-images", (65537, 1, 3), (2, 1, 2)),
    _Problem("more-than-65536-pixels", (1, 2, 65539), (3, 2, 3), {"stride": (1,), "pad_before": (2,)}),
)

#: Sums long enough, and filters enough, for backends to make the gradient of the filter by Winograd.
_LONG_SUMS = (
    _Problem("long-sums", (3, 129, 27, 27), (130, 129, 3, 3), {"pad_before": (1, 1), "pad_after": (1, 1)}),
    _Problem("long-sums-no-padding", (5, 192, 18, 18), (192, 192, 3, 3)),
    _Problem("long-sums-one-image", (1, 160, 41, 37), (150, 160, 3, 3), {"pad_before": (2, 2), "pad_after": (2, 2)}),
)

_ACTIVATED = ("plain", "depthwise", "one-axis-all", "three-axes-all", "pointwise")


def _taps(problem: _Problem) -> int:
    return int(np.prod(problem.w[2:], dtype=np.int64))


def _forward(inputs: Sequence[Any], problem: _Problem, dtype: str) -> list[Expected]:
    x, w, bias = inputs
    sizes = [None if operand is None else np.abs(operand) for operand in inputs]
    values = convolution(x, w, bias, **problem.geometry)
    error = factor_error(problem.attributes, dtype, lambda: convolution(np.abs(x), np.abs(w), None, **problem.geometry))
    activation = problem.attributes.get("activation", Activation.NONE)
    # What may be rounded early: the sum before the bias, or that before the activation.
    early = [] if bias is None else [values - bias.reshape(-1, *[1] * (values.ndim - 2))]
    early += [] if activation in COMMUTE_WITH_ROUNDING else [values]
    before = Expected(
        values,
        summation_roundings(problem.w[1] * _taps(problem)) + 1,
        convolution(*sizes, **problem.geometry),  # type: ignore[arg-type]
        error + early_rounding_error(dtype, *early) if early else error,
    )
    return [activated(before, activation)]


def _forward_case(dtype: str, problem: _Problem, layout: str, *, bias: bool) -> Case:
    return Case(
        op="convolution",
        variant=f"{problem.name}{'' if bias else '/no-bias'}/{dtype}/{layout}",
        dtype=dtype,
        inputs=(
            Operand(dtype, problem.x, normal(), layout),
            Operand(dtype, problem.w, normal(), layout),
            Operand(dtype, (problem.w[0],), normal(), layout) if bias else None,
        ),
        outputs=(written(dtype, problem.y, layout),),
        reference=lambda inputs: _forward(inputs, problem, dtype),
        attributes=problem.attributes,
    )


def _of_integers(
    x: str, w: str, problem: _Problem, layout: str, *, bias: bool = False, activation: Activation = Activation.NONE
) -> Case:
    """Bytes into int32, exactly."""
    attributes = dict(problem.attributes)
    if activation != Activation.NONE:
        attributes["activation"] = int(activation)

    def reference(inputs: Sequence[Any]) -> list[Expected]:
        given = [None if operand is None else np.asarray(operand, np.float64) for operand in inputs]
        values = convolution(*given, **problem.geometry)  # type: ignore[arg-type]
        return [Expected(np.maximum(values, 0) if activation == Activation.RELU else values, 0)]

    def whole(dtype: str) -> Values:
        return integers(-128, 128) if dtype == "int8" else integers(0, 256)

    return Case(
        op="convolution",
        variant=f"{problem.name}/{x}-{w}{'-bias' if bias else ''}/{activation.name.lower()}/{layout}",
        dtype=x,
        inputs=(
            Operand(x, problem.x, whole(x), layout),
            Operand(w, problem.w, whole(w), layout),
            Operand("int32", (problem.w[0],), integers(-(2**29), 2**29)) if bias else None,
        ),
        outputs=(written("int32", problem.y, layout),),
        reference=reference,
        attributes=attributes,
    )


def _integer_cases() -> Iterator[Case]:
    for problem in _PROBLEMS:
        yield _of_integers("int8", "int8", problem, "contiguous")
    # The first one's sums fit into float32, the others' do not; Winograd's would be no integers.
    large = (
        _Problem("some-channels", (2, 96, 14, 15), (40, 96, 3, 3), {"pad_before": (1, 1), "pad_after": (1, 1)}),
        _Problem("more-channels", (1, 300, 7, 6), (17, 300, 3, 3)),
        _Problem("most-channels", (1, 2100, 4, 3), (5, 2100, 1, 1)),
    )
    for problem in large:
        for x in ("int8", "uint8"):
            yield _of_integers(x, "int8", problem, "contiguous")
            yield _of_integers(x, "int8", problem, "channels_last", bias=True, activation=Activation.RELU)
    yield _of_integers("uint8", "uint8", _PROBLEMS[0], "transposed", activation=Activation.RELU)


def _with_nan(dtype: str, problem: _Problem, activation: Activation) -> Case:
    """NaN in the image spreads to the pixels around it and no further, and no fused activation makes a number of it."""

    def values(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        x = generator.normal(0, 1, shape)
        x.flat[x.size // 3] = np.nan
        return x

    attributes = {**problem.attributes, "activation": int(activation)}
    case = _forward_case(dtype, replace(problem, attributes=attributes), "contiguous", bias=True)
    return replace(
        case,
        variant=f"{problem.name}-nan/{activation.name.lower()}/{dtype}",
        inputs=(Operand(dtype, problem.x, values), *case.inputs[1:]),
    )


def _data_case(dtype: str, problem: _Problem, layout: str) -> Case:
    def reference(inputs: Sequence[Any]) -> list[Expected]:
        def compute(dy: Array, w: Array) -> Array:
            return convolution_backward_data(dy, w, problem.x, **problem.geometry)

        dy, w = inputs
        terms = problem.w[0] // problem.attributes.get("groups", 1) * _taps(problem)
        size = compute(np.abs(dy), np.abs(w))
        error = factor_error(problem.attributes, dtype, lambda: size)
        return [Expected(compute(dy, w), summation_roundings(terms), size, error)]

    return Case(
        op="convolution_backward_data",
        variant=f"{problem.name}/{dtype}/{layout}",
        dtype=dtype,
        inputs=(Operand(dtype, problem.y, normal(), layout), Operand(dtype, problem.w, normal(), layout)),
        outputs=(written(dtype, problem.x, layout),),
        reference=reference,
        attributes=problem.gradient_attributes,
    )


def _filter_case(dtype: str, problem: _Problem, layout: str, *, bias: bool) -> Case:
    def reference(inputs: Sequence[Any]) -> list[Expected | None]:
        def compute(x: Array, dy: Array) -> tuple[Array, Array]:
            return convolution_backward_filter(x, dy, problem.w, **problem.geometry)

        x, dy = inputs
        values, sizes = compute(x, dy), compute(np.abs(x), np.abs(dy))
        roundings = summation_roundings(problem.y[0] * int(np.prod(problem.y[2:], dtype=np.int64)))
        # The bias' gradient is a sum of no products.
        errors = (factor_error(problem.attributes, dtype, lambda: sizes[0]), 0.0)
        expected = [Expected(value, roundings, size, error) for value, size, error in zip(values, sizes, errors)]
        return [expected[0], expected[1] if bias else None]

    return Case(
        op="convolution_backward_filter",
        variant=f"{problem.name}{'' if bias else '/no-bias'}/{dtype}/{layout}",
        dtype=dtype,
        inputs=(Operand(dtype, problem.x, normal(), layout), Operand(dtype, problem.y, normal(), layout)),
        outputs=(written(dtype, problem.w, layout), written(dtype, (problem.w[0],), layout) if bias else None),
        reference=reference,
        attributes=problem.gradient_attributes,
    )


def _mixed_layouts(kind: str) -> Iterator[Case]:
    """Images of channels last with row-major filters, results of the other layout than operands."""
    builders: dict[str, Callable[[str, _Problem, str], Case]] = {
        "convolution": partial(_forward_case, bias=True),
        "convolution_backward_data": _data_case,
        "convolution_backward_filter": partial(_filter_case, bias=True),
    }
    for problem in (problem for problem in _PROBLEMS if problem.name in _ACTIVATED):
        for first, second, result in (
            ("channels_last", "contiguous", "channels_last"),
            ("contiguous", "channels_last", "contiguous"),
            ("contiguous", "contiguous", "channels_last"),
            ("channels_last", "transposed", "sliced"),
        ):
            case = builders[kind]("float32", problem, "contiguous")
            operands = [
                operand and replace(operand, layout=layout) for operand, layout in zip(case.inputs, (first, second))
            ]
            outputs = [operand and replace(operand, layout=result) for operand in case.outputs[:1]]
            yield replace(
                case,
                variant=f"{problem.name}/float32/{first}/{second}/to-{result}",
                inputs=(*operands, *case.inputs[2:]),
                outputs=(*outputs, *case.outputs[1:]),
            )


def cases(seed: int) -> Iterator[Case]:
    """All cases of the three kinds."""
    yield from _integer_cases()
    for bias in (True, False):
        forward = partial(_forward_case, bias=bias)
        to_filter = partial(_filter_case, bias=bias)
        yield from sweep(forward, seed, dtypes=FLOATING, shapes=_PROBLEMS, layouts=IMAGE_LAYOUTS, draws=40)
        yield from sweep(to_filter, seed, dtypes=FLOATING, shapes=_PROBLEMS, layouts=IMAGE_LAYOUTS, draws=40)
    yield from sweep(_data_case, seed, dtypes=FLOATING, shapes=_PROBLEMS, layouts=IMAGE_LAYOUTS, draws=60)
    for activation in list(Activation)[1:]:
        problems = [
            replace(
                problem,
                name=f"{problem.name}-{activation.name.lower()}",
                attributes={**problem.attributes, "activation": int(activation)},
            )
            for problem in _PROBLEMS
            if problem.name in _ACTIVATED
        ]
        fused = partial(_forward_case, bias=True)
        yield from sweep(fused, seed, dtypes=FLOATING, shapes=problems, layouts=IMAGE_LAYOUTS, draws=4)
    tf32 = [
        replace(
            problem,
            name=f"{problem.name}-tf32-allowed",
            attributes={**problem.attributes, "math_mode": int(MathMode.ALLOW_TF32)},
        )
        for problem in _PROBLEMS
        if problem.name in (*_ACTIVATED, "larger", "wide", "wide-strided", "wide-pointwise", "no-channels")
    ]
    for build in (partial(_forward_case, bias=True), _data_case, partial(_filter_case, bias=True)):
        yield from sweep(build, seed, dtypes=FLOATING, shapes=tf32, layouts=IMAGE_LAYOUTS, draws=8)
    for kind in ("convolution", "convolution_backward_data", "convolution_backward_filter"):
        yield from _mixed_layouts(kind)
    for dtype in FLOATING:
        for problem in (problem for problem in _PROBLEMS if problem.name in _ACTIVATED):
            for activation in Activation:
                yield _with_nan(dtype, problem, activation)
    for problem in _LONG_SUMS:
        yield _filter_case("float32", problem, "contiguous", bias=False)
    for dtype, layout in (("float32", "channels_last"), ("float32", "transposed"), ("float16", "sliced")):
        yield _filter_case(dtype, _LONG_SUMS[0], layout, bias=True)
