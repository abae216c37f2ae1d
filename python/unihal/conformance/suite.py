"""All entries of the suite.

A family is a module with a function ``cases(seed)`` that yields its entries. The same seed gives the same entries in
the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from .. import errors
from .case import Entry

_FAMILIES = (
    "elementwise",
    "movement",
    "indexing",
    "reductions",
    "ordering",
    "products",
    "convolutions",
    "poolings",
    "resamplings",
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
)


def entries(seed: int, op: str | None = None, case: str | None = None) -> list[Entry]:
    """The entries of an op (its kind, or a prefix of names such as "map/silu") or of one name, or all."""
    everything = [entry for family in _FAMILIES for entry in _family(family, seed)]
    chosen = everything
    if op is not None:
        chosen = [entry for entry in chosen if f"{entry.name}/".startswith(f"{op}/")]
    if case is not None:
        chosen = [entry for entry in chosen if entry.name == case]
    if not chosen:
        known = ", ".join(dict.fromkeys(entry.op for entry in everything))
        wanted = " and ".join(text for text in (op and f"the op {op!r}", case and f"the name {case!r}") if text)
        raise errors.NotFoundError(
            f"the suite has no case of {wanted}; it has the ops: {known}. --list prints all cases"
        )
    return chosen


def _family(name: str, seed: int) -> Iterator[Entry]:
    module = import_module(f"{__package__}.{name}")
    family: Iterator[Entry] = module.cases(seed)
    return family
