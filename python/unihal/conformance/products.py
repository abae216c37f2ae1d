"""Cases of matmul."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from .activations import COMMUTE_WITH_ROUNDING, activated
from .case import Array, Case, Expected, Operand, Reference, Values, written
from .number_format import is_complex, is_inexact
from .reductions import widened
from .reference.enums import Activation, MathMode
from .reference.matmul import matmul
from .sweep import COMPLEX, FLOATING, INTEGERS, shape_name, sweep
from .tolerance import early_rounding_error, factor_error, summation_roundings
from .values import complex_normal, integers, listed, normal, wide


@dataclass(frozen=True)
class _Problem:
    """Shapes of the operands; c may be absent."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    c: tuple[int, ...] | None = None

    @property
    def d(self) -> tuple[int, ...]:
        batch = np.broadcast_shapes(self.a[:-2], self.b[:-2])
        return (*batch, self.a[-2], self.b[-1])

    @property
    def name(self) -> str:
        return "-".join(shape_name(shape) for shape in (self.a, self.b, self.c) if shape is not None)


_PROBLEMS = (
    _Problem((5, 7), (7, 3)),
    _Problem((1, 1), (1, 1)),
    _Problem((1, 31), (31, 1)),
    _Problem((31, 1), (1, 31)),
    _Problem((3, 0), (0, 5)),
    _Problem((0, 5), (5, 3)),
    _Problem((3, 5), (5, 0)),
    _Problem((0, 4, 5), (5, 3)),
    _Problem((5, 7), (7, 3), (3,)),
    _Problem((5, 7), (7, 3), (5, 3)),
    _Problem((5, 7), (7, 3), (5, 1)),
    _Problem((5, 7), (7, 3), (1, 1)),
    _Problem((5, 7), (7, 3), ()),
    _Problem((4, 5, 7), (4, 7, 3)),
    _Problem((4, 5, 7), (7, 3), (3,)),
    _Problem((5, 7), (4, 7, 3), (4, 1, 3)),
    _Problem((2, 1, 5, 7), (3, 7, 2), (3, 1, 1)),
    _Problem((2, 3, 1, 4, 2), (1, 5, 2, 6), (2, 1, 1, 1, 6)),
    _Problem((3, 1, 7), (1, 7, 3)),
    _Problem((3, 1, 7), (7, 3), (1, 3)),
    _Problem((1, 2, 1, 2, 1, 2, 3, 1, 4, 5), (5, 2)),
    _Problem((4, 4), (4, 4), (4, 4)),
    _Problem((3, 2, 2, 2, 2, 3, 5), (2, 2, 2, 5, 2)),
    _Problem((129, 65), (65, 131), (131,)),
    _Problem((257, 300), (300, 259), (257, 259)),
    _Problem((1, 2048), (2048, 515)),
    _Problem((1031, 3), (3, 1033)),
    _Problem((3, 16411), (16411, 5)),
    _Problem((65537, 3), (3, 2)),
    _Problem((2, 3), (3, 65537), (65537,)),
    _Problem((65537, 2, 3), (65537, 3, 2)),
)
#: Sums of more products would leave the range of 8-bit results.
_SMALL_PROBLEMS = tuple(problem for problem in _PROBLEMS if problem.a[-1] <= 7 and len(problem.a) < 5)


def _values(dtype: str) -> Values:
    if is_complex(dtype):
        return complex_normal()
    if is_inexact(dtype):
        return normal()
    return integers(0, 4) if dtype.startswith("u") else integers(-3, 4)


