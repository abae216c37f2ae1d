"""unihal's devices in ONNX Runtime: an execution provider for the stock wheel, 1.24 and later.

>>> import onnxruntime, unihal.onnxruntime
>>> options = onnxruntime.SessionOptions()
>>> unihal.onnxruntime.add_to(options, "rdna")
>>> session = onnxruntime.InferenceSession("model.onnx", options)

C and C++ programs register the library themselves, by the path that :func:`library` gives. What the provider runs and
what it leaves to ONNX Runtime's CPU provider: docs/onnxruntime.md.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from .paths import library_dir

if TYPE_CHECKING:
    import onnxruntime

#: The provider's name in ONNX Runtime.
PROVIDER = "UnihalExecutionProvider"

#: The name under which the library is registered.
REGISTRATION = "unihal"

#: The first release of ONNX Runtime with registries of kernels for providers from outside.
OLDEST = (1, 24)

_lock = threading.Lock()
_registered = False


def library() -> str:
    """The path of the provider's library. FileNotFoundError if this installation of unihal has none."""
    path = Path(library_dir()) / "libunihal_onnxruntime.so"
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing: this unihal was built without ONNX Runtime's provider. To build it, in a clone of "
            "unihal: pip install --force-reinstall --no-deps '.[onnxruntime]'"
        )
    return str(path)


def register() -> list[onnxruntime.OrtEpDevice]:
    """Registers the provider with this process's ONNX Runtime, once, and gives the devices that it finds.

    The list is empty where unihal finds no device: ``unihal doctor`` says why. RuntimeError for an ONNX Runtime before
    1.24; ImportError without one.
    """
    global _registered
    import onnxruntime

    version = tuple(int(number) for number in re.findall(r"\d+", onnxruntime.__version__)[:2])
    if version < OLDEST:
        raise RuntimeError(
            f"onnxruntime {onnxruntime.__version__} cannot load unihal's provider; it takes 1.24 or later: "
            "pip install 'onnxruntime>=1.24'"
        )
    with _lock:
        if not _registered:
            onnxruntime.register_execution_provider_library(REGISTRATION, library())
            _registered = True
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == PROVIDER]


def device(device_type: str, ordinal: int = 0) -> onnxruntime.OrtEpDevice:
    """One device, as ``SessionOptions.add_provider_for_devices`` takes it. ValueError, with those that there are."""
    found = register()
    for candidate in found:
        metadata = candidate.ep_metadata
        if metadata["unihal.device_type"] == device_type and int(metadata["unihal.ordinal"]) == ordinal:
            return candidate
    known = ", ".join(f"{d.ep_metadata['unihal.device_type']}:{d.ep_metadata['unihal.ordinal']}" for d in found)
    raise ValueError(
        f"ONNX Runtime has no device {device_type}:{ordinal} of unihal; it has {known or 'none'}. `unihal doctor` says "
        "what was looked for"
    )


def add_to(
    options: onnxruntime.SessionOptions,
    device_type: str = "rdna",
    ordinal: int = 0,
    *,
    math_mode: str = "strict",
    memory_limit: int | str | None = None,
    layout: str = "auto",
    graph: bool = False,
) -> None:
    """Makes a session run on a device; what it does not run goes to the CPU.

    ``math_mode`` is "strict" or "tf32"; ``memory_limit`` caps the device's memory, of all sessions on it, in bytes or
    as "512M". ``layout`` is how images lie in memory between convolutions and pools: "nchw", "nhwc", or "auto" for what
    the device runs faster. With ``graph`` the third run of a session is captured, and later ones launch all its work at
    once: for IO binding with tensors that stay where they are, of models of which no node is left to the CPU (ONNX
    Runtime 1.26 or later). A wrong value is an error when the session is made.
    """
    values = {"math_mode": math_mode, "layout": layout, "graph": str(int(graph))}
    if memory_limit is not None:
        values["memory_limit"] = str(memory_limit)
    options.add_provider_for_devices([device(device_type, ordinal)], values)


def memory(device_type: str = "rdna", ordinal: int = 0) -> tuple[str, int, int]:
    """What ONNX Runtime calls the device's memory: ``("gpu", number, vendor's number)``.

    >>> kind, number, vendor = unihal.onnxruntime.memory("rdna")
    >>> x = onnxruntime.OrtValue.ortvalue_from_numpy(array, kind, number, vendor)
    """
    hardware = device(device_type, ordinal).device
    return "gpu", hardware.device_id, hardware.vendor_id
