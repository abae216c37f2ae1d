"""Neighbors in graphs: all of them as on the CPU, and those drawn at random by what must hold of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import paddle
import pytest
from comparison import DEVICE, Array, check, check_in_graph, on

pytestmark = pytest.mark.unihal_no_fallback

ROW = np.array([3, 7, 0, 9, 1, 4, 2, 9, 3, 9, 1, 9, 7])
BEGINS = np.array([0, 2, 4, 5, 6, 7, 9, 11, 11, 13, 13])
NODES = np.array([0, 8, 1, 2, 7, 5])
IDS = np.arange(100, 113)
WEIGHTS = np.linspace(0.5, 2, 13).astype("float32")
# One node with forty neighbors, one with three.
STAR, STAR_BEGINS = np.concatenate([np.arange(40), [7, 8, 9]]), np.array([0, 40, 43])


MORE = 50  # than any node has; of -1, which means all, Paddle's CPU ends the process


def sample_all(row: Any, begins: Any, nodes: Any, ids: Any) -> list[Any]:
    return list(paddle.geometric.sample_neighbors(row, begins, nodes, MORE, ids, True))


def sample_all_weighted(row: Any, begins: Any, weights: Any, nodes: Any, ids: Any) -> list[Any]:
    return list(paddle.geometric.weighted_sample_neighbors(row, begins, weights, nodes, MORE, ids, True))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("compare", [check, check_in_graph])
def test_all_neighbors(compare: Any, dtype: str) -> None:
    row, begins, nodes, ids = (a.astype(dtype) for a in (ROW, BEGINS, NODES, IDS))
    compare(sample_all, row, begins, nodes, ids, gradient=False)
    compare(sample_all_weighted, row, begins, WEIGHTS, nodes, ids, gradient=False)


def test_neighbors_without_ids_in_a_program() -> None:
    def sample(*graph: Any) -> list[Any]:
        return list(paddle.geometric.sample_neighbors(*graph, MORE))

    check_in_graph(sample, ROW, BEGINS, NODES, gradient=False)


def test_all_neighbors_without_a_limit() -> None:
    with on(DEVICE):
        row, begins, nodes, ids, weights = map(paddle.to_tensor, (ROW, BEGINS, NODES, IDS, WEIGHTS))
        expected = [part.numpy() for part in sample_all(row, begins, nodes, ids)]
        plain = paddle.geometric.sample_neighbors(row, begins, nodes, -1, ids, True)
        weighted = paddle.geometric.weighted_sample_neighbors(row, begins, weights, nodes, -1, ids, True)
        for found in (plain, weighted):
            for ours, theirs in zip(found, expected, strict=True):
                np.testing.assert_array_equal(ours.numpy(), theirs)
        assert paddle.geometric.sample_neighbors(row, begins, nodes, 0)[1].tolist() == [0] * len(NODES)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("compare", [check, check_in_graph])
def test_new_numbers(compare: Any, dtype: str) -> None:
    def reindex(*inputs: Any) -> list[Any]:
        return list(paddle.geometric.reindex_graph(*inputs))

    x, neighbors = np.array([0, 1, 2], dtype), np.array([8, 9, 0, 4, 7, 6, 7], dtype)
    compare(reindex, x, neighbors, np.array([2, 3, 2], "int32"), gradient=False)
    # Two kinds of edges, and a node that is there twice.
    two = np.concatenate([neighbors, np.array([0, 2, 3, 5, 1], dtype)])
    compare(reindex, x, two, np.array([2, 3, 2, 1, 3, 1], "int32"), gradient=False)
    twice = np.array([4, 1, 4], dtype)
    compare(reindex, twice, neighbors, np.array([2, 3, 2], "int32"), gradient=False)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("compare", [check, check_in_graph])
def test_neighbors_one_step_away(compare: Any, dtype: str) -> None:
    def sample(row: Any, begins: Any, nodes: Any, ids: Any) -> list[Any]:
        return list(paddle.incubate.graph_khop_sampler(row, begins, nodes, [MORE], ids, True))

    row, begins, ids = (a.astype(dtype) for a in (ROW, BEGINS, IDS))
    compare(sample, row, begins, np.array([0, 8, 1, 2], dtype), ids, gradient=False)


@pytest.mark.parametrize("hops", [1, 2, 3, 4])
@pytest.mark.parametrize("nodes", [[0, 8, 1, 2], [5], [4, 4, 9, 4]])
def test_neighbors_of_neighbors(nodes: list[int], hops: int) -> None:
    """Of more than one step Paddle's CPU ends the process, so the reference is here."""
    asked = [node for i, node in enumerate(nodes) if i == 0 or node != nodes[i - 1]]
    destinations: list[int] = []
    edges: list[tuple[int, int, int]] = []  # the number of a destination, the source, the edge
    for _ in range(hops):
        found = []
        for node in asked:
            mine = range(BEGINS[node], BEGINS[node + 1])
            found += [(len(destinations), int(ROW[e]), int(IDS[e])) for e in mine]
            destinations.append(node)
        if not found:
            break
        edges += found
        asked = sorted({source for _, source, _ in found} - set(asked))
        if not asked:
            break
    with on(DEVICE):
        row, begins, ids, given = map(paddle.to_tensor, (ROW, BEGINS, IDS, np.array(nodes)))
        source, target, old, new, edge_ids = (
            part.numpy() for part in paddle.incubate.graph_khop_sampler(row, begins, given, [MORE] * hops, ids, True)
        )
    assert edge_ids.tolist() == [edge for _, _, edge in edges]
    assert old[source.ravel()].tolist() == [node for _, node, _ in edges]
    assert old[target.ravel()].tolist() == [destinations[number] for number, _, _ in edges]
    assert old[new].tolist() == nodes
    assert old[: len(destinations)].tolist() == destinations and set(old.tolist()) == {
        *destinations, *(node for _, node, _ in edges)
    }  # fmt: skip


