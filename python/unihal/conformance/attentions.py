"""Cases of attention and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from .case import Array, Case, Expected, Operand, Values, written
from .number_format import FORMATS, round_to
from .reference.attention import attention, attention_backward
from .reference.enums import MathMode
from .sweep import FLOATING, shape_name, sweep
from .tolerance import factor_error, summation_roundings
from .values import normal

#: exp and log may be off by 3 ulps each (OpenCL C 1.2, section 7.4); then differences, quotients and products.
_ROUNDINGS = 24


@dataclass(frozen=True)
class _Problem:
    """The lengths of uhal_op_kind's definition: q (B, H, M, D), k (B, H, N, D), v (B, H, N, E)."""

    b: int
    h: int
    m: int
    n: int
    d: int
    e: int

    @property
    def q(self) -> tuple[int, ...]:
        return (self.b, self.h, self.m, self.d)

    @property
    def k(self) -> tuple[int, ...]:
        return (self.b, self.h, self.n, self.d)

    @property
    def v(self) -> tuple[int, ...]:
        return (self.b, self.h, self.n, self.e)

    @property
    def y(self) -> tuple[int, ...]:
        return (self.b, self.h, self.m, self.e)

    @property
    def name(self) -> str:
        return shape_name((self.b, self.h, self.m, self.n, self.d, self.e))


_PROBLEMS = (
    _Problem(2, 3, 5, 7, 4, 6),
    _Problem(2, 3, 7, 7, 4, 4),
    _Problem(1, 1, 1, 1, 1, 1),
    _Problem(2, 2, 7, 3, 5, 4),
    _Problem(2, 1, 1, 31, 8, 8),
    _Problem(0, 2, 3, 4, 5, 6),
    _Problem(2, 2, 0, 4, 5, 6),
    _Problem(2, 2, 3, 0, 5, 6),
    _Problem(2, 4, 67, 65, 33, 31),
    _Problem(1, 2, 3, 1031, 16, 5),
    _Problem(1, 1, 1031, 3, 4, 2),
)

#: Sizes of heads, and lengths around tiles, of kernels for matrix products of 16-bit numbers.
_HEADS = (
    _Problem(1, 2, 130, 67, 32, 32),
    _Problem(2, 2, 33, 129, 40, 40),
    _Problem(1, 3, 257, 257, 64, 64),
    _Problem(2, 1, 65, 191, 80, 72),
    _Problem(1, 2, 63, 64, 96, 96),
    _Problem(2, 2, 129, 160, 128, 128),
    _Problem(1, 1, 70, 90, 160, 160),
    _Problem(1, 2, 34, 66, 192, 176),
    _Problem(1, 1, 65, 97, 256, 256),
    _Problem(1, 1, 20, 33, 264, 272),
)

#: What a mask may look like: its shape of each problem.
_MASKS: dict[str, Callable[[_Problem], tuple[int, ...]]] = {
    "full": lambda p: (p.b, p.h, p.m, p.n),
    "heads-alike": lambda p: (p.b, 1, p.m, p.n),
    "padding": lambda p: (p.b, 1, 1, p.n),
    "rank-2": lambda p: (p.m, p.n),
    "per-row": lambda p: (p.m, 1),
    "rows-alike": lambda p: (p.b, p.h, 1, p.n),
    "batches-alike": lambda p: (1, p.h, p.m, p.n),
}


