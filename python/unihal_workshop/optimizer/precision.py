"""The dtype of single parts of a model: float32 where it matters, float16 where it does not.

set_precision(model, {"*norm*": "float32", "decoder.conv_out": "float32"})
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ModelError

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def dtype_of(name: str) -> torch.dtype:
    """A dtype by its name; another name is a ModelError."""
    if name not in DTYPES:
        raise ModelError(f"dtype {name!r}: expected {', '.join(DTYPES)}")
    return DTYPES[name]


def cast(value: Any, dtype: torch.dtype) -> Any:
    """Floating tensors in another dtype, inside of tuples, lists and mappings too; all else as it is."""
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if type(value) in (tuple, list):
        return type(value)(cast(item, dtype) for item in value)
    if type(value) is dict:
        return {key: cast(item, dtype) for key, item in value.items()}
    return value


class _Casts:
    """The hooks around one module: its inputs become its dtype, its output what its first input was."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.outside: list[torch.dtype] = []

    def before(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        outside = next((tensor.dtype for tensor in tensors if tensor.is_floating_point()), self.dtype)
        self.outside.append(outside)
        return cast(args, self.dtype), cast(kwargs, self.dtype)

    def after(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        return cast(output, self.outside.pop())


def set_precision(model: nn.Module, rules: Mapping[str, str]) -> dict[str, str]:
    """Casts the modules whose names match a pattern, and what goes into and out of them; in place.

    `rules`: patterns of module names (as of files) and dtypes; of several that match, the last one counts. A module
    below one that matched is cast with it. Gives the names of the modules that got hooks, each with its dtype. A
    pattern that matches nothing is a ModelError.
    """
    chosen: dict[str, str] = {}
    for pattern, dtype in rules.items():
        dtype_of(dtype)
        names = [name for name, _ in model.named_modules() if name and fnmatch.fnmatchcase(name, pattern)]
        if not names:
            raise ModelError(f"precision: no module's name matches {pattern!r}")
        chosen.update(dict.fromkeys(names, dtype))
    outermost = {
        name: dtype
        for name, dtype in chosen.items()
        if not any(name.startswith(f"{other}.") and chosen[other] == dtype for other in chosen)
    }
    for name, dtype in outermost.items():
        module = model.get_submodule(name)
        module.to(dtype_of(dtype))
        casts = _Casts(dtype_of(dtype))
        module.register_forward_pre_hook(casts.before, with_kwargs=True)
        module.register_forward_hook(casts.after, with_kwargs=True)
    return outermost
