"""Models of torchvision, transformers and diffusers, small and with random weights, and what they are fed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Batch = dict[str, Any]

#: What keeps torchvision's operators: they belong to the process as long as it lives.
_operators: list[torch.library.Library] = []


def torchvision_models() -> Any:
    """torchvision.models, also where torchvision's compiled half does not load: its wheels on PyPI are for PyTorch's CUDA
    build, and beside the CPU build the import ends at the two operators that it describes without looking whether they
    are there. Their schemas are enough; no model here calls them."""
    if importlib.util.find_spec("torchvision._C") is not None:
        spec = importlib.util.find_spec("torchvision._C")
        try:
            torch.ops.load_library(spec.origin)
        except OSError:
            library = torch.library.Library("torchvision", "FRAGMENT")
            for name in ("nms", "qnms"):
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            _operators.append(library)
    import torchvision.models

    return torchvision.models
