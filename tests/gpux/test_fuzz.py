"""Random and mutated requests against the application: a 4xx with an error, or a right answer; never another 5xx."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpux.errors import GPUXError
from gpux.execution.inputs import inputs_of_json
from gpux.serving.protocol import read_request, write_response
from gpux.tensors import DTYPES, TensorSpec, check_inputs, convert
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import run_command
from service import serve

INPUTS = {
    "x": TensorSpec("x", "float32", (None, 2), ("batch", None)),
    "t": TensorSpec("t", "string", (None,), ("batch",)),
}
OUTPUTS = {"y": TensorSpec("y", "float32", (None, 2), ("batch", None))}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=5), children, max_size=4),
    max_leaves=10,
)
WORDS = st.sampled_from(
    ["inputs", "outputs", "name", "datatype", "shape", "data", "parameters", "binary_data_size", "id"]
)
GOOD: dict[str, Any] = {
    "inputs": [
        {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]},
        {"name": "t", "datatype": "BYTES", "shape": [1], "data": ["a"]},
    ],
    "outputs": [{"name": "y", "parameters": {"binary_data": True}}],
}


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a document: the container, and the key or index in it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in list(items):
        yield value, key
        yield from places(child)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1000), JSON), min_size=1, max_size=3))
def test_changed_requests(changes: list[tuple[int, Any]]) -> None:
    request = json.loads(json.dumps(GOOD))
    for number, value in changes:
        found = list(places(request))
        if found:
            container, key = found[number % len(found)]
            container[key] = value
    try:
        read = read_request(json.dumps(request).encode(), None, INPUTS, OUTPUTS)
    except GPUXError as error:
        assert error.status == 400 and str(error)
    else:
        check_inputs(dict(zip(INPUTS, read.arrays)), INPUTS)
        body, _ = write_response({}, read, [np.zeros((1, 2), np.float32)] * len(read.outputs))
        assert body


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.none() | st.text("0123456789-+x", max_size=4))
def test_random_bytes(body: bytes, length: str | None) -> None:
    with pytest.raises(GPUXError):
        read_request(body, length, INPUTS, OUTPUTS)
    with pytest.raises(GPUXError):
        check_inputs(inputs_of_json(body, INPUTS), INPUTS)


@settings(max_examples=150, deadline=None)
@given(JSON, st.sampled_from(DTYPES))
def test_values_keep_their_meaning(value: Any, dtype: str) -> None:
    spec = TensorSpec("x", dtype, (None,))
    try:
        array = convert(value, spec)
    except GPUXError:
        return
    assert array.dtype == (object if dtype == "string" else np.dtype(dtype))
    flat = np.array(value, dtype=object).reshape(-1)
    if array.size and dtype.startswith(("int", "uint")):
        assert [int(each) for each in array.reshape(-1)] == [int(each) for each in flat]
    if array.size and dtype == "float64":
        assert [float(each) for each in array.reshape(-1)] == [float(each) for each in flat]


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=64), st.integers(-5, 80), st.integers(0, 5))
def test_binary_texts(data: bytes, size: int, rows: int) -> None:
    entry = {"name": "t", "datatype": "BYTES", "shape": [rows], "parameters": {"binary_data_size": size}}
    head = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [0, 2], "data": []}, entry]}).encode()
    try:
        read = read_request(head + data, str(len(head)), INPUTS, OUTPUTS)
    except GPUXError as error:
        assert error.status == 400
    else:
        assert read.arrays[1].shape == (rows,) and size == len(data)


@pytest.mark.whole
def test_the_service_by_its_own_description(files: Path, tmp_path: Path) -> None:
    """Schemathesis makes requests from /openapi.json, valid and wrong: none may give an undocumented answer."""
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
    (tmp_path / "schemathesis.toml").write_text('[parameters]\n"path.name" = "affine"\n"path.version" = "1"\n')
    with serve(str(files / "affine.onnx")) as service:
        result = run_command(
            [sys.executable, "-m", "schemathesis.cli", "--config-file", str(tmp_path / "schemathesis.toml"), "run",
             f"{service.address}/openapi.json", "--checks", checks, "--max-examples", "40", "--seed", "1",
             "--phases", "examples,coverage,fuzzing", "--exclude-path-regex", "unload"],
            timeout=280,
        )  # fmt: skip
        assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
        assert service.get("/health").status_code == 200
        assert service.predict([[0, 0, 0, 0]]).status_code == 200
