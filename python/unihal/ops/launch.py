"""What all ops share: finding the device and stream, allocating outputs, launching."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from .. import _core, dtypes, errors, op_kinds
from ..arguments import ArgumentTypeError
from ..buffer import Buffer
from ..device import DeviceLike, device
from ..stream import Stream


def launch(
    kind: str,
    inputs: Sequence[Buffer | None],
    outputs: Sequence[Buffer | None],
    attributes: Mapping[str, Any] | _core.Attributes | None = None,
    *,
    stream: Stream | None = None,
    label: str | None = None,
) -> None:
    """Submits an op as include/unihal/op.h describes it; attributes are named as in its struct, or ``prepared``."""
    queue = None if stream is None else stream._handle
    try:
        _core.launch(queue, op_kinds.number(kind), inputs, outputs, attributes or {}, label)
    except errors.Error:
        raise
    except (TypeError, ValueError) as error:
        raise _of_attributes(kind, error) from None


def supports(
    on: DeviceLike,
    kind: str,
    inputs: Sequence[Buffer | None],
    outputs: Sequence[Buffer | None],
    attributes: Mapping[str, Any] | None = None,
) -> tuple[bool, str]:
    """Whether a device itself runs an op, and if not, why."""
    try:
        _core.supports(device(on)._handle, op_kinds.number(kind), inputs, outputs, attributes or {})
    except ArgumentTypeError:
        raise
    except (errors.UnimplementedError, errors.InvalidArgumentError) as error:
        return False, str(error)
    except errors.Error:
        raise
    except (TypeError, ValueError) as error:
        raise _of_attributes(kind, error) from None
    return True, ""


def prepared(kind: str, attributes: Mapping[str, Any]) -> _core.Attributes:
    """The attributes of a kind, made once for many launches."""
    try:
        return _core.Attributes(op_kinds.number(kind), attributes)
    except (TypeError, ValueError) as error:
        raise _of_attributes(kind, error) from None


def _of_attributes(kind: str, error: Exception) -> ArgumentTypeError:
    """What the module says of attributes' names and numbers, as an error of unihal's that names the op."""
    return ArgumentTypeError(f"{kind}: {error}")


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
        queue = None if stream is None else stream._handle
        result = _core.buffer_like(Buffer, like, dtypes.number(dtype), tuple(shape), queue)
        return Buffer(tuple(shape), dtype, like.device, stream=stream) if result is None else result
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
