"""The minor versions of PyTorch that the adapter compiles against and is tested with.

The build reads this table too (plugins/torch/find_torch.py, python/packaging): it imports nothing.
"""

from __future__ import annotations

import re

#: Oldest first. A new row needs a run of `make test-torch-versions`; pyproject.toml's extra `torch` allows this range.
SUPPORTED = ("2.11", "2.12", "2.13", "2.14", "2.15")


def minor_version(version: str) -> str:
    """The major and minor number of a version: "2.13" of "2.13.0+cpu"."""
    match = re.match(r"\d+\.\d+", version)
    return match[0] if match else version


def supported_range() -> str:
    """How messages say the table: "2.11 to 2.15"."""
    return f"{SUPPORTED[0]} to {SUPPORTED[-1]}"
