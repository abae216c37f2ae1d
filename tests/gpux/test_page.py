"""The page at /, in headless Chromium."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import CHROMIUM, Tab, chromium, tab
from PIL import Image
from service import Service, eventually, serve

pytest.importorskip("websockets.sync.client")

pytestmark = [
    pytest.mark.whole,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="no Chromium: tests/gpux/fetch_chromium.sh"),
]


class Page(Tab):
    """GPUX's."""

    def run(self) -> None:
        self.evaluate(
            "document.getElementById('result').hidden = true; document.getElementById('error').textContent = ''"
        )
        self.evaluate("document.getElementById('run').click()")
        eventually(
            lambda: self.evaluate(
                "!document.getElementById('result').hidden || document.getElementById('error').textContent"
            )
        )


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Chromium's DevTools address."""
    with chromium(tmp_path_factory.mktemp("chromium")) as address:
        yield address


@pytest.fixture()
def page(browser: str) -> Iterator[Page]:
    with tab(browser, Page) as opened:
        yield opened


def test_values_in_a_form(service: Service, page: Page) -> None:
    page.open(service.address)
    page.choose("affine:1")
    assert page.text("label[for=input-x]") == "x float32 [batch, 4]"
    assert page.evaluate("document.getElementById('input-x').value") == "[[0,0,0,0]]"
    page.set("#input-x", "[[1, 1, 1, 1]]")
    page.run()
    assert json.loads(page.text("#outputs pre")) == [[3.5, 3.0]]
    assert "ms, of which" in page.text("#latency")
    rows = page.evaluate("[...document.querySelectorAll('#outputs td')].map(cell => cell.textContent)")
    assert rows[:2] == ["0", "3.50000"]  # the largest first
    assert page.complaints == []


def test_mistakes_are_shown(service: Service, page: Page) -> None:
    page.open(service.address)
    page.choose("affine:1")
    page.set("#input-x", "[[1, 2]]")
    page.run()
    assert "shape [1, 2], but the model takes [batch, 4]" in page.text("#error")
    page.set("#input-x", "[[1, 2")
    page.run()
    assert page.text("#error").startswith("x: ")
    page.set("#input-x", "[[0, 0, 0, 0]]")
    page.run()
    assert page.text("#error") == "" and json.loads(page.text("#outputs pre")) == [[0.5, -1.0]]


def test_an_image_is_uploaded(service: Service, page: Page, tmp_path: Path) -> None:
    Image.new("RGB", (16, 16), (255, 0, 51)).save(tmp_path / "i.png")
    page.open(service.address)
    page.choose("image_sum:1")
    root = page.call("DOM.getDocument")["root"]["nodeId"]
    node = page.call("DOM.querySelector", nodeId=root, selector="#image")["nodeId"]
    page.call("DOM.setFileInputFiles", nodeId=node, files=[str(tmp_path / "i.png")])
    eventually(lambda: page.evaluate("document.getElementById('preview').naturalWidth") == 16)
    page.run()
    assert page.text("#error") == ""
    [[[[red]], [[green]], [[blue]]]] = json.loads(page.text("#outputs pre"))
    assert (red, green, blue) == pytest.approx((1, 0, 0.2), abs=1e-5)
    picture = base64.b64decode(page.call("Page.captureScreenshot")["data"])
    assert picture.startswith(b"\x89PNG")
    assert page.complaints == []


def test_a_text_is_sent(service: Service, page: Page) -> None:
    page.open(service.address)
    page.choose("texts:1")
    page.set("#text", "<b>grün</b>")
    page.run()
    assert json.loads(page.text("#outputs pre")) == ["<b>grün</b>"]
    assert page.evaluate("document.querySelectorAll('#outputs b').length") == 0  # text, not markup


def test_a_key_is_asked_for(files: Path, page: Page, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"me {'k' * 20}\n")
    with serve(str(files / "affine.onnx"), "--api-keys", str(tmp_path / "keys")) as service:
        page.open(service.address)
        eventually(lambda: not page.evaluate("document.getElementById('access').hidden"))
        assert page.evaluate("document.getElementById('form').hidden")
        page.set("#key", "k" * 20)
        page.evaluate("document.getElementById('connect').click()")
        eventually(lambda: not page.evaluate("document.getElementById('form').hidden"))
        page.run()
        assert json.loads(page.text("#outputs pre")) == [[0.5, -1.0]]