def _penalties(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Biases, some of which hide their column altogether."""
    return np.where(generator.random(shape) < 0.25, -np.inf, generator.normal(0, 1, shape))


def _biases(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return generator.normal(0, 1, shape)


def _score_sizes(q: Array, k: Array, mask: Array | None, scale: float) -> Array:
    """What errors of a score are relative to, at the largest column of each row."""
    factor = abs(scale) or 1 / np.sqrt(max(1, q.shape[-1]))
    sizes = factor * (np.abs(q) @ np.swapaxes(np.abs(k), -1, -2))
    if mask is not None:
        sizes = sizes + np.where(np.isfinite(mask), np.abs(mask), 0)
    return np.asarray(np.max(sizes, axis=-1, keepdims=True, initial=0))


def _weight_errors(dtype: str, sizes: Array, factors: Array) -> Array:
    """Of sums of weights times factors, where weights are rounded to the operands' dtype."""
    if dtype not in ("float16", "bfloat16"):
        return np.zeros(1)
    least = FORMATS[dtype].smallest_subnormal * factors.shape[-2] * np.max(np.abs(factors), initial=0)
    return np.asarray(FORMATS[dtype].unit_roundoff * sizes + least)


def _forward_expected(
    inputs: Sequence[Any], attributes: dict[str, Any], dtype: str, logsumexp: bool
) -> list[Expected | None]:
    q, k, v, mask = inputs
    given = {name: value for name, value in attributes.items() if name != "math_mode"}
    # One pass for both the sums and those of absolute terms.
    both, total = attention(q, k, np.concatenate([v, np.abs(v)], axis=-1), mask, **given)
    y, size = np.split(both, 2, axis=-1)
    # An error of a score is one of its exponential, relative to it.
    scores = _score_sizes(q, k, mask, attributes.get("scale", 0))
    roundings = summation_roundings(max(q.shape[-1], k.shape[-2])) + _ROUNDINGS
    magnitude = size * (1 + 2 * scores)
    error = factor_error(attributes, dtype, lambda: magnitude) + _weight_errors(dtype, size, v)
    results: list[Expected | None] = [Expected(y, roundings, magnitude, error)]
    largest = np.where(np.isfinite(total), np.abs(total), 0) + scores[..., 0] + 1
    of_scores = factor_error(attributes, dtype, lambda: scores[..., 0])
    return [*results, Expected(total, roundings, largest, of_scores) if logsumexp else None]


def _statistics_dtype(dtype: str) -> str:
    return "float64" if dtype == "float64" else "float32"


def _mask_operand(dtype: str, problem: _Problem, mask: str, layout: str) -> Operand | None:
    if not mask:
        return None
    return Operand(dtype, _MASKS[mask](problem), _penalties if mask != "per-row" else _biases, layout)


def _forward_case(
    dtype: str,
    problem: _Problem,
    layout: str,
    *,
    mask: str = "",
    attributes: dict[str, Any] | None = None,
    logsumexp: bool = True,
) -> Case:
    given = attributes or {}
    words = [f"{name}{value:g}" for name, value in given.items()]
    return Case(
        op="attention",
        variant="/".join(
            [dtype, problem.name, layout, f"mask-{mask or 'none'}", *words, *["no-sums"][: not logsumexp]]
        ),
        dtype=dtype,
        inputs=(
            Operand(dtype, problem.q, normal(), layout),
            Operand(dtype, problem.k, normal(), layout),
            Operand(dtype, problem.v, normal(), layout),
            _mask_operand(dtype, problem, mask, layout),
        ),
        outputs=(
            written(dtype, problem.y, layout),
            written(_statistics_dtype(dtype), problem.y[:3], layout) if logsumexp else None,
        ),
        reference=lambda inputs: _forward_expected(inputs, given, dtype, logsumexp),
        attributes=given,
    )


@lru_cache(maxsize=1)  # which a case asks for once for each of its operands
def _forward(
    problem: _Problem, dtype: str, mask: str, attributes: tuple[tuple[str, Any], ...]
) -> tuple[Array | None, ...]:
    """A gradient's operands but for dy: q, k, v, mask, and what the forward pass makes of them, y and logsumexp."""
    generator = np.random.default_rng([problem.m, problem.n, problem.d])
    q, k, v = (round_to(generator.normal(0, 1, shape), dtype) for shape in (problem.q, problem.k, problem.v))
    bias: Array | None = None
    if mask:
        values = _penalties if mask != "per-row" else _biases
        bias = round_to(values(generator, _MASKS[mask](problem)), dtype)
    return (q, k, v, bias, *attention(q, k, v, bias, **dict(attributes)))


def _forward_values(problem: _Problem, dtype: str, mask: str, attributes: dict[str, Any], number: int) -> Values:
    def values(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        value = _forward(problem, dtype, mask, tuple(attributes.items()))[number]
        assert value is not None
        return value

    return values


def _backward_expected(inputs: Sequence[Any], attributes: dict[str, Any], dtype: str) -> list[Expected]:
    q, k, v, mask, y, logsumexp, dy = inputs
    values = attention_backward(*inputs, **attributes)
    # The same sums of absolute terms: of dscores, p * (|dy| @ |v|^T + sum(|y| |dy|)).
    factor = attributes.get("scale") or 1 / np.sqrt(max(1, q.shape[-1]))
    scores = factor * (q @ np.swapaxes(k, -1, -2))
    if mask is not None:
        scores = scores + mask
    if attributes.get("causal"):
        hidden = np.arange(k.shape[2]) > np.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
        scores = np.where(hidden, -np.inf, scores)
    p = np.exp(scores - np.where(np.isfinite(logsumexp), logsumexp, 0)[..., None])
    # logsumexp is rounded as an operand, and a score's error is one of its exponential.
    shift = np.where(np.isfinite(logsumexp), np.abs(logsumexp), 0)[..., None]
    p = p * (1 + 2 * _score_sizes(q, k, mask, attributes.get("scale", 0)) + shift)
    terms = np.abs(dy) @ np.swapaxes(np.abs(v), -1, -2) + np.sum(np.abs(y * dy), axis=-1, keepdims=True)
    dscores = p * terms * abs(factor)
    magnitudes = (
        dscores @ np.abs(k),
        np.swapaxes(dscores, -1, -2) @ np.abs(q),
        np.swapaxes(p, -1, -2) @ np.abs(dy),
    )
    roundings = summation_roundings(max(q.shape[-1], q.shape[-2], k.shape[-2], v.shape[-1])) + _ROUNDINGS
    factors = (factor * k, factor * q, dy)
    return [
        Expected(value, roundings, size, _weight_errors(dtype, size, own))
        for value, size, own in zip(values, magnitudes, factors)
    ]


def _backward_case(
    dtype: str, problem: _Problem, layout: str, *, mask: str = "", attributes: dict[str, Any] | None = None
) -> Case:
    given = attributes or {}
    # Repeating layouts would change operands after the forward pass.
    fixed = "contiguous" if layout in ("broadcast", "overlapping") else layout
    shapes = (problem.q, problem.k, problem.v, _MASKS[mask](problem) if mask else (), problem.y, problem.y[:3])
    dtypes = (*[dtype] * 5, _statistics_dtype(dtype))
    operands: list[Operand | None] = [
        Operand(kind, shape, _forward_values(problem, dtype, mask, given, number), fixed)
        for number, (kind, shape) in enumerate(zip(dtypes, shapes))
    ]
    if not mask:
        operands[3] = None
    words = [f"{name}{value:g}" for name, value in given.items()]
    return Case(
        op="attention_backward",
        variant="/".join([dtype, problem.name, layout, f"mask-{mask or 'none'}", *words]),
        dtype=dtype,
        inputs=(*operands, Operand(dtype, problem.y, normal(), layout)),
        outputs=tuple(written(dtype, shape, layout) for shape in (problem.q, problem.k, problem.v)),
        reference=lambda inputs: _backward_expected(inputs, given, dtype),
        attributes=given,
    )


def cases(seed: int) -> Iterator[Case]:
    """All cases of both kinds."""
    for build in (_forward_case, _backward_case):
        yield from sweep(build, seed, shapes=_PROBLEMS, draws=16)
        for mask in _MASKS:
            yield from sweep(partial(build, mask=mask), seed, shapes=_PROBLEMS)
        for attributes in ({"causal": 1}, {"scale": 0.25}, {"scale": -1.5, "causal": 1}):
            yield from sweep(partial(build, attributes=attributes), seed, shapes=_PROBLEMS)
            masked = partial(build, attributes=attributes, mask="heads-alike")
            yield from sweep(masked, seed, shapes=_PROBLEMS[:4])
        for attributes, mask in (
            ({"causal": 1}, ""),
            ({}, ""),
            ({"causal": 1}, "heads-alike"),
            ({"scale": -0.5}, "rows-alike"),
        ):
            of_heads = partial(build, attributes=attributes, mask=mask)
            yield from sweep(
                of_heads,
                seed,
                dtypes=("bfloat16", "float16"),
                shapes=_HEADS,
                layouts=("contiguous", "transposed"),
                draws=6,
            )
    tf32 = partial(_forward_case, attributes={"math_mode": int(MathMode.ALLOW_TF32)})
    yield from sweep(tf32, seed, dtypes=FLOATING, shapes=_PROBLEMS)
    yield from sweep(partial(_forward_case, logsumexp=False), seed, dtypes=FLOATING, shapes=_PROBLEMS[:4])
