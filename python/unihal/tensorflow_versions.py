"""The minor versions of TensorFlow that the adapter is tested with, and those that this installation was built for.

The build reads this file too (plugins/tensorflow/find_tensorflow.py, python/packaging): it imports nothing of unihal.
"""

from __future__ import annotations

import re
from pathlib import Path

#: Oldest first. A new row needs a run of `make test-tensorflow-versions`; pyproject.toml's extra allows this range.
SUPPORTED = ("2.18", "2.19", "2.20", "2.21")

_SHIM = "libunihal_tensorflow_shim_"


def minor_version(version: str) -> str:
    """The major and minor number of a version: "2.20" of "2.20.0"."""
    match = re.match(r"\d+\.\d+", version)
    return match[0] if match else version


def requirement() -> str:
    """What pip is asked for: pyproject.toml's extra `tensorflow`, so that it takes the same version for both."""
    major, minor = SUPPORTED[-1].split(".")
    return f"tensorflow-cpu>={SUPPORTED[0]},<{major}.{int(minor) + 1}"


def supported_range() -> str:
    """How messages say the table: "2.18 to 2.21"."""
    return f"{SUPPORTED[0]} to {SUPPORTED[-1]}"


def built_versions() -> list[str]:
    """The versions that this installation has a shim for, oldest first."""
    libraries = (Path(__file__).resolve().parent / "lib").glob(f"{_SHIM}*.so")
    built = {path.name[len(_SHIM) : -len(".so")] for path in libraries}
    return [minor for minor in SUPPORTED if minor in built]


def misfit(version: str) -> str:
    """Why this installation does not serve a version of TensorFlow, and what to do; "" if it does."""
    minor = minor_version(version)
    if minor in built_versions():
        return ""
    if minor not in SUPPORTED:
        return (
            f"TensorFlow {version} is not supported, {supported_range()} are: install one of those, or a newer unihal"
        )
    built = " and ".join(built_versions()) or "no version"
    return (
        f"TensorFlow {version} is installed, and this unihal was built for {built}: build it again, in a clone of "
        "unihal: pip install --force-reinstall --no-deps '.[tensorflow]'"
    )
