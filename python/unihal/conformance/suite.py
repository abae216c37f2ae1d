"""All entries of the suite.

A family is a module with a function ``cases(seed)`` that yields its entries. The same seed gives the same entries in
the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from .. import _core, errors
from .case import Check, Entry

_FAMILIES = (
    "elementwise",
    "complex_functions",
    "movement",
    "indexing",
    "segments",
    "reductions",
    "ordering",
    "data_dependent",
    "products",
    "convolutions",
    "poolings",
    "resamplings",
    "transforms",
    "losses",
    "normalizations",
    "normalization_gradients",
    "attentions",
    "map_gradients",
    "op_gradients",
    "mixed_dtypes",
    "random_numbers",
    "queues",
    "transfers",
    "allocations",
    "failures",
    "collectives",
    "graphs",
)


@dataclass(frozen=True)
class Selection:
    """Which entries a run has. Everything about it is text or numbers, so that a child process can be told."""

    seed: int = 0
    #: The entries of an op: its kind, or a prefix of names such as "map/silu".
    op: str | None = None
    #: The entry of this name.
    case: str | None = None
    #: Of the entries of each op and function or dtype, every so many-th, the first one included.
    every: int = 1
    #: Part ``part`` of ``parts``, which together have all; entries that share kernels are in one part.
    part: int = 0
    parts: int = 1

    def split(self, parts: int) -> list[Selection]:
        """The selection in so many parts of about equal size."""
        return [replace(self, part=part, parts=parts) for part in range(parts)]


def entries(selection: Selection) -> list[Entry]:
    """The chosen entries, in the suite's order. NotFoundError if there is none, but for a part of a selection."""
    everything = [entry for family in _FAMILIES for entry in _family(family, selection.seed)]
    known_kinds = {entry.op for entry in everything}
    everything += [_case_is_missing(kind) for kind in _core.op_kinds() if kind not in known_kinds]
    chosen = everything
    if selection.op is not None:
        chosen = [entry for entry in chosen if f"{entry.name}/".startswith(f"{selection.op}/")]
    if selection.case is not None:
        chosen = [entry for entry in chosen if entry.name == selection.case]
    if not chosen:
        known = ", ".join(dict.fromkeys(entry.op for entry in everything))
        wanted = " and ".join(
            text
            for text in (selection.op and f"the op {selection.op!r}", selection.case and f"the name {selection.case!r}")
            if text
        )
        raise errors.NotFoundError(
            f"the suite has no case of {wanted}; it has the ops: {known}. --list prints all cases"
        )
    if selection.every > 1:
        position: Counter[str] = Counter()
        sampled = []
        for entry in chosen:
            if position[_group(entry)] % selection.every == 0:
                sampled.append(entry)
            position[_group(entry)] += 1
        chosen = sampled
    if selection.parts > 1:
        mine = _share(chosen, selection.part, selection.parts)
        chosen = [entry for entry in chosen if _group(entry) in mine]
    return chosen


def _case_is_missing(kind: str) -> Check:
    """An op kind that the library has and no family tries: it fails."""

    def fail(session: Any) -> None:
        raise AssertionError(
            f"the suite has no case of the op {kind!r}; add some to a family of python/unihal/conformance "
            "(docs/adding-an-op.md shows one)"
        )

    return Check(kind, "no_case", fail)


def _group(entry: Entry) -> str:
    """What entries that share kernels have in common: "map/silu"."""
    return "/".join(entry.name.split("/", 2)[:2])


def _share(chosen: list[Entry], part: int, parts: int) -> set[str]:
    """The groups of one part: the largest first, each to the part that has least."""
    load = [0] * parts
    mine = set()
    for group, size in Counter(map(_group, chosen)).most_common():
        least = load.index(min(load))
        load[least] += size
        if least == part:
            mine.add(group)
    return mine


def _family(name: str, seed: int) -> Iterator[Entry]:
    module = import_module(f"{__package__}.{name}")
    family: Iterator[Entry] = module.cases(seed)
    return family
