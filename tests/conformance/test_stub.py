"""The stub conforms, in both of its modes, and the suite leaves out nothing of the ABI."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from processes import run_command
from unihal import _core
from unihal.conformance import suite
from unihal.conformance.map_functions import FUNCTIONS
from unihal.conformance.sweep import ALL_DTYPES, FLOAT8

UNIHAL = [sys.executable, "-m", "unihal.command_line", "conformance"]


def test_a_sample_of_the_suite() -> None:
    """On the fast stub; `make test-conformance` has all of both modes."""
    process = run_command([*UNIHAL, "--backend", "stub", "--every", "160"], timeout=200, UNIHAL_BACKEND=None)
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.whole
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("mode", ["fast", "strict"])
def test_the_stub_conforms(mode: str, tmp_path: Path) -> None:
    junit, results = tmp_path / "junit.xml", tmp_path / "results.json"
    process = run_command(
        [*UNIHAL, "--backend", "stub", "--junit", str(junit), "--json", str(results)],
        timeout=1400,
        UNIHAL_BACKEND=None,
        UNIHAL_STUB=mode,
        UNIHAL_STUB_DEVICES="2",
    )
    assert process.returncode == 0, process.stdout + process.stderr
    root = ElementTree.parse(junit).getroot()
    outcomes = json.loads(results.read_text())["outcomes"]
    assert int(root.attrib["tests"]) == len(outcomes) == len(root.findall("testsuite/testcase")) > 13000
    assert (root.attrib["failures"], root.attrib["errors"]) == ("0", "0")
    # What the stub does not do is little, and known.
    assert {outcome["op"] for outcome in outcomes if outcome["status"] == "gap"} <= {"pool"}


def test_every_op_is_tried_and_is_whole_alone() -> None:
    """A run of one op asks the families that are said to have it: they have it, and no others do."""
    tried = set()
    for family, ops in suite._FAMILIES.items():
        found = {entry.op for entry in suite._family(family, seed=0)}
        assert found == set(ops.split()), family
        tried |= found
    assert set(_core.op_kinds()) <= tried
    names = [entry.name for entry in suite.entries(suite.Selection(op="softmax_backward"))]
    assert names == [e.name for e in suite.entries(suite.Selection()) if e.op == "softmax_backward"]


def test_every_map_function_is_tried() -> None:
    assert set(FUNCTIONS) == set(_core.map_functions())
    for name, function in FUNCTIONS.items():
        assert len(function.values) == _core.map_functions()[name]["input_count"], name


def test_every_dtype_is_tried() -> None:
    assert {*ALL_DTYPES, *FLOAT8} == set(_core.DTYPES)


SEEDS = ((0, pytest.mark.whole), (1, pytest.mark.long), (12345, pytest.mark.long))


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=mark) for seed, mark in SEEDS])
def test_names_are_unique_and_depend_on_the_seed_only(seed: int) -> None:
    names = [entry.name for entry in suite.entries(suite.Selection(seed))]
    assert len(names) == len(set(names))
    # A child process must count the same cases.
    assert names == run_command([*UNIHAL, "--list", "--seed", str(seed)]).stdout.split("\n")[:-1]


def test_lists_and_refusals() -> None:
    listed = run_command([*UNIHAL, "--op", "map/silu", "--list"], COLUMNS="20").stdout.split()
    assert "map/silu/float16/3x5x7/contiguous" in listed
    assert all(name.startswith("map/silu/") for name in listed)
    unknown = run_command([*UNIHAL, "--op", "warp"])
    assert unknown.returncode == 1
    assert "the suite has no case of the op 'warp'; it has the ops: map, map_chain, copy" in unknown.stderr
    missing = run_command([*UNIHAL, "--backend", "./libunihal_none.so", "--op", "copy"])
    assert missing.returncode == 1 and "libunihal_none.so cannot be opened" in missing.stderr
    nothing = run_command([*UNIHAL, "--op", "copy"], UNIHAL_BACKEND=None)
    assert nothing.returncode == 1 and "there is no device to test" in nothing.stderr
    assert "there is no HIP driver" in nothing.stderr


def test_parts_have_each_case_once_and_a_sample_has_each_function() -> None:
    whole = suite.Selection(op="map", every=20)
    names = [entry.name for entry in suite.entries(whole)]
    parts = [{entry.name for entry in suite.entries(part)} for part in whole.split(3)]
    assert sorted(name for part in parts for name in part) == sorted(names)
    assert max(map(len, parts)) < 0.5 * len(names)
    assert {name.split("/")[1] for name in names} >= set(FUNCTIONS)
    assert len(names) < len(suite.entries(suite.Selection(op="map"))) / 4


@pytest.mark.whole
def test_processes_at_a_time_give_the_same_outcomes(tmp_path: Path) -> None:
    counts = []
    for jobs in ("1", "3"):
        results = tmp_path / f"{jobs}.json"
        selection = ["--op", "cast", "--every", "3"]
        process = run_command([*UNIHAL, "--backend", "stub", *selection, "--jobs", jobs, "--json", str(results)])
        assert process.returncode == 0, process.stdout + process.stderr
        outcomes = json.loads(results.read_text())["outcomes"]
        counts.append(sorted((outcome["name"], outcome["status"]) for outcome in outcomes))
    assert counts[0] == counts[1] and counts[0]