def draw(limit: int, weights: Array | None, seed: int) -> tuple[Array, Array, Array]:
    """Neighbors, their numbers and their edges."""
    paddle.seed(seed)
    row, begins, nodes, ids = (paddle.to_tensor(a) for a in (STAR, STAR_BEGINS, np.array([1, 0]), np.arange(43)))
    if weights is None:
        found = paddle.geometric.sample_neighbors(row, begins, nodes, limit, ids, True)
    else:
        given = paddle.to_tensor(weights)
        found = paddle.geometric.weighted_sample_neighbors(row, begins, given, nodes, limit, ids, True)
    return tuple(part.numpy() for part in found)


@pytest.mark.parametrize("weighted", [False, True])
def test_what_is_drawn(weighted: bool) -> None:
    """Each edge once, of nodes that have too many; else all in their order. Every edge as often as its weight says."""
    weights = np.ones(43, "float32") if weighted else None
    if weights is not None:
        weights[:10] = 4
    times: Counter[int] = Counter()
    rounds = 300
    with on(DEVICE):
        for seed in range(rounds):
            neighbors, counts, edges = draw(5, weights, seed)
            assert (
                counts.tolist() == [3, 5] and neighbors[:3].tolist() == [7, 8, 9] and edges[:3].tolist() == [40, 41, 42]
            )
            assert len(set(edges[3:])) == 5 and np.array_equal(neighbors, STAR[edges])
            times.update(edges[3:].tolist())
        assert np.array_equal(draw(5, weights, 1)[2], draw(5, weights, 1)[2])
    drawn = np.array([times[edge] for edge in range(40)])
    assert drawn.sum() == 5 * rounds
    if weights is None:
        # 37.5 times each; the standard deviation is 5.7.
        assert drawn.min() > 12 and drawn.max() < 66
    else:
        # A first draw takes one of the ten with the probability 4 / 7; later ones a little less.
        assert 0.45 < drawn[:10].sum() / drawn.sum() < 0.62


