"""The Open Inference Protocol, version 2: requests and answers, as JSON and with binary tensors behind it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from ..errors import InputError
from ..execution.inputs import parse_json
from ..naming import nearest
from ..tensors import (
    NAME_OF_PROTOCOL,
    NUMPY_OF_NAME,
    PROTOCOL_OF_NAME,
    Array,
    TensorSpec,
    check_inputs,
    convert,
    dtype_name,
)
from .predictions import check_finite

HEADER_LENGTH = "inference-header-content-length"
MAX_ELEMENTS = 1 << 40


@dataclass(frozen=True)
class InferenceRequest:
    """What a client asks: inputs in the order of the model's, outputs by name, and which of them as bytes."""

    identifier: str | None
    arrays: list[Array]
    outputs: tuple[str, ...]
    binary: frozenset[str]


def read_request(
    body: bytes, header_length: str | None, inputs: dict[str, TensorSpec], outputs: dict[str, TensorSpec]
) -> InferenceRequest:
    """Takes a request apart and checks it; InputError says what is wrong."""
    data: memoryview = memoryview(b"")
    if header_length is not None:
        if not header_length.isdigit() or int(header_length) > len(body):
            raise InputError(f"{HEADER_LENGTH} is {header_length[:40]!r}, but the body has {len(body)} bytes")
        body, data = body[: int(header_length)], memoryview(body)[int(header_length) :]
    request = parse_json(body)
    if not isinstance(request, dict):
        raise InputError('expected {"inputs": [...]}')
    entries = _objects(request, "inputs")
    if not entries:
        raise InputError("inputs is missing or empty: expected a list of tensors with name, datatype and shape")
    arrays: dict[str, Array] = {}
    for entry in entries:
        name = entry.get("name")
        if not isinstance(name, str):
            raise InputError("an input has no name")
        if name in arrays:
            raise InputError(f"input {name[:100]} is given twice")
        if name not in inputs:
            raise InputError(f"the model has no input {name[:100]!r}{nearest(name[:100], inputs)}")
        arrays[name], data = _read_tensor(entry, inputs[name], data)
    if len(data):
        raise InputError(f"{len(data)} bytes stand behind the last binary tensor")
    check_inputs(arrays, inputs)
    names, binary = _read_outputs(request, outputs)
    identifier = request.get("id")
    if identifier is not None and not isinstance(identifier, str):
        raise InputError("id is no text")
    return InferenceRequest(identifier, [arrays[name] for name in inputs], names, binary)


def write_response(
    head: dict[str, Any], request: InferenceRequest, arrays: list[Array]
) -> tuple[bytes, dict[str, str]]:
    """The answer's body, and the headers that it needs."""
    rows: list[dict[str, Any]] = []
    chunks: list[bytes] = []
    for name, array in zip(request.outputs, arrays):
        row: dict[str, Any] = {
            "name": name,
            "datatype": PROTOCOL_OF_NAME[dtype_name(array)],
            "shape": list(array.shape),
        }
        if name in request.binary:
            chunk = _texts_to_bytes(array) if array.dtype == object else np.ascontiguousarray(array).tobytes()
            row["parameters"] = {"binary_data_size": len(chunk)}
            chunks.append(chunk)
        elif array.dtype == object:
            row["data"] = [str(value) for value in array.reshape(-1)]
        else:
            if array.dtype.kind == "f":
                check_finite(name, array)
            flat = np.ascontiguousarray(array).reshape(-1)
            row["data"] = flat.astype(np.float32) if flat.dtype == np.float16 else flat
        rows.append(row)
    if request.identifier is not None:
        head = {**head, "id": request.identifier}
    body = orjson.dumps({**head, "outputs": rows}, option=orjson.OPT_SERIALIZE_NUMPY)
    if not chunks:
        return body, {"content-type": "application/json"}
    headers = {"content-type": "application/octet-stream", HEADER_LENGTH: str(len(body))}
    return b"".join([body, *chunks]), headers


def describe(spec: TensorSpec) -> dict[str, Any]:
    """An input or output as the protocol's metadata has it."""
    shape = [-1 if size is None else size for size in spec.shape]
    return {"name": spec.name, "datatype": PROTOCOL_OF_NAME[spec.dtype], "shape": shape}


def _objects(request: dict[str, Any], key: str) -> list[dict[str, Any]]:
    entries = request.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError(f"{key} is no list of objects")
    return entries


