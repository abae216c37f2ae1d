"""The build backend: setuptools', and which adapters a wheel gets.

An adapter is built if its framework is installed where unihal is going to be, or named: by an extra of the
installation (`pip install ".[tensorflow]"`), or in CMAKE_ARGS (`-DUNIHAL_BUILD_TENSORFLOW=ON`, or OFF). The adapters of
TensorFlow and PyTorch need their headers: they are downloaded only if one is wanted and its framework not there yet.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import runpy
import shlex
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403

#: The distributions that bring a framework, by the adapter's name in CMake options and extras.
DISTRIBUTIONS = {
    "paddle": ("paddlepaddle", "paddlepaddle-gpu"),
    "tensorflow": ("tensorflow-cpu", "tensorflow"),
    "torch": ("torch",),
}

#: The release whose headers the TensorFlow adapter and its shim are built against.
TENSORFLOW = "2.21"

#: The versions of PyTorch that there is an adapter for; the package is not installed yet.
_TORCH = runpy.run_path(str(Path(__file__).resolve().parents[1] / "unihal_torch" / "versions.py"))

_MOST_ANCESTORS = 8


def site_folders() -> list[str]:
    """Where unihal is going to be installed. A build in isolation does not see it on sys.path."""
    return sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})


def installed_version(framework: str) -> str:
    """The version of a framework that is installed there; empty if it is not."""
    for found in importlib.metadata.distributions(path=site_folders()):
        name = re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower()
        if name in DISTRIBUTIONS[framework]:
            return found.version
    return ""


def ancestors() -> Iterator[list[str]]:
    """The command lines of the processes that this one descends from, as far as the system shows them."""
    process = os.getppid()
    for _ in range(_MOST_ANCESTORS):
        try:
            arguments = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
            # "pid (name) state parent ...", and the name may have blanks and brackets.
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            return
        yield arguments


def extras(arguments: list[str]) -> set[str]:
    """The extras in the requirements of a command line: `.[paddle,tensorflow]`."""
    found = (re.search(r"\[([\w\s,.-]+)\]", argument) for argument in arguments)
    return {extra.strip() for match in found if match for extra in match[1].split(",")}


def switch(framework: str) -> bool | None:
    """What CMAKE_ARGS says of an adapter; the last word counts."""
    said = None
    for argument in shlex.split(os.environ.get("CMAKE_ARGS", "")):
        match = re.fullmatch(rf"-DUNIHAL_BUILD_{framework.upper()}(?::BOOL)?=(\w+)", argument)
        if match:
            said = match[1].upper() in ("ON", "1", "TRUE", "YES", "Y")
    return said


def is_supported(framework: str, version: str) -> bool:
    """Whether an adapter of a framework that is there can be built. Of PyTorch there is none for unknown versions."""
    if framework == "torch" and version and _TORCH["minor_version"](version) not in _TORCH["SUPPORTED"]:
        supported = _TORCH["supported_range"]()
        print(f"unihal: no adapter for PyTorch {version}: {supported} are supported", file=sys.stderr)
        return False
    return bool(version)


def wanted_adapters() -> set[str]:
    """The adapters to build."""
    named = {extra for arguments in ancestors() for extra in extras(arguments)}
    wanted = set()
    for framework in DISTRIBUTIONS:
        said = switch(framework)
        if said if said is not None else framework in named or is_supported(framework, installed_version(framework)):
            wanted.add(framework)
    return wanted


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """What the build needs besides pyproject.toml's list."""
    requires = list(build_meta.get_requires_for_build_wheel(config_settings))
    if "tensorflow" in wanted_adapters() and not installed_version("tensorflow").startswith(TENSORFLOW + "."):
        requires.append(f"tensorflow-cpu=={TENSORFLOW}.*")
    if "torch" in wanted_adapters() and not installed_version("torch"):
        # What pip takes for the extra, which allows all: the newest.
        requires.append(f"torch=={_TORCH['SUPPORTED'][-1]}.*")
    return requires
