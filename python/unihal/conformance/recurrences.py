"""Cases of rnn and its gradient."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .case import Array, Case, Expected, Operand, written
from .layout import CONTIGUOUS, LAYOUTS
from .number_format import FORMATS
from .reference import recurrence
from .reference.enums import RnnMode
from .sweep import FLOATING, sweep
from .tolerance import summation_roundings
from .values import listed, normal, uniform

#: Roundings of the elementary functions of a cell and its arithmetic.
_CELL_ROUNDINGS = 40


@dataclass(frozen=True)
class _Problem:
    name: str
    directions: int
    steps: int
    batch: int
    hidden: int
    reverse: int = 0
    #: Whether there are states before the first step, a bias, and gradients of the last states.
    states: bool = True
    #: Of the sequences, one after the other and again; none: all steps are taken.
    lengths: tuple[int, ...] = ()
    length_dtype: str = "int64"
    clip: float = 0.0


_PROBLEMS = (
    _Problem("one-direction", 1, 5, 3, 4),
    _Problem("from-zeros", 1, 5, 3, 4, states=False),
    _Problem("backwards", 1, 5, 3, 7, reverse=1),
    _Problem("both-directions", 2, 4, 3, 5, reverse=2),
    _Problem("three-directions", 3, 3, 2, 3, reverse=5),
    _Problem("lengths", 2, 6, 7, 5, reverse=2, lengths=(6, 1, 3, 0, 5, 9, -2)),
    _Problem("int32-lengths", 2, 4, 3, 3, reverse=1, lengths=(2, 4, 1), length_dtype="int32"),
    _Problem("lengths-from-zeros", 2, 4, 3, 3, reverse=2, states=False, lengths=(2, 4, 0)),
    _Problem("one-step", 2, 1, 3, 4, reverse=2),
    _Problem("no-steps", 2, 0, 3, 4),
    _Problem("no-sequences", 1, 3, 0, 4),
    _Problem("no-units", 1, 3, 2, 0),
    _Problem("one-unit", 1, 4, 1, 1),
    _Problem("long", 1, 60, 2, 8),
    _Problem("wide", 2, 3, 33, 67, reverse=2),
)


def _operands(dtype: str, problem: _Problem, layout: str, mode: RnnMode) -> dict[str, Operand | None]:
    p, hidden = problem, problem.hidden
    gates, reserved = recurrence.GATES[mode] * hidden, recurrence.RESERVED[mode] * hidden
    steps = (p.directions, p.steps, p.batch)
    lstm = mode == RnnMode.LSTM
    # A step forgets: rows of r have a norm of at most about one half.
    scale = 0.5 / max(1.0, np.sqrt(hidden))

    def given(present: bool, shape: tuple[int, ...], values: Any) -> Operand | None:
        return Operand(dtype, shape, values, layout) if present else None

    states = (p.directions, p.batch, hidden)
    lengths = Operand(p.length_dtype, (p.batch,), listed(p.lengths)) if p.lengths else None
    return {
        "x": given(True, (*steps, gates), normal()),
        "r": given(True, (p.directions, gates, hidden), normal(scale)),
        "h0": given(p.states, states, uniform(-1, 1)),
        "c0": given(p.states and lstm, states, normal()),
        "bias": given(p.states, (p.directions, gates), normal()),
        "lengths": lengths,
        "y": given(True, (*steps, hidden), uniform(-1, 1)),
        "reserve": given(recurrence.RESERVED[mode] > 0, (*steps, reserved), uniform(0, 1)),
        "dy": given(True, (*steps, hidden), normal()),
        "dh_last": given(p.states, states, normal()),
        "dc_last": given(p.states and lstm, states, normal()),
    }


def _errors(dtype: str, problem: _Problem, values: Array) -> dict[str, Any]:
    """A step's sum and cell, relative to the largest number; they add up over the steps. In 16 bits the states that go
    from step to step may be rounded, each time by as much again."""
    roundings = (summation_roundings(problem.hidden) + _CELL_ROUNDINGS) * max(1, problem.steps)
    largest = max(1.0, float(np.max(np.abs(values), initial=0)))
    error = 2 * problem.steps * FORMATS[dtype].unit_roundoff * largest if FORMATS[dtype].bits < 24 else 0.0
    return {"roundings": roundings, "magnitude": np.full(values.shape, largest), "error": error}


def _expected(dtype: str, problem: _Problem, results: Sequence[Array | None]) -> list[Expected | None]:
    return [None if values is None else Expected(values, **_errors(dtype, problem, values)) for values in results]


def _outputs(dtype: str, layout: str, shapes: Sequence[tuple[int, ...] | None]) -> tuple[Operand | None, ...]:
    return tuple(None if shape is None else written(dtype, shape, layout) for shape in shapes)


def _attributes(problem: _Problem, mode: RnnMode) -> dict[str, Any]:
    return {"mode": int(mode), "reverse": problem.reverse, "cell_clip": problem.clip}


def _forward(dtype: str, problem: _Problem, layout: str, *, mode: RnnMode, for_gradient: bool = True) -> Case:
    operands = _operands(dtype, problem, layout, mode)
    attributes = _attributes(problem, mode)

    def reference(inputs: Sequence[Any]) -> list[Expected | None]:
        y, c_last, reserve = recurrence.rnn(*inputs, **attributes)
        return _expected(dtype, problem, [y, *((c_last, reserve) if for_gradient else (None, None))])

    states = (problem.directions, problem.batch, problem.hidden)
    kept = operands["reserve"]
    shapes = [
        (problem.directions, problem.steps, problem.batch, problem.hidden),
        states if mode == RnnMode.LSTM and for_gradient else None,
        kept.shape if kept is not None and for_gradient else None,
    ]
    inputs = tuple(operands[name] for name in ("x", "r", "h0", "c0", "bias", "lengths"))
    variant = "/".join((mode.name.lower(), problem.name, "training" if for_gradient else "inference", dtype, layout))
    return Case("rnn", variant, dtype, inputs, _outputs(dtype, layout, shapes), reference, attributes)


def _backward(dtype: str, problem: _Problem, layout: str, *, mode: RnnMode) -> Case:
    operands = _operands(dtype, problem, layout, mode)
    attributes = _attributes(problem, mode)
    initial = {RnnMode.LSTM: "c0", RnnMode.GRU: "h0"}.get(mode)

    def reference(inputs: Sequence[Any]) -> list[Expected | None]:
        return _expected(dtype, problem, recurrence.rnn_backward(*inputs, **attributes))

    gates = operands["x"]
    assert gates is not None
    states = (problem.directions, problem.batch, problem.hidden)
    shapes = [
        gates.shape,
        gates.shape if mode == RnnMode.GRU else None,
        states,
        states if mode == RnnMode.LSTM else None,
    ]
    inputs = (
        *(operands[name] for name in ("dy", "r", "y", "reserve")),
        operands[initial] if initial is not None else None,
        *(operands[name] for name in ("lengths", "dh_last", "dc_last")),
    )
    variant = "/".join((mode.name.lower(), problem.name, dtype, layout))
    return Case("rnn_backward", variant, dtype, inputs, _outputs(dtype, layout, shapes), reference, attributes)


def cases(seed: int) -> Iterator[Case]:
    """All cases of both kinds."""
    for mode in RnnMode:
        for build in (partial(_forward, mode=mode), partial(_backward, mode=mode)):
            yield from sweep(build, seed, dtypes=FLOATING, shapes=_PROBLEMS, layouts=LAYOUTS)
        for problem in _PROBLEMS[1:4]:
            yield _forward("float32", problem, CONTIGUOUS, mode=mode, for_gradient=False)
    clipped = _Problem("clipped", 1, 5, 3, 4, clip=0.25)
    yield _forward("float32", clipped, CONTIGUOUS, mode=RnnMode.LSTM)
    yield _backward("float32", clipped, CONTIGUOUS, mode=RnnMode.LSTM)
