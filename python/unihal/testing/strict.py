"""The stub that a test needs, or an error that says how to get it."""

from __future__ import annotations

from unihal import Device, device

_HOW_TO_ASK = (
    "run the tests with `pytest --unihal-stub=strict`, put `unihal_stub = strict` into pytest's configuration file, or "
    "set UNIHAL_BACKEND=stub and UNIHAL_STUB=strict before a framework or unihal is imported"
)

# UHAL_CHECK_* of unihal/check.h.
CHECK_RACES = 1
CHECK_MEMORY = 2


class NotConfiguredError(AssertionError):
    """The process does not have what a check needs; the message says how to get it."""


def strict_device(name: str) -> Device:
    """The device of a name such as ``"rdna:0"``; :class:`NotConfiguredError` unless it is the strict stub's."""
    found = device(name)
    properties = found.properties
    # Of the stub's two modes, only the strict one keeps the host out of device memory.
    if properties.is_stub and not properties.unified_memory:
        return found
    raise NotConfiguredError(
        f"The device {found} is served by the {properties.backend} backend as {properties.name!r}, but the test needs "
        f"the strict stub: {_HOW_TO_ASK}."
    )


def require_stub(devices: list[Device]) -> Device:
    """The first device of the stub; :class:`NotConfiguredError` if there is none."""
    for found in devices:
        if found.properties.is_stub:
            return found
    raise NotConfiguredError(f"Faults are injected by the stub, which does not serve in this run: {_HOW_TO_ASK}.")


def require_race_checks(devices: list[Device]) -> None:
    """:class:`NotConfiguredError` unless races are looked for on one of the devices."""
    if not any(found.properties.checks & CHECK_RACES for found in devices):
        raise NotConfiguredError(
            f"Races are not looked for in this run: {_HOW_TO_ASK}; on other devices set UNIHAL_CHECK_RACES=1."
        )
