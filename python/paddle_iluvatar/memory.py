"""Device memory that frees itself, copies from and to NumPy, and the memory of a device in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import unihal

from .device import DEVICE_TYPE, _named
from .errors import InvalidValueError
from .streams import Stream

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, DTypeLike, NDArray


@dataclass(frozen=True)
class MemoryInfo:
    """Bytes of one device: `total` of the card, `limit` (0: none), `allocated` by callers now and `peak` at most,
    `reserved` by the allocator from the card, `free`: what the card or the limit still has beside what is allocated.
    """

    total: int
    limit: int
    allocated: int
    peak: int
    reserved: int
    free: int


def memory_info(number: int | None = None) -> MemoryInfo:
    """The memory of a device, of all that this process does there, Paddle's tensors included."""
    stats = _named(number).memory_stats()
    most = stats.limit_bytes or stats.total_bytes
    return MemoryInfo(
        stats.total_bytes,
        stats.limit_bytes,
        stats.allocated_bytes,
        stats.peak_allocated_bytes,
        stats.reserved_bytes,
        max(0, most - stats.allocated_bytes),
    )


def reset_peak_memory(number: int | None = None) -> None:
    """The peak begins anew at what is allocated now."""
    _named(number).reset_peak_memory_stats()


def empty_cache(number: int | None = None) -> int:
    """Gives memory that nothing uses back to the card; the bytes given back."""
    return _named(number).empty_cache()


def set_memory_limit(limit_bytes: int, number: int | None = None) -> None:
    """Caps what this process takes of a device, in bytes; 0 removes the cap."""
    _named(number).set_memory_limit(limit_bytes)


def _dtype_name(dtype: DTypeLike) -> str:
    import numpy as np

    return np.dtype(dtype).name


