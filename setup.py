"""Builds the native part of the wheel with CMake; everything else is in pyproject.toml.

The build folder (build/cmake) is kept, so that a second `pip install .` compiles only what changed. The wheel's root
gets what CMake installs: unihal/ beside paddle_custom_device/ and tensorflow-plugins/, the folders of site-packages in
which the frameworks look for plugins.

Which adapters are built: python/packaging/unihal_build.py. Environment: CMAKE_ARGS (more arguments for the
configuration), CMAKE_BUILD_PARALLEL_LEVEL (number of compile jobs).
"""

from __future__ import annotations

import importlib.metadata
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

SOURCE = Path(__file__).resolve().parent
sys.path.insert(0, str(SOURCE / "python" / "packaging"))  # as pyproject.toml's backend-path

from unihal_build import DISTRIBUTIONS, site_folders, wanted_adapters  # noqa: E402

BUILD = SOURCE / "build" / "cmake"

# Folders of the wheel that hold nothing but what CMake installs.
INSTALLED = ("unihal/lib", "unihal/include", "paddle_custom_device", "tensorflow-plugins")

# Paddle's own logger announces on stderr that it looks for plugins, before ours run. Python reads this file when
# it starts, early enough to raise that logger's level to warnings.
QUIET_PADDLE = SOURCE / "python" / "unihal_paddle.pth"


def tool(name: str) -> str:
    """The path of a build tool: beside this Python first (a PyPI package), then on PATH."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which(name, path=path)
    if found is None:
        raise SystemExit(f"unihal: {name} was not found; install it with: pip install {name}")
    return found


def run(command: list[str]) -> None:
    """Runs a build step; its own output says what went wrong."""
    code = subprocess.run(command, check=False).returncode
    if code != 0:
        raise SystemExit(f"unihal: the build failed with exit code {code}: {shlex.join(command)}")


def onednn_config() -> Path | None:
    """The folder of oneDNN's CMake package, from the PyPI package onednn-devel-cpu-gomp."""
    try:
        files = importlib.metadata.files("onednn-devel-cpu-gomp") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == "dnnl-config.cmake":
            return Path(str(file.locate())).resolve().parent
    return None


class CleanBuild(build_py):
    """Packs the packages' sources into an empty folder: the one of an earlier build holds modules that are gone."""

    def run(self) -> None:
        """Called by setuptools."""
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class CMakeBuild(build_ext):
    """Configures, builds and installs with CMake in place of compiling extensions one by one."""

    def run(self) -> None:
        """Called by setuptools."""
        wanted = wanted_adapters()
        print(f"unihal: adapters: {', '.join(sorted(wanted)) or 'none'}", file=sys.stderr)
        configure = [
            tool("cmake"),
            "-G",
            "Ninja",
            "-S",
            str(SOURCE),
            "-B",
            str(BUILD),
            "-DCMAKE_BUILD_TYPE=Release",
            f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}",
            f"-DPython_EXECUTABLE={sys.executable}",
            "-DUNIHAL_BUILD_PYTHON=ON",
            "-DUNIHAL_TENSORFLOW_FOLDERS=",  # what an earlier build was told is forgotten
            "-DUNIHAL_TORCH_FOLDERS=",
            *(f"-DUNIHAL_BUILD_{name.upper()}={'ON' if name in wanted else 'OFF'}" for name in DISTRIBUTIONS),
        ]
        onednn = onednn_config()
        if onednn is not None:
            configure.append(f"-Ddnnl_DIR={onednn}")
        configure += shlex.split(os.environ.get("CMAKE_ARGS", ""))
        # A build in isolation finds the TensorFlow that is installed already.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), *site_folders()]))
        run(configure)
        run([tool("cmake"), "--build", str(BUILD)])

        root = Path(self.build_lib).resolve()
        run([tool("cmake"), "--install", str(BUILD), "--prefix", str(root)])
        shutil.copy(QUIET_PADDLE, root)

    def get_outputs(self) -> list[str]:
        """What CMake installed, for setuptools' record."""
        root = Path(self.build_lib)
        files = [path for folder in INSTALLED for path in (root / folder).rglob("*") if path.is_file()]
        return [str(path) for path in [*files, root / QUIET_PADDLE.name]]


# The one extension makes setuptools tag the wheel with platform and Python; CMake knows its sources.
setup(ext_modules=[Extension("unihal._core", sources=[])], cmdclass={"build_py": CleanBuild, "build_ext": CMakeBuild})
