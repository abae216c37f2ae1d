"""The complex forms of UHAL_OP_MAP's functions: csrc/tables/complex.def.

Roundings are relative to the modulus of the result, as the contract has it: two for each ulp that OpenCL C 1.2, section
7.4, grants the real functions that the formula in csrc/tables/complex_functions.h calls, and one for each operation of
arithmetic, five for a division. A ``conditioned`` row may also be what the formula gives for operands that are off by
so many roundings: inner results are rounded too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

from .case import Array, Case, Check, Entry, Expected, Operand, Values
from .layout import CONTIGUOUS, output_layout
from .map_functions import known_functions
from .number_format import is_complex
from .sweep import COMPLEX, shape_name, sweep
from .tolerance import compute_type, unit_roundoff
from .values import complex_integers, complex_normal, listed, normal, uniform

_ANY = complex_normal(2)
_SMALL = complex_normal(0.5)
_FEW = complex_integers(-1, 2)
_REAL = normal(2)

_SHAPE = (3, 5, 7)
_SHAPES: tuple[tuple[int, ...], ...] = (_SHAPE, (), (513, 33))
_LAYOUTS = (CONTIGUOUS, "transposed", "sliced", "reversed", "broadcast")

#: What operands look like that broadcast to _SHAPE.
_BROADCAST_SHAPES: tuple[tuple[int, ...], ...] = ((5, 1), (3, 1, 7), ())

_PARTS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-3, 30.0, -30.0)
_NOT_FINITE = (float("inf"), float("-inf"), float("nan"))


@dataclass(frozen=True)
class ComplexFunction:
    """A row of the table."""

    name: str
    #: Gets the operands, then the parameters; gives the result.
    reference: Callable[..., Any]
    #: Of each operand.
    values: tuple[Values, ...]
    parameters: tuple[float, ...] = ()
    roundings: float = 0
    conditioned: bool = False
    #: The result is real, or true or false: its dtype for operands of complex64.
    result: str = "complex64"
    #: Operands, by number, that are real.
    real: tuple[int, ...] = ()
    #: What parts of operands are tried in all combinations, besides random numbers.
    special: tuple[float, ...] = (*_PARTS, *_NOT_FINITE)


def _row(name: str, roundings: float, reference: Callable[..., Any], *values: Values, **fields: Any) -> ComplexFunction:
    return ComplexFunction(name, reference, values or (_ANY,), roundings=roundings, **fields)


def _test(name: str, reference: Callable[..., Any], *values: Values) -> ComplexFunction:
    return ComplexFunction(name, reference, values, result="bool")


#: Of functions that are composed of others: what is not finite gives NaN, or what the formula gives.
_COMPOSED: dict[str, Any] = {"special": (0.5, -2.5, 1.0), "conditioned": True}

_DIVISION = 24
_EXP = 16
_LOG = 14
_SQRT = 24


def _complex(real: Array, imaginary: Array) -> Array:
    """Not real + 1j * imaginary, which makes NaN of infinities."""
    result = np.empty(np.broadcast(real, imaginary).shape, np.complex128)
    result.real, result.imag = np.real(real), np.real(imaginary)
    return result


def _sign(x: Array) -> Array:
    return np.asarray(np.where(x == 0, x, x / np.where(x == 0, 1, np.abs(x))))


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _silu_derivative(x: Array) -> Array:
    return np.asarray(_sigmoid(x) * (1 + x * _sigmoid(-x)))


def _power(x: Array, y: Any) -> Array:
    return np.asarray(np.exp(y * np.log(x)))


def _log1p(x: Array) -> Array:
    # NumPy's takes the logarithm of |1 + x|, which loses the last digits of a small x: there are more of them here.
    return np.asarray(np.log1p(x.astype(np.clongdouble)).astype(np.complex128))


def _where(condition: Array, yes: Any, no: Any) -> Array:
    return np.asarray(np.where(condition, yes, no))


def _logical(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *operands: function(*(operand != 0 for operand in operands))


_ROWS = (
    # -- arithmetic
    _row("identity", 0, lambda x: x),
    _row("negative", 0, lambda x: -x),
    _row("absolute", 14, np.abs, result="float32"),
    _row("sign", 19, _sign, special=_PARTS),
    _row("square", 4, lambda x: x * x),
    _row("reciprocal", _DIVISION, lambda x: 1 / x, special=_PARTS),
    _row("scale", 2, lambda x, a, b: x * a + b, parameters=(1.75, -2.5), **_COMPOSED),
    _row("add_then_scale", 2, lambda x, a, b: (x + b) * a, parameters=(1.75, -2.5), **_COMPOSED),
    _row("add", 1, lambda x, y: x + y, _ANY, _ANY),
    _row("subtract", 1, lambda x, y: x - y, _ANY, _ANY),
    _row("multiply", 4, lambda x, y: x * y, _ANY, _ANY),
    _row("divide", _DIVISION, lambda x, y: x / y, _ANY, _ANY, special=_PARTS),
    _row("divide_no_nan", _DIVISION, lambda x, y: _where(y == 0, 0, x / y), _ANY, _FEW, special=_PARTS),
    _row("multiply_no_nan", 4, lambda x, y: _where(y == 0, 0, x * y), _ANY, _FEW, special=_PARTS),
    _row("squared_difference", 6, lambda x, y: np.abs(x - y) ** 2, _ANY, _ANY, result="float32", **_COMPOSED),
    _row("power", 64, _power, _ANY, _SMALL, **_COMPOSED),
    _row("power_scalar", 64, _power, parameters=(2.5,), **_COMPOSED),
    _row("multiply_add", 6, lambda x, y, z: x * y + z, _ANY, _ANY, _ANY, **_COMPOSED),
    _row("linear_interpolation", 8, lambda x, y, z: x + z * (y - x), _ANY, _ANY, _ANY, **_COMPOSED),
    _row("select", 0, lambda x, y, z: _where(x != 0, y, z), _FEW, _ANY, _ANY, special=(0.0, -2.5, float("nan"))),
    # -- exponentials, logarithms, roots
    _row("exp", _EXP, np.exp),
    _row("expm1", _EXP + 10, np.expm1, special=_PARTS),
    _row("log", _LOG, np.log),
    _row("log1p", _LOG + 4, _log1p, special=_PARTS),
    _row("log2", _LOG + 2, lambda x: np.log(x) / np.log(2), special=_PARTS),
    _row("log10", _LOG + 2, lambda x: np.log(x) / np.log(10), special=_PARTS),
    _row("sqrt", _SQRT, np.sqrt),
    _row("rsqrt", _SQRT + _DIVISION, lambda x: 1 / np.sqrt(x), special=_PARTS),
    # -- trigonometric and hyperbolic
    _row("sin", 18, np.sin),
    _row("cos", 18, np.cos),
    _row("tan", 80, np.tan),
    _row("asin", 64, np.arcsin, special=_PARTS),
    _row("acos", 64, np.arccos, special=_PARTS),
    _row("atan", 30, np.arctan, special=_PARTS),
    _row("sinh", 18, np.sinh),
    _row("cosh", 18, np.cosh),
    _row("tanh", 80, np.tanh),
    _row("asinh", 64, np.arcsinh, special=_PARTS),
    _row("acosh", 64, np.arccosh, special=_PARTS),
    _row("atanh", 30, np.arctanh, special=_PARTS),
    # -- activations
    _row("sigmoid", _EXP + _DIVISION, _sigmoid, **_COMPOSED),
    _row("silu", _EXP + _DIVISION + 4, lambda x: x * _sigmoid(x), **_COMPOSED),
    # -- tests and logic
    _test("is_nan", np.isnan, _ANY),
    _test("is_infinite", np.isinf, _ANY),
    _test("is_finite", np.isfinite, _ANY),
    _test("equal", lambda x, y: x == y, _FEW, _FEW),
    _test("not_equal", lambda x, y: x != y, _FEW, _FEW),
    _test("logical_not", lambda x: x == 0, _FEW),
    _test("logical_and", _logical(np.logical_and), _FEW, _FEW),
    _test("logical_or", _logical(np.logical_or), _FEW, _FEW),
    _test("logical_xor", _logical(np.logical_xor), _FEW, _FEW),
    # -- gradients
    _row("sigmoid_backward", 12, lambda y, g: g * np.conj(y * (1 - y)), _ANY, _ANY, **_COMPOSED),
    _row("tanh_backward", 12, lambda y, g: g * np.conj(1 - y * y), _ANY, _ANY, **_COMPOSED),
    _row("silu_backward", 100, lambda x, g: g * np.conj(_silu_derivative(x)), _SMALL, _ANY, **_COMPOSED),
    _row("sqrt_backward", 26, lambda y, g: g / (2 * np.conj(y)), _ANY, _ANY, **_COMPOSED),
    _row("rsqrt_backward", 14, lambda y, g: -g * np.conj(y**3) / 2, _ANY, _ANY, **_COMPOSED),
    _row("reciprocal_backward", 8, lambda y, g: -g * np.conj(y * y), _ANY, _ANY, **_COMPOSED),
    _row("square_backward", 5, lambda x, g: 2 * g * np.conj(x), _ANY, _ANY, **_COMPOSED),
    _row("absolute_backward", 20, lambda x, g: g.real * _sign(x), _FEW, _REAL, real=(1,), **_COMPOSED),
    _row("sin_backward", 24, lambda x, g: g * np.conj(np.cos(x)), _ANY, _ANY, **_COMPOSED),
    _row("cos_backward", 24, lambda x, g: -g * np.conj(np.sin(x)), _ANY, _ANY, **_COMPOSED),
    _row(
        "power_scalar_backward",
        70,
        lambda x, g, p: g * np.conj(p * _power(x, p - 1)),
        _ANY,
        _ANY,
        parameters=(2.5,),
        **_COMPOSED,
    ),
    _row("divide_backward_divisor", 60, lambda x, y, g: -g * np.conj(x / y / y), _ANY, _ANY, _ANY, **_COMPOSED),
    # -- products and quotients where a zero x gives zero
    _row("x_divided_by_y", _DIVISION, lambda x, y: _where(x == 0, 0, x / y), _FEW, _ANY, special=_PARTS),
    _row("x_log_y", _LOG + 4, lambda x, y: _where(x == 0, 0, x * np.log(y)), _FEW, _ANY, **_COMPOSED),
    _row("x_log1p_y", _LOG + 8, lambda x, y: _where(x == 0, 0, x * np.log1p(y)), _FEW, _ANY, **_COMPOSED),
    # -- parts
    _row("conjugate", 0, np.conj),
    _row("real", 0, np.real, result="float32"),
    _row("imaginary", 0, np.imag, result="float32"),
    _row("angle", 12, np.angle, result="float32"),
    _row("complex", 0, _complex, _REAL, _REAL, real=(0, 1)),
    _row("polar", 9, lambda r, phi: r * np.exp(1j * phi), _REAL, _REAL, real=(0, 1), **_COMPOSED),
    _row("multiply_conjugate", 4, lambda x, y: x * np.conj(y), _ANY, _ANY, special=_PARTS),
    _row("divide_conjugate", _DIVISION, lambda x, y: x / np.conj(y), _ANY, _ANY, special=_PARTS),
    _row("angle_backward", 30, lambda x, g: g.real * 1j * x / np.abs(x) ** 2, _ANY, _REAL, real=(1,), **_COMPOSED),
)

FUNCTIONS = {row.name: row for row in _ROWS}


def cases(seed: int) -> Iterator[Entry]:
    """The cases of all functions with a complex form."""
    for name, info in known_functions().items():
        if info["complex_expression"] is None:
            continue
        if name not in FUNCTIONS:
            yield _reference_is_missing(name, info)
            continue
        function = FUNCTIONS[name]
        yield from _sweep(function, seed)
        yield _broadcast(function)
        yield from _special(function)
        if is_complex(function.result) and 0 not in function.real:
            yield _in_place(function)
    for name in ("add", "multiply", "divide", "equal"):
        yield from _mixed(FUNCTIONS[name])


def _reference_is_missing(name: str, info: dict[str, Any]) -> Check:
    def fail(session: Any) -> None:
        raise AssertionError(
            f"the suite has no reference for the map function {name!r} on complex numbers "
            f"({info['complex_expression']}); add its row to python/unihal/conformance/complex_functions.py"
        )

    return Check("map", f"{name}/complex_reference", fail)


def _wider(dtype: str) -> str:
    return {"complex64": "complex128", "float32": "float64"}.get(dtype, dtype)


def _dtypes(function: ComplexFunction, dtype: str) -> tuple[list[str], str]:
    """Those of the operands and of the result, in an op on numbers of ``dtype``."""
    inputs = ["float32" if number in function.real else "complex64" for number in range(len(function.values))]
    if dtype == "complex64":
        return inputs, function.result
    return [_wider(each) for each in inputs], _wider(function.result)


def _sweep(function: ComplexFunction, seed: int) -> Iterator[Case]:
    def build(dtype: str, shape: tuple[int, ...], layout: str) -> Case:
        inputs, result = _dtypes(function, dtype)
        operands = [Operand(own, shape, values, layout) for own, values in zip(inputs, function.values)]
        variant = f"{dtype}/{shape_name(shape)}/{layout}"
        return _case(function, variant, operands, Operand(result, shape, layout=output_layout(layout)))

    return sweep(build, seed, dtypes=COMPLEX, shapes=_SHAPES, layouts=_LAYOUTS, draws=1)


def _broadcast(function: ComplexFunction) -> Case:
    inputs, result = _dtypes(function, "complex64")
    operands = [Operand(own, shape, values) for own, shape, values in zip(inputs, _BROADCAST_SHAPES, function.values)]
    shape = np.broadcast_shapes(*_BROADCAST_SHAPES[: len(operands)])
    return _case(function, "complex64/broadcast", operands, Operand(result, shape))


def _in_place(function: ComplexFunction) -> Case:
    inputs, result = _dtypes(function, "complex64")
    operands = [Operand(own, _SHAPE, values, "sliced") for own, values in zip(inputs, function.values)]
    return _case(function, "complex64/in_place", operands, Operand(result, _SHAPE), in_place=((0, 0),))


def _special(function: ComplexFunction) -> Iterator[Case]:
    """Zeros of both signs, large numbers and, where they mean something, infinities and NaN, in all combinations."""
    parts = np.array(function.special)
    numbers = _complex(*np.meshgrid(parts, parts, indexing="ij")).ravel()
    for dtype in COMPLEX:
        inputs, result = _dtypes(function, dtype)
        operands = []
        for axis, own in enumerate(inputs):
            values = parts if not is_complex(own) else numbers
            own_shape = [1] * len(inputs)
            own_shape[axis] = len(values)
            operands.append(Operand(own, tuple(own_shape), listed(values)))
        shape = np.broadcast_shapes(*(operand.shape for operand in operands))
        yield _case(function, f"{dtype}/special", operands, Operand(result, shape))


#: Dtypes beside complex64: real operands, and what makes the op compute in float64.
_BESIDE = ("float32", "float64", "float16", "int32", "bool", "complex128")


def _mixed(function: ComplexFunction) -> Iterator[Case]:
    for beside in _BESIDE:
        result = function.result
        if is_complex(result) and beside in ("float64", "complex128"):
            result = "complex128"
        values = function.values[1] if is_complex(beside) else uniform(1, 3)
        operands = [Operand("complex64", _SHAPE, function.values[0]), Operand(beside, _SHAPE, values)]
        yield _case(function, f"mixed/complex64-{beside}/{result}", operands, Operand(result, _SHAPE))
    if is_complex(function.result):
        operands = [Operand("complex64", _SHAPE, values) for values in function.values]
        yield _case(function, "mixed/complex64-complex64/float32", operands, Operand("float32", _SHAPE))


def _case(
    function: ComplexFunction,
    variant: str,
    inputs: Sequence[Operand],
    output: Operand,
    in_place: tuple[tuple[int, int], ...] = (),
) -> Case:
    info = known_functions()[function.name]
    computed_in = compute_type([operand.dtype for operand in inputs] + [output.dtype])

    def reference(operands: Sequence[Array]) -> list[Expected | None]:
        numbers: list[Array] = [np.asarray(operand).astype(np.complex128) for operand in operands]
        if 0 in function.real:
            numbers = [number.real for number in numbers]
        values = np.asarray(function.reference(*numbers, *function.parameters))
        magnitude = np.abs(values)
        error: Array | float = 0.0
        if function.conditioned:
            error = _sensitivity(function, numbers, values, function.roundings * unit_roundoff(computed_in))
        if not is_complex(output.dtype):
            values = values.real
        return [Expected(values, function.roundings, magnitude, error)]

    return Case(
        "map",
        f"{function.name}/{variant}",
        "mixed" if variant.startswith("mixed") else inputs[0].dtype,
        tuple(inputs),
        (output,),
        reference,
        {"function": info["number"], "parameters": list(function.parameters)},
        in_place=in_place,
    )


def _sensitivity(function: ComplexFunction, numbers: Sequence[Array], values: Array, relative: float) -> Array:
    """How far the result moves if the operands, one after the other, move by a relative error in any direction."""
    error = np.zeros(values.shape)
    for position, number in enumerate(numbers):
        directions = (1, -1) if position in function.real else (1, -1, 1j, -1j)
        moved = [
            function.reference(
                *numbers[:position], number * (1 + relative * direction), *numbers[position + 1 :], *function.parameters
            )
            for direction in directions
        ]
        distance = np.max([np.abs(each - values) for each in moved], axis=0)
        error += np.nan_to_num(distance, nan=0.0, posinf=0.0)
    return error
