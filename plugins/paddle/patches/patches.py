"""What the adapter changes in Paddle's Python side. Runs inside `import paddle`, which is not finished then.

Paddle decides some things by the names of device types that it knows, and ends the process where a device
does not exist. Modules that are not imported yet are patched when they are.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.abc
import inspect
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, Callable

import unihal_paddle_convolutions as convolution_patches
import unihal_paddle_device as device_patches
import unihal_paddle_dlpack as dlpack_patches
import unihal_paddle_mixed_precision as mixed_precision_patches
import unihal_paddle_optimizers as optimizer_patches
from unihal_paddle_bridge import is_ours, leave_devices, memory_is_checked, refusal, serves


def patch_place(core: Any) -> None:
    """A device that does not exist is a ValueError: Paddle itself would end the process."""
    original = core.CustomPlace.__init__

    def initialize(self: Any, device_type: str, ordinal: int = 0) -> None:
        reason = refusal(device_type, ordinal)
        if reason:
            raise ValueError(reason)
        original(self, device_type, ordinal)

    core.CustomPlace.__init__ = initialize


def patch_blocks(core: Any) -> None:
    """A block's keyword arguments are copies of the values in it.

    Those of Paddle 3.0 to 3.3.1, on its CPU too, refer into the block, and to_static leaves some in a cycle, where
    they stay until Python's next collection, though their program is gone. pybind11 knows an object by its address: a
    value of a later program at the same place became such a reference, and its reader met freed memory.
    """
    original, value = core.pir.Block.kwargs, core.pir.Value

    def kwargs(self: Any) -> dict[str, Any]:
        return {name: value(reference) for name, reference in original(self).items()}

    core.pir.Block.kwargs = kwargs


def patch_base(module: Any) -> None:
    """Under the memory check Paddle's devices stay to the end.

    Paddle clears them in a function of atexit, before Python lets go of the program's tensors, whose memory is then
    never freed and would be listed as leaks.
    """
    clear = module.core.clear_device_manager

    @atexit.register  # after Paddle's, it runs before
    def clear_but_devices() -> None:
        if memory_is_checked():
            atexit.unregister(clear)
            leave_devices()


def patch_graphs(module: Any) -> None:
    """Graphs that a program still has at its end are destroyed while their device is there.

    Paddle's own destructor comes after its devices are gone, and ends the process with an abort.
    """
    graphs: weakref.WeakSet[Any] = weakref.WeakSet()
    original = module.CUDAGraph.capture_end

    @functools.wraps(original)
    def capture_end(self: Any) -> None:
        original(self)
        graphs.add(self)

    @atexit.register
    def reset_graphs() -> None:
        for graph in list(graphs):
            graph.reset()

    module.CUDAGraph.capture_end = capture_end


def patch_device(module: Any) -> None:
    """paddle.set_device of one of our types tells why there is none; device modules are found for our types."""
    convert = module._convert_to_place
    get_module = getattr(module, "get_device_module", None)  # not in Paddle 3.0

    places: dict[str, Any] = {}  # of our devices with a number, by name: which there are does not change in a process

    def convert_to_place(device: Any) -> Any:
        if not isinstance(device, str):
            return convert(device)
        known = places.get(device)
        if known is not None:
            return known
        device_type, _, ordinal = device.partition(":")
        reason = refusal(device_type, int(ordinal) if ordinal.isdigit() else 0)
        if reason:
            raise ValueError(reason)
        place = convert(device)
        if ordinal and serves(device_type):
            places[device] = place
        return place

    def get_device_module(device: Any = None) -> Any:
        if isinstance(device, str) and is_ours(device.partition(":")[0]):
            return getattr(module, "custom_device", module)  # its own module since Paddle 3.3
        return get_module(device)  # type: ignore[misc]

    # paddle.device replaces itself by a copy of the module; its functions still look names up in the original.
    for namespace in (vars(module), module.set_device.__globals__):
        namespace["_convert_to_place"] = convert_to_place
        if get_module is not None:
            namespace["get_device_module"] = get_device_module
    if not any(map(serves, module.core.get_all_custom_device_type())):
        return
    if not hasattr(module, "custom_device"):
        return
    device_patches.patch_custom_device(sys.modules["paddle"], module, module.core)
    if hasattr(module, "Device"):  # since Paddle 3.3
        device_patches.patch_device_class(module, module.core)


def patch_tensors(module: Any) -> None:
    """Methods of tensors that know Paddle's built-in places only."""
    paddle = sys.modules["paddle"]
    device_patches.patch_tensor(paddle, paddle.base.core.eager.Tensor)
    if "paddle.utils.dlpack" not in sys.modules or not hasattr(paddle.base.core.eager.Tensor, "__dlpack_device__"):
        return  # before Paddle 3.1
    dlpack_patches.patch_tensor(paddle, paddle.base.core.eager.Tensor)
    exchange = sys.modules["paddle.utils.dlpack"]
    to_dlpack = dlpack_patches.wrapped_to_dlpack(exchange.to_dlpack)
    from_dlpack = dlpack_patches.wrapped_from_dlpack(paddle, exchange.from_dlpack)
    for namespace in (exchange, paddle):
        if hasattr(namespace, "to_dlpack"):
            namespace.to_dlpack = to_dlpack
        if hasattr(namespace, "from_dlpack"):
            namespace.from_dlpack = from_dlpack


