"""Prints the folder and the version of the PyTorch of this Python, `;`-separated, without importing it."""

import importlib.metadata
import importlib.util
from pathlib import Path

spec = importlib.util.find_spec("torch")
if spec is None or not spec.submodule_search_locations:
    raise SystemExit("unihal: PyTorch was not found; install it, or configure with -DUNIHAL_BUILD_TORCH=OFF")
print(Path(next(iter(spec.submodule_search_locations))), importlib.metadata.version("torch"), sep=";")
