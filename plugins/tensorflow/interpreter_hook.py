"""Run once by libunihal_tensorflow.so in the Python that imports TensorFlow, before the eager context exists.

Mends what TensorFlow and Keras do not know about devices that are no GPU, and watches eager execution for
fallbacks when somebody wants to know of them.
"""

import ctypes
import os
from typing import Any

LIBRARY = "libunihal_tensorflow.so"
STOCK_TYPES = ("CPU", "GPU", "TPU")


def _has_plugin_device() -> bool:
    from tensorflow.python.eager import context

    return any(device.device_type not in STOCK_TYPES for device in context.context().list_physical_devices())


def _drop_jit_compile() -> None:
    """tf.function(jit_compile=True) needs an XLA backend, which plugin devices have none of.

    Keras' compile(jit_compile="auto") resolves to True on them, and asks for it again in grouped convolutions.
    """
    from tensorflow.python.eager.polymorphic_function import polymorphic_function

    function_class = polymorphic_function.Function
    original = function_class.__init__

    def init(self: Any, *args: Any, **keywords: Any) -> None:
        if keywords.get("jit_compile") and _has_plugin_device():
            keywords["jit_compile"] = None
        original(self, *args, **keywords)

    function_class.__init__ = init


def _watch_fallbacks() -> None:
    """Reports ops that eager execution ran on the CPU although one of our devices was asked for."""
    from tensorflow.python.eager import context
    from tensorflow.python.framework import device as device_library
    from tensorflow.python.framework import errors_impl, op_callbacks

    record = ctypes.CDLL(LIBRARY).uhal_tensorflow_record_fallback
    record.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int]
    record.restype = ctypes.c_char_p

    def device_type(name: str) -> str:
        return str(device_library.DeviceSpec.from_string(name).device_type or "")

    def wanted_type() -> str:
        asked = device_type(context.context().device_name or "")
        if asked:
            return asked
        types = sorted({device.device_type for device in context.context().list_logical_devices()} - set(STOCK_TYPES))
        return types[0] if types else "CPU"

    def check(op_type: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None) -> None:
        if graph is not None or not outputs or device_type(outputs[0].device) != "CPU":
            return
        wanted = wanted_type()
        if wanted in STOCK_TYPES:
            return
        operands = list(inputs) or list(outputs)
        name = op_type.decode() if isinstance(op_type, bytes) else op_type
        message = record(wanted.encode(), name.encode(), operands[0].dtype.as_datatype_enum)
        if message:
            raise errors_impl.UnimplementedError(None, None, message.decode())

    op_callbacks.add_op_callback(check)


_drop_jit_compile()
if os.environ.get("UNIHAL_STRICT") == "1" or os.environ.get("UNIHAL_FALLBACK_LOG"):
    _watch_fallbacks()
