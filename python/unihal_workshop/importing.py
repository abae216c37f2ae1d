"""Files that a user names, which register models."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from .errors import ModelError


def import_files(paths: Sequence[str]) -> None:
    """Runs Python files, which register models."""
    for text in paths:
        path = Path(text)
        name = f"_workshop_{path.stem}"
        if name in sys.modules:
            continue
        spec = importlib.util.spec_from_file_location(name, path)
        if not path.is_file() or spec is None or spec.loader is None:
            raise ModelError(f"--import {path}: expected a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise ModelError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
