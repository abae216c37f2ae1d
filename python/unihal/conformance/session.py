"""The device under test."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from ..device import backend_reports, device_types, load_backend, use_backend
from ..device import devices as all_devices
from ..errors import UnavailableError
from ..stream import Stream

if TYPE_CHECKING:
    from ..device import Device


class Session:
    """A device of a backend, and what checks and cases share."""

    def __init__(self, devices: list[Device], seed: int) -> None:
        #: All devices of the backend that belong to one device type; the first one is tested.
        self.devices = devices
        self.device = devices[0]
        self.stream = Stream(self.device)
        self.seed = seed

    def generator(self, name: str) -> np.random.Generator:
        """Random numbers that depend on the seed and a case's name only, so that a case can be run again alone."""
        return np.random.default_rng([self.seed, zlib.crc32(name.encode())])


def open_backend(backend: str | None) -> list[Device]:
    """The devices of a backend: its name, the path of its library, or None for what this machine offers."""
    if backend is not None:
        is_path = "/" in backend or backend.endswith(".so")
        use_backend(load_backend(backend) if is_path else backend)
    for device_type in device_types():
        devices = all_devices(device_type.name)
        if devices:
            return devices
    reports = [
        f"{device_type.name}: {report.backend} {report.state}: {report.reason}"
        for device_type in device_types()
        for report in backend_reports(device_type.name)
        if report.state == "refused"
    ]
    raise UnavailableError(
        "there is no device to test. "
        + " ".join(reports)
        + " Name a backend (--backend stub), or the path of its library."
    )
