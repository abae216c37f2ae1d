"""API keys, TLS, client certificates, the audit log, the address, traces."""

from __future__ import annotations

import http.server
import json
import ssl
import subprocess
import threading
from pathlib import Path

import httpx
import pytest
from gpux.configuration.settings import resolve
from gpux.errors import ConfigurationError
from gpux.serving.security import ApiKeys, is_loopback, refusal, tls_options
from service import eventually, gpux_here, serve

KEY = "k" * 32


def test_keys_and_the_audit_log(files: Path, tmp_path: Path) -> None:
    keys, audit = tmp_path / "keys", tmp_path / "audit.jsonl"
    keys.write_text(f"# who: key\nalice {KEY}\n\nbob {'b' * 16}\n")
    with serve(str(files / "affine.onnx"), "--api-keys", str(keys), "--audit-log", str(audit)) as service:
        inputs = {"inputs": [[0, 0, 0, 0]]}
        for path in ("/", "/health", "/v2/health/live", "/v2/health/ready"):
            assert service.get(path).status_code == 200
        for path in ("/info", "/metrics", "/openapi.json", "/v2", "/v2/models/affine"):
            answer = service.get(path)
            assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
        for headers, status in (
            ({}, 401),
            ({"x-api-key": "wrong" * 8}, 401),
            ({"x-api-key": ""}, 401),
            ({"authorization": f"Basic {KEY}"}, 401),
            ({"authorization": f"Bearer {KEY}"}, 200),
            ({"x-api-key": "b" * 16, "x-request-id": "mine"}, 200),
        ):
            assert service.post("/predict", inputs, headers=headers).status_code == status, headers
    rows = [json.loads(line) for line in audit.read_text().splitlines()]
    predictions = [(row["key"], row["status"]) for row in rows if row["path"] == "/predict"]
    assert predictions == [(None, 401)] * 4 + [("alice", 200), ("bob", 200)]
    assert rows[-1]["request"] == "mine" and rows[-1]["bytes_in"] > 0 and rows[-1]["bytes_out"] > 0
    assert rows[-1]["client"] == "127.0.0.1" and rows[-1]["method"] == "POST" and rows[-1]["seconds"] > 0
    assert KEY not in audit.read_text() and audit.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("alice short\n", ":1: expected NAME KEY, with a key of 16"),
        ("\nalice a b\n", ":2: expected"),
        ("# none\n", "no key stands in it"),
    ],
)
def test_files_of_keys_that_are_none(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "keys").write_text(text)
    with pytest.raises(ConfigurationError, match=says):
        ApiKeys(tmp_path / "keys")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        ApiKeys(tmp_path / "none")


def openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def authority(folder: Path, name: str) -> Path:
    key, certificate = folder / f"{name}.key", folder / f"{name}.pem"
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
            "-keyout", key, "-out", certificate, "-subj", f"/CN={name}")  # fmt: skip
    return certificate


def signed(folder: Path, name: str, by: Path) -> tuple[Path, Path]:
    key, request, certificate = (folder / f"{name}.{ending}" for ending in ("key", "csr", "pem"))
    extensions = folder / "extensions"
    extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", *curve, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
    signer = ("-CA", by, "-CAkey", by.with_suffix(".key"), "-CAcreateserial", "-days", "2")
    openssl("x509", "-req", "-in", request, *signer, "-out", certificate, "-extfile", extensions)
    return certificate, key


def test_tls_and_client_certificates(files: Path, tmp_path: Path) -> None:
    ours, others = authority(tmp_path, "ours"), authority(tmp_path, "others")
    certificate, key = signed(tmp_path, "server", ours)
    client, stranger = signed(tmp_path, "client", ours), signed(tmp_path, "stranger", others)
    options = ["--tls-certificate", certificate, "--tls-key", key, "--tls-client-ca", ours]
    with serve(str(files / "affine.onnx"), *map(str, options)) as service:
        assert service.address.startswith("https://127.0.0.1:")

        def ask(pair: tuple[Path, Path] | None) -> int:
            context = ssl.create_default_context(cafile=str(ours))
            if pair is not None:
                context.load_cert_chain(*pair)
            with httpx.Client(verify=context) as session:
                return session.post(f"{service.address}/predict", json={"inputs": [[0, 0, 0, 0]]}).status_code

        assert ask(client) == 200
        for pair in (None, stranger):
            with pytest.raises(httpx.HTTPError):
                ask(pair)
        with pytest.raises(httpx.HTTPError):
            httpx.get(service.address.replace("https", "http") + "/health")


def test_tls_files_that_do_not_fit(tmp_path: Path) -> None:
    first = authority(tmp_path, "first")
    second = authority(tmp_path, "second")
    for options in (
        {"tls_certificate": str(first), "tls_key": str(second.with_suffix(".key"))},
        {"tls_certificate": str(tmp_path / "none.pem")},
        {"tls_client_ca": str(first)},
    ):
        with pytest.raises(ConfigurationError, match="tls_"):
            tls_options(resolve(options))


@pytest.mark.parametrize(
    ("host", "own"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("[::1]", True), ("localhost", True), ("0.0.0.0", False),
     ("192.168.0.1", False), ("localhost.evil.example", False), ("", False)],
)  # fmt: skip
def test_loopback(host: str, own: bool) -> None:
    assert is_loopback(host) is own


def test_a_service_for_others_takes_any_name_but_no_other_origin() -> None:
    assert refusal({b"host": b"model.example"}, False) == ""
    assert refusal({b"host": b"model.example", b"origin": b"https://model.example"}, False) == ""
    assert "may not use" in refusal({b"host": b"model.example", b"origin": b"https://evil.example"}, False)
    assert "this machine only" in refusal({b"host": b"model.example"}, True)


@pytest.mark.whole
def test_listening_beyond_this_machine_without_keys_is_warned_of(files: Path) -> None:
    with serve(str(files / "affine.onnx"), "--host", "0.0.0.0") as service:
        assert "anybody who reaches 0.0.0.0 may use this service" in service.log.read_text()


def test_a_port_that_is_taken_is_told(files: Path) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as other:
        result = gpux_here("serve", files / "affine.onnx", "--port", str(other.server_port))
    assert result.returncode == 8 and "cannot be listened to: " in result.stderr


def test_a_model_that_cannot_be_loaded_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"rubbish")
    result = gpux_here("serve", tmp_path / "m.onnx", "--port", "0")
    assert result.returncode == 4 and "is no ONNX" in result.stderr


@pytest.mark.whole
def test_traces(files: Path) -> None:
    trace_service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    bodies: list[bytes] = []

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                import gzip

                content = gzip.decompress(content)
            bodies.append(content)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{collector.server_port}"
        with serve(str(files / "affine.onnx"), "--otlp-endpoint", endpoint) as service:
            trace = "4bf92f3577b34da6a3ce929d0e0e4736"
            headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
            assert service.post("/predict", {"inputs": [[0, 0, 0, 0]]}, headers=headers).status_code == 200
            service.get("/health")
        eventually(lambda: bodies)
        collector.shutdown()
    spans = {}
    for body in bodies:
        for resource in trace_service.ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                spans |= {span.name: span for span in scope.spans}
    assert set(spans) == {"POST /predict", "GET /health"}
    span = spans["POST /predict"]
    assert span.trace_id.hex() == trace and span.parent_span_id.hex() == "00f067aa0ba902b7"
    attributes = {each.key: each.value for each in span.attributes}
    assert (
        attributes["http.response.status_code"].int_value == 200 and attributes["http.route"].string_value == "/predict"
    )
