"""What the ladder's rungs do to a trace: weights in fewer bits, and weights that come to the card when they are
needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..cards.profiles import Card
from .trace import Op, Tensor, Trace

#: Numbers that share a scale, of two bytes.
QUANTIZATION_BLOCK = 64
#: Smaller weights (biases, norms) stay on the card.
SMALLEST_OFFLOADED = 256 << 10


def quantized_bytes(elements: int, bits: int) -> int:
    """Bytes of a matrix in 8 or 4 bits with a float16 scale for each 64 numbers: .516 and .266 of float16's."""
    return (elements * bits + 7) // 8 + 2 * ((elements + QUANTIZATION_BLOCK - 1) // QUANTIZATION_BLOCK)


def quantized(trace: Trace, bits: int) -> Trace:
    """The trace with weights in so many bits; those of convolutions are unpacked while their op runs."""
    saved: dict[int, int] = {}
    tensors = list(trace.tensors)
    for number, tensor in enumerate(tensors):
        if tensor.quantizable:
            smaller = min(tensor.bytes, quantized_bytes(tensor.elements, bits))
            saved[number] = tensor.bytes - smaller
            tensors[number] = replace(tensor, bytes=smaller, dtype=f"int{bits}")
    ops = [
        replace(
            op,
            # Unpacking writes what the op then reads.
            bytes=op.bytes + sum(_dense(trace, n) if tensors[n].unpacked else -saved.get(n, 0) for n in op.weights),
        )
        for op in trace.ops
    ]
    result = Trace(tensors, [], ops, 0, trace.notes)
    op_number, at_start = 0, True
    held: list[int] = []
    for index, event in enumerate(trace.events):
        if index == trace.start:
            result.start = len(result.events)
        if index >= trace.start and at_start and op_number < len(ops):
            at_start = False
            dense = [n for n in dict.fromkeys(ops[op_number].weights) if tensors[n].unpacked]
            held = [result.add(Tensor(_dense(trace, n), "workspace", "unpack", tensors[n].module)) for n in dense]
            if bits == 4 and dense:  # two in a byte become a byte each, and then numbers
                result.drop(result.add(Tensor(max(tensors[n].elements for n in dense), "workspace", "unpack")))
        if event is None:
            for number in held:
                result.drop(number)
            held = []
            op_number += 1
            at_start = True
        result.events.append(event)
    return result


def _dense(trace: Trace, number: int) -> int:
    return trace.tensors[number].bytes


@dataclass(frozen=True)
class Offload:
    """A trace whose weights come to the card before their op, and the bytes that are copied in one run."""

    trace: Trace
    copied_bytes: int


def offloaded(trace: Trace) -> Offload:
    """The trace with each weight on the card during its op and the one before, while it is copied."""
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

    def load(numbers: Iterable[int]) -> None:
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
    return Offload(result, copied)


def least_seconds(ops: Iterable[Op], card: Card) -> float:
    """The least time that ops could take on a card: each at its peak or its bandwidth, or a launch."""
    total = 0.0
    for op in ops:
        by_bytes = op.bytes / (card.gigabytes_per_second * 1e9) if card.gigabytes_per_second else 0.0
        by_peak = op.operations / (card.peak_gigaflops * 1e9) if card.peak_gigaflops else 0.0
        total += max(by_bytes, by_peak, card.launch_nanoseconds / 1e9)
    return total


def joined(traces: Iterable[tuple[Trace, bool]]) -> Trace:
    """Stages one after the other: the weights of those that are resident (True) lie on the card from the start on.

    The others' weights come before their stage and go after it. What a stage leaves at its end is dropped.
    """
    result = Trace()
    parts = list(traces)
    offsets: list[dict[int, int]] = []

    def copy_tensor(trace: Trace, number: int, mapping: dict[int, int], category: str | None = None) -> None:
        tensor: Tensor = trace.tensors[number]
        mapping[number] = result.add(replace(tensor, category=category) if category else tensor)

    for trace, resident in parts:
        mapping: dict[int, int] = {}
        offsets.append(mapping)
        for event in trace.events[: trace.start]:
            if resident and event is not None and event >= 0 and trace.tensors[event].category == "weights":
                copy_tensor(trace, event, mapping)
    result.start = len(result.events)
    for (trace, resident), mapping in zip(parts, offsets):
        live: set[int] = set()
        ops = iter(trace.ops)
        for event in trace.events:
            if event is None:
                op = next(ops)
                result.end_op(replace(op, weights=tuple(mapping[n] for n in op.weights if n in mapping)))
            elif event >= 0:
                if event in mapping:
                    continue
                is_weight = trace.tensors[event].category == "weights"
                copy_tensor(trace, event, mapping, "copies" if is_weight and not resident else None)
                live.add(event)
            elif ~event in live:
                result.drop(mapping[~event])
                live.discard(~event)
        for number in sorted(live):
            result.drop(mapping[number])
        for note in trace.notes:
            if note not in result.notes:
                result.notes.append(note)
    return result
