"""Calls on the device whose results are those of PyTorch's CPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

DEVICE = torch._C._get_privateuse1_backend_name()
FLOATS = (torch.float32, torch.float64)
#: The fast stub: a number outside is the error of the call that was given it, and not one of who waits next.
COMPUTES_AT_ONCE = os.environ.get("UNIHAL_BACKEND", "stub") == "stub" and os.environ.get("UNIHAL_STUB") != "strict"


def on_device(value: Any) -> Any:
    """A tensor on the device, which wants a gradient if it did; other values as they are."""
    if isinstance(value, torch.Tensor):
        return value.detach().to(DEVICE).requires_grad_(value.requires_grad)
    return value


def check(call: Callable[..., Any], *operands: Any, exact: bool = True, **tolerance: float) -> None:
    """Asserts that results, in their order, are the CPU's: to the last bit, or within a tolerance."""
    expected, found = call(*operands), call(*(on_device(value) for value in operands))
    for theirs, ours in zip(*((r if isinstance(r, tuple) else (r,)) for r in (expected, found)), strict=True):
        limits = {"rtol": 0.0, "atol": 0.0} if exact else tolerance
        torch.testing.assert_close(ours.cpu(), theirs, equal_nan=True, **limits)


def special_numbers(dtype: torch.dtype) -> torch.Tensor:
    """Numbers of both signs at which a dtype ends, and such that are none."""
    limits = torch.finfo(dtype)
    numbers = [
        0.0,
        1.0,
        2.5,
        1e10,
        0.1,
        float("inf"),
        float("nan"),
        limits.max,
        limits.tiny,
        limits.smallest_normal / 4,
    ]
    return torch.tensor(numbers + [-number for number in numbers], dtype=dtype)
