"""Steps of Momentum and Adam on our devices in one op for all parameters.

Paddle's eager step calls an op for each parameter, and what surrounds it takes more of the host's time than the launch
in it: networks of many small parameters wait for the host there. Paddle has ops for many parameters at once, with the
same arithmetic, which use_multi_tensor=True asks for; that option's way through Python is no shorter.

Paddle's step stays as it is: clipping, regularization, states, what GradScaler found. The ops at its end are kept until
all of their parameters are known, and taken together if these allow it.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from unihal_paddle_device import is_ours, present_device_is_ours


def may_step_together(parameters: list[Any], gradients: list[Any]) -> bool:
    """Whether an op for many parameters may have these: dense ones of one dtype in one place of ours, with no rate of
    their own."""
    first = parameters[0]
    dtype, place = first.dtype, first.place
    if not is_ours(place):
        return False
    for parameter, gradient in zip(parameters, gradients):
        # Since Paddle 3.3 a dtype is one object, which `in` looks for before it compares.
        if parameter.dtype not in (dtype,) or gradient.dtype not in (dtype,):
            return False
        if not parameter.is_dense() or not gradient.is_dense() or not parameter.place._equals(place):
            return False
        rate = (getattr(parameter, "optimize_attr", None) or {}).get("learning_rate", 1.0)
        if type(rate) is not float or rate != 1.0:
            return False
    return True


def states(optimizer: Any, kind: str, parameters: list[Any]) -> list[Any]:
    """The optimizer's state of a kind, of each parameter."""
    found = optimizer._accumulators[kind if optimizer._name is None else f"{optimizer._name}_{kind}"]
    return [found[parameter.name] for parameter in parameters]


def step_momentum(module: Any, optimizer: Any, parameters: list[Any], gradients: list[Any]) -> None:
    methods, coefficients = [], []
    for parameter in parameters:
        method, coefficient = optimizer._regularization_method, optimizer._regularization_coeff
        own = getattr(parameter, "regularizer", None)
        if own is not None:  # if it is no L2Decay the gradient has it already
            method, coefficient = ("l2_decay", own._coeff) if isinstance(own, module.L2Decay) else ("", 0.0)
        methods.append(method)
        coefficients.append(coefficient)
    module._C_ops.merged_momentum_(
        parameters,
        gradients,
        states(optimizer, optimizer._velocity_acc_str, parameters),
        [optimizer._global_learning_rate()],
        None,
        optimizer._momentum,
        optimizer._use_nesterov,
        methods,
        coefficients,
        False,
        optimizer._rescale_grad,
    )


def step_adam(module: Any, optimizer: Any, parameters: list[Any], gradients: list[Any]) -> None:
    module._C_ops.merged_adam_(
        parameters,
        gradients,
        [optimizer._global_learning_rate()],
        states(optimizer, optimizer._moment1_acc_str, parameters),
        states(optimizer, optimizer._moment2_acc_str, parameters),
        states(optimizer, optimizer._moment2_acc_max_str, parameters) if optimizer._amsgrad else None,
        states(optimizer, optimizer._beta1_pow_acc_str, parameters),
        states(optimizer, optimizer._beta2_pow_acc_str, parameters),
        None,
        *(beta if isinstance(beta, float) else beta.item() for beta in (optimizer._beta1, optimizer._beta2)),
        optimizer._epsilon,
        False,
        False,
        optimizer._amsgrad,
    )


def step_together(kind: Any, module: Any, step: Callable[[Any, Any, list[Any], list[Any]], None]) -> None:
    """Optimizers of exactly this kind, a class of that module, take such a step."""
    original, append, framework = kind._create_optimization_pass, kind._append_optimize_op, module.framework

    def is_plain(optimizer: Any) -> bool:
        return (
            type(optimizer) is kind
            and "_append_optimize_op" not in vars(optimizer)
            and not optimizer._use_multi_tensor
            and framework.in_dygraph_mode()
            and present_device_is_ours()
        )

    @functools.wraps(original)
    def create_optimization_pass(self: Any, parameters_and_grads: Any, param_group_idx: int = 0) -> Any:
        if not isinstance(parameters_and_grads, list) or not is_plain(self):
            return original(self, parameters_and_grads, param_group_idx)
        kept: list[tuple[Any, tuple[Any, Any]]] = []
        self._append_optimize_op = lambda block, pair: kept.append((block, pair))
        try:
            result = original(self, parameters_and_grads, param_group_idx)
        finally:
            del self._append_optimize_op
        parameters, gradients = [pair[0] for _, pair in kept], [pair[1] for _, pair in kept]
        # Master weights are the states of parameters that these ops would not find.
        if len(kept) > 1 and not self._master_weights and may_step_together(parameters, gradients):
            step(module, self, parameters, gradients)
        else:
            for block, pair in kept:
                append(self, block, pair)
        return result

    kind._create_optimization_pass = create_optimization_pass


def patch_momentum(module: Any) -> None:
    step_together(module.Momentum, module, step_momentum)


def patch_adam(module: Any) -> None:
    step_together(module.Adam, module, step_adam)
