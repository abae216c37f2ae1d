"""Random numbers: Philox4x32-10, a function of key and counter, the same on every device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ..buffer import Buffer
from ..device import DeviceLike
from ..stream import Stream
from .launch import launch, output

#: Numbers of uhal_distribution.
_DISTRIBUTIONS: dict[str, int] = {"uniform": 0, "normal": 1, "truncated_normal": 2, "bernoulli": 3, "bits": 4}


def random(
    shape: Sequence[int],
    dtype: str,
    on: DeviceLike,
    distribution: Literal["uniform", "normal", "truncated_normal", "bernoulli", "bits"] = "uniform",
    *,
    key: int,
    counter: int = 0,
    a: float = 0,
    b: float = 1,
    turn: Buffer | None = None,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """Random elements.

    ``a`` and ``b`` are the bounds of "uniform", mean and standard deviation of "normal" and "truncated_normal"; ``a``
    is the probability of 1 for "bernoulli". ``turn``, one element of int64, is added to the upper half of the counter
    when the op runs: a graph that counts its replays there draws other numbers in each.
    """
    result = out if out is not None else Buffer(tuple(shape), dtype, on, stream=stream)
    attributes = {"distribution": _DISTRIBUTIONS[distribution], "a": a, "b": b, **_position(key, counter)}
    launch("random", [turn], [result], attributes, stream=stream)
    return result


def dropout(
    x: Buffer,
    rate: float,
    *,
    key: int,
    counter: int = 0,
    scale_at_inference: bool = False,
    turn: Buffer | None = None,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> tuple[Buffer, Buffer]:
    """``x`` with elements set to 0 with probability ``rate`` and the others scaled up; and the mask of those kept.

    ``turn``: as in ``random``.
    """
    y = output(x.shape, x.dtype, x, out, stream)
    mask = output(x.shape, "bool", x, stream=stream)
    attributes = {"a": rate, "scale_at_inference": int(scale_at_inference), **_position(key, counter)}
    launch("dropout", [x, turn], [y, mask], attributes, stream=stream)
    return y, mask


def _position(key: int, counter: int) -> dict[str, object]:
    """Key and 128-bit counter as the ABI takes them."""
    return {"key": key % 2**64, "counter": [counter % 2**64, (counter >> 64) % 2**64]}
