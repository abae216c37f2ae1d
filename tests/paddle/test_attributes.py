"""Attributes that are easily left out without any other test seeing it: each is given a value that changes the result
by far more than a tolerance, and the test proves that on the CPU first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import paddle
import pytest
from comparison import DEVICE, on, random
from paddle.nn import functional as F

X = random(3, 4, 5, 2)
#: Next to which every epsilon counts.
SMALL = random(4, low=1e-6, high=1e-5, seed=2)


def _batch_norm(epsilon: float, training: bool) -> Any:
    x = paddle.to_tensor(X * 1e-3 if training else X, stop_gradient=False)
    mean, variance = paddle.zeros([4]), paddle.to_tensor(SMALL)
    y = F.batch_norm(x, mean, variance, training=training, epsilon=epsilon)
    (y * y).sum().backward()
    return [y, x.grad]


def _layer_norm(epsilon: float) -> Any:
    x = paddle.to_tensor(X * 1e-3, stop_gradient=False)
    y = F.layer_norm(x, [5, 2], epsilon=epsilon)
    (y * y * y).sum().backward()
    return [y, x.grad]


def _group_norm(epsilon: float) -> Any:
    return [F.group_norm(paddle.to_tensor(X * 1e-3), 2, epsilon=epsilon)]


def _momentum(momentum: float) -> Any:
    mean, variance = paddle.zeros([4]), paddle.ones([4])
    F.batch_norm(paddle.to_tensor(X), mean, variance, training=True, momentum=momentum)
    return [mean, variance]


def _steps(make: Callable[..., Any], **changed: Any) -> Any:
    weight = paddle.base.framework.EagerParamBase.from_tensor(paddle.to_tensor(random(4)))
    optimizer = make(parameters=[weight], **changed)
    for step in range(3):
        (weight * paddle.to_tensor(random(4, seed=step + 5))).sum().backward()
        optimizer.step()
        optimizer.clear_grad()
    return [weight]


def _adamw(**changed: Any) -> Any:
    return _steps(
        lambda **given: paddle.optimizer.AdamW(**{"learning_rate": 0.1, "weight_decay": 0.1, **given}), **changed
    )


def _adam(**changed: Any) -> Any:
    return _steps(lambda **given: paddle.optimizer.Adam(**{"learning_rate": 0.1, **given}), **changed)


def _nesterov(**changed: Any) -> Any:
    return _steps(lambda **given: paddle.optimizer.Momentum(**{"learning_rate": 0.1, **given}), **changed)


#: A computation, and two settings that differ in one attribute.
CASES: dict[str, tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]] = {
    "batch_norm epsilon in inference": (partial(_batch_norm, training=False), {"epsilon": 1e-5}, {"epsilon": 0.5}),
    "batch_norm epsilon in training": (partial(_batch_norm, training=True), {"epsilon": 1e-5}, {"epsilon": 1e-3}),
    "batch_norm momentum": (_momentum, {"momentum": 0.9}, {"momentum": 0.3}),
    "layer_norm epsilon": (_layer_norm, {"epsilon": 1e-5}, {"epsilon": 1e-3}),
    "group_norm epsilon": (_group_norm, {"epsilon": 1e-5}, {"epsilon": 1e-3}),
    "adamw lr_ratio": (_adamw, {}, {"lr_ratio": lambda parameter: 0.25}),
    "adamw weight_decay": (_adamw, {}, {"weight_decay": 0.5}),
    "adamw epsilon": (_adamw, {}, {"epsilon": 0.5}),
    "adamw apply_decay_param_fun": (_adamw, {}, {"apply_decay_param_fun": lambda name: False}),
    "adam beta1": (_adam, {}, {"beta1": 0.5}),
    "adam beta2": (_adam, {}, {"beta2": 0.5}),
    "adam epsilon": (_adam, {}, {"epsilon": 0.5}),
    "momentum momentum": (_nesterov, {}, {"momentum": 0.5}),
    "momentum use_nesterov": (_nesterov, {}, {"use_nesterov": True}),
    "momentum weight_decay": (_nesterov, {}, {"weight_decay": 0.5}),
}


#: Settings that mean the same, where Paddle has the attribute on devices only.
ON_CPU: dict[str, dict[str, Any]] = {"adamw lr_ratio": {"learning_rate": 0.1 * 0.25}}


def _results(device: str, function: Callable[..., Any], settings: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    with on(device):
        return [tensor.numpy() for tensor in function(**settings)]


@pytest.mark.parametrize("name", CASES)
def test_the_attribute_counts(name: str) -> None:
    function, usual, other = CASES[name]
    without, wanted = (_results("cpu", function, settings) for settings in (usual, ON_CPU.get(name, other)))
    # Statistics of 30 numbers and three steps: some roundings of float32.
    assert all(np.abs(a - b).max() > 1e-3 * np.abs(b).max() for a, b in zip(without, wanted)), "shows nothing"
    for actual, expected in zip(_results(DEVICE, function, other), wanted):
        np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5 * np.abs(expected).max())
