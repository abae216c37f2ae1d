"""Training in less memory: layers forget what they computed, and compute it again in the backward pass."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint as recompute

from ..errors import ModelError


class Checkpointed(nn.Module):
    """A layer whose activations are not kept for the backward pass, but computed again there."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As the layer; without gradients it is called as it is."""
        if not self.training:
            return self.module(*args, **kwargs)
        return recompute(self.module, *args, use_reentrant=False, **kwargs)


def repeated_layers(model: nn.Module) -> list[str]:
    """The names of a model's layers in lists: of each `ModuleList` or `Sequential` that has several of one class."""
    found: list[str] = []
    for name, module in model.named_modules():
        if not isinstance(module, (nn.ModuleList, nn.Sequential)) or len(module) < 2:
            continue
        kinds = {type(child) for child in module}
        has_children = all(any(True for _ in child.children()) for child in module)
        if len(kinds) == 1 and has_children and not any(name.startswith(f"{other}.") for other in found):
            found += [f"{name}.{child}" if name else child for child, _ in module.named_children()]
    return found


def checkpoint(model: nn.Module, patterns: Sequence[str] = ()) -> list[str]:
    """Makes layers recompute their activations in the backward pass, in place; gives their names.

    `patterns` of names; without any, the layers that the model has in lists (`repeated_layers`). What the model gives
    and its gradients stay; a training step takes about a third more time. A pattern that matches nothing, or a model
    without such layers, is a ModelError.
    """
    if patterns:
        names = []
        for pattern in patterns:
            matched = [name for name, _ in model.named_modules() if name and fnmatch.fnmatchcase(name, pattern)]
            if not matched:
                raise ModelError(f"checkpoint: no module's name matches {pattern!r}")
            names += matched
        names = [name for name in dict.fromkeys(names) if not any(name.startswith(f"{o}.") for o in names)]
    else:
        names = repeated_layers(model)
        if not names:
            raise ModelError("checkpoint: the model has no lists of layers; name layers by patterns")
    for name in names:
        parent, _, child = name.rpartition(".")
        owner = model.get_submodule(parent)
        setattr(owner, child, Checkpointed(model.get_submodule(name)))
    return names
