"""A plan: what a model needs of a card, whether it fits, and what would make it fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..cards.profiles import Card
from .offloading import Moved, brought, brought_by_op
from .trace import CATEGORIES, Replay, Trace, replay
from .transforms import least_seconds, quantized

MIB = 1 << 20
_LISTED = 8

#: What does a rung: of a registered model words of the command line, of a module calls, of a file nothing.
COMMANDS = {
    "float16": "--dtype float16",
    "8 bit": "--bits 8",
    "4 bit": "--bits 4",
    "offload": "--offload layers",
}
CALLS = {
    "float16": "model.half()",
    "8 bit": "quantize(model, 8)",
    "4 bit": "quantize(model, 4)",
    "offload": "LayerOffload(model, device)",
    "checkpointing": "checkpoint(model)",
}
NOTHING = {
    "8 bit": "quantize(model, 8), of the module that the file was made of",
    "4 bit": "quantize(model, 4), of the module that the file was made of",
    "offload": "LayerOffload(model, device), of the module that the file was made of",
}


@dataclass(frozen=True)
class Rung:
    """One way to run the model. `peak_bytes` as the allocator counts them; `seconds` the least time of a run on the
    card.

    `time_factor` is against the first rung; `quality` says what it costs in words, `setting` what to type.
    """

    name: str
    fits: bool
    peak_bytes: int
    weight_bytes: int
    seconds: float
    time_factor: float
    quality: str
    setting: str
    copied_bytes: int = 0


@dataclass
class Plan:
    """What a model needs of a card.

    `peak_bytes` is what the allocator's blocks come to at the worst moment of a run, `load_peak_bytes` until it is
    loaded, `reserved_bytes` what the allocator takes from the card for that; `available_bytes` is the card's memory
    less `reserve`. `largest_batch` is None where inputs have no batch axis, and 0 where not even one sample fits.
    `seconds` is the least time of a run by the card's peaks: an estimate that no program beats.
    """

    model: str
    card: Card
    reserve: int
    available_bytes: int
    training: bool
    dtype: str
    batch: int | None
    largest_batch: int | None
    peak_bytes: int
    load_peak_bytes: int
    reserved_bytes: int
    by_category: dict[str, int]
    weight_bytes: int
    seconds: float
    fits: bool
    failure: str
    largest_tensors: list[dict[str, Any]]
    rungs: list[Rung]
    notes: list[str]
    replay: Replay = field(repr=False)
    trace: Trace = field(repr=False)

    @property
    def advice(self) -> Rung | None:
        """The first rung that fits, None if none does."""
        return next((rung for rung in self.rungs if rung.fits), None)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON; bytes and seconds."""
        keys = (
            *("model", "reserve", "available_bytes", "training", "dtype", "batch", "largest_batch", "peak_bytes"),
            *("load_peak_bytes", "reserved_bytes", "by_category", "weight_bytes", "seconds", "fits", "failure"),
            *("largest_tensors", "notes"),
        )
        result = {key: getattr(self, key) for key in keys}
        result["card"] = self.card.as_dict()
        result["rungs"] = [dict(rung.__dict__) for rung in self.rungs]
        result["advice"] = self.advice.name if self.advice is not None else None
        return result

    def timeline(self, points: int = 400) -> dict[str, Any]:
        """Memory over the ops of a run, for a picture.

        At most `points` samples, each the highest of those it stands for.
        """
        samples = self.replay.samples
        width = max(1, -(-len(samples) // points))
        kept = [
            max(samples[begin : begin + width], key=lambda sample: sample.allocated)
            for begin in range(0, len(samples), width)
        ]
        if self.replay.at_peak.op >= 0:
            kept.append(self.replay.at_peak)
            kept.sort(key=lambda sample: sample.op)
        return {
            "categories": list(CATEGORIES),
            "ops": [sample.op for sample in kept],
            "bytes": [list(sample.by_category) for sample in kept],
            "names": [self._op_name(sample.op) for sample in kept],
            "available_bytes": self.available_bytes,
            "peak_op": self.replay.at_peak.op,
        }

    def _op_name(self, op: int) -> str:
        if not 0 <= op < len(self.trace.ops):
            return ""
        found = self.trace.ops[op]
        return f"{found.module}: {found.name}" if found.module else found.name

    def __str__(self) -> str:
        lines = [
            f"{self.model} on {self.card.title}: {self.card.memory / MIB:,.0f} MiB, of which the system keeps "
            f"{(self.card.memory - self.available_bytes) / MIB:,.0f}",
            f"  {'training' if self.training else 'inference'} in {self.dtype}"
            + (f", batch {self.batch}" if self.batch is not None else ""),
            f"  {'fits' if self.fits else 'DOES NOT FIT'}: peak {self.peak_bytes / MIB:,.1f} MiB of "
            f"{self.available_bytes / MIB:,.0f} MiB, at {self._op_name(self.replay.at_peak.op) or 'loading'}",
        ]
        if self.failure:
            lines.append(f"  {self.failure}")
        lines += [f"    {name:<12}{size / MIB:>12,.1f} MiB" for name, size in self.by_category.items() if size]
        if self.largest_batch is not None:
            lines.append(f"  largest batch: {self.largest_batch}")
        lines.append(f"  least time of a run, by the card's peaks: {self.seconds * 1e3:,.2f} ms")
        if self.rungs:
            lines.append(f"  {'':<10}{'fits':<6}{'peak MiB':>10}{'time':>8}  costs; setting")
            for rung in self.rungs:
                lines.append(
                    f"  {rung.name:<10}{'yes' if rung.fits else 'no':<6}{rung.peak_bytes / MIB:>10,.1f}"
                    f"{rung.time_factor:>7.2f}x  {rung.quality}; {rung.setting}"
                )
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


def make_plan(
    trace: Trace,
    card: Card,
    *,
    model: str,
    reserve: int,
    training: bool,
    dtype: str,
    batch: int | None = None,
    largest_batch: int | None = None,
    half: Trace | None = None,
    settings: Mapping[str, str] = CALLS,
    checkpointed: Trace | None = None,
) -> Plan:
    """A plan of a trace; `half` is the trace of the same model in float16 and `checkpointed` that of its training with
    checkpoints, for the ladder; `settings` say what does each rung."""
    capacity, largest = card.available(reserve), card.largest(reserve)
    moved = brought(trace)
    bounded = replay(moved.trace, capacity, largest)
    free = bounded if bounded.fits else replay(moved.trace)
    failure = ""
    if bounded.failed is not None:
        at = bounded.failed_at if bounded.failed_at is not None else -1
        name = trace.ops[at].name if 0 <= at < len(trace.ops) else "loading"
        failure = (
            f"{name} asks for {bounded.failed.bytes / MIB:,.1f} MiB when {bounded.failed.allocated / MIB:,.1f} MiB are "
            f"in use, of {capacity / MIB:,.0f} MiB"
        )
    return Plan(
        model=model,
        card=card,
        reserve=reserve,
        available_bytes=capacity,
        training=training,
        dtype=dtype,
        batch=batch,
        largest_batch=largest_batch,
        peak_bytes=max(free.peak_allocated, free.load_peak),
        load_peak_bytes=free.load_peak,
        reserved_bytes=free.peak_reserved,
        by_category=dict(zip(CATEGORIES, free.at_peak.by_category)),
        weight_bytes=trace.total("weights"),
        seconds=_seconds(moved, card),
        fits=bounded.fits,
        failure=failure,
        largest_tensors=_largest(moved.trace, free.live_at_peak),
        rungs=_Ladder(card, capacity, largest, settings).rungs_of(trace, half, checkpointed, training),
        notes=list(trace.notes),
        replay=free,
        trace=moved.trace,
    )


def _seconds(moved: Moved, card: Card) -> float:
    """The least time of a run: copies go on beside the ops, but for those of whole parts."""
    seconds = least_seconds(moved.trace.ops, card)
    if not card.link_gigabytes_per_second:
        return seconds
    link = card.link_gigabytes_per_second * 1e9
    return max(seconds, (moved.copied_bytes - moved.waited_bytes) / link) + moved.waited_bytes / link


def _largest(trace: Trace, live: list[int]) -> list[dict[str, Any]]:
    """The largest tensors at the peak, for the report."""
    numbers = sorted(live, key=lambda number: -trace.tensors[number].bytes)[:_LISTED]
    return [
        {
            "bytes": tensor.bytes,
            "category": tensor.category,
            "op": tensor.op,
            "module": tensor.module,
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
        }
        for tensor in (trace.tensors[number] for number in numbers)
    ]


class _Ladder:
    """The ways to run a model, from the one that costs nothing down."""

    def __init__(self, card: Card, capacity: int, largest: int, settings: Mapping[str, str]) -> None:
        self._card, self._capacity, self._largest, self._settings = card, capacity, largest, settings
        self._rungs: list[Rung] = []

    def _add(self, name: str, weight_bytes: int, moved: Moved, quality: str, *settings: str) -> None:
        bounded = replay(moved.trace, self._capacity, self._largest)
        free = bounded if bounded.fits else replay(moved.trace)
        seconds = _seconds(moved, self._card)
        base = self._rungs[0].seconds if self._rungs else seconds
        words = [self._settings[each] for each in settings if each in self._settings]
        self._rungs.append(
            Rung(
                name,
                bounded.fits,
                max(free.peak_allocated, free.load_peak),
                weight_bytes,
                seconds,
                seconds / base if base else 1.0,
                quality,
                ("; " if self._settings is not COMMANDS else " ").join(words) or "no setting",
                moved.copied_bytes,
            )
        )

    def rungs_of(self, trace: Trace, half: Trace | None, checkpointed: Trace | None, training: bool) -> list[Rung]:
        """Bits and offload are of the model in float16, where it can have that."""
        self._add("as it is", trace.total("weights"), brought(trace), "costs nothing")
        if training:
            if checkpointed is not None:
                quality = "no loss; layers compute their activations again"
                self._add("checkpointing", trace.total("weights"), Moved(checkpointed), quality, "checkpointing")
            return self._rungs
        best, first = trace, []
        if half is not None:
            best, first = half, ["float16"]
            self._add("float16", half.total("weights"), brought(half), "3 decimal digits in place of 7", *first)
        fewer = {bits: quantized(best, bits) for bits in (8, 4)} if any(t.quantizable for t in best.tensors) else {}
        for bits, errors in ((8, "half a percent"), (4, "several percent")):
            if bits in fewer:
                quality = f"errors of {errors} in the layers' outputs"
                name = f"{bits} bit"
                self._add(name, fewer[bits].total("weights"), brought(fewer[bits]), quality, *first, name)
        moved = self._moved(best)
        if moved.copied_bytes > brought(best).copied_bytes or moved.waited_bytes < brought(best).waited_bytes:
            quality = "no loss; weights are copied in each run"
            self._add("offload", best.total("weights"), moved, quality, *first, "offload")
            self._drop_unless_below("float16" if half is not None else "as it is")
        if moved.copied_bytes and 4 in fewer:
            both = self._moved(fewer[4])
            quality = "as 4 bit; weights are copied"
            self._add("hybrid", fewer[4].total("weights"), both, quality, *first, "4 bit", "offload")
            self._drop_unless_below("4 bit")
        return self._rungs

    def _drop_unless_below(self, name: str) -> None:
        """The last rung is none if it takes as much as the one without its offload: what stays on the card, say."""
        without = next(rung for rung in self._rungs if rung.name == name)
        if self._rungs[-1].peak_bytes >= without.peak_bytes:
            self._rungs.pop()

    def _moved(self, trace: Trace) -> Moved:
        """With weights that come layer by layer."""
        return brought(trace, prefetch=1) if trace.spans else brought_by_op(trace)
