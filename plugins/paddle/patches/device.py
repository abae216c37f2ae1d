"""paddle.device for our types: what Paddle refuses by a device's name, or asks of the first device type only.

Each function here takes what Paddle's takes for a device: None for the current one, a number, "type:number" or a place.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any, Callable

from unihal_paddle_bridge import elapsed_milliseconds, memory, serves

#: Flags of Paddle's CUDA wheels that ask for what our kernels do in any case. CPU wheels do not know them.
KEPT_FLAGS = {"FLAGS_cudnn_deterministic": False, "FLAGS_embedding_deterministic": 0}


def patch_flags(core: Any) -> None:
    """paddle.set_flags and get_flags of KEPT_FLAGS: results are the same bits each time whatever they say.

    And get_flags takes a tenth of its time: what it asks first, Paddle answers by making the set of all public flags
    anew, in each linear layer and convolution. A flag that is public stays so.
    """
    registry = core.GlobalVarGetterSetterRegistry
    values: dict[str, Any] = {name: type(value)(int(os.environ.get(name, value))) for name, value in KEPT_FLAGS.items()}
    is_public, get, put = registry.is_public, registry.__getitem__, registry.__setitem__
    update = getattr(registry, "update_linked_vars", None)
    if is_public(core.globals(), next(iter(KEPT_FLAGS))):
        return  # not a CPU wheel
    known = set(values)

    def is_known(self: Any, name: str) -> bool:
        if name not in known and is_public(self, name):
            known.add(name)
        return name in known

    registry.is_public = is_known
    registry.__getitem__ = lambda self, name: values[name] if name in values else get(self, name)

    def set_item(self: Any, name: str, value: Any) -> None:
        if name in values:
            values[name] = type(KEPT_FLAGS[name])(value)
        else:
            put(self, name, value)

    registry.__setitem__ = set_item
    if update is not None:

        def update_linked(self: Any, name: str, value: str) -> None:
            if f"FLAGS_{name}" not in values:
                update(self, name, value)

        registry.update_linked_vars = update_linked


def type_of(place: Any) -> str:
    """A place's custom device type, or nothing. A CustomPlace has none of the questions of a Place in Paddle 3.0."""
    if hasattr(place, "is_custom_place"):
        return str(place.custom_device_type()) if place.is_custom_place() else ""
    return str(place.get_device_type()) if hasattr(place, "get_device_type") else ""


def is_ours(place: Any) -> bool:
    device_type = type_of(place)
    return bool(device_type) and serves(device_type)


#: The place that present_device_is_ours() saw last, and whether it is ours. Places do not change.
seen: tuple[Any, bool] = (None, False)


def present_device_is_ours() -> bool:
    """Whether paddle.get_device() names a device of ours, for calls of ops: making the name takes far longer."""
    global seen
    place = sys.modules["paddle.base.framework"]._current_expected_place_()
    last, ours = seen
    if place is not last:
        ours = is_ours(place)
        seen = (place, ours)
    return ours


def patch_events(core: Any) -> None:
    """Event.elapsed_time, in milliseconds of device time; both events must have been reached."""
    event = core.CustomDeviceEvent
    if not hasattr(event, "elapsed_time"):
        event.elapsed_time = lambda self, end: elapsed_milliseconds(self.raw_event, end.raw_event)


def patch_collectives(paddle: Any, module: Any, core: Any) -> None:
    """Processes of one program meet on the devices that they use: Paddle takes CUDA's collectives for the default, and
    where that is missing says to use gloo. Whoever names a backend or a device (PADDLE_DISTRI_BACKEND,
    FLAGS_selected_<type>s) has it."""
    if not hasattr(core, "nccl_version"):
        core.nccl_version = lambda: 0  # averages: Paddle divides a sum, as it does for old versions of NCCL
    initialize = module.ParallelEnv.__init__

    @functools.wraps(initialize)
    def __init__(self: Any) -> None:  # noqa: N807
        current = paddle.framework._current_expected_place_()
        initialize(self)
        if self._world_size < 2 or not is_ours(current):
            return
        device_type = self._device_type = current.custom_device_type()
        count = core.get_custom_device_count(device_type)
        ordinal = current.custom_device_id() or self._rank % count
        selected = os.environ.setdefault(f"FLAGS_selected_{device_type}s", str(ordinal))
        self._device_id = int(selected.partition(",")[0])
        if os.environ.get("PADDLE_DISTRI_BACKEND", "auto") == "auto":
            os.environ["PADDLE_DISTRI_BACKEND"] = "xccl"

    module.ParallelEnv.__init__ = __init__