def _reference(attributes: Mapping[str, Any], dtype: str = "mixed") -> Reference:
    def reference(inputs: Sequence[Any]) -> list[Expected]:
        a, b = (widened(x) for x in inputs[:2])
        # In place, c is the former contents of d.
        c = next((widened(x) for x in inputs[2:] if x is not None), None)
        linear = {"alpha": attributes.get("alpha", 1), "beta": attributes.get("beta", 1)}
        sizes = [None if x is None else np.abs(x).astype(np.float64) for x in (a, b, c)]
        magnitude = matmul(*sizes, **{name: abs(value) for name, value in linear.items()})  # type: ignore[arg-type]
        # Each part of a complex product is a sum of two products.
        terms = a.shape[-1] * (2 if np.iscomplexobj(a) and np.iscomplexobj(b) else 1)
        roundings = summation_roundings(terms) + 3
        error = factor_error(attributes, dtype, lambda: abs(linear["alpha"]) * (np.abs(a) @ np.abs(b)))
        values = matmul(a, b, c, **linear)
        activation = attributes.get("activation", Activation.NONE)
        if activation not in COMMUTE_WITH_ROUNDING:
            error = error + early_rounding_error(dtype, values)
        return [activated(Expected(values, roundings, magnitude, error), activation)]

    return reference


def _case(
    dtype: str, problem: _Problem, layout: str, *, attributes: Mapping[str, Any] | None = None, name: str = ""
) -> Case:
    given = attributes or {}
    c = None if problem.c is None else Operand(dtype, problem.c, _values(dtype), layout)
    return Case(
        op="matmul",
        variant=f"{dtype}/{problem.name}/{name or 'plain'}/{layout}",
        dtype=dtype,
        inputs=(
            Operand(dtype, problem.a, _values(dtype), layout),
            Operand(dtype, problem.b, _values(dtype), layout),
            c,
        ),
        outputs=(written(dtype, problem.d, layout),),
        reference=_reference(given, dtype),
        attributes=given,
    )


def _transposed_cases(dtype: str, problem: _Problem) -> Iterator[Case]:
    """Each operand row-major or column-major."""
    for layouts in product(("contiguous", "transposed", "sliced"), repeat=3):
        operands = [
            Operand(dtype, shape, _values(dtype) if i < 2 else None, layout)
            for i, (shape, layout) in enumerate(zip((problem.a, problem.b, problem.d), layouts))
        ]
        yield Case(
            op="matmul",
            variant=f"{dtype}/{problem.name}/a-{layouts[0]}/b-{layouts[1]}/d-{layouts[2]}",
            dtype=dtype,
            inputs=(operands[0], operands[1], None),
            outputs=(operands[2],),
            reference=_reference({}),
        )


def _in_place(dtype: str, shape: tuple[int, ...], layout: str) -> Case:
    """c and d are one view."""
    attributes = {"alpha": -0.5, "beta": 2.0}
    rows, columns = shape[-2:]
    c = Operand(dtype, shape, _values(dtype), layout)
    return Case(
        op="matmul",
        variant=f"{dtype}/{shape_name(shape)}/in-place/{layout}",
        dtype=dtype,
        inputs=(
            Operand(dtype, (*shape[:-2], rows, 9), _values(dtype)),
            Operand(dtype, (9, columns), _values(dtype)),
            c,
        ),
        outputs=(c,),
        reference=_reference(attributes),
        attributes=attributes,
        in_place=((0, 2),),
    )


def _mixed(a: str, b: str, c: str, d: str) -> Case:
    dtypes = (a, b, c, d)
    operands = [Operand(dtype, shape, _values(dtype)) for dtype, shape in zip(dtypes, ((5, 33), (33, 7), (7,)))]
    return Case(
        op="matmul",
        variant="-".join(dtypes),
        dtype="mixed",
        inputs=tuple(operands),
        outputs=(Operand(d, (5, 7)),),
        reference=_reference({}),
    )


