"""Several elementwise functions in one op."""

from __future__ import annotations

from collections.abc import Sequence

from .. import errors
from ..buffer import Buffer
from ..stream import Stream
from .elementwise import map_function
from .launch import broadcast_shapes, launch, output

_MAX_STEPS, _MAX_PARAMETERS, _MAX_OPERANDS = 16, 8, 8


def map_chain(
    inputs: Sequence[Buffer],
    functions: Sequence[str],
    operands: Sequence[Sequence[int]],
    results: Sequence[int],
    *,
    parameters: Sequence[Sequence[float]] = (),
    dtypes: Sequence[str] | None = None,
    out: Sequence[Buffer] | None = None,
    stream: Stream | None = None,
    label: str | None = None,
) -> tuple[Buffer, ...]:
    """Elementwise functions, one after the other, in one pass over memory.

    Values are numbered: the inputs, which broadcast by NumPy's rule, then the results of each step. Step i is
    ``functions[i]`` of the values ``operands[i]``, which come before its own, with ``parameters[i]`` (none if there
    are fewer entries). Output k is value ``results[k]``, of dtype ``dtypes[k]`` (default: that of the first input).
    Values between steps are not rounded. At most 16 steps, 8 inputs and 4 outputs.

    ``map_chain([x, b], ["add", "relu"], [[0, 1], [2]], [3])`` is relu(x + b).
    """
    if not inputs:
        raise errors.InvalidArgumentError("map_chain needs an input")
    if len(functions) > _MAX_STEPS:
        raise errors.InvalidArgumentError(f"map_chain has at most {_MAX_STEPS} steps, not {len(functions)}")
    if len(operands) != len(functions) or len(parameters) > len(functions):
        raise errors.InvalidArgumentError(
            f"map_chain has {len(functions)} functions, operands of {len(operands)} and parameters of {len(parameters)}"
        )
    given = list(out) if out is not None else [None] * len(results)
    if len(given) != len(results):
        raise errors.InvalidArgumentError(f"map_chain has {len(results)} results; out has {len(given)}")
    names = list(dtypes) if dtypes is not None else [inputs[0].dtype] * len(results)
    if len(names) != len(results):
        raise errors.InvalidArgumentError(f"map_chain has {len(results)} results; dtypes has {len(names)}")
    numbers: list[int] = []
    all_operands: list[int] = []
    all_parameters: list[float] = []
    for step, (name, values) in enumerate(zip(functions, operands)):
        function = map_function(name)
        if function is None:
            raise errors.InvalidArgumentError(f"step {step}: there is no elementwise function {name!r}")
        if len(values) != function.input_count:
            raise errors.InvalidArgumentError(
                f"step {step}: {name} takes {function.input_count} values, not {len(values)}"
            )
        settings = parameters[step] if step < len(parameters) else ()
        if len(settings) > _MAX_PARAMETERS:
            raise errors.InvalidArgumentError(f"step {step}: {name} has at most {_MAX_PARAMETERS} parameters")
        numbers.append(function._number)
        all_operands += [*values, *[0] * (_MAX_OPERANDS - len(values))]
        all_parameters += [*settings, *[0.0] * (_MAX_PARAMETERS - len(settings))]
    shape = broadcast_shapes([x.shape for x in inputs])
    outputs = [
        output(shape, each.dtype if each is not None else dtype, inputs[0], each, stream)
        for each, dtype in zip(given, names)
    ]
    attributes = {
        "step_count": len(functions),
        "results": list(results),
        "functions": numbers,
        "operands": all_operands,
        "parameters": all_parameters,
    }
    launch("map_chain", list(inputs), list(outputs), attributes, stream=stream, label=label)
    return tuple(outputs)
