"""Cases of map_chain: programs over functions of map, each held against its functions' references one after the other.

Functions of each arity are steps of chains, all of those with several results or many operands; random programs join
those that rounding errors do not blow up. A program of its own takes a compilation on some backends, so not each of
the others has one: their text is that of single ops, which have cases.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .case import Array, Case, Expected, Operand
from .layout import LAYOUTS, output_layout
from .map_functions import FUNCTIONS, known_functions
from .sweep import FLOATING
from .tolerance import compute_type, unit_roundoff
from .values import normal

_PROGRAMS = 16
_EVERY = 6
_MAX_STEPS, _MAX_PARAMETERS, _MAX_OPERANDS = 16, 8, 8
_SHAPES: tuple[tuple[int, ...], ...] = ((3, 5, 7), (2, 2050), (1,), (0, 4), (301,))

# Functions of random programs with the roundings of a result, and how much an operand's error grows at most (the
# Lipschitz constants of their formulas, for products with operands up to 8 in size, where _BOUND keeps them).
_BOUND = 8.0
_SMOOTH: dict[str, tuple[float, float]] = {
    "add": (1, 2),
    "subtract": (1, 2),
    "multiply": (1, 2 * _BOUND),
    "maximum": (0, 1),
    "minimum": (0, 1),
    "negative": (0, 1),
    "absolute": (0, 1),
    "relu": (0, 1),
    "tanh": (10, 1),
    "sigmoid": (10, 1),
    "clip": (0, 1),
    "scale": (2, 1),
}
_PARAMETERS = {"clip": (-_BOUND, _BOUND), "scale": (0.5, -1.25)}


class _Program:
    """A program, as its attributes and as a function of arrays."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.steps: list[tuple[str, tuple[int, ...], tuple[float, ...]]] = []
        self.values = inputs
        self.results: tuple[int, ...] = ()

    def step(self, name: str, operands: Sequence[int], parameters: Sequence[float] = ()) -> int:
        """The number of the step's first result."""
        self.steps.append((name, tuple(operands), tuple(parameters)))
        result = self.values
        self.values += known_functions()[name]["output_count"]
        return result

    def attributes(self) -> dict[str, Any]:
        """As uhal_map_chain_attributes has it."""
        operands = np.zeros((_MAX_STEPS, _MAX_OPERANDS), int)
        parameters = np.zeros((_MAX_STEPS, _MAX_PARAMETERS))
        for row, (_, numbers, given) in enumerate(self.steps):
            operands[row, : len(numbers)] = numbers
            parameters[row, : len(given)] = given
        return {
            "step_count": len(self.steps),
            "results": list(self.results),
            "functions": [known_functions()[name]["number"] for name, _, _ in self.steps],
            "operands": operands.ravel().tolist(),
            "parameters": parameters.ravel().tolist(),
        }

    def run(self, operands: Sequence[Array]) -> list[Array]:
        """All values."""
        values = list(operands)
        for name, numbers, parameters in self.steps:
            given = FUNCTIONS[name].reference(*[values[number] for number in numbers], *parameters)
            values += given if isinstance(given, tuple) else [given]
        return values

    def errors(self, values: Sequence[Array], unit: float) -> list[float]:
        """A bound of each value's absolute error where steps are those of _SMOOTH."""
        errors = [0.0] * self.inputs
        for (name, numbers, _), value in zip(self.steps, values[self.inputs :]):
            roundings, growth = _SMOOTH[name]
            size = float(np.max(np.abs(value), initial=1.0))
            errors.append(growth * max(errors[number] for number in numbers) + (roundings + 1) * unit * size)
        return errors


def cases(seed: int) -> Iterator[Case]:
    """All cases."""
    for number, (name, row) in enumerate(known_functions().items()):
        many = row["output_count"] > 1 or row["input_count"] > 3
        if name in FUNCTIONS and (many or number % _EVERY == 0):
            yield from _between_others(name)
    generator = random.Random(f"{seed} map_chain")
    for number in range(_PROGRAMS):
        yield _random(number, generator)
    for layout in LAYOUTS:
        yield _residual(layout, ())
    for in_place in (((0, 0),), ((1, 0),), ((0, 1), (1, 0))):
        yield _residual("sliced", in_place)
    yield _exchange()
    yield _longest()
    yield _truth()


def _between_others(name: str) -> Iterator[Case]:
    """A function between exact steps: its operands are the second half of the values, all its results are stored."""
    function, row = FUNCTIONS[name], known_functions()[name]
    dtype = "int32" if function.bits else "float32"
    count = row["input_count"]
    program = _Program(count)
    before = [program.step("identity", [number]) for number in range(count)]
    first = program.step(name, before, function.parameters)
    program.results = tuple(program.step("identity", [first + k]) for k in range(row["output_count"]))
    inputs = tuple(Operand(dtype, (5, 9), values) for values in function.values)
    computed_in = compute_type([dtype])
    if function.conditioned:  # held against the single op's own case, which knows what its arguments do
        return

    def reference(operands: Sequence[Any]) -> list[Expected | None]:
        kind = np.int64 if function.bits else computed_in if function.in_compute_type else "float64"
        given = [operand.astype(kind) for operand in operands]
        magnitude = None if function.magnitude is None else function.magnitude(*given, *function.parameters)
        values = function.reference(*given, *function.parameters)
        values = values if isinstance(values, tuple) else (values,)
        return [Expected(np.asarray(value), function.roundings, magnitude) for value in values]

    outputs = (Operand(dtype, (5, 9)),) * row["output_count"]
    yield Case("map_chain", f"step/{name}", dtype, inputs, outputs, reference, program.attributes())


