"""Orders of execution between devices: kept, without a wait of the host for what a device has yet to compute."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from compare import CPU, DEVICE
from graphs import graph_nodes

# A second device: of another type, for the number of those of one type is read before TensorFlow is imported.
OTHER = "/device:ILUVATAR:0"

pytestmark = pytest.mark.skipif(
    not {"RDNA", "ILUVATAR"} <= {device.device_type for device in tf.config.list_physical_devices()},
    reason="needs devices of two types, as on the stub",
)


def run(function: Callable[[], Any]) -> tuple[list[np.ndarray], list[Any]]:
    results, nodes = graph_nodes(lambda: tf.function(function)())
    return [np.asarray(result) for result in tf.nest.flatten(results)], nodes


def edges_between_devices(nodes: list[Any]) -> list[tuple[str, str]]:
    """The control edges that lead from one of our devices to another device."""
    by_name = {node.name: node for node in nodes}
    return [
        (source.name, node.name)
        for node in nodes
        for source in (by_name[name[1:]] for name in node.input if name.startswith("^"))
        if "CPU" not in source.device and source.device and node.device and source.device != node.device
    ]


def updates(variables: list[tf.Variable]) -> Callable[[], Any]:
    """Doubles the first variable, then adds to the second, then to one on the host: in this order, by control edges."""

    def function() -> Any:
        first, second, third = variables
        with tf.device(DEVICE):
            doubled = first.assign_add(first.read_value(), read_value=False)
        with tf.control_dependencies([doubled]), tf.device(OTHER):
            added = second.assign_add(tf.ones([3]), read_value=False)
        with tf.control_dependencies([added, doubled]), tf.device(CPU):
            third.assign_add(tf.ones([3]), read_value=False)
            return tf.identity(third.read_value())

    return function


@pytest.fixture
def variables() -> list[tf.Variable]:
    made = []
    for device in (DEVICE, OTHER, CPU):
        with tf.device(device):
            made.append(tf.Variable(tf.ones([3])))
    return made


def test_an_edge_between_devices_is_one_of_the_host(
    variables: list[tf.Variable], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", "0")
    _, nodes = run(updates(variables))
    assert edges_between_devices(nodes)
    monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", "waits")
    results, nodes = run(updates(variables))
    assert not edges_between_devices(nodes)
    submitted = [node.device for node in nodes if node.op == "UnihalSubmitted"]
    assert any("RDNA" in device for device in submitted)
    assert any("ILUVATAR" in device for device in submitted)
    # After two runs.
    np.testing.assert_array_equal(results[0], [3, 3, 3])
    np.testing.assert_array_equal(variables[0], [4, 4, 4])
    np.testing.assert_array_equal(variables[1], [3, 3, 3])


@pytest.mark.parametrize("is_ordered", [True, False])
def test_what_the_host_computes_for_the_host_stays_there(
    is_ordered: bool, variables: list[tf.Variable], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the losses of replicas, which TensorFlow adds on the host, and returns behind all that the replicas do."""

    def function() -> Any:
        parts, updated = [], []
        for variable, device in zip(variables, (DEVICE, OTHER), strict=False):
            with tf.device(device):
                parts.append(tf.reduce_sum(variable * 2.0))
                updated.append(variable.assign_add(tf.ones([3]), read_value=False))
        with tf.device(CPU):
            total = tf.add_n(parts)
        # Nobody places it, so that TensorFlow does.
        with tf.control_dependencies(updated if is_ordered else []):
            return tf.identity(total)

    found = {}
    for setting in ("0", "waits"):
        monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", setting)
        for variable in variables:
            variable.assign(tf.ones([3]))
        results, nodes = run(function)
        np.testing.assert_array_equal(results[0], 12)
        sums = {node.name for node in nodes if node.op == "AddN" and "CPU" in node.device}
        found[setting] = [node.device for node in nodes if sums & set(node.input)]
    assert any("CPU" not in device for device in found["0"])
    assert found["waits"] and all("CPU" in device for device in found["waits"])


class Records:
    """What the host sees of a variable at some places of the program."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, float]] = []

    def look(self, place: int, variable: tf.Variable) -> None:
        self.seen.append((place, float(variable.numpy().sum())))


@pytest.mark.parametrize("seed", range(6))
def test_a_program_on_three_devices_keeps_its_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step comes after the one before by a control edge alone; what the host reads in between is what the devices
    have computed up to there."""
    choice = random.Random(seed)
    places = [choice.choice((DEVICE, OTHER, CPU)) for _ in range(25)]
    records = Records()
    with tf.device(DEVICE):
        first = tf.Variable(tf.zeros([256, 256]))
    with tf.device(OTHER):
        second = tf.Variable(tf.zeros([256, 256]))

    def step(index: int, device: str) -> tf.Operation:
        with tf.device(device):
            if device == CPU:
                variable = choice.choice((first, second))
                looked = tf.py_function(lambda: records.look(index, variable), [], [])
                return looked if isinstance(looked, tf.Operation) else looked.op
            variable = first if device == DEVICE else second
            ones = tf.ones([256, 256])
            return variable.assign_add((ones @ ones) / 256.0, read_value=False)

    def program() -> tf.Tensor:
        before: list[Any] = []
        for index, device in enumerate(places):
            with tf.control_dependencies(before):
                before = [step(index, device)]
        with tf.control_dependencies(before), tf.device(CPU):
            return tf.constant(1)

    expected: dict[str, list[tuple[int, float]]] = {}
    for setting in ("0", "1"):
        monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", setting)
        choice.seed(seed + 100)
        records.seen = []
        first.assign(tf.zeros_like(first))
        second.assign(tf.zeros_like(second))
        run(program)
        expected[setting] = list(records.seen)
        assert float(tf.reduce_sum(first)) == 65536 * places.count(DEVICE)
        assert float(tf.reduce_sum(second)) == 65536 * places.count(OTHER)
    assert len(expected["0"]) == places.count(CPU)
    assert expected["0"] == expected["1"]


@pytest.mark.parametrize("taken", [True, False])
def test_branches(taken: bool, variables: list[tf.Variable], monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, _ = variables

    def function() -> Any:
        with tf.device(DEVICE):
            condition = tf.reduce_sum(first) > (0.0 if taken else 100.0)
            doubled = first.assign_add(first.read_value(), read_value=False)

        def add() -> tf.Tensor:
            with tf.control_dependencies([doubled]), tf.device(OTHER):
                second.assign_add(tf.ones([3]), read_value=False)
            return tf.constant(1.0)

        return tf.cond(condition, add, lambda: tf.constant(2.0))

    monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", "1")
    results, _ = run(function)
    assert results[0] == (1 if taken else 2)
    np.testing.assert_array_equal(first, [2, 2, 2])
    np.testing.assert_array_equal(second, [2, 2, 2] if taken else [1, 1, 1])
