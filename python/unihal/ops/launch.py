"""What all ops share: finding the device and stream, allocating outputs, launching."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from .. import _core, errors, op_kinds
from ..arguments import ArgumentTypeError
from ..buffer import Buffer
from ..device import Device, DeviceLike, device
from ..stream import Stream, default_stream


def launch(
    kind: str,
    inputs: Sequence[Buffer | None],
    outputs: Sequence[Buffer | None],
    attributes: Mapping[str, Any] | None = None,
    *,
    stream: Stream | None = None,
    label: str | None = None,
) -> None:
    """Submits an op as include/unihal/op.h describes it; attributes are named as in its struct."""
    queue = stream or default_stream(_device([*outputs, *inputs]))
    with _attributes_of(kind):
        _core.launch(queue._handle, op_kinds.number(kind), inputs, outputs, attributes or {}, label)


def supports(
    on: DeviceLike,
    kind: str,
    inputs: Sequence[Buffer | None],
    outputs: Sequence[Buffer | None],
    attributes: Mapping[str, Any] | None = None,
) -> tuple[bool, str]:
    """Whether a device itself runs an op, and if not, why."""
    try:
        with _attributes_of(kind):
            _core.supports(device(on)._handle, op_kinds.number(kind), inputs, outputs, attributes or {})
    except ArgumentTypeError:
        raise
    except (errors.UnimplementedError, errors.InvalidArgumentError) as error:
        return False, str(error)
    return True, ""


class _attributes_of:  # noqa: N801 (used like a function)
    """What the module says of attributes' names and numbers becomes an error of unihal's that names the op."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (TypeError, ValueError)) and not isinstance(error, errors.Error):
            raise ArgumentTypeError(f"{self._kind}: {error}") from None


def runs_on(
    on: DeviceLike,
    kind: str,
    inputs: Sequence[Buffer | None],
    outputs: Sequence[Buffer | None],
    attributes: Mapping[str, Any] | None = None,
) -> Literal["device", "host"]:
    """Where a launch of an op would run it: on the device, or, if that refuses it, on the host.

    Raises UnimplementedError where neither runs it; under UNIHAL_STRICT=1 only the device does.
    """
    on_host = _core.can_run(device(on)._handle, op_kinds.number(kind), inputs, outputs, attributes or {})
    return "host" if on_host else "device"


def output(
    shape: Sequence[int], dtype: str, like: Buffer, out: Buffer | None = None, stream: Stream | None = None
) -> Buffer:
    """``out`` if it was given, else a new buffer on the device of ``like``."""
    if out is None:
        return Buffer(tuple(shape), dtype, like.device, stream=stream)
    if out.shape != tuple(shape):
        raise errors.InvalidArgumentError(f"out has the shape {out.shape}; this op writes {tuple(shape)}")
    return out


def broadcast_shapes(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The common shape by NumPy's rule."""
    first = tuple(shapes[0]) if shapes else ()
    if all(shape == first for shape in shapes):
        return first
    rank = max((len(shape) for shape in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for axis, length in enumerate(shape, start=rank - len(shape)):
            if length == 1 or length == result[axis]:
                continue
            if result[axis] != 1:
                listed = ", ".join(str(tuple(shape)) for shape in shapes)
                raise errors.InvalidArgumentError(f"the shapes {listed} do not broadcast together")
            result[axis] = length
    return tuple(result)


def axis_of(x: Buffer, axis: int) -> int:
    """An axis as a number from 0; negative ones count from the end."""
    if not -x.ndim <= axis < x.ndim:
        raise errors.OutOfRangeError(f"axis {axis} is outside the {x.ndim} axes of shape {x.shape}")
    return axis % x.ndim


def statistics_dtype(x: Buffer) -> str:
    """The dtype of a normalization's statistics."""
    return "float64" if x.dtype == "float64" else "float32"


def index_dtype(dtype: str) -> str:
    """Checks a dtype for indices."""
    if dtype not in ("int32", "int64"):
        raise errors.InvalidArgumentError(f"indices are int32 or int64, not {dtype}")
    return dtype


def _device(operands: Sequence[Buffer | None]) -> Device:
    for operand in operands:
        if operand is not None:
            return operand.device
    raise errors.InvalidArgumentError("an op needs at least one operand")