class DeviceMemory:
    """An array in a device's memory. It is freed by `free`, at the end of a `with` block, or with its last reference.

    `shape` and `dtype` (NumPy's) are fixed. The contents are undefined until something is written. `stream`: the order
    in which the memory comes; None: the device's own stream.
    """

    _kind: Literal["device", "pinned", "managed"] = "device"

    def __init__(
        self,
        shape: int | Sequence[int],
        dtype: DTypeLike = "float32",
        device: int | None = None,
        *,
        stream: Stream | None = None,
    ) -> None:
        self._buffer: unihal.Buffer | None = unihal.Buffer(
            shape, _dtype_name(dtype), _named(device), stream=_stream(stream), kind=self._kind
        )

    @classmethod
    def from_numpy(cls, array: ArrayLike, device: int | None = None, *, stream: Stream | None = None) -> DeviceMemory:
        """A copy of an array of the host."""
        import numpy as np

        source = np.asarray(array)
        memory = cls(source.shape, source.dtype, device, stream=stream)
        memory.copy_from(source, stream=stream)
        return memory

    @classmethod
    def from_tensor(cls, tensor: Any, device: int | None = None) -> DeviceMemory:
        """A copy of a Paddle tensor, wherever it lies; it goes through the host's memory."""
        return cls.from_numpy(tensor.numpy(), device)

    @property
    def buffer(self) -> unihal.Buffer:
        """The memory as unihal's ops take it. FailedPrecondition's RuntimeError after `free`."""
        if self._buffer is None:
            raise unihal.FailedPreconditionError("the memory was freed")
        return self._buffer

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return tuple(self.buffer.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of the elements."""
        import numpy as np

        return np.dtype(self.buffer.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.buffer.nbytes

    @property
    def device(self) -> int:
        """The number of the device."""
        return self.buffer.device.ordinal

    @property
    def freed(self) -> bool:
        """Whether the memory was given back."""
        return self._buffer is None

    def copy_from(self, array: ArrayLike, *, stream: Stream | None = None) -> None:
        """Overwrites all with an array of the same shape and dtype, and waits for it; else an InvalidValueError."""
        self.buffer.copy_from(array, stream=_stream(stream))

    def to_numpy(self, out: NDArray[Any] | None = None, *, stream: Stream | None = None) -> NDArray[Any]:
        """A copy in host memory, after the work that the stream has; in `out` of the same shape and dtype if given."""
        found = self.buffer.numpy(stream=_stream(stream))
        if out is None:
            return found
        if out.shape != found.shape or out.dtype != found.dtype:
            raise InvalidValueError(f"out is {out.dtype} {out.shape}, the memory {found.dtype} {found.shape}")
        out[...] = found
        return out

    def to_tensor(self, place: Any = None) -> Any:
        """A copy as a Paddle tensor, on this device or on `place`; it goes through the host's memory."""
        import paddle as framework

        paddle: Any = framework
        return paddle.to_tensor(
            self.to_numpy(), place=paddle.CustomPlace(DEVICE_TYPE, self.device) if place is None else place
        )

    def fill(self, value: float, *, stream: Stream | None = None) -> None:
        """Sets all elements."""
        unihal.ops.fill(self.buffer, value, stream=_stream(stream))

    def free(self) -> None:
        """Gives the memory back, in the order of its stream. A second time does nothing."""
        if self._buffer is not None:
            self._buffer.close()
            self._buffer = None

    def __enter__(self) -> DeviceMemory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.free()

    def __repr__(self) -> str:
        if self._buffer is None:
            return f"{type(self).__name__}(freed)"
        return f"{type(self).__name__}({self.shape}, {self.dtype}, {DEVICE_TYPE}:{self.device})"


class PinnedMemory(DeviceMemory):
    """An array in the host's memory that a device copies from and to without a detour."""

    _kind = "pinned"

    def copy_from(self, array: ArrayLike, *, stream: Stream | None = None) -> None:
        """Overwrites all with an array of the same shape and dtype; else an InvalidValueError."""
        import numpy as np

        source = np.asarray(array)
        if source.shape != self.shape or source.dtype != self.dtype:
            raise InvalidValueError(
                f"the array is {source.dtype} {source.shape}, the memory {self.dtype} {self.shape}; both must be equal"
            )
        self.as_numpy()[...] = source

    def to_numpy(self, out: NDArray[Any] | None = None, *, stream: Stream | None = None) -> NDArray[Any]:
        """A copy, as of DeviceMemory."""
        found = self.as_numpy()
        if out is None:
            return found.copy()
        if out.shape != found.shape or out.dtype != found.dtype:
            raise InvalidValueError(f"out is {out.dtype} {out.shape}, the memory {found.dtype} {found.shape}")
        out[...] = found
        return out

    def fill(self, value: float, *, stream: Stream | None = None) -> None:
        """Sets all elements."""
        self.as_numpy()[...] = value

    def as_numpy(self) -> NDArray[Any]:
        """The memory itself as an array, no copy; valid until `free`."""
        import numpy as np

        return np.asarray(self.buffer)


def copy(target: DeviceMemory, source: DeviceMemory, *, stream: Stream | None = None) -> None:
    """Copies between memories of one shape and dtype, in the order of the stream.

    Between memories of a device it does not wait; from or to pinned memory it does.
    """
    if target.shape != source.shape or target.dtype != source.dtype:
        raise InvalidValueError(
            f"the target is {target.dtype} {target.shape}, the source {source.dtype} {source.shape}; both must be equal"
        )
    if isinstance(source, PinnedMemory):
        target.copy_from(source.as_numpy(), stream=stream)
    elif isinstance(target, PinnedMemory):
        source.to_numpy(target.as_numpy(), stream=stream)
    else:
        unihal.ops.copy(source.buffer, out=target.buffer, stream=_stream(stream))


def _stream(stream: Stream | None) -> unihal.Stream | None:
    from .streams import current_stream

    found = current_stream() if stream is None else stream
    return None if found is None else found.handle
