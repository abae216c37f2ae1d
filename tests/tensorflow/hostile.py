"""Hostile calls of every op that has a kernel of ours, each on TensorFlow's CPU and on the device: sizes, shapes and
attributes that are negative, zero, overflowing, of the wrong rank, duplicate or empty.

A program for test_hostile.py: `python hostile.py FIRST [EVERY [OP]]` runs the cases from number FIRST on and writes a
line of JSON before each half of a case and one after it, so that its reader knows what ended the process. Of the
hostile cases it takes every EVERY-th, and with an OP those of the ops from that name on.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import re
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import unihal
from compare import CPU, DEVICE
from hostile_arguments import Arguments, Variable, arguments_of
from tensorflow.python.framework import op_def_registry

# Data that is no size, place or index: any state will do.
STATES = {"key", "counter"}
HUGE = {"int32": 2**31 - 1, "int64": 2**62}
# More axes than the ABI has.
DEEP = 12


def part(value: np.ndarray, axis: int, count: int) -> np.ndarray:
    """The first `count` entries along an axis."""
    return value[(slice(None),) * axis + (slice(count),)]


def other_shapes(value: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The array in shapes that its op may not expect."""
    for axis in range(value.ndim):
        yield f"axis {axis} empty", part(value, axis, 0)
        yield f"axis {axis} longer", np.concatenate([value, part(value, axis, 1)], axis)
        yield f"axis {axis} one", part(value, axis, 1)
    yield "an axis more in front", value[np.newaxis]
    yield "an axis more at the end", value[..., np.newaxis]
    if value.size > 0:
        yield "a scalar", value.reshape(-1)[0]
    if value.ndim > 1:
        yield "an axis less", value[0]
    yield "deep in front", value.reshape((1,) * (DEEP - value.ndim) + value.shape)
    yield "deep at the end", value.reshape(value.shape + (1,) * (DEEP - value.ndim))


