"""Reference variables: what TensorFlow 1 programs update, in graphs and sessions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from compare import CPU, DEVICE

V1 = tf.compat.v1
INDICES, UPDATES = [1, 3], np.full((2, 3), 2.0)
PLACES = [[1], [2]]


def ones(variable: Any) -> tf.Tensor:
    return tf.ones([4, 3], variable.dtype.base_dtype)


def scatter(name: str, places: list[Any]) -> Callable[[Any], Any]:
    """An update of two rows by a function of TensorFlow 1."""
    return lambda v: getattr(V1, name)(v, places, tf.cast(UPDATES, v.dtype.base_dtype))


UPDATES_OF: dict[str, Callable[[Any], Any]] = {
    "assign": lambda v: V1.assign(v, 2 * ones(v)),
    "assign_add": lambda v: V1.assign_add(v, ones(v)),
    "assign_sub": lambda v: V1.assign_sub(v, ones(v)),
    **{
        f"scatter_{what}": scatter(f"scatter_{what}", INDICES)
        for what in ("add", "sub", "mul", "div", "min", "max", "update")
    },
    **{f"scatter_nd_{what}": scatter(f"scatter_nd_{what}", PLACES) for what in ("add", "sub", "update")},
    "slice": lambda v: v[1:3, 0:2].assign(tf.cast(UPDATES[:, :2], v.dtype.base_dtype)),
}
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "GradientDescent": lambda: V1.train.GradientDescentOptimizer(0.1),
    "Momentum": lambda: V1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "Adagrad": lambda: V1.train.AdagradOptimizer(0.1),
    "Adadelta": lambda: V1.train.AdadeltaOptimizer(0.1),
    "RMSProp": lambda: V1.train.RMSPropOptimizer(0.1, momentum=0.5),
    "centered RMSProp": lambda: V1.train.RMSPropOptimizer(0.1, centered=True),
    "Adam": lambda: V1.train.AdamOptimizer(0.1),
    "Ftrl": lambda: V1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
    "ProximalAdagrad": lambda: V1.train.ProximalAdagradOptimizer(0.1, l1_regularization_strength=0.01),
}


def after(device: str, build: Callable[[Any], Any], dtype: str = "float32", steps: int = 1) -> np.ndarray:
    """A variable after an update was run."""
    with tf.Graph().as_default(), tf.device(device):
        start = np.arange(12).reshape(4, 3) + 1
        variable = V1.get_variable("v", initializer=start.astype(dtype), use_resource=False)
        update = build(variable)
        with V1.Session(config=V1.ConfigProto(allow_soft_placement=False)) as session:
            session.run(V1.global_variables_initializer())
            for _ in range(steps):
                session.run(update)
            return session.run(variable)


@pytest.mark.parametrize("name", UPDATES_OF)
def test_update(name: str) -> None:
    for dtype in ("float32", "float64", "complex64"):
        if dtype == "complex64" and name in ("scatter_min", "scatter_max"):
            continue
        actual, expected = (after(device, UPDATES_OF[name], dtype) for device in (DEVICE, CPU))
        np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("sparse", [False, True])
def test_optimizer(name: str, sparse: bool) -> None:
    def build(variable: Any) -> Any:
        used = tf.gather(variable, [0, 2, 0]) if sparse else variable
        return OPTIMIZERS[name]().minimize(tf.reduce_sum(tf.square(used)))

    actual, expected = (after(device, build, steps=3) for device in (DEVICE, CPU))
    np.testing.assert_allclose(actual, expected, rtol=1e-4)


def test_shapes_must_match() -> None:
    def assign(variable: Any) -> Any:
        value = V1.placeholder_with_default(np.ones(2, np.float32), None)
        return tf.raw_ops.Assign(ref=variable._ref(), value=value)

    with pytest.raises(tf.errors.InvalidArgumentError, match="Assign requires shapes of both tensors to match"):
        after(DEVICE, assign)
