"""Clusters of elementwise ops become one op, whose values are those of the single ops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import unihal
from compare import CPU, DEVICE
from graphs import fused_ops, graph_nodes

DRAW = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return DRAW.normal(size=shape).astype("float32")


def both(
    make: Callable[..., Any], calls: list[tuple[np.ndarray, ...]], dtype: Any = tf.float32, signature: Any = None
) -> tuple[Counter[str], list[list[np.ndarray]], list[list[np.ndarray]]]:
    """The fused ops of a function's graphs, and its results on the device and, op by op, on the CPU."""

    def run() -> list[list[np.ndarray]]:
        function = tf.function(make, input_signature=signature, reduce_retracing=True)
        results = []
        for call in calls:
            given = function(*[tf.cast(tf.constant(value), dtype) for value in call])
            results.append([tf.cast(value, tf.float32).numpy() for value in tf.nest.flatten(given)])
        return results

    with tf.device(DEVICE):
        fused, ops = fused_ops(run, chains=True)
    with tf.device(CPU):
        expected = [
            [
                tf.cast(value, tf.float32).numpy()
                for value in tf.nest.flatten(make(*[tf.cast(tf.constant(v), dtype) for v in call]))
            ]
            for call in calls
        ]
    return ops, fused, expected


def assert_same(actual: list[list[np.ndarray]], expected: list[list[np.ndarray]], tolerance: float = 2e-6) -> None:
    for results, wanted in zip(actual, expected, strict=True):
        for a, e in zip(results, wanted, strict=True):
            assert a.shape == e.shape
            np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance)


def block(x: tf.Tensor, y: tf.Tensor) -> Any:
    total = tf.nn.relu(x + y)
    return total, tf.tanh(total * 0.5 - 1.0), tf.where(x < y, total, y)


def test_values_in_the_middle_are_outputs() -> None:
    with unihal.profile() as recording:
        ops, fused, expected = both(block, [(normal(4, 5), normal(4, 5))])
    launched = [total for total in recording.totals if total.op.startswith("map")]
    assert [(total.op, total.calls) for total in launched] == [("map_chain", 1)]
    assert ops == {"UnihalElementwise": 1}
    assert_same(fused, expected)


@pytest.mark.parametrize(("dtype", "tolerance"), [(tf.float16, 2e-3), (tf.bfloat16, 2e-2)])
def test_reduced_types(dtype: Any, tolerance: float) -> None:
    ops, fused, expected = both(block, [(normal(4, 5), normal(4, 5))], dtype)
    assert ops == {"UnihalElementwise": 1}
    assert_same(fused, expected, tolerance)


def test_casts_between_float_types() -> None:
    def mixed(x: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.tanh(tf.cast(x, tf.float16)), tf.float32) * tf.cast(x > 0.0, tf.float32)

    ops, fused, expected = both(mixed, [(normal(300),)])
    assert ops == {"UnihalElementwise": 1}
    assert_same(fused, expected, 2e-3)


def test_a_batch_of_unknown_size() -> None:
    signature = [tf.TensorSpec((None, 6)), tf.TensorSpec((6,))]

    def layer(x: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
        shifted = tf.nn.bias_add(x, bias)
        return tf.sigmoid(shifted) * shifted

    ops, fused, expected = both(layer, [(normal(n, 6), normal(6)) for n in (4, 1, 0, 700)], signature=signature)
    assert ops == {"UnihalElementwise": 1}
    assert_same(fused, expected)


def test_operands_that_broadcast_in_some_calls_only() -> None:
    """Shapes of which nothing is known: the same graph gets scalars, rows and whole matrices."""
    signature = [tf.TensorSpec(None), tf.TensorSpec(None)]

    def steps(x: tf.Tensor, y: tf.Tensor) -> Any:
        first = tf.tanh(tf.exp(x))
        return first, tf.sqrt(tf.abs(tf.negative(first * y)))

    shapes = [((3, 4), (3, 4)), ((4,), (3, 4)), ((3, 1), (4,)), ((), (2,)), ((2, 0), (1, 1))]
    calls = [(normal(*a), normal(*b)) for a, b in shapes]
    ops, fused, expected = both(steps, calls, signature=signature)
    assert ops["UnihalElementwise"] >= 1
    assert_same(fused, expected)


def test_shapes_that_do_not_broadcast_are_the_error_of_the_single_op() -> None:
    @tf.function(input_signature=[tf.TensorSpec(None), tf.TensorSpec(None)])
    def steps(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return tf.tanh(tf.exp(x * y))

    with tf.device(DEVICE), pytest.raises(tf.errors.InvalidArgumentError, match="Incompatible shapes"):
        steps(tf.zeros(3), tf.zeros(4))


def test_what_runs_between_stays_between() -> None:
    """The assignment comes after the product and before what reads the variable: no chain may hold both sides."""
    with tf.device(DEVICE):
        variable = tf.Variable([1.0, 2.0, 3.0])

        @tf.function
        def run(x: tf.Tensor) -> tf.Tensor:
            product = tf.exp(x) * 2.0
            variable.assign(product)
            return tf.tanh(product) + tf.sin(variable + product)

        x = normal(3)
        result = run(tf.constant(x)).numpy()
    expected = np.tanh(np.exp(x) * 2) + np.sin(np.exp(x) * 4)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_long_chains_and_many_outputs_are_cut() -> None:
    def long(x: tf.Tensor) -> list[tf.Tensor]:
        values = [x]
        for number in range(40):
            values.append(tf.tanh(values[-1]) + 0.1 * number)
        return values[1:12] + values[-1:]

    ops, fused, expected = both(long, [(normal(7, 3),)])
    assert 3 <= ops["UnihalElementwise"] <= 20
    assert_same(fused, expected, 1e-5)


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", "norm")
    ops, fused, expected = both(block, [(normal(4, 5), normal(4, 5))])
    assert not ops
    assert_same(fused, expected)


def test_a_sum_of_many_terms_is_one_op() -> None:
    ops, actual, expected = both(lambda *terms: tf.add_n(terms), [tuple(normal(3, 5) for _ in range(4))])
    assert ops == {"UnihalElementwise": 1}
    assert_same(actual, expected)
    ops, actual, expected = both(lambda *terms: tf.add_n(terms), [tuple(normal(3, 5) for _ in range(2))])
    assert not ops  # one launch in any case
    assert_same(actual, expected)


def test_constants_of_narrow_types_are_parameters() -> None:
    def scaled(x: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(x * 0.375 + 1.5)

    for dtype in (tf.float16, tf.bfloat16):
        with tf.device(DEVICE):
            _, nodes = graph_nodes(lambda dtype=dtype: tf.function(scaled)(tf.cast(normal(4, 6), dtype)))
        chains = [node for node in nodes if node.op == "UnihalElementwise"]
        assert [len([name for name in node.input if not name.startswith("^")]) for node in chains] == [1]
        _, actual, expected = both(scaled, [(normal(4, 6),)], dtype)
        assert_same(actual, expected, 1e-2)