def other_values(value: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """A size or an axis with entries that it must not have, or must not have twice."""
    hostile = [-1, -2, -7, 0, 1, 13, HUGE[value.dtype.name]]
    for index in np.ndindex(value.shape):
        for entry in hostile:
            changed = value.copy()
            changed[index] = entry
            yield f"{list(index)} = {entry}", changed
    for entry in [*hostile, 2**20]:
        if value.size > 1:
            yield f"all {entry}", np.full_like(value, entry)
    yield "twice", np.concatenate([value.reshape(-1)] * 2)
    yield "no entry", value.reshape(-1)[:0]
    yield "twelve ones", np.ones(DEEP, value.dtype)
    yield "three hundred ones", np.ones(300, value.dtype)


def other_attributes(value: Any, allowed: list[str]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, bool):
        yield f"{not value}", not value
    elif isinstance(value, int):
        for entry in (-7, -2, -1, 0, 1, 2, 3, 13, 2**31 - 1):
            yield f"{entry}", entry
    elif isinstance(value, float):
        for number in (0.0, -1.0):
            yield f"{number}", number
    elif isinstance(value, str):
        for text in allowed:
            yield text, text
    elif isinstance(value, list):
        for i, entry in itertools.product(range(len(value)), (-1, 0, 2, 3, 1000)):
            yield f"[{i}] = {entry}", [*value[:i], entry, *value[i + 1 :]]
        for entry in (-1, 0, 3):
            yield f"all {entry}", [entry] * len(value)
        yield "longer", [*value, 1]
        yield "shorter", value[:-1]
        yield "empty", []


def mutations(op: str, base: Arguments) -> Iterator[tuple[str, Arguments]]:
    allowed = {a.name: [s.decode() for s in a.allowed_values.list.s] for a in op_def_registry.get(op).attr}
    for name, value in base.items():
        if isinstance(value, Variable):
            for label, changed in other_shapes(value.value):
                yield f"{name}: {label}", base | {name: Variable(changed)}
        elif isinstance(value, np.ndarray):
            for label, changed in other_shapes(value):
                yield f"{name}: {label}", base | {name: changed}
            if value.ndim == 0 and value.dtype == np.float32:
                for number in (-1.0, 0.0):
                    yield f"{name} = {number}", base | {name: np.full_like(value, number)}
            if value.dtype.name in HUGE and name not in STATES:
                for label, changed in other_values(value):
                    yield f"{name}: {label}", base | {name: changed}
        elif isinstance(value, list) and isinstance(value[0] if value else 0, np.ndarray):
            for label, changed in other_shapes(value[-1]):
                yield f"{name}[-1]: {label}", base | {name: [*value[:-1], changed]}
            yield f"{name}: one less", base | {name: value[:-1]}
        elif not isinstance(value, tf.DType):
            for label, changed in other_attributes(value, allowed[name]):
                yield f"{name} = {label}", base | {name: changed}
    for where in ("deep in front", "deep at the end"):
        yield f"all {where}", {name: deep(value, where) for name, value in base.items()}
    for axis in (0, 1):
        yield f"axis {axis} empty in all", {name: emptied(value, axis) for name, value in base.items()}


def deep(value: Any, where: str) -> Any:
    """Data with more axes than the ABI has; scalars and what is no data stay."""
    if isinstance(value, list):
        return [deep(v, where) for v in value]
    if isinstance(value, Variable):
        return Variable(deep(value.value, where))
    if not isinstance(value, np.ndarray) or value.ndim == 0 or value.dtype.name in HUGE:
        return value
    return dict(other_shapes(value))[where]


def emptied(value: Any, axis: int) -> Any:
    if isinstance(value, list):
        return [emptied(v, axis) for v in value]
    if isinstance(value, Variable):
        return Variable(emptied(value.value, axis))
    if not isinstance(value, np.ndarray) or value.ndim <= axis or value.dtype.name in HUGE:
        return value
    return part(value, axis, 0)


def cases(coverage: dict[str, list[str]]) -> Iterator[tuple[str, str, Arguments]]:
    """(op, what is hostile, arguments) for all ops of the coverage; the plain call of each first."""
    for op, dtypes in sorted(coverage.items()):
        for i, base in enumerate(arguments_of(op, dtypes)):
            yield op, f"base {i}", base
            for label, arguments in mutations(op, base):
                yield op, f"base {i}, {label}", arguments


def call(device: str, op: str, arguments: Arguments) -> tuple[str, Any]:
    """("", results) or (class of the error, its message)."""
    variables: list[tf.Variable] = []

    def materialize(value: Any) -> Any:
        if isinstance(value, Variable):
            with tf.device(device):
                variables.append(tf.Variable(value.value, shape=tf.TensorShape(None)))
            return variables[-1].handle
        if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
            return [materialize(v) for v in value]
        if not isinstance(value, np.ndarray | np.generic):
            return value
        with tf.device(CPU):
            return tf.constant(value)

    try:
        ready = {name: materialize(value) for name, value in arguments.items()}
        with tf.device(device):
            results = tf.nest.flatten(getattr(tf.raw_ops, op)(**ready))
            results += [v.read_value() for v in variables]
        return "", [tf.identity(r) for r in results if isinstance(r, tf.Tensor)]
    except Exception as error:
        return type(error).__name__, str(error)


# So many outputs are specified; the others hold what an implementation likes: the batch norms' reserved space, and
# vectors whose signs are free (test_linear_algebra.py multiplies them back).
UNSPECIFIED = {"FusedBatchNorm": 3, "FusedBatchNormGrad": 3, "Svd": 1, "SelfAdjointEigV2": 1, "Eig": 1}


def difference(op: str, actual: list[tf.Tensor], expected: list[tf.Tensor]) -> str:
    last = next((n for prefix, n in UNSPECIFIED.items() if op.startswith(prefix)), len(expected))
    for a, e in zip(actual[:last], expected[:last], strict=True):
        if a.dtype != e.dtype or a.shape != e.shape:
            return f"{a.dtype.name} {a.shape}, expected {e.dtype.name} {e.shape}"
        if a.dtype.is_quantized:
            a, e = tf.bitcast(a, tf.uint8), tf.bitcast(e, tf.uint8)
        x, y = a.numpy(), e.numpy()
        if a.dtype.is_floating or a.dtype.is_complex:
            # A few units in the last place of float32, and of a sum's largest term.
            scale = max(1.0, float(np.max(np.abs(y[np.isfinite(y)]), initial=0)))
            same = np.allclose(x, y, rtol=2e-5, atol=2e-5 * scale, equal_nan=True)
        else:
            same = np.array_equal(x, y)
        if not same:
            return f"other values: {str(x)[:200]}, expected {str(y)[:200]}"
    return ""


# Errors that say what the CPU's kernels lack, and others need not.
BEYOND_CPU = (
    "CPU implementation",
    "only supports equal length strides",
    "Unhandled input dimensions",
    "not implemented",
    "not yet supported",
    "is not supported yet",
    "does not support dilations",
    "We only handle up to Tensor::dims() up to 8",
)
NO_CPU_KERNEL = ("No registered", "Could not satisfy device specification")


def compare(op: str, arguments: Arguments, actual: tuple[str, Any], expected: tuple[str, Any]) -> str:
    if actual[0] or expected[0]:
        # Where memory gives out first, one looks at its sizes before and one after what else is wrong.
        if actual[0] == expected[0] or (actual[0] and expected[0] == "ResourceExhaustedError"):
            return ""
        if actual[0] == "UnimplementedError" and any(text in actual[1] for text in VARIABLES_ONLY):
            return ""
        excuses = NO_CPU_KERNEL if actual[0] else BEYOND_CPU
        if expected[0] and any(text in expected[1] for text in excuses):
            return ""
        text = [f"{kind}: {result[:300]}" if kind else "no error" for kind, result in (actual, expected)]
        return f"{text[0]}\n    expected {text[1]}"
    with tf.device(CPU):
        return difference(op, actual[1], expected[1])


# Cases that TensorFlow's CPU gets wrong (2.21), or right by chance: there it is not asked, and what counts is that the
# process lives.
CPU_IS_WRONG = {
    r"(LSTM|GRU)BlockCell\w*: base 0, .*": "ends the process, or reads beyond its tensors",
    r"CTCLoss: .*(labels_indices: |inputs: axis 2 empty|in all).*": "ends the process",
    r"(Avg|Max)Pool(3D)?Grad: .*": "reads and writes beyond its tensors where shapes do not fit",
    r"Depthwise\w+Backprop\w+: .*dilations.*": "ignores dilations",
    r"(Depthwise\w+|\w+Backprop\w+): .*filter.*(empty|= 0|all 0)": "gradients of filters that are refused forward",
    r"\w*Conv\w*: .*in all": "uninitialized memory",
    r"\w*Conv\w*: .*(input|input_sizes): .*(axis [34] empty|\[[34]\] = 0|all 0)": "convolves images without channels",
    r"ResourceGather: .*batch_dims.*": "ends the process",
    r"RngReadAndSkip: .*resource: .*": "ends the process",
    r"Stateless\w+V2: .*counter: axis 0 one": "reads beyond the counter",
    r"TopKV2: .*sorted = False": "has an order of its own",
    r"(Lower|Upper)Bound: .*sorted_inputs: axis 1 longer": "searches in a way of its own what is sorted no more",
    r"ResourceScatter(Update|Add|Sub|Mul|Div|Max|Min): .*": "reads beyond updates that are too small",
    r"ResizeNearestNeighborGrad: .*align_corners = True": "takes both conventions at once",
    r"FusedBatchNorm\w*: .*epsilon = -1.0": "takes a negative epsilon",
    r"SparseTensorDenseMatMul: .*a_shape: (\[.*\] = |all ).*": "ends the process",
    r"ResourceSparseApply\w+: .*grad: .*(an axis|a scalar|deep).*": "ends the process, or takes other shapes",
    r"ResourceSparseApplyProximalGradientDescent: .*(var: |all deep).*": "ends the process, or writes beyond variables",
    r"SparseSlice: .*(shape|start): (\[.*\] = |all ).*": "takes places outside the shape, and what begins before it",
    r"SparseSliceGrad: .*input_indices: .*= .*": "merges places that are in no order",
    r"Sparse(Reorder|Reshape): .*input_(indices|shape): (\[.*\] = |all ).*": "takes places outside, and no shapes",
    r"Einsum: .*empty.*": "disregards that lengths differ where one is 0",
    r"(Cholesky|Lu|MatrixInverse|LogMatrixDeterminant): .*axis 0 longer": "finds a pivot of 0 where it rounds so",
}


# What kernels of ours leave to TensorFlow's CPU kernels.
ON_CPU = {
    r".*(deep|twelve ones|three hundred ones).*": "more axes than the ABI has, where they do not merge",
    r"(Max|Avg)Pool(Grad)?: .*(strides|ksize|padding|explicit_paddings) = .*": "windows over channels",
    r"Depthwise\w+: .*dilations = .*": "lists that it disregards",
    r"\w+Grad: .*an axis more.*": "gradients of other shapes with as many elements",
    r"Stateless\w+V2: .*(counter|alg).*": "generators that only it has",
    r"Resource\w+: .*": "attributes that the kernels lack",
    r"CTCLoss: .*(labels_values|inputs|sequence_length): .*": "labels that no path gives, or without a class",
}
# Without a kernel, and out of the CPU's reach.
VARIABLES_ONLY = ("the CPU cannot reach variables of the device", "is not supported; keep the variable on /CPU:0")


# Where the class of error differs: ours, of a window without a size along batch and channels too, is InvalidArgument.
OTHER_CLASS = r"AvgPool: base \d+, ksize = (\[0\] =|all) (-1|0)"


def limit_memory(more: int) -> None:
    """Sizes that memory cannot hold fail at once, on the CPU and on the stub, which has the host's memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def fallback_count() -> int:
    return sum(entry.count for entry in unihal.fallbacks())


def registered() -> dict[str, list[str]]:
    """The adapter's own table: ops and their dtypes."""
    query = ctypes.CDLL(f"{unihal.library_dir()}/libunihal_tensorflow.so").uhal_tensorflow_coverage
    query.restype = ctypes.c_char_p
    return {row["op"]: row["dtypes"] for row in json.loads(query())}


def is_plain(label: str) -> bool:
    return label.startswith("base") and "," not in label


def main(first: int, every: int = 1, wanted: str = "") -> None:
    coverage = registered()
    with tf.device(DEVICE):
        # OpenMP's threads, too: it ends the process where it cannot start them later.
        tf.math.exp(tf.ones([1 << 21])).numpy()
    limit_memory(6 << 30)
    for number, (op, label, arguments) in enumerate(cases(coverage)):
        if number < first or (wanted and op < wanted) or (number % every and not is_plain(label)):
            continue
        say(number=number, op=op, case=label, on="CPU")
        wrong = not is_plain(label) and any(re.fullmatch(pattern, f"{op}: {label}") for pattern in CPU_IS_WRONG)
        expected = None if wrong else call(CPU, op, arguments)
        say(number=number, op=op, case=label, on="device")
        before = fallback_count()
        actual = call(DEVICE, op, arguments)
        fell_back = fallback_count() > before
        error = compare(op, arguments, actual, expected) if expected is not None else ""
        if actual[0] == "InvalidArgumentError" and re.fullmatch(OTHER_CLASS, f"{op}: {label}"):
            error = ""
        say(number=number, error=error, fell_back=fell_back)
    say(end=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
