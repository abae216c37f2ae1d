"""Cases of random_distribution: each number against the algorithm in float64, and large samples against their
distributions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from .case import Array, Case, Check, Entry, Expected, Operand, Values
from .layout import CONTIGUOUS, LAYOUTS, output_layout
from .number_format import decode
from .reference.random_distributions import BINOMIAL, GAMMA, POISSON, Uniforms, draw
from .reference.special import igamma, lgamma
from .session import Session
from .sweep import FLOATING, shape_name, sweep
from .values import listed

_NAMES = {GAMMA: "gamma", POISSON: "poisson", BINOMIAL: "binomial"}

_KEY = 0x0123456789ABCDEF
#: The low half is about to carry over into the high one.
_COUNTER = (2**64 - 3, 5)

_SHAPES = ((3, 5, 7), (), (0,), (1, 5, 1), (31,), (1, 2, 1, 3, 1, 2, 3, 1, 2, 3), (41, 53))

#: Parameters: shapes, means, and trials with their probabilities, on both sides of where algorithms change.
_SHAPES_OF_GAMMA = (0.25, 0.5, 1.0, 1.5, 4.0, 32.0, 1000.0)
_MEANS = (0.125, 1.0, 4.5, 9.5, 12.0, 40.0, 300.0)
_TRIALS = (1, 5, 16, 40, 100, 256, 64)
_PROBABILITIES = (0.25, 0.5, 0.125, 0.75, 0.9375, 0.3125, 1.0, 0.0)

#: Decisions closer than this may go either way: some hundred roundings of terms of some hundred.
_MARGIN = {"float32": 1e-2, "float64": 1e-9}

_SAMPLE = 100003
_FALSE_ALARM = 1e-9


def cases(seed: int) -> Iterator[Entry]:
    """The cases of all distributions."""
    for distribution in _NAMES:
        build = partial(_case, distribution)
        yield from sweep(build, seed, dtypes=FLOATING, shapes=_SHAPES, layouts=LAYOUTS, draws=8)
        if distribution != GAMMA:
            for result in ("int32", "int64", "float16"):
                yield _case(distribution, "float32", (13, 17), CONTIGUOUS, result=result)
        yield _invalid(distribution)
        for dtype in ("float32", "float64"):
            for first, second in _SAMPLED[distribution]:
                name = f"{_NAMES[distribution]}/{dtype}/sample/{first:g}" + (f"-{second:g}" if second else "")
                check = partial(_check_sample, distribution, dtype, first, second)
                yield Check("random_distribution", name, check, dtype)


def _parameters(distribution: int) -> tuple[Values, ...]:
    if distribution == GAMMA:
        return (listed(_SHAPES_OF_GAMMA),)
    if distribution == POISSON:
        return (listed(_MEANS),)
    return listed(_TRIALS), listed(_PROBABILITIES)


def _case(distribution: int, dtype: str, shape: tuple[int, ...], layout: str, *, result: str = "") -> Case:
    computed_in = "float64" if dtype == "float64" else "float32"

    def expected(inputs: Sequence[Array]) -> list[Expected]:
        count = math.prod(shape)
        first, second = (
            None if x is None else np.broadcast_to(np.asarray(x, np.float64), shape).reshape(-1)
            for x in (inputs[0], inputs[1] if distribution == BINOMIAL else None)
        )
        assert first is not None
        uniforms = Uniforms(_KEY, _COUNTER, count, computed_in == "float64")
        drawn = draw(distribution, uniforms, first, second)
        open_ = (drawn.margin < _MARGIN[computed_in]).reshape(shape)
        values = drawn.values.reshape(shape)
        if distribution != GAMMA:
            return [Expected(values, roundings=0, unspecified=open_)]
        # A power by an exponent of up to 4, and a normal number times up to 3 / sqrt(9 d) of the value.
        return [Expected(values, roundings=300, magnitude=values + 3 * np.sqrt(values) + 1e-3, unspecified=open_)]

    to = result or dtype
    variant = f"{_NAMES[distribution]}/{dtype}-{to}/{shape_name(shape)}/{layout}"
    inputs = tuple(Operand(dtype, shape, values, layout) for values in _parameters(distribution))
    outputs = (Operand(to, shape, layout=output_layout(layout)),)
    return Case("random_distribution", variant, dtype, inputs, outputs, expected, _attributes(distribution))


def _attributes(distribution: int) -> dict[str, Any]:
    return {"distribution": distribution, "key": _KEY, "counter": list(_COUNTER)}


def _invalid(distribution: int) -> Case:
    """What is no parameter gives NaN."""
    nan = float("nan")
    first = listed([-1.0, nan, -0.5, 0.0] if distribution != BINOMIAL else [-1.0, nan, 5.0, 5.0, 5.0, 0.0])
    shape = (4,) if distribution != BINOMIAL else (6,)
    inputs = [Operand("float32", shape, first)]
    if distribution == BINOMIAL:
        inputs.append(Operand("float32", shape, listed([0.5, 0.5, -0.25, 1.5, nan, 0.5])))
    values = np.full(shape, nan)
    values[-1] = 0
    return Case(
        "random_distribution",
        f"{_NAMES[distribution]}/float32/invalid",
        "float32",
        tuple(inputs),
        (Operand("float32", shape),),
        lambda inputs: [Expected(values, 0)],
        _attributes(distribution),
    )


# -- samples

_SAMPLED: dict[int, tuple[tuple[float, float], ...]] = {
    GAMMA: ((0.3, 0), (1, 0), (7.5, 0)),
    POISSON: ((3, 0), (11, 0), (250, 0)),
    BINOMIAL: ((20, 0.25), (100, 0.5), (1000, 0.9)),
}


def _check_sample(distribution: int, dtype: str, first: float, second: float, session: Session) -> None:
    """The largest distance between the sample's distribution and the true one, as in random_numbers.py: by the
    inequality of Dvoretzky, Kiefer, Wolfowitz and Massart it exceeds sqrt(ln(2 / p) / 2n) with a probability of at most
    p, also of distributions with steps."""
    np_dtype = np.dtype(dtype)
    inputs = [np.full(_SAMPLE, number, np_dtype) for number in (first, second)[: 2 if distribution == BINOMIAL else 1]]
    attributes = {"distribution": distribution, "key": session.seed + 1}
    (stored,) = session.results("random_distribution", inputs, [(dtype, (_SAMPLE,))], attributes)
    points, counts = np.unique(decode(stored, dtype), return_counts=True)
    up_to = np.cumsum(counts) / _SAMPLE
    if distribution == GAMMA:
        some = np.linspace(0, len(points) - 1, 500).astype(int)  # the integrals take long
        wanted = np.asarray(igamma(np.full(len(some), first), points[some]))
        below = up_to[some] - counts[some] / _SAMPLE
        distance = max(np.abs(wanted - up_to[some]).max(), np.abs(wanted - below).max())
    else:
        top = int(max(points[-1], first)) + 1
        k = np.arange(top + 1, dtype=np.float64)
        if distribution == POISSON:
            logs = k * math.log(first) - first - lgamma(k + 1)
        else:
            k = k[k <= first]
            logs = lgamma(np.array(first + 1.0)) - lgamma(k + 1) - lgamma(first - k + 1)
            logs = logs + k * math.log(second) + (first - k) * math.log1p(-second)
        cumulative = np.cumsum(np.exp(logs))
        assert np.array_equal(points, np.floor(points)), "the sample has fractions"
        distance = float(np.abs(cumulative[points.astype(int)] - up_to).max())
    allowed = math.sqrt(math.log(2 / _FALSE_ALARM) / (2 * _SAMPLE))
    assert distance <= allowed, (
        f"the sample's distribution is {distance:.4f} away from the right one, {allowed:.4f} are allowed"
    )
