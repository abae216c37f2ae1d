"""Cases of copies, casts, fills, sequences and triangles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Callable

import numpy as np

from .case import Array, Case, Expected, Operand, Values
from .layout import CONTIGUOUS, IMAGE_LAYOUTS, LAYOUTS, output_layout
from .number_format import FORMATS, decode, is_complex, is_inexact
from .sweep import ALL_DTYPES, COMPLEX, FLOAT8, FLOATING, INTEGERS, LARGE, REAL, SHAPES, shape_name, sweep
from .values import bit_patterns, integers, listed, normal, wide

_SHAPE = SHAPES[0]

#: The dtypes to which float32 is cast in all shapes and layouts.
_SWEPT_TARGETS = ("float64", "float16", "int32", "complex64")

#: Integers to which numbers are cast by way of a wider one, so that those beyond the range wrap.
_WRAPS_BY = {"int8": "int32", "int16": "int32", "uint8": "int32", "uint16": "int32", "uint32": "int64"}

#: Shapes of the last two axes' triangles.
_MATRICES = ((3, 5, 7), (0, 4), (4, 0), (1, 1), (6, 2), (1, 2, 1, 3, 1, 2, 1, 2, 3, 4), (301, 1003), (1025, 1031))


def cases(seed: int) -> Iterator[Case]:
    """The cases of all kinds of the family."""
    yield from sweep(_copy, seed, dtypes=ALL_DTYPES, shapes=SHAPES, layouts=IMAGE_LAYOUTS, draws=40)
    yield _copy("float32", LARGE, CONTIGUOUS)
    yield _copy("int8", LARGE, "transposed")
    yield from _copies_of_special_layouts()
    for source in ALL_DTYPES:
        for target in ALL_DTYPES:
            if source != "float32" or target not in _SWEPT_TARGETS:
                yield _cast(source, target, _SHAPE, CONTIGUOUS)
    for target in _SWEPT_TARGETS:

        def cast(source: str, shape: tuple[int, ...], layout: str, target: str = target) -> Case:
            return _cast(source, target, shape, layout)

        yield from sweep(cast, seed, dtypes=("float32",), shapes=SHAPES, layouts=LAYOUTS, draws=10)
    yield _cast("float32", "int32", LARGE, CONTIGUOUS)
    yield _cast("float16", "float32", LARGE, "transposed")
    yield from _float8()
    yield from _rounding_casts()
    yield from _casts_that_wrap()
    yield from _wide_integers()
    yield from _bits()
    yield from sweep(_fill, seed, dtypes=ALL_DTYPES, shapes=SHAPES, draws=20)
    yield _fill("float32", LARGE, CONTIGUOUS)
    yield _iota("int32", LARGE, CONTIGUOUS)
    yield _fill_default()
    yield from _special_fills()
    yield from _wide_sequences()
    yield from sweep(_iota, seed, dtypes=(*FLOATING, *INTEGERS), shapes=SHAPES, draws=20)
    yield from sweep(_triangular, seed, dtypes=REAL, shapes=_MATRICES, draws=20)
    for upper in (0, 1):
        for diagonal in (-9, -1, 0, 2, 9):
            yield _triangle("float32", (4, 6), CONTIGUOUS, upper, diagonal)
    yield _triangle("float32", (5, 7), "sliced", 1, 1, in_place=True)


def _numbers(dtype: str) -> Values:
    """Numbers of both signs that are distinct enough to show where each one went."""
    if is_complex(dtype):
        return lambda generator, shape: generator.normal(0, 9, shape) + 1j * generator.normal(0, 9, shape)
    return normal(9) if is_inexact(dtype) else integers(0, 100)


def _exact(values: Array) -> list[Expected]:
    return [Expected(values, roundings=0)]


# -- copy and cast


def _copy(dtype: str, shape: tuple[int, ...], layout: str) -> Case:
    return _conversion("copy", dtype, dtype, Operand(dtype, shape, _numbers(dtype), layout), shape)


def _copies_of_special_layouts() -> Iterator[Case]:
    """Transposes, concatenations and the like: copies between unlike layouts, which broadcast besides."""
    for dtype in ("float32", "float16", "int8", "complex128"):
        for source in IMAGE_LAYOUTS:
            for target in ("contiguous", "transposed", "sliced", "reversed", "channels_last"):
                operand = Operand(dtype, (2, 17, 33), _numbers(dtype), source)
                variant = f"{dtype}/2x17x33/{source}-to-{target}"
                yield _moved("copy", variant, dtype, operand, Operand(dtype, (2, 17, 33), layout=target))
        for shape in ((), (33,), (17, 1), (2, 1, 1)):
            operand = Operand(dtype, shape, _numbers(dtype))
            variant = f"{dtype}/{shape_name(shape)}-broadcast-to-2x17x33"
            yield _moved("copy", variant, dtype, operand, Operand(dtype, (2, 17, 33)))
        # Axes of one length, which only their strides tell apart.
        for source, target in (("transposed", "contiguous"), ("contiguous", "transposed"), ("spaced", "reversed")):
            operand = Operand(dtype, (5, 5, 5), _numbers(dtype), source)
            result = Operand(dtype, (5, 5, 5), layout=target)
            yield _moved("copy", f"{dtype}/5x5x5/{source}-to-{target}", dtype, operand, result)
    nans = listed([float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e-42])
    for dtype in FLOATING:
        yield _moved("copy", f"{dtype}/special", dtype, Operand(dtype, (3, 5), nans), Operand(dtype, (3, 5)))


def _bits() -> Iterator[Case]:
    """Copies keep the bits, also those of NaN; no number passes through arithmetic."""
    for dtype in (*FLOATING, "complex64"):
        # Of a complex number one part.
        values = bit_patterns("float64" if dtype == "complex64" else dtype)
        for source, target in (
            ("contiguous", "contiguous"),
            ("transposed", "contiguous"),
            ("sliced", "reversed"),
            ("broadcast", "contiguous"),
        ):
            yield Case(
                "copy",
                f"{dtype}/bits/{source}-to-{target}",
                dtype,
                (Operand(dtype, (3, 5, 7), values, source, bits=True),),
                (Operand(dtype, (3, 5, 7), layout=target, bits=True),),
                lambda inputs: _exact(inputs[0]),
            )


def _wide_integers() -> Iterator[Case]:
    """Integers of more digits than float64 has: moved and converted, they must not pass through it."""
    for dtype, other in (("int64", "uint64"), ("uint64", "int64")):
        operand = Operand(dtype, _SHAPE, wide(dtype, 64 if dtype == "uint64" else 63))
        yield _moved("copy", f"{dtype}/wide", dtype, operand, Operand(dtype, _SHAPE))
        for target in (other, dtype, "int32", "float64", "float32"):
            yield _moved("cast", f"{dtype}-{target}/wide", dtype, operand, Operand(target, _SHAPE))
        yield Case(
            "triangular",
            f"{dtype}/wide",
            dtype,
            (operand,),
            (Operand(dtype, _SHAPE),),
            lambda inputs: _exact(np.tril(inputs[0])),
        )


def _cast(source: str, target: str, shape: tuple[int, ...], layout: str) -> Case:
    return _conversion("cast", source, target, Operand(source, shape, _numbers(source), layout), shape)


def _conversion(op: str, source: str, target: str, operand: Operand, shape: tuple[int, ...]) -> Case:
    way = source if op == "copy" else f"{source}-{target}"
    variant = f"{way}/{shape_name(shape)}/{operand.layout}"
    return _moved(op, variant, source, operand, Operand(target, shape, layout=output_layout(operand.layout)))


def _moved(op: str, variant: str, dtype: str, operand: Operand, result: Operand) -> Case:
    def reference(inputs: Sequence[Array]) -> list[Expected]:
        x = np.broadcast_to(inputs[0], result.shape)
        if is_complex(operand.dtype) and not is_complex(result.dtype):
            x = x.real
        unspecified = None
        if not is_inexact(result.dtype) and result.dtype != "bool" and is_inexact(operand.dtype):
            x = np.trunc(x)
            unspecified = _outside(x, _WRAPS_BY.get(result.dtype, result.dtype))
            x = np.where(unspecified, 0, x)
            if result.dtype in _WRAPS_BY:
                x = x.astype(np.int64).astype(result.dtype)
        return [Expected(x, roundings=0, unspecified=unspecified)]

    return Case(op, variant, dtype, (operand,), (result,), reference)


def _outside(x: Array, dtype: str) -> Array:
    """Where a truncated value has no place in an integer dtype."""
    limits = np.iinfo(dtype)
    return np.asarray(~((x >= limits.min) & (x < float(limits.max) + 1)))


def _float8() -> Iterator[Case]:
    """The dtypes for storage: moved, and cast from and to all others."""
    for dtype in FLOAT8:
        for layout in IMAGE_LAYOUTS:
            yield _copy(dtype, _SHAPE, layout)
            yield _cast(dtype, "float32", _SHAPE, layout)
            yield _cast("float32", dtype, _SHAPE, layout)
        yield _cast("float32", dtype, LARGE, CONTIGUOUS)
        yield _fill(dtype, _SHAPE, "transposed")
        for name, value in (("negative-zero", -0.0), ("nan", np.nan), ("beyond", -1e9), ("subnormal", 3e-3)):
            yield _generated("fill", dtype, (5,), CONTIGUOUS, {"value": value}, partial(np.full, 5, value), name)
        for other in (*ALL_DTYPES, *FLOAT8):
            if other != "float32":
                yield _cast(dtype, other, (2, 33), CONTIGUOUS)
            if other not in ("float32", *FLOAT8):
                yield _cast(other, dtype, (2, 33), CONTIGUOUS)
        every = Operand(dtype, (256,), lambda generator, shape: np.arange(256, dtype=np.uint8), bits=True)
        kept = Operand(dtype, (256,), bits=True)
        yield Case("copy", f"{dtype}/every-byte", dtype, (every,), (kept,), lambda inputs: _exact(inputs[0]))
        numbers = decode(np.arange(256, dtype=np.uint8), dtype)
        yield _moved(
            "cast", f"{dtype}/every-byte", dtype, Operand(dtype, (256,), listed(numbers)), Operand("float32", (256,))
        )
        finite = np.unique(np.abs(numbers[np.isfinite(numbers)]))
        middles = (finite[1:] + finite[:-1]) / 2
        last = finite[-1] + (finite[-1] - finite[-2]) / 2
        edges = np.concatenate([middles, finite, [last, np.inf, np.nan, 1e-30]])
        for source in ("float32", "float64"):
            apart = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, np.inf)])
            values = np.concatenate([apart, -apart])
            operand = Operand(source, values.shape, listed(values))
            yield _moved("cast", f"{source}-{dtype}/edges", source, operand, Operand(dtype, values.shape))


def _rounding_casts() -> Iterator[Case]:
    """Values in the middle between two results, just beside it, and at the ends of the range."""
    for source, target in (
        ("float32", "float16"),
        ("float32", "bfloat16"),
        ("float64", "float16"),
        ("float64", "bfloat16"),
        ("float64", "float32"),
        ("int32", "float16"),
        ("int64", "float32"),
        ("int64", "float64"),
        ("uint64", "float64"),
        ("int32", "bfloat16"),
    ):
        step = 2.0 ** (1 - FORMATS[target].bits)
        halves = [1 + (k + 0.5) * step for k in range(4)]
        # Beside by so little that a float32 on the way would round it to the middle.
        nearest = 2.0**-40 if source == "float64" and target != "float32" else 2.0**-20
        beside = [half * (1 + sign * way) for half in halves for way in (2.0**-20, nearest) for sign in (1, -1)]
        largest = FORMATS[target].largest
        edges = [largest, largest * (1 + step / 8), largest * (1 + step / 3), largest * 2]
        least = FORMATS[target].smallest_subnormal
        # Subnormal numbers of the wide formats may be flushed to zero.
        tiny = [least, least / 2, least * 0.75, least * 1.5, least * 2.5] if target == "float16" else []
        numbers = [sign * number for number in (*halves, *beside, *edges, *tiny) for sign in (1, -1)]
        if not is_inexact(source):
            scale = 2 ** FORMATS[target].bits
            numbers = [scale * 2 + k for k in range(12)] + [scale * 4 + k for k in range(12)]
        if source == "float32":
            numbers = [number for number in numbers if abs(number) < FORMATS["float32"].largest]
        operand = Operand(source, (len(numbers),), listed(numbers))
        yield _moved("cast", f"{source}-{target}/rounding", source, operand, Operand(target, (len(numbers),)))
    special = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 0.5, -0.5, 2.9, -2.9]
    for source in FLOATING:
        for target in (*FLOATING, "bool", "int32", "uint8", *COMPLEX):
            operand = Operand(source, (9,), listed(special))
            yield _moved("cast", f"{source}-{target}/special", source, operand, Operand(target, (9,)))


def _casts_that_wrap() -> Iterator[Case]:
    """Numbers beyond a narrow integer's range, at each number of neighbours that a kernel may take at a time."""
    numbers = [-1.0, -7.9, 127.5, 128.0, 255.9, 256.0, -128.9, -129.0, 32768.0, -32769.0, 65535.0, 65536.0, 2e9, -2e9]
    for source in FLOATING:
        kept = numbers if source in ("float32", "float64", "bfloat16") else [n for n in numbers if abs(n) < 6e4]
        for target in _WRAPS_BY:
            for count in (1, 3, len(kept), 8 * len(kept) + 1):
                operand = Operand(source, (count,), listed(np.resize(kept, count)))
                yield _moved("cast", f"{source}-{target}/wraps/{count}", source, operand, Operand(target, (count,)))


