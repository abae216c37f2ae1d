"""torchvision beside a PyTorch that its compiled half was not built for.

transformers and diffusers import torchvision wherever it is installed. Its wheels on PyPI are for PyTorch's CUDA build;
beside the CPU build that half does not load, and the import ends in an error at two operators, which torchvision
describes without looking whether they are there. No model of the workshop calls them.
"""

from __future__ import annotations

import contextlib
import importlib.util
from pathlib import Path
from typing import Any

#: Keeps the operators: they last as long as the process.
_operators: list[Any] = []


def make_importable() -> None:
    """Declares the two operators where torchvision is installed and has not got them. Who calls one is told by PyTorch
    that it has no kernel. Does nothing where torchvision is whole, or is not there."""
    package = importlib.util.find_spec("torchvision")
    if _operators or package is None:
        return
    import torch

    for folder in package.submodule_search_locations or []:
        with contextlib.suppress(OSError):
            torch.ops.load_library(str(Path(folder) / "_C.so"))
            return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _operators.append(library)
