"""Which adapters an installation builds (python/packaging/unihal_build.py), and the suites of the Makefile."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import tomllib

ROOT = Path(__file__).resolve().parents[2]


def load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The backend as if nothing were installed or named."""
    monkeypatch.delenv("CMAKE_ARGS", raising=False)
    module = load("python/packaging/unihal_build.py")
    monkeypatch.setattr(module, "site_folders", list)
    monkeypatch.setattr(module, "ancestors", lambda: iter([]))
    return module


def needs_tensorflow(build: ModuleType) -> bool:
    return any(requirement.startswith("tensorflow") for requirement in build.get_requires_for_build_wheel())


def test_without_a_framework_no_adapter_is_built_and_none_downloaded(build: ModuleType) -> None:
    assert build.wanted_adapters() == set()
    assert not needs_tensorflow(build)


@pytest.mark.parametrize(
    ("arguments", "adapters"),
    [
        (["pip", "install", ".[paddle]"], {"paddle"}),
        (["pip", "install", "-v", ".[paddle, tensorflow]"], {"paddle", "tensorflow"}),
        (["uv", "pip", "install", "unihal[demo,tensorflow] @ file:///clone"], {"tensorflow"}),
        (["pip", "install", ".[demo]"], set()),
        (["pip", "install", "/home/paddle/[x"], set()),
    ],
)
def test_an_extra_names_an_adapter(
    build: ModuleType, arguments: list[str], adapters: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "ancestors", lambda: iter([["sh", "-c", "x"], arguments]))
    assert build.wanted_adapters() == adapters
    assert needs_tensorflow(build) == ("tensorflow" in adapters)


def test_what_is_installed_is_built_for_and_not_downloaded(build: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "site_folders", load("python/packaging/unihal_build.py").site_folders)
    assert build.wanted_adapters() == {"paddle", "tensorflow", "torch", "onnxruntime"}
    assert build.installed_version("tensorflow") == importlib.metadata.version("tensorflow-cpu")
    assert not needs_tensorflow(build)


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_a_framework_is_what_its_extra_allows(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, framework: str
) -> None:
    monkeypatch.setattr(build, "ancestors", lambda: iter([["pip", "install", f".[{framework}]"]]))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert [r for r in build.get_requires_for_build_wheel() if r.startswith(framework)] == extras[framework]


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_an_unknown_version_gets_no_adapter(
    build: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    framework: str,
) -> None:
    (tmp_path / f"{framework}-2.99.1.dist-info").mkdir()
    (tmp_path / f"{framework}-2.99.1.dist-info" / "METADATA").write_text(f"Name: {framework}\nVersion: 2.99.1\n")
    monkeypatch.setattr(build, "site_folders", lambda: [str(tmp_path)])
    assert build.wanted_adapters() == set()
    assert f"{framework} 2.99.1" in capsys.readouterr().err
    monkeypatch.setenv("CMAKE_ARGS", f"-DUNIHAL_BUILD_{framework.upper()}=ON")
    assert build.wanted_adapters() == {framework}
    # As the extra does, the build takes another.
    assert any(r.startswith(f"{framework}") for r in build.get_requires_for_build_wheel())


def find(framework: str, *folders: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / f"plugins/{framework}/find_{framework}.py"), *map(str, folders)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def install(folder: Path, framework: str, version: str) -> Path:
    """As much of an installation in a folder as tells the version."""
    (folder / framework).mkdir(parents=True, exist_ok=True)
    if not version:
        return folder
    if framework == "torch":
        (folder / "torch" / "version.py").write_text(f"__version__ = '{version}'\ndebug = False\n")
    else:
        metadata = folder / f"tensorflow_cpu-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir(exist_ok=True)
        metadata.write_text(f"Name: tensorflow_cpu\nVersion: {version}\n")
    return folder


def test_several_pytorches_are_told_by_their_own_versions(tmp_path: Path) -> None:
    first, second = (install(tmp_path / minor, "torch", f"{minor}.0a0+git1") for minor in ("2.11", "2.13"))
    assert find("torch", first, second).stdout.strip() == f"{first}/torch;2.11;{second}/torch;2.13"


def test_of_several_tensorflows_the_newest_comes_first(tmp_path: Path) -> None:
    folders = [install(tmp_path / minor, "tensorflow", f"{minor}.1") for minor in ("2.18", "2.21", "2.19")]
    found = find("tensorflow", *folders).stdout.strip()
    assert found == ";".join(f"{tmp_path}/{minor}/tensorflow;{minor}" for minor in ("2.21", "2.19", "2.18"))


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
@pytest.mark.parametrize(
    ("versions", "message"),
    [(["2.99.0"], "2.99.0 in "), (["{}.0", "{}.1"], "name one of them"), ([""], "")],
)
def test_what_no_adapter_is_for_is_refused(tmp_path: Path, framework: str, versions: list[str], message: str) -> None:
    known = "2.12" if framework == "torch" else "2.19"
    folders = [
        install(tmp_path / str(number), framework, version.format(known)) for number, version in enumerate(versions)
    ]
    refused = find(framework, *folders)
    assert refused.returncode != 0 and message in refused.stderr and "unihal: " in refused.stderr


