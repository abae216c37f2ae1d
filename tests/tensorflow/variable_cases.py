"""Run as a program: each op on resource variables that TensorFlow's CPU has, on the CPU and on the device.

Ops and dtypes come from TensorFlow's registries, operands from the names of the arguments. Prints one line of JSON for
each case: whether there is a kernel of ours, what was counted or raised, and how far the results are apart.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
import unihal
from tensorflow.python.framework import dtypes, kernels, op_def_registry

DEVICE = "/device:RDNA:0"
FAMILIES = (
    *("ResourceApply", "ResourceSparseApply", "ResourceScatter", "ResourceGather", "ResourceStridedSliceAssign"),
    *("ResourceCountUpTo", "StatefulRandomBinomial"),
)
# int32 variables live on the CPU, and so do those of dtypes that unihal has not.
DTYPES = {
    d.as_datatype_enum: d for d in (tf.half, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.int64, tf.bool)
}
SHAPE = (3, 2)
# By the name of an argument: values other than a scalar.
SLICE = {"begin": [0, 0], "end": [2, 2], "strides": [1, 1]}


def data_attribute(definition: Any) -> str:
    names = [attribute.name for attribute in definition.attr]
    return next(name for name in ("T", "dtype") if name in names)


def coverage() -> dict[str, list[str]]:
    """The dtypes for which there are kernels of ours."""
    query = ctypes.CDLL("libunihal_tensorflow.so").uhal_tensorflow_coverage
    query.restype = ctypes.c_char_p
    return {entry["op"]: entry["dtypes"] for entry in json.loads(query())}


def left_in(types: dict[str, int]) -> bool:
    """One dtype of indices will do but for float32; a binomial of an int64 shape ends the process on the CPU."""
    indices = types.get("Tindices", types.get("S", 3))
    return indices == tf.int32.as_datatype_enum or (types.get("T", types.get("dtype")) == 1 and "S" not in types)


def cases() -> Iterator[tuple[Any, dict[str, Any], bool]]:
    """Ops with types, and whether one of our kernels is for them."""
    covered = coverage()
    for name in sorted(dir(tf.raw_ops)):
        definition = op_def_registry.get(name)
        if definition is None or not name.startswith(FAMILIES):
            continue
        registered = kernels.get_registered_kernels_for_op(name).kernel
        attributes = [a.name for a in definition.attr if a.type == "type"]
        combinations = set()
        for kernel in registered:
            allowed = {c.name: list(c.allowed_values.list.type) for c in kernel.constraint}
            choices = [allowed.get(a, [tf.int64.as_datatype_enum]) for a in attributes]
            combinations |= set(itertools.product(*choices)) if kernel.device_type == "CPU" else set()
        for types in sorted(combinations):
            chosen = dict(zip(attributes, types, strict=True))
            data = chosen[data_attribute(definition)]
            if data in DTYPES and left_in(chosen):
                is_ours = DTYPES[data].name in covered.get(name, [])
                yield definition, {k: dtypes.as_dtype(v) for k, v in chosen.items()}, is_ours


def value_of(name: str, dtype: Any, op: str) -> Any:
    sparse = "Scatter" in op or "Sparse" in op
    if name == "indices":
        return np.array([[0], [2]] if "Nd" in op else [0, 2], dtype.as_numpy_dtype)
    if name in SLICE:
        return np.array(SLICE[name], dtype.as_numpy_dtype)
    if name in ("grad", "delta", "updates", "value"):
        rows = 2 if sparse or name == "value" else 3
        return np.arange(1, 2 * rows + 1).reshape(rows, 2).astype(dtype.as_numpy_dtype)
    if name == "shape":
        return np.array([2], dtype.as_numpy_dtype)
    if name in ("algorithm", "lr_power"):
        return np.asarray(1 if name == "algorithm" else -0.5).astype(dtype.as_numpy_dtype)
    return np.asarray(2 if name in ("global_step", "power") or dtype.is_integer else 0.5).astype(dtype.as_numpy_dtype)


def run(device: str, definition: Any, types: dict[str, Any], in_function: bool) -> list[Any]:
    """The variables and results after two executions."""
    with tf.device(device):
        variables, operands = [], {}
        dtype = tf.int64 if definition.name == "StatefulRandomBinomial" else types[data_attribute(definition)]
        for argument in definition.input_arg:
            if argument.type == tf.resource.as_datatype_enum:
                values = np.arange(1, 7).reshape(SHAPE) * (1 + len(variables) / 4)
                if definition.name == "StatefulRandomBinomial":
                    values = np.array([1, 2, 3])  # the state of Philox
                elif definition.name == "ResourceCountUpTo":
                    values = np.array(1)
                variables.append(tf.Variable(values.astype(dtype.as_numpy_dtype)))
                operands[argument.name] = variables[-1].handle
            else:
                kind = types[argument.type_attr] if argument.type_attr else dtypes.as_dtype(argument.type)
                operands[argument.name] = tf.constant(value_of(argument.name, kind, definition.name))
        attributes: dict[str, Any] = {}
        if definition.output_arg:
            attributes["dtype" if "dtype" in types else "T"] = types[data_attribute(definition)]
        if definition.name == "ResourceCountUpTo":
            attributes["limit"] = 5

        def call() -> Any:
            return getattr(tf.raw_ops, definition.name)(**operands, **attributes)

        def twice() -> list[Any]:
            results = [call()]
            with tf.control_dependencies([r for r in results if r is not None] if in_function else []):
                results.append(call())
            return [r for r in results if isinstance(r, tf.Tensor)]

        results = (tf.function(twice) if in_function else twice)()
        return [np.asarray(v.numpy()) for v in [*variables, *results]]


def distance(actual: list[Any], expected: list[Any]) -> float:
    """The largest difference, in units of the largest value; NaNs may stand where NaNs do."""
    worst = 0.0
    for a, e in zip(actual, expected, strict=True):
        assert a.shape == e.shape and a.dtype == e.dtype, (a, e)
        wide = np.complex128 if np.iscomplexobj(e) else np.float64
        x, y = a.astype(wide), e.astype(wide)
        assert (np.isfinite(x) == np.isfinite(y)).all(), (a, e)
        finite = np.isfinite(y)
        if finite.any():
            worst = max(worst, float(np.abs(x - y)[finite].max() / max(1.0, np.abs(y[finite]).max())))
    return worst


def main(step: int) -> None:
    """Takes every so many'th case for a function, all others for eager mode."""
    for number, (definition, types, is_ours) in enumerate(cases()):
        in_function = number % step == 0
        name = data_attribute(definition)
        case = {"op": definition.name, "dtype": types[name].name, "ours": is_ours, "function": in_function}
        try:
            expected = run("/device:CPU:0", definition, types, in_function)
        except Exception as error:
            print("CASE", json.dumps({**case, "cpu": str(error)[:200]}))
            continue
        before = {(f.op, f.dtype, f.reason): f.count for f in unihal.fallbacks()}
        try:
            case["distance"] = distance(run(DEVICE, definition, types, in_function), expected)
        except Exception as error:
            case["error"] = f"{type(error).__name__}: {error}"[:300]
        after = {(f.op, f.dtype, f.reason): f.count for f in unihal.fallbacks()}
        case["counted"] = [[*key, n - before.get(key, 0)] for key, n in after.items() if n > before.get(key, 0)]
        print("CASE", json.dumps(case), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
