"""Pages in headless Chromium (tests/gpux/fetch_chromium.sh puts it into .venv), over the DevTools protocol."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

CHROMIUM = Path(__file__).parents[1] / ".venv/chromium/run"


def _eventually(condition: Callable[[], Any], seconds: float) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)
    return value


class Tab:
    """A tab; `complaints` has what its scripts raised and what the browser logged."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.complaints: list[str] = []
        for domain in ("Page", "Runtime", "Log", "DOM"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=30))
            if message.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.complaints.append(json.dumps(message["params"]))
            if message.get("id") == number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result

    def evaluate(self, expression: str) -> Any:
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        _eventually(lambda: self.evaluate("document.readyState") == "complete", 30)

    def text(self, selector: str) -> str:
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)}).textContent"))

    def set(self, selector: str, value: str) -> None:
        self.evaluate(f"document.querySelector({json.dumps(selector)}).value = {json.dumps(value)}")

    def choose(self, name: str) -> None:
        """Of the select `model`, the option of a name."""
        _eventually(lambda: self.evaluate("document.querySelectorAll('#model option').length"), 30)
        script = f"""(() => {{
            const select = document.getElementById("model");
            select.value = [...select.options].find(option => option.text === {json.dumps(name)}).value;
            select.dispatchEvent(new Event("change"));
        }})()"""
        self.evaluate(script)


@contextlib.contextmanager
def chromium(profile: Path) -> Iterator[str]:
    """The DevTools address of a browser with a profile of its own."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0"]
    with (
        open(profile / "log", "w") as log,
        subprocess.Popen(
            [str(CHROMIUM), *options, "--remote-allow-origins=*", f"--user-data-dir={profile}", "about:blank"],
            stdout=log,
            stderr=log,
        ) as process,
    ):
        ports = profile / "DevToolsActivePort"
        port = _eventually(lambda: ports.exists() and ports.read_text().splitlines()[0], 60)
        yield f"http://127.0.0.1:{port}"
        process.terminate()


@contextlib.contextmanager
def tab(browser: str, kind: type[Tab] = Tab) -> Iterator[Any]:
    """A new tab of a browser."""
    from websockets.sync.client import connect

    made = httpx.put(f"{browser}/json/new?about:blank").json()
    with connect(made["webSocketDebuggerUrl"], max_size=1 << 26) as socket:
        yield kind(socket)
    httpx.get(f"{browser}/json/close/{made['id']}")
