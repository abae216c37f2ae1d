"""Calls of ops made from TensorFlow's registries: each op of a table for each combination of types that a kernel of the
device is registered for.

An op's inputs, outputs and attributes come from its OpDef, the types from the registered kernels; a row says what the
values are. A type that is added to a kernel is tested without a line here.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf
from compare import CPU, DEVICE, TOLERANCE
from tensorflow.python.framework import dtypes, kernels, op_def_registry

Types = dict[str, tf.DType]


@dataclass(frozen=True)
class Call:
    """Values of an op's inputs, in the OpDef's order (a list for an input that is one), and its other attributes."""

    inputs: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    tolerance: float = 1  # times the dtype's
    smooth: bool = True  # gradients are compared too


def call(*inputs: Any, tolerance: float = 1, smooth: bool = True, **attributes: Any) -> Call:
    return Call(tuple(inputs), attributes, tolerance, smooth=smooth)


def combinations(op: str, device: str) -> list[Types]:
    """The types that the kernels of a kind of device take, one entry for each combination."""
    found: list[Types] = []
    for kernel in kernels.get_registered_kernels_for_op(op).kernel:
        if kernel.device_type != device or kernel.label:
            continue
        names = [constraint.name for constraint in kernel.constraint]
        allowed = [[dtypes.as_dtype(t) for t in c.allowed_values.list.type] for c in kernel.constraint]
        found += [dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*allowed)]
    return found


def on_cpu(op: str, types: Types) -> bool:
    """Whether TensorFlow's CPU has a kernel for these types."""
    return any(all(types.get(name, t) == t for name, t in other.items()) for other in combinations(op, "CPU"))


def _converted(value: Any, dtype: tf.DType) -> tf.Tensor:
    """Values as they make sense in a dtype: rounded, without signs, with imaginary parts."""
    array = np.asarray(value)
    if array.dtype == np.bool_ or dtype == tf.bool:
        return tf.constant(array.astype(bool) if array.dtype == np.bool_ else array > 0)
    if dtype.is_complex and array.dtype.kind == "f":
        array = array + 1j * np.roll(array, 1) if array.ndim else array + 0.5j
    if dtype.is_integer and array.dtype.kind == "f":
        array = np.rint(3 * np.where(np.isfinite(array), array, 0))
    if dtype.is_unsigned:
        array = np.abs(array)
    return tf.cast(tf.constant(array), dtype)


def _arguments(op: str, types: Types, row: Call) -> dict[str, Any]:
    """What the raw op is called with; tensors are made on the device in force."""
    definition = op_def_registry.get(op)
    inferred = set()
    arguments: dict[str, Any] = {}
    # Python's names of inputs differ in places, their order does not.
    names = iter(inspect.signature(getattr(tf.raw_ops, op)).parameters)
    for argument, value in zip(definition.input_arg, row.inputs, strict=True):
        name = next(names)
        inferred.update({argument.type_attr, argument.number_attr})
        dtype = types.get(argument.type_attr) if argument.type_attr else dtypes.as_dtype(argument.type)
        if dtype is None:  # the kernel takes any
            dtype = tf.int32
        if argument.number_attr:
            arguments[name] = [_converted(v, dtype) for v in value]
        else:
            arguments[name] = _converted(value, dtype)
    for name, dtype in types.items():
        if name not in inferred:
            arguments[name] = dtype
    return arguments | row.attributes


def results(op: str, types: Types, row: Call, device: str, graph: bool = False) -> list[tf.Tensor]:
    """The op's outputs, on a device."""
    with tf.device(device):
        arguments = _arguments(op, types, row)

        def run() -> Any:
            with tf.device(device):
                return getattr(tf.raw_ops, op)(**arguments)

        outputs = tf.function(run)() if graph else run()
    return [output for output in tf.nest.flatten(outputs) if output is not None]


