"""Cases of matmul_quantized."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .activations import COMMUTE_WITH_ROUNDING, activated
from .case import Array, Case, Expected, Operand, Values, written
from .layout import CONTIGUOUS
from .number_format import FORMATS
from .reference.enums import Activation
from .reference.quantization import dequantized
from .sweep import shape_name, sweep
from .tolerance import early_rounding_error, summation_roundings
from .values import integers, normal, uniform

_DTYPES = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class _Problem:
    """Sizes, how weights are stored, and which operands there are."""

    a: tuple[int, ...]
    n: int
    bits: int = 4
    weights: str = "uint8"
    block_size: int = 0
    #: Of the zero points: "" for none, "b" for the weights' own, else floating.
    zeros: str = ""
    zero_point: float = 0
    c: tuple[int, ...] | None = None
    #: The shape of the scales, if not one for each block and channel.
    scales: tuple[int, ...] | None = None

    @property
    def k(self) -> int:
        return self.a[-1]

    @property
    def blocks(self) -> int:
        return 1 if self.block_size == 0 else -(-self.k // self.block_size)

    @property
    def name(self) -> str:
        how = f"{self.weights}-{self.bits}-by-{self.block_size or 'all'}"
        zeros = f"{self.zeros}-zeros" if self.zeros else f"zero{self.zero_point:g}"
        sizes = "-".join(shape_name(s) for s in (self.a, (self.k, self.n), self.c, self.scales) if s is not None)
        return f"{sizes}/{how}/{zeros}"


_PROBLEMS = (
    _Problem((1, 64), 5, block_size=32, zeros="b"),
    _Problem((1, 300), 37, block_size=16, zeros="b"),
    _Problem((1, 512), 70, block_size=128, zero_point=8),
    _Problem((3, 96), 33, block_size=32, zeros="float", c=(33,)),
    _Problem((7, 129), 12, weights="int8", block_size=64, zeros="b", c=(7, 12)),
    _Problem((2, 4, 80), 9, block_size=16, c=(1, 9)),
    _Problem((5, 31), 4, weights="int8", zero_point=0.5),
    _Problem((1, 1), 1),
    _Problem((1, 16), 3, bits=8, weights="int8"),
    _Problem((1, 515), 66, bits=8, weights="uint8", zeros="b"),
    _Problem((1, 301), 7, weights="int8", block_size=64, zeros="float"),
    _Problem((1, 203), 5, bits=8, weights="int8", block_size=32, zeros="float"),
    _Problem((8, 256), 40, bits=8, weights="int8", block_size=32, zeros="b", c=()),
    _Problem((4, 64), 8, bits=8, weights="int8", scales=()),
    _Problem((4, 64), 8, bits=8, block_size=32, scales=(8,), zeros="float"),
    _Problem((2, 48), 6, bits=8, zero_point=128, block_size=16, scales=(3, 1)),
    _Problem((70, 160), 65, block_size=32, zeros="b", c=(65,)),
    _Problem((33, 67), 48, bits=8, weights="int8", zeros="float"),
    _Problem((0, 16), 3, block_size=16),
    _Problem((3, 16), 0, block_size=16),
    _Problem((3, 0), 5, bits=8, c=(5,)),
    _Problem((2, 3, 17, 34), 21, block_size=16, weights="int8"),
)


def _scale() -> Values:
    return uniform(0.01, 0.2)


def _reference(problem: _Problem, dtype: str, attributes: dict[str, Any]) -> Any:
    def reference(inputs: Sequence[Any]) -> list[Expected]:
        a, b, scales, zeros = inputs[:4]
        # In place, c is the former contents of d.
        c = next((np.asarray(x, np.float64) for x in inputs[4:] if x is not None), None)
        stored = {name: attributes[name] for name in ("bits", "block_size", "zero_point") if name in attributes}
        w = dequantized(b, scales, zeros, problem.k, **stored)
        a = np.asarray(a, np.float64)
        values, sizes = a @ w, np.abs(a) @ np.abs(w)
        # Weights may be rounded to a's dtype; each has two roundings of its own besides.
        weights = FORMATS[dtype]
        error = weights.unit_roundoff * sizes + weights.smallest_subnormal / 2 * np.abs(a).sum(-1, keepdims=True)
        magnitude = sizes
        if c is not None:
            values, magnitude = values + c, magnitude + np.abs(c)
        activation = attributes.get("activation", Activation.NONE)
        if activation not in COMMUTE_WITH_ROUNDING:
            error = error + early_rounding_error(dtype, values)
        return [activated(Expected(values, summation_roundings(problem.k) + 5, magnitude, error), activation)]

    return reference


def _case(
    dtype: str, problem: _Problem, layout: str, *, activation: Activation = Activation.NONE, scales: str = ""
) -> Case:
    packed = 8 // problem.bits
    rows, zero_rows = -(-problem.k // packed), problem.blocks
    zeros = None
    whole = integers(-128, 128) if problem.weights == "int8" else integers(0, 256)
    if problem.zeros == "b":
        zero_rows = -(-problem.blocks // packed)
        zeros = Operand(problem.weights, (zero_rows, problem.n), whole, layout)
    elif problem.zeros:
        zeros = Operand(scales or dtype, (zero_rows, problem.n), normal(4), layout)
    attributes: dict[str, Any] = {"bits": problem.bits, "block_size": problem.block_size}
    if problem.zero_point:
        attributes["zero_point"] = problem.zero_point
    if activation != Activation.NONE:
        attributes["activation"] = int(activation)
    scale_shape = (problem.blocks, problem.n) if problem.scales is None else problem.scales
    variant = f"{dtype}/{problem.name}/{layout}"
    if scales:
        variant += f"/{scales}-scales"
    if activation != Activation.NONE:
        variant += f"/{activation.name.lower()}"
    return Case(
        op="matmul_quantized",
        variant=variant,
        dtype=dtype,
        inputs=(
            Operand(dtype, problem.a, normal(), layout),
            Operand(problem.weights, (rows, problem.n), whole, layout),
            Operand(scales or dtype, scale_shape, _scale(), layout),
            zeros,
            None if problem.c is None else Operand(dtype, problem.c, normal(), layout),
        ),
        outputs=(written(dtype, (*problem.a[:-1], problem.n), layout),),
        reference=_reference(problem, dtype, attributes),
        attributes=attributes,
    )


def _along_k(case: Case) -> Case:
    """Weights, scales and zero points channel by channel, as inference engines store them."""
    turned = [
        replace(operand, layout="transposed") if operand is not None and i in (1, 2, 3) else operand
        for i, operand in enumerate(case.inputs)
    ]
    return replace(case, inputs=tuple(turned), variant=f"{case.variant}/channel-by-channel")


def _in_place(dtype: str) -> Case:
    case = _case(dtype, _Problem((3, 96), 33, block_size=32, zeros="b"), CONTIGUOUS)
    c = Operand(dtype, (3, 33), normal())
    return replace(case, inputs=(*case.inputs[:4], c), outputs=(c,), in_place=((0, 4),), variant=f"{dtype}/in-place")


def _exact(weights: str, bits: int) -> Case:
    """Each weight by itself, in the order in which op.h packs them."""
    k, n = 256, 3

    def one_hot(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return np.eye(k)

    def pattern(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        low = -128 if weights == "int8" else 0
        return (np.arange(shape[0])[:, None] * 37 + np.arange(n) * 11) % 256 + low

    attributes = {"bits": bits, "zero_point": 3.0}

    def reference(inputs: Sequence[Any]) -> list[Expected]:
        w = dequantized(inputs[1], inputs[2], None, k, bits=bits, zero_point=3.0)
        return [Expected(w, 0)]

    return Case(
        op="matmul_quantized",
        variant=f"float32/each-weight/{weights}-{bits}",
        dtype="float32",
        inputs=(
            Operand("float32", (k, k), one_hot),
            Operand(weights, (k * bits // 8, n), pattern, "transposed"),
            Operand("float32", (), lambda generator, shape: np.full(shape, 0.5)),
        ),
        outputs=(Operand("float32", (k, n)),),
        reference=reference,
        attributes=attributes,
    )


def cases(seed: int) -> Iterator[Case]:
    """All cases."""
    yield from sweep(_case, seed, dtypes=_DTYPES, shapes=_PROBLEMS, draws=16)
    for dtype in _DTYPES:
        for problem in _PROBLEMS:
            if dtype == "float32" or problem.a[0] == 1:
                yield _along_k(_case(dtype, problem, CONTIGUOUS))
        yield _in_place(dtype)
    for scales in ("float32", "bfloat16"):
        yield _along_k(_case("float16", _PROBLEMS[3], CONTIGUOUS, scales=scales))
        yield _case("float16", _PROBLEMS[14], CONTIGUOUS, scales=scales)
    for activation in list(Activation)[1:]:
        fused = partial(_case, activation=activation)
        yield _along_k(fused("float32", _PROBLEMS[3], CONTIGUOUS))
        yield fused("float16", _PROBLEMS[14], CONTIGUOUS)
    for weights in ("int8", "uint8"):
        for bits in (4, 8):
            yield _exact(weights, bits)