def patch_device_class(module: Any, core: Any) -> None:
    """paddle.device("iluvatar:0"), Tensor.device and get_default_device()."""
    device = module.Device
    make, to_place = device.__new__, device._to_place
    device._SUPPORTED_TYPES.update(filter(serves, core.get_all_custom_device_type()))

    def new(cls: Any, type: Any = None, index: int | None = None) -> Any:
        if isinstance(type, core.Place) and is_ours(type):
            return make(cls, type.custom_device_type(), type.custom_device_id())
        return make(cls, type, index)

    def place_of(self: Any) -> Any:
        return core.CustomPlace(self.type, self.index) if serves(self.type) else to_place(self)

    device.__new__ = staticmethod(new)
    device._to_place = place_of


def on_current(paddle: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` of a place: the current device where it is asked for none, and the current type's for a number."""

    @functools.wraps(function)
    def wrapper(device: Any = None) -> Any:
        current = paddle.framework._current_expected_place_()
        if (device is None or isinstance(device, int)) and is_ours(current):
            ordinal = current.custom_device_id() if device is None else device
            device = paddle.CustomPlace(current.custom_device_type(), ordinal)
        elif isinstance(device, str):
            device = paddle.device._convert_to_place(device)
        elif isinstance(device, paddle.base.core.Place) and is_ours(device):  # a tensor's place is no CustomPlace
            device = paddle.CustomPlace(device.custom_device_type(), device.custom_device_id())
        return function(device)

    return wrapper


class Ranges(threading.local):
    """What nvtx.range_push opened in this thread."""

    def __init__(self) -> None:
        self.open: list[Any] = []


def patch_custom_device(paddle: Any, module: Any, core: Any) -> None:
    """paddle.device, .custom_device and .cuda for whichever of our types a program uses: Paddle asks the first one."""
    custom = module.custom_device

    def ours_or(original: Callable[..., Any]) -> Callable[[Callable[[Any], Any]], Callable[..., Any]]:
        """Decorates what serves places of ours; others go to Paddle's function."""

        def decorate(function: Callable[[Any], Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def choose(place: Any) -> Any:
                return function(place) if isinstance(place, core.Place) and is_ours(place) else original(place)

            return on_current(paddle, choose)

        return decorate

    @ours_or(custom.get_device_properties)
    def get_device_properties(place: Any) -> Any:
        return core.get_device_properties(place.custom_device_type(), place.custom_device_id())

    @ours_or(custom.current_stream)
    def current_stream(place: Any) -> Any:
        return core._get_current_custom_device_stream(place.custom_device_type(), place.custom_device_id())

    @ours_or(custom.synchronize)
    def synchronize(place: Any) -> None:
        core._synchronize_custom_device(place.custom_device_type(), place.custom_device_id())

    @functools.wraps(custom.device_count)
    def device_count(device_type: str | None = None) -> int:
        current = paddle.framework._current_expected_place_()
        if device_type is None and is_ours(current):
            device_type = current.custom_device_type()
        return int(count(device_type))

    def mem_get_info(place: Any) -> tuple[int, int]:
        """Bytes of the device's memory that are free, and all of them."""
        if not is_ours(place):
            raise ValueError(f"Expected a device of unihal's, but got: {place}")
        return memory(place.custom_device_type(), place.custom_device_id())

    def memory_summary(place: Any) -> None:
        """Prints what Paddle holds of the device's memory, and what is free."""
        free, total = mem_get_info(place)
        numbers = {
            "allocated": custom.memory_allocated(place),
            "peak allocated": custom.max_memory_allocated(place),
            "reserved": custom.memory_reserved(place),
            "peak reserved": custom.max_memory_reserved(place),
            "free on the device": free,
            "of the device": total,
        }
        print(f"Memory of {place}")
        for name, size in numbers.items():
            print(f"  {name:<20}{size / 2**20:>14.2f} MiB")

    count = custom.device_count
    custom.get_device_properties, custom.current_stream, custom.synchronize, custom.device_count = (
        get_device_properties,
        current_stream,
        synchronize,
        device_count,
    )
    statistics = (
        "memory_allocated",
        "memory_reserved",
        "max_memory_allocated",
        "max_memory_reserved",
        "reset_max_memory_allocated",
        "reset_max_memory_reserved",
    )
    for name in statistics:
        setattr(custom, name, on_current(paddle, getattr(custom, name)))
    mem_get_info, memory_summary = on_current(paddle, mem_get_info), on_current(paddle, memory_summary)

    def reset_peak_memory_stats(place: Any = None) -> None:
        custom.reset_max_memory_allocated(place)

    # paddle.device replaces itself by a copy of the module; its functions still look names up in the original.
    for namespace in (vars(module), module.set_device.__globals__):
        namespace["device_count"] = device_count
        for name in statistics:
            namespace[name] = getattr(custom, name)
        namespace["_get_device_properties"] = get_device_properties
        namespace["reset_peak_memory_stats"] = reset_peak_memory_stats
        namespace.setdefault("mem_get_info", mem_get_info)
        namespace.setdefault("memory_summary", memory_summary)
    patch_cuda_names(paddle, module, custom, statistics)


def patch_cuda_names(paddle: Any, module: Any, custom: Any, statistics: Sequence[str]) -> None:
    """What programs ask of paddle.device.cuda and paddle.cuda concerns our device where that is the current one, as far
    as it does not say that there is CUDA."""
    import paddle.cuda

    def route(namespace: Any, name: str, ours: Callable[..., Any]) -> None:
        theirs = getattr(namespace, name, None)
        if theirs is None:
            return

        @functools.wraps(theirs)
        def function(*arguments: Any, **keywords: Any) -> Any:
            current = paddle.framework._current_expected_place_()
            return (ours if is_ours(current) else theirs)(*arguments, **keywords)

        setattr(namespace, name, function)

    routes = {name: getattr(custom, name) for name in statistics}
    routes |= {
        "synchronize": custom.synchronize,
        "empty_cache": custom.empty_cache,
        "get_device_properties": custom.get_device_properties,
        "get_device_name": module.get_device_name,
        "get_device_capability": module.get_device_capability,
        "get_rng_state": custom.get_rng_state,
        "set_rng_state": custom.set_rng_state,
        "manual_seed": custom.manual_seed,
        "memory_summary": module.memory_summary,
        "mem_get_info": module.mem_get_info,
        "reset_peak_memory_stats": module.reset_peak_memory_stats,
    }
    for namespace in (module.cuda, paddle.cuda):
        for name, ours in routes.items():
            route(namespace, name, ours)

    ranges = Ranges()

    def range_push(message: str) -> None:
        ranges.open.append(paddle.profiler.RecordEvent(message))
        ranges.open[-1].begin()

    def range_pop() -> None:
        if ranges.open:
            ranges.open.pop().end()

    for namespace in (module, paddle.cuda):
        if hasattr(namespace, "nvtx"):
            namespace.nvtx.range_push, namespace.nvtx.range_pop = staticmethod(range_push), staticmethod(range_pop)


def patch_tensor(paddle: Any, tensor_class: Any) -> None:
    """Tensor.pin_memory: host memory is all that a CPU wheel has; copies from it go through pinned memory anyway."""
    pin = tensor_class.pin_memory

    def pin_memory(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if self.place.is_cpu_place() and present_device_is_ours():
            return self
        if not is_ours(self.place):
            return pin(self, *arguments, **keywords)
        pinned = self.cpu()
        pinned.stop_gradient, pinned.persistable = self.stop_gradient, self.persistable
        return pinned

    tensor_class.pin_memory = functools.wraps(pin)(pin_memory)


def patch_random(paddle: Any, module: Any, core: Any) -> None:
    """get_cuda_rng_state and its kin, with which programs save the state of the device's generators."""
    get, put = module.get_cuda_rng_state, module.set_cuda_rng_state

    def on_ours() -> bool:
        return is_ours(paddle.framework._current_expected_place_())

    @functools.wraps(get)
    def get_cuda_rng_state() -> Any:
        return module.get_rng_state() if on_ours() else get()

    @functools.wraps(put)
    def set_cuda_rng_state(states: Any) -> None:
        return module.set_rng_state(states) if on_ours() else put(states)

    @functools.wraps(module.set_rng_state)
    def set_rng_state(states: Any, device: Any = None) -> None:
        """Paddle counts the devices of the first type."""
        place = (
            paddle.framework._current_expected_place_() if device is None else paddle.device._convert_to_place(device)
        )
        if not is_ours(place):
            put_all(states, device)
            return
        device_type = type_of(place)
        if len(states) != core.get_custom_device_count(device_type):
            raise ValueError(
                f"Length of custom device state list should be equal to the "
                f"{core.get_custom_device_count(device_type)} device count"
            )
        for i, state in enumerate(states):
            core.default_custom_device_generator(core.CustomPlace(device_type, i)).set_state(state)

    put_all = module.set_rng_state
    for name, function in (
        ("get_cuda_rng_state", get_cuda_rng_state),
        ("set_cuda_rng_state", set_cuda_rng_state),
        ("set_rng_state", set_rng_state),
    ):
        for namespace in (module, paddle):
            if hasattr(namespace, name):
                setattr(namespace, name, function)
