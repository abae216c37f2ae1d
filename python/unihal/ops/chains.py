"""Several elementwise functions in one op."""

from __future__ import annotations

from collections.abc import Sequence

from .. import errors
from ..buffer import Buffer
from ..stream import Stream
from .elementwise import map_function
from .launch import broadcast_shapes, launch, output

_MAX_STEPS, _MAX_PARAMETERS, _MAX_OPERANDS = 16, 8, 8

#: A function's name, the numbers of the values that it takes, and its parameters.
Step = tuple[str, Sequence[int], Sequence[float]]


def map_chain(
    inputs: Sequence[Buffer],
    steps: Sequence[Step],
    results: Sequence[int],
    *,
    dtypes: Sequence[str] | None = None,
    out: Sequence[Buffer | None] | None = None,
    stream: Stream | None = None,
    label: str | None = None,
) -> tuple[Buffer, ...]:
    """Elementwise functions, one after the other, in one pass over memory.

    Values are numbered: the inputs, which broadcast by NumPy's rule, then the results of each step. A step is
    ``(name, operands, parameters)``, where ``operands`` are numbers of values before its own. Output k is value
    ``results[k]``, of dtype ``dtypes[k]`` (default: that of the first input). Values between steps are not rounded.
    At most 16 steps, 8 inputs and 4 outputs.

    ``map_chain([x, b], [("add", [0, 1], ()), ("relu", [2], ())], [3])`` is relu(x + b).
    """
    if not inputs:
        raise errors.InvalidArgumentError("map_chain needs an input")
    if len(steps) > _MAX_STEPS:
        raise errors.InvalidArgumentError(f"map_chain has at most {_MAX_STEPS} steps, not {len(steps)}")
    given: list[Buffer | None] = list(out) if out is not None else [None] * len(results)
    if len(given) != len(results):
        raise errors.InvalidArgumentError(f"map_chain has {len(results)} results; out has {len(given)}")
    names = list(dtypes) if dtypes is not None else [inputs[0].dtype] * len(results)
    if len(names) != len(results):
        raise errors.InvalidArgumentError(f"map_chain has {len(results)} results; dtypes has {len(names)}")
    operands: list[int] = []
    parameters: list[float] = []
    functions = []
    for number, (name, values, settings) in enumerate(steps):
        function = map_function(name)
        if function is None:
            raise errors.InvalidArgumentError(f"step {number}: there is no elementwise function {name!r}")
        functions.append(function._number)
        expected = function.input_count
        if len(values) != expected:
            raise errors.InvalidArgumentError(f"step {number}: {name} takes {expected} values, not {len(values)}")
        if len(settings) > _MAX_PARAMETERS:
            raise errors.InvalidArgumentError(f"step {number}: {name} has at most {_MAX_PARAMETERS} parameters")
        operands += [*values, *[0] * (_MAX_OPERANDS - len(values))]
        parameters += [*settings, *[0.0] * (_MAX_PARAMETERS - len(settings))]
    shape = broadcast_shapes([x.shape for x in inputs])
    outputs = [
        output(shape, each.dtype if each is not None else dtype, inputs[0], each, stream)
        for each, dtype in zip(given, names)
    ]
    attributes = {
        "step_count": len(steps),
        "results": list(results),
        "functions": functions,
        "operands": operands,
        "parameters": parameters,
    }
    launch("map_chain", list(inputs), list(outputs), attributes, stream=stream, label=label)
    return tuple(outputs)
