"""Cases of non_max_suppression."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .case import Array, Case, Expected, Operand, Values, written
from .sweep import FLOATING
from .values import listed

_LAYOUTS = ("contiguous", "transposed", "sliced", "reversed")


def _boxes(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Around a few places, in steps of which areas are exact in every dtype's arithmetic; half of them turned round."""
    middles = generator.integers(0, max(1, shape[0] // 8) + 1, (shape[0], 2)) * 4.0
    sizes = generator.integers(0, 17, (shape[0], 2)) / 4
    low = middles + generator.integers(-4, 5, middles.shape) / 4
    boxes = np.concatenate([low, low + sizes], axis=1)
    turned = generator.integers(0, 2, shape[0]) == 1
    boxes[turned] = boxes[turned][:, [2, 1, 0, 3]]
    return boxes


def _overlaps(box: Array, others: Array) -> tuple[Array, Array]:
    """The areas that a box shares with each of the others, and covers together with it."""
    low, high = np.minimum(box[:2], box[2:]), np.maximum(box[:2], box[2:])
    other_low, other_high = np.minimum(others[:, :2], others[:, 2:]), np.maximum(others[:, :2], others[:, 2:])
    own, other = np.prod(high - low), np.prod(other_high - other_low, axis=1)
    shared = np.prod(np.maximum(np.minimum(high, other_high) - np.maximum(low, other_low), 0), axis=1)
    have_areas = (own > 0) & (other > 0)
    return np.where(have_areas, shared, 0.0), np.where(have_areas, own + other - shared, 1.0)


def _reference(threshold: float, inputs: Sequence[Any]) -> list[Expected]:
    (boxes,) = inputs
    kept: list[int] = []
    for i in range(len(boxes)):
        shared, covered = _overlaps(boxes[i], boxes[kept])
        if not np.any(shared > threshold * covered):
            kept.append(i)
    keep = np.zeros(len(boxes), bool)
    keep[kept] = True
    return [Expected(keep, 0)]


def _ordered_areas(boxes: Array, extent: float) -> Array:
    turned = (boxes[..., 2] < boxes[..., 0]) | (boxes[..., 3] < boxes[..., 1])
    return np.where(turned, 0.0, np.prod(boxes[..., 2:] - boxes[..., :2] + extent, axis=-1))


def _ordered_overlaps(a: Array, b: Array, extent: float) -> Array:
    """What an ordered box shares with each of the others over what both cover; NaN where that is 0 over 0."""
    apart = (b[:, 0] > a[2]) | (b[:, 2] < a[0]) | (b[:, 1] > a[3]) | (b[:, 3] < a[1])
    shared = np.prod(np.minimum(a[2:], b[:, 2:]) - np.maximum(a[:2], b[:, :2]) + extent, axis=1)
    return np.where(apart, 0.0, shared / (_ordered_areas(a, extent) + _ordered_areas(b, extent) - shared))


def _ordered_reference(threshold: float, decay: float, extent: float, boxes: Array) -> Array:
    kept: list[int] = []
    for i in range(len(boxes)):
        if np.all(_ordered_overlaps(boxes[i], boxes[kept], extent) <= threshold):
            kept.append(i)
            threshold *= decay if threshold > 0.5 else 1
    keep = np.zeros(len(boxes), bool)
    keep[kept] = True
    return keep


def _ordered_case(
    shape: tuple[int, ...],
    threshold: float,
    decay: float,
    extent: float,
    dtype: str = "float32",
    layout: str = "contiguous",
) -> Case:
    """Boxes with whole corners, a few of them turned, some without area, some the same."""

    def values(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        low = generator.integers(0, 9, (*shape[:-1], 2))
        return np.concatenate([low, low + generator.integers(-1, 7, low.shape)], axis=-1).astype(np.float64)

    def reference(inputs: Sequence[Any]) -> list[Expected]:
        lists = np.asarray(inputs[0]).reshape(shape[0] if len(shape) == 3 else 1, *shape[-2:])
        with np.errstate(all="ignore"):
            keep = np.array([_ordered_reference(threshold, decay, extent, boxes) for boxes in lists], bool)
        return [Expected(keep.reshape(shape[:-1]), 0)]

    attributes = {"threshold": threshold, "decay": decay, "extent": extent, "ordered": 1}
    variant = f"ordered/{'x'.join(map(str, shape))}/{threshold}-{decay}-{extent}/{dtype}/{layout}"
    boxes, keep = Operand(dtype, shape, values, layout), written("bool", shape[:-1], layout)
    return Case("non_max_suppression", variant, dtype, (boxes,), (keep,), reference, attributes)


def _case(
    name: str, dtype: str, count: int, threshold: float, layout: str, values: Values = _boxes, answer: str = "bool"
) -> Case:
    def reference(inputs: Sequence[Any]) -> list[Expected]:
        (expected,) = _reference(threshold, inputs)
        return [Expected(expected.values.astype(answer), 0)]

    boxes, keep = Operand(dtype, (count, 4), values, layout), written(answer, (count,), layout)
    variant = f"{name}/{count}/{threshold}/{dtype}-{answer}/{layout}"
    return Case("non_max_suppression", variant, dtype, (boxes,), (keep,), reference, {"threshold": threshold})


def cases(seed: int) -> Iterator[Case]:
    """All cases; the same for all seeds. Thresholds are exact in every dtype."""
    for count in (0, 1, 2, 31, 32, 33, 64, 257):
        yield _case("boxes", "float32", count, 0.5, "contiguous")
    for threshold in (0.0, 0.25, 0.75, 1.0):
        yield _case("boxes", "float32", 100, threshold, "contiguous")
    for dtype in FLOATING:
        yield _case("boxes", dtype, 70, 0.5, "contiguous")
    for layout in _LAYOUTS[1:]:
        yield _case("boxes", "float32", 40, 0.25, layout)
    yield _case("boxes", "float32", 40, 0.25, "contiguous", answer="uint8")
    same = listed([1, 2, 3, 4])
    yield _case("one-box-again-and-again", "float32", 100, 0.5, "contiguous", same)
    beyond = listed([np.nan, 1, 2, 3, 0, 0, np.inf, 2, 0, 0, 4, 4, 0, 0, 4, 4, 5, 5, 5, 9])
    yield _case("not-finite", "float32", 20, 0.5, "contiguous", beyond)
    chain = np.stack([[i, 0.0, i + 2.0, 1.0] for i in range(90)])  # each overlaps its neighbours by a third
    yield _case("chain", "float32", 90, 0.25, "contiguous", listed(chain))
    for shape in ((1, 4), (70, 4), (0, 5, 4), (3, 0, 4), (3, 33, 4), (2, 100, 4)):
        yield _ordered_case(shape, 0.25, 1, 0)
    for threshold, decay, extent in ((0.0, 1, 0), (0.5, 1, 1), (1.0, 0.75, 0), (0.75, 0.5, 1)):
        yield _ordered_case((2, 40, 4), threshold, decay, extent)
    for dtype in FLOATING:
        yield _ordered_case((2, 40, 4), 0.4, 1, 1, dtype)
    for layout in _LAYOUTS[1:]:
        yield _ordered_case((2, 40, 4), 0.25, 1, 1, layout=layout)
