"""What ops of the adapter take besides their outputs while they run (plugins/torch/kernels)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def workspaces_of(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any) -> list[int]:
    """Bytes of each piece of scratch memory of an op, in the order in which it is asked for."""
    return []
