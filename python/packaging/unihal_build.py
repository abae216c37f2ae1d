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
    "onnxruntime": ("onnxruntime", "onnxruntime-gpu"),
}

#: The versions of TensorFlow and PyTorch that there is an adapter for; the package is not installed yet.
_PACKAGES = Path(__file__).resolve().parents[1]
_VERSIONS = {
    "tensorflow": runpy.run_path(str(_PACKAGES / "unihal" / "tensorflow_versions.py")),
    "torch": runpy.run_path(str(_PACKAGES / "unihal_torch" / "versions.py")),
}

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
    """Whether an adapter can be built for a version that is there: of TensorFlow and PyTorch, for known ones."""
    table = _VERSIONS.get(framework)
    return bool(version) and (table is None or table["minor_version"](version) in table["SUPPORTED"])


def is_built_unasked(framework: str) -> bool:
    """Whether an adapter is built because its framework is there; says why not, where it is."""
    version = installed_version(framework)
    if version and not is_supported(framework, version):
        supported = _VERSIONS[framework]["supported_range"]()
        print(f"unihal: no adapter for {framework} {version}: {supported} are supported", file=sys.stderr)
    return is_supported(framework, version)


def wanted_adapters() -> set[str]:
    """The adapters to build."""
    named = {extra for arguments in ancestors() for extra in extras(arguments)}
    wanted = set()
    for framework in DISTRIBUTIONS:
        said = switch(framework)
        if said if said is not None else framework in named or is_built_unasked(framework):
            wanted.add(framework)
    return wanted


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """What the build needs besides pyproject.toml's list."""
    requires = list(build_meta.get_requires_for_build_wheel(config_settings))
    wanted = wanted_adapters()
    for framework, table in _VERSIONS.items():
        # One that is there and not supported is replaced: the extra asks for the same.
        if framework in wanted and not is_supported(framework, installed_version(framework)):
            requires.append(table["requirement"]())
    return requires
