"""A backend in C, written from the headers and docs/adding-a-backend.md alone, conforms in what it declares."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import unihal
from processes import run_command, run_python

SOURCES = Path(__file__).resolve().parents[1] / "reference_backend"
# As docs/adding-a-backend.md tells a stranger to compile it: the installed headers and library, nothing else.
FLAGS = ["-std=c11", "-O2", "-Wall", "-Wextra", "-pedantic", "-Werror", "-shared", "-fPIC"]

KINDS = {"map", "copy", "cast", "fill", "reduce", "matmul", "softmax"}
SEMANTICS = {"copies", "memory", "streams", "events", "devices"}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reference") / "libunihal_reference.so"
    sources = [str(source) for source in sorted(SOURCES.glob("*.c"))]
    links = [f"-L{unihal.library_dir()}", "-lunihal", "-lm"]
    subprocess.run(["gcc", *FLAGS, f"-I{unihal.include_dir()}", *sources, "-o", str(path), *links], check=True)
    return path


@pytest.mark.timeout(300)
def test_it_conforms_in_what_it_declares(library: Path, tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    process = run_command(
        [sys.executable, "-m", "unihal.command_line", "conformance", "--backend", str(library), "--json", str(results)],
        timeout=280,
        UNIHAL_BACKEND=None,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert " 0 failed" in process.stdout
    outcomes = json.loads(results.read_text())["outcomes"]
    passed = [outcome for outcome in outcomes if outcome["status"] == "passed"]
    gaps = [outcome for outcome in outcomes if outcome["status"] == "gap"]
    assert len(passed) > 1000 and len(passed) + len(gaps) == len(outcomes)
    assert {outcome["op"] for outcome in passed} >= KINDS | SEMANTICS
    assert not {outcome["op"] for outcome in gaps} & {"copy"}  # which it does for every dtype
    assert {outcome["message"] for outcome in gaps if outcome["op"] == "sort"} == {"sort is not implemented"}
    assert all(outcome["message"] for outcome in gaps)


def test_its_refusals_reach_the_user(library: Path) -> None:
    process = run_python(
        'import numpy, unihal; unihal.ops.sort(unihal.Buffer.from_numpy(numpy.ones(3), unihal.device("rdna:1")))',
        UNIHAL_BACKEND="reference",
        UNIHAL_BACKEND_PATH=str(library.parent),
    )
    assert process.returncode == 1
    assert "sort is not implemented" in process.stderr