# -- fill, iota, triangular


def _fill(dtype: str, shape: tuple[int, ...], layout: str) -> Case:
    value = 2.7 if is_inexact(dtype) else 1 if dtype == "bool" else 113
    return _generated(
        "fill", dtype, shape, layout, {"value": 2.7, "integer_value": int(value)}, lambda: np.full(shape, value)
    )


def _fill_default() -> Case:
    return _generated("fill", "float32", (5,), CONTIGUOUS, {}, lambda: np.zeros(5), "default")


def _special_fills() -> Iterator[Case]:
    """Numbers that a detour would change: -0, NaN, infinities, integers of more digits than float64 has."""
    for dtype in FLOATING:
        for name, value in (("negative-zero", -0.0), ("nan", np.nan), ("infinity", -np.inf), ("tie", 1 + 2.0**-40)):
            yield _generated("fill", dtype, (5,), CONTIGUOUS, {"value": value}, partial(np.full, 5, value), name)
    for dtype, number in (("int64", 2**62 + 1), ("int64", -(2**53) - 1), ("uint64", 2**64 - 3), ("uint64", 2**53 + 1)):
        attributes = {"integer_value": number if number < 2**63 else number - 2**64}
        yield _generated(
            "fill",
            dtype,
            (5,),
            CONTIGUOUS,
            attributes,
            partial(np.full, 5, number, dtype),
            f"wide-{number:+d}",
        )


