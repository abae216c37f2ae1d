"""GPUX: build, run, serve and inspect ONNX models, on ONNX Runtime.

    runtime = gpux.GPUXRuntime()
    runtime.load_model("model.onnx")
    outputs = runtime.infer({"x": array})

`pip install "unihal[gpux]"` brings what it needs; `gpux --help` is the program.
"""

from __future__ import annotations

import importlib
from typing import Any

from .errors import (
    BusyError,
    ConfigurationError,
    GPUXError,
    InputError,
    ModelError,
    ProviderError,
    RequestTimeoutError,
    ServiceError,
    UnknownModelError,
)

# Loaded when first used: `import gpux` alone needs neither ONNX Runtime nor Pydantic. __init__.pyi has their types.
_LAZY = {
    "GPUXRuntime": "gpux.execution.runtime",
    "ModelInspector": "gpux.inspection.inspector",
    "ProviderManager": "gpux.providers",
}

__all__ = [
    "BusyError",
    "ConfigurationError",
    "GPUXError",
    "GPUXRuntime",
    "InputError",
    "ModelError",
    "ModelInspector",
    "ProviderError",
    "ProviderManager",
    "RequestTimeoutError",
    "ServiceError",
    "UnknownModelError",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
