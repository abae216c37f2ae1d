"""Cases of random numbers and dropout.

Words, integers and uniform numbers are determined by the contract, and so are normal ones but for rounding. Besides,
large samples are compared with their distributions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Callable

import numpy as np

from .case import Array, Case, Check, Entry, Expected, Operand
from .layout import CONTIGUOUS, LAYOUTS, output_layout
from .number_format import decode, storage
from .reference import random_numbers as reference
from .reference.elementwise import erfc
from .session import Session
from .sweep import FLOATING, INTEGERS, LARGE, REAL, SHAPES, shape_name, sweep
from .values import normal

_UNIFORM, _NORMAL, _TRUNCATED, _BERNOULLI, _BITS = range(5)

_KEY = 0x0123456789ABCDEF
#: The low half is about to carry over into the high one.
_COUNTER = (2**64 - 3, 5)

#: Shapes without the largest ones: the reference counts in Python.
_SHAPES = (*SHAPES[:7], (1, 2, 1, 3, 1, 2, 3, 1, 2, 3), (101, 103))

_SAMPLE = 100003

#: With a probability below this a right sample is taken for a wrong one.
_FALSE_ALARM = 1e-9


def cases(seed: int) -> Iterator[Entry]:
    """The cases of both kinds."""
    yield from sweep(_bits, seed, dtypes=INTEGERS, shapes=_SHAPES, layouts=LAYOUTS, draws=10)
    yield _bits(INTEGERS[0], LARGE, CONTIGUOUS)
    yield _uniform("float32", LARGE, CONTIGUOUS)
    yield from sweep(_whole, seed, dtypes=INTEGERS, shapes=_SHAPES, layouts=LAYOUTS, draws=10)
    yield from sweep(_uniform, seed, dtypes=FLOATING, shapes=_SHAPES, layouts=LAYOUTS, draws=10)
    yield from sweep(_normal, seed, dtypes=FLOATING, shapes=_SHAPES, layouts=LAYOUTS, draws=10)
    yield from sweep(_bernoulli, seed, dtypes=REAL, shapes=_SHAPES, layouts=LAYOUTS, draws=10)
    for rate in (0.25, 0.0, 1.0):
        for scale_at_inference in (0, 1):
            build = partial(_dropout, rate, scale_at_inference)
            shapes = _SHAPES if rate == 0.25 else _SHAPES[:1]
            yield from sweep(build, seed, dtypes=FLOATING, shapes=shapes, layouts=LAYOUTS, draws=4)
    for dtype in FLOATING:
        yield _turned(dtype)
        yield _turned_dropout(dtype)
        for name in _DISTRIBUTIONS:
            yield Check("random", f"{name}/{dtype}/distribution", partial(_check_distribution, name, dtype), dtype)
        yield Check("random", f"truncated_normal/{dtype}/reproducible", partial(_check_reproducible, dtype), dtype)


def _attributes(distribution: int, a: float, b: float) -> dict[str, Any]:
    return {"distribution": distribution, "key": _KEY, "counter": list(_COUNTER), "a": a, "b": b}


def _random(
    name: str,
    dtype: str,
    shape: tuple[int, ...],
    layout: str,
    attributes: dict[str, Any],
    make: Callable[[int], Expected],
) -> Case:
    """``make`` gets the number of elements and gives them in row-major order."""
    layout = output_layout(layout)

    def expected(_: Sequence[Array]) -> list[Expected]:
        flat = make(math.prod(shape))
        magnitude = None if flat.magnitude is None else flat.magnitude.reshape(shape)
        return [Expected(flat.values.reshape(shape), flat.roundings, magnitude)]

    variant = f"{name}/{dtype}/{shape_name(shape)}/{layout}"
    return Case("random", variant, dtype, (), (Operand(dtype, shape, layout=layout),), expected, attributes)


def _words(count: int, dtype: str) -> Array:
    return reference.words(count, storage(dtype).itemsize, _KEY, _COUNTER)


def _bits(dtype: str, shape: tuple[int, ...], layout: str) -> Case:
    def make(count: int) -> Expected:
        return Expected(_words(count, dtype), roundings=0)

    return _random("bits", dtype, shape, layout, _attributes(_BITS, 0, 1), make)


def _whole(dtype: str, shape: tuple[int, ...], layout: str) -> Case:
    low, high = (3, 90) if dtype.startswith("uint") else (-40, 77)

    def make(count: int) -> Expected:
        return Expected(low + (_words(count, dtype) % np.uint64(high - low)).astype(np.int64), roundings=0)

    return _random("integers", dtype, shape, layout, _attributes(_UNIFORM, low, high), make)


def _uniform(dtype: str, shape: tuple[int, ...], layout: str) -> Case:
    low, high = -1.5, 2.0

    def make(count: int) -> Expected:
        values = low + reference.unit(_words(count, dtype), dtype) * (high - low)
        return Expected(values, 2, np.full(count, high - low))

    return _random("uniform", dtype, shape, layout, _attributes(_UNIFORM, low, high), make)


def _normal(dtype: str, shape: tuple[int, ...], layout: str) -> Case:
    mean, deviation = 0.5, 2.0

    def make(count: int) -> Expected:
        values, radius = reference.normal(count, storage(dtype).itemsize, _KEY, _COUNTER)
        # A sine, a cosine, a logarithm and a root (OpenCL C 1.2, section 7.4), and the rounding of an angle up to 2 pi.
        return Expected(mean + deviation * values, 34, mean + deviation * radius)

    return _random("normal", dtype, shape, layout, _attributes(_NORMAL, mean, deviation), make)


def _unit_of_test(count: int, dtype: str) -> Array:
    """What is compared with a probability: always a number of float32's or float64's fraction."""
    return reference.unit(_words(count, dtype), "float64" if storage(dtype).itemsize == 8 else "float32")


def _bernoulli(dtype: str, shape: tuple[int, ...], layout: str) -> Case:
    probability = 0.375

    def make(count: int) -> Expected:
        return Expected(_unit_of_test(count, dtype) < probability, roundings=0)

    return _random("bernoulli", dtype, shape, layout, _attributes(_BERNOULLI, probability, 1), make)


def _dropout(rate: float, scale_at_inference: int, dtype: str, shape: tuple[int, ...], layout: str) -> Case:
    def expected(inputs: Sequence[Array]) -> list[Expected]:
        kept = _unit_of_test(math.prod(shape), dtype).reshape(shape) >= rate
        factor = 1.0 if scale_at_inference or rate == 1 else 1 / (1 - rate)
        return [Expected(np.where(kept, inputs[0] * factor, 0.0), roundings=3), Expected(kept, roundings=0)]

    when = "scale_at_inference" if scale_at_inference else "scale"
    attributes = {**_attributes(0, rate, 1), "scale_at_inference": scale_at_inference}
    mask = "uint8" if layout == CONTIGUOUS else "bool"
    return Case(
        "dropout",
        f"{rate}/{when}/{dtype}/{shape_name(shape)}/{layout}",
        dtype,
        (Operand(dtype, shape, normal(), layout),),
        (Operand(dtype, shape, layout=output_layout(layout)), Operand(mask, shape, layout=output_layout(layout))),
        expected,
        attributes,
    )


# -- the counter's upper half from memory

_TURN = 3


def _turned(dtype: str) -> Case:
    def expected(_: Sequence[Array]) -> list[Expected]:
        words = reference.words(999, storage(dtype).itemsize, _KEY, (_COUNTER[0], _COUNTER[1] + _TURN))
        return [Expected(reference.unit(words, dtype), 2, np.ones(999))]

    attributes = _attributes(_UNIFORM, 0, 1)
    return Case("random", f"turn/{dtype}", dtype, (_turn(),), (Operand(dtype, (999,)),), expected, attributes)


def _turned_dropout(dtype: str) -> Case:
    def expected(inputs: Sequence[Array]) -> list[Expected]:
        words = reference.words(999, storage(dtype).itemsize, _KEY, (_COUNTER[0], _COUNTER[1] + _TURN))
        kept = reference.unit(words, "float64" if storage(dtype).itemsize == 8 else "float32") >= 0.25
        return [Expected(np.where(kept, inputs[0] / 0.75, 0.0), roundings=3), Expected(kept, roundings=0)]

    return Case(
        "dropout",
        f"turn/{dtype}",
        dtype,
        (Operand(dtype, (999,), normal()), _turn()),
        (Operand(dtype, (999,)), Operand("uint8", (999,))),
        expected,
        _attributes(0, 0.25, 1),
    )


def _turn() -> Operand:
    return Operand("int64", (1,), lambda _, shape: np.full(shape, _TURN))


# -- samples


def _normal_distribution(x: Array) -> Array:
    return np.asarray(erfc(-x / math.sqrt(2)) / 2)


def _truncated_distribution(x: Array) -> Array:
    low = float(_normal_distribution(np.array(-2.0)))
    return np.clip((_normal_distribution(x) - low) / (1 - 2 * low), 0, 1)


#: Number and cumulative distribution, for a = 0 and b = 1.
_DISTRIBUTIONS: dict[str, tuple[int, Callable[[Array], Array]]] = {
    "uniform": (_UNIFORM, lambda x: np.clip(x, 0, 1)),
    "normal": (_NORMAL, _normal_distribution),
    "truncated_normal": (_TRUNCATED, _truncated_distribution),
}


def _draw(session: Session, dtype: str, distribution: int, key: int) -> Array:
    attributes = {"distribution": distribution, "key": key, "a": 0.0, "b": 1.0}
    (values,) = session.results("random", [], [(dtype, (_SAMPLE,))], attributes)
    return decode(values, dtype)


def _check_distribution(name: str, dtype: str, session: Session) -> None:
    """The largest distance between the sample's distribution and the true one.

    By the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart it exceeds sqrt(ln(2 / p) / 2n) with a probability of
    at most p. Numbers of few bits are rounded, which moves the distribution by as much as one of them weighs.
    """
    number, distribution = _DISTRIBUTIONS[name]
    values = np.sort(_draw(session, dtype, number, session.seed + 1))
    allowed = math.sqrt(math.log(2 / _FALSE_ALARM) / (2 * _SAMPLE))
    points, first = np.unique(values, return_index=True)
    below, up_to = first / _SAMPLE, np.append(first[1:], _SAMPLE) / _SAMPLE
    wanted = distribution(points)
    weight = (up_to - below).max() if dtype in ("float16", "bfloat16") else 0.0
    distance = max(np.abs(wanted - below).max(), np.abs(wanted - up_to).max())
    assert distance <= allowed + weight, (
        f"the sample's distribution is {distance:.4f} away from the right one, {allowed + weight:.4f} are allowed"
    )
    if name == "uniform":
        assert values[0] >= 0 and values[-1] < 1, f"the sample reaches from {values[0]} to {values[-1]}, not in [0, 1)"
    if name == "truncated_normal":
        assert np.abs(values).max() <= 2, (
            f"a number lies {np.abs(values).max()} standard deviations out; 2 are the most"
        )


def _check_reproducible(dtype: str, session: Session) -> None:
    one, again, other = (_draw(session, dtype, _TRUNCATED, key) for key in (1, 1, 2))
    assert np.array_equal(one, again), "the same key and counter gave different numbers"
    equal = np.count_nonzero(one == other)
    # Even the most frequent number of bfloat16 is rare.
    assert equal < _SAMPLE / 10, f"{equal} of {_SAMPLE} numbers of another key are the same"
