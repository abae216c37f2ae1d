"""`gpux serve` over HTTP: answers, and every way in which a request can be wrong."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image
from prometheus_client.parser import text_string_to_metric_families
from service import Service, eventually, gpux_here, serve
from sources import affine_result, project


def test_predict(service: Service) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    answer = service.predict({"x": x.tolist()}, model="affine")
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert (body["model"], body["version"]) == ("affine", "1") and body["milliseconds"] > 0
    np.testing.assert_allclose(body["outputs"]["y"], affine_result(x), rtol=1e-5, atol=1e-5)


def test_predict_from_an_image_and_a_text(service: Service) -> None:
    file = io.BytesIO()
    Image.new("RGB", (20, 10), (255, 0, 51)).save(file, "JPEG", quality=100)
    answer = service.post("/predict?model=image_sum", content=file.getvalue(), headers={"content-type": "image/jpeg"})
    np.testing.assert_allclose(np.ravel(answer.json()["outputs"]["mean"]), [1, 0, 0.2], atol=0.02)
    answer = service.post("/predict?model=texts", content="grün".encode(), headers={"content-type": "text/plain"})
    assert answer.json()["outputs"] == {"same": ["grün"]}


@pytest.mark.parametrize(
    ("content", "kind", "status", "says"),
    [
        (b"", "application/json", 400, "no JSON"),
        (b'{"inputs": {"x": [[1, 2, 3, NaN]]}}', "application/json", 400, "NaN and infinities are no JSON"),
        (b'{"inputs": {"x": [[1, 2, 3, 1e999]]}}', "application/json", 400, ""),
        (b'{"inputs": {"x": [[1, 2, 3]]}}', "application/json", 400, "shape [1, 3], but the model takes [batch, 4]"),
        (b'{"inputs": {"x": [1, 2, 3, 4]}}', "application/json", 400, "of rank 1"),
        (b'{"inputs": {"x": [["a", "b", "c", "d"]]}}', "application/json", 400, "has texts, not float32"),
        (b'{"inputs": {"z": 1}}', "application/json", 400, "no input 'z'; known: x"),
        (b'{"inputs": {}}', "application/json", 400, "input x is missing"),
        (b'{"inputs": {"x": [[0, 0, 0, 0]]}, "model": "x"}', "application/json", 400, "unknown key 'model'"),
        (b"\xff\xfe", "application/json", 400, "no JSON"),
        (b"[" * 100_000, "application/json", 400, "no JSON"),
        (b"hello", "text/plain", 400, "takes no text"),
        (b"\x89PNG", "image/png", 400, "takes no image"),
        (b"{}", "application/xml", 400, "Content-Type 'application/xml' is not taken"),
        (b" " * 300_000, "application/json", 413, "more than 200.0 KiB"),
    ],
)
def test_what_is_wrong_is_said(service: Service, content: bytes, kind: str, status: int, says: str) -> None:
    answer = service.post("/predict?model=affine", content=content, headers={"content-type": kind})
    assert answer.status_code == status, answer.text
    assert says in answer.json()["error"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/predict", 405),
        ("POST", "/predict", 404),  # of several models one must be named
        ("POST", "/predict?model=affin", 404),
        ("POST", "/predict?model=affine&version=2", 404),
        ("POST", "/predict?model=../../etc/passwd", 404),
        ("GET", "/v2/models/nothing", 404),
        ("GET", "/v2/models/..%2f..%2fetc", 404),
        ("POST", "/v2/repository/models/..%2f..%2fetc/load", 404),
        ("GET", "/nothing", 404),
    ],
)
def test_unknown_places(service: Service, method: str, path: str, status: int) -> None:
    answer = httpx.request(method, service.address + path, json={"inputs": 1} if method == "POST" else None)
    assert answer.status_code == status
    assert answer.json()["error"]


def test_a_chunked_body_is_limited_too(service: Service) -> None:
    answer = service.post("/predict?model=affine", content=(b" " * 10_000 for _ in range(50)))
    assert answer.status_code == 413


def test_a_compressed_body_is_limited_by_what_it_becomes(service: Service) -> None:
    good = gzip.compress(json.dumps({"inputs": {"x": [[0, 0, 0, 0]]}}).encode())
    headers = {"content-encoding": "gzip"}
    assert service.post("/predict?model=affine", content=good, headers=headers).status_code == 200
    for content, status in ((gzip.compress(b" " * 10_000_000), 413), (good[:-9], 400), (b"rubbish", 400)):
        assert service.post("/predict?model=affine", content=content, headers=headers).status_code == status
    assert service.post("/predict?model=affine", content=b"", headers={"content-encoding": "br"}).status_code == 400


def test_a_client_that_leaves_harms_nobody(service: Service) -> None:
    port = int(service.address.rsplit(":", 1)[1])
    for sent in (
        b"",
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
        b"\x16\x03\x01rubbish\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(sent)
    assert service.predict([[0, 0, 0, 0]], model="affine").status_code == 200


def test_an_output_that_json_cannot_hold_is_an_error(service: Service) -> None:
    huge = [[3e38, 3e38, 3e38, 3e38]]
    answer = service.predict(huge, model="affine")
    assert answer.status_code == 500
    assert answer.json()["error"].startswith("output y has 2 values that are NaN or infinite")


def test_a_model_that_takes_too_long_is_504_and_its_worker_comes_back(service: Service) -> None:
    [before] = service.workers()
    assert service.predict(10, model="slow").json()["outputs"]["y"] == pytest.approx(0.0039, rel=0.5)
    start = time.monotonic()
    answer = service.predict(100_000_000, model="slow")
    assert answer.status_code == 504 and "within 2 s" in answer.json()["error"]
    assert time.monotonic() - start < 8
    # The worker that hangs is ended, and another one answers.
    assert eventually(lambda: service.workers() and service.workers() != [before])
    eventually(lambda: service.predict([[0, 0, 0, 0]], model="affine").status_code == 200)


def test_health_info_metrics(service: Service) -> None:
    eventually(lambda: service.get("/health").status_code == 200)
    assert service.get("/health").json() == {"status": "ok", "workers": 1, "workers_wanted": 1}
    models = {model["name"]: model for model in service.get("/info").json()["models"]}
    assert models["image_sum"]["accepts"] == ["json", "image"] and models["texts"]["accepts"] == ["json", "text"]
    assert models["affine"]["batching"] and not models["mixing"]["batching"]
    assert "mixes the rows of a batch" in models["mixing"]["not_joined"]
    service.predict([[0, 0, 0, 0]], model="affine")
    families = {each.name: each for each in text_string_to_metric_families(service.get("/metrics").text)}
    served = [
        sample
        for sample in families["gpux_requests"].samples
        if sample.labels == {"route": "/predict", "status": "200"}
    ]
    assert served and served[0].value >= 1
    assert {sample.labels["model"] for sample in families["gpux_queue_length"].samples} >= {"affine:1", "slow:1"}
    assert families["gpux_workers"].samples[0].value == 1


def test_openapi_has_the_routes(service: Service) -> None:
    paths = service.get("/openapi.json").json()["paths"]
    assert {"/predict", "/health", "/info", "/metrics", "/v2/models/{name}/infer"} <= set(paths)
    assert "504" in paths["/predict"]["post"]["responses"]


def test_pages_of_other_sites_are_refused(service: Service) -> None:
    host = service.address.removeprefix("http://")
    for headers, status in (
        ({"origin": "https://evil.example"}, 403),
        ({"host": "evil.example"}, 403),  # a name that was pointed at 127.0.0.1
        ({"origin": "null"}, 403),
        ({"origin": f"http://{host}"}, 200),
        ({"host": "localhost:1"}, 200),
    ):
        assert service.get("/info", headers=headers).status_code == status, headers


def test_a_worker_that_dies_takes_no_request_with_it(files: Path) -> None:
    with (
        serve(str(files / "affine.onnx"), "--max-workers", "2", "--batch-size", "4") as service,
        ThreadPoolExecutor(8) as pool,
    ):
        x = np.random.default_rng(0).standard_normal((40, 1, 4)).astype(np.float32)
        with httpx.Client(timeout=30) as client:

            def ask(index: int) -> httpx.Response:
                return client.post(f"{service.address}/predict", json={"inputs": x[index % 40].tolist()})

            answers = [pool.submit(ask, index) for index in range(600)]
            for _ in range(3):
                time.sleep(0.15)
                os.kill(service.workers()[0], signal.SIGKILL)
            for index, answer in enumerate(answers):
                assert answer.result().status_code in (200, 503)
                if answer.result().status_code == 200:
                    expected = affine_result(x[index % 40])
                    np.testing.assert_allclose(answer.result().json()["outputs"]["y"], expected, rtol=1e-4, atol=1e-5)
                else:
                    assert answer.result().headers["retry-after"] == "1"
            assert sum(answer.result().status_code == 200 for answer in answers) >= 590
        assert eventually(lambda: service.get("/health").json()["workers"] == 2)
        assert service.get("/info").json()["workers"]["restarts"] >= 3


def test_a_full_queue_is_503_with_retry_after(files: Path) -> None:
    arguments = [str(files / "slow.onnx"), "--queue-size", "2", "--batch-size", "1"]
    with serve(*arguments) as service, ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: service.predict(1000), range(12)))
        statuses = [answer.status_code for answer in answers]
        assert set(statuses) == {200, 503} and statuses.count(200) >= 3
        refused = next(answer for answer in answers if answer.status_code == 503)
        assert refused.headers["retry-after"] == "1" and "wait for slow:1 already" in refused.json()["error"]
        assert service.predict(1).status_code == 200


def test_what_runs_is_answered_when_the_service_ends(files: Path) -> None:
    with serve(str(files / "slow.onnx")) as service, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(service.predict, 2500)
        time.sleep(0.3)
        service.process.send_signal(signal.SIGTERM)
        assert answer.result().status_code == 200
        assert service.process.wait(20) == 0


@pytest.mark.whole
def test_the_memory_budget(tmp_path: Path) -> None:
    registry = tmp_path / "models"
    for name in ("a", "b", "c"):
        folder = project(tmp_path / name, f"name: {name}\nmodel: {{source: model.onnx}}\n")
        assert gpux_here("build", folder, "--registry", registry).returncode == 0
    # Each has weights of 40 bytes.
    with serve("a", "--registry", str(registry), "--memory-budget", "90") as service:

        def ready() -> list[str]:
            index = service.post("/v2/repository/index", {"ready": True}).json()
            return [row["name"] for row in index]

        assert ready() == ["a"]
        assert service.post("/v2/repository/models/b/load").status_code == 200
        assert ready() == ["a", "b"]
        assert service.post("/v2/repository/models/c/load").status_code == 200
        assert ready() == ["a", "c"]  # a was named at the start, b gave way
        assert service.predict([[0, 0, 0, 0]], model="b").status_code == 200
        assert ready() == ["a", "b"]  # and came back when it was asked for
        assert service.post("/v2/repository/models/b/unload").status_code == 200
        assert service.predict([[0, 0, 0, 0]], model="b").status_code == 404
        assert service.post("/v2/repository/models/nothing/load").status_code == 404
        index = {row["name"]: row for row in service.post("/v2/repository/index").json()}
        assert index["b"]["state"] == "UNAVAILABLE" and index["a"]["state"] == "READY"
    with serve("--registry", str(registry), "--memory-budget", "30") as service:
        answer = service.post("/v2/repository/models/a/load")
        assert answer.status_code == 507 and "raise memory_budget" in answer.json()["error"]


@pytest.mark.whole
def test_models_are_loaded_anew_while_requests_go_on(tmp_path: Path) -> None:
    registry = tmp_path / "models"
    folder = project(tmp_path / "a", "name: a\nmodel: {source: model.onnx}\n")
    assert gpux_here("build", folder, "--registry", registry).returncode == 0
    with serve("a", "--registry", str(registry)) as service, ThreadPoolExecutor(4) as pool, httpx.Client() as client:
        url = f"{service.address}/predict"
        answers = [pool.submit(client.post, url, json={"inputs": [[0, 0, 0, 0]]}, timeout=30) for _ in range(200)]
        for _ in range(5):
            assert client.post(f"{service.address}/v2/repository/models/a/load").status_code == 200
        assert {answer.result().status_code for answer in answers} <= {200, 503}
        assert client.post(url, json={"inputs": [[0, 0, 0, 0]]}).json()["outputs"]["y"] == [[0.5, -1.0]]
