"""The benchmark of the service in its short form: what it promises holds, whatever else the machine does."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from processes import run_command

PROGRAM = Path(__file__).parents[2] / "benchmarks/gpux_service.py"


@pytest.mark.whole
def test_figures_and_kills(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    result = run_command(
        [sys.executable, str(PROGRAM), "--quick", "--kill-seconds", "10", "--json", str(out)], timeout=250
    )
    assert result.returncode == 0, result.stderr[-3000:]
    figures = json.loads(out.read_text())
    kills = figures["kills"]
    assert kills["killed"] >= 5 and kills["alive"] and kills["requests"] > 100
    assert kills["wrong"] == kills["lost"] == 0 and set(kills["statuses"]) <= {"200", "503"}
    assert figures["batching"]["gain"] >= 2  # 3 and more on a machine that does nothing else
    assert 0 < figures["overhead"]["overhead_p50_ms"] < 5  # below 1 there
