"""Random weights for configurations without a file, drawn at the speed of memory.

A generator makes some ten million numbers a second, and Stable Diffusion has a billion weights. Here the numbers are
those of a table, over and over: its length is a prime, so that no two rows of a weight begin alike. Such weights serve
to see what a model's shapes cost and how far rounding goes; they serve no training.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

_LENGTH = 1_048_573  # the largest prime below 2**20


@contextmanager
def drawn_from_a_table(seed: int = 0) -> Iterator[None]:
    """Inside, `Tensor.normal_` and `Tensor.uniform_` of contiguous floating tensors on the CPU take numbers of a table
    that depends on the seed only; other tensors, and other threads, draw as ever.

    A generator that is handed over to them is not advanced. Not for two threads at a time.
    """
    # Twice in a row, so that a slice may begin anywhere; layers of a kind share one.
    tables: dict[tuple[Any, ...], Tensor] = {}
    thread, position = threading.get_ident(), 0

    def fill(tensor: Tensor, draw: Callable[..., Tensor], scale: float, shift: float) -> Tensor:
        nonlocal position
        key = (draw, scale, shift, tensor.dtype)
        if key not in tables:
            generator = torch.Generator().manual_seed(seed)
            table = draw(_LENGTH, generator=generator, dtype=torch.float32, device="cpu")
            tables[key] = (table * scale + shift).to(tensor.dtype).repeat(2)
        numbers = tables[key][position : position + _LENGTH]
        flat = tensor.detach().view(-1)
        whole = flat.numel() // _LENGTH * _LENGTH
        if whole:
            flat[:whole].view(-1, _LENGTH).copy_(numbers)
        flat[whole:].copy_(numbers[: flat.numel() - whole])
        position = (position + flat.numel()) % _LENGTH
        return tensor

    def served(tensor: Tensor) -> bool:
        return (
            threading.get_ident() == thread
            and tensor.device.type == "cpu"
            and tensor.is_floating_point()
            and tensor.is_contiguous()
        )

    def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
        if served(tensor):
            return fill(tensor, torch.randn, std, mean)
        return drawing["normal_"](tensor, mean, std, generator=generator)

    def uniform_(tensor: Tensor, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> Tensor:
        if served(tensor):
            return fill(tensor, torch.rand, high - low, low)
        return drawing["uniform_"](tensor, low, high, generator=generator)

    drawing: dict[str, Callable[..., Tensor]] = {"normal_": Tensor.normal_, "uniform_": Tensor.uniform_}
    # Tensor inherits both: what stands in front of them is taken away again.
    Tensor.normal_, Tensor.uniform_ = normal_, uniform_  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        del Tensor.normal_, Tensor.uniform_
