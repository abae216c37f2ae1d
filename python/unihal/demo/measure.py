"""What is measured in a run's process besides accuracy: device, fallbacks, and the ops with the most device time.

The framework's plugin and this module share one libunihal.so, so what the framework runs is seen here.
"""

from __future__ import annotations

from collections.abc import Callable

from unihal import Device, ProfiledTotal, fallbacks, profile

from .protocol import Arguments, Result, TopOp

_TOP = 10


def finish(
    arguments: Arguments, seconds: float, peak_memory_bytes: int | None, one_more_epoch: Callable[[], object]
) -> Result:
    """The result of a run; on a device, one further epoch is profiled for it, outside the measured time."""
    if arguments.on_cpu:
        return Result("CPU", "the framework's own CPU kernels", False, seconds, None, fallbacks=0)
    properties = Device(arguments.device).properties
    with profile(arguments.trace) as recording:
        one_more_epoch()
    return Result(
        backend=properties.backend,
        device_name=properties.name,
        is_stub=properties.is_stub,
        seconds=seconds,
        peak_memory_bytes=peak_memory_bytes,
        fallbacks=sum(entry.count for entry in fallbacks()),
        top_ops=_top_ops(recording.totals),
    )


def _top_ops(totals: list[ProfiledTotal]) -> list[TopOp]:
    whole = sum(total.duration_nanoseconds for total in totals) or 1
    return [
        TopOp(total.op, total.calls, total.duration_nanoseconds * 1e-6, total.duration_nanoseconds / whole)
        for total in totals[:_TOP]
    ]
