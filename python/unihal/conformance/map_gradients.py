"""Gradient functions of elementwise.def against finite differences of the functions whose gradients they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .case import Array, Case
from .gradient import Gradient, gradient_cases
from .map_functions import FUNCTIONS, known_functions

#: Distance from a point without a derivative; a thousand steps of the finite differences.
_CLEARANCE = 0.01


@dataclass(frozen=True)
class _Map:
    """A gradient function of elementwise.def, and the function whose gradient it is."""

    name: str
    forward: str
    #: The operand that moves.
    operand: int = 0
    #: Whether the gradient is told the forward's output instead of its input.
    of_output: bool = False
    #: Where the forward has no derivative.
    kinks: tuple[float, ...] = ()
    positive: bool = False
    #: The operands lie between this and 0.9.
    low: float | None = None


_MAPS = (
    _Map("relu_backward", "relu", kinks=(0,)),
    _Map("relu_backward", "relu", kinks=(0,), of_output=True),
    _Map("relu6_backward", "relu6", kinks=(0, 6)),
    _Map("relu6_backward", "relu6", kinks=(0, 6), of_output=True),
    _Map("leaky_relu_backward", "leaky_relu", kinks=(0,)),
    _Map("elu_backward", "elu", kinks=(0,)),
    _Map("selu_backward", "selu", kinks=(0,), of_output=True),
    _Map("sigmoid_backward", "sigmoid", of_output=True),
    _Map("tanh_backward", "tanh", of_output=True),
    _Map("log_sigmoid_backward", "log_sigmoid"),
    _Map("silu_backward", "silu"),
    _Map("swish_backward", "swish"),
    _Map("gelu_erf_backward", "gelu_erf"),
    _Map("gelu_tanh_backward", "gelu_tanh"),
    _Map("softplus_backward", "softplus"),
    _Map("softsign_backward", "softsign", kinks=(0,)),
    _Map("hard_sigmoid_backward", "hard_sigmoid", kinks=(-3, 3), of_output=True),
    _Map("hard_swish_backward", "hard_swish", kinks=(-3, 3)),
    _Map("hard_tanh_backward", "hard_tanh", kinks=(-1, 1)),
    _Map("clip_backward", "clip", kinks=(-0.5, 0.75)),
    _Map("sqrt_backward", "sqrt", positive=True, of_output=True),
    _Map("rsqrt_backward", "rsqrt", positive=True, of_output=True),
    _Map("reciprocal_backward", "reciprocal", positive=True, of_output=True),
    _Map("square_backward", "square"),
    _Map("absolute_backward", "absolute", kinks=(0,)),
    _Map("sin_backward", "sin"),
    _Map("cos_backward", "cos"),
    _Map("erf_backward", "erf"),
    _Map("power_scalar_backward", "power_scalar", positive=True),
    _Map("divide_backward_divisor", "divide", operand=1, positive=True),
    _Map("maximum_backward_first", "maximum", operand=0),
    _Map("maximum_backward_second", "maximum", operand=1),
    _Map("minimum_backward_first", "minimum", operand=0),
    _Map("minimum_backward_second", "minimum", operand=1),
    _Map("lgamma_backward", "lgamma", positive=True),
    _Map("digamma_backward", "digamma", positive=True),
    _Map("igamma_backward_first", "igamma", positive=True),
    _Map("igamma_backward_second", "igamma", operand=1, positive=True),
    _Map("igammac_backward_first", "igammac", positive=True),
    _Map("igammac_backward_second", "igammac", operand=1, positive=True),
    _Map("bessel_i0_backward", "bessel_i0"),
    _Map("bessel_i0e_backward", "bessel_i0e", kinks=(0,)),
    _Map("bessel_i1_backward", "bessel_i1"),
    _Map("bessel_i1e_backward", "bessel_i1e"),
    _Map("erfinv_backward", "erfinv", of_output=True, low=-0.9),
    _Map("ndtri_backward", "ndtri", of_output=True, low=0.1),
    _Map("copysign_backward", "copysign", kinks=(0,)),
    _Map("fmax_backward_first", "fmax", operand=0),
    _Map("fmax_backward_second", "fmax", operand=1),
    _Map("fmin_backward_first", "fmin", operand=0),
    _Map("fmin_backward_second", "fmin", operand=1),
)


def _away_from(x: Array, points: Sequence[float]) -> Array:
    """x with elements near a point moved off it."""
    for point in points:
        x = np.where(np.abs(x - point) < _CLEARANCE, point + 2 * _CLEARANCE, x)
    return x


def _map_gradient(row: _Map) -> Gradient:
    function = FUNCTIONS[row.forward]
    shape = (5, 7)
    count = len(function.values)
    # A gradient takes its forward's parameters, then its own.
    parameters = [*function.parameters, *FUNCTIONS[row.name].parameters[len(function.parameters) :]]

    def draw(generator: np.random.Generator) -> list[Array]:
        operands = [
            generator.uniform(row.low, 0.9, shape)
            if row.low is not None
            else generator.uniform(0.3, 3, shape)
            if row.positive
            else generator.normal(0, 2.5, shape)
            for _ in range(count)
        ]
        operands[0] = _away_from(operands[0], row.kinks)
        if row.forward in ("maximum", "minimum", "fmax", "fmin"):
            operands[1] = operands[0] + _away_from(operands[1], (0.0,))
        return operands

    def inputs(operands: Sequence[Array], result: Array, dy: Array) -> list[Array]:
        return [result if row.of_output else operands[0], *operands[1:], dy]

    info = known_functions()[row.name]
    return Gradient(
        op="map",
        name=row.name + ("/of-output" if row.of_output else ""),
        forward=lambda *operands: np.asarray(function.reference(*operands, *function.parameters)),
        shapes=(shape,) * count,
        inputs=inputs,
        outputs=(row.operand,),
        attributes={"function": info["number"], "parameters": parameters},
        draw=draw,
    )


def gradients() -> Iterator[Gradient]:
    """One of each row."""
    return map(_map_gradient, _MAPS)


def cases(seed: int) -> Iterator[Case]:
    """All cases; the same for all seeds."""
    for gradient in gradients():
        yield from gradient_cases(gradient)
