"""Run as a program: ops of TensorFlow's CPU without a kernel of ours, in eager mode, in a function and in a thread.

Which ops, and what they are called with, comes from TensorFlow's registries: the first of a few operands that the CPU
accepts. Prints one line of JSON for each op: what was counted, or the error, by way of calling.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
import unihal
from tensorflow.python.eager import context
from tensorflow.python.framework import dtypes, kernels, op_def_registry

DEVICE = "RDNA"
HOST = {tf.string, tf.resource, tf.variant}
HOST_NUMBERS = {dtype.as_datatype_enum for dtype in HOST}
# With state of their own, or that wait for others; those at the end are ended by TensorFlow's CPU with some operands.
LEFT_OUT = (
    *("Assert", "Batch", "Barrier", "Collective", "Debug", "Dummy", "Nccl", "PlaceholderWithDefault", "Queue", "Recv"),
    *("Send", "Stage", "Stack"),
    *("CombinedNonMaxSuppression", "FusedPadConv2D", "Unbatch"),
)
DTYPES = [tf.float32, tf.int64, tf.float64, tf.complex64, tf.bool, tf.uint8, tf.half, tf.int16, tf.quint8, tf.qint32]
VALUES: list[Any] = [[[2.0, 1.0], [1.0, 2.0]], [1.0, 2.0], 1.0, [[[[1.0, 2.0], [2.0, 1.0]]]], [2, 2], [[0, 1]]]
MAX_TRIES = 60


def allowed(kernel: Any, types: dict[str, Any]) -> bool:
    return all(
        types[c.name].as_datatype_enum in c.allowed_values.list.type for c in kernel.constraint if c.name in types
    )


class Case:
    """An op with dtypes for which the CPU has a kernel and the device has none."""

    def __init__(self, definition: Any) -> None:
        self.name = definition.name
        self.definition = definition
        self.kernels = [k for k in kernels.get_registered_kernels_for_op(self.name).kernel if not k.label]
        self.ours = any(k.device_type == DEVICE for k in self.kernels)
        self.types: dict[str, Any] = {}

    def is_of_interest(self) -> bool:
        arguments = [*self.definition.input_arg, *self.definition.output_arg]
        plain = all(a.type not in HOST_NUMBERS and not a.is_ref and not a.type_list_attr for a in arguments)
        return (
            plain
            and bool(self.definition.input_arg)
            and bool(self.definition.output_arg)
            and not self.name.startswith("_")
            and not any(part in self.name for part in LEFT_OUT)
            and not any(a.type == "func" for a in self.definition.attr)
            and any(k.device_type == "CPU" for k in self.kernels)
        )

    def find_types(self) -> bool:
        """Chooses the first dtypes that the CPU has alone; one for the data, others by default or int32."""
        attributes = [a for a in self.definition.attr if a.type == "type"]
        data = [a.type_attr for a in self.definition.output_arg if a.type_attr] + [a.name for a in attributes]
        for dtype in DTYPES if data else [None]:
            self.types = {}
            for attribute in attributes:
                listed = [dtypes.as_dtype(t) for t in attribute.allowed_values.list.type]
                if attribute.name == data[0]:
                    chosen = dtype
                elif attribute.HasField("default_value"):
                    chosen = dtypes.as_dtype(attribute.default_value.type)
                else:
                    chosen = next((t for t in (dtype, tf.int32, tf.float32) if not listed or t in listed), listed[:1])
                if listed and chosen not in listed:
                    break
                self.types[attribute.name] = chosen
            else:
                devices = {k.device_type for k in self.kernels if allowed(k, self.types)}
                if "CPU" in devices and not devices & {DEVICE, "DEFAULT"} and self.has_data():
                    return True
        return False

    def has_data(self) -> bool:
        arguments = [*self.definition.input_arg, *self.definition.output_arg]
        types = {self.types.get(a.type_attr) if a.type_attr else dtypes.as_dtype(a.type) for a in arguments}
        return not types & HOST and bool(types - {tf.int32})

    def operands(self) -> Iterator[dict[str, Any]]:
        """Candidates for the operands, as arrays."""
        slots = []
        for argument in self.definition.input_arg:
            dtype = self.types[argument.type_attr] if argument.type_attr else dtypes.as_dtype(argument.type)
            values = [np.asarray(v).astype(dtype.base_dtype.as_numpy_dtype) for v in VALUES]
            slots.append([[v, v] if argument.number_attr else v for v in values])
        alike = [dict(zip((a.name for a in self.definition.input_arg), vs, strict=True)) for vs in zip(*slots)]
        yield from alike
        for values in itertools.islice(itertools.product(*slots), MAX_TRIES):
            yield dict(zip((a.name for a in self.definition.input_arg), values, strict=True))

    def attributes(self) -> dict[str, Any]:
        """What has no default and does not follow from the operands."""
        follows = {a.type_attr for a in self.definition.input_arg} | {a.number_attr for a in self.definition.input_arg}
        simple = {"int": 1, "float": 0.5, "bool": False, "list(int)": [1, 1, 1, 1], "list(float)": [1.0], "shape": [2]}
        result: dict[str, Any] = {}
        for attribute in self.definition.attr:
            if attribute.name in follows or (attribute.HasField("default_value") and attribute.type != "type"):
                continue
            if attribute.type == "type":
                result[attribute.name] = self.types[attribute.name]
            elif attribute.type == "string":
                choices = attribute.allowed_values.list.s
                result[attribute.name] = choices[0].decode() if choices else ""
            else:
                result[attribute.name] = simple.get(attribute.type)
        return result

    def call(self, operands: dict[str, Any]) -> Any:
        return getattr(tf.raw_ops, self.name)(**operands, **self.attributes())


def tensors(operands: dict[str, Any]) -> dict[str, Any]:
    return {k: [tf.constant(e) for e in v] if isinstance(v, list) else tf.constant(v) for k, v in operands.items()}


def find_operands(case: Case) -> dict[str, Any] | None:
    """Operands that the CPU takes, in eager mode and in a graph."""
    for operands in case.operands():
        try:
            with tf.device("CPU:0"):
                given = tensors(operands)
                case.call(given)
            tf.function(case.call).get_concrete_function(given)
            return operands
        except Exception:
            continue
    return None


def counted(run: Callable[[], Any]) -> list[Any]:
    """What a call adds to the counts: [op, dtype, reason], or its error."""

    def counts() -> dict[tuple[str, str, str], int]:
        return {(f.op, f.dtype, f.reason): f.count for f in unihal.fallbacks()}

    before = counts()
    try:
        run()
    except Exception as error:
        return ["error", type(error).__name__, str(error)[:300]]
    return [list(key) for key, count in counts().items() if count > before.get(key, 0)]


def in_thread(run: Callable[[], Any]) -> None:
    errors = []

    def body() -> None:
        try:
            run()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def ways(case: Case, operands: dict[str, Any]) -> dict[str, list[Any]]:
    with tf.device(f"/device:{DEVICE}:0"):
        given = tensors(operands)

    def eager() -> None:
        with tf.device(f"/device:{DEVICE}:0"):
            case.call(given)

    @tf.function
    def traced(values: Any) -> Any:
        with tf.device(f"/device:{DEVICE}:0"):
            return case.call(values)

    result = {"eager": counted(eager), "thread": counted(lambda: in_thread(eager))}
    context.context().enable_graph_collection()
    result["function"] = counted(lambda: traced(given))
    graphs = context.context().export_run_metadata().function_graphs
    context.context().disable_graph_collection()
    nodes = [node.op for graph in graphs for node in graph.post_optimization_graph.node]
    return {**result, "kept": case.name in nodes}


def main(step: int) -> None:
    """Takes every so many'th op."""
    names = [name for name in dir(tf.raw_ops) if op_def_registry.get(name) is not None]
    cases = [case for case in map(Case, map(op_def_registry.get, sorted(names))) if case.is_of_interest()]
    for case in [case for case in cases if case.find_types()][::step]:
        operands = find_operands(case)
        if operands is not None:
            print("CASE", json.dumps({"op": case.name, "ours": case.ours, **ways(case, operands)}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
