"""What TensorFlow's optimizers, the plugin's among them, made of the graphs of a call."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from tensorflow.python.eager import context


def graph_nodes(run: Callable[[], Any]) -> tuple[Any, list[Any]]:
    """What a call returns, and the nodes of the graphs that TensorFlow optimized for it."""
    context.context().enable_graph_collection()
    try:
        result = run()
        graphs = context.context().export_run_metadata().function_graphs
    finally:
        context.context().disable_graph_collection()
    return result, [node for graph in graphs for node in graph.post_optimization_graph.node]


def graph_ops(run: Callable[[], Any]) -> tuple[Any, Counter[str]]:
    """What a call returns, and the ops of the graphs that TensorFlow optimized for it."""
    result, nodes = graph_nodes(run)
    return result, Counter(node.op for node in nodes)


#: What products with a bias, and their gradients, become.
PRODUCTS = (
    "UnihalConvolution",
    "UnihalConvolutionFilterGrad",
    "UnihalDepthwiseConvolution",
    "UnihalMatMul",
    "UnihalMatMulSum",
)


def fused_ops(run: Callable[[], Any], chains: bool = False, products: bool = False) -> tuple[Any, Counter[str]]:
    """What a call returns, and the ops of ours in its graphs: those of patterns, as often as they have variables; with
    ``chains`` those that any elementwise ops become, with ``products`` those that a bias is part of."""
    result, lists = fused_lists(run)
    ours = Counter({op: sum(lengths) for op, lengths in lists.items()})
    for op in (*(() if chains else ("UnihalElementwise",)), *(() if products else PRODUCTS)):
        ours.pop(op, None)
    return result, ours


def fused_lists(run: Callable[[], Any]) -> tuple[Any, dict[str, list[int]]]:
    """What a call returns, and the ops of ours in its graphs: of each node the length of its lists, or 1."""
    result, nodes = graph_nodes(run)
    lists: dict[str, list[int]] = defaultdict(list)
    for node in nodes:
        if node.op.startswith("Unihal"):
            lists[node.op].append(node.attr["N"].i if "N" in node.attr else 1)
    return result, lists
