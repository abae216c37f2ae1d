"""`workshop`: each command, its JSON, and its exit codes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import unihal
from commands import COMMAND, TINY, succeeded, workshop, workshop_here
from PIL import Image
from unihal_workshop.cards.profiles import CARDS

PLANNABLE = str(Path(__file__).with_name("plannable.py"))


@pytest.fixture(autouse=True)
def _no_cap() -> Any:
    yield
    unihal.device("rdna").set_memory_limit(0)


def test_gpu() -> None:
    data = succeeded(workshop("gpu", "--json", UNIHAL_STUB_PROFILE="rx580-4gb", HSA_OVERRIDE_GFX_VERSION="10.3.0"))
    assert data["gpus"][0]["profile"] == "rx580-4gb" and data["gpus"][0]["device"] == "rdna:0"
    assert data["backend"]["backend"] == "stub" and len(data["backend"]["why"]) == 3
    assert data["overrides"]["HSA_OVERRIDE_GFX_VERSION"]["value"] == "10.3.0"
    text = workshop_here("gpu")
    assert text.returncode == 0 and "rdna computes by the stub" in text.stdout


def test_gpu_without_any() -> None:
    data = succeeded(workshop("gpu", "--json", UNIHAL_BACKEND=None))
    assert [each for each in data["gpus"] if each["stub"]] == []
    assert data["backend"]["name"] == "the CPU" or data["backend"]["devices"] > 0


def test_plan_without_a_backend(tmp_path: Path) -> None:
    """The planner takes the device's rules from the stub, and a check runs there."""
    result = workshop(
        "plan", f"{PLANNABLE}:linear", "--card", "rx580-4gb", "--check", "--picture", tmp_path / "p.svg", "--json",
        UNIHAL_BACKEND=None,
    )  # fmt: skip
    data = succeeded(result)
    assert data["fits"] and data["measured"]["fits"] and data["notes"] == []
    assert data["peak_bytes"] == pytest.approx(data["measured"]["peak_bytes"], rel=0.05)
    assert data["largest_batch"] > 1000 and data["rungs"][0]["name"] == "as it is"
    root = ElementTree.parse(tmp_path / "p.svg").getroot()
    assert len(root.findall("{http://www.w3.org/2000/svg}polygon")) >= 2


def test_plan() -> None:
    text = workshop_here("plan", f"{PLANNABLE}:linear", "--card", "rx580-4gb")
    assert text.returncode == 0 and "fits: peak" in text.stdout and "largest batch" in text.stdout
    data = succeeded(workshop_here("plan", f"{PLANNABLE}:training", "--card", "rx580-4gb", "--json"))
    assert data["training"] and data["by_category"]["optimizer"] > 0
    data = succeeded(workshop_here("plan", "tiny", "--import", TINY, "--input", "width=128", "--json"))
    assert data["model"] == "tiny" and data["by_category"]["inputs"] >= 128 * 128 * 3 * 4
    result = workshop_here("plan", f"{PLANNABLE}:too_large", "--card", "rx580-4gb")
    assert result.returncode == 7 and "DOES NOT FIT" in result.stdout and "quantize(model, 4)" in result.stdout


@pytest.mark.parametrize(
    "extras",
    [
        pytest.param([(), ("--bits", "8", "--offload", "layers", "--check")], marks=pytest.mark.whole),
        pytest.param([(), ("--dtype", "float32"), ("--bits", "8")], marks=pytest.mark.whole),
    ],
    ids=["bits and offload", "dtypes and bits"],
)
def test_a_registered_model_is_planned_with_its_options_and_checked(extras: list[tuple[str, ...]]) -> None:
    arguments = (
        "plan",
        "text-generation",
        "--option",
        "variant=test",
        "--input",
        "new_tokens=8",
        "--card",
        "rx580-4gb",
        "--json",
    )
    weights = {}
    for extra in extras:
        data = succeeded(workshop_here(*arguments, *extra))
        weights[extra] = data["weight_bytes"]
        if "--check" in extra:
            assert data["measured"]["fits"] and data["by_category"]["copies"] > 0
            assert data["peak_bytes"] == pytest.approx(data["measured"]["peak_bytes"], rel=0.05)
    if ("--dtype", "float32") in weights:
        assert weights["--dtype", "float32"] == pytest.approx(2 * weights[()], rel=0.01)
    assert all(found < 0.6 * weights[()] for extra, found in weights.items() if "--bits" in extra)


