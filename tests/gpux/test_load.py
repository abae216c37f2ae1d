"""The benchmark of the service in its short form: what it promises holds, whatever else the machine does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import run_command

PROGRAM = Path(__file__).parents[2] / "benchmarks/gpux_service.py"


def check_kills(kills: dict[str, Any], killed: int, requests: int) -> None:
    """Each request was answered, right or with an error that may be tried again."""
    assert kills["killed"] >= killed and kills["alive"] and kills["requests"] > requests
    assert kills["wrong"] == kills["lost"] == 0 and set(kills["statuses"]) <= {"200", "503"}


@pytest.mark.whole
def test_figures_and_kills(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    result = run_command(
        [sys.executable, str(PROGRAM), "--quick", "--kill-seconds", "10", "--json", str(out)], timeout=250
    )
    assert result.returncode == 0, result.stderr[-3000:]
    figures = json.loads(out.read_text())
    check_kills(figures["kills"], 5, 100)
    assert figures["batching"]["gain"] >= 2  # 3 and more on a machine that does nothing else
    assert 0 < figures["overhead"]["overhead_p50_ms"] < 5  # below 1 there


@pytest.mark.long
@pytest.mark.timeout(900)
def test_ten_minutes_of_kills(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    command = [sys.executable, str(PROGRAM), "--only", "kills", "--kill-seconds", "600", "--json", str(out)]
    result = run_command(command, timeout=800)
    assert result.returncode == 0, result.stderr[-3000:]
    check_kills(json.loads(out.read_text())["kills"], 100, 10000)