def _with_nan(dtype: str, activation: Activation, sizes: tuple[int, int, int]) -> Case:
    """NaN and infinities in the operands: no fused activation may make a number of NaN."""
    attributes = {"activation": int(activation)}
    m, k, n = sizes
    rows = np.array([np.nan, 1, -2, 0.5, np.inf, -1, 3, 2, -np.inf, 0.25])

    def values(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """One of the rows' numbers in each row, among small ones."""
        a = np.full(shape, 2.0**-6)
        a[:, 0] = np.resize(rows, m)
        return a

    return Case(
        op="matmul",
        variant=f"{dtype}/nan/{shape_name(sizes)}/{activation.name.lower()}",
        dtype=dtype,
        inputs=(Operand(dtype, (m, k), values), Operand(dtype, (k, n), listed([1.0, -1.0])), None),
        outputs=(Operand(dtype, (m, n)),),
        reference=_reference(attributes, dtype),
        attributes=attributes,
    )


def _large_and_odd(dtype: str, a_layout: str, b_layout: str, *, bias: bool = False) -> Case:
    """Work that is worth copies of the operands in which no row has an odd length, for libraries that want that."""
    m, k, n = 1025, 1537, 1367
    attributes = {"math_mode": int(MathMode.ALLOW_TF32)}
    return Case(
        op="matmul",
        variant=f"{dtype}/{shape_name((m, k, n))}/large-and-odd/a-{a_layout}/b-{b_layout}" + ("/bias" if bias else ""),
        dtype=dtype,
        inputs=(
            Operand(dtype, (m, k), _values(dtype), a_layout),
            Operand(dtype, (k, n), _values(dtype), b_layout),
            Operand(dtype, (n,), _values(dtype)) if bias else None,
        ),
        outputs=(Operand(dtype, (m, n)),),
        reference=_reference(attributes, dtype),
        attributes=attributes,
    )


def _wide(dtype: str) -> Case:
    """Products of integers with more digits than float64 has."""
    return Case(
        op="matmul",
        variant=f"{dtype}/wide",
        dtype=dtype,
        inputs=(Operand(dtype, (5, 7), wide(dtype, 58)), Operand(dtype, (7, 3), integers(0, 3)), None),
        outputs=(Operand(dtype, (5, 3)),),
        reference=lambda inputs: [Expected(inputs[0] @ inputs[1], 0)],
    )


def _float16_accumulates() -> Case:
    """A sum that float16 could not hold on the way."""
    return Case(
        op="matmul",
        variant="float16/accumulates-in-float32",
        dtype="float16",
        inputs=(
            Operand("float16", (3, 4099), lambda generator, shape: np.ones(shape)),
            Operand("float16", (4099, 2), lambda generator, shape: np.ones(shape)),
        ),
        outputs=(Operand("float32", (3, 2)),),
        reference=lambda inputs: [Expected(np.full((3, 2), 4099.0), 0)],
    )


def _bytes(a: str, b: str, sizes: tuple[int, int, int]) -> Case:
    """Sums of products of 8 bits in int32, which no float32 holds where there are many."""
    m, k, n = sizes
    values = {"int8": integers(-128, 128), "uint8": integers(0, 256)}
    return Case(
        op="matmul",
        variant=f"{a}-{b}-int32/{shape_name(sizes)}",
        dtype="mixed",
        inputs=(Operand(a, (m, k), values[a]), Operand(b, (k, n), values[b], "transposed")),
        outputs=(Operand("int32", (m, n), layout="sliced"),),
        reference=lambda inputs: [Expected(inputs[0].astype(np.int64) @ inputs[1].astype(np.int64), 0)],
    )


def _real_part(expected: Expected) -> Expected:
    return replace(expected, values=expected.values.real)


def cases(seed: int) -> Iterator[Case]:
    """All cases."""
    yield from sweep(_case, seed, dtypes=FLOATING, shapes=_PROBLEMS, draws=24)
    yield from sweep(_case, seed, dtypes=INTEGERS, shapes=_SMALL_PROBLEMS, draws=24)
    with_c = [problem for problem in _PROBLEMS if problem.c is not None]
    for alpha, beta in ((0.5, -2.0), (-1.5, 1.0), (0.0, 3.0), (2.0, 0.0)):
        attributes = {"alpha": alpha, "beta": beta}
        build = partial(_case, attributes=attributes, name=f"alpha{alpha:g}-beta{beta:g}")
        yield from sweep(build, seed, dtypes=FLOATING, shapes=with_c)
    whole = partial(_case, attributes={"alpha": 2, "beta": -3}, name="alpha2-beta-3")
    yield from sweep(whole, seed, dtypes=("int32", "int64"), shapes=[p for p in with_c if p in _SMALL_PROBLEMS])
    yield from sweep(_case, seed, dtypes=COMPLEX, shapes=_PROBLEMS, draws=12)
    scaled = partial(_case, attributes={"alpha": 0.5, "beta": -2.0}, name="alpha0.5-beta-2")
    yield from sweep(scaled, seed, dtypes=COMPLEX, shapes=with_c)
    for activation in list(Activation)[1:]:
        fused = partial(_case, attributes={"activation": int(activation)}, name=activation.name.lower())
        yield from sweep(fused, seed, dtypes=FLOATING, shapes=[*with_c[:3], with_c[-3], _PROBLEMS[4]])
    allowed = {"math_mode": int(MathMode.ALLOW_TF32)}
    tf32 = partial(_case, attributes=allowed, name="tf32-allowed")
    yield from sweep(tf32, seed, dtypes=FLOATING, shapes=_PROBLEMS, draws=12)
    for activation in (Activation.RELU, Activation.GELU_TANH):
        fused = partial(
            _case, attributes={**allowed, "activation": int(activation)}, name=f"tf32-allowed-{activation.name.lower()}"
        )
        yield from sweep(fused, seed, dtypes=("float32",), shapes=with_c[-3:], layouts=("contiguous", "transposed"))
    for batched in (problem for problem in _PROBLEMS if len(problem.a) > 2 and np.prod(problem.d) < 1000):
        for layout in ("transposed", "spaced", "reversed", "broadcast"):
            yield _case("float32", batched, layout, name="layouts")
    yield _case("float32", _PROBLEMS[0], "spaced", name="layouts")
    for dtype in FLOATING:
        for activation in Activation:
            yield _with_nan(dtype, activation, (20, 1, 33))
            yield _with_nan(dtype, activation, (80, 64, 67))
    yield _large_and_odd("bfloat16", "contiguous", "contiguous")
    yield _large_and_odd("bfloat16", "transposed", "contiguous")
    yield _large_and_odd("float16", "contiguous", "transposed", bias=True)
    yield _large_and_odd("float32", "transposed", "transposed")
    yield _wide("int64")
    yield _wide("uint64")
    for dtype in ("float32", "float64", "bfloat16", "int32", *COMPLEX):
        yield from _transposed_cases(dtype, _Problem((5, 7), (7, 3)))
    yield from _transposed_cases("float32", _Problem((3, 65, 33), (3, 33, 67)))
    for dtype in (*FLOATING, *COMPLEX):
        for layout in ("contiguous", "transposed", "sliced", "reversed"):
            yield _in_place(dtype, (5, 7), layout)
            yield _in_place(dtype, (3, 65, 33), layout)
    yield _mixed("complex64", "float32", "complex64", "complex64")
    yield _mixed("int32", "complex64", "float64", "complex128")
    real = _mixed("complex64", "complex128", "complex64", "float32")
    yield replace(real, reference=lambda inputs: [_real_part(each) for each in _reference({})(inputs) if each])
    yield _mixed("float16", "float16", "float32", "float32")
    yield _mixed("bfloat16", "float32", "bfloat16", "float32")
    yield _mixed("float32", "float64", "float32", "float64")
    yield _mixed("int32", "float32", "float32", "float32")
    yield _mixed("int8", "int8", "int32", "int32")
    yield _mixed("uint8", "int8", "int32", "int32")
    for a, b in (("int8", "int8"), ("uint8", "int8"), ("uint8", "uint8")):
        for sizes in ((33, 129, 65), (3, 4099, 7), (1, 2048, 64), (2, 0, 3)):
            yield _bytes(a, b, sizes)
    yield _float16_accumulates()
