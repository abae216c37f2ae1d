"""What a case of the suite is: data that execute.py puts on a device, and what the device must make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Union

import numpy as np
from numpy.typing import NDArray

from .layout import CONTIGUOUS, output_layout

#: Elements on the host. Floating dtypes are float64, complex ones complex128, integers and bool their own NumPy dtype.
Array = NDArray[Any]

#: Makes the contents of an operand: any array that broadcasts to the shape. It is rounded to the operand's dtype, and
#: the reference sees the rounded values. See values.py.
Values = Callable[[np.random.Generator, tuple[int, ...]], Array]


@dataclass(frozen=True)
class Operand:
    """One operand of a case."""

    dtype: str
    shape: tuple[int, ...]
    #: The contents before the launch. None for an output that is only written: it starts with arbitrary bytes.
    values: Values | None = None
    #: How the elements lie in memory: a name of layout.py.
    layout: str = CONTIGUOUS
    #: Values, and what the reference gets and gives, are the elements' bits as unsigned integers, not numbers.
    bits: bool = False


def written(dtype: str, shape: tuple[int, ...], layout: str) -> Operand:
    """An output that is only written, in a case whose inputs have the given layout."""
    return Operand(dtype, shape, layout=output_layout(layout))


@dataclass(frozen=True)
class Expected:
    """What one output must hold, and how far from it the device may be: see tolerance.py."""

    values: Array
    #: Roundings on the way to one element, in the compute type; 0: the result is exact but for its last rounding.
    roundings: float = 1
    #: What a rounding is relative to: for a sum the sum of the absolute terms. None: the value itself.
    magnitude: Array | None = None
    #: An absolute error beyond that of roundings, such as that of a finite difference.
    error: Array | float = 0.0
    #: True where the contract leaves the value open.
    unspecified: Array | None = None


#: Gets the inputs (None where absent), then the former contents of the outputs that have some; gives what each output
#: must hold, None for absent ones.
Reference = Callable[[Sequence[Any]], Sequence[Optional[Expected]]]


@dataclass(frozen=True)
class Relation:
    """Something that a result must fulfil besides or in place of having given values: that a product of factors is the
    matrix, that columns are orthonormal."""

    #: For messages: "l @ l^H".
    what: str
    #: What follows from the outputs, computed in float64.
    actual: Array
    #: What it must be, with the error that outputs of the case's dtype may cause.
    expected: Expected


#: Gets the inputs as a reference does, then the outputs (None where absent).
Relations = Callable[[Sequence[Any], Sequence[Any]], Sequence[Relation]]


@dataclass(frozen=True)
class Case:
    """One launch of one op, and what must come of it."""

    #: The op's kind, such as "softmax": the row of the table.
    op: str
    #: Says what is special, such as "float16/3x5/transposed"; unique for the op.
    variant: str
    #: The column of the table: the dtype that the case is about, or "mixed".
    dtype: str
    inputs: tuple[Operand | None, ...]
    outputs: tuple[Operand | None, ...]
    reference: Reference
    #: Named as in the op's attributes struct.
    attributes: Mapping[str, Any] = field(default_factory=dict)
    #: Pairs (output, input) that are one view: the output takes the place of the input.
    in_place: tuple[tuple[int, int], ...] = ()
    #: What the outputs must fulfil where they are not unique, or their errors not bounded one by one.
    relations: Relations | None = None
    #: The status that the stream must report after the launch, such as "OUT_OF_RANGE"; empty: none.
    stream_error: str = ""

    @property
    def name(self) -> str:
        """The name by which the case is chosen and reported."""
        return f"{self.op}/{self.variant}"


@dataclass(frozen=True)
class Check:
    """Something that takes more than one launch. It passes if the function returns."""

    op: str
    variant: str
    #: Gets the session (session.py), and raises AssertionError with what was seen and what was expected.
    function: Callable[[Any], None]
    dtype: str = ""

    @property
    def name(self) -> str:
        """The name by which the check is chosen and reported."""
        return f"{self.op}/{self.variant}"


#: An entry of the suite.
Entry = Union[Case, Check]
