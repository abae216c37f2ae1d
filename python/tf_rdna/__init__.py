"""RDNA cards for TensorFlow programs: which devices are visible, and how much memory they take.

    import tf_rdna

    tf_rdna.config.set_visible_devices([0])        # before TensorFlow uses a device
    tf_rdna.config.set_memory_limit(2 << 30)
    with tf_rdna.device(0):
        ...                                        # TensorFlow, on the first card
    print(tf_rdna.config.get_memory_info())

A thin package over TensorFlow's own functions, which know the devices by the name `RDNA`, and over unihal's allocator.
TensorFlow is imported when it is first needed. docs/tf-rdna.md is the guide.
"""

from __future__ import annotations

from typing import Any

import unihal

from . import config
from .config import DEVICE_TYPE, DeviceInfo, MemoryInfo

__all__ = [
    "DEVICE_TYPE",
    "DeviceInfo",
    "MemoryInfo",
    "config",
    "device",
    "device_count",
    "is_available",
    "why_unavailable",
]


def device_count() -> int:
    """The number of cards, visible or not."""
    return len(unihal.devices(config.UNIHAL_TYPE))


def is_available() -> bool:
    """Whether there is a card (or the stub was asked for, by `UNIHAL_BACKEND=stub`)."""
    return device_count() > 0


def why_unavailable() -> str:
    """What was looked for and not found, a line for each backend; "" if there is a card."""
    if is_available():
        return ""
    return "\n".join(f"{report.backend}: {report.reason}" for report in unihal.backend_reports(config.UNIHAL_TYPE))


def device(number: int = 0) -> Any:
    """`tf.device` of a visible card: ops inside of the `with` block go there."""
    import tensorflow as tf

    return tf.device(config.tensorflow_name(number))
