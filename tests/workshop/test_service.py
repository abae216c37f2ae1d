"""`workshop serve`: what the page asks for, over HTTP, and the page itself in headless Chromium."""

from __future__ import annotations

import base64
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from chromium import CHROMIUM, Tab, chromium, tab
from commands import COMMAND, TINY, workshop_here


def eventually(condition: Callable[[], Any], seconds: float = 30) -> Any:
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    arguments = ["serve", "tiny", "endless", "--import", TINY, "--port", "0", "--card", "rx580-4gb"]
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("workshop: http://127.0.0.1:"), line
        yield line.split()[1]
        process.terminate()
        assert process.wait(60) is not None


def over(address: str, number: int) -> dict[str, Any]:
    def state() -> dict[str, Any] | None:
        found: dict[str, Any] = httpx.get(f"{address}/api/run/{number}").json()
        return found if found["state"] not in ("waiting", "running") else None

    result: dict[str, Any] = eventually(state)
    return result


def test_the_state(address: str) -> None:
    state = httpx.get(f"{address}/api/state").json()
    assert state["card"] == "rx580-4gb" and state["backend"]["backend"] == "stub"
    assert {model["name"] for model in state["models"]} == {"tiny", "endless"}
    assert len(state["cards"]) >= 5 and state["gpus"][0]["device"] == "rdna:0"


def test_a_plan(address: str) -> None:
    body = {"model": "tiny", "inputs": {"width": 512}, "card": "rx580-8gb"}
    plan = httpx.post(f"{address}/api/plan", json=body, timeout=60).json()
    assert plan["fits"] and plan["peak_bytes"] > 512 * 512 * 3 * 4 and plan["card"]["name"] == "rx580-8gb"
    timeline = plan["timeline"]
    assert len(timeline["ops"]) == len(timeline["bytes"]) == len(timeline["names"]) > 0
    assert max(sum(row) for row in timeline["bytes"]) == plan["peak_bytes"]


def test_runs_wait_for_one_another_and_can_be_interrupted(address: str) -> None:
    begun = httpx.post(f"{address}/api/run", json={"model": "endless"}).json()
    waiting = httpx.post(f"{address}/api/run", json={"model": "tiny", "inputs": {"width": 16}, "seed": 5}).json()
    eventually(lambda: httpx.get(f"{address}/api/run/{begun['number']}").json()["step"] > 3)
    assert httpx.get(f"{address}/api/run/{waiting['number']}").json()["state"] == "waiting"
    httpx.post(f"{address}/api/run/{begun['number']}/interrupt")
    ended = over(address, begun["number"])
    assert ended["state"] == "interrupted" and ended["output"]["text"].startswith("counted to")
    done = over(address, waiting["number"])
    assert done["state"] == "done" and done["used_seed"] == 5 and done["peak_bytes"] > 0
    picture = base64.b64decode(done["output"]["picture"].partition(",")[2])
    assert picture.startswith(b"\x89PNG")


def test_a_model_that_fails_is_an_answer(address: str) -> None:
    begun = httpx.post(f"{address}/api/run", json={"model": "tiny", "inputs": {"steps": 13}}).json()
    ended = over(address, begun["number"])
    assert ended["state"] == "failed" and ended["error"] == "ValueError: thirteen"


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("run", {"model": "other"}, "is not served here"),
        ("run", {"model": "tiny", "inputs": {"widht": 3}}, "did you mean width"),
        ("run", {"model": "tiny", "seed": "x"}, "seed 'x'"),
        ("run", {"model": 3}, "model: expected a text"),
        ("run", [], "expected an object"),
        ("plan", {"model": "tiny", "card": "/etc/passwd.yml"}, "there is no card"),
        ("plan", {"model": "endless", "card": "rx580-4gb"}, "cannot be planned"),
        ("plan", {"model": "tiny", "card": "rx580-4gb", "inputs": []}, "inputs: expected an object"),
    ],
)
def test_mistakes(address: str, path: str, body: Any, said: str) -> None:
    answer = httpx.post(f"{address}/api/{path}", json=body, timeout=60)
    assert 400 <= answer.status_code < 500 and said in answer.json()["error"]


def test_who_may_ask(address: str) -> None:
    assert httpx.get(f"{address}/", headers={"Host": "evil.example"}).status_code == 403
    refused = httpx.post(f"{address}/api/run", json={"model": "tiny"}, headers={"Origin": "http://evil.example"})
    assert refused.status_code == 403
    assert httpx.post(f"{address}/api/run", content=b"x" * (2 << 20)).status_code == 400
    assert httpx.get(f"{address}/api/run/99999").status_code == 400
    page = httpx.get(f"{address}/")
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_it_stays_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKSHOP_SERVE__HOST", "0.0.0.0")
    result = workshop_here("serve", "tiny", "--import", TINY, "--port", "0")
    assert result.returncode == 3 and "this machine only" in result.stderr


# -- the page ----------------------------------------------------------------------------------------------------------


@pytest.fixture()
def page(address: str, tmp_path: Path) -> Iterator[Tab]:
    pytest.importorskip("websockets.sync.client")
    with chromium(tmp_path) as browser, tab(browser) as opened:
        opened.open(address)
        yield opened


@pytest.mark.whole
@pytest.mark.skipif(not CHROMIUM.exists(), reason="no Chromium: tests/gpux/fetch_chromium.sh")
def test_the_page(page: Tab) -> None:
    eventually(lambda: "the stub" in page.text("#backend"))
    assert "AMD" in page.evaluate("document.getElementById('card').selectedOptions[0].text")
    page.choose("tiny")
    page.evaluate("document.getElementById('input-width').value = '128'")
    page.evaluate("document.getElementById('plan').click()")
    eventually(lambda: not page.evaluate("document.getElementById('planned').hidden"))
    assert page.evaluate("document.getElementById('verdict').textContent").startswith("fits: ")
    areas = page.evaluate("[...document.querySelectorAll('polygon')].map(each => each.dataset.category)")
    assert {"weights", "inputs", "activations"} <= set(areas)
    assert page.evaluate("!!document.getElementById('limit')")
    assert page.evaluate("document.querySelectorAll('#rungs tr').length") == 2
    page.evaluate("document.getElementById('seed').value = '9'; document.getElementById('run').click()")
    eventually(lambda: page.evaluate("document.getElementById('state').textContent").startswith("done"))
    assert "seed 9" in page.evaluate("document.getElementById('state').textContent")
    eventually(lambda: page.evaluate("document.getElementById('image').naturalWidth") == 128)
    page.choose("endless")
    page.evaluate("document.getElementById('run').click()")
    eventually(lambda: "counting: step" in page.evaluate("document.getElementById('state').textContent"))
    page.evaluate("document.getElementById('interrupt').click()")
    eventually(lambda: page.evaluate("document.getElementById('state').textContent").startswith("interrupted"))
    assert page.evaluate("document.getElementById('output').textContent").startswith("counted to")
    page.evaluate("document.getElementById('seed').value = 'x'; document.getElementById('run').click()")
    eventually(lambda: "seed 'x'" in page.evaluate("document.getElementById('error').textContent"))
    assert [each for each in page.complaints if "400" not in each] == []
