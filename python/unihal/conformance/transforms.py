"""Cases of the discrete Fourier transform."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import log2, prod
from typing import Any

import numpy as np

from .case import Array, Case, Expected, Operand, Values, written
from .layout import LAYOUTS
from .reference.enums import FftDirection, FftNormalization
from .reference.fourier import fft, scale_of
from .sweep import sweep
from .values import normal

#: What is transformed into what: the dtypes of a precision.
_FORMS = {
    "complex": {"float32": ("complex64", "complex64"), "float64": ("complex128", "complex128")},
    "from_real": {"float32": ("float32", "complex64"), "float64": ("float64", "complex128")},
    "to_real": {"float32": ("complex64", "float32"), "float64": ("complex128", "float64")},
}


@dataclass(frozen=True)
class _Problem:
    """The shape of the signal, and the axes of the transform."""

    name: str
    signal: tuple[int, ...]
    axes: tuple[int, ...]

    def shape(self, halved: bool) -> tuple[int, ...]:
        last = self.axes[-1]
        return tuple(n // 2 + 1 if halved and axis == last else n for axis, n in enumerate(self.signal))


_PROBLEMS = (
    _Problem("rows", (3, 5, 24), (2,)),
    _Problem("columns", (5, 24, 7), (1,)),
    _Problem("two-axes", (3, 12, 10), (1, 2)),
    _Problem("two-axes-swapped", (9, 8, 3), (1, 0)),
    _Problem("three-axes", (6, 5, 9), (0, 1, 2)),
    _Problem("three-axes-of-four", (4, 2, 3, 5), (0, 2, 3)),
    _Problem("one", (3, 1), (1,)),
    _Problem("two", (3, 2), (1,)),
    _Problem("empty", (0, 8), (1,)),
    _Problem("of-nothing", (3, 0), (1,)),
    _Problem("scalar-batch", (16,), (0,)),
    _Problem("many-axes", (2, 1, 3, 1, 2, 1, 2, 6), (7,)),
    _Problem("many-rows", (70001, 4), (1,)),
    _Problem("large", (33, 1024), (1,)),
    _Problem("short-lines", (7, 128), (1,)),
    _Problem("lines", (3, 512), (1,)),
    _Problem("many-images", (4, 75, 33, 34), (2, 3)),
)

#: Lengths of which each has a way of its own through some implementation: small primes and their powers and products,
#: large primes, lengths beyond local memory, and lengths with large prime factors beyond it.
_LENGTHS = (
    *range(3, 18),
    *(25, 27, 29, 31, 32, 37, 40, 49, 60, 61, 64, 67, 77, 81, 96, 100, 101, 120, 121, 125, 127, 128, 134, 144, 169),
    *(200, 243, 256, 257, 343, 360),
    *(
        512,
        625,
        720,
        768,
        1000,
        1009,
        1024,
        1155,
        1280,
        1536,
        2039,
        2048,
        2187,
        3600,
        4096,
        4099,
        5040,
        8192,
        10007,
        16384,
        19683,
        20011,
    ),
    *(20022, 32768, 46656, 65536, 65537, 99999, 100003, 131072, 262144, 500000),
)

_LENGTHS_OF_MANY = (60, 67, 120, 128, 134, 256, 360, 768, 1009, 1155, 2048, 4099)


def _roundings(length: int) -> float:
    """The roundings that an element of a transform counts for, relative to its input's norm.

    The error's norm is at most 7 u log2 n of the result's (N. Higham, Accuracy and Stability of Numerical Algorithms,
    2nd ed., theorem 24.2, with its eta of about 7 u), and an element's share of it deviates by a factor of four.
    Bluestein's way has three transforms of up to four times the length.
    """
    return 28 * (log2(max(length, 2)) + 2)


def _case(precision: str, problem: _Problem, layout: str, *, form: str, attributes: dict[str, Any]) -> Case:
    source, target = _FORMS[form][precision]
    given = problem.shape(halved=form == "to_real")
    result = problem.shape(halved=form == "from_real")
    length = prod(problem.signal[axis] for axis in problem.axes)
    direction = FftDirection(attributes.get("direction", FftDirection.FORWARD))
    normalization = FftNormalization(attributes.get("normalization", FftNormalization.UNSCALED))

    def reference(inputs: Sequence[Any]) -> list[Expected]:
        (x,) = inputs
        values = fft(x, result, form == "to_real", problem.axes, direction, normalization)
        norm = np.sqrt((np.abs(x) ** 2).sum(axis=problem.axes, keepdims=True))
        if form == "to_real":  # the half that is not stored counts as well
            norm = norm * np.sqrt(2)
        magnitude = norm * scale_of(normalization, length)
        return [Expected(values, _roundings(length), np.broadcast_to(magnitude, values.shape))]

    values: Values = _complex_normal if source.startswith("complex") else normal()
    names = (form, direction.name.lower(), normalization.name.lower(), problem.name, precision, layout)
    return Case(
        op="fft",
        variant="/".join(names),
        dtype=source,
        inputs=(Operand(source, given, values, layout),),
        outputs=(written(target, result, layout),),
        reference=reference,
        attributes={**attributes, "axis_count": len(problem.axes), "axes": problem.axes},
    )


def _complex_normal(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.asarray(generator.normal(size=shape) + 1j * generator.normal(size=shape))


def cases(seed: int) -> Iterator[Case]:
    """All cases."""
    for form, direction in product(_FORMS, FftDirection):
        build = partial(_case, form=form, attributes={"direction": int(direction)})
        yield from sweep(build, seed, dtypes=("float32", "float64"), shapes=_PROBLEMS, layouts=LAYOUTS, draws=10)
        for normalization in (FftNormalization.BY_LENGTH, FftNormalization.ORTHONORMAL):
            scaled = {"direction": int(direction), "normalization": int(normalization)}
            yield _case("float32", _PROBLEMS[2], "contiguous", form=form, attributes=scaled)
    for length, form in product(_LENGTHS, _FORMS):
        # A few lines of a length, and one alone; of some also as many as are worth being transformed together.
        for count in (3, 1, 17)[: 3 if length in _LENGTHS_OF_MANY else 2]:
            problem = _Problem(f"{count}x{length}", (count, length), (1,))
            precision = "float64" if count == 1 else "float32"
            inverse = {"direction": int(form == "to_real"), "normalization": int(form == "to_real")}
            yield _case(precision, problem, "contiguous", form=form, attributes=inverse)
