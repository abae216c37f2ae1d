"""torch.profiler with the device's time of each op: by marks in the stream before and after it.

PyTorch measures so what is no device of its own, if it is told that there is no tracer for it (use_kineto=False); its
torch.profiler says there is one. Here it is told so wherever the device's time is asked for, and asks for it where it
asks for that of CUDA: without activities named.
"""

from __future__ import annotations

import functools
from typing import Any


def install(name: str) -> None:
    """Makes PyTorch's profilers measure the device of this name."""
    import torch
    from torch.autograd import profiler
    from torch.profiler import profiler as facade

    original: Any = profiler.profile.__init__
    supported: Any = facade.supported_activities

    @functools.wraps(original)
    def begin(self: Any, *args: Any, **options: Any) -> None:
        if options.get("use_device") == name:
            options["use_kineto"] = False
        original(self, *args, **options)

    @functools.wraps(supported)
    def supported_activities() -> set[Any]:
        return set(supported()) | {torch.profiler.ProfilerActivity.PrivateUse1}

    profiler.profile.__init__ = begin  # type: ignore[method-assign]
    facade.supported_activities = supported_activities
    torch.profiler.supported_activities = supported_activities
