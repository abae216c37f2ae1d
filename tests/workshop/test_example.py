"""The example of docs/workshop.md, as it stands."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from commands import succeeded, workshop_here
from processes import run_command

EXAMPLE = Path(__file__).parents[2] / "docs/examples/workshop_resnet"


@pytest.mark.whole
def test_what_the_page_shows() -> None:
    text = workshop_here("plan", f"{EXAMPLE / 'resnet.py'}:inference", "--card", "rx580-4gb").stdout
    page = (EXAMPLE.parents[1] / "workshop.md").read_text()
    shown = [line.strip() for line in text.splitlines()[:7]]
    for line in shown:
        assert line in page, line


@pytest.mark.long
def test_training_is_planned() -> None:
    plan = succeeded(workshop_here("plan", f"{EXAMPLE / 'resnet.py'}:training", "--card", "rx580-8gb", "--json"))
    assert plan["training"] and plan["fits"] and plan["largest_batch"] > 16
    # Two moments for each weight, and a gradient; statistics of batch norms have none.
    assert plan["by_category"]["optimizer"] == pytest.approx(2 * plan["weight_bytes"], rel=0.02)


@pytest.mark.long
def test_the_largest_batch() -> None:
    result = run_command([sys.executable, str(EXAMPLE / "largest_batch.py")])
    assert result.returncode == 0, result.stderr
    ran = re.search(r"30 pictures ran: ([\d.]+) MiB, planned ([\d.]+) MiB, which fit", result.stdout)
    assert ran is not None and float(ran[1]) == pytest.approx(float(ran[2]), rel=0.05)
    assert re.search(r"31 pictures did not fit: .* which do not fit", result.stdout)
    assert "Out of device memory" in result.stdout
