"""The suite can fail: a backend that does what the stub does but for one lie is found out, and the lie is named."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import unihal
from processes import Completed, run_command

UNIHAL = [sys.executable, "-m", "unihal.command_line"]
FLAGS = ["-std=c11", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]


@pytest.fixture(scope="module")
def liar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("liar") / "libunihal_liar.so"
    source = Path(__file__).with_name("liar.c")
    command = ["gcc", *FLAGS, f"-I{unihal.include_dir()}", str(source), "-o", str(library), "-ldl"]
    subprocess.run(command, check=True)
    return library


@dataclass
class Result:
    process: Completed
    outcomes: list[dict[str, Any]]
    junit: ElementTree.Element

    def those(self, status: str) -> list[dict[str, Any]]:
        return [outcome for outcome in self.outcomes if outcome["status"] == status]


def run(library: Path, lie: str, *arguments: str) -> Result:
    files = library.parent / "result.json", library.parent / "result.xml"
    for file in files:
        file.unlink(missing_ok=True)
    process = run_command(
        [
            *UNIHAL,
            "conformance",
            "--backend",
            str(library),
            "--json",
            str(files[0]),
            "--junit",
            str(files[1]),
            *arguments,
        ],
        UNIHAL_BACKEND=None,
        LIAR_STUB=str(Path(unihal.library_dir()) / "libunihal_stub.so"),
        LIAR_LIE=lie,
    )
    assert files[0].exists(), process.stderr
    return Result(process, json.loads(files[0].read_text())["outcomes"], ElementTree.parse(files[1]).getroot())


def test_without_a_lie_everything_passes(liar: Path) -> None:
    result = run(liar, "", "--op", "iota")
    assert result.process.returncode == 0, result.process.stdout
    assert len(result.those("passed")) == len(result.outcomes) > 20
    assert "conforms: " in result.process.stdout


@pytest.mark.parametrize(
    ("lie", "op", "message"),
    [
        ("wrong result", "fill", "expected 113"),
        ("writes beyond", "fill", "bytes that are not the op's were overwritten"),
        ("changes an input", "copy", "input 0: "),
        ("silent error", "gather", "the stream must report OUT_OF_RANGE, but reports nothing"),
        ("silent error", "errors", "the stream reports nothing"),
        ("undeclared gap", "iota", "undeclared gap: supports accepts the op, but launch refuses it"),
        ("unexpected pass", "iota", "unexpected pass: launch runs what supports refuses because"),
        ("crash", "iota", "the process died of signal 6"),
        ("rounds copies", "copies", "1 bytes at offset 0: 1 of 1049137 bytes are wrong"),
    ],
)
def test_a_lie_is_found(liar: Path, lie: str, op: str, message: str) -> None:
    result = run(liar, lie, "--op", op)
    failed = result.those("failed")
    assert result.process.returncode == 1
    assert any(message in outcome["message"] for outcome in failed), [outcome["message"] for outcome in failed]
    assert len(result.outcomes) > len(failed) or op in ("fill", "errors")
    assert f"{len(failed)} failed" in result.process.stdout
    failures = result.junit.findall("testsuite/testcase/failure")
    assert [failure.get("message") for failure in failures] == [outcome["message"] for outcome in failed]


def test_a_declared_gap_is_none_of_the_failures(liar: Path) -> None:
    result = run(liar, "declared gap", "--op", "iota")
    assert result.process.returncode == 0, result.process.stdout
    gaps = result.those("gap")
    assert gaps and all(outcome["dtype"] == "float16" for outcome in gaps)
    reason = "liar: iota of float16 is not implemented"
    assert all(reason in outcome["message"] for outcome in gaps)
    assert reason in result.process.stdout
    skipped = result.junit.findall("testsuite/testcase/skipped")
    assert len(skipped) == len(gaps) and all(reason in str(case.get("message")) for case in skipped)


def test_a_crash_costs_its_own_cases_only(liar: Path) -> None:
    result = run(liar, "crash", "--op", "iota")
    assert {outcome["name"] for outcome in result.those("failed")} >= {"iota/float16/3x5x7/contiguous"}
    names = run_command([*UNIHAL, "conformance", "--op", "iota", "--list"]).stdout.split()
    assert [outcome["name"] for outcome in result.outcomes] == names


def test_a_case_that_hangs_is_ended(liar: Path) -> None:
    case = "iota/float16/3x5x7/contiguous"
    result = run(liar, "hang", "--case", case, "--timeout", "3")
    assert result.process.returncode == 1
    (failed,) = result.those("failed")
    assert failed["name"] == case and "no end after 3 seconds" in failed["message"]


def test_a_failure_is_run_again_by_its_name(liar: Path) -> None:
    everything = run(liar, "wrong result", "--op", "fill", "--seed", "5")
    first = everything.those("failed")[0]
    assert f"--seed 5 --case '{first['name']}'" in everything.process.stdout
    (again,) = run(liar, "wrong result", "--seed", "5", "--case", first["name"]).outcomes
    assert again["message"] == first["message"]
