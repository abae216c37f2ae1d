"""Plans of offload: weights in the host's memory, as `LayerOffload` and `PartOffload` bring them to the card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..offload_units import Part, groups, layout, padded
from .trace import Span, Tensor, Trace

#: Smaller weights (biases, norms) stay on the card where nothing but the ops is known.
SMALLEST_OFFLOADED = 256 << 10


@dataclass(frozen=True)
class Moved:
    """A trace whose weights come to the card, and the bytes that are copied in a run.

    `waited_bytes` of them are copied while nothing computes (whole parts), the others beside it.
    """

    trace: Trace
    copied_bytes: int = 0
    waited_bytes: int = 0


@dataclass
class _Period:
    """Ops during which the pieces of a part are on the card."""

    span: Span
    end: int
    calls: int


def _periods(spans: Sequence[Span]) -> list[_Period]:
    """Spans one after the other that bring the same part are one period: it stays in between."""
    found: list[_Period] = []
    for span in spans:
        last = found[-1] if found else None
        if last is not None and last.span.part.tensors() == span.part.tensors():
            last.end, last.calls = span.end, last.calls + span.calls
        else:
            found.append(_Period(span, span.end, span.calls))
    return [period for period in found if period.end > period.span.begin]


def brought(trace: Trace, prefetch: int | None = None) -> Moved:
    """The trace as its spans say: the parts of those that are not resident come and go.

    With `prefetch` all of them come layer by layer, as many ahead.
    """
    spans = trace.spans
    if prefetch is not None:
        spans = [replace(span, resident=False, prefetch=prefetch) for span in spans]
    kept = {number for span in spans if span.resident for number in span.part.tensors()}
    periods = _periods([span for span in spans if not span.resident])
    moving = {number for period in periods for number in period.span.part.tensors()} - kept
    if not moving:
        return Moved(trace)
    pieces: dict[int, list[int]] = {}
    copied = waited = 0
    for index, period in enumerate(periods):
        span = period.span

        def size(number: Any) -> int:
            return trace.tensors[number].bytes if number in moving else 0

        if span.prefetch is None:
            pieces[index] = [sum(padded(size(number)) for number in span.part.tensors())]
            waited += pieces[index][0]
            copied += pieces[index][0]
        else:
            places = layout(groups(span.part, size), span.prefetch, span.resident_bytes)
            pieces[index] = places.pieces
            copied += places.copied(period.calls)
    result = Trace(list(trace.tensors), [], list(trace.ops), 0, trace.notes, [])
    present: dict[int, list[int]] = {}

    def boundary(op: int) -> None:
        """Before the op of this number."""
        for index, period in enumerate(periods):
            if period.end == op:
                for number in present.pop(index):
                    result.drop(number)
        for index, period in enumerate(periods):
            if period.span.begin == op:
                present[index] = [result.add(Tensor(each, "copies", "offload")) for each in pieces[index]]

    op = 0
    for place, event in enumerate(trace.events):
        if place == trace.start:
            result.start = len(result.events)
            boundary(0)
        if event is None:
            result.events.append(None)
            op += 1
            boundary(op)
        elif (event if event >= 0 else ~event) not in moving:
            result.events.append(event)
    return Moved(result, copied, waited)


def brought_by_op(trace: Trace) -> Moved:
    """The trace with each weight on the card during its op and the one before, while it is copied.

    For traces of which no modules are known, whose ops are all there is.
    """
    moving = {
        number
        for number, tensor in enumerate(trace.tensors)
        if tensor.category == "weights" and tensor.bytes >= SMALLEST_OFFLOADED
    }
    uses = [tuple(n for n in dict.fromkeys(op.weights) if n in moving) for op in trace.ops]
    with_weights = [index for index, numbers in enumerate(uses) if numbers]
    following = dict(zip(with_weights, with_weights[1:]))
    result = Trace(list(trace.tensors), [], list(trace.ops), 0, trace.notes)
    present: dict[int, int] = {}
    copied = 0

    def load(numbers: Sequence[int]) -> None:
        nonlocal copied
        for number in numbers:
            if number not in present:
                present[number] = result.add(replace(trace.tensors[number], category="copies"))
                copied += trace.tensors[number].bytes

    op = 0
    at_start = True
    for index, event in enumerate(trace.events):
        if index == trace.start:
            result.start = len(result.events)
        if index >= trace.start and at_start and op < len(uses):
            at_start = False
            if uses[op]:
                load(uses[op])
                if op in following:
                    load(uses[following[op]])
        if event is None:
            result.events.append(None)
            if index >= trace.start:
                kept = set(uses[following[op]]) if op in following else set()
                for number in uses[op] if op < len(uses) else ():
                    if number not in kept and number in present:
                        result.drop(present.pop(number))
            op += 1
            at_start = True
        elif (event if event >= 0 else ~event) not in moving:
            result.events.append(event)
    return Moved(result, copied)


def renumbered(part: Part, numbers: dict[int, int]) -> Part:
    """A part with other numbers for its tensors."""
    made: dict[int, Part] = {}

    def visit(old: Part) -> Part:
        if id(old) not in made:
            new = made[id(old)] = Part([], [], old.is_container, old.is_whole)
            new.own = [(place, numbers[number]) for place, number in old.own]  # type: ignore[index]
            new.children = [(name, visit(child)) for name, child in old.children]
        return made[id(old)]

    return visit(part)
