"""What TensorFlow's optimizers, the plugin's among them, made of the graphs of a call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from tensorflow.python.eager import context


def graph_ops(run: Callable[[], Any]) -> tuple[Any, Counter[str]]:
    """What a call returns, and the ops of the graphs that TensorFlow optimized for it."""
    context.context().enable_graph_collection()
    try:
        result = run()
        graphs = context.context().export_run_metadata().function_graphs
    finally:
        context.context().disable_graph_collection()
    return result, Counter(node.op for graph in graphs for node in graph.post_optimization_graph.node)


def fused_ops(run: Callable[[], Any], chains: bool = False) -> tuple[Any, Counter[str]]:
    """What a call returns, and the ops of ours in its graphs: those of patterns, and with ``chains`` those that any
    elementwise ops become."""
    result, ops = graph_ops(run)
    ours = {op: count for op, count in ops.items() if op.startswith("Unihal")}
    if not chains:
        ours.pop("UnihalElementwise", None)
    return result, Counter(ours)
