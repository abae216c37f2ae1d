"""A network run on the stub in this process, as a plan has it."""

from __future__ import annotations

import copy
import gc
from typing import Any

import torch
import unihal
from unihal_workshop.planning.check import run_module


def peak_of(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], **options: Any) -> tuple[int, int]:
    """Bytes that were allocated and reserved at the worst moment of a run; nothing else is on the device."""
    gc.collect()
    device = unihal.device("rdna")
    device.synchronize()
    device.empty_cache()
    assert device.memory_stats().allocated_bytes == 0, device.memory_stats()
    device.reset_peak_memory_stats()
    loaded = copy.deepcopy(module)
    run_module(loaded, inputs, repeats=2 if options.get("training") else 1, **options)
    torch.rdna.synchronize()
    stats = device.memory_stats()
    del loaded
    return int(stats.peak_allocated_bytes), int(stats.peak_reserved_bytes)
