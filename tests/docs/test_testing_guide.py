"""The examples of docs/testing.md: the tests run, and the workflow calls what exists."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from processes import Completed, run_command

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples" / "testing"
GUIDE = (ROOT / "docs" / "testing.md").read_text()


def run_pytest(folder: Path, *arguments: str) -> Completed:
    return run_command(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-rA",
            "--rootdir",
            str(folder),
            str(folder),
            *arguments,
        ],
        timeout=240,
        UNIHAL_BACKEND=None,
    )


def copied(name: str, folder: Path) -> Path:
    return Path(shutil.copy(EXAMPLES / name, folder))


@pytest.mark.parametrize(
    ("name", "passed"), [("test_paddle_step.py", 3), pytest.param("test_keras_fit.py", 1, marks=pytest.mark.whole)]
)
def test_the_examples_pass(name: str, passed: int, tmp_path: Path) -> None:
    copied("pytest.ini", tmp_path)
    copied(name, tmp_path)
    (tmp_path / "conftest.py").write_text(block("conftest.py"))
    result = run_pytest(tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{passed} passed" in result.stdout
    assert "unihal: the stub (strict) stands in for hardware, profile rx580-4gb" in result.stdout


@pytest.mark.whole
def test_the_example_fails_when_a_step_keeps_memory(tmp_path: Path) -> None:
    copied("pytest.ini", tmp_path)
    source = copied("test_paddle_step.py", tmp_path)
    text = source.read_text()
    broken = text.replace(
        "        return float(loss)\n",
        "        self.losses = [*getattr(self, 'losses', []), loss]\n        return float(loss)\n",
    )
    assert broken != text
    source.write_text(broken)
    result = run_pytest(tmp_path, "-k", "keeps_no_memory")
    assert result.returncode == 1, result.stdout + result.stderr
    assert "Device memory grew by" in result.stdout and "test_paddle_step.py:" in result.stdout


def block(name: str) -> str:
    found = re.search(rf"^```\w+ name={re.escape(name)}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    assert found is not None, name
    return found[1]


def test_the_guide_shows_the_examples_as_they_are() -> None:
    example = (EXAMPLES / "test_paddle_step.py").read_text()
    shown = re.search(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    assert shown is not None
    for part in shown[1].strip().split("\n\n\n"):
        assert part in example, part
    assert (EXAMPLES / "pytest.ini").read_text() in GUIDE


@pytest.fixture(scope="module")
def job() -> Any:
    workflow = yaml.safe_load((EXAMPLES / "workflow.yml").read_text())
    # YAML 1.1, which PyYAML reads, takes the key `on` for true.
    assert workflow["name"] and set(workflow[True]) == {"push", "pull_request"}
    (found,) = workflow["jobs"].values()
    return found


def commands(job: Any) -> list[list[str]]:
    """The words of each command, for the first values of the matrix."""
    lines = [line for step in job["steps"] if "run" in step for line in step["run"].strip().splitlines()]
    filled = [re.sub(r"\$\{\{ matrix\.(\w+) \}\}", lambda m: str(job["strategy"]["matrix"][m[1]][0]), s) for s in lines]
    assert not [line for line in filled if "${{" in line]
    return [shlex.split(line) for line in filled]


def test_each_step_of_the_workflow_acts(job: Any) -> None:
    assert job["runs-on"] and isinstance(job["timeout-minutes"], int)
    for step in job["steps"]:
        assert ("uses" in step) != ("run" in step), step
        if "uses" in step:
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]), step
    hashed = next(step["with"]["key"] for step in job["steps"] if "key" in step.get("with", {}))
    for pattern in re.findall(r"'unihal/([^']+)'", hashed):
        assert list(ROOT.glob(pattern)), pattern


def test_the_commands_of_the_workflow_exist(job: Any) -> None:
    words = commands(job)
    assert [command[0] for command in words] == ["pip", "pip", "pip", "unihal", "pytest"]
    for program in {command[0] for command in words}:
        assert (Path(sys.executable).parent / program).exists(), program

    help_text = run_command([str(Path(sys.executable).parent / "unihal"), "--help"]).stdout
    assert words[3] == ["unihal", "doctor"] and "doctor" in help_text

    options = [word for word in words[4] if word.startswith("-")]
    assert options == ["--unihal-stub=strict", "--unihal-seed=1"]
    result = run_command(
        [sys.executable, "-m", "pytest", *options, "--collect-only", "-q", str(EXAMPLES / "pytest.ini")]
    )
    assert "unrecognized arguments" not in result.stderr and "invalid" not in result.stderr, result.stderr


def test_the_extras_of_the_workflow_exist(job: Any) -> None:
    project = (ROOT / "pyproject.toml").read_text()
    for extra in job["strategy"]["matrix"]["framework"]:
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE), extra
