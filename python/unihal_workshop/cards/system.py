"""What Linux tells of graphics cards: sysfs and /proc, packages' files, and the vendors' tools.

Every function takes the root of the file system, so that a tree of a test stands in for it. A file that is missing,
or holds something else than expected, is a value that is not known (None or ""), never an error: kernels differ.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

_AMD, _NVIDIA, _INTEL, _ILUVATAR = 0x1002, 0x10DE, 0x8086, 0x1E3E
VENDORS = {_AMD: "AMD", _NVIDIA: "NVIDIA", _INTEL: "Intel", _ILUVATAR: "Iluvatar CoreX"}

#: PCI ids of cards that have a profile: those of one id that differ in memory are told by it.
_PROFILES: dict[tuple[int, int], tuple[tuple[int, str], ...]] = {
    (_AMD, 0x67DF): ((5 << 30, "rx580-4gb"), (1 << 60, "rx580-8gb")),
    (_AMD, 0x73BF): ((1 << 60, "rx6800xt"),),
    (_AMD, 0x744C): ((1 << 60, "rx7900xtx"),),
}
_TOOL_SECONDS = 5.0

#: Runs a command, and gives what it printed (None: it is not there or failed).
Runner = Callable[[Sequence[str]], Optional[str]]


@dataclass(frozen=True)
class Telemetry:
    """A card's state: percent, MHz, degrees Celsius, watts, bytes; None where the system does not tell."""

    busy_percent: float | None = None
    core_megahertz: float | None = None
    memory_megahertz: float | None = None
    celsius: float | None = None
    watts: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    #: Where the numbers come from: `sysfs`, `rocm-smi`, `ixsmi`, or "" for none.
    source: str = ""


@dataclass(frozen=True)
class Driver:
    """A driver or a library: its name, its version as it calls itself ("" where it does not tell), and where that
    stands."""

    name: str
    version: str
    source: str


@dataclass(frozen=True)
class SystemCard:
    """A card as the kernel knows it. `profile` is the name of the profile that fits, "" where none does."""

    node: str
    pci_bus_id: str
    vendor_id: int
    device_id: int
    vendor: str
    title: str
    profile: str
    driver: Driver
    telemetry: Telemetry


def run_tool(command: Sequence[str]) -> str | None:
    """What a tool prints; None if it is not there, fails, or takes longer than five seconds."""
    if shutil.which(command[0]) is None:
        return None
    try:
        process = subprocess.run(
            list(command), capture_output=True, text=True, timeout=_TOOL_SECONDS, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return process.stdout if process.returncode == 0 else None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path, scale: float = 1.0) -> float | None:
    try:
        return int(_text(path), 0) * scale
    except ValueError:
        return None


def _whole(path: Path) -> int | None:
    value = _number(path)
    return int(value) if value is not None else None


def _present_clock(path: Path) -> float | None:
    """Of lines such as `2: 1340Mhz *`, the one with the star."""
    match = re.search(r"(\d+) *mhz *\*", _text(path), re.IGNORECASE)
    return float(match[1]) if match else None


def cards(root: Path = Path("/"), runner: Runner = run_tool) -> list[SystemCard]:
    """The graphics cards of this machine, in the kernel's order."""
    found = []
    for folder in sorted((root / "sys/class/drm").glob("card[0-9]*"), key=lambda path: (len(path.name), path.name)):
        device = folder / "device"
        if "-" in folder.name or not (device / "vendor").exists():
            continue  # a connector, or a virtual node
        vendor_id, device_id = _whole(device / "vendor") or 0, _whole(device / "device") or 0
        state = _sysfs_telemetry(device)
        bus = next(
            (line.partition("=")[2] for line in _text(device / "uevent").splitlines() if line.startswith("PCI_SLOT")),
            "",
        )
        found.append(
            SystemCard(
                folder.name,
                bus,
                vendor_id,
                device_id,
                VENDORS.get(vendor_id, f"vendor {vendor_id:#06x}"),
                _text(device / "product_name"),
                profile_of(vendor_id, device_id, state.memory_total),
                _kernel_driver(device, root),
                state,
            )
        )
    return [_with_tool(card, index, runner) for index, card in enumerate(found)]


def profile_of(vendor_id: int, device_id: int, memory: int | None) -> str:
    """The name of a card's profile, "" if there is none, or if its memory would have to tell and is not known."""
    rows = _PROFILES.get((vendor_id, device_id), ())
    if len(rows) > 1 and memory is None:
        return ""
    return next((name for most, name in rows if (memory or 0) < most), "")


def _sysfs_telemetry(device: Path) -> Telemetry:
    sensors = next(iter(sorted((device / "hwmon").glob("hwmon*"))), device / "hwmon/none")
    watts = _number(sensors / "power1_average", 1e-6)
    if watts is None:
        watts = _number(sensors / "power1_input", 1e-6)
    state = Telemetry(
        _number(device / "gpu_busy_percent"),
        _present_clock(device / "pp_dpm_sclk"),
        _present_clock(device / "pp_dpm_mclk"),
        _number(sensors / "temp1_input", 1e-3),
        watts,
        _whole(device / "mem_info_vram_used"),
        _whole(device / "mem_info_vram_total"),
    )
    known = any(value is not None for key, value in state.__dict__.items() if key != "source")
    return Telemetry(**{**state.__dict__, "source": "sysfs" if known else ""})


