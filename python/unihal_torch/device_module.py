"""``torch.rdna``: what ``torch.cuda`` has, for the device of unihal."""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import sys
import types
from typing import Any, Optional, Union

import torch
from torch.utils import backend_registration

AnyDevice = Optional[Union[int, str, torch.device]]

#: What torch.cuda has by this name.
OutOfMemoryError = torch.OutOfMemoryError

_name = "rdna"
_count = 0


class _OfDevice(type):
    """Classes that make PyTorch's own objects, which it asks for, and count those of the device as theirs."""

    made: type

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.made) and instance.device.type == _name  # type: ignore[attr-defined]


class Stream(metaclass=_OfDevice):
    """A queue of work of a device: a ``torch.Stream``. Streams come from a pool of 32 a device."""

    made = torch.Stream

    def __new__(cls, device: AnyDevice = None, priority: int = 0, **arguments: Any) -> Any:  # noqa: D102
        return torch.Stream(**arguments) if arguments else torch.Stream(device=_device(device), priority=priority)


class Event(metaclass=_OfDevice):
    """A point in a stream that others can wait for: a ``torch.Event``."""

    made = torch.Event

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Any:  # noqa: D102
        return torch.Event(device=_name, enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)


class device:  # noqa: N801
    """A context in which a device is the current one."""

    def __init__(self, device: AnyDevice) -> None:
        self._index = -1 if device is None else _index(device)
        self._before = -1

    def __enter__(self) -> None:
        if self._index >= 0:
            self._before = torch._C._accelerator_exchangeDevice(self._index)

    def __exit__(self, *_: object) -> None:
        if self._before >= 0:
            torch._C._accelerator_maybeExchangeDevice(self._before)


class device_of(device):  # noqa: N801
    """A context in which the device of a tensor is the current one; without an effect for tensors elsewhere."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(tensor.get_device() if tensor.device.type == _name else None)


class stream:  # noqa: N801
    """A context in which a stream is the current one of its device. None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self._stream = stream

    def __enter__(self) -> None:
        if self._stream is not None:
            self._stream.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self._stream is not None:
            self._stream.__exit__(*error)


#: What :class:`stream` makes, by torch.cuda's name.
StreamContext = stream


def _index(device: AnyDevice) -> int:
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    found = torch.device(device)
    if found.type != _name:
        raise ValueError(f"Expected a {_name} device, but got: {found}")
    return current_device() if found.index is None else found.index


def _device(device: AnyDevice) -> torch.device:
    return torch.device(_name, _index(device))


def _unihal_device(device: AnyDevice = None) -> Any:
    import unihal

    return unihal.device(f"{_name}:{_index(device)}")


# -- devices -----------------------------------------------------------------------------------------------------------


def is_available() -> bool:
    """Whether there is a device."""
    return device_count() > 0


def is_initialized() -> bool:
    """True: a device is opened when it is first used, and needs no call."""
    return True


def init() -> None:
    """Does nothing: a device is opened when it is first used."""


def _lazy_init() -> None:
    pass


def _is_in_bad_fork() -> bool:
    return False


def device_count() -> int:
    """How many devices there are."""
    return _count


def current_device() -> int:
    """The number of the current device."""
    return torch._C._accelerator_getDeviceIndex()


def set_device(device: AnyDevice) -> None:
    """Makes a device the current one of this thread."""
    torch._C._accelerator_setDeviceIndex(_index(device))


def exchange_device(device: int) -> int:
    """Makes a device the current one; gives the one before. A negative number changes nothing."""
    return torch._C._accelerator_maybeExchangeDevice(device)


def maybe_exchange_device(device: int) -> int:
    """The same as :func:`exchange_device`."""
    return torch._C._accelerator_maybeExchangeDevice(device)


def get_device_properties(device: AnyDevice = None) -> Any:
    """What a device is: its name, memory in bytes, compute units and more (``unihal.DeviceProperties``)."""
    return _unihal_device(device).properties


def get_device_name(device: AnyDevice = None) -> str:
    """The name of a board."""
    return str(get_device_properties(device).name)


