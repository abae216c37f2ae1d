"""What all checks have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType


class Check(ABC):
    """Something that must hold when a block of code ends, measured from where the block began.

    An exception of the block goes first: nothing is checked then.
    """

    @abstractmethod
    def begin(self) -> None:
        """Starts from here; what happened before does not count."""

    @abstractmethod
    def complaint(self) -> str:
        """What does not hold at this moment, for a person; empty if all does."""

    def __enter__(self) -> Check:
        self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and (complaint := self.complaint()):
            raise AssertionError(complaint)