def patch_random(module: Any) -> None:
    paddle = sys.modules["paddle"]
    device_patches.patch_random(paddle, module, paddle.base.core)


def patch_framework(module: Any) -> None:
    """A device chosen by set_device stays chosen where a mode ends: enable_static ends dynamic mode, and went back to
    the device of its beginning."""

    @contextlib.contextmanager
    def place_guard(place: Any) -> Iterator[None]:
        before = module._global_expected_place_
        module._set_expected_place(place)
        try:
            yield
        finally:
            if module._global_expected_place_ is place:  # the user has set no other since
                module._global_expected_place_ = before
                module._set_dygraph_tracer_expected_place(before)

    module._dygraph_place_guard  # noqa: B018 - an AttributeError tells that this Paddle has none
    module._dygraph_place_guard = place_guard


def patch_auto_cast(module: Any) -> None:
    """bfloat16 automatic mixed precision, which Paddle allows by the name of the device type."""
    original = module._is_custom_device_bfloat16_supported

    def supported() -> bool:
        place = module._current_expected_place()
        return is_ours(place.get_device_type()) or bool(original())

    module._is_custom_device_bfloat16_supported = supported


class MathOnly(threading.local):
    """Whether the attention that this thread asks for has to be composed of products and softmax."""

    wanted = False


math_only = MathOnly()


