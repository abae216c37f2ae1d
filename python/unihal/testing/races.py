"""No two accesses of one byte may be unordered."""

from __future__ import annotations

from unihal import Race, clear_races, devices, races

from .check import Check
from .strict import require_race_checks

_MOST_SHOWN = 5


class NoRace(Check):
    """Complains about races: two streams, or a stream and the host, that touch the same bytes without anything that
    orders them, at least one of them writing.

    The beginning forgets the races found before it. :class:`NotConfiguredError` where none are looked for.
    """

    def __init__(self) -> None:
        require_race_checks(devices())
        self.begin()

    def begin(self) -> None:
        """Starts from here."""
        clear_races()

    @property
    def races(self) -> list[Race]:
        """The races since the beginning."""
        return races()

    def complaint(self) -> str:
        """Both sides of each race."""
        found = self.races
        if not found:
            return ""
        lines = [str(race) for race in found[:_MOST_SHOWN]]
        if len(found) > _MOST_SHOWN:
            lines.append(f"... and {len(found) - _MOST_SHOWN} more")
        return "\n".join([f"{len(found)} races were found:", *lines])
