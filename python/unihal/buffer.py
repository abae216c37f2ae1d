"""Buffers: strided arrays in device memory."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from types import TracebackType
from typing import TYPE_CHECKING, Any, Union

from . import _core, dtypes, errors, op_kinds
from .arguments import whole_numbers
from .device import MEMORY_KINDS, Device, DeviceLike, MemoryKind, device
from .stream import Stream, default_stream

if TYPE_CHECKING:
    from types import EllipsisType

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Index = Union[int, slice, EllipsisType, None]

_CPU = 1
_EXTENSION_DEVICE = 12


def _row_major(shape: Sequence[int]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)


def element_count(shape: Sequence[int]) -> int:
    """The number of elements of a shape."""
    count = 1
    for length in shape:
        count *= length
    return count


def _check_lengths(shape: Sequence[int]) -> None:
    if any(length < 0 for length in shape):
        raise errors.InvalidArgumentError(f"the shape {tuple(shape)} has a negative entry")
    if any(length >= 2**63 for length in shape):
        raise errors.InvalidArgumentError(f"the shape {tuple(shape)} has an entry that does not fit into 64 bits")


class Buffer(_core.View):
    """A strided array in device memory; contents are undefined until something is written.

    Slicing, ``transpose``, ``reshape`` and ``broadcast_to`` give views of the same memory. The memory is freed when the
    last view goes, or at once by ``close()`` or at the end of a ``with`` block.

    The buffer protocol (``memoryview``, ``numpy.asarray``) and DLPack look at the memory itself where the host can
    reach it, after waiting for the device; ``numpy()`` copies and works everywhere.
    """

    def __init__(
        self,
        shape: Sequence[int] | int,
        dtype: str,
        on: DeviceLike,
        *,
        stream: Stream | None = None,
        kind: MemoryKind = "device",
    ) -> None:
        dims = tuple(whole_numbers(shape))
        _check_lengths(dims)
        number = dtypes.number(dtype)
        where = device(on)
        bytes_ = element_count(dims) * _ITEM_SIZES[dtype]
        if bytes_ >= 2**63:
            raise errors.OutOfMemoryError(f"a buffer of shape {dims} and dtype {dtype} is larger than 2^63 bytes")
        queue = stream or default_stream(where)
        allocation = _core.Allocation(where._handle, queue._handle, MEMORY_KINDS[kind], bytes_)
        super().__init__(allocation, number, dims, _row_major(dims), 0)

    def _view(
        self, shape: Sequence[int], strides: Sequence[int], offset: int | None = None, dtype: str | None = None
    ) -> Buffer:
        view = Buffer.__new__(Buffer)
        _core.View.__init__(
            view,
            self.allocation,
            dtypes.number(dtype or self.dtype),
            shape,
            strides,
            self.offset if offset is None else offset,
        )
        return view

    # -- creation and conversion

    @classmethod
    def from_numpy(cls, array: ArrayLike, on: DeviceLike, *, stream: Stream | None = None) -> Buffer:
        """A copy of an array in device memory."""
        import numpy as np

        source = np.asarray(array)
        buffer = cls(source.shape, dtypes.from_numpy(source.dtype), on, stream=stream)
        buffer.copy_from(source, stream=stream)
        return buffer

    @classmethod
    def from_dlpack(cls, tensor: Any, on: DeviceLike, *, stream: Stream | None = None) -> Buffer:
        """A copy of a DLPack tensor in host memory (any object with ``__dlpack__``); a Buffer is given back itself."""
        if isinstance(tensor, Buffer):
            return tensor
        dtype, shape, contents = _core.from_dlpack(tensor.__dlpack__())
        buffer = cls(shape, dtype, on, stream=stream)
        if contents:
            _core.copy_from_host((stream or default_stream(buffer.device))._handle, buffer, contents)
        return buffer

    def copy_from(self, array: ArrayLike, *, stream: Stream | None = None) -> None:
        """Overwrites the elements with those of an array of the same shape and dtype, and waits for it."""
        import numpy as np

        source = np.asarray(array)
        if source.shape != self.shape or source.dtype.name != self.dtype:
            raise errors.InvalidArgumentError(
                f"the array is {source.dtype.name} {source.shape}, the buffer {self.dtype} {self.shape}; "
                "both must be equal"
            )
        if self.size == 0:
            return
        queue = stream or default_stream(self.device)
        target = self if self.dense else Buffer(self.shape, self.dtype, self.device, stream=queue)
        _core.copy_from_host(queue._handle, target, np.ascontiguousarray(source).reshape(-1).view(np.uint8))
        if target is not self:
            _launch_copy(queue, target, self)

    def numpy(self, *, stream: Stream | None = None) -> NDArray[Any]:
        """A copy of the elements in host memory, after the work submitted to the stream."""
        import numpy as np

        result = np.empty(self.shape, dtypes.to_numpy(self.dtype))
        if self.size != 0:
            queue = stream or default_stream(self.device)
            source = self.contiguous(stream=queue)
            _core.copy_to_host(queue._handle, source, result.reshape(-1).view(np.uint8))
        return result

    def contiguous(self, *, stream: Stream | None = None) -> Buffer:
        """This buffer if its elements lie side by side in row-major order, else a copy that has them so."""
        return self if self.dense else self.copy(stream=stream)

    def copy(self, *, stream: Stream | None = None) -> Buffer:
        """A copy in memory of its own, row-major."""
        queue = stream or default_stream(self.device)
        result = Buffer(self.shape, self.dtype, self.device, stream=queue)
        _launch_copy(queue, self, result)
        return result

    def item(self) -> Any:
        """The only element as a Python number."""
        return self.numpy().item()

    # -- views

    @property
    def device(self) -> Device:
        """Where the memory lies."""
        return Device._from_handle(self.allocation.device)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def T(self) -> Buffer:  # noqa: N802 (NumPy's name)
        """The view with all axes in reverse order."""
        return self.transpose()

    def transpose(self, *axes: int) -> Buffer:
        """The view with its axes in another order; without arguments, reversed."""
        order = [self._axis(axis) for axis in axes] if axes else list(range(self.ndim))[::-1]
        if sorted(order) != list(range(self.ndim)):
            raise errors.InvalidArgumentError(f"{axes} is no order of {self.ndim} axes")
        return self._view([self.shape[i] for i in order], [self.strides[i] for i in order])

    def reshape(self, *shape: int) -> Buffer:
        """The view with another shape; one entry may be -1. Only of contiguous memory: see ``contiguous()``."""
        dims = list(shape)
        if dims.count(-1) == 1:
            known = -element_count(dims)
            dims[dims.index(-1)] = self.size // known if known else 0
        if element_count(dims) != self.size or any(length < 0 for length in dims):
            raise errors.InvalidArgumentError(f"{self.size} elements have no shape {shape}")
        if not self.dense:
            raise errors.InvalidArgumentError("only contiguous memory can be reshaped; copy it first with contiguous()")
        return self._view(dims, _row_major(dims))

    def broadcast_to(self, shape: Sequence[int]) -> Buffer:
        """The view that repeats axes of length 1 (and new leading ones), by NumPy's rule."""
        _check_lengths(shape)
        new = len(shape) - self.ndim
        strides = [0] * len(shape)
        for axis, length in enumerate(shape[new:] if new >= 0 else ()):
            if self.shape[axis] == length:
                strides[new + axis] = self.strides[axis]
            elif self.shape[axis] != 1:
                new = -1
                break
        if new < 0:
            raise errors.InvalidArgumentError(f"the shape {self.shape} does not broadcast to {tuple(shape)}")
        return self._view(shape, strides)

    def view(self, dtype: str) -> Buffer:
        """The same bytes as another dtype of the same size."""
        if _ITEM_SIZES.get(dtype) != self.itemsize:
            dtypes.number(dtype)
            raise errors.InvalidArgumentError(f"{dtype} and {self.dtype} differ in size")
        return self._view(self.shape, self.strides, dtype=dtype)

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Buffer:
        """The view of a basic index as NumPy has it: integers, slices, ``...`` and ``None``."""
        entries = list(index) if isinstance(index, tuple) else [index]
        consumed = len([entry for entry in entries if entry is not None and entry is not Ellipsis])
        if entries.count(Ellipsis) > 1 or consumed > self.ndim:
            raise errors.OutOfRangeError(f"{index!r} does not index a buffer of {self.ndim} axes")
        rest = [slice(None)] * (self.ndim - consumed)
        if Ellipsis in entries:
            position = entries.index(Ellipsis)
            entries[position : position + 1] = rest
        else:
            entries += rest

        shape: list[int] = []
        strides: list[int] = []
        first = 0
        axis = 0
        for entry in entries:
            if entry is None:
                shape.append(1)
                strides.append(1)
                continue
            length, stride = self.shape[axis], self.strides[axis]
            if isinstance(entry, slice):
                start, stop, step = entry.indices(length)
                count = len(range(start, stop, step))
                first += start * stride if count else 0
                shape.append(count)
                strides.append(stride * step)
            elif isinstance(entry, Integral):  # NumPy's too
                place = int(entry)
                if not -length <= place < length:
                    raise errors.OutOfRangeError(f"index {place} is outside axis {axis} of length {length}")
                first += (place + length if place < 0 else place) * stride
            else:
                raise errors.InvalidArgumentError(
                    f"{entry!r} is no basic index; use integers, slices, ... and None, or ops.gather"
                )
            axis += 1
        return self._view(shape, strides, self.offset + first * self.itemsize)

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("a scalar has no length")
        return self.shape[0]

    def _axis(self, axis: int) -> int:
        if not -self.ndim <= axis < self.ndim:
            raise errors.OutOfRangeError(f"axis {axis} is outside {self.ndim} axes")
        return axis % self.ndim

    # -- exchange with others

    def __array__(self, dtype: np.dtype[Any] | None = None, copy: bool | None = None) -> NDArray[Any]:
        """NumPy's way in where the buffer protocol cannot be used: a copy."""
        if copy is False:
            raise ValueError("the memory cannot be looked at without a copy; use numpy()")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A DLPack capsule of the memory, which the host must be able to reach."""
        if dl_device is not None and tuple(dl_device) != (_CPU, 0):
            raise BufferError(f"the memory can be given to DLPack device (1, 0), the host, only; not to {dl_device}")
        source = self.copy() if copy else self
        return _core.to_dlpack(source, max_version is not None and max_version[0] >= 1)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The host's device, or DLPack's extension device where the host cannot reach the memory."""
        where = self.device
        if self.allocation.kind != MEMORY_KINDS["device"] or where.properties.unified_memory:
            return (_CPU, 0)
        return (_EXTENSION_DEVICE, where.ordinal)

    # -- lifetime

    @property
    def closed(self) -> bool:
        """Whether the memory was freed."""
        return self.allocation.closed

    def close(self) -> None:
        """Frees the memory for all views; refused while NumPy or others look at it. Closing twice is fine."""
        self.allocation.close()

    def __enter__(self) -> Buffer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"unihal.Buffer({self.dtype}, shape={self.shape}, on={str(self.device)!r}{state})"


_ITEM_SIZES = {name: _core.dtype_size(number) for name, number in _core.DTYPES.items()}


def _launch_copy(stream: Stream, source: Buffer, target: Buffer) -> None:
    _core.launch(stream._handle, op_kinds.number("copy"), [source], [target])
