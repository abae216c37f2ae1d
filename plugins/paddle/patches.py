"""What the adapter changes in Paddle's Python side. Runs inside `import paddle`, which is not finished then.

Paddle decides some things by the names of device types that it knows, and ends the process where a device
does not exist. Modules that are not imported yet are patched when they are.

LIBRARY: path of libunihal_paddle.so, set by python_patches.cc.
"""

from __future__ import annotations

import ctypes
import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any, Callable, Sequence

LIBRARY: str


def refusal(device_type: str, ordinal: int) -> str:
    """Why a device cannot be used; "" if it can, or if its type is not one of ours."""
    function = ctypes.CDLL(LIBRARY).uhal_paddle_refusal
    function.restype = ctypes.c_char_p
    function.argtypes = [ctypes.c_char_p, ctypes.c_int32]
    text: bytes = function(device_type.encode(), ordinal)
    return text.decode(errors="replace")


def is_ours(device_type: str) -> bool:
    """Whether a device type is served by unihal in this process."""
    function = ctypes.CDLL(LIBRARY).uhal_paddle_serves
    function.argtypes = [ctypes.c_char_p]
    return bool(function(device_type.encode()))


def patch_place(core: Any) -> None:
    """A device that does not exist is a ValueError: Paddle itself would end the process."""
    original = core.CustomPlace.__init__

    def initialize(self: Any, device_type: str, ordinal: int = 0) -> None:
        reason = refusal(device_type, ordinal)
        if reason:
            raise ValueError(reason)
        original(self, device_type, ordinal)

    core.CustomPlace.__init__ = initialize


def patch_device(module: Any) -> None:
    """paddle.set_device of one of our types tells why there is none; device modules are found for our types."""
    convert = module._convert_to_place
    get_module = module.get_device_module

    def convert_to_place(device: Any) -> Any:
        if isinstance(device, str):
            device_type, _, ordinal = device.partition(":")
            reason = refusal(device_type, int(ordinal) if ordinal.isdigit() else 0)
            if reason:
                raise ValueError(reason)
        return convert(device)

    def get_device_module(device: Any = None) -> Any:
        if isinstance(device, str) and is_ours(device.partition(":")[0]):
            return module.custom_device
        return get_module(device)

    module._convert_to_place = convert_to_place
    module.get_device_module = get_device_module


def patch_auto_cast(module: Any) -> None:
    """bfloat16 automatic mixed precision, which Paddle allows by the name of the device type."""
    original = module._is_custom_device_bfloat16_supported

    def supported() -> bool:
        place = module._current_expected_place()
        return is_ours(place.get_device_type()) or bool(original())

    module._is_custom_device_bfloat16_supported = supported


class PatchAfterImport(importlib.abc.MetaPathFinder):
    """Finds each module of `patches` as the other finders do, and patches it once it has been executed."""

    def __init__(self, patches: dict[str, Callable[[Any], None]]) -> None:
        self.patches = patches

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self.patches:
            return None
        patch = self.patches.pop(name)
        if not self.patches:
            sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_patch(module: ModuleType) -> None:
            execute(module)
            try:
                patch(module)
            except AttributeError as error:
                print(f"unihal: {name} of this Paddle cannot be adapted: {error}", file=sys.stderr)

        spec.loader.exec_module = execute_and_patch  # type: ignore[method-assign]
        return spec


def apply() -> None:
    patch_place(sys.modules["paddle.base.libpaddle"])
    later = {"paddle.device": patch_device, "paddle.amp.auto_cast": patch_auto_cast}
    for name in [name for name in later if name in sys.modules]:
        later.pop(name)(sys.modules[name])
    if later:
        sys.meta_path.insert(0, PatchAfterImport(later))


apply()