@pytest.mark.parametrize("largest", [6, 400], ids=["rows of a matrix", "one node has most"])
@pytest.mark.parametrize("limit", [1, 4, 9])
def test_draws_of_nodes_with_different_numbers_of_neighbors(largest: int, limit: int) -> None:
    random = np.random.default_rng(0)
    degrees = random.integers(0, 7, 60)
    degrees[17] = largest
    begins = np.concatenate([[0], np.cumsum(degrees)])
    row = random.permutation(int(begins[-1]))  # no neighbor twice
    nodes = random.permutation(60)
    with on(DEVICE):
        found, counts = paddle.geometric.sample_neighbors(*map(paddle.to_tensor, (row, begins, nodes)), limit)
    np.testing.assert_array_equal(counts.numpy(), np.minimum(degrees[nodes], limit))
    for node, drawn in zip(nodes, np.split(found.numpy(), np.cumsum(counts.numpy())[:-1])):
        neighbors = row[begins[node] : begins[node + 1]]
        if len(neighbors) <= limit:
            np.testing.assert_array_equal(drawn, neighbors)  # in their order
        else:
            assert len(set(drawn.tolist())) == limit and set(drawn.tolist()) <= set(neighbors.tolist())


def test_drawn_neighbors_of_neighbors_are_edges() -> None:
    edges = {(int(ROW[e]), node) for node in range(10) for e in range(BEGINS[node], BEGINS[node + 1])}
    nodes = np.array([0, 8, 1, 2])
    with on(DEVICE):
        row, begins, given = map(paddle.to_tensor, (ROW, BEGINS, nodes))
        source, target, old, new = (
            part.numpy() for part in paddle.incubate.graph_khop_sampler(row, begins, given, [1, 2])
        )
        assert np.array_equal(old[new], nodes)
        assert {(int(old[s]), int(old[t])) for s, t in zip(source.ravel(), target.ravel(), strict=True)} <= edges


@pytest.mark.parametrize(
    ("begins", "nodes", "error"),
    [
        (BEGINS[::-1].copy(), NODES, ValueError),
        (BEGINS + 5, NODES, ValueError),
        (BEGINS - 3, NODES, ValueError),
        (BEGINS, np.array([0, 10]), IndexError),
        (BEGINS, np.array([-1]), IndexError),
        (BEGINS[:0], NODES, ValueError),
        (BEGINS.astype("int32"), NODES, ValueError),
    ],
)
@pytest.mark.parametrize("limit", [-1, 1])
def test_graphs_that_are_none_are_refused(begins: Array, nodes: Array, error: Any, limit: int) -> None:
    with on(DEVICE), pytest.raises(error):
        found = paddle.geometric.sample_neighbors(*map(paddle.to_tensor, (ROW, begins, nodes)), limit)
        found[0].numpy()


def test_what_does_not_fit_is_refused() -> None:
    with on(DEVICE):
        row, begins, nodes, ids = map(paddle.to_tensor, (ROW, BEGINS, NODES, IDS))
        with pytest.raises(ValueError, match="eids"):
            paddle.geometric.sample_neighbors(row, begins, nodes, 2, ids[:5], True)
        with pytest.raises(ValueError, match="weight"):
            paddle.geometric.weighted_sample_neighbors(row, begins, paddle.ones([3]), nodes, 2)
        for counts in ([2, 3, 3], [2, 3, 1], [9, -1, -1], [2, 3, 2, 0]):
            with pytest.raises(ValueError, match="count"):
                paddle.geometric.reindex_graph(
                    paddle.to_tensor([0, 1, 2]),
                    paddle.to_tensor([8, 9, 0, 4, 7, 6, 7]),
                    paddle.to_tensor(counts, dtype="int32"),
                )
