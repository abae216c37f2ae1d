"""Cases of softmax, cross_entropy and their gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from .case import Array, Case, Expected, Operand, Values, written
from .layout import LAYOUTS
from .reference.loss import cross_entropy, cross_entropy_backward
from .reference.softmax import softmax, softmax_backward
from .sweep import FLOATING, shape_name, sweep
from .tolerance import summation_roundings
from .values import listed, normal, uniform

#: (shape, axis).
_Problem = tuple[tuple[int, ...], int]

_PROBLEMS: tuple[_Problem, ...] = (
    ((3, 5, 7), -1),
    ((3, 5, 7), 1),
    ((3, 5, 7), 0),
    ((3, 5, 7), 2),
    ((1,), 0),
    ((31,), -1),
    ((4, 1), -1),
    ((0, 5), -1),
    ((2, 1031), 1),
    ((1031, 300), 1),
    ((300, 1031), 0),
    ((1, 65537), 1),
    ((65537, 3), -1),
    ((1021, 1031), -1),
    ((1, 2, 1, 3, 1, 2, 3, 1, 2, 3), 3),
)

#: Layouts in which each element has a place of its own.
_IN_PLACE = [layout for layout in LAYOUTS if layout not in ("broadcast", "overlapping")]

#: exp and log may be off by 3 ulps each (OpenCL C 1.2, section 7.4); then a difference and a quotient.
_ROUNDINGS = 16


def _distances(x: Array, axis: int) -> Array:
    """How far the logits lie below the largest: roundings of the exponents are relative to it."""
    distances = np.max(x, axis=axis, keepdims=True, initial=-np.inf) - x
    return np.where(np.isfinite(distances), distances, 0)


def _softmax_magnitude(x: Array, axis: int, logarithm: int) -> Array:
    distances = _distances(x, axis)
    if logarithm:
        return np.asarray(distances + np.log(max(2, x.shape[axis])) + 1)
    return np.asarray(softmax(x, axis=axis) * (1 + distances))


def _softmax_case(
    dtype: str,
    problem: _Problem,
    layout: str,
    *,
    logarithm: int,
    values: Values | None = None,
    in_place: bool = False,
    name: str = "",
) -> Case:
    shape, axis = problem
    attributes = {"axis": axis, "logarithm": logarithm}

    def reference(inputs: Sequence[Any]) -> list[Expected]:
        x = inputs[0]
        roundings = summation_roundings(x.shape[axis]) + _ROUNDINGS
        return [Expected(softmax(x, **attributes), roundings, _softmax_magnitude(x, **attributes))]

    x = Operand(dtype, shape, values or normal(3), layout)
    parts = ("logarithm" if logarithm else "plain", dtype, shape_name(shape), f"axis{axis}", name or layout)
    return Case(
        op="softmax",
        variant="/".join(parts) + ("/in-place" if in_place else ""),
        dtype=dtype,
        inputs=(x,),
        outputs=(x if in_place else Operand(dtype, shape),),
        reference=reference,
        attributes=attributes,
        in_place=((0, 0),) if in_place else (),
    )


def _softmax_of_normal(axis: int, logarithm: int = 0) -> Values:
    """What a forward pass gives."""
    return lambda generator, shape: softmax(generator.normal(0, 2, shape), axis=axis, logarithm=logarithm)


def _softmax_backward_case(dtype: str, problem: _Problem, layout: str, *, logarithm: int) -> Case:
    shape, axis = problem
    attributes = {"axis": axis, "logarithm": logarithm}

    def reference(inputs: Sequence[Any]) -> list[Expected]:
        y, dy = inputs
        size = np.abs(dy)
        if logarithm:
            magnitude = size + np.exp(y) * (1 + np.abs(y)) * size.sum(axis=axis, keepdims=True)
        else:
            magnitude = y * (size + np.sum(y * size, axis=axis, keepdims=True))
        roundings = summation_roundings(y.shape[axis]) + _ROUNDINGS
        return [Expected(softmax_backward(y, dy, **attributes), roundings, magnitude)]

    return Case(
        op="softmax_backward",
        variant=f"{'logarithm' if logarithm else 'plain'}/{dtype}/{shape_name(shape)}/axis{axis}/{layout}",
        dtype=dtype,
        inputs=(
            Operand(dtype, shape, _softmax_of_normal(axis, logarithm), layout),
            Operand(dtype, shape, normal(), layout),
        ),
        outputs=(written(dtype, shape, layout),),
        reference=reference,
        attributes=attributes,
    )


# -- cross entropy

#: Ignored classes: one that exists, and one that does not.
_IGNORED = (2, -100)


def _sparse_shape(problem: _Problem) -> tuple[int, ...]:
    shape, axis = problem
    return tuple(1 if i == axis % len(shape) else length for i, length in enumerate(shape))


def _class_numbers(classes: int, ignored: int | None) -> Values:
    """Classes; about every third row is ignored."""

    def make(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        numbers = generator.integers(0, classes, shape)
        return numbers if ignored is None else np.where(generator.random(shape) < 0.3, ignored, numbers)

    return make


def _labels(problem: _Problem, labels: str, ignored: int | None, layout: str) -> Operand:
    """The operand of class numbers, or of distributions for a floating dtype."""
    shape, axis = problem
    if labels.startswith("int"):
        return Operand(labels, _sparse_shape(problem), _class_numbers(shape[axis], ignored), layout)
    return Operand(labels, shape, _softmax_of_normal(axis), layout)


def _ignore_attributes(axis: int, ignored: int | None) -> dict[str, int]:
    return {"axis": axis, "has_ignore": int(ignored is not None), "ignore_index": ignored or 0}


def _variant(
    dtype: str, problem: _Problem, labels: str, ignored: int | None, weighted: bool, outputs: int, layout: str
) -> str:
    shape, axis = problem
    parts = [dtype, f"labels-{labels}", shape_name(shape), f"axis{axis}", layout]
    parts += [] if ignored is None else [f"ignore{ignored}"]
    parts += ["weights"] if weighted else []
    parts += [] if outputs == 3 else [("", "loss-only", "no-gradient")[outputs]]
    return "/".join(parts)


def _loss_expected(inputs: Sequence[Any], attributes: dict[str, int], outputs: int) -> list[Expected | None]:
    logits, labels, weights = inputs
    axis = attributes["axis"]
    loss, probabilities, gradient = cross_entropy(logits, labels, weights, **attributes)
    roundings = summation_roundings(logits.shape[axis]) + _ROUNDINGS
    terms = _softmax_magnitude(logits, axis, 1)
    factor = np.max(np.abs(weights), initial=0) if weights is not None else 1.0
    loss_magnitude = np.max(terms, axis=axis, keepdims=True, initial=0) * factor
    size = _softmax_magnitude(logits, axis, 0)
    expected = [
        Expected(loss, roundings, loss_magnitude),
        Expected(probabilities, roundings, size),
        Expected(gradient, roundings, size + np.abs(gradient)),
    ]
    return [*expected[:outputs], *[None] * (3 - outputs)]


def _cross_entropy_case(
    dtype: str,
    problem: _Problem,
    layout: str,
    *,
    labels: str = "",
    ignored: int | None = None,
    weighted: bool = False,
    outputs: int = 3,
    logits: Values | None = None,
    name: str = "",
) -> Case:
    shape, axis = problem
    labels = labels or dtype
    attributes = _ignore_attributes(axis, ignored)
    results = (
        written(dtype, _sparse_shape(problem), layout),
        written(dtype, shape, layout),
        written(dtype, shape, layout),
    )
    return Case(
        op="cross_entropy",
        variant=_variant(dtype, problem, labels, ignored, weighted, outputs, name or layout),
        dtype=dtype,
        inputs=(
            Operand(dtype, shape, logits or normal(3), layout),
            _labels(problem, labels, ignored, layout),
            Operand(dtype, (shape[axis],), uniform(0.25, 2), layout) if weighted else None,
        ),
        outputs=(*results[:outputs], *[None] * (3 - outputs)),
        reference=lambda inputs: _loss_expected(inputs, attributes, outputs),
        attributes=attributes,
    )


def _cross_entropy_backward_case(
    dtype: str, problem: _Problem, layout: str, *, labels: str = "", ignored: int | None = None, in_place: bool = False
) -> Case:
    shape, axis = problem
    labels = labels or dtype
    attributes = _ignore_attributes(axis, ignored)
    probabilities = Operand(dtype, shape, _softmax_of_normal(axis), layout)

    def reference(inputs: Sequence[Any]) -> list[Expected]:
        probabilities, label, dloss = inputs
        values = cross_entropy_backward(probabilities, label, dloss, **attributes)
        return [Expected(values, 4, (probabilities + (label if label.dtype.kind == "f" else 1)) * np.abs(dloss))]

    return Case(
        op="cross_entropy_backward",
        variant=_variant(dtype, problem, labels, ignored, False, 3, layout) + ("/in-place" if in_place else ""),
        dtype=dtype,
        inputs=(
            probabilities,
            _labels(problem, labels, ignored, layout),
            Operand(dtype, _sparse_shape(problem), normal(), layout),
        ),
        outputs=(probabilities if in_place else written(dtype, shape, layout),),
        reference=reference,
        attributes=attributes,
        in_place=((0, 0),) if in_place else (),
    )


def _wrong_labels(op: str, labels: str) -> Case:
    """A number that is no class is an error of the stream; its row gives zeros, others what they should."""
    wrong = np.array([[0], [5], [-1], [4], [1 << 30]])
    counts = np.array([[1.0], [0], [0], [1], [0]])
    valid = np.where(counts != 0, wrong, 0)

    def reference(inputs: Sequence[Any]) -> list[Expected | None]:
        if op == "cross_entropy":
            loss, probabilities, gradient = _loss_expected((inputs[0], valid, None), {"axis": 1}, 3)
            assert loss is not None and gradient is not None
            zeros = (Expected(loss.values * counts, loss.roundings, loss.magnitude), probabilities)
            return [*zeros, Expected(gradient.values * counts, gradient.roundings, gradient.magnitude)]
        values = cross_entropy_backward(inputs[0], valid, inputs[2], axis=1) * counts
        return [Expected(values, 4, np.abs(inputs[2]) * 2 * np.ones((5, 5)))]

    forward = op == "cross_entropy"
    dloss = Operand("float32", (5, 1), normal())
    results = (Operand("float32", (5, 1)), Operand("float32", (5, 5)), Operand("float32", (5, 5)))
    return Case(
        op=op,
        variant=f"wrong-labels/{labels}",
        dtype="float32",
        inputs=(
            Operand("float32", (5, 5), normal() if forward else _softmax_of_normal(1)),
            Operand(labels, (5, 1), listed(wrong)),
            None if forward else dloss,
        ),
        outputs=results if forward else results[1:2],
        reference=reference,
        attributes={"axis": 1},
        stream_error="OUT_OF_RANGE",
    )


def cases(seed: int) -> Iterator[Case]:
    """All cases of the four kinds."""
    for logarithm in (0, 1):
        yield from sweep(partial(_softmax_case, logarithm=logarithm), seed, shapes=_PROBLEMS)
        replaced = partial(_softmax_case, logarithm=logarithm, in_place=True)
        yield from sweep(replaced, seed, shapes=_PROBLEMS[:4], layouts=_IN_PLACE)
        for dtype in FLOATING:
            large = partial(_softmax_case, logarithm=logarithm, values=uniform(9900, 10000), name="large-logits")
            yield large(dtype, ((4, 9), 1), "contiguous")
            apart = partial(_softmax_case, logarithm=logarithm, values=listed((0, -60000, 10)), name="far-apart")
            yield apart(dtype, ((2, 3), 1), "contiguous")
            masked = partial(_softmax_case, logarithm=logarithm, values=listed((0, float("-inf"), 1)), name="masked")
            yield masked(dtype, ((2, 3), 1), "contiguous")
        yield from sweep(partial(_softmax_backward_case, logarithm=logarithm), seed, shapes=_PROBLEMS)
    problems = [problem for problem in _PROBLEMS if problem[0] != (4, 1)]
    for labels in ("int64", "int32", ""):
        for ignored in (None, *_IGNORED) if labels else (None,):
            few = [problem for problem in problems if ignored is None or problem[0][problem[1]] > ignored]
            for weighted in (False, True):
                build = partial(_cross_entropy_case, labels=labels, ignored=ignored, weighted=weighted)
                yield from sweep(build, seed, shapes=few if ignored is None else few[:6])
            backward = partial(_cross_entropy_backward_case, labels=labels, ignored=ignored)
            yield from sweep(backward, seed, shapes=few)
        replaced = partial(_cross_entropy_backward_case, labels=labels, in_place=True)
        yield from sweep(replaced, seed, shapes=_PROBLEMS[:4], layouts=_IN_PLACE)
        for dtype in FLOATING:
            large = partial(_cross_entropy_case, labels=labels, logits=uniform(9900, 10000), name="large-logits")
            yield large(dtype, ((4, 9), 1), "contiguous")
        for outputs in (1, 2):
            yield from sweep(partial(_cross_entropy_case, labels=labels, outputs=outputs), seed, shapes=problems[:4])
    for labels in ("int32", "int64"):
        yield _wrong_labels("cross_entropy", labels)
        yield _wrong_labels("cross_entropy_backward", labels)
