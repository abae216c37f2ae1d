"""What the ladder's rungs do to a trace: weights in fewer bits (planning/offloading.py has those that come and go)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..cards.profiles import Card
from .offloading import renumbered
from .trace import Op, Tensor, Trace

#: Numbers that share a scale, of two bytes.
QUANTIZATION_BLOCK = 64


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
    result = Trace(tensors, [], ops, 0, trace.notes, trace.spans)
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


def least_seconds(ops: Iterable[Op], card: Card) -> float:
    """The least time that ops could take on a card: each at its peak or its bandwidth, or a launch."""
    total = 0.0
    for op in ops:
        by_bytes = op.bytes / (card.gigabytes_per_second * 1e9) if card.gigabytes_per_second else 0.0
        by_peak = op.operations / (card.peak_gigaflops * 1e9) if card.peak_gigaflops else 0.0
        total += op.times * max(by_bytes, by_peak, card.launch_nanoseconds / 1e9)
    return total


def joined(traces: Sequence[Trace]) -> Trace:
    """Stages one after the other, all weights on the card from the start on; one that several have (`key`) is there
    once. What a stage leaves at its end is dropped."""
    result = Trace()
    offsets: list[dict[int, int]] = []
    shared: dict[int, int] = {}
    for trace in traces:
        mapping: dict[int, int] = {}
        offsets.append(mapping)
        for event in trace.events[: trace.start]:
            if event is None or event < 0 or trace.tensors[event].category != "weights":
                continue
            key = trace.tensors[event].key
            if key not in shared:
                mapping[event] = result.add(trace.tensors[event])
                if key:
                    shared[key] = mapping[event]
            else:
                mapping[event] = shared[key]
    result.start = len(result.events)
    for trace, mapping in zip(traces, offsets):
        live: set[int] = set()
        ops = iter(trace.ops)
        before = len(result.ops)
        for event in trace.events:
            if event is None:
                op = next(ops)
                result.end_op(replace(op, weights=tuple(mapping[n] for n in op.weights if n in mapping)))
            elif event >= 0:
                if event not in mapping:
                    mapping[event] = result.add(trace.tensors[event])
                    live.add(event)
            elif ~event in live:
                result.drop(mapping[~event])
                live.discard(~event)
        for number in sorted(live):
            result.drop(mapping[number])
        for span in trace.spans:
            moved = replace(span, part=renumbered(span.part, mapping))
            result.spans.append(replace(moved, begin=before + span.begin, end=before + span.end))
        for note in trace.notes:
            if note not in result.notes:
                result.notes.append(note)
    return result
