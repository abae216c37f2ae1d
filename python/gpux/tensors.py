"""Tensors of a model: dtypes by the names of ONNX Runtime, NumPy and the Open Inference Protocol, and their checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InputError, ModelError
from .naming import nearest

Array = NDArray[Any]
#: A dimension: a size, or None where any goes.
Dimension = "int | None"

# ONNX Runtime's name, NumPy's, the protocol's. bfloat16 and float8 have no NumPy dtype.
_ROWS = (
    ("tensor(float)", "float32", "FP32"),
    ("tensor(double)", "float64", "FP64"),
    ("tensor(float16)", "float16", "FP16"),
    ("tensor(int8)", "int8", "INT8"),
    ("tensor(int16)", "int16", "INT16"),
    ("tensor(int32)", "int32", "INT32"),
    ("tensor(int64)", "int64", "INT64"),
    ("tensor(uint8)", "uint8", "UINT8"),
    ("tensor(uint16)", "uint16", "UINT16"),
    ("tensor(uint32)", "uint32", "UINT32"),
    ("tensor(uint64)", "uint64", "UINT64"),
    ("tensor(bool)", "bool", "BOOL"),
    ("tensor(string)", "string", "BYTES"),
)
NAME_OF_RUNTIME = {runtime: name for runtime, name, _ in _ROWS}
PROTOCOL_OF_NAME = {name: protocol for _, name, protocol in _ROWS}
NAME_OF_PROTOCOL = {protocol: name for _, name, protocol in _ROWS}
DTYPES = tuple(name for _, name, _ in _ROWS)
NUMPY_OF_NAME: dict[str, np.dtype[Any]] = {
    name: np.dtype(object) if name == "string" else np.dtype(name) for name in DTYPES
}


@dataclass(frozen=True)
class TensorSpec:
    """What a model declares of an input or output: `shape` has None where any size goes, `axes` the names of those."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    axes: tuple[str | None, ...] = ()

    def describe_shape(self) -> str:
        """As people write it: [batch, 3, 224, 224]."""
        axes = self.axes or (None,) * len(self.shape)
        return f"[{', '.join(str(size if size is not None else axis or '?') for size, axis in zip(self.shape, axes))}]"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"name": self.name, "dtype": self.dtype, "shape": list(self.shape), "axes": list(self.axes)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TensorSpec:
        """The inverse of `as_dict`."""
        return cls(values["name"], values["dtype"], tuple(values["shape"]), tuple(values["axes"]))


def make_spec(name: str, runtime_type: str, shape: list[Any]) -> TensorSpec:
    """From what a session of ONNX Runtime tells of an input or output."""
    sizes = tuple(size if isinstance(size, int) and size >= 0 else None for size in shape)
    axes = tuple(size if isinstance(size, str) else None for size in shape)
    return TensorSpec(name, NAME_OF_RUNTIME.get(runtime_type, runtime_type), sizes, axes)


def dtype_name(array: Array) -> str:
    """The name of an array's dtype in the table above."""
    return "string" if array.dtype.kind in "OUS" else str(array.dtype)


def check_array(array: Array, spec: TensorSpec) -> None:
    """Refuses an array of another dtype or shape than the model takes."""
    if array.dtype != NUMPY_OF_NAME.get(spec.dtype):
        raise InputError(f"input {spec.name} has dtype {dtype_name(array)}, but the model takes {spec.dtype}")
    if len(array.shape) != len(spec.shape):
        raise InputError(
            f"input {spec.name} has the shape {list(array.shape)}, of rank {array.ndim}, but the model takes "
            f"{spec.describe_shape()}, of rank {len(spec.shape)}"
        )
    for size, wanted in zip(array.shape, spec.shape):
        if wanted is not None and size != wanted:
            raise InputError(
                f"input {spec.name} has the shape {list(array.shape)}, but the model takes {spec.describe_shape()}"
            )


def check_inputs(arrays: dict[str, Array], specs: dict[str, TensorSpec]) -> None:
    """Refuses inputs that are missing, unknown, or not what the model takes."""
    for name in arrays:
        if name not in specs:
            raise InputError(f"the model has no input {name[:100]!r}{nearest(name[:100], specs)}")
    for name, spec in specs.items():
        if name not in arrays:
            raise InputError(f"input {name} is missing: {spec.dtype} of the shape {spec.describe_shape()}")
        check_array(arrays[name], spec)


def convert(values: Any, spec: TensorSpec) -> Array:
    """Nested lists, numbers, texts or booleans of JSON as the dtype that the model takes; values are rounded at most.

    Fractions for integers, numbers for booleans, what overflows the dtype, NaN and infinities are errors.
    """
    wanted = NUMPY_OF_NAME.get(spec.dtype)
    if wanted is None:
        raise InputError(f"input {spec.name} has dtype {spec.dtype}, which has no form in JSON")
    try:
        array: Array = np.array(values)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise InputError(f"input {spec.name} is no regular array: {_first_line(error)}") from None
    if array.size == 0:
        return array.astype(wanted)
    allowed = {"f": "fiu", "i": "iu", "u": "iu", "b": "b", "O": "U"}[wanted.kind]
    if array.dtype.kind not in allowed:
        raise InputError(f"input {spec.name} has {_KINDS.get(array.dtype.kind, 'other values')}, not {spec.dtype}")
    if wanted.kind in "iu":
        bounds = np.iinfo(wanted)
        if int(array.min()) < bounds.min or int(array.max()) > bounds.max:
            raise InputError(f"input {spec.name} has values outside of {spec.dtype}: {bounds.min} to {bounds.max}")
    with np.errstate(over="ignore", invalid="ignore"):
        result = array.astype(wanted)
    if wanted.kind == "f" and not np.isfinite(result).all():
        raise InputError(f"input {spec.name} has values that are not finite in {spec.dtype}")
    return result


_KINDS = {
    "f": "fractions",
    "i": "integers",
    "u": "integers",
    "b": "booleans",
    "U": "texts",
    "O": "objects, null or numbers beyond 64 bits",
}


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0][:200]


def flexible_batch(inputs: list[TensorSpec], outputs: list[TensorSpec]) -> bool:
    """Whether every input and output begins with one and the same free axis: then requests can be joined along it.

    tf2onnx gives each axis that it does not know a name of its own, which says nothing.
    """
    specs = [*inputs, *outputs]
    if not inputs or not all(spec.shape and spec.shape[0] is None for spec in specs):
        return False
    names = {spec.axes[0] for spec in specs if spec.axes and spec.axes[0] is not None}
    return len({name for name in names if not name.startswith("unk__")}) <= 1


def check_types(inputs: list[TensorSpec], outputs: list[TensorSpec]) -> None:
    """Refuses models with inputs or outputs that are no tensors of the table above; ModelError."""
    for label, specs in (("input", inputs), ("output", outputs)):
        for spec in specs:
            if spec.dtype not in NUMPY_OF_NAME:
                hint = "; export it with zipmap=False" if spec.dtype.startswith(("seq", "map")) else ""
                raise ModelError(f"{label} {spec.name} has the type {spec.dtype}, which GPUX cannot pass{hint}")
