"""Run once by libunihal_tensorflow.so in the Python that imports TensorFlow, before the eager context exists.

Mends what TensorFlow and Keras do not know about devices that are no GPU, and watches eager execution for
fallbacks when somebody wants to know of them.
"""

import ctypes
import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any

LIBRARY = "libunihal_tensorflow.so"
STOCK_TYPES = ("CPU", "GPU", "TPU")


def _has_plugin_device() -> bool:
    from tensorflow.python.eager import context

    return any(device.device_type not in STOCK_TYPES for device in context.context().list_physical_devices())


def _current_device_type() -> str:
    """The type that a device scope asks for; "" without one."""
    from tensorflow.python.distribute import device_util
    from tensorflow.python.eager import context
    from tensorflow.python.framework import device, ops

    name = context.context().device_name
    if not context.executing_eagerly():
        operation = device_util._FakeOperation()
        ops.get_default_graph()._apply_device_functions(operation)
        name = operation.device or name
    return str(device.DeviceSpec.from_string(name or "").device_type or "")


def _refuse_jit_compile() -> None:
    """jit_compile=True needs an XLA backend, which plugin devices have none of: an error that says what to do.

    Keras' layers and optimizers ask for it without having been told to: theirs is dropped.
    """
    from tensorflow.python.eager.polymorphic_function import polymorphic_function
    from tensorflow.python.framework import errors_impl

    function_class = polymorphic_function.Function
    original = function_class.__init__
    trainers = ("keras.src.backend.tensorflow.trainer", "tf_keras.src.engine.training")

    class Refusing(function_class):  # type: ignore[misc, valid-type]
        def _refuse(self) -> None:
            if _current_device_type() != "CPU":
                raise errors_impl.UnimplementedError(
                    None,
                    None,
                    "unihal: jit_compile=True asks for XLA, which has no backend for pluggable devices. Leave it out "
                    '(in Keras: compile(..., jit_compile="auto")), and the function runs with unihal\'s fusions; or '
                    'call it in the scope of tf.device("CPU")',
                )

        def __call__(self, *args: Any, **keywords: Any) -> Any:
            self._refuse()
            return super().__call__(*args, **keywords)

        def get_concrete_function(self, *args: Any, **keywords: Any) -> Any:
            self._refuse()
            return super().get_concrete_function(*args, **keywords)

    def asks_by_itself() -> bool:
        caller = sys._getframe(2)
        while caller.f_back is not None and caller.f_globals.get("__name__", "").startswith("tensorflow."):
            caller = caller.f_back
        module = caller.f_globals.get("__name__", "")
        return module.startswith(("keras.", "tf_keras.")) and module not in trainers

    def init(self: Any, *args: Any, **keywords: Any) -> None:
        if keywords.get("jit_compile") and _has_plugin_device():
            if asks_by_itself():
                keywords["jit_compile"] = None
            else:
                self.__class__ = Refusing
        original(self, *args, **keywords)

    function_class.__init__ = init


def _answer_auto() -> None:
    """Keras' compile(jit_compile="auto") becomes True where the model allows it, whatever the device."""

    def change(module: Any) -> None:
        # A method since Keras 3.12, a function before.
        place, name = module.Trainer, "_resolve_auto_jit_compile"
        if not hasattr(place, name):
            place, name = module, "resolve_auto_jit_compile"
        original = getattr(place, name)
        setattr(place, name, lambda model: not _has_plugin_device() and original(model))

    _when_imported("keras.src.trainers.trainer", change)


def _when_imported(name: str, change: Callable[[Any], None]) -> None:
    """Changes a module when it has been imported."""
    if name in sys.modules:
        change(sys.modules[name])
        return

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
            if fullname != name:
                return None
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(fullname)
            if spec is None or spec.loader is None:
                return spec
            execute = spec.loader.exec_module

            def execute_and_change(module: Any) -> None:
                execute(module)
                change(module)

            spec.loader.exec_module = execute_and_change  # type: ignore[method-assign]
            return spec

    sys.meta_path.insert(0, Finder())


def _default_type() -> str:
    """The type on whose devices ops run that nobody placed; "" where that is no plugin's."""
    from tensorflow.python.eager import context

    types = {device.device_type for device in context.context().list_logical_devices()}
    return "" if "GPU" in types else min(types - set(STOCK_TYPES), default="")


def _offer_devices_to_strategies() -> None:
    """MirroredStrategy() and MultiWorkerMirroredStrategy() look for GPUs, and then take the CPU."""
    from tensorflow.python.distribute import collective_all_reduce_strategy, mirrored_strategy
    from tensorflow.python.framework import config

    local_devices = mirrored_strategy.all_local_devices

    def all_local_devices(num_gpus: int | None = None) -> Any:
        found = config.list_logical_devices(_default_type() or "GPU")
        return found[:num_gpus] or local_devices(num_gpus)

    extended = collective_all_reduce_strategy.CollectiveAllReduceExtended
    local_devices_of_worker = extended._initialize_local_devices

    def initialize_local_devices(self: Any, cluster_resolver: Any, worker_device: str) -> Any:
        devices, device_type = local_devices_of_worker(self, cluster_resolver, worker_device)
        ours = _default_type() if device_type == "CPU" else ""
        if not ours:
            return devices, device_type
        count = len(config.get_visible_devices(ours))  # the logical ones are those of all workers
        return tuple(f"{worker_device}/device:{ours}:{i}" for i in range(count)), ours

    mirrored_strategy.all_local_devices = all_local_devices
    extended._initialize_local_devices = initialize_local_devices


