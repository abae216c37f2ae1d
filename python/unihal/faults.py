"""Faults on request: whether a program survives an allocation, a copy or a launch that fails.

The stub injects them in both of its modes; other backends refuse. The rules are those of ``UNIHAL_STUB_FAULTS``
(docs/stub.md), and they are in force for all devices and threads of the process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType

from . import _core, errors
from .device import Device, DeviceLike
from .device import device as find_device

# Changes nothing; calls are counted while there is a rule.
_COUNT_ONLY = "slow:x1"

# One synchronization takes the error of one stream.
_MOST_STREAMS = 1000


@dataclass(frozen=True)
class FaultCounts:
    """Calls that reached the backend since the rules were set."""

    allocations: int
    launches: int
    #: Copies and fills.
    copies: int
    #: Failures made.
    injected: int


class inject_faults:  # noqa: N801 (used like a function)
    """Injects faults while the ``with`` block runs, then none; without rules it only counts the calls.

    >>> with unihal.inject_faults("rdna", "alloc:every=7") as faults:
    ...     train()
    >>> faults.counts()
    """

    _in_use = False

    def __init__(self, device: DeviceLike, rules: str = "") -> None:
        self._device = find_device(device)
        self._rules = rules
        self._counts: FaultCounts | None = None

    def __enter__(self) -> inject_faults:
        if inject_faults._in_use:
            raise errors.FailedPreconditionError(
                "faults are being injected already; leave that `with` block first, since the rules are the process'"
            )
        _core.set_fault_rules(self._device._handle, self._rules or _COUNT_ONLY)
        inject_faults._in_use = True
        self._counts = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._counts = self.counts()
        inject_faults._in_use = False
        _core.set_fault_rules(self._device._handle, "")

    def counts(self) -> FaultCounts:
        """The counts so far, or those of the whole block after its end."""
        return self._counts or FaultCounts(**_core.fault_counts(self._device._handle))


@dataclass(frozen=True)
class FaultOutcome:
    """One run with a fault."""

    #: The rule, such as ``"alloc:nth=3"``.
    rule: str
    #: Failures made in this run.
    injected: int
    #: What the run raised, without its traceback, whose frames would keep buffers alive; None if it got over the fault.
    error: Exception | None


@dataclass
class FaultSweep:
    """What became of each fault of a sweep."""

    outcomes: list[FaultOutcome] = field(default_factory=list)

    @property
    def injected(self) -> int:
        """The number of failures made in all runs."""
        return sum(outcome.injected for outcome in self.outcomes)

    @property
    def raised(self) -> list[FaultOutcome]:
        """The runs that ended in an exception."""
        return [outcome for outcome in self.outcomes if outcome.error is not None]

    @property
    def survived(self) -> list[FaultOutcome]:
        """The runs that got over the fault, such as by giving cached memory back and asking again."""
        return [outcome for outcome in self.outcomes if outcome.error is None]


def fault_sweep(
    device: DeviceLike,
    run: Callable[[], object],
    what: str = "alloc",
    *,
    lasting: bool = False,
    asynchronous: bool = False,
    check: Callable[[FaultOutcome], object] | None = None,
    limit: int = 10_000,
) -> FaultSweep:
    """Runs a callable again and again, with the first, the second, ... call of a kind failing.

    It ends with the run in which no such call was left to fail; that one is not among the outcomes.

    :param what: ``"alloc"``, ``"copy"``, ``"launch"``, ``"launch:matmul"`` or ``"device-lost"``.
    :param lasting: all calls from the n-th on fail, as on a device that is full; else the n-th only.
    :param asynchronous: copies and launches only: the call succeeds, and the error comes out when the device is waited
        for.
    :param check: is called after each run with a fault, when no more faults are injected, and says by raising what is
        wrong: a message that does not help, memory that leaked, a next run with other results.
    :param limit: the largest number of runs.
    """
    on = find_device(device)
    sweep = FaultSweep()
    for n in range(1, limit + 1):
        outcome = _run_with(on, run, f"{what}:{_condition(n, lasting)}{':async' if asynchronous else ''}")
        if outcome.injected == 0:
            if outcome.error is not None:
                raise outcome.error
            return sweep
        sweep.outcomes.append(outcome)
        if check is not None:
            check(outcome)
    raise errors.OutOfRangeError(f"{limit} runs were not enough to let each {what} fail once; expected a higher limit")


def _condition(n: int, lasting: bool) -> str:
    return f"after={n - 1}" if lasting else f"nth={n}"


def _run_with(device: Device, run: Callable[[], object], rule: str) -> FaultOutcome:
    raised: Exception | None = None
    with inject_faults(device, rule) as faults:
        try:
            run()
            device.synchronize()
        except Exception as error:  # what a program raises is its own choice
            raised = _without_traceback(error)
    if raised is not None:
        forget_errors(device)
    return FaultOutcome(rule, faults.counts().injected, raised)


def _without_traceback(error: Exception) -> Exception:
    chained: BaseException | None = error
    while chained is not None:
        chained.__traceback__ = None
        chained = chained.__cause__ or chained.__context__
    return error


def forget_errors(device: Device) -> None:
    """Takes the errors that stuck to streams, so that the next run begins without."""
    for _ in range(_MOST_STREAMS):
        try:
            device.synchronize()
        except errors.Error:
            continue
        return
