"""The end of a process whose gradients PyTorch has computed in a thread of its own, as it does for every device.

That thread gives back what it holds of Python's (a copy of the context, and the gradients, which are Python's objects
too) when backward() has returned already. Where Python ends meanwhile, waiting for its lock ends the thread with an
exception through C++, and the process is aborted. So the end waits for it: a last gradient, of a view of one number, is
behind all others in the thread; it and its context tell when they were given back.
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import time
import weakref
from pathlib import Path
from typing import Any

_LONGEST_WAIT = 1.0  # seconds, of a device
_THREAD = "pt_autograd_"

_mark: contextvars.ContextVar[object] = contextvars.ContextVar("unihal_torch_last_gradient")


class _Mark:
    """What a context is known by."""


def _devices_with_threads() -> set[int]:
    """The devices whose gradients PyTorch has begun to compute in threads, which it names by them."""
    found = set()
    for task in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError, ValueError):
            name = task.read_text().strip()
            if name.startswith(_THREAD):
                found.add(int(name.removeprefix(_THREAD)))
    return found


def _last_gradient(name: str) -> tuple[weakref.ref[Any], ...]:
    import torch

    mark = _Mark()
    _mark.set(mark)
    with torch.enable_grad():
        x = torch.empty(1, device=name, requires_grad=True)
        # Without a gradient to begin with, for which PyTorch would import its compiler now.
        (gradient,) = torch.autograd.grad(x.view(1, 1), x)
    return weakref.ref(mark), weakref.ref(gradient)


def _wait(name: str) -> None:
    # A device that has failed, or is gone, has nothing to wait for.
    with contextlib.suppress(Exception):
        for device in sorted(_devices_with_threads()):
            held = contextvars.Context().run(_last_gradient, f"{name}:{device}")
            end = time.monotonic() + _LONGEST_WAIT
            while any(each() is not None for each in held) and time.monotonic() < end:
                time.sleep(0)  # which gives up Python's lock


def install(name: str) -> None:
    """Waits for the threads of the devices of this type at the end of the process."""
    atexit.register(_wait, name)
