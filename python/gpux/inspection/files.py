"""Opens ONNX files that may be cut short or hostile: nothing outside of their folder is read, no size is believed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from ..configuration.sizes import format_bytes
from ..errors import ModelError

MAX_FILE_BYTES = 2 << 30  # protobuf's own limit
MAX_NODES = 1_000_000
MAX_DEPTH = 16  # of graphs within graphs
MAX_RANK = 64

# Bits of one element; 4-bit types lie two in a byte.
_BITS: dict[int, int] = {
    onnx.TensorProto.FLOAT: 32,
    onnx.TensorProto.UINT8: 8,
    onnx.TensorProto.INT8: 8,
    onnx.TensorProto.UINT16: 16,
    onnx.TensorProto.INT16: 16,
    onnx.TensorProto.INT32: 32,
    onnx.TensorProto.INT64: 64,
    onnx.TensorProto.BOOL: 8,
    onnx.TensorProto.FLOAT16: 16,
    onnx.TensorProto.DOUBLE: 64,
    onnx.TensorProto.UINT32: 32,
    onnx.TensorProto.UINT64: 64,
    onnx.TensorProto.COMPLEX64: 64,
    onnx.TensorProto.COMPLEX128: 128,
    onnx.TensorProto.BFLOAT16: 16,
    onnx.TensorProto.FLOAT8E4M3FN: 8,
    onnx.TensorProto.FLOAT8E4M3FNUZ: 8,
    onnx.TensorProto.FLOAT8E5M2: 8,
    onnx.TensorProto.FLOAT8E5M2FNUZ: 8,
    onnx.TensorProto.UINT4: 4,
    onnx.TensorProto.INT4: 4,
    onnx.TensorProto.FLOAT4E2M1: 4,
}


def bits_of(data_type: int) -> int:
    """Bits of one element of a dtype of ONNX; texts, whose length differs, have 0."""
    return _BITS.get(data_type, 0)


@dataclass(frozen=True)
class CheckedModel:
    """A model whose file was checked; values that lie in other files are not read.

    `weight_bytes` and `parameters` count all initializers and constants, `external` names the other files, all inside
    of the model's folder.
    """

    path: Path
    proto: onnx.ModelProto
    weight_bytes: int
    parameters: int
    external: tuple[Path, ...]


def open_model(path: Path) -> CheckedModel:
    """Reads and checks a model's file; what is wrong is a ModelError."""
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise ModelError(f"{path} is no file")
        if size > MAX_FILE_BYTES:
            raise ModelError(f"{path} has {format_bytes(size)}: an ONNX file has 2 GiB at most, weights beside it")
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except (DecodeError, RecursionError, ValueError) as error:
        raise ModelError(f"{path} is no ONNX file, or was cut short: {' '.join(str(error).split())[:200]}") from None
    if not proto.HasField("graph") or not proto.graph.node:
        raise ModelError(f"{path} is no ONNX model, or was cut short: it holds no graph")
    return _check(path, proto)


def _check(path: Path, proto: onnx.ModelProto) -> CheckedModel:
    nodes = sum(len(graph.node) for graph in graphs(proto))
    if nodes > MAX_NODES:
        raise ModelError(f"{path} has {nodes} nodes, {MAX_NODES} at most are taken")
    folder = path.resolve().parent
    external: dict[Path, None] = {}
    total = parameters = 0
    initializers = {id(tensor) for graph in graphs(proto) for tensor in graph.initializer}
    for tensor in tensors(proto):
        size, elements = _check_tensor(tensor, folder, external)
        total += size
        if id(tensor) in initializers or elements > 1:
            parameters += elements
    for graph in graphs(proto):
        for value in (*graph.input, *graph.output):
            shape = value.type.tensor_type.shape
            sizes = [dimension.dim_value for dimension in shape.dim if dimension.HasField("dim_value")]
            if any(size < 0 for size in sizes) or math.prod(sizes) > 1 << 48:
                raise ModelError(f"{value.name} is declared with the shape {sizes[:8]}: no tensor has that")
    return CheckedModel(path, proto, total, parameters, tuple(external))