def _sequence(start: int, dtype: str) -> Array:
    return (start + 7 * np.arange(1031)).astype(dtype)


def _wide_sequences() -> Iterator[Case]:
    """Sequences of integers of more digits than float64 (float32) has."""
    for dtype, start in (("int64", 2**62 + 1), ("int64", -(2**53) - 1), ("uint64", 2**53 + 1), ("int32", 2**24 + 1)):
        yield _generated(
            "iota",
            dtype,
            (1031,),
            CONTIGUOUS,
            {"integer_start": start, "integer_step": 7},
            partial(_sequence, start, dtype),
            f"wide-{start:+d}",
        )


def _iota(dtype: str, shape: tuple[int, ...], layout: str) -> Case:
    start, step = (-1.25, 0.5) if is_inexact(dtype) else (7, 3)

    def values() -> Array:
        length = shape[-1] if shape else 1
        sequence = start + np.arange(length) * step
        return np.broadcast_to(sequence if shape else sequence[0], shape)

    attributes = {"start": -1.25, "step": 0.5, "integer_start": 7, "integer_step": 3}
    return _generated("iota", dtype, shape, layout, attributes, values)


def _generated(
    op: str,
    dtype: str,
    shape: tuple[int, ...],
    layout: str,
    attributes: Mapping[str, float],
    values: Callable[[], Array],
    note: str = "",
) -> Case:
    layout = output_layout(layout)
    variant = f"{dtype}/{shape_name(shape)}/{note or layout}"
    output = Operand(dtype, shape, layout=layout)
    return Case(op, variant, dtype, (), (output,), lambda _: _exact(values()), attributes)


def _triangular(dtype: str, shape: tuple[int, ...], layout: str) -> Case:
    return _triangle(dtype, shape, layout, 0, 1)


def _triangle(
    dtype: str, shape: tuple[int, ...], layout: str, upper: int, diagonal: int, in_place: bool = False
) -> Case:
    def reference(inputs: Sequence[Array]) -> list[Expected]:
        return _exact(np.triu(inputs[0], diagonal) if upper else np.tril(inputs[0], diagonal))

    side = "upper" if upper else "lower"
    variant = f"{dtype}/{shape_name(shape)}/{layout}/{side}{diagonal:+d}{'/in_place' if in_place else ''}"
    return Case(
        "triangular",
        variant,
        dtype,
        (Operand(dtype, shape, _numbers(dtype), layout),),
        (Operand(dtype, shape, layout=output_layout(layout)),),
        reference,
        {"upper": upper, "diagonal": diagonal},
        ((0, 0),) if in_place else (),
    )
