"""Cases of ctc_loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .case import Array, Case, Expected, Operand, written
from .layout import CONTIGUOUS, LAYOUTS
from .reference import finite_difference
from .reference.ctc import ctc_loss
from .sweep import FLOATING, sweep
from .tolerance import summation_roundings
from .values import listed, normal

#: Roundings of a sum of three exponentials and its logarithm.
_STEP_ROUNDINGS = 40


@dataclass(frozen=True)
class _Problem:
    name: str
    steps: int
    batch: int
    classes: int
    labels: int
    blank: int = 0
    logit_lengths: tuple[int, ...] = ()
    label_lengths: tuple[int, ...] = ()
    #: Labels, one after the other and again; none: drawn from all classes but the blank.
    given: tuple[int, ...] = ()
    zero_infinity: int = 0
    index_dtype: str = "int64"


_PROBLEMS = (
    _Problem("plain", 12, 3, 5, 4),
    _Problem("last-blank", 12, 3, 5, 4, blank=4),
    _Problem("repeated", 11, 2, 4, 5, blank=2, given=(1, 1, 3, 3, 1)),
    _Problem("lengths", 9, 6, 5, 3, logit_lengths=(9, 4, 0, 0, 15, -3), label_lengths=(3, 1, 0, 2, 9, -1)),
    _Problem("int32", 9, 3, 5, 3, label_lengths=(1, 0, 3), index_dtype="int32"),
    _Problem("infinity", 3, 3, 4, 3, given=(1, 1, 2), label_lengths=(3, 2, 1)),
    _Problem("no-infinity", 3, 3, 4, 3, given=(1, 1, 2), label_lengths=(3, 2, 1), zero_infinity=1),
    _Problem("no-such-label", 8, 3, 4, 2, blank=1, given=(4, 2, 0, -1, 1, 3)),
    _Problem("no-labels", 5, 2, 4, 0),
    _Problem("no-steps", 0, 2, 4, 2),
    _Problem("no-sequences", 5, 0, 4, 2),
    _Problem("one-class", 4, 2, 1, 0),
    _Problem("long", 70, 2, 30, 20),
    _Problem("many-labels", 300, 1, 7, 140),
    _Problem("many-classes", 6, 3, 1031, 3),
)


def _labels(problem: _Problem) -> Any:
    if problem.given:
        return listed(problem.given)

    def values(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        drawn = generator.integers(0, max(1, problem.classes - 1), shape)
        return np.asarray(drawn + (drawn >= problem.blank))

    return values


def _case(dtype: str, problem: _Problem, layout: str, *, with_gradient: bool = True) -> Case:
    p = problem
    attributes: dict[str, Any] = {"blank": p.blank, "zero_infinity": p.zero_infinity}
    shape = (p.steps, p.batch, p.classes)

    def reference(inputs: Sequence[Any]) -> list[Expected | None]:
        losses, gradient = ctc_loss(*inputs, **attributes)
        # Logarithms add up over the steps; what they are rounded to is relative to the largest of them.
        largest = float(np.max(np.abs(inputs[0]), initial=1)) + np.log(p.classes + 1)
        roundings = _STEP_ROUNDINGS * summation_roundings(max(1, p.steps))
        size = np.full(losses.shape, p.steps * largest + 1)
        kept = Expected(gradient, roundings, np.broadcast_to(size[:, None], gradient.shape))
        return [Expected(losses, roundings, size), kept if with_gradient else None]

    def lengths(given: tuple[int, ...]) -> Operand | None:
        return Operand(p.index_dtype, (p.batch,), listed(given), CONTIGUOUS) if given else None

    inputs = (
        Operand(dtype, shape, normal(2), layout),
        Operand(p.index_dtype, (p.batch, p.labels), _labels(p), layout),
        lengths(p.logit_lengths),
        lengths(p.label_lengths),
    )
    outputs = (written(dtype, (p.batch,), layout), written(dtype, shape, layout) if with_gradient else None)
    variant = "/".join((p.name, "gradient" if with_gradient else "loss", dtype, layout))
    return Case("ctc_loss", variant, dtype, inputs, outputs, reference, attributes)


def _by_differences(dtype: str) -> Case:
    """The gradient against finite differences of the reference's losses."""
    lengths = np.array([5, 4])
    labels = np.array([[1, 2], [3, 3]])

    def reference(inputs: Sequence[Any]) -> list[Expected]:
        def losses(logits: Array) -> Array:
            return ctc_loss(logits, labels, lengths)[0]

        gradient = finite_difference.gradient(losses, inputs[0], np.ones(2))
        error = finite_difference.TOLERANCE
        return [
            Expected(losses(inputs[0]), 2 * _STEP_ROUNDINGS),
            Expected(gradient, 4 * _STEP_ROUNDINGS, 8 + 0 * gradient, error),
        ]

    inputs = (
        Operand(dtype, (5, 2, 4), normal()),
        Operand("int64", (2, 2), listed(labels.ravel().tolist())),
        Operand("int64", (2,), listed(lengths.tolist())),
    )
    outputs = (written(dtype, (2,), CONTIGUOUS), written(dtype, (5, 2, 4), CONTIGUOUS))
    return Case("ctc_loss", f"finite-differences/{dtype}", dtype, inputs, outputs, reference)


def cases(seed: int) -> Iterator[Case]:
    """All cases."""
    yield from sweep(_case, seed, dtypes=FLOATING, shapes=_PROBLEMS, layouts=LAYOUTS)
    yield from sweep(partial(_case, with_gradient=False), seed, dtypes=FLOATING[:1], shapes=_PROBLEMS, draws=0)
    yield from map(_by_differences, ("float64", "float32"))
