"""The generated coverage page is that of the installed adapters."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.whole  # it imports every framework
def test_the_coverage_page_is_up_to_date() -> None:
    result = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate_coverage.py"), "--check"], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


def test_the_coverage_page_covers_each_framework() -> None:
    page = (ROOT / "docs" / "coverage.md").read_text()
    for expected in (
        "| `conv2d` | f32",
        "| `contiguous` |",
        "| `MatMul` | f32",
        "| `AssignVariableOp` |",
        "| `add.Tensor` |",
    ):
        assert expected in page
