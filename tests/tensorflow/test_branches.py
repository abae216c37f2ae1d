"""Branches with a known condition: the graph pass takes the one that runs; results and effects stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from compare import DEVICE
from graphs import graph_ops

OWN = ("constant_folding", "loop_optimization", "function_optimization")


@pytest.fixture(autouse=True)
def without_tensorflows_own() -> Iterator[None]:
    """TensorFlow takes some of these branches itself; what is here is for ours."""
    before = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options(dict.fromkeys(OWN, False))
    yield
    tf.config.optimizer.set_experimental_options({**dict.fromkeys(OWN, True), **before})


def run(function: Callable[..., Any], *arguments: Any) -> tuple[list[Any], set[str]]:
    """Results, and which ops of branches the graph has."""
    with tf.device(DEVICE):
        results, ops = graph_ops(lambda: tf.function(function)(*[tf.constant(a) for a in arguments]))
    return [np.asarray(r) for r in tf.nest.flatten(results)], set(ops) & {"Switch", "Merge", "If", "StatelessIf"}


def compare(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, *arguments: Any) -> None:
    """With the pass as without it, which leaves the branches."""
    found = {}
    for setting in ("0", "branches"):
        monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", setting)
        found[setting] = run(function, *arguments)
    assert {"Switch", "Merge"} <= found["0"][1]
    assert not found["branches"][1]
    for expected, actual in zip(found["0"][0], found["branches"][0], strict=True):
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)


X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
def test_results(condition: bool, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        y = tf.cond(tf.constant(condition), lambda: x + x, lambda: x * x)
        return y - x

    compare(function, monkeypatch, X.astype(dtype))


@pytest.mark.parametrize("outer", [True, False])
@pytest.mark.parametrize("inner", [True, False])
def test_branches_in_branches(outer: bool, inner: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        def first() -> tuple[tf.Tensor, tf.Tensor]:
            return tf.cond(tf.constant(inner), lambda: (tf.exp(x), x), lambda: (tf.sin(x), x * 2))

        def second() -> tuple[tf.Tensor, tf.Tensor]:
            a, b = tf.cond(tf.constant(inner), lambda: (x, tf.abs(x)), lambda: (x - 1, -x))
            return a * b, tf.cond(tf.constant(not inner), lambda: a, lambda: b)

        return tf.cond(tf.constant(outer), first, second)

    compare(function, monkeypatch, X)


@pytest.mark.parametrize("condition", [True, False])
def test_effects_of_the_branch_that_runs(condition: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with tf.device(DEVICE):
        variable = tf.Variable(np.zeros(4, np.float32))

    def function(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        variable.assign(x[0])

        def add() -> tf.Tensor:
            with tf.control_dependencies([variable.assign_add(x[1])]):
                return tf.identity(x)

        def subtract() -> tf.Tensor:
            with tf.control_dependencies([variable.assign_sub(x[2])]):
                return x * 3

        y = tf.cond(tf.constant(condition), add, subtract)
        variable.assign(variable * 2)
        return y, variable.read_value()

    compare(function, monkeypatch, X)


def test_what_the_condition_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A constant that waits, as one does that took the place of what was computed."""
    with tf.device(DEVICE):
        variable = tf.Variable(np.zeros(4, np.float32))

    def function(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        variable.assign(x[0])
        with tf.control_dependencies([variable.assign_add(x[1])]):
            condition = tf.constant(True)
        y = tf.cond(condition, lambda: variable.read_value() * x, lambda: x)
        variable.assign(x[2])
        return y, variable.read_value()

    compare(function, monkeypatch, X)


def test_a_branch_without_results(monkeypatch: pytest.MonkeyPatch) -> None:
    with tf.device(DEVICE):
        variable = tf.Variable(np.ones(4, np.float32))

    def function(x: tf.Tensor) -> tf.Tensor:
        def change(by: Callable[..., Any], row: tf.Tensor) -> None:
            by(row)

        variable.assign(x[0])
        tf.cond(
            tf.constant(False),
            lambda: change(variable.assign, x[1]),
            lambda: change(variable.assign_add, x[2]),
        )
        return variable + 1

    compare(function, monkeypatch, X)


def test_what_is_not_known_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        y = tf.cond(tf.reduce_sum(x) > 0, lambda: x + 1, lambda: x - 1)
        return tf.cond(tf.constant(True), lambda: y * 2, lambda: y * 3)

    for values in (X + 1, X - 1):
        monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", "branches")
        (actual,), ops = run(function, values)
        assert {"Switch", "Merge"} <= ops
        np.testing.assert_allclose(actual, (values + np.sign(values.sum())) * 2, 1e-6)


def test_loops_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        (y,) = tf.while_loop(lambda y: tf.reduce_max(y) < 9, lambda y: [y + 1], [x])
        return tf.cond(tf.constant(True), lambda: y * 2, lambda: y * 3)

    monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", "branches")
    (actual,), ops = run(function, X)
    assert "Switch" in ops
    np.testing.assert_array_equal(actual, (X + 7) * 2)
