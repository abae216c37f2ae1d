"""What `unihal doctor` finds out."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from pathlib import Path

from .. import _core, errors
from ..device import BackendReport, Device, DeviceProperties, DeviceType, backend_reports, device_types
from .framework_check import FrameworkReport, check_frameworks

# Beside UNIHAL_*: variables that change what drivers and frameworks find. A stale one is a frequent cause of trouble.
_RELATED_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "CUSTOM_DEVICE_ROOT",
    "HIP_VISIBLE_DEVICES",
    "HSA_OVERRIDE_GFX_VERSION",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "OCL_ICD_VENDORS",
    "OMP_NUM_THREADS",
    "ROCR_VISIBLE_DEVICES",
    "TF_PLUGGABLE_DEVICE_LIBRARY_PATH",
)


@dataclass
class DeviceTypeReport:
    """A device type, what became of its backends, and its devices."""

    type: DeviceType
    backends: list[BackendReport] = field(default_factory=list)
    devices: list[DeviceProperties] = field(default_factory=list)
    #: Why the type could not be examined; empty if it could.
    error: str = ""


@dataclass
class Problem:
    """Something that keeps unihal from being used, and what to do about it."""

    what: str
    next_step: str


@dataclass
class Report:
    """All that the doctor found."""

    version: str
    abi_version: tuple[int, int]
    location: str
    python: str
    system: str
    device_types: list[DeviceTypeReport]
    frameworks: list[FrameworkReport]
    environment: dict[str, str]
    problems: list[Problem]
    #: Whether any device can be used.
    usable: bool


def examine(timeout: float) -> Report:
    """Looks at everything. ``timeout``: seconds that each framework may take to load."""
    types = [_examine_type(kind) for kind in device_types()]
    usable = any(entry.devices for entry in types)
    # Without devices the adapters have nothing to show; the stub tells whether they load at all.
    frameworks = check_frameworks(timeout, with_stub=not usable)
    return Report(
        version=_core.version(),
        abi_version=_core.abi_version(),
        location=str(Path(__file__).resolve().parents[1]),
        python=platform.python_version(),
        system=platform.platform(),
        device_types=types,
        frameworks=frameworks,
        environment=_environment(),
        problems=_problems(types, frameworks),
        usable=usable,
    )


def _examine_type(kind: DeviceType) -> DeviceTypeReport:
    report = DeviceTypeReport(kind)
    try:
        report.backends = backend_reports(kind.name)
        for ordinal in range(_core.device_count(kind.name)):
            report.devices.append(Device(kind.name, ordinal).properties)
    except errors.Error as error:
        report.error = str(error)
    return report


def _environment() -> dict[str, str]:
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith("UNIHAL_") or name in _RELATED_VARIABLES
    }


def _problems(types: list[DeviceTypeReport], frameworks: list[FrameworkReport]) -> list[Problem]:
    problems: list[Problem] = []
    # The same cause, such as a nonsense variable, shows in every type: say it once.
    for message in dict.fromkeys(entry.error for entry in types if entry.error):
        problems.append(Problem(message, "Correct what the message names, then run `unihal doctor` again."))
    for entry in types:
        if entry.devices or entry.error:
            continue
        looked = ", ".join(report.backend for report in entry.backends if report.state == "refused")
        what = f"No {entry.type.name} device was found" + (f" by {looked}." if looked else ".")
        problems.append(
            Problem(
                what,
                "Follow the reasons listed for its backends; or set UNIHAL_BACKEND=stub, and host memory stands in "
                "for hardware.",
            )
        )
    for framework in frameworks:
        if framework.installed and not framework.adapter_loads:
            problems.append(Problem(f"{framework.name}: {framework.error}", framework.next_step))
    return problems