def composed_if(wanted: Callable[..., bool], names: Sequence[str], function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, whose choice of an attention is told what ``wanted`` says of its arguments of these names."""
    parameters = list(inspect.signature(function).parameters.values())
    places = [(i, p.name, p.default) for i, p in enumerate(parameters) if p.name in names]

    @functools.wraps(function)
    def wrapper(*arguments: Any, **keywords: Any) -> Any:
        named = {
            name: arguments[i] if i < len(arguments) else keywords.get(name, default) for i, name, default in places
        }
        before, math_only.wanted = math_only.wanted, wanted(**named)
        try:
            return function(*arguments, **keywords)
        finally:
            math_only.wanted = before

    return wrapper


def composes(attn_mask: Any, dropout_p: float, training: bool) -> bool:
    """What scaled_dot_product_attention can be asked for, and our kernels do not compute: dropout with a mask or of all
    weights, a mask's gradient, and masks with three axes, whose first one Paddle's kernels take for the batch and its
    composed attention for heads."""
    drops = dropout_p > 0 and training
    if attn_mask is None:
        return drops and dropout_p >= 1
    return drops or attn_mask.ndim == 3 or not attn_mask.stop_gradient


def patch_attention(functional: Any) -> None:
    """Attention on our types is one kernel wherever that computes what was asked for.

    Paddle chooses among its kernels by what its own GPUs can do, and the CPU wheel says that there are none. What the
    user allows by sdpa_kernel stays in force.
    """
    if "paddle.nn.functional.sdpa" not in sys.modules:
        return  # before Paddle 3.3, attention is composed on other devices than CUDA's
    selection = sys.modules["paddle.nn.attention.sdpa"]
    module = sys.modules["paddle.nn.functional.sdpa"]
    flash = sys.modules["paddle.nn.functional.flash_attention"]
    backends = selection.SDPBackend
    select, composed = module.select_sdp_for_sdpa, flash.flash_attention

    # No kernel of the CPU's comes into question by this: Paddle looks at the place first.
    for backend in (backends.FLASH_ATTENTION, backends.EFFICIENT_ATTENTION):
        selection._backend_enabled[backend] = True

    def on_ours(place: Any) -> bool:
        return bool(place.is_custom_place()) and serves(place.custom_device_type())

    def choose(candidates: dict[Any, str]) -> str | None:
        enabled = selection._get_enabled_backends()
        order = selection._get_backend_priority()
        return next((candidates[b] for b in order if b in enabled and b in candidates), None)

    def select_for_parameters(parameters: Any) -> str:
        if not on_ours(parameters.place[0]):
            return str(select(parameters))
        candidates = {backends.MATH: "math"}
        square = parameters.seq_len[0] == parameters.seq_len[1] or not parameters.is_causal
        if square and not math_only.wanted and len(set(parameters.dtype)) == 1:
            if parameters.scale is None and len(set(parameters.head_dim)) == 1:
                candidates[backends.FLASH_ATTENTION] = "flash_attn"
            # The kernel's scale is a float32, and one below 0 asks for the default.
            is_float64 = parameters.dtype[0] == module.paddle.float64
            if parameters.scale is None or (parameters.scale >= 0 and not is_float64):
                candidates[backends.EFFICIENT_ATTENTION] = "mem_efficient"
        return choose(candidates) or str(select(parameters))

    module.select_sdp_for_sdpa = select_for_parameters
    attention = composed_if(composes, ("attn_mask", "dropout_p", "training"), module.scaled_dot_product_attention)
    module.scaled_dot_product_attention = functional.scaled_dot_product_attention = attention

    # What it would call a kernel by asks for flags of CUDA's wheels.
    @functools.wraps(composed)
    def flash_attention(
        query: Any,
        key: Any,
        value: Any,
        dropout: float = 0.0,
        causal: bool = False,
        return_softmax: bool = False,
        *,
        training: bool = True,
        softmax_scale: float | None = None,
        **others: Any,
    ) -> tuple[Any, Any]:
        if return_softmax or not device_patches.present_device_is_ours():
            others |= {"training": training, "softmax_scale": softmax_scale}
            result: tuple[Any, Any] = composed(query, key, value, dropout, causal, return_softmax, **others)
            return result
        return attention(query, key, value, None, dropout, causal, training, scale=softmax_scale), None

    flash.flash_attention = flash_attention


def patch_skipped_files(module: Any) -> None:
    """to_static's translator of bytecode leaves what these modules have in the place of Paddle's functions alone, as it
    does those: it would take them for the user's, break the graph in them, and has failed with an UnboundLocalError."""
    module.skip_file_names.add(patch_skipped_files.__code__.co_filename.removesuffix("patches.py"))
    module.skip_file_name_re = module.re.compile(f"^({'|'.join(map(module.re.escape, module.skip_file_names))})")
    module.setup_skip_files()


def patch_functional(functional: Any) -> None:
    patch_attention(functional)
    mixed_precision_patches.patch_linear(functional)
    convolution_patches.patch_convolutions(functional)


class LeavesWeightsApart:
    """A module of ops without coalesce_tensor on our devices."""

    def __init__(self, ops: Any) -> None:
        self.ops = ops

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ops, name)

    def coalesce_tensor(self, *arguments: Any) -> Any:
        if device_patches.present_device_is_ours():
            return None
        return self.ops.coalesce_tensor(*arguments)