def test_cmake_args_have_the_last_word(build: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "ancestors", lambda: iter([["pip", "install", ".[paddle]"]]))
    monkeypatch.setenv("CMAKE_ARGS", "-DUNIHAL_BUILD_PADDLE=OFF -DUNIHAL_BUILD_TENSORFLOW:BOOL=on")
    assert build.wanted_adapters() == {"tensorflow"}


@pytest.mark.whole
def test_what_an_earlier_isolated_build_found_is_looked_for_again(tmp_path: Path) -> None:
    """pip's folder for one build is gone by the next, and the build folder remembers it."""
    for name in ("first", "second"):
        header, library = tmp_path / name / "include/oneapi/dnnl/dnnl.h", tmp_path / name / "lib/libdnnl.so.3"
        for file in (header, library):
            file.parent.mkdir(parents=True)
            file.touch()
        (tmp_path / name / "lib/cmake/dnnl").mkdir(parents=True)
    (tmp_path / "CMakeLists.txt").write_text(
        f'cmake_minimum_required(VERSION 3.25)\nproject(found NONE)\ninclude("{ROOT}/stub/onednn/onednn.cmake")\n'
    )
    cmake = Path(sys.executable).with_name("cmake")
    for name in ("first", "second"):
        options = [f"-Ddnnl_DIR={tmp_path / name}/lib/cmake/dnnl", "-DUNIHAL_STUB_ONEDNN=OFF", f"-S{tmp_path}"]
        subprocess.run([cmake, *options, f"-B{tmp_path}/build"], check=True, capture_output=True)
        cache = (tmp_path / "build/CMakeCache.txt").read_text()
        assert f"UNIHAL_ONEDNN_INCLUDE_DIR:PATH={tmp_path / name}/include" in cache
        assert f"UNIHAL_ONEDNN_LIBRARY:FILEPATH={tmp_path / name}/lib/libdnnl.so.3" in cache
        shutil.rmtree(tmp_path / name)


def test_the_command_lines_of_ancestors_are_seen() -> None:
    program = (
        "import sys; sys.path.insert(0, 'python/packaging'); import unihal_build; print(unihal_build.wanted_adapters())"
    )
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {program!r}], check=True)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("CMAKE_ARGS", None)
    process = subprocess.run(
        [sys.executable, "-c", outer, ".[paddle]"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "paddle" in process.stdout


def test_each_suite_is_a_target_of_the_makefile_and_in_one_group() -> None:
    suites = load("tests/suites.py")
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    names = [suite.target for suite in suites.SUITES]
    assert len(names) == len(set(names)) and set(names) <= set(targets)
    of_groups = {"test-all", "test-rest", "test-long"}
    assert {target for target in targets if target.startswith("test-")} <= {*names, *of_groups}
    assert all(suite.group in suites.GROUPS for suite in suites.SUITES)


def test_a_suite_that_hangs_is_ended_and_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    suites = load("tests/suites.py")
    # It prints its stack late, as on a busy machine.
    code = """import faulthandler, os, signal, time
def print_stack(*_):
    time.sleep(1)
    faulthandler.dump_traceback()
    os._exit(1)
signal.signal(signal.SIGABRT, print_stack)
time.sleep(1000)
"""
    work = "import time; end = time.time() + 3\nwhile time.time() < end: pass"
    (tmp_path / "waits.py").write_text(code)
    (tmp_path / "works.py").write_text(work)
    (tmp_path / "Makefile").write_text(
        "".join(f"{name}:\n\t{sys.executable} {name}.py\n" for name in ("waits", "works"))
    )
    monkeypatch.chdir(tmp_path)
    suites.LOGS.mkdir(parents=True)
    assert not suites.run(suites.Suite("works", "rest"), idle_seconds=1).failed
    # Python has started within, on a busy machine too.
    assert suites.run(suites.Suite("waits", "rest"), idle_seconds=4).failed
    printed = capfd.readouterr().out
    assert re.search(r"waits\.py\n  python\S*:\w+", printed)
    assert 'waits.py", line 7 in <module>' in printed


def test_slow_tests_are_read_from_both_runners() -> None:
    suites = load("tests/suites.py")
    text = (
        "12.34s call     tests/paddle/test_kernels.py::test_x[a-b]\n"
        " 3/889 Test   #3: core_test.DeviceTest.Opens ..........   Passed    0.12 sec\n"
        "0.50s teardown tests/y.py::test_z\n"
    )
    assert suites.slow_tests(text) == [
        (12.34, "tests/paddle/test_kernels.py::test_x[a-b]"),
        (0.12, "core_test.DeviceTest.Opens"),
    ]
