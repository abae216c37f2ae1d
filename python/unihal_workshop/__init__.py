"""The small card's workshop: know the card, plan the memory, run the model.

    import unihal_workshop as workshop

    plan = workshop.MemoryManager().plan(model, (images,), card="rx580-4gb")
    print(plan)

`pip install "unihal[workshop]"` brings what it needs; `workshop --help` is the program.
"""

from __future__ import annotations

import importlib
from typing import Any

from .errors import (
    ConfigurationError,
    DeviceError,
    DoesNotFitError,
    InputError,
    ModelError,
    StageError,
    WorkshopError,
)
from .inference import BaseInference, PlanStage, Progress, Result, Run, create, register, registered

# Loaded when first used: `import unihal_workshop` alone needs neither PyTorch nor Pydantic.
_LAZY: dict[str, str] = {
    "Card": "unihal_workshop.cards.profiles",
    "Config": "unihal_workshop.configuration.config",
    "GPUInfo": "unihal_workshop.cards.gpu",
    "GPUManager": "unihal_workshop.cards.gpu",
    "MemoryManager": "unihal_workshop.planning.memory",
    "MemoryStats": "unihal_workshop.planning.memory",
    "Plan": "unihal_workshop.planning.plan",
    "ProfileEntry": "unihal_workshop.profiling.profiler",
    "Profiler": "unihal_workshop.profiling.profiler",
    "find_card": "unihal_workshop.cards.profiles",
    "plan": "unihal_workshop.planning.planner",
}

__all__ = [
    "BaseInference",
    "Card",
    "Config",
    "ConfigurationError",
    "DeviceError",
    "DoesNotFitError",
    "GPUInfo",
    "GPUManager",
    "InputError",
    "MemoryManager",
    "MemoryStats",
    "ModelError",
    "Plan",
    "PlanStage",
    "ProfileEntry",
    "Profiler",
    "Progress",
    "Result",
    "Run",
    "StageError",
    "WorkshopError",
    "create",
    "find_card",
    "plan",
    "register",
    "registered",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
