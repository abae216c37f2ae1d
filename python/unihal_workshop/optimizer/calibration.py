"""What goes into a model's layers while it runs on samples: which inputs matter, and examples of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError

#: Rows of inputs that are kept of each linear layer, and the side of the part that is kept of an image.
_ROWS = 64
_SIDE = 16


def call(model: Callable[..., Any], sample: Any) -> Any:
    """Calls a model with a sample: a mapping of keywords, a tuple of arguments, or its one argument."""
    if isinstance(sample, Mapping):
        return model(**sample)
    if isinstance(sample, tuple):
        return model(*sample)
    return model(sample)


def tensors_of(output: Any) -> list[Tensor]:
    """The floating tensors of what a model gives, in order: of tuples, lists, mappings and their like."""
    if isinstance(output, Tensor):
        return [output] if output.is_floating_point() else []
    if isinstance(output, Mapping):
        return [tensor for value in output.values() for tensor in tensors_of(value)]
    if isinstance(output, (tuple, list)):
        return [tensor for value in output for tensor in tensors_of(value)]
    return []


def first_output(output: Any) -> Tensor:
    """What a model's error is measured on: the first floating tensor of its output, on the host, in float32."""
    found = tensors_of(output)
    if not found:
        raise InputError(f"the model gives no floating tensor, but {type(output).__name__}: its error has no measure")
    return found[0].detach().to("cpu", torch.float32)


class Observer:
    """Of one layer: the mean square of each column of its input, and an example of inputs (on the host)."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.is_convolution = isinstance(module, nn.modules.conv._ConvNd)
        self.count = 0
        self.squares: Tensor | None = None
        self.example: Tensor | None = None

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """The hook before the layer's forward."""
        if not args or not isinstance(args[0], Tensor) or not args[0].is_floating_point():
            return
        x = args[0].detach()
        if self.is_convolution:
            channels = x.movedim(1, -1).reshape(-1, x.shape[1])
            if self.example is None:
                cut = (slice(0, 1), slice(None), *(slice(0, _SIDE) for _ in x.shape[2:]))
                self.example = x[cut].to("cpu", torch.float32)
        else:
            channels = x.reshape(-1, x.shape[-1])
            if self.example is None:
                self.example = channels[:_ROWS].to("cpu", torch.float32)
        squares = channels.to(torch.float32).square().sum(0).cpu()
        self.squares = squares if self.squares is None else self.squares + squares
        self.count += channels.shape[0]

    def importance(self) -> Tensor | None:
        """The mean square of each column of the layer's weight, seen as (channels, columns); None if it never ran."""
        if self.squares is None or self.count == 0:
            return None
        mean = self.squares / self.count
        if not self.is_convolution:
            return mean
        weight: Any = self.module.weight
        taps = weight[0, 0].numel()
        inputs = weight.shape[1]
        # Groups see parts of the channels: their mean stands for all of them.
        return mean.view(-1, inputs).mean(0).repeat_interleave(taps)


class Observation:
    """Watches layers while a model runs on samples; with `with`, so that the hooks go again."""

    def __init__(self, layers: Mapping[str, nn.Module]) -> None:
        self.observers = {name: Observer(module) for name, module in layers.items()}
        self._hooks: list[Any] = []

    def __enter__(self) -> Observation:
        for observer in self.observers.values():
            self._hooks.append(observer.module.register_forward_pre_hook(observer))
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def run(self, model: Callable[..., Any], samples: Iterable[Any]) -> list[Tensor]:
        """Runs the model on each sample without gradients; gives its outputs, as `first_output` does."""
        with torch.no_grad():
            outputs = [first_output(call(model, sample)) for sample in samples]
        if not outputs:
            raise InputError("the calibration set has no samples")
        return outputs
