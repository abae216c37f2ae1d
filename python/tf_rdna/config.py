"""Devices and their memory, as `tf.config` has them for GPUs.

TensorFlow fixes what is visible, and how memory grows, when it first uses a device: such a call that comes too late is
TensorFlow's own RuntimeError. Numbers of cards are those of `list_devices`; `tf_rdna.device` and `get_memory_info`
count visible ones only, as TensorFlow does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import unihal

#: The name in TensorFlow, and the one in unihal.
DEVICE_TYPE = "RDNA"
UNIHAL_TYPE = "rdna"


@dataclass(frozen=True)
class DeviceInfo:
    """A card: its number, TensorFlow's name of it, what its driver calls it, its memory in bytes, whether TensorFlow
    may use it, and the backend that drives it.
    """

    number: int
    name: str
    description: str
    memory_bytes: int
    visible: bool
    backend: str


@dataclass(frozen=True)
class MemoryInfo:
    """Bytes of a card: `current` and `peak` are held by tensors, as TensorFlow counts; `reserved` is what this process
    takes of the card, of `total`; `limit` is the cap on it (0: none).
    """

    current: int
    peak: int
    reserved: int
    limit: int
    total: int


def tensorflow_name(number: int) -> str:
    """TensorFlow's name of a visible card."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise ValueError(f"a device is named by its number, 0 or more, not by {number!r}")
    return f"/device:{DEVICE_TYPE}:{number}"


def _physical() -> list[Any]:
    import tensorflow as tf

    found: list[Any] = tf.config.list_physical_devices(DEVICE_TYPE)
    return found


def _physical_of(number: int) -> Any:
    present = _physical()
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(present):
        raise ValueError(f"there is no card {number!r}: TensorFlow sees {len(present)}, counted from 0")
    return present[number]


def list_devices() -> list[DeviceInfo]:
    """All cards that TensorFlow sees, visible to the program or not."""
    import tensorflow as tf

    visible = {device.name for device in tf.config.get_visible_devices(DEVICE_TYPE)}
    result = []
    for number, device in enumerate(_physical()):
        properties = unihal.Device(UNIHAL_TYPE, number).properties
        result.append(
            DeviceInfo(
                number,
                device.name,
                properties.name,
                properties.total_memory,
                device.name in visible,
                properties.backend,
            )
        )
    return result


def set_visible_devices(numbers: Sequence[int], *, hide_other_types: bool = True) -> None:
    """Lets TensorFlow use these cards only, by their numbers; before it uses a device.

    `hide_other_types` hides devices of other plugins (with the stub: ILUVATAR and POLARIS), so that ops without a
    device scope come here; the CPU stays. An empty list is a ValueError: TensorFlow ignores it for plugins' devices.
    """
    import tensorflow as tf

    if isinstance(numbers, (str, bytes)) or not isinstance(numbers, Sequence):
        raise TypeError(f"set_visible_devices takes numbers of cards, such as [0], not {numbers!r}")
    if not numbers:
        raise ValueError(
            "set_visible_devices([]): TensorFlow ignores an empty list of plugins' devices; for the CPU write "
            "tf.device('/CPU:0')"
        )
    chosen = [_physical_of(number) for number in numbers]
    others = [
        device
        for device in (tf.config.list_physical_devices() if hide_other_types else tf.config.get_visible_devices())
        if device.device_type == "CPU" or (not hide_other_types and device.device_type != DEVICE_TYPE)
    ]
    tf.config.set_visible_devices(others + chosen)


def get_visible_devices() -> list[int]:
    """The numbers of the cards that TensorFlow may use."""
    import tensorflow as tf

    visible = {device.name for device in tf.config.get_visible_devices(DEVICE_TYPE)}
    return [number for number, device in enumerate(_physical()) if device.name in visible]


def _number_of_visible(number: int) -> int:
    """The number among all cards of the `number`-th visible one."""
    visible = get_visible_devices()
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(visible):
        raise ValueError(f"there is no visible card {number!r}: there are {len(visible)}, counted from 0")
    return visible[number]


def get_memory_info(number: int = 0) -> MemoryInfo:
    """The memory of a visible card."""
    import tensorflow as tf

    stats = unihal.Device(UNIHAL_TYPE, _number_of_visible(number)).memory_stats()
    found = tf.config.experimental.get_memory_info(f"{DEVICE_TYPE}:{number}")
    return MemoryInfo(
        int(found["current"]), int(found["peak"]), stats.reserved_bytes, stats.limit_bytes, stats.total_bytes
    )


def reset_memory_stats(number: int = 0) -> None:
    """The peak of a visible card begins anew at what is held now."""
    import tensorflow as tf

    _number_of_visible(number)
    tf.config.experimental.reset_memory_stats(f"{DEVICE_TYPE}:{number}")


def set_memory_growth(enable: bool = True) -> None:
    """Lets TensorFlow take memory as it needs it instead of most of the card at once; before it uses a device.

    TensorFlow wants one setting for all devices of all plugins, so it is set for all of them.
    """
    import tensorflow as tf

    if not isinstance(enable, bool):
        raise TypeError(f"set_memory_growth takes True or False, not {enable!r}")
    for device in tf.config.list_physical_devices():
        if device.device_type not in ("CPU", "GPU"):
            tf.config.experimental.set_memory_growth(device, enable)


def get_memory_growth(number: int = 0) -> bool:
    """Whether memory of a card (by its number in `list_devices`) is taken as it is needed."""
    import tensorflow as tf

    return bool(tf.config.experimental.get_memory_growth(_physical_of(number)))


def set_memory_limit(limit_bytes: int, number: int = 0) -> None:
    """Caps what this process takes of a card (by its number in `list_devices`), in bytes; 0 removes the cap.

    It may come at any time: what was taken already stays. What goes beyond it is TensorFlow's ResourceExhaustedError.
    Unlike a logical device's limit, which TensorFlow has not for plugins, it holds for all of the process' work there.
    """
    if isinstance(limit_bytes, bool) or not isinstance(limit_bytes, int) or limit_bytes < 0:
        raise ValueError(f"a limit is a number of bytes, 0 or more, not {limit_bytes!r}")
    unihal.Device(UNIHAL_TYPE, number).set_memory_limit(limit_bytes)


def get_memory_limit(number: int = 0) -> int:
    """The cap on a card's memory in bytes; 0: none."""
    return unihal.Device(UNIHAL_TYPE, number).memory_stats().limit_bytes