def patch_recurrent(module: Any) -> None:
    """Weights of recurrent layers stay where they are.

    Paddle moves them into one block, which cuDNN asks for; our kernel does not, and a plugin's kernel cannot make one
    tensor part of another.
    """
    module._legacy_C_ops = LeavesWeightsApart(module._legacy_C_ops)
    module._C_ops = LeavesWeightsApart(module._C_ops)


class NamesCpu:
    """The module paddle, whose current device is called the CPU where it is one of ours."""

    def __init__(self, paddle: Any) -> None:
        self.paddle = paddle

    def __getattr__(self, name: str) -> Any:
        return getattr(self.paddle, name)

    def get_device(self) -> Any:
        device = self.paddle.get_device()
        return "cpu" if serves(device.partition(":")[0]) else device


def patch_linalg(module: Any) -> None:
    """lstsq takes the drivers of the CPU: it refuses types of devices that it does not know, and asks nothing else."""
    module.paddle = NamesCpu(module.paddle)


def patch_collectives(module: Any) -> None:
    paddle = sys.modules["paddle"]
    device_patches.patch_collectives(paddle, module, paddle.base.core)


def patch_profiler(module: Any) -> None:
    """A stopped Profiler makes room for the next one, though the program still has it: there is one of Paddle's own
    profilers at a time, and the second got none, without a word."""
    initialize, stop = module.Profiler.__init__, module.Profiler.stop

    @functools.wraps(initialize)
    def __init__(self: Any, *arguments: Any, **keywords: Any) -> None:  # noqa: N807
        initialize(self, *arguments, **keywords)
        if self.profiler is None and not self.timer_only:
            raise RuntimeError("another Profiler is in use; stop it before you make the next one")

    @functools.wraps(stop)
    def stop_and_leave(self: Any) -> None:
        stop(self)
        self.profiler = None

    module.Profiler.__init__, module.Profiler.stop = __init__, stop_and_leave


class PatchWhenImported(importlib.abc.MetaPathFinder):
    """Finds nothing; patches each module of `patches` at the first import of anything after it was executed."""

    def __init__(self, patches: dict[str, Callable[[Any], None]]) -> None:
        self.patches = patches

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        for name in list(self.patches):
            module = sys.modules.get(name)
            if module is None or getattr(module.__spec__, "_initializing", False):
                continue
            patch = self.patches.pop(name, None)
            if patch is None:
                continue  # another thread was faster
            try:
                patch(module)
            except AttributeError as error:
                print(f"unihal: {name} of this Paddle cannot be adapted: {error}", file=sys.stderr)
        if not self.patches and self in sys.meta_path:
            sys.meta_path.remove(self)


patch_place(sys.modules["paddle.base.libpaddle"])
patch_blocks(sys.modules["paddle.base.libpaddle"])
device_patches.patch_flags(sys.modules["paddle.base.libpaddle"])
device_patches.patch_events(sys.modules["paddle.base.libpaddle"])
sys.meta_path.insert(
    0,
    PatchWhenImported(
        {
            "paddle.base": patch_base,
            "paddle.base.framework": patch_framework,
            "paddle.device": patch_device,
            "paddle.device.cuda.graphs": patch_graphs,
            "paddle.amp.auto_cast": patch_auto_cast,
            "paddle.nn.functional": patch_functional,
            "paddle.compat.nn.functional": mixed_precision_patches.patch_compatible_linear,
            "paddle.jit.sot.opcode_translator.skip_files": patch_skipped_files,
            "paddle.nn.layer.rnn": patch_recurrent,
            "paddle.nn.layer.transformer": mixed_precision_patches.patch_multi_head_attention,
            "paddle.optimizer.momentum": optimizer_patches.patch_momentum,
            "paddle.optimizer.adam": optimizer_patches.patch_adam,
            "paddle.tensor.linalg": patch_linalg,
            "paddle.hapi": patch_tensors,
            "paddle.framework.random": patch_random,
            "paddle.profiler.profiler": patch_profiler,
            "paddle.distributed.parallel": patch_collectives,
        }
    ),
)