def _with_tool(card: SystemCard, index: int, runner: Runner) -> SystemCard:
    """What sysfs does not tell, from the vendor's tool."""
    if card.telemetry.busy_percent is not None and card.telemetry.celsius is not None:
        return card
    asked = {_AMD: _rocm_smi, _ILUVATAR: _ixsmi}.get(card.vendor_id)
    told = asked(index, runner) if asked is not None else None
    if told is None:
        return card
    merged = {
        key: value if value not in (None, "") else told.__dict__[key] for key, value in card.telemetry.__dict__.items()
    }
    merged["source"] = "+".join(filter(None, (card.telemetry.source, told.source)))
    return SystemCard(**{**card.__dict__, "telemetry": Telemetry(**merged)})


def _rocm_smi(index: int, runner: Runner) -> Telemetry | None:
    text = runner(
        ["rocm-smi", "--showuse", "--showtemp", "--showpower", "--showclocks", "--showmeminfo", "vram", "--json"]
    )
    try:
        values: dict[str, Any] = dict(json.loads(text or "")[f"card{index}"])
    except (ValueError, KeyError, TypeError):
        return None

    def find(*words: str) -> float | None:
        for key, value in values.items():
            if all(word in key.lower() for word in words):
                match = re.search(r"-?\d+(?:\.\d+)?", str(value))
                if match:
                    return float(match[0])
        return None

    used, total = find("vram", "used"), find("vram", "total memory")
    return Telemetry(
        find("gpu use"),
        find("sclk clock speed"),
        find("mclk clock speed"),
        find("temperature", "edge"),
        find("power", "(w)"),
        int(used) if used is not None else None,
        int(total) if total is not None else None,
        "rocm-smi",
    )


def _ixsmi(index: int, runner: Runner) -> Telemetry | None:
    fields = "utilization.gpu,clocks.sm,clocks.mem,temperature.gpu,power.draw,memory.used,memory.total"
    text = runner(["ixsmi", f"--query-gpu={fields}", "--format=csv,noheader,nounits", f"--id={index}"])
    cells = [cell.strip() for cell in (text or "").splitlines()[0].split(",")] if (text or "").strip() else []
    if len(cells) != 7:
        return None

    def number(cell: str) -> float | None:
        match = re.match(r"-?\d+(?:\.\d+)?", cell)
        return float(match[0]) if match else None

    values = [number(cell) for cell in cells]
    sizes = [int(value * (1 << 20)) if value is not None else None for value in values[5:]]
    return Telemetry(values[0], values[1], values[2], values[3], values[4], sizes[0], sizes[1], "ixsmi")


def _kernel_driver(device: Path, root: Path) -> Driver:
    link = device / "driver"
    name = link.resolve().name if link.exists() else ""
    for line in _text(device / "uevent").splitlines():
        if line.startswith("DRIVER="):
            name = line.partition("=")[2]
    if not name:
        return Driver("", "", "")
    shown = {"amdgpu": "AMDGPU", "nvidia": "NVIDIA", "iluvatar": "CoreX", "bi_v100": "CoreX"}.get(name, name)
    version = _text(root / "sys/module" / name / "version")
    if version:
        return Driver(shown, version, f"/sys/module/{name}/version")
    kernel = _text(root / "proc/sys/kernel/osrelease")
    return Driver(shown, f"of Linux {kernel}" if kernel else "", "/proc/sys/kernel/osrelease" if kernel else "")


def libraries(root: Path = Path("/")) -> list[Driver]:
    """The stacks above the kernel: Mesa, ROCm, CoreX, in so far as they are installed."""
    found = []
    for path in sorted((root / "usr/lib").glob("*/libgallium-*.so")) + sorted(
        (root / "usr/lib64").glob("libgallium-*.so")
    ):
        match = re.fullmatch(r"libgallium-(.+)\.so", path.name)
        if match:
            found.append(Driver("Mesa", match[1], _shown(path, root)))
    if not found:
        icd = root / "etc/OpenCL/vendors"
        names = [path for pattern in ("rusticl.icd", "mesa.icd") for path in icd.glob(pattern)]
        found += [Driver("Mesa", _package_version(root, "mesa-opencl-icd"), _shown(path, root)) for path in names[:1]]
    for place in (root / "opt/rocm/.info/version", *sorted((root / "opt").glob("rocm-*/.info/version"))):
        version = _text(place)
        if version:
            found.append(Driver("ROCm", version, _shown(place, root)))
            break
    for place in (root / "usr/local/corex", *sorted((root / "usr/local").glob("corex-*"))):
        if place.is_dir():
            version = _text(place / "version.txt") or place.name.partition("-")[2]
            number = re.search(r"\d+(?:\.\d+)+", version)
            found.append(Driver("CoreX", number[0] if number else version, _shown(place, root)))
            break
    return found


def _shown(path: Path, root: Path) -> str:
    return "/" + str(path.relative_to(root))


def _package_version(root: Path, package: str) -> str:
    text = _text(root / "var/lib/dpkg/status")
    match = re.search(rf"^Package: {re.escape(package)}$(?:\n.+)*?\nVersion: (.+)$", text, re.MULTILINE)
    return match[1] if match else ""
