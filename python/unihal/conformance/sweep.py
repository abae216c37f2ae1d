"""Which combinations of dtype, shape and layout a kind is tried with.

Their product is too large. Every dtype is tried with the first shape and layout, every shape and every layout with the
first dtype, and a few of the rest are drawn by the seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Callable, TypeVar

from .case import Case
from .layout import LAYOUTS

FLOATING = ("float32", "float64", "float16", "bfloat16")
SIGNED = ("int32", "int64", "int16", "int8")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*SIGNED, *UNSIGNED)
REAL = (*FLOATING, *INTEGERS, "bool")
COMPLEX = ("complex64", "complex128")
ALL_DTYPES = (*REAL, *COMPLEX)
#: For storage only: not among the above.
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")

#: The shape classes of kinds that take any shape: odd, scalar, empty, axes of one element, one long axis, many axes,
#: more elements than a backend computes on one thread.
SHAPES: tuple[tuple[int, ...], ...] = (
    (3, 5, 7),
    (),
    (0,),
    (3, 0, 5),
    (1,),
    (1, 5, 1),
    (31,),
    (2, 70001),
    (1, 2, 1, 3, 1, 2, 3, 1, 2, 3),
    (513, 515),
)

#: More than 2^20 elements: for a case or two of each kind, since they take long.
LARGE = (1021, 1031)

Shape = TypeVar("Shape")


def sweep(
    build: Callable[[str, Shape, str], Case],
    seed: int,
    *,
    dtypes: Sequence[str] = FLOATING,
    shapes: Sequence[Shape],
    layouts: Sequence[str] = LAYOUTS,
    draws: int = 6,
) -> Iterator[Case]:
    """Cases of one problem. ``build(dtype, shape, layout)`` makes one; a shape may be any description of a problem."""
    # By their numbers: descriptions of problems need not be hashable.
    chosen = [
        *((dtype, 0, 0) for dtype in range(len(dtypes))),
        *((0, shape, 0) for shape in range(len(shapes))),
        *((0, 0, layout) for layout in range(len(layouts))),
    ]
    every = product(range(len(dtypes)), range(len(shapes)), range(len(layouts)))
    first = set(chosen)
    rest = [combination for combination in every if combination not in first]
    generator = random.Random(f"{seed} {build(dtypes[0], shapes[0], layouts[0]).name}")
    chosen += generator.sample(rest, min(draws, len(rest)))
    names = set()
    for dtype, shape, layout in chosen:
        case = build(dtypes[dtype], shapes[shape], layouts[layout])
        if case.name not in names:
            names.add(case.name)
            yield case


def shape_name(shape: Sequence[int]) -> str:
    """ "3x5", or "scalar"."""
    return "x".join(map(str, shape)) or "scalar"
