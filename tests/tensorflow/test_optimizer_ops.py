"""Optimizer steps on variables, from their OpDefs: each rule, dense and sparse, against TensorFlow's CPU."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from compare import CPU, DEVICE, TOLERANCE, random
from registry import combinations
from tensorflow.python.framework import op_def_registry

KIND = DEVICE.split(":")[1]
RULES = [
    "AdaMax",
    "Adadelta",
    "Adagrad",
    "AdagradV2",
    "Adam",
    "AdamWithAmsgrad",
    "AddSign",
    "CenteredRMSProp",
    "Ftrl",
    "FtrlV2",
    "GradientDescent",
    "KerasMomentum",
    "Momentum",
    "PowerSign",
    "ProximalAdagrad",
    "ProximalGradientDescent",
    "RMSProp",
]
COEFFICIENTS = {
    "lr": 0.1,
    "alpha": 0.1,
    "rho": 0.9,
    "momentum": 0.8,
    "epsilon": 1e-3,
    "beta1": 0.9,
    "beta2": 0.95,
    "beta": 0.9,
    "beta1_power": 0.9,
    "beta2_power": 0.95,
    "l1": 0.05,
    "l2": 0.1,
    "lr_power": -0.5,
    "l2_shrinkage": 0.1,
    "sign_decay": 0.8,
    "logbase": 1.0,
}
#: Row 3 is updated twice, and the second update follows the first.
ROWS = [3, 1, 3, 0]
FORMS: dict[str, list[dict[str, Any]]] = {
    "Ftrl": [{}, {"multiply_linear_by_lr": True}, {"lr_power": -0.3}],
    "FtrlV2": [{}, {"multiply_linear_by_lr": True}],
    "Adagrad": [{}, {"update_slots": False}],
    "AdagradV2": [{}, {"update_slots": False}],
    "Momentum": [{}, {"use_nesterov": True}],
    "KerasMomentum": [{}, {"use_nesterov": True}],
    "ProximalAdagrad": [{}, {"l1": 0.0}],
}


def variables_after(op: str, dtype: str, device: str, given: dict[str, Any]) -> list[np.ndarray]:
    """The op's variables after one step."""
    definition = op_def_registry.get(op)
    coefficients = COEFFICIENTS | {k: v for k, v in given.items() if k in COEFFICIENTS}
    attributes = {k: v for k, v in given.items() if k not in COEFFICIENTS}
    sparse = "Sparse" in op
    variables = []
    arguments: dict[str, Any] = {}
    with tf.device(device):
        for number, argument in enumerate(definition.input_arg):
            name = argument.name
            if argument.type == tf.resource.as_datatype_enum:
                # A mean square is above the square of the mean.
                start = np.abs(random(5, 3, seed=number)) * (0.2 if name == "mg" else 1) + (2 if name == "ms" else 0.1)
                variables.append(tf.Variable(tf.cast(start, dtype)))
                arguments[name] = variables[-1].handle
            elif name in ("grad", "delta"):
                arguments[name] = tf.cast(random(*((len(ROWS), 3) if sparse else (5, 3)), seed=20), dtype)
            elif name == "indices":
                arguments[name] = tf.constant(ROWS)
            else:
                arguments[name] = tf.cast(coefficients[name], dtype)
        getattr(tf.raw_ops, op)(**arguments, **attributes)
        return [tf.cast(v, tf.float64).numpy() for v in variables]


@pytest.mark.parametrize("rule", RULES)
def test_step(rule: str) -> None:
    for op in (f"ResourceApply{rule}", f"ResourceSparseApply{rule}"):
        if op_def_registry.get(op) is None:
            continue
        # Half precision has too few digits to tell kinds of rounding apart over a square root.
        on_both = {t["T"].name for t in combinations(op, KIND)} & {t["T"].name for t in combinations(op, "CPU")}
        assert "float32" in on_both
        for dtype in on_both & {"float32", "float64", "float16", "bfloat16"}:
            for given in FORMS.get(rule, [{}]):
                actual, expected = (variables_after(op, dtype, device, given) for device in (DEVICE, CPU))
                for a, e in zip(actual, expected, strict=True):
                    limit = 4 * TOLERANCE[dtype]
                    np.testing.assert_allclose(a, e, rtol=limit, atol=limit, err_msg=f"{op} {dtype} {given}")


def test_what_does_not_fit() -> None:
    with tf.device(DEVICE):
        variable, slot = tf.Variable(tf.ones([3, 2])), tf.Variable(tf.ones([3, 2]))
        for gradient, rate, text in (
            (tf.ones([2]), 0.1, "gradient must have shape"),
            (tf.ones([3, 2]), [0.1], "lr is not"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=text):
                tf.raw_ops.ResourceApplyAdagrad(var=variable.handle, accum=slot.handle, lr=rate, grad=gradient)
        np.testing.assert_array_equal(variable.numpy(), np.ones([3, 2]))
