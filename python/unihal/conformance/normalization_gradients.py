"""Cases of the gradients of batch, layer, group and RMS norm. Errors are as normalizations.py has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from .case import Array, Case, Expected, Operand, written
from .layout import IMAGE_LAYOUTS
from .normalizations import ROUNDINGS, SCALES, Problem, beside, problems_of, sizes_of, statistics_dtype
from .number_format import round_to
from .reference import normalization
from .sweep import sweep
from .tolerance import summation_roundings
from .values import normal


def _image(problem: Problem, dtype: str) -> Array:
    """The same x whenever it is asked for: the statistics are made of it."""
    return round_to(np.random.default_rng(problem.x).normal(0.5, 1, problem.x), dtype)


def _statistics(problem: Problem, dtype: str, epsilon: float) -> list[Array]:
    """mean and variance, or inverse_rms."""
    grouped = problem.grouped(_image(problem, dtype))
    if problem.kind == "rms_norm":
        inverse = 1 / np.sqrt(np.mean(grouped**2, axis=problem.axes, keepdims=True) + epsilon)
        return [inverse.reshape(problem.statistics)]
    mean = grouped.mean(axis=problem.axes).reshape(problem.statistics)
    return [mean, grouped.var(axis=problem.axes).reshape(problem.statistics)]


def _backward_expected(
    problem: Problem, inputs: Sequence[Any], attributes: dict[str, Any], outputs: int
) -> list[Expected | None]:
    x, dy, scale = inputs[:3]
    accepted = dict(attributes)
    if problem.kind == "rms_norm":
        accepted.pop("epsilon", None)
    values = getattr(normalization, f"{problem.kind}_backward")(*inputs, **accepted)
    roundings = summation_roundings(max(problem.terms, x.size // max(1, problem.terms))) + ROUNDINGS
    sizes = sizes_of(problem, x, attributes.get("epsilon", 1e-5))
    g = problem.grouped(np.abs(dy * beside(problem, scale, 1.0)))
    normalized = sizes.normalized
    if attributes.get("inference"):
        dx = g * sizes.inverse
    else:
        means = g.mean(axis=problem.axes, keepdims=True)
        products = (g * normalized).mean(axis=problem.axes, keepdims=True)
        dx = (g + means + normalized * products) * sizes.inverse
    others = tuple(axis for axis in range(x.ndim) if axis < x.ndim - len(problem.scale))
    if problem.kind in ("batch_norm", "group_norm"):
        others = (0, *range(2, x.ndim))
    magnitudes = [
        dx.reshape(x.shape),
        (np.abs(dy) * normalized.reshape(x.shape)).sum(axis=others),
        np.abs(dy).sum(axis=others),
    ]
    expected = [Expected(value, roundings, size) for value, size in zip(values, magnitudes)]
    return [*expected[:outputs], *[None] * (len(values) - outputs)]


def _backward_case(
    dtype: str,
    problem: Problem,
    layout: str,
    *,
    with_scale: bool = True,
    outputs: int = 3,
    extra: dict[str, Any] | None = None,
    name: str = "",
) -> Case:
    attributes = {**problem.attributes, **(extra or {})}
    epsilon = attributes.get("epsilon", 1e-5)
    statistics = statistics_dtype(dtype)
    count = 2 if problem.kind == "rms_norm" else 3
    outputs = min(outputs, count)
    # Repeating layouts would change x after its statistics were taken.
    of_x = "contiguous" if layout in ("broadcast", "overlapping") else layout

    def statistic(number: int) -> Operand:
        return Operand(
            statistics,
            problem.statistics,
            lambda generator, shape: _statistics(problem, dtype, epsilon)[number],
            of_x,
        )

    gradient_of_scale = written(statistics, problem.scale, layout)
    results = (written(dtype, problem.x, layout), gradient_of_scale, gradient_of_scale)
    parts = [name or "plain", dtype, problem.name, layout]
    parts += [] if with_scale else ["no-scale"]
    parts += [] if outputs == count else [f"outputs{outputs}"]
    return Case(
        op=f"{problem.kind}_backward",
        variant="/".join(parts),
        dtype=dtype,
        inputs=(
            Operand(dtype, problem.x, lambda generator, shape: _image(problem, dtype), of_x),
            Operand(dtype, problem.x, normal(), layout),
            Operand(statistics, problem.scale, SCALES, layout) if with_scale else None,
            *(statistic(number) for number in range(count - 1)),
        ),
        outputs=(*results[:outputs], *[None] * (count - outputs)),
        reference=lambda inputs: _backward_expected(problem, inputs, attributes, outputs),
        attributes=attributes,
    )


def _backward_cases(kind: str, seed: int) -> Iterator[Case]:
    problems = problems_of(kind)
    few = problems[:6]
    yield from sweep(partial(_backward_case), seed, shapes=problems, layouts=IMAGE_LAYOUTS, draws=20)
    yield from sweep(partial(_backward_case, with_scale=False), seed, shapes=few, layouts=IMAGE_LAYOUTS)
    for outputs in (1,) if kind == "rms_norm" else (1, 2):
        yield from sweep(partial(_backward_case, outputs=outputs), seed, shapes=few, layouts=IMAGE_LAYOUTS[:3])
    for epsilon in (1e-3, 0.5):
        other = partial(_backward_case, extra={"epsilon": epsilon}, name=f"epsilon{epsilon:g}")
        yield from sweep(other, seed, shapes=few, layouts=IMAGE_LAYOUTS[:3])


def cases(seed: int) -> Iterator[Case]:
    """All cases of the four kinds."""
    for kind in ("batch_norm", "layer_norm", "group_norm", "rms_norm"):
        yield from _backward_cases(kind, seed)
    constants = partial(_backward_case, extra={"inference": 1}, name="inference")
    problems = problems_of("batch_norm")
    yield from sweep(constants, seed, shapes=[*problems[:6], *problems[-2:]], layouts=IMAGE_LAYOUTS)
