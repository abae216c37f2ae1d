"""The environment variables: one table (csrc/tables/environment.def), and docs and sources that agree with it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from processes import run_command, run_python

ROOT = Path(__file__).parents[2]
ROWS = {
    name: (file, default)
    for name, file, default in re.findall(
        r'^UNIHAL_VARIABLE\((\w+), "([^"]*)", "([^"]*)", "[^"]+"\)$',
        (ROOT / "csrc/tables/environment.def").read_text(),
        re.MULTILINE,
    )
}
DOCS = (ROOT / "docs/environment.md").read_text()
#: What reads the environment: getenv, helpers around it, and Python's ways.
READS = re.compile(
    r"(?:getenv|value_of|variable|flag|is|parse_switch|asks_for|environ|environ\.get)[(\[](?:&?\w+, )?"
    r"[\"'](UNIHAL_\w+)[\"']"
)
#: Set by tests and build scripts for themselves.
OTHERS = {"UNIHAL_SITE"}


def test_there_is_a_table() -> None:
    assert len(ROWS) >= 29 and list(ROWS) == list(dict.fromkeys(ROWS))


def test_the_docs_have_the_same_rows() -> None:
    documented = re.findall(r"`(UNIHAL_\w+)`", "".join(re.findall(r"^\|([^|]*)\|", DOCS, re.MULTILINE)))
    assert sorted(documented) == sorted(ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_it_is_read_where_the_table_says_and_the_docs_name_its_default(name: str) -> None:
    file, default = ROWS[name]
    assert f'"{name}"' in (ROOT / file).read_text()
    row = next(line for line in DOCS.splitlines() if line.startswith("|") and f"`{name}`" in line.split("|")[1])
    assert not default or re.search(rf"default:? (`|.*){re.escape(default)}", row), row


def test_every_variable_that_is_read_is_in_the_table() -> None:
    read = set()
    for folder in ("csrc", "stub", "plugins", "python"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in (".cc", ".h", ".py", ".c"):
                read |= set(READS.findall(file.read_text()))
    assert len(read) >= 20
    assert read - OTHERS <= set(ROWS)


LIST = "import unihal; print([str(device) for device in unihal.devices('rdna')])"


def test_empty_values_count_as_none() -> None:
    """All of them at once, then the stub itself."""
    empty = dict.fromkeys(ROWS, "")
    for kept in ({"UNIHAL_BACKEND": "stub"}, {"UNIHAL_BACKEND": "stub", "UNIHAL_STUB": "strict"}):
        process = run_python(LIST, **{**empty, **kept})
        assert (process.returncode, process.stderr) == (0, ""), process.stderr
        assert "rdna:0" in process.stdout
    without = run_python(LIST, **{**dict.fromkeys(ROWS, None), "UNIHAL_CACHE": "off"})
    assert run_python(LIST, **{**empty, "UNIHAL_CACHE": "off"}).stdout == without.stdout
    cache = run_command([sys.executable, "-m", "unihal.command_line", "cache", "info"], **empty)
    assert cache.returncode == 0, cache.stderr


def test_unknown_variables_are_named_once_with_the_nearest() -> None:
    code = f"{LIST}\n{LIST}\nunihal.devices('polaris')"
    process = run_python(
        code,
        UNIHAL_BACKEND="stub",
        UNIHAL_STRIKT="1",
        UNIHAL_CHEK_RACES="1",
        UNIHAL_WEATHER_REPORT_OF_TOMORROW="1",
        UNIHAL_TESTS_SOMETHING="1",
        UNIHAL_EMPTY="",
    )
    assert process.returncode == 0
    (line,) = process.stderr.splitlines()
    assert "UNIHAL_STRIKT is set, but there is no such variable: UNIHAL_STRICT is the nearest" in line
    assert "UNIHAL_CHEK_RACES is set, but there is no such variable: UNIHAL_CHECK_RACES is the nearest" in line
    assert re.search(r"UNIHAL_WEATHER_REPORT_OF_TOMORROW is set, but there is no such variable[.;]", line)
    assert "UNIHAL_TESTS" not in line and "UNIHAL_EMPTY" not in line


def test_nothing_is_said_before_devices_are_looked_for() -> None:
    assert run_python("import unihal", UNIHAL_STRIKT="1").stderr == ""


@pytest.mark.parametrize("name", ["/nowhere/libdnnl.so", "/dev/null"])
def test_a_onednn_library_that_is_none_is_an_error(name: str) -> None:
    process = run_python(
        "import unihal; unihal.Buffer((2,), 'float32', 'rdna:0')", UNIHAL_BACKEND="stub", UNIHAL_ONEDNN_LIBRARY=name
    )
    assert process.returncode == 1
    assert f"UNIHAL_ONEDNN_LIBRARY names no oneDNN: {name}" in process.stderr, process.stderr
    fine = run_python(LIST, UNIHAL_BACKEND="stub", UNIHAL_ONEDNN_LIBRARY="none")
    assert (fine.returncode, fine.stderr) == (0, "")


LEAK = """
import unihal, sys
from unihal.conformance.abi import Memory
memory = Memory(unihal.device('rdna:0'), int(sys.argv[1]))
if sys.argv[2] == 'free':
    memory.free()
sys.stdout.write('written')
sys.exit(int(sys.argv[3]))
"""


@pytest.mark.parametrize(
    ("size", "what", "own", "variables", "expected"),
    [
        ("4096", "keep", "0", {"UNIHAL_CHECK_EXIT_CODE": "3"}, 3),
        ("4096", "free", "0", {"UNIHAL_CHECK_EXIT_CODE": "3"}, 0),
        ("4096", "keep", "0", {}, 0),
        ("4096", "keep", "7", {"UNIHAL_CHECK_EXIT_CODE": "3"}, 7),
        ("4096", "keep", "0", {"UNIHAL_CHECK_EXIT_CODE": "3", "UNIHAL_CHECK_LEAK_BYTES": "4K"}, 0),
        ("4097", "keep", "0", {"UNIHAL_CHECK_EXIT_CODE": "3", "UNIHAL_CHECK_LEAK_BYTES": "4K"}, 3),
    ],
)
def test_leaks_are_an_exit_code(size: str, what: str, own: str, variables: dict[str, str], expected: int) -> None:
    process = run_python(LEAK, size, what, own, UNIHAL_BACKEND="stub", UNIHAL_CHECK_MEMORY="1", **variables)
    assert (process.returncode, process.stdout) == (expected, "written"), process.stderr


RACE = """
import unihal
from unihal.conformance.abi import Bench
with Bench(unihal.device('rdna:0')) as bench:
    memory, one, other = bench.memory(4096), bench.stream(), bench.stream()
    one.fill(memory.address, b'1', 4096)
    other.fill(memory.address, b'2', 4096)
"""


def test_races_are_an_exit_code() -> None:
    process = run_python(RACE, UNIHAL_BACKEND="stub", UNIHAL_CHECK_RACES="1", UNIHAL_CHECK_EXIT_CODE="4")
    assert process.returncode == 4, process.stderr
    assert "the exit code is 4 (UNIHAL_CHECK_EXIT_CODE): 1 races" in process.stderr


@pytest.mark.parametrize("value", ["0", "256", "yes", "-1"])
def test_an_exit_code_that_is_none_is_refused(value: str) -> None:
    process = run_python("import unihal; unihal.device('rdna:0')", UNIHAL_CHECK_EXIT_CODE=value, UNIHAL_BACKEND="stub")
    assert process.returncode == 1
    assert f"UNIHAL_CHECK_EXIT_CODE is '{value}', but must be a number from 1 to 255" in process.stderr
