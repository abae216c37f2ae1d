"""DLPack of tensors on our devices: Paddle's own code knows its built-in places only.

A tensor's memory is given away as it lies: as the host's where the host may read it, else as DLPack's extension device,
which other libraries refuse. They get a copy in host memory where they ask for the host's device. Taken in are our own
capsules, which become the tensor again, without a copy, and whatever Paddle takes in host memory.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Callable

from unihal_paddle_bridge import host_reaches, serves

CPU, EXTENSION = 1, 12
COPIED = 2  # a flag of versioned tensors
# DLPack's type codes.
INTEGER, UNSIGNED, FLOATING, BFLOAT, COMPLEX, BOOLEAN = 0, 1, 2, 4, 5, 6


class Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class Memory(ctypes.Structure):
    """DLTensor. Strides are in elements."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("rank", ctypes.c_int32),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Managed(ctypes.Structure):
    """DLManagedTensor, of capsules named "dltensor"."""

    _fields_ = (("tensor", Memory), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned, of capsules named "dltensor_versioned"."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Memory),
    )


NAMES = {Managed: b"dltensor", Versioned: b"dltensor_versioned"}

#: What is given away, by the address that the capsule holds: the structure, what it points to, and the tensor.
given: dict[int, tuple[Any, ...]] = {}

python = ctypes.pythonapi
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
# A capsule's destructor gets one that is dying: an address, whose references nobody counts any more.
python.PyCapsule_IsValid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.c_void_p, ctypes.c_char_p]


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def delete(address: int) -> None:
    """The consumer needs the memory no more."""
    given.pop(address, None)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def destroy(capsule: int) -> None:
    """A capsule is gone; if nobody has taken what it held, that goes too."""
    for name in NAMES.values():
        if python.PyCapsule_IsValid(capsule, name):
            given.pop(python.PyCapsule_GetPointer(capsule, name), None)


def dtype_of(tensor: Any) -> DataType:
    name = str(tensor.dtype).partition(".")[2]
    if name == "bool":
        return DataType(BOOLEAN, 8, 1)
    for prefix, code in (
        ("uint", UNSIGNED),
        ("int", INTEGER),
        ("bfloat", BFLOAT),
        ("float", FLOATING),
        ("complex", COMPLEX),
    ):
        bits = name[len(prefix) :]
        if name.startswith(prefix) and bits.isdigit():
            return DataType(code, int(bits), 1)
    raise BufferError(f"DLPack has no {name}; cast the tensor first")


def device_of(tensor: Any) -> tuple[int, int]:
    place = tensor.place
    device_type, ordinal = place.custom_device_type(), place.custom_device_id()
    return (CPU, 0) if host_reaches(device_type, ordinal) else (EXTENSION, ordinal)


def give(tensor: Any, versioned: bool, copied: bool) -> object:
    """A capsule that holds a tensor's memory, and the tensor."""
    rank = len(tensor.shape)
    shape = (ctypes.c_int64 * rank)(*tensor.shape)
    strides = (ctypes.c_int64 * rank)(*tensor.strides)
    # A tensor without elements has no memory to speak of.
    data = tensor.data_ptr() if tensor.size > 0 else None
    memory = Memory(data, Device(*device_of(tensor)), rank, dtype_of(tensor), shape, strides, 0)
    deleter = ctypes.cast(delete, ctypes.c_void_p)
    structure: Managed | Versioned
    if versioned:
        structure = Versioned(1, 0, None, deleter, COPIED if copied else 0, memory)
    else:
        structure = Managed(memory, None, deleter)
    address = ctypes.addressof(structure)
    given[address] = (structure, shape, strides, tensor)
    return python.PyCapsule_New(address, NAMES[type(structure)], ctypes.cast(destroy, ctypes.c_void_p))


def taken_back(capsule: object) -> Any:
    """The tensor of a capsule of ours, which is used by that; None for others."""
    for name in NAMES.values():
        if python.PyCapsule_IsValid(id(capsule), name):
            address = python.PyCapsule_GetPointer(id(capsule), name)
            if address not in given:
                return None
            tensor = given.pop(address)[-1]
            python.PyCapsule_SetName(id(capsule), USED[name])
            return tensor
    return None


USED = {name: b"used_" + name for name in NAMES.values()}  # a capsule keeps the pointer


def is_on_ours(tensor: Any) -> bool:
    place = tensor.place
    return bool(place.is_custom_place()) and serves(place.custom_device_type())


def patch_tensor(paddle: Any, tensor_class: Any) -> None:
    """Tensor.__dlpack__ and __dlpack_device__."""
    export, get_device = tensor_class.__dlpack__, tensor_class.__dlpack_device__

    def dlpack_device(self: Any) -> Any:
        return device_of(self) if is_on_ours(self) else get_device(self)

    def dlpack(
        self: Any,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        if not is_on_ours(self):
            return export(self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
        if not self.stop_gradient:
            raise BufferError("a tensor that requires gradients cannot be given to DLPack; use tensor.detach()")
        where = device_of(self)
        wanted = where if dl_device is None else (int(dl_device[0]), int(dl_device[1] or 0))
        if wanted not in (where, (CPU, 0)):
            raise BufferError(f"the tensor can be given to DLPack device {where} or (1, 0), the host; not to {wanted}")
        if wanted != where:
            if copy is False:
                raise BufferError("the host cannot read the tensor where it lies: leave copy at None")
            return export(self.cpu(), max_version=max_version)
        source = self.clone() if copy else self.detach()
        place = source.place
        paddle.base.core._synchronize_custom_device(
            place.custom_device_type(), place.custom_device_id()
        )  # whoever takes it knows nothing of our streams
        return give(source, max_version is not None and max_version[0] >= 1, bool(copy))

    tensor_class.__dlpack__ = dlpack
    tensor_class.__dlpack_device__ = dlpack_device


def wrapped_to_dlpack(convert: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(convert)
    def to_dlpack(x: Any) -> object:
        ours = hasattr(x, "place") and hasattr(x, "stop_gradient") and is_on_ours(x)
        return x.detach().__dlpack__() if ours else convert(x)

    return to_dlpack


def wrapped_from_dlpack(paddle: Any, convert: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(convert)
    def from_dlpack(dlpack: Any, *, device: Any = None, copy: bool | None = None) -> Any:
        place = (
            None if device is None else paddle.device._convert_to_place(device) if isinstance(device, str) else device
        )
        capsule, tensor = dlpack, None
        if hasattr(dlpack, "__dlpack__") and hasattr(dlpack, "stop_gradient") and is_on_ours(dlpack):
            tensor = dlpack.detach()
        elif not hasattr(dlpack, "__dlpack__"):
            tensor = taken_back(capsule)
        if tensor is None:
            if place is None or not place.is_custom_place():
                others = {name: value for name, value in (("device", device), ("copy", copy)) if value is not None}
                return convert(dlpack, **others)
            tensor = convert(dlpack)
        if place is not None and not same(tensor.place, place):
            if copy is False:
                raise BufferError(f"the memory is of {tensor.place}, not of {place}: leave copy at None")
            return tensor._copy_to(place, True)
        return tensor.clone() if copy else tensor

    return from_dlpack


def same(place: Any, other: Any) -> bool:
    return str(place) == str(other)
