"""The code in docs/ compiles without warnings, runs, and prints what the pages say."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

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
assert (buffer.numpy() == 2.5).all() and not unihal.fallbacks()
assert (unihal.ops.add(buffer, buffer).numpy() == 5).all()
print(unihal.fallbacks())
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
    for name in ("buffers.py", "streams.py", "profile.py", "races.py", "paddle-iluvatar.py"):
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


@pytest.mark.parametrize(
    "selections",
    [[["--op", "memory"], ["--op", "fill"]], pytest.param([["--every", "400"]], marks=pytest.mark.whole)],
    ids=["what it declares", "a sample of all"],
)
def test_the_backend_example_conforms(tiny_backend: pathlib.Path, selections: list[list[str]]) -> None:
    for selection in selections:
        result = subprocess.run(
            [sys.executable, "-m", "unihal.command_line", "conformance", "--backend", str(tiny_backend), *selection],
            env=environment(),
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stdout


# Where docs/adding-an-op.md's pieces go: behind the first line that contains a text; None: a file of their own.
PIECES = {
    "cube.def": ("csrc/tables/elementwise.def", "UHAL_MAP1(replace_negative_zero,"),
    "cube.py": ("python/unihal/conformance/map_functions.py", '_rounded("square",'),
    "trace/include/unihal/op.h": ("include/unihal/op.h", "UHAL_OP_RESIZE_BACKWARD = 129"),
    "trace/csrc/tables/op_kinds.def": ("csrc/tables/op_kinds.def", "UHAL_OP_KIND(129, RESIZE_BACKWARD"),
    "trace/csrc/core/op/shapes.cc": ("csrc/core/op/shapes.cc", "namespace unihal::core {"),
    "trace/stub/ops/trace.cc": ("stub/ops/trace.cc", None),
    "trace/python/unihal/conformance/traces.py": ("python/unihal/conformance/traces.py", None),
    "trace/python/unihal/conformance/suite.py": ("python/unihal/conformance/suite.py", "_FAMILIES = {"),
}

# What makes tables of op_kinds.def; others take declarations of it, which may go without the new kind's.
MADE_OF_KINDS = {"csrc/core/op/table.cc", "csrc/backends/common/op_names.cc", "stub/ops/launch.cc"}

BUILD = ROOT / "build" / "cmake"
NINJA = str(pathlib.Path(sys.executable).with_name("ninja"))


class Rebuild:
    """The libraries with the pieces: what those touch is compiled anew, the rest is linked from the last build."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.changed: set[str] = set()
        self.headers: dict[str, str] = {}
        self.lock = threading.Lock()
        for tree in ("csrc", "include", "stub", "python/unihal/conformance"):
            shutil.copytree(ROOT / tree, folder / tree, ignore=shutil.ignore_patterns("__pycache__"))
        for block, (file, anchor) in PIECES.items():
            self._place(example(block), file, anchor)

    def _place(self, text: str, file: str, anchor: str | None) -> None:
        target = self.folder / file
        if anchor is not None:
            before, found, after = target.read_text().partition(anchor)
            assert found, f"{file} has no line with {anchor}"
            rest, _, following = after.partition("\n")
            text = f"{before}{found}{rest}\n{text}{following}"
        target.write_text(text)
        self.changed.add(file)

    def _dependent(self) -> set[str]:
        """The objects of the libraries that the new function touches: all that see the table's file."""
        listed = subprocess.run([NINJA, "-C", str(BUILD), "-t", "deps"], check=True, capture_output=True, text=True)
        entries = re.split(r"\n\n+", listed.stdout)
        return {entry.split(":")[0] for entry in entries if "/csrc/tables/elementwise.def" in entry}

    def _commands(self, library: str) -> list[str]:
        listed = subprocess.run(
            [NINJA, "-C", str(BUILD), "-t", "commands", "-s", library], check=True, capture_output=True, text=True
        )
        return listed.stdout.splitlines()

    def build(self) -> None:
        """Compiles and links; the libraries lie in the folder then."""
        dependent = self._dependent()
        compiled = dict[str, str]()
        jobs = []
        for entry in json.loads(
            subprocess.run([NINJA, "-C", str(BUILD), "-t", "compdb"], check=True, capture_output=True, text=True).stdout
        ):
            output, file = entry["output"], pathlib.Path(entry["file"])
            if not re.match(r"(csrc/core|stub)/CMakeFiles/unihal(_stub|_stub_baseline)?\.dir/", output):
                continue
            sources = self._sources(file)
            if output in dependent or sources & (self.changed | MADE_OF_KINDS):
                jobs.append((entry["command"], output, self._moved(file)))
                if sources == {"stub/ops/launch.cc"}:
                    trace = self.folder / "stub" / "ops" / "trace.cc"
                    jobs.append((entry["command"].replace(output, "trace.o"), "trace.o", trace))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for output, made in pool.map(lambda job: self._compile(*job), jobs):
                compiled[output] = made
        for name in ("libunihal.so", "libunihal_stub.so"):
            self._link(f"site/unihal/lib/{name}", name, compiled)

    def _sources(self, file: pathlib.Path) -> set[str]:
        """What is given to the compiler with a file: itself, or the sources that CMake includes in it."""
        if not file.is_relative_to(BUILD):
            return {os.path.relpath(file, ROOT)}
        return {
            os.path.relpath(name, ROOT) for name in re.findall(r'^#include "([^"]+)"', file.read_text(), re.MULTILINE)
        }

    def _moved(self, file: pathlib.Path) -> pathlib.Path:
        """A file in the folder; of one that includes sources, one that includes the folder's."""
        if not file.is_relative_to(BUILD):
            return self.folder / os.path.relpath(file, ROOT)
        moved = self.folder / "_".join(file.relative_to(BUILD).parts)
        moved.write_text(file.read_text().replace(f'"{ROOT}/', f'"{self.folder}/'))
        return moved

    def _compile(self, command: str, output: str, source: pathlib.Path) -> tuple[str, str]:
        made = str(self.folder / (output.replace("/", "_") + "bject.o"))
        # One instruction set is enough: the others' loops are left out.
        left_out = ("-O3", "-Werror", "-MD", "-DUHAL_STUB_AVX2", "-DUHAL_STUB_AVX512")
        words = [word for word in shlex.split(command) if word not in left_out]
        del words[words.index("-MT") : words.index("-MT") + 4]
        words[words.index("-o") + 1] = made
        words[words.index("-c") + 1] = str(source)
        moved = {f"-I{tree}": f"-I{self.folder / tree.relative_to(ROOT)}" for tree in (ROOT, ROOT / "include")}
        words = [moved.get(word, word) for word in words]
        if "-include" in words:
            words[words.index("-include") + 1] = self._headers(words)
        subprocess.run([*words, "-O0"], cwd=BUILD, check=True)
        return output, made

    def _headers(self, words: list[str]) -> str:
        """The target's precompiled header, without optimization as its files are here."""
        original = words[words.index("-include") + 1]
        with self.lock:
            if original not in self.headers:
                header = self.folder / f"headers{len(self.headers)}.h"
                shutil.copy(original, header)
                left_out = {words.index(option) + part for option in ("-include", "-o", "-c") for part in (0, 1)}
                flags = [word for place, word in enumerate(words) if place not in left_out]
                command = [*flags, "-O0", "-w", "-x", "c++-header", str(header), "-o", f"{header}.gch"]
                subprocess.run(command, cwd=BUILD, check=True)
                self.headers[original] = str(header)
        return self.headers[original]

    def _link(self, library: str, name: str, compiled: dict[str, str]) -> None:
        words = shlex.split(self._commands(library)[-1])
        words = words[words.index("&&") + 1 :]
        words = words[: words.index("&&")]
        words[words.index("-o") + 1] = str(self.folder / name)
        words = [compiled.get(word, word) for word in words if "/unihal_stub_avx" not in word]
        if name == "libunihal_stub.so":
            words.append(compiled["trace.o"])
        subprocess.run(words, cwd=BUILD, check=True)


