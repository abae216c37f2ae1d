"""Gradients against finite differences of the forward references, on few elements.

The other families judge gradients by their formulas; here the oracle knows none. Operands keep away from kinks, where
there is no derivative.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Callable

import numpy as np

from .case import Array, Case, Expected, Operand, Values
from .number_format import round_to
from .reference import finite_difference

#: Roundings of a gradient of so few elements, relative to the largest: no sum here has more than 64 terms.
_ROUNDINGS = 128


@dataclass(frozen=True)
class Gradient:
    """A forward function, and how its gradient op is called."""

    op: str
    name: str
    #: Gets the operands and gives the result whose gradient is dy.
    forward: Callable[..., Array]
    #: Shapes of the operands.
    shapes: tuple[tuple[int, ...], ...]
    #: Gets the operands, the forward's result and dy; gives the inputs of the gradient op.
    inputs: Callable[[Sequence[Array], Array, Array], Sequence[Any]]
    #: The operand that each output of the gradient op is the gradient of; None for an absent output.
    outputs: tuple[int | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    #: Makes the operands, if not normally distributed.
    draw: Callable[[np.random.Generator], Sequence[Array]] | None = None


class _Drawn:
    """Operands of a gradient in a dtype, the same whenever they are asked for."""

    def __init__(self, gradient: Gradient, dtype: str) -> None:
        self.gradient = gradient
        self.dtype = dtype

    @cached_property
    def operands(self) -> list[Array]:
        generator = np.random.default_rng(zlib.crc32(f"{self.gradient.op} {self.gradient.name}".encode()))
        if self.gradient.draw is not None:
            drawn = self.gradient.draw(generator)
        else:
            drawn = [generator.normal(0, 1, shape) for shape in self.gradient.shapes]
        return [round_to(np.asarray(array), self.dtype) for array in drawn]

    @cached_property
    def result(self) -> Array:
        return self.gradient.forward(*self.operands)

    @cached_property
    def dy(self) -> Array:
        generator = np.random.default_rng(zlib.crc32(self.gradient.name.encode()))
        return round_to(generator.normal(0, 1, self.result.shape), self.dtype)

    @cached_property
    def inputs(self) -> Sequence[Any]:
        return self.gradient.inputs(self.operands, self.result, self.dy)

    def derivative(self, number: int) -> Array:
        """The gradient of an operand, by finite differences."""

        def forward(moved: Array) -> Array:
            operands = list(self.operands)
            operands[number] = moved
            return self.gradient.forward(*operands)

        return finite_difference.gradient(forward, self.operands[number], self.dy)


def gradient_cases(gradient: Gradient) -> Iterator[Case]:
    """One in each dtype; the same for all seeds."""
    for dtype in ("float64", "float32"):
        yield _case(gradient, dtype)


def _case(gradient: Gradient, dtype: str) -> Case:
    drawn = _Drawn(gradient, dtype)

    def reference(inputs: Sequence[Any]) -> list[Expected | None]:
        expected: list[Expected | None] = []
        for number in gradient.outputs:
            if number is None:
                expected.append(None)
                continue
            values = drawn.derivative(number)
            largest = max(1.0, float(np.max(np.abs(values), initial=0)))
            expected.append(
                Expected(
                    values, _ROUNDINGS, np.full(values.shape, largest), error=finite_difference.TOLERANCE * largest
                )
            )
        return expected

    def operand(number: int) -> Operand | None:
        array = drawn.inputs[number]
        if array is None:
            return None
        return Operand(dtype if array.dtype.kind == "f" else array.dtype.name, array.shape, _given(drawn, number))

    return Case(
        op=gradient.op,
        variant=f"finite-differences/{gradient.name}/{dtype}",
        dtype=dtype,
        inputs=tuple(operand(number) for number in range(len(drawn.inputs))),
        outputs=tuple(
            None if number is None else Operand(dtype, drawn.operands[number].shape) for number in gradient.outputs
        ),
        reference=reference,
        attributes=gradient.attributes,
    )


def _given(drawn: _Drawn, number: int) -> Values:
    def values(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        array: Array = drawn.inputs[number]
        return array

    return values