def _random(number: int, generator: random.Random) -> Case:
    shape = generator.choice(_SHAPES)
    count = generator.randint(1, 8)
    program = _Program(count)
    dtypes = [generator.choice(FLOATING) for _ in range(count)]
    for _ in range(generator.randint(1, 7)):
        name = generator.choice(sorted(_SMOOTH))
        arity = known_functions()[name]["input_count"]
        last = program.step(
            name, [generator.randrange(program.values) for _ in range(arity)], _PARAMETERS.get(name, ())
        )
        if name in ("add", "subtract", "multiply") and len(program.steps) < 15:
            program.step("clip", [last], _PARAMETERS["clip"])
    outputs = generator.randint(1, 4)
    program.results = (program.values - 1, *(generator.randrange(program.values) for _ in range(outputs - 1)))
    layout = generator.choice(LAYOUTS)
    inputs = []
    for dtype in dtypes:
        own = tuple(generator.choice((length, length, 1)) for length in shape)
        own = own[generator.choice((0, 0, len(own) - 1)) :]
        inputs.append(Operand(dtype, own, normal(1), generator.choice(LAYOUTS) if own == shape else "contiguous"))
    results = [generator.choice(FLOATING) for _ in range(outputs)]
    return _case(program, f"random/{number}", "mixed", inputs, results, shape, output_layout(layout))


def _case(
    program: _Program,
    variant: str,
    dtype: str,
    inputs: Sequence[Operand],
    results: Sequence[str],
    shape: tuple[int, ...],
    layout: str = "contiguous",
    in_place: tuple[tuple[int, int], ...] = (),
) -> Case:
    unit = unit_roundoff(compute_type([operand.dtype for operand in inputs] + list(results)))

    def reference(operands: Sequence[Any]) -> list[Expected | None]:
        values = program.run([np.broadcast_to(operand.astype("float64"), shape) for operand in operands[: len(inputs)]])
        errors = program.errors(values, unit)
        return [Expected(values[number], 0, None, errors[number]) for number in program.results]

    outputs = tuple(Operand(result, shape, layout=layout) for result in results)
    return Case("map_chain", variant, dtype, tuple(inputs), outputs, reference, program.attributes(), in_place)


def _residual(layout: str, in_place: tuple[tuple[int, int], ...]) -> Case:
    """relu(x + y), kept with the sum."""
    program = _Program(2)
    total = program.step("add", [0, 1])
    program.results = (total, program.step("relu", [total]))
    inputs = [Operand("float32", (4, 3, 70), normal(1), layout) for _ in range(2)]
    name = f"residual/{layout}" + "".join(f"/{output}_is_{input_}" for output, input_ in in_place)
    return _case(program, name, "float32", inputs, ["float32"] * 2, (4, 3, 70), output_layout(layout), in_place)


def _exchange() -> Case:
    """Two outputs, each in the place of the input that is the other one."""
    program = _Program(2)
    program.step("add", [0, 1])
    program.results = (1, 0)
    inputs = [Operand("float32", (3, 700), normal(1)) for _ in range(2)]
    return _case(program, "exchange", "float32", inputs, ["float32"] * 2, (3, 700), "contiguous", ((0, 0), (1, 1)))


def _longest() -> Case:
    """As many steps, inputs and outputs as there may be."""
    program = _Program(8)
    value = 0
    for number in range(_MAX_STEPS):
        value = program.step(("minimum", "maximum")[number % 2], [value, (number + 1) % 8])
    program.results = (value, value - 1, 9, 0)
    inputs = [Operand("float32", (33, 5), normal(1)) for _ in range(8)]
    return _case(program, "longest", "float32", inputs, ["float32"] * 4, (33, 5))


def _truth() -> Case:
    """select(x < y, x, y * 0.5), and the comparison as bool."""
    program = _Program(2)
    less = program.step("less", [0, 1])
    half = program.step("scale", [1], (0.5,))
    program.results = (program.step("select", [less, 0, half]), less)
    inputs = (Operand("float16", (7, 40), normal(1)), Operand("float16", (7, 1), normal(1)))

    def reference(operands: Sequence[Any]) -> list[Expected | None]:
        x, y = np.broadcast_arrays(*operands)
        return [Expected(np.where(x < y, x, y * 0.5), 0), Expected(x < y, 0)]

    outputs = (Operand("float16", (7, 40)), Operand("bool", (7, 40)))
    return Case("map_chain", "truth", "float16", inputs, outputs, reference, program.attributes())