def _tell_types_apart() -> None:
    """TensorFlow 2.18 numbers the devices of all plugins in one list, and gives the whole of it to each type.

    There the list is made of numbers within a type, and a type of which nothing is visible has no devices.
    """
    from tensorflow.python.framework import versions

    if not versions.VERSION.startswith("2.18."):
        return
    from tensorflow.python.eager import context

    hide = ctypes.CDLL(LIBRARY).uhal_tensorflow_hide
    original = context.Context._compute_device_options

    def compute_device_options(self: Any, device_type: str = "GPU") -> Any:
        options = original(self, device_type)
        if device_type != "PluggableDevice":
            return options
        types: dict[str, list[Any]] = {}
        for device in self._pluggable_devices or ():
            types.setdefault(device.device_type, []).append(device in self._visible_device_list)
        hidden = {name for name, visible in types.items() if not any(visible)}
        lists = {tuple(visible) for name, visible in types.items() if name not in hidden}
        if len(lists) > 1 and not all(map(all, lists)):
            raise ValueError(
                "unihal: TensorFlow 2.18 has one list of visible devices for all types of plugins: make devices of one "
                "type visible, or those of the same numbers of each, or install TensorFlow 2.19 or later"
            )
        shown = next(iter(lists), ())
        numbers = [] if all(map(all, lists)) else [i for i, visible in enumerate(shown) if visible]
        options.visible_device_list = ",".join(map(str, numbers))
        for name in types:
            hide(name.encode(), name in hidden)
        return options

    context.Context._compute_device_options = compute_device_options


def _watch_fallbacks() -> None:
    """Reports ops that eager execution ran on the CPU although one of our devices was asked for.

    In graphs the pass does so; here it is told which device each node was asked to be on.
    """
    from tensorflow.core.framework import attr_value_pb2
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.eager import context, execute
    from tensorflow.python.framework import device as device_library
    from tensorflow.python.framework import dtypes, errors_impl, op_def_registry

    record = ctypes.CDLL(LIBRARY).uhal_tensorflow_record_fallback
    record.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p]
    record.restype = ctypes.c_char_p

    def device_type(name: str) -> str:
        return str(device_library.DeviceSpec.from_string(name).device_type or "")

    def wanted_type() -> str:
        asked = device_type(context.context().device_name or "")
        if asked:
            return asked
        types = sorted({device.device_type for device in context.context().list_logical_devices()} - set(STOCK_TYPES))
        return types[0] if types else "CPU"

    def number(value: Any) -> str:
        return str(value.as_datatype_enum if isinstance(value, dtypes.DType) else value)

    def type_attributes(name: str, inputs: Any, attributes: Any, outputs: Any) -> str:
        """The op's type attributes; what eager execution was not given follows from the tensors."""
        found: dict[str, Any] = {}
        for attribute, value in zip(attributes[::2], attributes[1::2], strict=True):
            values = value if isinstance(value, (list, tuple)) else [value]
            if values and all(type(v) is int or isinstance(v, dtypes.DType) for v in values):
                found[attribute.decode() if isinstance(attribute, bytes) else attribute] = values
        definition = op_def_registry.get(name)
        for arguments, tensors in ((definition.input_arg, inputs), (definition.output_arg, outputs)):
            position = 0
            for argument in arguments:
                if argument.type_list_attr and argument.type_list_attr not in found:
                    break
                if argument.type_attr and position < len(tensors):
                    found[argument.type_attr] = [tensors[position].dtype]
                size = argument.type_list_attr or argument.number_attr
                position += 1 if not size else (found[size][0] if argument.number_attr else len(found[size]))
        return "".join(f"{attribute}={','.join(map(number, values))};" for attribute, values in found.items())

    def check(op_type: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None) -> None:
        if graph is not None:
            asked = device_type(outputs[0].op.device) if outputs else ""
            if asked and outputs[0].op.type not in ("Const", "Placeholder"):
                outputs[0].op._set_attr("_unihal_wanted", attr_value_pb2.AttrValue(s=asked.encode()))
            return
        if not outputs or device_type(outputs[0].device) != "CPU":
            return
        wanted = wanted_type()
        if wanted in STOCK_TYPES:
            return
        name = op_type.decode() if isinstance(op_type, bytes) else op_type
        message = record(wanted.encode(), name.encode(), type_attributes(name, inputs, attrs, outputs).encode())
        if message:
            raise errors_impl.UnimplementedError(None, None, message.decode())

    # TensorFlow keeps callbacks by thread: each thread gets ours with its first op.
    callbacks_of_thread = context.Context.op_callbacks.fget

    def callbacks(self: Any) -> Any:
        found = callbacks_of_thread(self)
        if check not in found:
            found.append(check)
        return found

    context.Context.op_callbacks = property(callbacks)
    execute.execute = execute.execute_with_callbacks
    fast_path = pywrap_tfe.TFE_Py_FastPathExecute

    def watched_fast_path(self: Any, *arguments: Any) -> Any:
        self.op_callbacks  # noqa: B018
        return fast_path(self, *arguments)

    pywrap_tfe.TFE_Py_FastPathExecute = watched_fast_path


_refuse_jit_compile()
_answer_auto()
_offer_devices_to_strategies()
_tell_types_apart()
if os.environ.get("UNIHAL_STRICT") == "1" or os.environ.get("UNIHAL_FALLBACK_LOG"):
    _watch_fallbacks()
