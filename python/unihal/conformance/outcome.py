"""What came of an entry of the suite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: "gap": the backend declared that it does not do this. "failed" includes a declared gap that works all the same.
Status = Literal["passed", "gap", "failed"]


class GapError(Exception):
    """The backend declared that it does not do what a check needs; the message is its reason."""


@dataclass(frozen=True)
class Outcome:
    """The result of one entry."""

    op: str
    name: str
    dtype: str
    status: Status
    #: Of a gap the backend's reason, of a failure what was seen and expected.
    message: str = ""
    seconds: float = 0.0