@pytest.mark.long
def test_a_new_function_and_a_new_kind_build_and_run(tmp_path: pathlib.Path) -> None:
    rebuild = Rebuild(tmp_path / "sources")
    rebuild.build()
    package = tmp_path / "site" / "unihal"
    shutil.copytree(pathlib.Path(unihal.__file__).parent, package)
    for library in ("libunihal.so", "libunihal_stub.so"):
        shutil.copy(rebuild.folder / library, package / "lib" / library)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        variables = environment(PYTHONPATH=str(package.parent), UNIHAL_BACKEND="stub")
        return subprocess.run([sys.executable, *arguments], env=variables, capture_output=True, text=True)

    conformance = ["-m", "unihal.command_line", "conformance", "--backend", "stub"]
    # Before the suite knows them, it says so, and all others are tried.
    unknown = run(*conformance, "--every", "1000")
    assert unknown.returncode == 1, unknown.stderr
    assert "map/cube/reference" in unknown.stdout and "map_functions.py" in unknown.stdout
    assert "trace/no_case" in unknown.stdout and "2 failed" in unknown.stdout, unknown.stdout
    for file in rebuild.changed:
        if file.startswith("python/unihal/"):
            shutil.copy(rebuild.folder / file, package / file.removeprefix("python/unihal/"))
    for op in ("map/cube", "trace"):
        known = run(*conformance, "--op", op)
        assert known.returncode == 0, known.stdout + known.stderr
    script = """
import numpy, unihal
x = unihal.Buffer.from_numpy(numpy.arange(9, dtype="float32").reshape(3, 3), "rdna")
y = unihal.Buffer((1,), "float32", "rdna")
unihal.ops.launch.launch("trace", [x], [y])
print(y.item(), unihal.ops.cube(x).numpy()[1, 0])
try:
    unihal.ops.launch.launch("trace", [x[:2]], [y])
except unihal.InvalidArgumentError as error:
    print(error)
"""
    result = run("-c", script)
    assert "12.0 27.0" in result.stdout and "a square matrix" in result.stdout, result.stdout + result.stderr


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
