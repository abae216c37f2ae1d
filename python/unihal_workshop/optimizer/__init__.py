"""Making a model fit, and measuring what it costs.

| | |
|---|---|
| `quantize(model, bits)` | weights in 8 or 4 bits, with the error of each layer and of the output |
| `LayerOffload`, `PartOffload` | weights in the host's memory, brought ahead of time |
| `fuse(model)` | norms with their activation, RMS norms as one op |
| `set_precision(model, rules)` | a dtype for single parts |
| `checkpoint(model)` | training that computes activations again |
| `Optimizer(model)` | each of a model's optimizations, or a search over them, measured |
"""

from __future__ import annotations

from .checkpointing import checkpoint
from .fusion import fuse
from .offload import LayerOffload, PartOffload
from .precision import set_precision
from .quantization import LayerError, QuantizationReport, quantize, weight_bytes
from .search import Limits, Optimizer, Trial

__all__ = [
    "LayerError",
    "LayerOffload",
    "Limits",
    "Optimizer",
    "PartOffload",
    "QuantizationReport",
    "Trial",
    "checkpoint",
    "fuse",
    "quantize",
    "set_precision",
    "weight_bytes",
]
