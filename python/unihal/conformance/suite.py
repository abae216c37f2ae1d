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

#: The families in the suite's order, each with the ops of its entries: a run of one op asks no others.
_FAMILIES = {
    "elementwise": "map",
    "complex_functions": "map",
    "map_chains": "map_chain",
    "movement": "copy cast triangular fill iota",
    "indexing": "gather scatter gather_nd scatter_nd gather_elements scatter_elements one_hot",
    "segments": "segment_reduce",
    "reductions": "reduce scan",
    "ordering": "arg_reduce sort top_k",
    "data_dependent": "nonzero compact search_sorted",
    "products": "matmul",
    "quantized_products": "matmul_quantized",
    "factorizations": "triangular_solve cholesky lu qr eigen_symmetric svd eigen",
    "convolutions": "convolution convolution_backward_filter convolution_backward_data",
    "poolings": "pool pool_backward",
    "resamplings": "resize resize_backward",
    "samplings": "grid_sample grid_sample_backward_data grid_sample_backward_grid",
    "neighbours": "resample",
    "regions": "roi_align roi_align_backward",
    "region_pools": "roi_pool roi_pool_backward",
    "suppressions": "non_max_suppression",
    "transforms": "fft",
    "recurrences": "rnn rnn_backward",
    "sequence_losses": "ctc_loss",
    "losses": "softmax softmax_backward cross_entropy cross_entropy_backward",
    "normalizations": "batch_norm layer_norm group_norm rms_norm",
    "normalization_gradients": "batch_norm_backward layer_norm_backward group_norm_backward rms_norm_backward",
    "attentions": "attention attention_backward",
    "map_gradients": "map",
    "op_gradients": (
        "convolution_backward_data convolution_backward_filter pool_backward resize_backward "
        "grid_sample_backward_data grid_sample_backward_grid softmax_backward cross_entropy_backward "
        "batch_norm_backward layer_norm_backward group_norm_backward rms_norm_backward attention_backward "
        "rnn_backward roi_align_backward"
    ),
    "mixed_dtypes": (
        "convolution convolution_backward_filter convolution_backward_data pool pool_backward resize resize_backward "
        "softmax softmax_backward cross_entropy cross_entropy_backward batch_norm layer_norm group_norm rms_norm "
        "batch_norm_backward layer_norm_backward group_norm_backward rms_norm_backward attention attention_backward"
    ),
    "random_numbers": "random dropout",
    "random_distributions": "random_distribution",
    "queues": "streams events",
    "launch_groups": "launch_groups",
    "transfers": "copies devices",
    "allocations": "memory",
    "failures": "errors",
    "collectives": "collectives",
    "graphs": "graphs",
}


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
    kinds = {name.split("/")[0] for name in (selection.op, selection.case) if name is not None}
    families = [name for name, tried in _FAMILIES.items() if kinds <= set(tried.split())]
    chosen = [entry for family in families for entry in _family(family, selection.seed)]
    tried_kinds = {entry.op for entry in chosen}
    untried = [kind for kind in _core.op_kinds() if kind not in tried_kinds and kinds <= {kind}]
    chosen += [_case_is_missing(kind) for kind in untried]
    if selection.op is not None:
        chosen = [entry for entry in chosen if f"{entry.name}/".startswith(f"{selection.op}/")]
    if selection.case is not None:
        chosen = [entry for entry in chosen if entry.name == selection.case]
    if not chosen:
        known = ", ".join(dict.fromkeys(" ".join(_FAMILIES.values()).split()))
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
            group = _sampled_group(entry)
            if position[group] % selection.every == 0:
                sampled.append(entry)
            position[group] += 1
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


def _sampled_group(entry: Entry) -> str:
    """What a sample has a case of: of casts each source, since all pairs of dtypes are hundreds."""
    return _group(entry).partition("-")[0] if entry.op == "cast" else _group(entry)


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
    for entry in module.cases(seed):
        if entry.op not in _FAMILIES[name].split():
            raise AssertionError(f"the family {name!r} has entries of {entry.op!r}, which _FAMILIES does not say")
        yield entry