def graphs(proto: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """The graph, and those in attributes of its nodes and functions."""
    waiting = [(proto.graph, 0)]
    waiting += [
        (attribute.g, 1)
        for function in proto.functions
        for node in function.node
        for attribute in node.attribute
        if attribute.HasField("g")
    ]
    while waiting:
        graph, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise ModelError(f"graphs are nested deeper than {MAX_DEPTH} levels")
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    waiting.append((attribute.g, depth + 1))
                waiting += [(each, depth + 1) for each in attribute.graphs]


def tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor that a model holds: initializers, sparse ones, and those in attributes."""
    for graph in graphs(proto):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
        yield from _in_attributes(graph.node)
    for function in proto.functions:
        yield from _in_attributes(function.node)


def _in_attributes(nodes: object) -> Iterator[onnx.TensorProto]:
    for node in nodes:  # type: ignore[attr-defined]
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("sparse_tensor"):
                yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)


def _check_tensor(tensor: onnx.TensorProto, folder: Path, external: dict[Path, None]) -> tuple[int, int]:
    """Bytes and elements of a tensor, if it has what its shape says."""
    name = tensor.name[:100] or "a constant"
    if len(tensor.dims) > MAX_RANK or any(size < 0 for size in tensor.dims):
        raise ModelError(f"{name} has the shape {list(tensor.dims)[:8]}: no tensor has that")
    elements = math.prod(tensor.dims)
    if tensor.data_type == onnx.TensorProto.STRING:
        if elements != len(tensor.string_data):
            raise ModelError(f"{name} has the shape {list(tensor.dims)}, but {len(tensor.string_data)} texts")
        return sum(map(len, tensor.string_data)), elements
    if tensor.data_type not in _BITS:
        raise ModelError(f"{name} has a dtype that is not known ({tensor.data_type})")
    size = (elements * _BITS[tensor.data_type] + 7) // 8
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        external[_check_external(tensor, name, size, folder)] = None
    elif tensor.HasField("raw_data") and len(tensor.raw_data) != size:
        raise ModelError(
            f"{name} has the shape {list(tensor.dims)}, which takes {size} bytes, but holds {len(tensor.raw_data)}"
        )
    elif not tensor.HasField("raw_data") and elements > 2 * _typed_elements(tensor):
        raise ModelError(
            f"{name} has the shape {list(tensor.dims)}, of {elements} elements, but holds {_typed_elements(tensor)}"
        )
    return size, elements


def _typed_elements(tensor: onnx.TensorProto) -> int:
    fields = (tensor.float_data, tensor.int32_data, tensor.int64_data, tensor.double_data, tensor.uint64_data)
    return max(map(len, fields))


def _check_external(tensor: onnx.TensorProto, name: str, size: int, folder: Path) -> Path:
    """The file that holds a tensor's values: inside of the model's folder, links followed, and long enough."""
    entries: dict[str, str] = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if not location or "\0" in location or Path(location).is_absolute() or "\\" in location:
        raise ModelError(f"the values of {name} are in {location[:100]!r}, which is no path in the model's folder")
    target = (folder / location).resolve()
    if not target.is_relative_to(folder):
        raise ModelError(f"the values of {name} are in {location[:100]!r}, outside of the model's folder: refused")
    try:
        offset, length = int(entries.get("offset") or 0), int(entries.get("length") or size)
    except ValueError:
        raise ModelError(f"the values of {name} have an offset or length that is no number") from None
    if not target.is_file():
        raise ModelError(f"the values of {name} are in {location[:100]}, which is not there: copy it beside the model")
    if offset < 0 or length != size or offset + length > target.stat().st_size:
        raise ModelError(
            f"the values of {name} should be {size} bytes at {offset} in {location[:100]}, which has "
            f"{target.stat().st_size} bytes (length: {length})"
        )
    return target