@pytest.mark.whole
def test_a_model_of_a_file_is_checked() -> None:
    data = succeeded(workshop_here("plan", "tiny", "--import", TINY, "--input", "width=128", "--check", "--json"))
    assert data["measured"]["fits"] and data["measured"]["peak_bytes"] > 128 * 128 * 3 * 4


@pytest.mark.whole
def test_training_that_computes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("plan", f"{PLANNABLE}:deep", "--training", "--card", "rx580-4gb", "--json")
    plain = succeeded(workshop_here(*arguments))
    rungs = {rung["name"]: rung for rung in plain["rungs"]}
    assert rungs["checkpointing"]["peak_bytes"] < 0.8 * plain["peak_bytes"]
    assert rungs["checkpointing"]["setting"] == "checkpoint(model)"
    monkeypatch.setenv("WORKSHOP_OPTIMIZE__CHECKPOINTING", "true")
    again = succeeded(workshop_here(*arguments))
    assert again["peak_bytes"] == rungs["checkpointing"]["peak_bytes"]
    assert [rung["name"] for rung in again["rungs"]] == ["as it is"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("plan", f"{PLANNABLE}:liner"), 4, "did you mean linear?"),
        (("plan", f"{PLANNABLE}:wrong"), 4, "expected model, inputs, training"),
        (("plan", "no.onnx"), 4, "no.onnx is not there"),
        (("plan", "nothing"), 4, "there is no model 'nothing'"),
        (("plan", f"{PLANNABLE}:linear", "--card", "rx580-4bg"), 6, "did you mean rx580-4gb?"),
        (("plan", f"{PLANNABLE}:linear", "--reserve", "many"), 3, "--reserve: memory.reserve: 'many' is no amount"),
        (("plan", f"{PLANNABLE}:linear", "--bits", "8"), 5, "are for registered models"),
        (("plan", "tiny", "--import", TINY, "--training"), 5, "--training is for modules"),
        (("plan", "tiny", "--import", TINY, "--bits", "5"), 3, "--bits"),
        (("plan", "tiny", "--import", TINY, "--offload", "layers"), 4, "no option 'offload'"),
        (("config", "--set", "memory.reserv=3"), 3, "did you mean memory.reserve?"),
        (("config", "--set", "x"), 5, "expected NAME=VALUE"),
        (("run", "tiny", "--import", TINY, "--input", "widht=3"), 4, "did you mean width?"),
        (("run", "tiny", "--import", TINY, "--option", "hiden=3"), 4, "did you mean hidden?"),
        (("run", "tiny", "--import", "missing.py"), 4, "expected a Python file"),
        (("run", f"{PLANNABLE}:linear"), 4, "can be planned; what runs here is registered"),
        (("run", "tiny", "--import", TINY, "--seed", "-1"), 3, "--seed"),
        (("nothing",), 2, ""),
    ],
)
def test_mistakes(arguments: tuple[str, ...], code: int, said: str) -> None:
    result = workshop_here(*arguments)
    assert result.returncode == code, result.stderr
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_mistakes_as_json() -> None:
    result = workshop_here("plan", "no.onnx", "--json")
    assert result.returncode == 4
    assert json.loads(result.stdout)["error"]["kind"] == "ModelError"


