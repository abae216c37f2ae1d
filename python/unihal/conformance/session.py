"""The device under test."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from ..buffer import Buffer
from ..device import backend_reports, device_types, load_backend, use_backend
from ..device import devices as all_devices
from ..errors import UnavailableError, UnimplementedError
from ..fallbacks import is_strict
from ..ops.launch import launch, runs_on, supports
from ..stream import Stream
from .number_format import storage
from .outcome import GapError

if TYPE_CHECKING:
    from ..device import Device
    from .case import Array


class Session:
    """A device of a backend, and what checks and cases share."""

    def __init__(self, devices: list[Device], seed: int) -> None:
        #: All devices of the backend that belong to one device type; the first one is tested.
        self.devices = devices
        self.device = devices[0]
        self.stream = Stream(self.device)
        self.seed = seed
        #: What programs get is tested: the host runs what the device refuses.
        self.with_host = not is_strict()

    def supports(
        self,
        op: str,
        inputs: Sequence[Buffer | None],
        outputs: Sequence[Buffer | None],
        attributes: Mapping[str, Any] | None = None,
    ) -> tuple[bool, str]:
        """Whether a launch takes the op, and if not, why."""
        if not self.with_host:
            return supports(self.device, op, inputs, outputs, attributes)
        try:
            runs_on(self.device, op, inputs, outputs, attributes)
        except UnimplementedError as error:
            return False, str(error)
        return True, ""

    def results(
        self,
        op: str,
        inputs: Sequence[Array],
        outputs: Sequence[tuple[str, tuple[int, ...]]],
        attributes: Mapping[str, Any],
    ) -> list[Array]:
        """Runs an op on contiguous operands of NumPy's dtypes and returns its outputs as they are stored.

        Raises GapError if the backend declares that it does not do it.
        """
        sources = [Buffer.from_numpy(array, self.device, stream=self.stream) for array in inputs]
        targets = [Buffer(shape, dtype, self.device, stream=self.stream) for dtype, shape in outputs]
        try:
            supported, reason = self.supports(op, sources, targets, attributes)
            if not supported:
                raise GapError(reason)
            launch(op, sources, targets, attributes, stream=self.stream)
            return [self._stored(target) for target in targets]
        finally:
            for buffer in (*sources, *targets):
                buffer.close()

    def _stored(self, buffer: Buffer) -> Array:
        array = np.empty(buffer.shape, storage(buffer.dtype))
        _core.copy_to_host(self.stream._handle, buffer, array.reshape(-1).view(np.uint8))
        return array

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
