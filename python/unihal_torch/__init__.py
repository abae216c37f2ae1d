"""What PyTorch loads when it is imported (its entry points ``torch.backends``): the device of unihal.

PyTorch has one name for a device that is not built into it. It is what ``UNIHAL_TORCH_DEVICE`` says, or else the first
of :data:`DEVICE_TYPES` of which there is a device. Without one PyTorch stays as it is, but for ``torch.rdna``,
``torch.iluvatar`` and ``torch.polaris``, whose ``is_available()`` is False. Nothing here raises: ``import torch`` never
fails because of unihal.

The package lies outside of ``unihal``, whose import a program that only imports PyTorch does not pay for.
"""

from __future__ import annotations

import ctypes
import os
import sys
import types
import warnings
from pathlib import Path

from .versions import SUPPORTED, minor_version, supported_range

#: The device types of unihal, each a name that PyTorch can have; the first one is looked for first.
DEVICE_TYPES = ("rdna", "iluvatar", "polaris")

#: The environment variable that chooses one.
VARIABLE = "UNIHAL_TORCH_DEVICE"

_LIBRARIES = Path(__file__).resolve().parent.parent / "unihal" / "lib"

#: Why there is no device; "" if there is one. `unihal doctor` shows it.
reason = "PyTorch was not imported"

#: The open library of the adapter.
library: ctypes.CDLL | None = None


def chosen_type() -> tuple[str, int]:
    """The device type of this process, and how many devices there are. ValueError for a name that unihal has not."""
    name = os.environ.get(VARIABLE, "")
    if name and name not in DEVICE_TYPES:
        raise ValueError(f"{VARIABLE} is {name!r}; it can be {', '.join(DEVICE_TYPES)}")
    for candidate in (name,) if name else DEVICE_TYPES:
        count = _count(candidate)
        if count > 0:
            return candidate, count
    return name or DEVICE_TYPES[0], 0


def adapters() -> dict[str, Path]:
    """The libraries of the adapter that were built, by the minor version of PyTorch that each is for."""
    found = {path.name[len("libunihal_torch_") : -len(".so")]: path for path in _LIBRARIES.glob("libunihal_torch_*.so")}
    return {minor: found[minor] for minor in SUPPORTED if minor in found}


def misfit(version: str) -> str:
    """Why no library of this installation is for a version of PyTorch, and what to do; "" if one is."""
    minor = minor_version(version)
    if minor in adapters():
        return ""
    if minor not in SUPPORTED:
        return f"PyTorch {version} is not supported, {supported_range()} are: install one of those, or a newer unihal"
    built = " and ".join(adapters()) or "no version"
    return (
        f"PyTorch {version} is installed, and this unihal was built for {built}: build it again, in a clone of unihal: "
        "pip install --force-reinstall --no-deps '.[torch]'"
    )


def _count(name: str) -> int:
    core = ctypes.CDLL(str(_LIBRARIES / "libunihal.so"))
    count = ctypes.c_int32(0)
    if core.uhal_device_count(name.encode(), ctypes.byref(count)) != 0:
        return 0
    return count.value


def _open(version: str, name: str, count: int) -> str:
    """Opens the adapter and registers the device; "" or why there is none."""
    global library
    if count == 0:
        return f"unihal finds no device of {name}: `unihal doctor` says what was looked for"
    why = misfit(version)
    if why:
        return why
    minor = minor_version(version)
    opened = ctypes.CDLL(str(adapters()[minor]))
    opened.uhal_torch_init.restype = ctypes.c_char_p
    error = opened.uhal_torch_init(name.encode(), count)
    if error is not None:
        return f"the adapter for PyTorch {minor} could not start: {error.decode(errors='replace')}"
    library = opened
    return ""


def _absent(name: str, why: str) -> types.ModuleType:
    """``torch.<name>`` where it is not the process's device."""
    module = types.ModuleType(f"torch.{name}", f"No device: {why}")

    def refuse(attribute: str) -> object:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise RuntimeError(f"torch.{name}.{attribute}: {why}")

    module.is_available = lambda: False  # type: ignore[attr-defined]
    module.device_count = lambda: 0  # type: ignore[attr-defined]
    module.__getattr__ = refuse  # type: ignore[method-assign]
    return module


def autoload() -> None:
    """Called by ``import torch``. Makes the device appear, or says in :data:`reason` why not."""
    global reason
    import torch

    name = ""
    try:
        name, count = chosen_type()
        reason = _open(torch.__version__, name, count)
        if not reason:
            from . import device_module, ending, optimizers, profiling

            device_module.install(name, count)
            optimizers.install(name)
            profiling.install(name)
            ending.install(name)
            if library is not None and torch.distributed.is_available():
                from . import distributed

                distributed.install(name, library)
        elif count > 0:  # a device that PyTorch cannot have
            warnings.warn(f"unihal: {reason}", stacklevel=2)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        warnings.warn(f"unihal: {reason}", stacklevel=2)
    for other in DEVICE_TYPES:
        if other == name and not reason:
            continue
        why = reason or f"PyTorch has one such device, here torch.{name}: set {VARIABLE}={other} before the import"
        module = _absent(other, why)
        sys.modules[f"torch.{other}"] = module
        setattr(torch, other, module)
