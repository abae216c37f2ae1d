"""The code in docs/ compiles without warnings, runs, and prints what the pages say."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest
import unihal

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
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
buffer = unihal.Buffer.from_numpy(numpy.zeros((3, 5), numpy.float32), device)
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
    for name in ("buffers.py", "streams.py", "profile.py", "races.py"):
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


def test_the_line_of_a_new_function_compiles_and_computes(tmp_path: pathlib.Path) -> None:
    kernels = tmp_path / "csrc" / "kernels"
    kernels.mkdir(parents=True)
    for name in ("elementwise.def", "elementwise.h"):
        (kernels / name).write_text((ROOT / "csrc" / "kernels" / name).read_text())
    with (kernels / "elementwise.def").open("a") as table:
        table.write(example("cube.def"))
    main = tmp_path / "main.cc"
    main.write_text("""
#include "stub/vector/map.cc"
int main() {
  const float x[2] = {3, -2};
  float y[2];
  const float parameters[8] = {};
  const void* inputs[1] = {x};
  void* outputs[1] = {y};
  unihal::stub::example::kMapLoops[uhal_map_cube][0](2, inputs, outputs, parameters);
  return y[0] == 27 && y[1] == -8 ? 0 : 1;
}
""")
    program = tmp_path / "cube"
    includes = [f"-I{tmp_path}", f"-I{ROOT}", f"-I{ROOT / 'include'}"]
    define = "-DUHAL_INSTRUCTION_SET=example"
    subprocess.run(["g++", "-std=c++17", "-w", *includes, define, str(main), "-o", str(program)], check=True)
    assert subprocess.run([str(program)]).returncode == 0


def test_the_kernel_of_a_new_kind_compiles(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "trace.cc"
    source.write_text(example("trace.cc"))
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}", f"-I{ROOT / 'include'}", "-fsyntax-only"]
    subprocess.run(["g++", *flags, str(source)], check=True)


def test_the_kernel_in_the_dialect_compiles(tmp_path: pathlib.Path) -> None:
    host = tmp_path / "kernel_trace.cc"
    host.write_text(example("kernel_trace.cc"))
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}", f"-I{ROOT / 'include'}", "-fsyntax-only"]
    subprocess.run(["g++", *flags, str(host)], check=True)
    # The dialect's words as plain C: what is left of them are the types and functions of OpenCL.
    device = tmp_path / "trace.c"
    prelude = (ROOT / "csrc" / "kernels" / "prelude" / "common.h").read_text()
    assert all(word in prelude for word in ("X_LOAD", "X_STORAGE", "X_STORE"))
    device.write_text(
        "#define UHAL_KERNEL\n#define UHAL_GLOBAL\n#define UHAL_POINTER(name) char* name\n"
        "#define UHAL_ADDRESS(type, name) ((type*)name)\n#define UHAL_GLOBAL_ID(axis) 0\n"
        "#define X_STORAGE float\n#define X_LOAD(p, i) (p)[i]\n#define X_STORE(p, i, v) ((p)[i] = (v))\n"
        "typedef int INDEX;\ntypedef float T;\n" + example("trace.cl")
    )
    subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", str(device)], check=True)
