"""Cases of UHAL_OP_MAP: every function of csrc/tables/elementwise.def."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import dtypes
from .case import Array, Case, Check, Entry, Expected, Operand
from .layout import CONTIGUOUS, LAYOUTS, output_layout
from .map_functions import FUNCTIONS, MapFunction, known_functions
from .number_format import is_inexact
from .sweep import FLOATING, INTEGERS, LARGE, REAL, SHAPES, shape_name, sweep
from .tolerance import compute_type, unit_roundoff
from .values import listed

#: Functions of 1, 2, 3 and 7 operands that are tried with every shape class.
_EVERY_SHAPE = ("silu", "add", "multiply_add", "adam")
_LARGE = ("relu", "add")
_FEW_SHAPES = SHAPES[:3]
_SHAPE = SHAPES[0]

#: What operands look like that broadcast to _SHAPE, from the first operand on.
_BROADCAST_SHAPES: tuple[tuple[int, ...], ...] = ((5, 1), (3, 1, 7), (), (7,), (1, 5, 7), (1,), (3, 5, 7), (5, 7))

#: Which inputs the outputs of optimizer steps take the place of.
_UPDATED = {"momentum": (0, 2), "adam": (0, 2, 3), "adam_epsilon_hat": (0, 2, 3), "adagrad": (0, 2)}
_UPDATED |= {
    "rmsprop": (0, 2, 3),
    "momentum_with_rate": (0, 2),
    "adam_amsgrad": (0, 2, 3, 7),
    "adam_by_difference": (0, 2, 3),
    "adamw_by_difference": (0, 2, 3),
    "adam_corrected": (0, 2, 3),
    "rmsprop_centered": (0, 2, 3, 5),
    "adadelta": (0, 2, 3),
    "adamax": (0, 2, 3),
    "asgd": (0, 3, 4),
    "rprop": (0, 2, 3),
    "lamb_direction": (0, 2, 3),
    "nadam_schedule": (0, 1),
    "nadam": (0, 2, 3),
    "radam_schedule": (0, 1, 2),
    "radam": (0, 2, 3),
    "adam_amsgrad_epsilon_hat": (0, 2, 3, 7),
    "adamax_epsilon_outside": (0, 2, 3),
    "ftrl": (0, 2, 3),
    "add_sign": (0, 2),
    "power_sign": (0, 2),
    "proximal_gradient_descent": (0,),
    "proximal_adagrad": (0, 2),
}

_FINITE = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.5, 7.0, -7.0, 0.1, 1000.0)
_SPECIAL = (*_FINITE, float("nan"), float("inf"), float("-inf"))

_MIXED = ("add", "multiply", "divide", "maximum", "less", "select", "multiply_add", "silu", "exp", "adam")
_MIXED_DRAWS = 8


def cases(seed: int) -> Iterator[Entry]:
    """The cases of all functions."""
    for name, row in known_functions().items():
        function = FUNCTIONS.get(name)
        if function is None or len(function.values) != row["input_count"]:
            yield _reference_is_missing(name, row)
            continue
        yield from _sweep(function, seed)
        if name in _LARGE:
            inputs = [Operand("float32", LARGE, values) for values in function.values]
            yield _case(function, f"float32/{shape_name(LARGE)}", "float32", inputs, "float32", LARGE)
        yield _broadcast(function)
        yield _in_place(function)
        if not function.bits:
            yield from _special(function)
        if known_functions()[name]["integer"]:
            yield from _extremes(function)
    for name in _MIXED:
        yield from _mixed(FUNCTIONS[name], seed)


def _reference_is_missing(name: str, row: dict[str, Any]) -> Check:
    """A function that the library has and map_functions.py does not know, or knows with other operands: it fails."""

    def fail(session: Any) -> None:
        raise AssertionError(
            f"the suite has no reference for the map function {name!r} with {row['input_count']} operands "
            f"({row['expression']}); add its row to python/unihal/conformance/map_functions.py "
            "(docs/adding-an-op.md shows one)"
        )

    return Check("map", f"{name}/reference", fail)


def _sweep(function: MapFunction, seed: int) -> Iterator[Case]:
    def build(dtype: str, shape: tuple[int, ...], layout: str) -> Case:
        variant = f"{dtype}/{shape_name(shape)}/{layout}"
        inputs = [Operand(dtype, shape, values, layout) for values in function.values]
        return _case(function, variant, dtype, inputs, _result_dtype(function, dtype), shape, output_layout(layout))

    shapes = SHAPES if function.name in _EVERY_SHAPE else _FEW_SHAPES
    accepted = (*INTEGERS, "bool") if function.bits else REAL
    return sweep(build, seed, dtypes=accepted, shapes=shapes, layouts=LAYOUTS, draws=3)


def _broadcast(function: MapFunction) -> Case:
    dtype = _first_dtype(function)
    inputs = [Operand(dtype, shape, values) for shape, values in zip(_BROADCAST_SHAPES, function.values)]
    return _case(function, f"{dtype}/broadcast", dtype, inputs, _result_dtype(function, dtype), _SHAPE)


def _in_place(function: MapFunction) -> Case:
    dtype = _first_dtype(function)
    inputs = [Operand(dtype, _SHAPE, values, "sliced") for values in function.values]
    taken = _UPDATED.get(function.name, (0,))
    return replace(_case(function, f"{dtype}/in_place", dtype, inputs, dtype, _SHAPE), in_place=tuple(enumerate(taken)))


def _special(function: MapFunction) -> Iterator[Case]:
    """NaN, infinities, zeros of both signs, values halfway between whole numbers, in all combinations."""
    values = _SPECIAL if function.special else (*_FINITE, float("nan"))
    yield from _combinations(function, "special", FLOATING, values)


def _extremes(function: MapFunction) -> Iterator[Case]:
    """The ends of the integers' ranges: overflow wraps, a zero divisor gives 0."""
    for dtype in ("int8", "int32", "int64", "uint8", "uint64"):
        range_ = np.iinfo(dtype)
        values = np.array([range_.min, range_.max, range_.max // 2 + 1, 0, 1, 2, 5], dtype)
        yield from _combinations(function, "extremes", (dtype,), np.append(values, values.dtype.type(0) - values[4:]))


def _combinations(
    function: MapFunction, what: str, tried: Sequence[str], values: Sequence[float] | Array
) -> Iterator[Case]:
    """The product of values for up to three operands, at most ten thousand combinations; of more, one axis each."""
    count = len(function.values)
    if count > 3:
        return
    shape = (len(values),) * count
    for dtype in tried:
        inputs = []
        for axis in range(count):
            own_shape = [1] * count
            own_shape[axis] = len(values)
            inputs.append(Operand(dtype, tuple(own_shape), listed(values)))
        yield _case(function, f"{dtype}/{what}", dtype, inputs, _result_dtype(function, dtype), shape)


def _mixed(function: MapFunction, seed: int) -> Iterator[Case]:
    """Operands of different dtypes."""
    generator = random.Random(f"{seed} {function.name}")
    for number in range(_MIXED_DRAWS):
        # uint64 would turn the computation of negative integers into one modulo 2^64.
        chosen = [generator.choice([dtype for dtype in REAL if dtype != "uint64"]) for _ in function.values]
        floating = any(is_inexact(dtype) for dtype in chosen) or not known_functions()[function.name]["integer"]
        result = "bool" if function.test else generator.choice(FLOATING if floating else INTEGERS[:-1])
        inputs = [Operand(dtype, _SHAPE, values) for dtype, values in zip(chosen, function.values)]
        yield _case(function, f"mixed/{number}/{'-'.join(chosen)}/{result}", "mixed", inputs, result, _SHAPE)


def _first_dtype(function: MapFunction) -> str:
    return "int32" if function.bits else "float32"


def _result_dtype(function: MapFunction, dtype: str) -> str:
    if function.test:
        return "bool"
    return dtype if known_functions()[function.name]["integer"] else dtypes.floating(dtype)


def _case(
    function: MapFunction,
    variant: str,
    dtype: str,
    inputs: Sequence[Operand],
    result: str,
    shape: tuple[int, ...],
    layout: str = CONTIGUOUS,
) -> Case:
    info = known_functions()[function.name]
    used = [operand.dtype for operand in inputs] + [result]
    floating = not info["integer"] or any(is_inexact(name) for name in used)
    parameters: Sequence[float] = function.parameters
    if not floating and function.integer_parameters is not None:
        parameters = function.integer_parameters
    computed_in = compute_type(used)

    def reference(operands: Sequence[Array]) -> list[Expected | None]:
        if floating:
            given = computed_in if function.in_compute_type else "float64"
            return list(_floating(function, [operand.astype(given) for operand in operands], parameters, computed_in))
        unsigned = any(operand.dtype == "uint64" for operand in inputs)
        whole = [operand.astype(np.uint64 if unsigned else np.int64) for operand in operands]
        chosen = function.bool_reference if result == "bool" else None
        values = (chosen or function.reference)(*whole, *parameters)
        return [Expected(array, roundings=0) for array in _results(values)]

    return Case(
        "map",
        f"{function.name}/{variant}",
        dtype,
        tuple(inputs),
        (Operand(result, shape, layout=layout),) * info["output_count"],
        reference,
        {"function": info["number"], "parameters": list(parameters)},
    )


def _results(given: Array | tuple[Array, ...]) -> tuple[Array, ...]:
    return given if isinstance(given, tuple) else (given,)


def _floating(
    function: MapFunction, operands: list[Array], parameters: Sequence[float], computed_in: str
) -> Iterator[Expected]:
    arguments: list[Array | float] = [*operands, *parameters]
    values = _results(function.reference(*arguments))
    errors: Sequence[Array | float] = [0.0] * len(values)
    if function.conditioned:
        errors = _sensitivities(function, arguments, values, function.roundings * unit_roundoff(computed_in))
    magnitude = None if function.magnitude is None else function.magnitude(*arguments)
    for value, error in zip(values, errors):
        yield Expected(np.asarray(value), function.roundings, magnitude, error)


def _sensitivities(
    function: MapFunction, arguments: Sequence[Array | float], values: Sequence[Array], relative: float
) -> list[Array]:
    """How far each result moves if the arguments, one after the other, move by a relative error either way."""
    errors = [np.zeros(np.shape(value)) for value in values]
    for position, argument in enumerate(arguments):
        before, after = arguments[:position], arguments[position + 1 :]
        below = _results(function.reference(*before, argument * (1 - relative), *after))
        above = _results(function.reference(*before, argument * (1 + relative), *after))
        for error, value, low, high in zip(errors, values, below, above):
            distance = np.maximum(np.abs(low - value), np.abs(high - value))
            error += np.nan_to_num(distance, nan=0.0, posinf=0.0)
    return errors
