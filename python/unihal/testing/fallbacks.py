"""No op may fall back to the CPU."""

from __future__ import annotations

from unihal import Fallback, fallbacks

from .check import Check


class NoFallback(Check):
    """Complains about ops that a framework ran on the CPU although a unihal device was asked for."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str, str, str], int] = {}
        self.begin()

    def begin(self) -> None:
        """Starts from here."""
        self._before = {_key(entry): entry.count for entry in fallbacks()}

    @property
    def fallbacks(self) -> list[Fallback]:
        """The fallbacks since the beginning."""
        counted = [(entry, entry.count - self._before.get(_key(entry), 0)) for entry in fallbacks()]
        return [
            Fallback(entry.framework, entry.op, entry.dtype, entry.reason, count) for entry, count in counted if count
        ]

    def complaint(self) -> str:
        """The ops with dtype, count and reason."""
        found = self.fallbacks
        if not found:
            return ""
        lines = [
            f"  {entry.framework}: {entry.op} of {entry.dtype}, {entry.count} times: {entry.reason}" for entry in found
        ]
        return "\n".join(
            [
                "Ops fell back to the CPU:",
                *lines,
                "Use ops and dtypes that the device has (unihal's docs/coverage.md lists them); with UNIHAL_STRICT=1 "
                "the fallback is an error where it happens.",
            ]
        )


def _key(entry: Fallback) -> tuple[str, str, str, str]:
    return entry.framework, entry.op, entry.dtype, entry.reason
