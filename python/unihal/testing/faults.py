"""Faults that a test asks for, and that must have happened."""

from __future__ import annotations

from types import TracebackType

from unihal import Device, FaultCounts, devices, inject_faults
from unihal.device import DeviceLike
from unihal.device import device as find_device

from .strict import require_stub


class InjectedFaults:
    """Injects faults while the ``with`` block runs, and complains if there was nothing to inject them into.

    A test whose fault never happens would pass whatever the program makes of faults.

    :param rules: as in UNIHAL_STUB_FAULTS, such as ``"launch:matmul:nth=2"``.
    :param device: any device of the stub, whose rules hold for all its devices; the first one if it is left out.
    """

    def __init__(self, rules: str, device: DeviceLike | None = None) -> None:
        found: Device = require_stub(devices()) if device is None else find_device(device)
        self._rules = rules
        self._injection = inject_faults(found, rules)

    def counts(self) -> FaultCounts:
        """Calls that reached the device in the block, and failures made."""
        return self._injection.counts()

    def __enter__(self) -> InjectedFaults:
        self._injection.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._injection.__exit__(kind, error, trace)
        counts = self.counts()
        if error is None and counts.injected == 0:
            raise AssertionError(
                f"No fault was injected by {self._rules!r}: the block made {counts.allocations} allocations, "
                f"{counts.launches} launches and {counts.copies} copies. Expected a rule that one of them meets."
            )