def _parameters(entry: dict[str, Any]) -> dict[str, Any]:
    parameters = entry.get("parameters", {})
    if not isinstance(parameters, dict):
        raise InputError("parameters is no object")
    return parameters


def _read_tensor(entry: dict[str, Any], spec: TensorSpec, data: memoryview) -> tuple[Array, memoryview]:
    name = spec.name
    datatype, shape, parameters = entry.get("datatype"), entry.get("shape"), _parameters(entry)
    dtype = NAME_OF_PROTOCOL.get(datatype) if isinstance(datatype, str) else None
    if dtype is None:
        raise InputError(f"input {name} has the datatype {datatype!r:.40}; known: {', '.join(NAME_OF_PROTOCOL)}")
    if dtype != spec.dtype:
        raise InputError(
            f"input {name} has the datatype {datatype}, but the model takes {PROTOCOL_OF_NAME[spec.dtype]}"
        )
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape) or len(shape) > 32:
        raise InputError(f"input {name} has no shape: expected a list of sizes")
    elements = 1
    for size in shape:
        elements *= size
    if elements > MAX_ELEMENTS:
        raise InputError(f"input {name} has the shape {shape}: no tensor has that")
    size = parameters.get("binary_data_size")
    if size is None:
        if "data" not in entry:
            raise InputError(f"input {name} has neither data nor parameters.binary_data_size")
        array = convert(entry["data"], spec)
    else:
        if type(size) is not int or not 0 <= size <= len(data):
            raise InputError(f"input {name} has the binary_data_size {size!r:.40}, but {len(data)} bytes are left")
        chunk, data = data[:size], data[size:]
        array = _from_bytes(chunk, spec)
    if array.size != elements:
        raise InputError(f"input {name} has {array.size} elements, but its shape {shape} has {elements}")
    return array.reshape(shape), data


def _from_bytes(chunk: memoryview, spec: TensorSpec) -> Array:
    dtype = NUMPY_OF_NAME[spec.dtype]
    if dtype.hasobject:
        return _bytes_to_texts(chunk, spec.name)
    if len(chunk) % dtype.itemsize:
        raise InputError(f"input {spec.name} has {len(chunk)} bytes, no multiple of {dtype.itemsize}")
    array: Array = np.frombuffer(chunk, dtype)
    if dtype == np.bool_ and array.view(np.uint8).max(initial=0) > 1:
        raise InputError(f"input {spec.name} has booleans that are neither 0 nor 1")
    return array


def _bytes_to_texts(chunk: memoryview, name: str) -> Array:
    """Each with its length in front, four bytes, the least significant first."""
    texts: list[str] = []
    offset = 0
    while offset < len(chunk):
        if offset + 4 > len(chunk):
            raise InputError(f"input {name} is cut short in the length of a text")
        (length,) = struct.unpack_from("<I", chunk, offset)
        offset += 4
        if offset + length > len(chunk):
            raise InputError(f"input {name} is cut short in a text of {length} bytes")
        try:
            texts.append(bytes(chunk[offset : offset + length]).decode("utf-8"))
        except UnicodeDecodeError:
            raise InputError(f"input {name} has a text that is not UTF-8") from None
        offset += length
    array: Array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array


def _texts_to_bytes(array: Array) -> bytes:
    chunks = []
    for value in array.reshape(-1):
        text = str(value).encode()
        chunks += [struct.pack("<I", len(text)), text]
    return b"".join(chunks)


def _read_outputs(request: dict[str, Any], specs: dict[str, TensorSpec]) -> tuple[tuple[str, ...], frozenset[str]]:
    entries = _objects(request, "outputs")
    all_binary = _parameters(request).get("binary_data_output", False) is True
    if not entries:
        names = tuple(specs)
        return names, frozenset(names) if all_binary else frozenset()
    names_list: list[str] = []
    binary = set()
    for entry in entries:
        name = entry.get("name")
        if not isinstance(name, str) or name not in specs:
            raise InputError(f"the model has no output {name!r:.100}; it has {', '.join(specs)}")
        if name in names_list:
            raise InputError(f"output {name} is asked for twice")
        parameters = _parameters(entry)
        if "classification" in parameters:
            raise InputError("the parameter classification is not supported: take the largest values of the output")
        names_list.append(name)
        if parameters.get("binary_data", all_binary) is True:
            binary.add(name)
    return tuple(names_list), frozenset(binary)
