"""The code in docs/ compiles without warnings, runs, and prints what the pages say."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest
import unihal

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
C_FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{unihal.include_dir()}"]


def example(name: str) -> str:
    """The text of the fenced block that is marked ``name=<name>`` in one of the pages."""
    pattern = re.compile(rf"^```\w+ name={re.escape(name)}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    found = [match for page in sorted(DOCS.glob("*.md")) for match in pattern.findall(page.read_text())]
    assert len(found) == 1, f"{len(found)} blocks are named {name}"
    return str(found[0])


def environment(**variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("UNIHAL_")}
    return kept | variables


@pytest.fixture
def tiny_backend(tmp_path: pathlib.Path) -> pathlib.Path:
    source = tmp_path / "libunihal_tiny.c"
    source.write_text(example("libunihal_tiny.c"))
    library = source.with_suffix(".so")
    subprocess.run(["gcc", *C_FLAGS, "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return library


def test_the_c_program_runs(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "saxpy.c"
    source.write_text(example("saxpy.c"))
    library = unihal.library_dir()
    program = str(tmp_path / "saxpy")
    subprocess.run(
        ["gcc", *C_FLAGS, str(source), f"-L{library}", "-lunihal", f"-Wl,-rpath,{library}", "-o", program], check=True
    )
    result = subprocess.run([program], env=environment(UNIHAL_BACKEND="stub"), capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, "12 24 36 48\n"), result.stderr


def test_the_c_program_says_what_is_missing_without_a_device(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "saxpy.c"
    source.write_text(example("saxpy.c"))
    library = unihal.library_dir()
    program = str(tmp_path / "saxpy")
    subprocess.run(
        ["gcc", *C_FLAGS, str(source), f"-L{library}", "-lunihal", f"-Wl,-rpath,{library}", "-o", program], check=True
    )
    result = subprocess.run([program], env=environment(), capture_output=True, text=True)
    assert result.returncode == 1
    assert "UNIHAL_BACKEND=stub" in result.stderr


def test_the_backend_example_serves_a_device(tiny_backend: pathlib.Path) -> None:
    script = """
import numpy, unihal
device = unihal.device("rdna:0")
assert device.properties.backend == "tiny", device.properties
buffer = unihal.Buffer.from_numpy(numpy.zeros((3, 5), numpy.float32), device=device)
unihal.ops.fill(buffer, 2.5)
assert (buffer.numpy() == 2.5).all()
try:
    unihal.ops.add(buffer, buffer)
except unihal.UnimplementedError as error:
    print(error)
"""
    result = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(UNIHAL_BACKEND_PATH=str(tiny_backend.parent), UNIHAL_BACKEND="tiny"),
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert "only fill is implemented" in result.stdout


def test_python_examples_run(tmp_path: pathlib.Path) -> None:
    for name in ("buffers.py", "streams.py", "profile.py"):
        source = tmp_path / name
        source.write_text(example(name))
        result = subprocess.run(
            [sys.executable, str(source)],
            cwd=tmp_path,
            env=environment(UNIHAL_BACKEND="stub"),
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, f"{name}: {result.stderr}"
        expected = [line.removeprefix("# ") for line in source.read_text().splitlines() if line.startswith("# prints ")]
        for line in expected:
            assert line.removeprefix("prints ") in result.stdout, f"{name}: {result.stdout}"
