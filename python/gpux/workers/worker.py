"""The worker process: `python -m gpux.workers.worker FD SETTINGS`, where FD is its end of a socket pair.

It ends when the other end closes. Models are loaded beside the inferences of others, which run one after the other.
"""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import GPUXError, ModelError, ProviderError
from ..providers import Choice, DeviceMemory, ProviderManager, SessionSettings, for_memory, make_session, plain_message
from ..tensors import Array, TensorSpec, check_types, flexible_batch, make_spec
from .joining import run_joined, why_not_joined
from .wire import HEADER, Message, decode, encode, lengths


@dataclass
class _Model:
    session: Any
    inputs: dict[str, TensorSpec]
    outputs: list[str]


class Worker:
    """Answers messages of a socket until it closes.

    (load, id, key, path) and (unload, id, key); (infer, id, key, outputs, count) with the inputs of `count` requests.
    The answers are (loaded, id, facts), (done, id, errors, seconds) with the outputs of those without an error, and
    (failed, id, class, text).
    """

    def __init__(self, connection: socket.socket, settings: dict[str, Any]) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._models: dict[str, _Model] = {}
        self._choice: Choice = for_memory(ProviderManager().get_best_provider(settings["provider"]), settings["memory"])
        self._settings = SessionSettings(settings["ordinal"], settings["memory"], settings["threads"])

    def serve(self) -> None:
        """Until the other end closes."""
        facts = {
            "provider": self._choice.name,
            "title": self._choice.provider.title,
            "devices": self._choice.device_count,
            "warnings": list(self._choice.warnings),
        }
        self._send(("ready", 0, facts))
        while (received := self._receive()) is not None:
            message, arrays = received
            if message[0] == "infer":
                self._infer(message, arrays)
            elif message[0] == "load":
                threading.Thread(target=self._load, args=(message,), daemon=True).start()
            else:
                self._models.pop(message[2], None)
                self._send(("loaded", message[1], {}))

    def _load(self, message: Message) -> None:
        _, identifier, key, path = message
        try:
            memory = DeviceMemory(self._choice, self._settings.ordinal)
            session = make_session(Path(path), self._choice, self._settings)
            inputs = [make_spec(each.name, each.type, each.shape) for each in session.get_inputs()]
            outputs = [make_spec(each.name, each.type, each.shape) for each in session.get_outputs()]
            check_types(inputs, outputs)
            model = _Model(session, {spec.name: spec for spec in inputs}, [spec.name for spec in outputs])
            reason = "its inputs and outputs do not share a free first axis"
            if flexible_batch(inputs, outputs):
                reason = why_not_joined(lambda arrays: _run(model, model.outputs, arrays), model.inputs)
            facts = {
                "inputs": [spec.as_dict() for spec in inputs],
                "outputs": [spec.as_dict() for spec in outputs],
                "not_joined": reason,
                "device_bytes": memory.peak(),
            }
            self._models[key] = model
            self._send(("loaded", identifier, facts))
        except GPUXError as error:
            self._send(("failed", identifier, type(error).__name__, str(error)))
        except Exception as error:  # a failed load must not end the worker
            self._send(("failed", identifier, ModelError.__name__, f"{type(error).__name__}: {error}"[:500]))

    def _infer(self, message: Message, arrays: list[Array]) -> None:
        _, identifier, key, names, count = message
        model = self._models.get(key)
        if model is None:
            self._send(("failed", identifier, ProviderError.__name__, f"{key} is not loaded in this worker"))
            return
        width = len(model.inputs)
        requests = [arrays[index * width : (index + 1) * width] for index in range(count)]
        start = time.perf_counter()
        errors: list[str | None] = [None] * count
        try:
            results = run_joined(lambda inputs: _run(model, names, inputs), requests)
        except (GPUXError, ValueError, MemoryError):
            # One of them may be at fault: each by itself, so that the others get their answers.
            results = []
            for index, request in enumerate(requests):
                try:
                    results.append(_run(model, names, request))
                except (GPUXError, ValueError, MemoryError) as error:
                    errors[index] = str(error)[:500] or type(error).__name__
        seconds = time.perf_counter() - start
        self._send(("done", identifier, errors, seconds), [array for result in results for array in result])

    def _send(self, message: Message, arrays: list[Array] | None = None) -> None:
        buffers = encode(message, arrays or ())
        with self._sending:
            if sum(map(len, buffers)) < 1 << 16:
                self._connection.sendall(b"".join(buffers))
            else:
                for buffer in buffers:
                    self._connection.sendall(buffer)

    def _receive(self) -> tuple[Message, list[Array]] | None:
        header = self._read(HEADER.size)
        if header is None:
            return None
        body_length, data_length = lengths(header)
        body, data = self._read(body_length), self._read(data_length)
        if body is None or data is None:
            return None
        return decode(body, data)

    def _read(self, length: int) -> bytearray | None:
        content = bytearray(length)
        view = memoryview(content)
        done = 0
        while done < length:
            count = self._connection.recv_into(view[done:])
            if count == 0:
                return None
            done += count
        return content


def _run(model: _Model, names: list[str], arrays: Any) -> list[Array]:
    try:
        results: list[Array] = model.session.run(names, dict(zip(model.inputs, arrays)))
    except Exception as error:  # ONNX Runtime's classes have no common base
        raise ProviderError(f"the model failed: {plain_message(error)}") from None
    return results


def main() -> None:
    """The process."""
    # Ctrl-C reaches the whole group; the service says when it is over by closing its end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = socket.socket(fileno=int(sys.argv[1]))
    with connection, contextlib.suppress(BrokenPipeError, ConnectionResetError):
        Worker(connection, json.loads(sys.argv[2])).serve()


if __name__ == "__main__":
    main()
