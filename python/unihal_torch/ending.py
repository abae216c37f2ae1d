"""The end of a process whose gradients PyTorch has computed in a thread of its own, as it does for every device.

That thread gives back what it holds of Python's (a copy of the context) when backward() has returned already. Where
Python ends meanwhile, waiting for its lock ends the thread with an exception through C++, and the process is aborted.
So the end waits for it: a last gradient, of a view, which launches nothing, is behind all others in the thread, and its
context tells when it was given back.
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import time
import weakref
from pathlib import Path

_LONGEST_WAIT = 1.0  # seconds

_mark: contextvars.ContextVar[object] = contextvars.ContextVar("unihal_torch_last_gradient")


class _Mark:
    """What a context is known by."""


def _has_threads() -> bool:
    """Whether PyTorch has begun to compute gradients in threads. They are named by it."""
    for task in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):
            if task.read_text().startswith("pt_autograd"):
                return True
    return False


def _last_gradient(name: str) -> weakref.ref[_Mark]:
    import torch

    mark = _Mark()
    _mark.set(mark)
    with torch.enable_grad():
        x = torch.empty(1, device=name, requires_grad=True)
        torch.autograd.grad(x.view(1, 1), x, torch.empty(1, 1, device=name))
    return weakref.ref(mark)


def _wait(name: str) -> None:
    # A device that has failed, or is gone, has nothing to wait for.
    with contextlib.suppress(Exception):
        if not _has_threads():
            return
        mark = contextvars.Context().run(_last_gradient, name)
        end = time.monotonic() + _LONGEST_WAIT
        while mark() is not None and time.monotonic() < end:
            time.sleep(0)  # which gives up Python's lock


def install(name: str) -> None:
    """Waits for the threads of the device of this name at the end of the process."""
    atexit.register(_wait, name)
