"""Which cards are here, what drives them, and which backend computes."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import DeviceError
from .profiles import CARDS, Card
from .system import Driver, Runner, SystemCard, Telemetry, cards, libraries, run_tool

#: What a person calls a backend.
BACKENDS = {"hip": "ROCm", "opencl": "OpenCL", "corex": "CoreX", "stub": "the stub (host memory stands in for a card)"}

#: Variables beside UNIHAL_* that change what drivers and frameworks find, each with what it does.
OVERRIDES = {
    "CUDA_VISIBLE_DEVICES": "hides devices from CUDA and CoreX",
    "GPU_MAX_ALLOC_PERCENT": "caps one allocation of AMD's OpenCL",
    "GPU_MAX_HEAP_SIZE": "caps the memory that AMD's OpenCL gives",
    "HIP_VISIBLE_DEVICES": "hides devices from HIP",
    "HSA_OVERRIDE_GFX_VERSION": "makes ROCm take the card for another one",
    "OCL_ICD_VENDORS": "says which OpenCL drivers are looked for",
    "ROCR_VISIBLE_DEVICES": "hides devices from ROCm",
    "ROC_ENABLE_PRE_VEGA": "lets ROCm take cards before Vega, the RX 580 among them",
    "RUSTICL_ENABLE": "says which of Mesa's drivers offer OpenCL",
    "RUSTICL_FEATURES": "switches float16 and float64 of Mesa's OpenCL on",
}


@dataclass(frozen=True)
class BackendChoice:
    """The backend that serves a device type, and why.

    `backend` is unihal's name ("" where none serves, and the CPU computes), `name` what people call it. `why` has a
    reason for each backend that was asked, in order.
    """

    device_type: str
    backend: str
    name: str
    why: tuple[str, ...]
    devices: int


@dataclass(frozen=True)
class GPUInfo:
    """A card: what the kernel and unihal know of it. Bytes; "" and 0 where something is not known.

    `device` is unihal's name (`rdna:0`), "" if unihal does not drive the card. `stub`: it is no card, host memory
    stands in. `profile` is the profile that plans for this card take.
    """

    name: str
    vendor: str
    device: str
    backend: str
    memory: int
    compute_units: int
    pci_bus_id: str
    driver: Driver
    compute_driver: str
    profile: str
    stub: bool
    telemetry: Telemetry = field(default_factory=Telemetry)

    @property
    def card(self) -> Card | None:
        """The card's profile."""
        return CARDS.get(self.profile)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {**self.__dict__, "driver": dict(self.driver.__dict__), "telemetry": dict(self.telemetry.__dict__)}


class GPUManager:
    """Looks for cards. `root` is the file system's (a test gives a tree of its own), `runner` runs the vendors' tools.

    Nothing is opened before `initialize`, and nothing is kept: each call looks anew.
    """

    def __init__(self, root: str | Path = "/", runner: Runner = run_tool) -> None:
        self._root = Path(root)
        self._runner = runner

    def detect(self) -> list[GPUInfo]:
        """All cards: those that unihal drives, then those that only the kernel knows."""
        system = cards(self._root, self._runner)
        taken: set[str] = set()
        found = [self._joined(properties, system, taken) for properties in _devices()]
        found += [_of_system(card) for card in system if card.node not in taken]
        return found

    def libraries(self) -> list[Driver]:
        """The stacks above the kernel, with their versions: Mesa, ROCm, CoreX."""
        return libraries(self._root)

    def backend(self, device_type: str = "rdna") -> BackendChoice:
        """Which backend serves a device type, and why not another one. An unknown type is a DeviceError."""
        import unihal

        try:
            reports = unihal.backend_reports(device_type)
        except unihal.errors.Error as error:
            raise DeviceError(str(error)) from error
        chosen = next((report for report in reports if report.state == "chosen"), None)
        why = []
        for report in reports:
            name = BACKENDS.get(report.backend, report.backend)
            said = report.reason or ("it serves" if report.state == "chosen" else "no reason was given")
            why.append(f"{name}: {'chosen' if report.state == 'chosen' else report.state}: {said}")
        if chosen is None:
            return BackendChoice(device_type, "", "the CPU", tuple(why), 0)
        return BackendChoice(
            device_type, chosen.backend, BACKENDS.get(chosen.backend, chosen.backend), tuple(why), chosen.device_count
        )

    def overrides(self) -> dict[str, tuple[str, str]]:
        """Variables in force that change what is found or how it works: the value, and what the variable does."""
        result = {}
        for name, value in sorted(os.environ.items()):
            if name in OVERRIDES:
                result[name] = (value, OVERRIDES[name])
            elif name.startswith("UNIHAL_"):
                result[name] = (value, "of unihal (docs/environment.md)")
        return result

    def initialize(self, device: str = "rdna") -> GPUInfo:
        """Opens a device and waits for it; what it is. A DeviceError says what was looked for."""
        import unihal

        try:
            opened = unihal.device(device)
            opened.synchronize()
        except unihal.errors.Error as error:
            raise DeviceError(f"{device} cannot be opened: {error}") from error
        return self._joined(opened.properties, cards(self._root, self._runner), set())

    def telemetry(self, pci_bus_id: str = "") -> Telemetry:
        """The state of a card now; without an address of the first card. Nothing is known: empty telemetry."""
        for card in cards(self._root, self._runner):
            if not pci_bus_id or card.pci_bus_id.lower() == pci_bus_id.lower():
                return card.telemetry
        return Telemetry()

    def _joined(self, properties: Any, system: list[SystemCard], taken: set[str]) -> GPUInfo:
        same = next(
            (card for card in system if card.pci_bus_id and card.pci_bus_id.lower() == properties.pci_bus_id.lower()),
            None,
        )
        if same is not None:
            taken.add(same.node)
        known = next((card.name for card in CARDS.values() if card.title in properties.name), "")
        return GPUInfo(
            properties.name,
            properties.vendor,
            f"{properties.device_type}:{properties.ordinal}",
            properties.backend,
            properties.total_memory,
            properties.compute_units,
            properties.pci_bus_id,
            same.driver if same is not None else Driver("", "", ""),
            properties.driver,
            same.profile if same is not None else known,
            properties.is_stub,
            same.telemetry if same is not None else Telemetry(),
        )


def _devices() -> list[Any]:
    """Properties of the devices of unihal, a card that serves several types once."""
    import unihal

    found: dict[tuple[str, str, int], Any] = {}
    types = sorted(unihal.device_types(), key=lambda kind: kind.name != "rdna")  # PyTorch's name first
    for kind in types:
        try:
            devices = unihal.devices(kind.name)
        except unihal.errors.Error:
            continue  # `backend` has the reasons
        for device in devices:
            properties = device.properties
            place = properties.pci_bus_id or ("stub" if properties.is_stub else properties.name)
            found.setdefault((place, properties.vendor, properties.ordinal), properties)
    return list(found.values())


def _of_system(card: SystemCard) -> GPUInfo:
    profile = CARDS.get(card.profile)
    title = card.title or (profile.title if profile is not None else f"{card.vendor} {card.device_id:#06x}")
    return GPUInfo(
        title,
        card.vendor,
        "",
        "",
        card.telemetry.memory_total or 0,
        profile.compute_units if profile is not None else 0,
        card.pci_bus_id,
        card.driver,
        "",
        card.profile,
        False,
        card.telemetry,
    )
