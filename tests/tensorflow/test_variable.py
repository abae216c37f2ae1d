"""Resource variables on the device: assignment, indexing, optimizer steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from compare import CPU, DEVICE, FLOATS, assert_close, integers, random

RAW = tf.raw_ops


def run_on_both(function: Callable[[], Any]) -> None:
    results = []
    for device in (DEVICE, CPU):
        with tf.device(device):
            results.append([tf.convert_to_tensor(r) for r in tf.nest.flatten(function())])
    for actual, expected in zip(*results, strict=True):
        assert_close(actual, expected)


@pytest.mark.parametrize("dtype", [*FLOATS, "int64", "uint8", "int16"])
def test_assignments(dtype: str) -> None:
    start = integers(3, 4, low=4, high=9)
    step = integers(3, 4, high=4)

    def assign() -> Any:
        variable = tf.Variable(tf.cast(start, dtype))
        before = variable.read_value()
        variable.assign_add(tf.cast(step, dtype))
        between = variable.read_value()
        variable.assign_sub(tf.cast(step, dtype) * 2)
        variable.assign(variable + tf.cast(1, dtype))
        return variable, before, between

    run_on_both(assign)


def test_a_variable_lives_on_the_device() -> None:
    with tf.device(DEVICE):
        variable = tf.Variable([1.0, 2.0])
        assert DEVICE in variable.device
        assert DEVICE in variable.read_value().device


def test_a_value_read_before_an_update_stays() -> None:
    with tf.device(DEVICE):
        variable = tf.Variable(tf.zeros(4))
        alias = variable.value()
        source = tf.ones(4)
        variable.assign(source)
        variable.assign_add(tf.ones(4))
    np.testing.assert_array_equal(alias.numpy(), np.zeros(4))
    np.testing.assert_array_equal(source.numpy(), np.ones(4))
    np.testing.assert_array_equal(variable.numpy(), np.full(4, 2))


def test_booleans_and_complex_numbers() -> None:
    def assign() -> Any:
        flag = tf.Variable([True, False])
        flag.assign([False, True])
        number = tf.Variable([1 + 2j])
        number.assign([3 - 1j])
        return flag, number

    run_on_both(assign)


@pytest.mark.parametrize("index", ["int32", "int64"])
def test_rows(index: str) -> None:
    table, rows = random(6, 3), integers(2, 2, high=6, dtype=index)

    def gather() -> Any:
        variable = tf.Variable(table, dtype=tf.float32)
        nd = tf.constant([[0, 1], [5, 2]], index)
        return tf.gather(variable, rows), variable.gather_nd(nd), tf.nn.embedding_lookup(variable, rows)

    run_on_both(gather)

    def scatter() -> Any:
        variable = tf.Variable(table, dtype=tf.float32)
        slices = tf.IndexedSlices(tf.cast(random(3, 3, seed=1), tf.float32), tf.constant([1, 4, 1], index))
        once = tf.IndexedSlices(tf.cast(random(2, 3, seed=2), tf.float32), tf.constant([0, 5], index))
        variable.scatter_add(slices)
        variable.scatter_sub(slices)
        variable.scatter_mul(once)
        variable.scatter_div(once)
        variable.scatter_max(once)
        variable.scatter_min(once)
        variable.scatter_update(once)
        variable.scatter_nd_add(tf.constant([[0, 1], [0, 1]], index), [1.0, 2.0])
        variable.scatter_nd_sub(tf.constant([[3, 2]], index), [1.0])
        variable.scatter_nd_update(tf.constant([[2, 2]], index), [9.0])
        return variable

    run_on_both(scatter)


def test_sliced_assignment() -> None:
    def assign() -> Any:
        variable = tf.Variable(random(4, 5), dtype=tf.float32)
        variable[1, 1:4].assign([1.0, 2.0, 3.0])
        variable[::2, -1].assign([7.0, 8.0])
        return variable

    run_on_both(assign)


def test_slices_of_everything_keep_what_they_were() -> None:
    """They share the variable's memory, until it changes."""
    takes = (lambda v: v[:], lambda v: tf.slice(v, [0], [-1]), lambda v: v[None, ::1])
    changes = (
        lambda v: v.assign_add(tf.ones(3000)),
        lambda v: v[1:2].assign([7.0]),
        lambda v: RAW.ResourceScatterAdd(resource=v.handle, indices=[1], updates=[5.0]),
        lambda v: RAW.ResourceApplyGradientDescent(var=v.handle, alpha=1.0, delta=tf.ones(3000)),
    )
    with tf.device(DEVICE):
        variable = tf.Variable(np.arange(3000, dtype="float32"))
        for take in takes:
            for change in changes:
                before = variable.numpy()
                taken = take(variable)
                change(variable)
                assert np.array_equal(taken.numpy().reshape(-1), before)
                assert not np.array_equal(variable.numpy(), before)


