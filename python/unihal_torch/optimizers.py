"""Adam, AdamW and SGD with foreach=True, PyTorch's default on a device, in one launch a parameter.

PyTorch's own steps for lists of tensors are eight ops on each parameter, which its CUDA kernels take many parameters at
a time. Here the fused steps stand in for them: the same formulas, rounded less often. The state is that of
foreach=True: counts of steps stay on the host. What these steps are not for goes the way that PyTorch goes.

With fused=True PyTorch counts Adam's steps on the device, in a tensor for each parameter. These are laid into one, so
that one launch counts them all and another takes the powers of all.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

Tensors = Sequence[torch.Tensor]

#: The parameters that PyTorch's functions have in the versions that this is for.
_LISTS = ("params", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs", "state_steps", "grad_scale", "found_inf")
_OF_ADAM = (
    *("amsgrad", "has_complex", "beta1", "beta2", "lr", "weight_decay", "eps", "maximize", "capturable"),
    *("differentiable", "decoupled_weight_decay"),
)
_OF_SGD = ("weight_decay", "momentum", "lr", "dampening", "nesterov", "maximize", "has_sparse_grad")


def _are_served(name: str, lists: Sequence[Tensors], numbers: Sequence[Any]) -> bool:
    """Whether all tensors are dense floating ones of one device of ours, and numbers are on the host."""
    if torch.compiler.is_compiling() or any(isinstance(number, torch.Tensor) for number in numbers):
        return False
    device = lists[0][0].device
    return device.type == name and all(
        tensor.device == device and tensor.is_floating_point() and tensor.layout == torch.strided
        for tensors in lists
        for tensor in tensors
    )


def _adam(name: str, original: Callable[..., None]) -> Callable[..., None]:
    def _multi_tensor_adam(
        params: list[torch.Tensor],
        grads: list[torch.Tensor],
        exp_avgs: list[torch.Tensor],
        exp_avg_sqs: list[torch.Tensor],
        max_exp_avg_sqs: list[torch.Tensor],
        state_steps: list[torch.Tensor],
        grad_scale: Any,
        found_inf: Any,
        **options: Any,
    ) -> None:
        lists = (params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs)
        numbers = (options["lr"], options["beta1"], options["beta2"], grad_scale, found_inf)
        is_ours = (
            params
            and not options["capturable"]
            and not options["differentiable"]
            and not options["has_complex"]
            and all(steps.is_cpu for steps in state_steps)
            and _are_served(name, lists, numbers)
        )
        if not is_ours:
            original(*lists, state_steps, grad_scale, found_inf, **options)
            return
        torch._foreach_add_(state_steps, torch.tensor(1.0), alpha=1.0)
        step = torch._fused_adamw_ if options["decoupled_weight_decay"] else torch._fused_adam_
        step(
            *lists,
            state_steps,
            lr=float(options["lr"]),
            beta1=options["beta1"],
            beta2=options["beta2"],
            weight_decay=options["weight_decay"],
            eps=options["eps"],
            amsgrad=options["amsgrad"],
            maximize=options["maximize"],
        )

    return _multi_tensor_adam


def _sgd(name: str, original: Callable[..., None]) -> Callable[..., None]:
    def _multi_tensor_sgd(
        params: list[torch.Tensor],
        grads: list[torch.Tensor],
        momentum_buffer_list: list[torch.Tensor | None],
        grad_scale: Any,
        found_inf: Any,
        **options: Any,
    ) -> None:
        has_momentum = options["momentum"] != 0
        missing = [buffer is None for buffer in momentum_buffer_list] if has_momentum else []
        buffers = [buffer for buffer in momentum_buffer_list if buffer is not None] if has_momentum else []
        is_ours = (
            params
            and not options["has_sparse_grad"]
            and (all(missing) or not any(missing))
            and _are_served(name, (params, grads, buffers), (options["lr"], grad_scale, found_inf))
        )
        if not is_ours:
            original(params, grads, momentum_buffer_list, grad_scale, found_inf, **options)
            return
        is_first = has_momentum and not buffers
        if is_first:
            buffers = [torch.empty_like(gradient) for gradient in grads]
            momentum_buffer_list[:] = buffers
        torch._fused_sgd_(
            params,
            grads,
            buffers,
            weight_decay=options["weight_decay"],
            momentum=options["momentum"],
            lr=float(options["lr"]),
            dampening=options["dampening"],
            nesterov=options["nesterov"],
            maximize=options["maximize"],
            is_first_step=is_first,
        )

    return _multi_tensor_sgd


def _lay_together(name: str, counts: list[torch.Tensor]) -> None:
    """Makes numbers of the device, which stay the same objects, views of one tensor, in their order."""
    if len(counts) < 2 or torch.compiler.is_compiling() or counts[0].device.type != name:
        return
    first, size = counts[0].data_ptr(), counts[0].element_size()
    if all(count.data_ptr() == first + size * number for number, count in enumerate(counts)):
        return
    kinds = {(count.device, count.dtype, count.shape, count.requires_grad) for count in counts}
    if kinds == {(counts[0].device, counts[0].dtype, torch.Size(), False)}:
        for count, place in zip(counts, torch.stack(counts)):
            count.set_(place)


def _fused(name: str, original: Callable[..., None]) -> Callable[..., None]:
    def _fused_adam(*lists: Any, **options: Any) -> None:
        _lay_together(name, lists[_LISTS.index("state_steps")])
        original(*lists, **options)

    return _fused_adam


_STEPS = (
    ("torch.optim.adam", "_fused_adam", (*_LISTS, *_OF_ADAM), _fused),
    ("torch.optim.adam", "_multi_tensor_adam", (*_LISTS, *_OF_ADAM), _adam),
    ("torch.optim.sgd", "_multi_tensor_sgd", (*_LISTS[:2], "momentum_buffer_list", *_LISTS[6:], *_OF_SGD), _sgd),
)


def install(name: str) -> None:
    """Puts these steps in the place of PyTorch's, for tensors of the device type ``name``. A version of PyTorch whose
    functions have other parameters keeps its own.
    """
    for module_name, function, parameters, make in _STEPS:
        module = importlib.import_module(module_name)
        original = getattr(module, function, None)
        if original is not None and tuple(inspect.signature(original).parameters) == parameters:
            setattr(module, function, make(name, original))
