"""What `gpux serve` costs and gains, against a bare loop of ONNX Runtime; and load while workers are killed.

    python benchmarks/gpux_service.py [--quick] [--json FILE] [--provider NAME] [--kill-seconds N] [--only PART]

overhead   one client, one request after the other, on a small model: p50, p95, p99 of the bare loop, of /predict (JSON)
           and of /v2/models/NAME/infer (binary); the difference at p50 is the HTTP way's own
batching   many clients at once, on a network whose weights cost more than its sums: requests a second with and
           without batches, p50, p95, p99, and the bare loop by batch size
kills      the same load while a worker is killed at random moments: each request must be answered, right or with an
           error that may be tried again (503); exit code 1 if one was not

The client is a loop of asyncio in this process, the service `gpux serve` in one of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from gpux.execution.measurement import percentile
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table

PARTS = ("overhead", "batching", "kills")
WIDTH = 1024
HIDDEN = 4096
BATCH = 32
CLIENTS = 64


def dense(path: Path, sizes: list[int]) -> None:
    """A network of dense layers with ReLU between them, x [batch, first] to y [batch, last]."""
    generator = np.random.default_rng(0)
    nodes, weights, name = [], [], "x"
    for index, (rows, columns) in enumerate(zip(sizes, sizes[1:])):
        last = index == len(sizes) - 2
        values = (generator.standard_normal((rows, columns)) / rows**0.5).astype(np.float32)
        weights.append(numpy_helper.from_array(values, f"w{index}"))
        product = "y" if last else f"p{index}"
        nodes.append(helper.make_node("MatMul", [name, f"w{index}"], [product]))
        if not last:
            name = f"a{index}"
            nodes.append(helper.make_node("Relu", [product], [name]))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", sizes[0]])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", sizes[-1]])]
    graph = helper.make_graph(nodes, "dense", inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@dataclass
class Service:
    """A running `gpux serve`."""

    process: subprocess.Popen[str]
    port: int

    def workers(self) -> list[int]:
        """Process ids of the service's workers."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(child) for child in children]


