"""Models that come with the workshop: pictures from texts, texts, and classes of pictures.

| name | class |
|---|---|
| `stable-diffusion` | `StableDiffusionInference` |
| `text-generation` | `TextGeneration` |
| `image-classification` | `ImageClassification` |
"""

from __future__ import annotations

import importlib
from typing import Any

#: Where each name of this package is: PyTorch and the libraries are imported when one is first used.
_PLACES = {
    "ImageClassification": "image_classification",
    "ProgressBar": "progress",
    "StableDiffusionInference": "stable_diffusion",
    "TextGeneration": "text_generation",
    "TorchPipeline": "base",
    "save_image": "progress",
}

__all__ = [
    "ImageClassification",
    "ProgressBar",
    "StableDiffusionInference",
    "TextGeneration",
    "TorchPipeline",
    "save_image",
]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
