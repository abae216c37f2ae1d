"""Elementwise functions, generated from the library's table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Union

from .. import _core, dtypes, errors
from ..buffer import Buffer
from ..stream import Stream
from .launch import broadcast_shapes, launch, output
from .movement import fill

#: A buffer, or a number that stands for a buffer of one element.
Operand = Union[Buffer, bool, int, float]

# Functions whose result is a truth value.
_PREDICATES = frozenset(
    (
        "is_nan",
        "is_infinite",
        "is_finite",
        "equal",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "logical_not",
        "logical_and",
        "logical_or",
        "logical_xor",
    )
)

# Real results of complex operands, and complex results of real ones.
_REAL_RESULTS = frozenset(("absolute", "angle", "imaginary", "real", "squared_difference"))
_COMPLEX_RESULTS = frozenset(("complex", "polar"))

# The condition plays no part in the result's dtype.
_CONDITIONAL = frozenset(("select",))


class MapFunction:
    """One elementwise function; operands broadcast by NumPy's rule.

    ``parameters`` are p0, p1, ... of the expression. Functions with several outputs (optimizer steps) return a tuple,
    and take a sequence as ``out``, where an output may be the same buffer as an input.
    """

    def __init__(self, info: dict[str, Any]) -> None:
        self.name: str = info["name"]
        self.input_count: int = info["input_count"]
        self.output_count: int = info["output_count"]
        self.expression: str = info["expression"]
        self._number: int = info["number"]
        self._integer: bool = info["integer"]
        self._is_predicate = self.name in _PREDICATES
        self._keeps_dtype = self.name not in _COMPLEX_RESULTS | _REAL_RESULTS
        self._first_value = 1 if self.name in _CONDITIONAL else 0  # the first operand whose dtype counts
        self.__doc__ = f"{self.name}: {self.expression}"

    def __call__(
        self,
        *operands: Operand,
        parameters: Sequence[float] = (),
        out: Buffer | Sequence[Buffer] | None = None,
        dtype: str | None = None,
        stream: Stream | None = None,
        label: str | None = None,
    ) -> Any:
        """Computes the function; ``dtype`` names that of new outputs."""
        if len(operands) != self.input_count:
            raise errors.InvalidArgumentError(
                f"{self.name} takes {self.input_count} operands, not {len(operands)}: {self.expression}"
            )
        if self.output_count == 1 and dtype is None and label is None and not parameters:
            result = self._in_one_step(operands, out, None if stream is None else stream._handle)
            if result is not None:
                return result
        inputs = self._buffers(operands, stream)
        outs = [out] if isinstance(out, Buffer) else list(out) if out is not None else []
        if outs and len(outs) != self.output_count:
            raise errors.InvalidArgumentError(f"{self.name} has {self.output_count} outputs; out has {len(outs)}")
        shape = broadcast_shapes([x.shape for x in inputs])
        if outs:
            outputs = [output(shape, each.dtype, each, each, stream) for each in outs]
        else:
            result_dtype = dtype or self._result_dtype(inputs)
            outputs = [output(shape, result_dtype, inputs[0], None, stream) for _ in range(self.output_count)]
        attributes = {"function": self._number, "parameters": list(parameters)}
        launch("map", inputs, outputs, attributes, stream=stream, label=label)
        return outputs[0] if self.output_count == 1 else tuple(outputs)

    def _in_one_step(self, operands: tuple[Operand, ...], out: object, stream: _core.Stream | None) -> Buffer | None:
        """The result, if this is a call that the library makes by itself."""
        if isinstance(out, Buffer):
            return out if _core.map_to(Buffer, self._number, operands, out, stream) else None
        if out is not None or not self._keeps_dtype:
            return None
        return _core.map_to_new(
            Buffer, self._number, self._first_value, self._integer, self._is_predicate, operands, stream
        )

    def _result_dtype(self, inputs: Sequence[Buffer]) -> str:
        if self._is_predicate:
            return "bool"
        common = dtypes.promote(x.dtype for x in inputs[self._first_value :])
        if self.name in _COMPLEX_RESULTS:
            return dtypes.with_imaginary_part(common)
        if self.name in _REAL_RESULTS:
            common = dtypes.real_part(common)
        return common if self._integer else dtypes.floating(common)

    def _buffers(self, operands: Sequence[Operand], stream: Stream | None) -> list[Buffer]:
        """The operands with numbers put into buffers of one element."""
        given = [x for x in operands if isinstance(x, Buffer)]
        if not given:
            raise errors.InvalidArgumentError(
                f"{self.name} needs at least one unihal.Buffer; make one with Buffer.from_numpy(array, device)"
            )
        return [x if isinstance(x, Buffer) else _scalar(x, given, stream) for x in operands]

    def __repr__(self) -> str:
        return f"<unihal.ops.{self.name}: {self.expression}>"


def _scalar(value: Any, given: Sequence[Buffer], stream: Stream | None) -> Buffer:
    if not isinstance(value, (bool, int, float)):
        raise errors.InvalidArgumentError(
            f"an operand is a unihal.Buffer or a number, not {type(value).__name__}; "
            "make a buffer with Buffer.from_numpy(array, device)"
        )
    dtype = dtypes.promote(x.dtype for x in given)
    # A fraction beside integers makes the result floating, as in NumPy.
    if isinstance(value, float):
        dtype = dtypes.floating(dtype)
    where = given[0].device
    return fill(Buffer((), dtype, where, stream=stream), value, stream=stream)


@cache
def _functions() -> dict[str, MapFunction]:
    return {name: MapFunction(info) for name, info in _core.map_functions().items()}


def map_function(name: str) -> MapFunction | None:
    """The function of a name, or None."""
    return _functions().get(name)


def map_function_names() -> list[str]:
    """All names."""
    return list(_functions())
