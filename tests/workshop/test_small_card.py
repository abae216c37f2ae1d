"""docs/examples/workshop/small_card.py: planned for a card, run on the stub with that card's memory."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import run_command

pytest.importorskip("diffusers")
pytest.importorskip("transformers")

EXAMPLE = Path(__file__).parents[2] / "docs/examples/workshop/small_card.py"


def run(*arguments: str) -> dict[str, Any]:
    result = run_command([sys.executable, str(EXAMPLE), *arguments, "--json"], timeout=900)
    assert result.returncode == 0, result.stdout + result.stderr
    report: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    assert report["fits"] and report["fallbacks"] == 0
    assert report["peak_mib"] <= report["available_mib"]
    return report


@pytest.mark.parametrize(
    "model",
    [
        pytest.param("stable-diffusion", marks=pytest.mark.whole),
        pytest.param("text-generation", marks=pytest.mark.long),
        pytest.param("image-classification", marks=pytest.mark.long),
    ],
)
def test_small_configurations(model: str) -> None:
    inputs = {"stable-diffusion": '{"width": 64, "height": 64}'}.get(model, "{}")
    report = run(model, "--variant", "test", "--card", "rx580-4gb", "--bits", "8", "--inputs", inputs)
    assert report["planned_peak_mib"] == pytest.approx(report["peak_mib"], rel=0.05, abs=0.1)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("arguments", "most"),
    [
        (("stable-diffusion", "--card", "rx580-8gb"), 2400),
        (("stable-diffusion", "--card", "rx580-4gb", "--bits", "8", "--offload", "parts"), 1000),
        (("text-generation", "--card", "rx580-4gb", "--bits", "4"), 700),
        (("image-classification", "--card", "rx580-4gb"), 120),
    ],
)
def test_full_size(arguments: tuple[str, ...], most: float) -> None:
    report = run(*arguments)
    assert report["planned_peak_mib"] == pytest.approx(report["peak_mib"], rel=0.05)
    assert report["peak_mib"] < most
    whole = {"stable-diffusion": 1.07e9 * 2, "text-generation": 1.1e9 * 2, "image-classification": 25.6e6 * 2}
    bits = report["bits"] or 16
    assert report["weights_mib"] * 2**20 <= whole[arguments[0]] * {16: 1.02, 8: 0.52, 4: 0.28}[bits]


def test_an_unknown_card_is_named() -> None:
    result = run_command([sys.executable, str(EXAMPLE), "text-generation", "--card", "rx580-3gb"])
    assert result.returncode != 0 and "rx580-3gb" in result.stderr