def get_device_capability(device: AnyDevice = None) -> dict[str, Any]:
    """The dtypes that a device computes with (as ``torch.accelerator.get_device_capability``)."""
    return torch.accelerator.get_device_capability(_device(device))


def synchronize(device: AnyDevice = None) -> None:
    """Waits until all work of a device has run."""
    torch._C._accelerator_synchronizeDevice(_index(device))


def is_bf16_supported() -> bool:
    """True: bfloat16 is computed with everywhere."""
    return True


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that autocast can compute in."""
    return [torch.float16, torch.bfloat16]


def can_device_access_peer(device: AnyDevice, peer: AnyDevice) -> bool:
    """True: copies between devices of one type take the direct way where there is one."""
    return _index(device) != _index(peer)


# -- streams -----------------------------------------------------------------------------------------------------------


def current_stream(device: AnyDevice = None) -> torch.Stream:
    """The stream that work of this thread goes to."""
    return torch._C._accelerator_getStream(_index(device))


def default_stream(device: AnyDevice = None) -> torch.Stream:
    """The stream that work goes to if no other one was asked for."""
    index = _index(device)
    return torch.Stream(stream_id=0, device_index=index, device_type=current_stream(index).device_type)


def set_stream(stream: torch.Stream | None) -> None:
    """Makes a stream the current one of its device."""
    if stream is not None:
        torch._C._accelerator_setStream(stream)


# -- memory ------------------------------------------------------------------------------------------------------------


def empty_cache() -> None:
    """Gives memory that nobody uses back to the devices."""
    for index in range(device_count()):
        _unihal_device(index).empty_cache()


def _stats(device: AnyDevice) -> Any:
    return _unihal_device(device).memory_stats()


def memory_allocated(device: AnyDevice = None) -> int:
    """Bytes that tensors hold."""
    return int(_stats(device).allocated_bytes)


def max_memory_allocated(device: AnyDevice = None) -> int:
    """The most bytes that tensors held since the start or :func:`reset_peak_memory_stats`."""
    return int(_stats(device).peak_allocated_bytes)


def memory_reserved(device: AnyDevice = None) -> int:
    """Bytes that the allocator has from the device, used or not."""
    return int(_stats(device).reserved_bytes)


def max_memory_reserved(device: AnyDevice = None) -> int:
    """The most bytes that the allocator had from the device."""
    return int(_stats(device).peak_reserved_bytes)


def mem_get_info(device: AnyDevice = None) -> tuple[int, int]:
    """Bytes of a device that are free, and all of them."""
    stats = _stats(device)
    total = stats.limit_bytes or stats.total_bytes
    return int(total - stats.reserved_bytes), int(total)


def memory_stats(device: AnyDevice = None) -> dict[str, Any]:
    """Counts of bytes and allocations, by torch.cuda's names where these are the same."""
    stats = _stats(device)
    return {
        "allocated_bytes.all.current": stats.allocated_bytes,
        "allocated_bytes.all.peak": stats.peak_allocated_bytes,
        "reserved_bytes.all.current": stats.reserved_bytes,
        "reserved_bytes.all.peak": stats.peak_reserved_bytes,
        "allocation.all.current": stats.live_allocations,
        "allocation.all.allocated": stats.total_allocations,
        "num_device_alloc": stats.backend_allocations,
        "cache_hits": stats.cache_hits,
        "largest_free_block": stats.largest_free_block,
        "fragmentation": stats.fragmentation,
        "limit_bytes": stats.limit_bytes,
        "total_bytes": stats.total_bytes,
    }


def memory_summary(device: AnyDevice = None, abbreviated: bool = False) -> str:
    """The same for a person to read."""
    lines = [f"memory of {_device(device)}"]
    lines += [
        f"  {key:<32} {value:.3f}" if isinstance(value, float) else f"  {key:<32} {value:,}"
        for key, value in memory_stats(device).items()
    ]
    return "\n".join(lines[: 5 if abbreviated else None])


def reset_peak_memory_stats(device: AnyDevice = None) -> None:
    """Sets the peaks to what is in use now."""
    _unihal_device(device).reset_peak_memory_stats()


