"""Cases of reduce and scan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from .case import Array, Case, Expected, Operand, Reference, Values, written
from .number_format import is_complex, is_inexact, storage
from .reference.enums import Reduction
from .reference.reduction import reduce, scan
from .sweep import COMPLEX, FLOATING, INTEGERS, REAL, shape_name, sweep
from .tolerance import summation_roundings
from .values import around_the_unit_circle, complex_normal, integers, listed, normal, uniform, wide

#: (shape of x, the axes that are reduced).
_Problem = tuple[tuple[int, ...], tuple[int, ...]]

_PROBLEMS: tuple[_Problem, ...] = (
    ((3, 5, 7), (1,)),
    ((3, 5, 7), (2,)),
    ((3, 5, 7), (0, 2)),
    ((3, 5, 7), (0, 1, 2)),
    ((3, 5, 7), ()),
    ((), ()),
    ((1,), (0,)),
    ((31,), (0,)),
    ((0,), (0,)),
    ((3, 0, 5), (1,)),
    ((3, 0, 5), (0,)),
    ((1, 2, 1, 3, 1, 2, 3, 1, 2, 3), (1, 3, 5, 9)),
    ((2, 70001), (1,)),
    ((2, 70001), (0,)),
    ((70001, 2), (0,)),
    ((513, 515), (0,)),
    ((513, 515), (0, 1)),
)

#: More than 2^20 terms.
_LARGE: tuple[_Problem, ...] = (((1, 1500007), (1,)), ((1500007, 1), (0,)), ((1237, 1013), (0, 1)))

#: Products of more elements than these leave the range of float16 and of integers.
_PRODUCT_PROBLEMS = tuple(problem for problem in _PROBLEMS if np.prod(problem[0]) < 1000)

_SCAN_SHAPES: tuple[tuple[tuple[int, ...], int], ...] = (
    ((3, 5, 7), 1),
    ((3, 5, 7), 0),
    ((3, 5, 7), 2),
    ((1,), 0),
    ((31,), 0),
    ((0,), 0),
    ((3, 0, 5), 1),
    ((3, 0, 5), 0),
    ((2, 1031), 1),
    ((1031, 300), 0),
    ((1, 100003), 1),
)

#: The dtype of the result where it is not that of the operand: sums of small integers would overflow.
_WIDE = {dtype: "uint64" if dtype.startswith("u") else "int64" for dtype in (*INTEGERS, "bool")}
_KEEPS_DTYPE = (Reduction.MAXIMUM, Reduction.MINIMUM)
_FLOATING_RESULT = (Reduction.MEAN, Reduction.L1_NORM, Reduction.L2_NORM, Reduction.LOG_SUM_EXP)
_TRUTH = (Reduction.ALL, Reduction.ANY)

#: Other dtypes of x and y.
_MIXED = (
    ("float16", "float32"),
    ("bfloat16", "float32"),
    ("float32", "float64"),
    ("float32", "float16"),
    ("float64", "float32"),
    ("int32", "float64"),
    ("int64", "int32"),
    ("int32", "int32"),
    ("uint8", "int64"),
    ("bool", "int32"),
    ("bool", "float32"),
)

_MIXED_COMPLEX = (
    ("complex64", "complex128"),
    ("complex128", "complex64"),
    ("complex64", "float32"),
    ("float32", "complex64"),
    ("float64", "complex64"),
    ("int32", "complex128"),
)

#: exp and log may be off by 3 ulps each (OpenCL C 1.2, section 7.4).
_EXP_AND_LOG = 12


def widened(x: Array) -> Array:
    """The elements in the type that integers are computed in; floating ones as they are."""
    if x.dtype.kind in "iub":
        return x.astype(np.uint64 if x.dtype == np.uint64 else np.int64)
    return x


def _result_dtype(dtype: str, reduction: Reduction) -> str:
    if is_inexact(dtype) or reduction in _KEEPS_DTYPE:
        return dtype
    if reduction in _TRUTH:
        return "bool"
    return "float32" if reduction in _FLOATING_RESULT else _WIDE[dtype]


def _values(dtype: str, reduction: Reduction) -> Values:
    if dtype == "bool" or reduction in _TRUTH:
        return integers(0, 2)
    if is_complex(dtype):
        return around_the_unit_circle() if reduction == Reduction.PRODUCT else complex_normal()
    if not is_inexact(dtype):
        return integers(1, 3) if reduction == Reduction.PRODUCT else integers(0 if dtype[0] == "u" else -9, 10)
    return uniform(0.75, 1.25) if reduction == Reduction.PRODUCT else normal()


def _of_product(x: Array) -> int:
    """The roundings of one product, relative to its modulus."""
    return 3 if np.iscomplexobj(x) else 1


def _expected(x: Array, shape: tuple[int, ...], dtype: str, result: str, reduction: Reduction) -> Expected:
    # A floating result is computed in floating point.
    x = x.astype(np.result_type(x, np.float64)) if is_inexact(result) else widened(x)
    values = reduce(x, shape, reduction=reduction, elements=storage(dtype) if not is_inexact(dtype) else None)
    modulus = np.abs(values)
    if not is_complex(result):
        values = values.real
    terms = int(np.prod(x.shape)) // max(1, int(np.prod(shape)))
    if reduction in _KEEPS_DTYPE or reduction in _TRUTH:
        return Expected(values, 0)
    if reduction == Reduction.PRODUCT:
        return Expected(values, terms * _of_product(x), modulus)
    roundings = summation_roundings(terms) + 2
    if reduction == Reduction.LOG_SUM_EXP:
        largest = np.max(np.abs(x), initial=0)
        return Expected(values, roundings + _EXP_AND_LOG, np.abs(values) + largest + 1)
    same_sign = Reduction.L1_NORM if reduction in (Reduction.SUM, Reduction.MEAN) else reduction
    magnitude = reduce(np.abs(x).astype(np.float64), shape, reduction=same_sign)
    return Expected(values, roundings, magnitude / max(1, terms) if reduction == Reduction.MEAN else magnitude)


def _reduce_case(
    dtype: str, problem: _Problem, layout: str, *, reduction: Reduction, result: str | None = None
) -> Case:
    shape, axes = problem
    result_dtype = result or _result_dtype(dtype, reduction)
    kept = tuple(1 if axis in axes else length for axis, length in enumerate(shape))
    listed_axes = "".join(map(str, axes)) or "none"
    return Case(
        op="reduce",
        variant=f"{reduction.name.lower()}/{dtype}/{shape_name(shape)}/axes-{listed_axes}/{layout}"
        + (f"/to-{result}" if result else ""),
        dtype=dtype,
        inputs=(Operand(dtype, shape, _values(dtype, reduction), layout),),
        outputs=(written(result_dtype, kept, layout),),
        reference=lambda inputs: [_expected(inputs[0], kept, dtype, result_dtype, reduction)],
        attributes={"reduction": int(reduction)},
    )


def _special(name: str, values: Sequence[float], reduction: Reduction, result: float, dtype: str) -> Case:
    return Case(
        op="reduce",
        variant=f"{reduction.name.lower()}/{dtype}/{name}",
        dtype=dtype,
        inputs=(Operand(dtype, (2, len(values)), listed(values)),),
        outputs=(Operand(dtype, (2, 1)),),
        reference=lambda inputs: [Expected(np.full((2, 1), result), 0)],
        attributes={"reduction": int(reduction)},
    )


_NAN, _INFINITY = float("nan"), float("inf")
_SPECIAL: tuple[tuple[str, tuple[float, ...], Reduction, float], ...] = (
    ("nan-first", (_NAN, 1, 2), Reduction.MAXIMUM, _NAN),
    ("nan-last", (1, 2, _NAN), Reduction.MAXIMUM, _NAN),
    ("nan-beside-infinity", (_INFINITY, _NAN, -_INFINITY), Reduction.MAXIMUM, _NAN),
    ("nan-first", (_NAN, 1, 2), Reduction.MINIMUM, _NAN),
    ("nan-last", (1, 2, _NAN), Reduction.MINIMUM, _NAN),
    ("infinities", (-_INFINITY, -_INFINITY, -_INFINITY), Reduction.MAXIMUM, -_INFINITY),
    ("infinities", (_INFINITY, _INFINITY, _INFINITY), Reduction.MINIMUM, _INFINITY),
    ("nan", (1, _NAN, 2), Reduction.SUM, _NAN),
    ("opposite-infinities", (_INFINITY, 1, -_INFINITY), Reduction.SUM, _NAN),
    ("infinity", (1, _INFINITY, 2), Reduction.MEAN, _INFINITY),
    ("nan-is-true", (_NAN, 1, 1), Reduction.ALL, 1),
    ("nan-is-true", (0, _NAN, 0), Reduction.ANY, 1),
    ("nan", (1, _NAN, 2), Reduction.LOG_SUM_EXP, _NAN),
    ("infinity", (1, _INFINITY, 2), Reduction.LOG_SUM_EXP, _INFINITY),
    ("only-negative-infinities", (-_INFINITY, -_INFINITY), Reduction.LOG_SUM_EXP, -_INFINITY),
)


def _negative_means() -> Iterator[Case]:
    """Means between two integers, of either sign: they are cut toward zero."""
    rows = ((-1, -1, 0), (-2, -3, -3), (1, 1, 0), (2, 3, 3), (-7, 6, 0))
    for dtype, result in (("int32", "int32"), ("int64", "int64"), ("int64", "int32"), ("int8", "int8")):
        yield Case(
            op="reduce",
            variant=f"mean/{dtype}/between-integers/to-{result}",
            dtype=dtype,
            inputs=(Operand(dtype, (5, 3), listed([number for row in rows for number in row])),),
            outputs=(Operand(result, (5, 1)),),
            reference=lambda inputs: [Expected(np.trunc(inputs[0].sum(axis=1, keepdims=True) / 3), 0)],
            attributes={"reduction": int(Reduction.MEAN)},
        )


def _wide(reduction: Reduction, dtype: str, problem: _Problem) -> Case:
    """Integers of more digits than float64 has."""
    shape, axes = problem
    kept = tuple(1 if axis in axes else length for axis, length in enumerate(shape))
    return Case(
        op="reduce",
        variant=f"{reduction.name.lower()}/{dtype}/{shape_name(shape)}/axes-{''.join(map(str, axes))}/wide",
        dtype=dtype,
        inputs=(Operand(dtype, shape, wide(dtype, 58)),),
        outputs=(Operand(dtype, kept),),
        reference=lambda inputs: [_expected(inputs[0], kept, dtype, dtype, reduction)],
        attributes={"reduction": int(reduction)},
    )


def _large_exponents() -> Case:
    """log(sum(exp)) of numbers whose exp is beyond the dtype."""
    return Case(
        op="reduce",
        variant="log_sum_exp/float32/large-exponents",
        dtype="float32",
        inputs=(Operand("float32", (4, 9), uniform(990, 1010)),),
        outputs=(Operand("float32", (4, 1)),),
        reference=lambda inputs: [_expected(inputs[0], (4, 1), "float32", "float32", Reduction.LOG_SUM_EXP)],
        attributes={"reduction": int(Reduction.LOG_SUM_EXP)},
    )


def _float16_sum() -> Case:
    """More ones than float16 can count: it accumulates in float32."""
    return Case(
        op="reduce",
        variant="sum/float16/accumulates-in-float32",
        dtype="float16",
        inputs=(Operand("float16", (3, 4099), listed([1.0])),),
        outputs=(Operand("float32", (3, 1)),),
        reference=lambda inputs: [Expected(np.full((3, 1), 4099.0), 0)],
    )


def _running_magnitude(x: Array, attributes: Mapping[str, Any]) -> Array:
    return scan(np.abs(x).astype(np.float64), **attributes)


def _scan_reference(dtype: str, reduction: Reduction, attributes: Mapping[str, Any], axis: int) -> Reference:
    elements = None if is_inexact(dtype) else storage(dtype)

    def reference(inputs: Sequence[Any]) -> list[Expected]:
        x = widened(inputs[0])
        values = scan(x, **attributes, elements=elements)
        if reduction in _KEEPS_DTYPE:
            return [Expected(values, 0)]
        terms = x.shape[axis]
        if reduction == Reduction.PRODUCT:
            return [Expected(values, terms * _of_product(x))]
        if reduction == Reduction.LOG_SUM_EXP:  # exp and log1p of each step, relative to the largest there is
            largest = np.max(np.abs(x), axis=axis, keepdims=True, initial=1) + np.log(terms + 1)
            return [Expected(values, 8 * summation_roundings(terms), np.broadcast_to(largest, values.shape))]
        return [Expected(values, summation_roundings(terms), _running_magnitude(x, attributes))]

    return reference


def _scan_case(
    dtype: str, problem: tuple[tuple[int, ...], int], layout: str, *, reduction: Reduction, exclusive: int, reverse: int
) -> Case:
    shape, axis = problem
    attributes = {"axis": axis, "reduction": int(reduction), "exclusive": exclusive, "reverse": reverse}
    ends = ("/exclusive" if exclusive else "") + ("/reverse" if reverse else "")
    result = dtype if is_inexact(dtype) or reduction in _KEEPS_DTYPE else _WIDE[dtype]
    return Case(
        op="scan",
        variant=f"{reduction.name.lower()}{ends}/{dtype}/{shape_name(shape)}/axis-{axis}/{layout}",
        dtype=dtype,
        inputs=(Operand(dtype, shape, _values(dtype, reduction), layout),),
        outputs=(written(result, shape, layout),),
        reference=_scan_reference(dtype, reduction, attributes, axis),
        attributes=attributes,
    )


#: Equal neighbours, NaN in several places, infinities and zeros of both signs.
_TIES_AND_NAN = (2.0, -0.0, 0.0, 2.0, np.nan, 5.0, np.nan, np.inf, -np.inf, 1.0, 1.0)


def _places_reference(reduction: Reduction, axis: int, reverse: int) -> Reference:
    def reference(inputs: Sequence[Any]) -> list[Expected]:
        x = widened(inputs[0])
        rows = np.moveaxis(x, axis, -1)[..., :: -1 if reverse else 1]
        if not rows.size:
            return [Expected(x, 0), Expected(np.zeros(x.shape, np.int64), 0)]
        running = scan(rows, axis=rows.ndim - 1, reduction=reduction)
        last = (rows == running) | (rows != rows)
        places = np.maximum.accumulate(np.where(last, np.arange(rows.shape[-1]), 0), axis=-1)
        if reverse:
            places = rows.shape[-1] - 1 - places
        # The element itself: of zeros, the sign too is the last one's.
        values = np.take_along_axis(np.moveaxis(x, axis, -1), places, -1)
        found = (np.moveaxis(each[..., :: -1 if reverse else 1], -1, axis) for each in (values, places))
        return [Expected(each, 0) for each in found]

    return reference


def _places_case(
    dtype: str,
    problem: tuple[tuple[int, ...], int],
    layout: str,
    *,
    reduction: Reduction,
    reverse: int,
    name: str = "",
    values: Values | None = None,
    index_dtype: str = "int64",
) -> Case:
    shape, axis = problem
    low = 0 if dtype.startswith("u") or dtype == "bool" else -9
    return Case(
        op="scan",
        variant=f"{reduction.name.lower()}{'/reverse' if reverse else ''}/places-{index_dtype}/{dtype}/"
        f"{shape_name(shape)}/axis-{axis}/{layout}{name}",
        dtype=dtype,
        inputs=(Operand(dtype, shape, values or integers(low, 2 if dtype == "bool" else 10), layout),),
        outputs=(written(dtype, shape, layout), written(index_dtype, shape, layout)),
        reference=_places_reference(reduction, axis, reverse),
        attributes={"axis": axis, "reduction": int(reduction), "reverse": reverse},
    )


def _running_places(seed: int) -> Iterator[Case]:
    """Running extremes with their places: ties, NaN, both directions, rows that only rise."""
    for reduction, reverse in ((Reduction.MAXIMUM, 0), (Reduction.MINIMUM, 0), (Reduction.MAXIMUM, 1)):
        build = partial(_places_case, reduction=reduction, reverse=reverse)
        yield from sweep(build, seed, dtypes=REAL, shapes=_SCAN_SHAPES)
        for dtype in FLOATING:
            yield build(dtype, ((7, 67), 1), "contiguous", name="/nan", values=listed(_TIES_AND_NAN))
        yield build("float32", ((2, 70001), 1), "contiguous", name="/normal", values=normal())
        yield build("float32", ((2, 5003), 1), "contiguous", name="/rising", values=listed(np.arange(5003.0)))
        yield build("float32", _SCAN_SHAPES[0], "contiguous", index_dtype="int32")
        yield build("int64", _SCAN_SHAPES[0], "contiguous", name="/wide", values=wide("int64"))


def cases(seed: int) -> Iterator[Case]:
    """All cases of both kinds."""
    for reduction in list(Reduction)[1:]:
        yield from sweep(
            partial(_reduce_case, reduction=reduction),
            seed,
            dtypes=REAL,
            shapes=_PRODUCT_PROBLEMS if reduction == Reduction.PRODUCT else _PROBLEMS,
        )
    for reduction in (Reduction.SUM, Reduction.MEAN, Reduction.PRODUCT):
        build = partial(_reduce_case, reduction=reduction)
        problems = _PRODUCT_PROBLEMS if reduction == Reduction.PRODUCT else _PROBLEMS
        yield from sweep(build, seed, dtypes=COMPLEX, shapes=problems)
        for dtype, result in _MIXED_COMPLEX:
            yield _reduce_case(dtype, _PROBLEMS[0], "contiguous", reduction=reduction, result=result)
    for dtype, result in _MIXED:
        for reduction in (Reduction.SUM, Reduction.MEAN, Reduction.MAXIMUM, Reduction.ANY):
            yield _reduce_case(dtype, _PROBLEMS[0], "contiguous", reduction=reduction, result=result)
    for dtype in FLOATING:
        for name, values, special, value in _SPECIAL:
            yield _special(name, values, special, value, dtype)
    for problem in _LARGE:
        yield _reduce_case("float32", problem, "contiguous", reduction=Reduction.SUM)
    for reduction in (Reduction.MEAN, Reduction.MAXIMUM, Reduction.ANY):
        yield _reduce_case("int32", _LARGE[0], "contiguous", reduction=reduction)
    for exclusive, reverse in ((0, 0), (1, 1)):
        yield _scan_case(
            "float32",
            ((1, 1100009), 1),
            "contiguous",
            reduction=Reduction.SUM,
            exclusive=exclusive,
            reverse=reverse,
        )
    yield from _running_places(seed)
    yield _large_exponents()
    yield _float16_sum()
    yield from _negative_means()
    for dtype in ("int64", "uint64"):
        for reduction in (Reduction.SUM, Reduction.MAXIMUM, Reduction.MINIMUM):
            for problem in (_PROBLEMS[1], _PROBLEMS[0], ((31,), (0,))):
                yield _wide(reduction, dtype, problem)
        for reduction in (Reduction.SUM, Reduction.MAXIMUM):
            wide_scan = _scan_case(dtype, _SCAN_SHAPES[0], "contiguous", reduction=reduction, exclusive=0, reverse=0)
            yield replace(
                wide_scan, variant=f"{wide_scan.variant}/wide", inputs=(Operand(dtype, (3, 5, 7), wide(dtype, 58)),)
            )
    for reduction in (Reduction.SUM, Reduction.PRODUCT, Reduction.MAXIMUM, Reduction.MINIMUM):
        shapes = _SCAN_SHAPES[:-3] if reduction == Reduction.PRODUCT else _SCAN_SHAPES
        for exclusive, reverse in ((0, 0), (1, 0), (0, 1), (1, 1)):
            yield from sweep(
                partial(_scan_case, reduction=reduction, exclusive=exclusive, reverse=reverse),
                seed,
                dtypes=(*FLOATING, *INTEGERS),
                shapes=shapes,
            )
            if reduction == Reduction.SUM:
                build = partial(_scan_case, reduction=Reduction.LOG_SUM_EXP, exclusive=exclusive, reverse=reverse)
                yield from sweep(build, seed, dtypes=FLOATING, shapes=shapes, draws=3)
            if reduction in (Reduction.SUM, Reduction.PRODUCT):
                build = partial(_scan_case, reduction=reduction, exclusive=exclusive, reverse=reverse)
                yield from sweep(build, seed, dtypes=COMPLEX, shapes=shapes, draws=3)
