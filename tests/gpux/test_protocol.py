"""The Open Inference Protocol by Triton's own client, and what it never sends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from service import Service, gpux_here, serve
from sources import affine_result, project

client_module = pytest.importorskip("tritonclient.http")


@pytest.fixture()
def client(service: Service) -> Iterator[Any]:
    with client_module.InferenceServerClient(service.address.removeprefix("http://")) as client:
        yield client


def tensor(name: str, array: np.ndarray, datatype: str, binary: bool = True) -> Any:
    made = client_module.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array, binary_data=binary)
    return made


def test_state(client: Any) -> None:
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("affine") and client.is_model_ready("affine", "1")
    assert not client.is_model_ready("nothing") and not client.is_model_ready("affine", "2")
    server = client.get_server_metadata()
    assert server["name"] == "gpux" and "binary_tensor_data" in server["extensions"]
    model = client.get_model_metadata("affine")
    assert model["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}] and model["versions"] == ["1"]
    assert client.get_model_config("affine")["max_batch_size"] == 8
    assert client.get_model_config("affine")["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": [4]}]
    assert client.get_model_config("mixing")["max_batch_size"] == 0


@pytest.mark.parametrize("sent", [True, False])
@pytest.mark.parametrize("asked", [True, False])
def test_infer(client: Any, sent: bool, asked: bool) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    result = client.infer(
        "affine",
        [tensor("x", x, "FP32", sent)],
        outputs=[client_module.InferRequestedOutput("y", binary_data=asked)],
        request_id="seven",
    )
    np.testing.assert_allclose(result.as_numpy("y"), affine_result(x), rtol=1e-5, atol=1e-5)
    response = result.get_response()
    assert (response["id"], response["model_name"], response["model_version"]) == ("seven", "affine", "1")


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_compressed(client: Any, algorithm: str) -> None:
    x = np.ones((1, 4), np.float32)
    result = client.infer("affine", [tensor("x", x, "FP32")], request_compression_algorithm=algorithm)
    np.testing.assert_allclose(result.as_numpy("y"), affine_result(x), rtol=1e-5)


@pytest.mark.parametrize("binary", [True, False])
def test_texts(client: Any, binary: bool) -> None:
    given = np.array(["a", "", "grün", "x" * 1000], dtype=object)
    output = client_module.InferRequestedOutput("same", binary_data=binary)
    result = client.infer("texts", [tensor("text", given, "BYTES", binary)], outputs=[output])
    found = [each.decode() if isinstance(each, bytes) else each for each in result.as_numpy("same")]
    assert found == list(given)


def test_many_at_a_time(service: Service) -> None:
    address = service.address.removeprefix("http://")
    with client_module.InferenceServerClient(address, concurrency=8) as client:
        x = np.random.default_rng(1).standard_normal((40, 1, 4)).astype(np.float32)
        pending = [client.async_infer("affine", [tensor("x", row, "FP32")]) for row in x]
        for row, each in zip(x, pending):
            np.testing.assert_allclose(each.get_result().as_numpy("y"), affine_result(row), rtol=1e-5, atol=1e-5)
    with client_module.InferenceServerClient(address) as client:
        [row] = client.get_inference_statistics("affine")["model_stats"]
        assert row["inference_count"] >= 40 and row["execution_count"] <= row["inference_count"]


def test_errors_reach_the_client(client: Any) -> None:
    for name, array, datatype, says in (
        ("x", np.ones((1, 5), np.float32), "FP32", "but the model takes"),
        ("x", np.ones((1, 4), np.float64), "FP64", "datatype FP64, but the model takes FP32"),
        ("z", np.ones((1, 4), np.float32), "FP32", "no input 'z'"),
    ):
        with pytest.raises(client_module.InferenceServerException, match=says):
            client.infer("affine", [tensor(name, array, datatype)])
    with pytest.raises(client_module.InferenceServerException, match="no model 'nothing' is loaded"):
        client.infer("nothing", [tensor("x", np.ones((1, 4), np.float32), "FP32")])


def test_the_repository(tmp_path: Path) -> None:
    registry = tmp_path / "models"
    for version in ("1", "2"):
        folder = project(tmp_path / version, f"name: m\nversion: {version}\nmodel: {{source: model.onnx}}\n")
        assert gpux_here("build", folder, "--registry", registry).returncode == 0
    with (
        serve("--registry", str(registry)) as service,
        client_module.InferenceServerClient(service.address.removeprefix("http://")) as client,
    ):
        states = [(row["version"], row["state"]) for row in client.get_model_repository_index()]
        assert states == [("1", "UNAVAILABLE"), ("2", "UNAVAILABLE")]
        client.load_model("m")
        assert client.is_model_ready("m", "2") and not client.is_model_ready("m", "1")
        assert service.post("/v2/repository/models/m/load", {"parameters": {"version": "1"}}).status_code == 200
        assert client.get_model_metadata("m")["versions"] == ["1", "2"]
        x = [tensor("x", np.ones((1, 4), np.float32), "FP32")]
        assert client.infer("m", x).get_response()["model_version"] == "2"
        assert client.infer("m", x, model_version="1").get_response()["model_version"] == "1"
        client.unload_model("m")
        assert not client.is_model_ready("m")
        with pytest.raises(client_module.InferenceServerException, match="config and files are not taken"):
            client.load_model("m", config="{}")


GOOD = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"shape": [2, 4]}, "has 4 elements, but its shape [2, 4] has 8"),
        ({"shape": [-1, -4]}, "has no shape"),
        ({"shape": [True, 4]}, "has no shape"),
        ({"shape": [1 << 62, 1 << 62]}, "no tensor has that"),
        ({"shape": "1, 4"}, "has no shape"),
        ({"datatype": "FP99"}, "datatype 'FP99'; known: FP32"),
        ({"datatype": {}}, "has the datatype"),
        ({"data": None}, "objects, null"),
        ({"data": {"a": 1}}, "objects, null"),
        ({"data": [1, 2, 3, "4"]}, "has texts"),
        ({"name": 3}, "an input has no name"),
        ({"parameters": 3}, "parameters is no object"),
        ({"parameters": {"binary_data_size": 16}}, "0 bytes are left"),
        ({"parameters": {"binary_data_size": -1}}, "binary_data_size -1"),
        ({"parameters": {"binary_data_size": "16"}}, "binary_data_size '16'"),
    ],
)
def test_wrong_tensors_are_named(service: Service, change: dict[str, Any], says: str) -> None:
    answer = service.post("/v2/models/affine/infer", {"inputs": [{**GOOD, **change}]})
    assert answer.status_code == 400 and says in answer.json()["error"], answer.text


@pytest.mark.parametrize(
    ("request_body", "says"),
    [
        ([], 'expected {"inputs": [...]}'),
        ({"inputs": []}, "missing or empty"),
        ({"inputs": {"x": 1}}, "no list of objects"),
        ({"inputs": [GOOD, GOOD]}, "given twice"),
        ({"inputs": [GOOD], "id": 3}, "id is no text"),
        ({"inputs": [GOOD], "outputs": [{"name": "z"}]}, "no output 'z'; it has y"),
        ({"inputs": [GOOD], "outputs": [{"name": "y"}, {"name": "y"}]}, "asked for twice"),
        (
            {"inputs": [GOOD], "outputs": [{"name": "y", "parameters": {"classification": 3}}]},
            "classification is not supported",
        ),
    ],
)
def test_wrong_requests_are_named(service: Service, request_body: Any, says: str) -> None:
    answer = service.post("/v2/models/affine/infer", request_body)
    assert answer.status_code == 400 and says in answer.json()["error"], answer.text


@pytest.mark.parametrize(
    ("length", "size", "data", "says"),
    [
        ("99999", 16, bytes(16), "but the body has"),
        ("-1", 16, bytes(16), "is '-1'"),
        (None, 15, bytes(15), "no multiple of 4"),
        (None, 16, bytes(20), "4 bytes stand behind the last"),
        (None, 16, bytes(8), "but 8 bytes are left"),
        (None, 12, bytes(12), "has 3 elements, but its shape [1, 4] has 4"),
    ],
)
def test_wrong_binary_tensors_are_named(
    service: Service, length: str | None, size: int, data: bytes, says: str
) -> None:
    entry = {"name": "x", "datatype": "FP32", "shape": [1, 4], "parameters": {"binary_data_size": size}}
    head = json.dumps({"inputs": [entry]}).encode()
    headers = {"inference-header-content-length": length or str(len(head))}
    answer = service.post("/v2/models/affine/infer", content=head + data, headers=headers)
    assert answer.status_code == 400 and says in answer.json()["error"], answer.text


@pytest.mark.parametrize("data", [b"\x05\0\0\0ab", b"\x01\0", b"\x01\0\0\0\xff", b"\xff\xff\xff\xff"])
def test_wrong_texts_are_named(service: Service, data: bytes) -> None:
    entry = {"name": "text", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": len(data)}}
    head = json.dumps({"inputs": [entry]}).encode()
    headers = {"inference-header-content-length": str(len(head))}
    answer = service.post("/v2/models/texts/infer", content=head + data, headers=headers)
    assert answer.status_code == 400 and "input text" in answer.json()["error"]


def test_not_finite_values_pass_as_bytes(client: Any) -> None:
    huge = np.full((1, 4), 3e38, np.float32)
    assert np.isinf(client.infer("affine", [tensor("x", huge, "FP32")]).as_numpy("y")).all()
    with pytest.raises(client_module.InferenceServerException, match="ask for binary outputs"):
        client.infer(
            "affine", [tensor("x", huge, "FP32")], outputs=[client_module.InferRequestedOutput("y", binary_data=False)]
        )
