"""Whether the installed frameworks load their adapters: tried in child processes, which may hang or crash."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import unihal_torch
from unihal_torch import versions as torch_versions

from .. import tensorflow_versions
from ..device import device_types

#: Marks the one line of a child's output that is ours; frameworks print others.
_MARK = "unihal-doctor:"

_PADDLE_PROGRAM = f"""
import json, paddle
types = paddle.device.get_all_custom_device_type() or []
found = [name.split(":")[0] for name in paddle.device.get_available_custom_device() or []]
print("{_MARK}" + json.dumps({{name: found.count(name) for name in types}}))
"""

_TENSORFLOW_PROGRAM = f"""
import json, tensorflow
found = [device.device_type for device in tensorflow.config.list_physical_devices()]
print("{_MARK}" + json.dumps({{name: found.count(name) for name in found if name != "CPU"}}))
"""

_TORCH_PROGRAM = f"""
import json, torch, unihal_torch
if unihal_torch.reason:
    raise SystemExit(unihal_torch.reason)
name = torch._C._get_privateuse1_backend_name()
print("{_MARK}" + json.dumps({{name: getattr(torch, name).device_count()}}))
"""

_ONNXRUNTIME_PROGRAM = f"""
import json, unihal.onnxruntime
found = [device.ep_metadata["unihal.device_type"] for device in unihal.onnxruntime.register()]
print("{_MARK}" + json.dumps({{name: found.count(name) for name in found}}))
"""


@dataclass(frozen=True)
class _Framework:
    name: str
    module: str
    # Distributions that bring the module.
    distributions: tuple[str, ...]
    extra: str
    supported: str
    #: The name of its library, or the pattern of several'.
    adapter: str
    plugin_folder: str
    program: str


_FRAMEWORKS = (
    _Framework(
        "paddle",
        "paddle",
        ("paddlepaddle", "paddlepaddle-gpu"),
        "paddle",
        "3.0 to 3.3",
        "libunihal_paddle.so",
        "paddle_custom_device",
        _PADDLE_PROGRAM,
    ),
    _Framework(
        "tensorflow",
        "tensorflow",
        ("tensorflow-cpu", "tensorflow"),
        "tensorflow",
        tensorflow_versions.supported_range(),
        "libunihal_tensorflow.so",
        "tensorflow-plugins",
        _TENSORFLOW_PROGRAM,
    ),
    _Framework(
        "pytorch",
        "torch",
        ("torch",),
        "torch",
        torch_versions.supported_range(),
        "libunihal_torch_*.so",
        "unihal_torch",
        _TORCH_PROGRAM,
    ),
    _Framework(
        "onnxruntime",
        "onnxruntime",
        ("onnxruntime", "onnxruntime-gpu"),
        "onnxruntime",
        "1.24 and later",
        "libunihal_onnxruntime.so",
        "unihal",
        _ONNXRUNTIME_PROGRAM,
    ),
)

# Of those with a library for each minor version: which are built, and why none is for a version.
_BUILT_FOR: dict[str, Callable[[], Iterable[str]]] = {
    "tensorflow": lambda: tensorflow_versions.built_versions(),
    "torch": lambda: unihal_torch.adapters(),
}
_MISFIT = {"tensorflow": tensorflow_versions.misfit, "torch": unihal_torch.misfit}


@dataclass
class FrameworkReport:
    """A framework, and how its adapter fares."""

    name: str
    installed: bool
    version: str = ""
    #: Path of the adapter's library, of PyTorch's one for each version; empty if this installation of unihal has none.
    adapter: str = ""
    #: Of PyTorch and TensorFlow, the versions that this installation's adapter was built for.
    built_for: list[str] = field(default_factory=list)
    adapter_loads: bool = False
    #: Whether the stub was asked for to find that out, since there is no device.
    tried_with_stub: bool = False
    #: Number of devices by the framework's name of the type.
    devices: dict[str, int] = field(default_factory=dict)
    error: str = ""
    next_step: str = ""


def check_frameworks(timeout: float, with_stub: bool) -> list[FrameworkReport]:
    """Examines all frameworks that unihal has adapters for."""
    return [_check(framework, timeout, with_stub) for framework in _FRAMEWORKS]


def _check(framework: _Framework, timeout: float, with_stub: bool) -> FrameworkReport:
    report = FrameworkReport(framework.name, installed=importlib.util.find_spec(framework.module) is not None)
    package = Path(__file__).resolve().parents[1]
    adapters = sorted((package / "lib").glob(framework.adapter))
    plugins = package.parent / framework.plugin_folder
    if adapters and plugins.is_dir():
        report.adapter = ", ".join(map(str, adapters))
    if framework.module in _BUILT_FOR:
        report.built_for = list(_BUILT_FOR[framework.module]())
    if not report.installed:
        report.next_step = f"To use it: pip install '.[{framework.extra}]' in a clone of unihal"
        return report
    report.version = _version(framework)
    if not report.adapter:
        report.error = "this installation of unihal has no adapter for it, which was neither there nor named then"
        report.next_step = (
            f"To build it, in a clone of unihal: pip install --force-reinstall --no-deps '.[{framework.extra}]'"
        )
        return report
    if framework.module in _MISFIT:
        report.error, _, report.next_step = _MISFIT[framework.module](report.version).partition(": ")
        if report.error:
            return report
    report.tried_with_stub = with_stub
    _try_in_child(framework, report, timeout)
    return report


def _version(framework: _Framework) -> str:
    for distribution in framework.distributions:
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "unknown"


def _try_in_child(framework: _Framework, report: FrameworkReport, timeout: float) -> None:
    environment = dict(os.environ)
    if report.tried_with_stub:
        environment["UNIHAL_BACKEND"] = "stub"
    report.next_step = (
        f"unihal works with {framework.name} {framework.supported}; see what the framework says with: "
        f'{sys.executable} -c "import {framework.module}"'
    )
    try:
        child = subprocess.run(
            [sys.executable, "-c", framework.program],
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        report.error = f"loading it took more than {timeout:g} seconds"
        return
    answers = [line[len(_MARK) :] for line in child.stdout.splitlines() if line.startswith(_MARK)]
    if child.returncode != 0 or not answers:
        last = (child.stderr.strip().splitlines() or ["no message"])[-1]
        report.error = f"loading it failed with exit code {child.returncode}: {last}"
        return
    report.devices = json.loads(answers[-1])
    ours = {name for kind in device_types() for name in (kind.paddle_name, kind.tensorflow_name)}
    report.adapter_loads = bool(ours & set(report.devices))
    if report.adapter_loads:
        report.next_step = ""
    else:
        seen = ", ".join(report.devices) or "none"
        report.error = f"it loaded, but shows no device of unihal (device types it shows: {seen})"
