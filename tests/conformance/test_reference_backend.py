"""A backend in C, written from the headers and docs/adding-a-backend.md alone, conforms in what it declares."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import incomplete_backends
import pytest
import unihal
from processes import Completed, run_command, run_python

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
@pytest.mark.parametrize("every", [pytest.param(64, marks=pytest.mark.whole), pytest.param(1, marks=pytest.mark.long)])
def test_it_conforms_in_what_it_declares(every: int, library: Path, tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    command = [sys.executable, "-m", "unihal.command_line", "conformance", "--every", str(every)]
    process = run_command(
        [*command, "--backend", str(library), "--json", str(results)],
        timeout=280,
        UNIHAL_BACKEND=None,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert " 0 failed" in process.stdout
    outcomes = json.loads(results.read_text())["outcomes"]
    passed = [outcome for outcome in outcomes if outcome["status"] == "passed"]
    gaps = [outcome for outcome in outcomes if outcome["status"] == "gap"]
    assert len(passed) > 1000 / every and len(passed) + len(gaps) == len(outcomes)
    assert {outcome["op"] for outcome in passed} >= KINDS | SEMANTICS
    # It copies every dtype but those that it does not say it has.
    assert {outcome["message"] for outcome in gaps if outcome["op"] == "copy"} <= {
        "The device has no float8_e4m3fn.",
        "The device has no float8_e5m2.",
    }
    assert {outcome["message"] for outcome in gaps if outcome["op"] == "sort"} == {"sort is not implemented"}
    assert all(outcome["message"] for outcome in gaps)


_SORT = """
import numpy, unihal
x = unihal.Buffer.from_numpy(numpy.array([3, 1, 2], "float32"), unihal.device("rdna:1"))
print(unihal.runs_on("rdna:1", "sort", [x], [x]))
print(*unihal.ops.sort(x)[0].numpy())
print(*unihal.fallbacks())
"""


def sort(library: Path, strict: str) -> Completed:
    variables = {"UNIHAL_BACKEND": "reference", "UNIHAL_BACKEND_PATH": str(library.parent), "UNIHAL_STRICT": strict}
    return run_python(_SORT, **variables)


@pytest.mark.whole
def test_what_it_refuses_runs_on_the_host(library: Path) -> None:
    process = sort(library, "0")
    assert process.returncode == 0, process.stderr
    place, values, fallback = process.stdout.splitlines()
    assert (place, values) == ("host", "1.0 2.0 3.0")
    assert "framework='rdna:1 (reference)', op='sort', dtype='float32', reason='sort is not implemented'" in fallback


@pytest.mark.whole
def test_its_refusals_reach_the_user_under_strict(library: Path) -> None:
    process = sort(library, "1")
    assert process.returncode == 1
    assert "rdna:1 (reference) does not run sort of float32: sort is not implemented" in process.stderr


@pytest.mark.whole
@pytest.mark.timeout(200)
def test_what_runs_on_the_host_is_right(tmp_path: Path) -> None:
    """A sample of all cases on a backend that only fills: layouts, work in place, bytes between elements, errors."""
    path = incomplete_backends.tiny(tmp_path)
    results = tmp_path / "results.json"
    command = [
        sys.executable,
        "-m",
        "unihal.command_line",
        "conformance",
        "--with-host",
        "--every",
        "320",
        "--json",
        str(results),
    ]
    run_command([*command, "--backend", str(path)], timeout=190, UNIHAL_BACKEND=None)
    apart = SEMANTICS | {"collectives", "graphs"}
    outcomes = [o for o in json.loads(results.read_text())["outcomes"] if o["op"] not in apart]
    assert {outcome["status"] for outcome in outcomes} <= {"passed", "gap"}, outcomes
    # What the host does not do either is little, and known: as on the stub, and graphs, which one of the groups is for.
    assert {outcome["op"] for outcome in outcomes if outcome["status"] == "gap"} <= {"pool", "launch_groups"}
    assert len(outcomes) > 50
