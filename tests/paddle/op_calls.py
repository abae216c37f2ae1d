"""Calls of Paddle's ops (paddle._C_ops), one or more for each kernel: what the functions of the other tables call,
noted while they run on the CPU, the in-place ops of in_place_sweep.py, and the rows of op_rows.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import calls
import in_place_sweep
import numpy as np
import paddle
import test_kernels
import test_measures
import test_more_kernels
from comparison import Array, random
from op_rows import ROWS


class OpCall(NamedTuple):
    """An op by its name in paddle._C_ops; arrays (and lists of them) among the arguments are tensors."""

    op: str
    arguments: tuple[Any, ...]


def to_array(value: Any) -> Any:
    if isinstance(value, paddle.Tensor):
        return value.detach().numpy()
    return [to_array(item) for item in value] if isinstance(value, (list, tuple)) else value


def to_tensor(value: Any) -> Any:
    if isinstance(value, list):
        return [to_tensor(item) if isinstance(item, np.ndarray) else item for item in value]
    return paddle.to_tensor(value) if isinstance(value, (np.ndarray, np.generic)) else value


@contextmanager
def noted(into: list[OpCall]) -> Iterator[None]:
    """What is called of paddle._C_ops with arguments by position goes into a list."""
    ops = paddle._C_ops
    originals = {name: getattr(ops, name) for name in dir(paddle.base.core.eager.ops) if not name.startswith("_")}

    def noting(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if all(value is None for value in named.values()):
                into.append(OpCall(name, tuple(to_array(argument) for argument in arguments)))
            return original(*arguments, **named)

        return call

    for name, original in originals.items():
        setattr(ops, name, noting(name, original))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(ops, name, original)


def call_all_functions() -> None:
    for call in calls.CALLS:
        call.function(**{name: to_tensor(value) for name, value in call.arguments.items()})
    for case in test_kernels.CASES + test_kernels.KNOWN_AT_RUN_TIME:
        case.function(*map(to_tensor, case.inputs))
    for _name, function, inputs in test_more_kernels.CASES:
        function(*map(to_tensor, inputs))
    for _name, function, inputs, _gradient in test_measures.CASES:
        function(*map(to_tensor, inputs))


def form(call: OpCall) -> str:
    """What two calls that differ in numbers alone have in common."""

    def describe(value: Any) -> str:
        if isinstance(value, np.ndarray):
            return f"{value.dtype}{value.shape}"
        if isinstance(value, list):
            return str([describe(item) for item in value])
        return type(value).__name__ if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)

    return f"{call.op} {[describe(argument) for argument in call.arguments]}"


def op_calls(of_each: int) -> list[OpCall]:
    """At most so many calls of each op, of different forms, in the order of the ops' names."""
    everything: list[OpCall] = [OpCall(*row) for row in ROWS]
    everything += [OpCall(name, arguments) for name, arguments in in_place_sweep.CALLS.items()]
    paddle.set_device("cpu")
    with paddle.no_grad(), noted(everything):
        call_all_functions()
    chosen: dict[str, dict[str, OpCall]] = {}
    for call in everything:
        kept = chosen.setdefault(call.op, {})
        if len(kept) < of_each:
            kept.setdefault(form(call), call)
    return [call for op in sorted(chosen) for call in chosen[op].values()]


__all__ = ["Array", "OpCall", "op_calls", "random"]