def reset_max_memory_allocated(device: AnyDevice = None) -> None:
    """The same as :func:`reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


def set_per_process_memory_fraction(fraction: float, device: AnyDevice = None) -> None:
    """Caps what tensors may take of a device's memory: beyond it is an OutOfMemoryError."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    # A limit of 0 bytes would be none.
    _unihal_device(device).set_memory_limit(max(1, int(fraction * _stats(device).total_bytes)) if fraction < 1 else 0)


# -- random numbers ----------------------------------------------------------------------------------------------------


def _library() -> ctypes.CDLL:
    from . import library

    assert library is not None
    return library


def _random_state(device: AnyDevice) -> tuple[int, int]:
    seed, offset = ctypes.c_uint64(), ctypes.c_uint64()
    index = _index(device)
    if not _library().uhal_torch_random_get(index, ctypes.byref(seed), ctypes.byref(offset)):
        raise RuntimeError(f"there is no device {_name}:{index}")
    return seed.value, offset.value


def _set_random_state(device: AnyDevice, seed: int, offset: int = 0) -> None:
    index = _index(device)
    if not _library().uhal_torch_random_set(index, ctypes.c_uint64(seed), ctypes.c_uint64(offset)):
        raise RuntimeError(f"there is no device {_name}:{index}")


def manual_seed(seed: int) -> None:
    """Seeds the generator of the current device."""
    _set_random_state(None, int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices."""
    for index in range(device_count()):
        _set_random_state(index, int(seed))


def seed() -> int:
    """Seeds the generator of the current device with a number that cannot be foreseen; gives it."""
    number = int.from_bytes(os.urandom(8), "little") >> 1
    manual_seed(number)
    return number


def seed_all() -> None:
    """Seeds the generators of all devices with one number that cannot be foreseen."""
    manual_seed_all(seed())


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return _random_state(None)[0]


def get_rng_state(device: AnyDevice = None) -> torch.Tensor:
    """The state of a device's generator, in host memory."""
    seed, offset = _random_state(device)
    return torch.tensor(list(struct.pack("<QQ", seed, offset)), dtype=torch.uint8)


def set_rng_state(new_state: torch.Tensor, device: AnyDevice = None) -> None:
    """Sets the state of a device's generator."""
    if new_state.dtype != torch.uint8 or new_state.numel() != 16 or new_state.device.type != "cpu":
        raise RuntimeError(f"a state of a generator of {_name} is a torch.ByteTensor of 16 bytes in host memory")
    _set_random_state(device, *struct.unpack("<QQ", bytes(new_state.tolist())))


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all devices' generators."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """Sets the states of all devices' generators."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


# -- torch.compile -----------------------------------------------------------------------------------------------------


class NoCodeGenerator(Exception):  # noqa: N818
    """torch.compile was asked for a backend that makes code for the device."""


def __getattr__(name: str) -> Any:
    # What inductor asks the module of a device for, before it makes code.
    if name == "Scheduling":
        raise NoCodeGenerator(
            f"torch.compile's backend inductor makes no code for {_name}: use backend='aot_eager' or backend='eager'"
        )
    raise AttributeError(f"module 'torch.{_name}' has no attribute {name!r}")


# -- DLPack --------------------------------------------------------------------------------------------------------


def _tell_dlpack_device() -> None:
    # PyTorch's own asks for the type's name of before the renaming, and refuses.
    theirs = torch.Tensor.__dlpack_device__

    def dlpack_device(self: torch.Tensor) -> tuple[Any, int]:
        if self.device.type == _name:
            return torch.utils.dlpack.DLDeviceType.kDLExtDev, self.device.index or 0
        return theirs(self)

    torch.Tensor.__dlpack_device__ = functools.wraps(theirs)(dlpack_device)  # type: ignore[method-assign]


# -- installation ------------------------------------------------------------------------------------------------------


def install(name: str, count: int) -> None:
    """Renames PyTorch's free device type and registers this module as ``torch.<name>``. Once a process."""
    global _name, _count
    _name, _count = name, count
    module: types.ModuleType = sys.modules[__name__]
    backend_registration.rename_privateuse1_backend(name)
    torch._register_device_module(name, module)  # type: ignore[no-untyped-call]
    sys.modules[f"torch.{name}"] = module
    backend_registration.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    _tell_dlpack_device()
