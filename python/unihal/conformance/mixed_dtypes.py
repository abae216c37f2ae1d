"""Cases of the neural kinds whose operands differ in dtype: float64 anywhere makes all of the arithmetic float64."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from . import attentions, convolutions, losses, normalization_gradients, normalizations, poolings, resamplings
from .case import Case, Operand
from .sweep import FLOATING

_FAMILIES = (
    convolutions,
    poolings,
    resamplings,
    losses,
    normalizations,
    normalization_gradients,
    attentions,
)

#: An input that may have a dtype of its own besides the first output, and is not determined by the others.
_FREE_INPUT = {
    "convolution": 1,
    "convolution_backward_data": 1,
    "convolution_backward_filter": 1,
    "pool_backward": 0,
    "softmax_backward": 1,
    "cross_entropy_backward": 2,
    "batch_norm_backward": 1,
    "layer_norm_backward": 1,
    "group_norm_backward": 1,
    "rms_norm_backward": 1,
    "attention": 2,
    "attention_backward": 6,
}


def _replaced(operands: tuple[Operand | None, ...], number: int, dtype: str) -> tuple[Operand | None, ...]:
    operand = operands[number]
    assert operand is not None
    return (*operands[:number], replace(operand, dtype=dtype), *operands[number + 1 :])


def _mixed(case: Case, dtype: str) -> Iterator[Case]:
    """The case with another dtype for one of its operands."""
    yield replace(case, variant=f"{case.variant}/to-{dtype}", dtype="mixed", outputs=_replaced(case.outputs, 0, dtype))
    free = _FREE_INPUT.get(case.op)
    if free is not None:
        inputs = _replaced(case.inputs, free, dtype)
        yield replace(case, variant=f"{case.variant}/input{free}-{dtype}", dtype="mixed", inputs=inputs)


def cases(seed: int) -> Iterator[Case]:
    """The first case of each kind and dtype, with each other dtype."""
    seen = set()
    for family in _FAMILIES:
        for case in family.cases(seed):
            key = (case.op, case.dtype)
            if case.dtype not in FLOATING or key in seen:
                continue
            seen.add(key)
            for dtype in FLOATING:
                if dtype != case.dtype:
                    yield from _mixed(case, dtype)
