"""A trace: in which order a model asks for memory and gives it back, and what each piece is for.

Made by torch_trace, onnx_trace and keras_trace; replayed on the allocator's arithmetic by `replay`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..offload_units import Part
from .allocator import Allocator, Block, OutOfMemory

#: What memory is for, in the order of a picture from the bottom up.
CATEGORIES = ("weights", "inputs", "activations", "gradients", "optimizer", "workspace", "copies")


@dataclass
class Tensor:
    """A piece of memory of a trace: bytes as asked for, the op that made it, the module that the op ran in."""

    bytes: int
    category: str
    op: str = ""
    module: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    #: Of weights: how many numbers it holds, whether it can be kept in 8 or 4 bits, and whether its op then takes it
    #: as numbers of its own dtype, made for the op (a convolution), and not as it is (a product).
    elements: int = 0
    quantizable: bool = False
    unpacked: bool = False
    #: Of weights: the same number for the same weight in several traces; 0 where it is not known.
    key: int = 0


@dataclass(frozen=True)
class Op:
    """An op of the trace: what it costs at least. `operations` count a multiplication and an addition as two."""

    name: str
    module: str
    operations: int
    bytes: int
    #: The weights that it reads (numbers of tensors of the trace).
    weights: tuple[int, ...] = ()
    #: How often it runs: of steps that are repeated, fewer are in the trace.
    times: float = 1.0


@dataclass(frozen=True)
class Span:
    """Ops from `begin` up to `end` (numbers of ops) that compute with a module's weights; it is called so often.

    `part` divides its weights (numbers of tensors). They are on the card for the whole run if it is resident; else they
    come for the span: at once, or with a `prefetch` layer by layer, of which `resident_bytes` stay.
    """

    part: Part
    begin: int
    end: int
    calls: int = 1
    resident: bool = True
    prefetch: int | None = None
    resident_bytes: int = 0


@dataclass
class Trace:
    """Requests in order: a number n >= 0 asks for tensor n, ~n gives it back; None is the end of an op (`ops`, in
    order).

    `start` is the place in `events` at which the model has been loaded and begins to run.
    """

    tensors: list[Tensor] = field(default_factory=list)
    events: list[int | None] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    start: int = 0
    #: What the trace could not see, for the person who reads the plan.
    notes: list[str] = field(default_factory=list)
    #: Where modules run whose weights could come and go.
    spans: list[Span] = field(default_factory=list)

    def add(self, tensor: Tensor) -> int:
        """Asks for a tensor; gives its number."""
        self.tensors.append(tensor)
        self.events.append(len(self.tensors) - 1)
        return len(self.tensors) - 1

    def drop(self, number: int) -> None:
        """Gives a tensor back."""
        self.events.append(~number)

    def end_op(self, op: Op) -> None:
        """An op has run."""
        self.ops.append(op)
        self.events.append(None)

    def total(self, category: str) -> int:
        """Bytes of all tensors of a category, whether at the same time or not."""
        return sum(tensor.bytes for tensor in self.tensors if tensor.category == category)

    def same_steps(self, other: Trace) -> bool:
        """Whether another trace asks and gives back in the same order, so that only sizes differ."""
        return self.events == other.events and len(self.tensors) == len(other.tensors)


@dataclass(frozen=True)
class Sample:
    """Memory in use at one time: bytes by category, what is cached besides, and the op that was last."""

    op: int
    by_category: tuple[int, ...]
    reserved: int

    @property
    def allocated(self) -> int:
        """All categories."""
        return sum(self.by_category)


@dataclass
class Replay:
    """What came of a trace on a card.

    Peaks are bytes, `peak_allocated` of blocks as the allocator rounds them, from `start` on (loading included in
    `load_peak`). `failed` is the request that the card refused, `failed_at` the op during which, or None.
    """

    peak_allocated: int
    peak_reserved: int
    load_peak: int
    at_peak: Sample
    samples: list[Sample]
    live_at_peak: list[int]
    failed: OutOfMemory | None = None
    failed_at: int | None = None

    @property
    def fits(self) -> bool:
        """Whether every request was served."""
        return self.failed is None


def replay(trace: Trace, capacity: int = 0, largest: int = 0, sizes: Sequence[int] | None = None) -> Replay:
    """Runs a trace through the allocator's arithmetic.

    `capacity` is the memory that can be had, `largest` the largest single segment, 0 without an end; `sizes` are
    bytes in place of the trace's own, by number. Stops at the first request that is refused.
    """
    allocator = Allocator(capacity, largest)
    places = {name: number for number, name in enumerate(CATEGORIES)}
    use = [0] * len(CATEGORIES)
    blocks: dict[int, Block | None] = {}
    samples: list[Sample] = []
    op = -1
    load_peak = 0
    at_peak = Sample(-1, tuple(use), 0)
    live: list[int] = []
    highest = -1
    failed: OutOfMemory | None = None
    for index, event in enumerate(trace.events):
        if index == trace.start:
            load_peak = allocator.peak_allocated
            allocator.reset_peak()
            highest = -1
        if event is None:
            op += 1
            samples.append(Sample(op, tuple(use), allocator.reserved))
        elif event >= 0:
            tensor = trace.tensors[event]
            try:
                block = allocator.allocate(tensor.bytes if sizes is None else sizes[event])
            except OutOfMemory as error:
                failed = error
                break
            blocks[event] = block
            use[places[tensor.category]] += block.bytes if block is not None else 0
            if allocator.allocated > highest:
                highest = allocator.allocated
                at_peak = Sample(op + 1, tuple(use), allocator.reserved)
                live = list(blocks)
        else:
            block = blocks.pop(~event)
            use[places[trace.tensors[~event].category]] -= block.bytes if block is not None else 0
            allocator.free(block)
    return Replay(
        allocator.peak_allocated,
        allocator.peak_reserved,
        load_peak or allocator.peak_allocated,
        at_peak,
        samples,
        live,
        failed,
        op + 1 if failed is not None else None,
    )


def with_sizes(trace: Trace, sizes: Sequence[int]) -> Trace:
    """The same steps with other sizes."""
    tensors = [replace(tensor, bytes=size) for tensor, size in zip(trace.tensors, sizes)]
    return Trace(tensors, trace.events, trace.ops, trace.start, trace.notes, trace.spans)