def test_run(tmp_path: Path) -> None:
    options = ("--import", TINY, "--input", "width=32", "--seed", "7", "--card", "rx580-4gb")
    files = [tmp_path / name for name in ("a.png", "b.png", "a.npy")]
    for file in files:
        preview = ("--preview", tmp_path / "preview.png")
        data = succeeded(workshop_here("run", "tiny", *options, "--out", file, "--json", *preview))
        assert data["finished"] and data["seed"] == 7 and data["output"] == {"shape": [32, 32, 3], "dtype": "uint8"}
        assert Image.open(preview[1]).size == (32, 32)  # of four steps: fewer than a page's between two previews
    assert np.array_equal(np.asarray(Image.open(files[0])), np.load(files[2]))
    assert files[0].read_bytes() == files[1].read_bytes()
    text = workshop_here("run", "tiny", *options)
    assert text.returncode == 0 and "seed 7" in text.stdout and "--out FILE keeps it" in text.stdout
    assert workshop_here("run", "tiny", *options, "--out", tmp_path / "a.doc").returncode == 5


@pytest.mark.parametrize(
    "card",
    [pytest.param(n, marks=pytest.mark.whole if n == "rx580-4gb" else pytest.mark.long) for n in sorted(CARDS)],
)
def test_every_preset_runs(card: str) -> None:
    """In a process of its own: PyTorch has one device, which is the preset's."""
    model = ("text-generation", "--option", "variant=test", "--input", "new_tokens=4")
    data = succeeded(workshop("run", *model, "--card", card, "--seed", "1", "--json"))
    assert data["finished"] and data["peak_bytes"] > 0 and data["details"]["tokens"] == 4


def test_control_c_keeps_what_was_made(tmp_path: Path) -> None:
    out = tmp_path / "count.txt"
    preview = tmp_path / "begun"
    arguments = ["run", "endless", "--import", TINY, "--out", str(out), "--input", f"mark={preview}"]
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        # It counts a hundred times a second, once PyTorch is there.
        deadline = time.monotonic() + 60
        while not preview.exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 8, stderr
    assert "interrupted: what was made is kept" in stdout
    assert out.read_text().startswith("counted to ")


def test_bench(tmp_path: Path) -> None:
    arguments = ("bench", "tiny", "--import", TINY, "--input", "width=32", "--runs", "2")
    trace, picture = tmp_path / "t.json", tmp_path / "p.svg"
    data = succeeded(workshop_here(*arguments, "--json", "--perfetto", trace, "--picture", picture))
    rows = {row["path"]: row for row in data["statistics"]}
    assert rows["run"]["runs"] == 2 and rows["run/drawing"]["runs"] == 2 * 3 and rows["run"]["launches"] > 0
    assert json.loads(trace.read_text())["traceEvents"] and picture.read_text().startswith("<svg")
    text = workshop_here(*arguments)
    assert text.returncode == 0 and "bottleneck: run" in text.stdout  # and not loading, which is done once


def test_config() -> None:
    rows = {row["name"]: row for row in succeeded(workshop_here("config", "--card", "rx580-4gb", "--json"))}
    assert rows["card"]["source"] == "--card" and rows["optimize.bits"]["source"] == "preset rx580-4gb"
    text = workshop_here("config", "--set", "run.steps=3")
    assert text.returncode == 0 and "--steps" in text.stdout


def test_models() -> None:
    names = [row["name"] for row in succeeded(workshop_here("models", "--import", TINY, "--json"))]
    assert {"tiny", "endless"} <= set(names)
    assert "noise, step by step" in workshop_here("models", "--import", TINY, COLUMNS="200").stdout


def test_help_names_the_exit_codes() -> None:
    text = workshop_here("--help").stdout
    for command in ("gpu", "plan", "run", "optimize", "bench", "config", "serve", "models"):
        assert command in text
    assert "7 does not fit" in text


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "yaml.py").write_text("raise ModuleNotFoundError(\"No module named 'yaml'\", name='yaml')\n")
    result = subprocess.run(
        [sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv.pop()); sys.argv = ['workshop', 'config']; "
         "from unihal_workshop.command_line.main import main; main()", str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 1 and "pip install 'unihal[workshop]'" in result.stderr, result.stderr