@contextlib.contextmanager
def serve(model: Path, *options: str) -> Iterator[Service]:
    """`gpux serve` on a free port, until the block ends."""
    command = [sys.executable, "-m", "gpux.command_line", "serve", str(model), "--port", "0", "--json", *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GPUX_")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            sys.exit("the service did not start")
        try:
            yield Service(process, int(json.loads(line)["address"].rsplit(":", 1)[1]))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


class Client:
    """One connection of HTTP/1.1 that stays open."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Sends a whole request; status and body of the answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"\r\ncontent-length: ")[1].split(b"\r\n")[0])
        return int(head.split(b" ", 2)[1]), await reader.readexactly(length)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


def http(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def predict_request(row: np.ndarray[Any, Any]) -> bytes:
    return http("/predict", json.dumps({"inputs": [row.tolist()]}).encode(), "Content-Type: application/json")


def binary_request(name: str, row: np.ndarray[Any, Any]) -> bytes:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, row.size], "parameters": {"binary_data_size": row.nbytes}}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    extra = (f"Inference-Header-Content-Length: {len(head)}", "Content-Type: application/octet-stream")
    return http(f"/v2/models/{name}/infer", head + row.tobytes(), *extra)


def binary_answer(body: bytes) -> np.ndarray[Any, Any]:
    """The one output, which stands at the end of the body."""
    size = json.loads(body[: body.index(b"}]}") + 3])["outputs"][0]["parameters"]["binary_data_size"]
    return np.frombuffer(body[len(body) - size :], np.float32)


def percentiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(value * 1e3 for value in seconds)
    return {f"p{share}_ms": round(percentile(ordered, share / 100), 4) for share in (50, 95, 99)}


def bare(model: Path, batch: int, runs: int, width: int, provider: str) -> list[float]:
    """Seconds of inferences in a loop of ONNX Runtime, after a warm-up; on the provider that the service takes."""
    from gpux.providers import ProviderManager, SessionSettings, make_session

    session = make_session(model, ProviderManager().get_best_provider(provider), SessionSettings())
    x = np.random.default_rng(1).standard_normal((batch, width)).astype(np.float32)
    seconds = []
    for index in range(runs + runs // 10 + 1):
        start = time.perf_counter()
        session.run(["y"], {"x": x})
        if index > runs // 10:
            seconds.append(time.perf_counter() - start)
    return seconds


async def sequential(port: int, request: bytes, runs: int) -> list[float]:
    client = Client(port)
    seconds = []
    for index in range(runs + runs // 10 + 1):
        start = time.perf_counter()
        status, body = await client.ask(request)
        if status != 200:
            sys.exit(f"{status}: {body[:200]!r}")
        if index > runs // 10:
            seconds.append(time.perf_counter() - start)
    client.close()
    return seconds


def overhead(folder: Path, quick: bool, provider: str) -> dict[str, Any]:
    model, width, runs = folder / "small.onnx", 16, 500 if quick else 5000
    dense(model, [width, 32, 8])
    row = np.random.default_rng(2).standard_normal(width).astype(np.float32)
    with serve(model, "--provider", provider) as service:
        predict = asyncio.run(sequential(service.port, predict_request(row), runs))
        binary = asyncio.run(sequential(service.port, binary_request("small", row), runs))
        loop = bare(model, 1, runs, width, provider)
    result: dict[str, Any] = {"bare": percentiles(loop), "predict": percentiles(predict), "infer": percentiles(binary)}
    result["overhead_p50_ms"] = round(result["predict"]["p50_ms"] - result["bare"]["p50_ms"], 4)
    return result


@dataclass
class Load:
    """What many clients saw."""

    seconds: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    wrong: int = 0
    lost: int = 0
    elapsed: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            "requests": len(self.seconds),
            "per_second": round(self.statuses.get(200, 0) / self.elapsed, 1),
            **percentiles(self.seconds),
            "statuses": self.statuses,
            "wrong": self.wrong,
            "lost": self.lost,
        }


async def load(port: int, name: str, model: Path, seconds: float, clients: int, width: int) -> Load:
    """Clients that each ask again as soon as they are answered; a busy service is asked again after a moment."""
    generator = np.random.default_rng(3)
    rows = [generator.standard_normal(width).astype(np.float32) for _ in range(8)]
    session = ort.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    cases = [(binary_request(name, row), session.run(["y"], {"x": row[None]})[0].reshape(-1)) for row in rows]
    result = Load()
    start = time.perf_counter()

    async def one(index: int) -> None:
        client = Client(port)
        choice = random.Random(index)
        while time.perf_counter() - start < seconds:
            request, expected = choice.choice(cases)
            began = time.perf_counter()
            try:
                status, body = await asyncio.wait_for(client.ask(request), 60)
            except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
                result.lost += 1
                client.close()
                client = Client(port)
                continue
            result.seconds.append(time.perf_counter() - began)
            result.statuses[status] = result.statuses.get(status, 0) + 1
            if status == 200:
                found = binary_answer(body)
                result.wrong += not np.allclose(found, expected, rtol=0, atol=1e-3)
            elif status == 503:
                await asyncio.sleep(0.05)
        client.close()

    await asyncio.gather(*(one(index) for index in range(clients)))
    result.elapsed = time.perf_counter() - start
    return result


def batching(folder: Path, quick: bool, provider: str) -> dict[str, Any]:
    model = folder / "wide.onnx"
    dense(model, [WIDTH, HIDDEN, WIDTH])
    seconds = 2.0 if quick else 10.0
    result: dict[str, Any] = {}
    for label, size in (("one by one", 1), (f"batches of {BATCH}", BATCH)):
        with serve(model, "--provider", provider, "--batch-size", str(size), "--queue-size", "1000") as service:
            asyncio.run(load(service.port, "wide", model, 0.5, CLIENTS, WIDTH))
            result[label] = asyncio.run(load(service.port, "wide", model, seconds, CLIENTS, WIDTH)).as_dict()
    result["gain"] = round(result[f"batches of {BATCH}"]["per_second"] / result["one by one"]["per_second"], 2)
    scaling = {}
    for size in (1, 8, BATCH) if quick else (1, 2, 4, 8, 16, BATCH, 64):
        times = bare(model, size, 20 if quick else 100, WIDTH, provider)
        scaling[size] = {"per_second": round(size * len(times) / sum(times), 1), **percentiles(times)}
    result["bare"] = scaling
    return result


def kills(folder: Path, seconds: float, provider: str) -> dict[str, Any]:
    """Two workers, of which one is killed every half second to two seconds."""
    model = folder / "killed.onnx"
    dense(model, [256, 512, 64])

    async def run(service: Service) -> tuple[Load, int]:
        choice = random.Random(0)
        count = 0

        async def killer() -> None:
            nonlocal count
            while True:
                await asyncio.sleep(choice.uniform(0.3, 1.5))
                workers = service.workers()
                if workers:
                    os.kill(choice.choice(workers), signal.SIGKILL)
                    count += 1

        task = asyncio.create_task(killer())
        found = await load(service.port, "killed", model, seconds, 16, 256)
        task.cancel()
        return found, count

    with serve(model, "--provider", provider, "--max-workers", "2", "--batch-size", "8") as service:
        found, count = asyncio.run(run(service))
        alive = service.process.poll() is None
    return {"killed": count, "alive": alive, **found.as_dict()}


def show(results: dict[str, Any], console: Console) -> None:
    if "overhead" in results:
        table = Table("small model, one client", "p50 ms", "p95 ms", "p99 ms")
        for name in ("bare", "predict", "infer"):
            table.add_row(name, *(f"{value:.3f}" for value in results["overhead"][name].values()))
        console.print(table, f"overhead at p50: {results['overhead']['overhead_p50_ms']:.3f} ms (target: 1)")
    if "batching" in results:
        table = Table(f"dense {WIDTH}-{HIDDEN}-{WIDTH}", "requests/s", "p50 ms", "p95 ms", "p99 ms")
        rows = [(name, row) for name, row in results["batching"].items() if isinstance(row, dict) and name != "bare"]
        rows += [(f"bare loop, batch {size}", row) for size, row in results["batching"]["bare"].items()]
        for name, row in rows:
            table.add_row(name, *(f"{row[key]:.2f}" for key in ("per_second", "p50_ms", "p95_ms", "p99_ms")))
        console.print(table, f"gain of batches: {results['batching']['gain']} (target: 3)")
    if "kills" in results:
        console.print("kills:", results["kills"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; may be given again")
    parser.add_argument("--provider", default="cpu", help="the execution provider")
    parser.add_argument("--kill-seconds", type=float, default=20.0, help="of load with kills; 600 before a release")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    parts = arguments.only or PARTS
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="gpux-") as name:
        folder = Path(name)
        if "overhead" in parts:
            results["overhead"] = overhead(folder, arguments.quick, arguments.provider)
        if "batching" in parts:
            results["batching"] = batching(folder, arguments.quick, arguments.provider)
        if "kills" in parts:
            results["kills"] = kills(folder, arguments.kill_seconds, arguments.provider)
    show(results, Console())
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    failed = results.get("kills", {})
    if failed and (failed["wrong"] or failed["lost"] or not failed["alive"] or set(failed["statuses"]) - {200, 503}):
        sys.exit("requests under kills were lost, wrong or answered with another error than 503")


if __name__ == "__main__":
    main()