def gradients(op: str, types: Types, row: Call, device: str) -> list[tf.Tensor] | None:
    """Gradients with regard to the floating inputs; None where TensorFlow knows none."""
    with tf.device(device):
        arguments = _arguments(op, types, row)
        watched = [
            t for t in tf.nest.flatten(arguments) if tf.is_tensor(t) and (t.dtype.is_floating or t.dtype.is_complex)
        ]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            outputs = [o for o in tf.nest.flatten(getattr(tf.raw_ops, op)(**arguments)) if tf.is_tensor(o)]
            outputs = [o for o in outputs if o.dtype.is_floating or o.dtype.is_complex]
            if not outputs or not watched:
                return None
        # Weights that tell the elements of a result apart.
        weights = [
            tf.cast(np.linspace(0.5, 1.5, max(int(tf.size(o)), 1))[: int(tf.size(o))].reshape(o.shape), o.dtype)
            for o in outputs
        ]
        try:
            found = tape.gradient(outputs, watched, output_gradients=weights)
        except (LookupError, NotImplementedError):
            return None
    return [tf.convert_to_tensor(g) for g in found if g is not None]


def differences(op: str, types: Types, row: Call, graph: bool = False, gradient: bool = False) -> str | None:
    """What is wrong with a call on the device, by TensorFlow's CPU; None if nothing is."""
    label = f"{op} {', '.join(f'{k}={v.name}' for k, v in types.items())}"
    expected: list[tf.Tensor] | None
    try:
        expected = gradients(op, types, row, CPU) if gradient else results(op, types, row, CPU, graph)
    except tf.errors.UnimplementedError:  # a kernel that is registered, but says that it is none
        return None
    except (ValueError, NotImplementedError):
        if not graph:
            raise
        return None  # a dtype whose shapes TensorFlow cannot infer, or an op that graphs have no more
    except tf.errors.OpError:
        if not gradient:
            raise
        return None  # a gradient that TensorFlow composes of what does not fit, or of ops without a kernel
    actual = gradients(op, types, row, DEVICE) if gradient else results(op, types, row, DEVICE, graph)
    if expected is None or actual is None:
        return None if expected is None else f"{label}: no gradient"
    if len(actual) != len(expected):
        return f"{label}: {len(actual)} results, expected {len(expected)}"
    for number, (a, e) in enumerate(zip(actual, expected, strict=True)):
        if a.dtype != e.dtype or a.shape != e.shape:
            return f"{label}: result {number} is {a.dtype.name} {a.shape}, expected {e.dtype.name} {e.shape}"
        problem = _compare(a, e, row.tolerance)
        if problem:
            return f"{label}: result {number}{' of the gradient' if gradient else ''}: {problem}"
    return None


def _compare(actual: tf.Tensor, expected: tf.Tensor, factor: float) -> str | None:
    base = expected.dtype.real_dtype.name
    x, y = (np.asarray(tf.cast(t, tf.float64) if t.dtype.is_floating else t) for t in (actual, expected))
    if base not in TOLERANCE:
        return None if np.array_equal(x, y) else f"{x.ravel()[:6]}, expected {y.ravel()[:6]}"
    limit = TOLERANCE[base] * factor
    finite = np.abs(y[np.isfinite(y)])
    scale = max(1.0, float(finite.max()) if finite.size else 1.0)
    close = np.isclose(x, y, rtol=limit, atol=limit * scale, equal_nan=True)
    return None if close.all() else f"{x[~close][:6]}, expected {y[~close][:6]}"


def problems(op: str, rows: list[Call], device: str, every: bool) -> Iterator[str]:
    """What is wrong with an op: of each combination of types on each row, with gradients, and in a graph on the first;
    or, unless `every` is set, of one combination on the first row."""
    served = [types for types in combinations(op, device) if on_cpu(op, types)]
    if not every:
        served, rows = sorted(served, key=_smooth)[-1:], rows[:1]
    for types in served:
        for number, row in enumerate(rows):
            try:
                for problem in (
                    differences(op, types, row),
                    differences(op, types, row, graph=True) if every and number == 0 else None,
                    differences(op, types, row, gradient=True) if row.smooth and _smooth(types) else None,
                ):
                    if problem:
                        yield problem
            except tf.errors.OpError as error:
                yield f"{op} {types}: {type(error).__name__}: {error.message[:300]}"


def _smooth(types: Types) -> bool:
    return any(t in (tf.float32, tf.float64, tf.complex64) for t in types.values())