def optimizer_step(op: Callable[..., Any], slots: int, **arguments: Any) -> Callable[[], Any]:
    """Three steps of a fused optimizer op. Slot names are given in order by the op's signature."""

    def run() -> Any:
        names = ["var", *{1: ["accum"], 2: ["m", "v"] if "beta1" in arguments else ["ms", "mom"], 0: []}[slots]]
        variables = {n: tf.Variable(random(5, 3, seed=i, low=0.1), dtype=tf.float32) for i, n in enumerate(names)}
        gradient = "delta" if slots == 0 else "grad"
        for i in range(3):
            values = {k: tf.constant(v) if isinstance(v, float) else v for k, v in arguments.items()}
            values[gradient] = tf.constant(random(5, 3, seed=10 + i), tf.float32)
            op(**{n: v.handle for n, v in variables.items()}, **values)
        return list(variables.values())

    return run


@pytest.mark.parametrize(
    ("op", "slots", "arguments"),
    [
        (RAW.ResourceApplyGradientDescent, 0, {"alpha": 0.1}),
        (RAW.ResourceApplyMomentum, 1, {"lr": 0.1, "momentum": 0.9, "use_nesterov": False}),
        (RAW.ResourceApplyMomentum, 1, {"lr": 0.1, "momentum": 0.9, "use_nesterov": True}),
        (RAW.ResourceApplyKerasMomentum, 1, {"lr": 0.1, "momentum": 0.9, "use_nesterov": False}),
        (RAW.ResourceApplyKerasMomentum, 1, {"lr": 0.1, "momentum": 0.9, "use_nesterov": True}),
        (RAW.ResourceApplyAdagrad, 1, {"lr": 0.1}),
        (RAW.ResourceApplyAdagradV2, 1, {"lr": 0.1, "epsilon": 1e-3}),
        (RAW.ResourceApplyRMSProp, 2, {"lr": 0.1, "rho": 0.9, "momentum": 0.5, "epsilon": 1e-3}),
        (
            RAW.ResourceApplyAdam,
            2,
            {"beta1_power": 0.9, "beta2_power": 0.99, "lr": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-3},
        ),
    ],
)
def test_optimizer_steps(op: Callable[..., Any], slots: int, arguments: dict[str, Any]) -> None:
    run_on_both(optimizer_step(op, slots, **arguments))


def test_errors() -> None:
    with tf.device(DEVICE):
        variable = tf.Variable(tf.zeros([2, 3]))
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"the variable has shape \[2,3\], the value has shape \[3\]"
        ):
            RAW.AssignAddVariableOp(resource=variable.handle, value=tf.zeros(3))
        with pytest.raises(tf.errors.InvalidArgumentError, match="dtype"):
            RAW.AssignVariableOp(resource=variable.handle, value=tf.zeros([2, 3], tf.float64))
        empty = RAW.VarHandleOp(dtype=tf.float32, shape=[2], shared_name="never assigned")
        with pytest.raises(tf.errors.NotFoundError, match="Could not find resource"):
            RAW.AssignAddVariableOp(resource=empty, value=tf.zeros(2))
        with pytest.raises(tf.errors.InvalidArgumentError, match="gradient must have shape"):
            RAW.ResourceApplyGradientDescent(var=variable.handle, alpha=0.1, delta=tf.zeros(2))
