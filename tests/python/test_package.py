"""What is installed, and that its types hold."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest
import unihal
from processes import run_command

PACKAGE = Path(unihal.__file__).resolve().parent
SITE = PACKAGE.parent
DEVICE_TYPES = ("iluvatar", "rdna", "polaris")


@pytest.mark.parametrize(
    "name",
    [
        "unihal_paddle.pth",
        "unihal/py.typed",
        "unihal_pytest/__init__.py",
        "gpux/__init__.pyi",
        "gpux/serving/page.html",
        "unihal/_core.pyi",
        "unihal/include/unihal/op.h",
        "unihal/lib/libunihal.so",
        "unihal/lib/libunihal_stub.so",
        "unihal/lib/libunihal_paddle.so",
        "unihal/lib/libunihal_tensorflow.so",
        "unihal/lib/libunihal_tensorflow_shim_2.21.so",
        *(f"paddle_custom_device/libunihal_{kind}.so" for kind in DEVICE_TYPES),
        *(f"tensorflow-plugins/libunihal_{kind}.so" for kind in DEVICE_TYPES),
    ],
)
def test_the_wheel_has(name: str) -> None:
    files = importlib.metadata.files("unihal")
    if files is None:
        pytest.skip("unihal is not installed from a wheel")
    assert name in {str(file) for file in files}
    assert (SITE / name).is_file()


def test_nothing_else_is_beside_the_loaders() -> None:
    # The frameworks open every library in these folders: a helper library there would be taken for a plugin.
    for folder in ("paddle_custom_device", "tensorflow-plugins"):
        ours = {path.name for path in (SITE / folder).iterdir() if "unihal" in path.name}
        assert ours == {f"libunihal_{kind}.so" for kind in DEVICE_TYPES}


def test_loaders_are_small() -> None:
    for folder in ("paddle_custom_device", "tensorflow-plugins"):
        for path in (SITE / folder).glob("libunihal_*.so"):
            assert path.stat().st_size < 64 * 1024, path


LIBRARIES = [*(PACKAGE / "lib").glob("*.so"), *SITE.glob("*/libunihal_*.so"), *PACKAGE.glob("_core*.so")]


@pytest.mark.parametrize("path", LIBRARIES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_libraries_export_nothing_of_cxx(path: Path) -> None:
    """What they export of the standard library would take the place of the same in libraries that are opened later."""
    command = ["nm", "--dynamic", "--defined-only", "--format=posix", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    exported = [line.split()[0] for line in result.stdout.splitlines()]
    known = ("uhal_", "PyInit_", "InitPlugin", "SE_InitPlugin", "TF_Init", "CreateEpFactories", "ReleaseEpFactory")
    assert exported
    assert [name for name in exported if not name.startswith(known)] == []


def test_libraries_need_no_framework_and_no_vendor_library() -> None:
    allowed = ("libunihal", "libc.so", "libm.so", "libdl.so", "libpthread.so", "libstdc++", "libgcc_s", "libgomp")
    allowed += ("libmvec", "ld-linux", "libtensorflow_framework.so.2")
    for path in LIBRARIES:
        result = subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True, check=True)
        needed = [line.split("[")[1].rstrip("]") for line in result.stdout.splitlines() if "(NEEDED)" in line]
        # The shim is C++ against one TensorFlow; it is opened only by that version.
        if "shim" in path.name:
            needed = [name for name in needed if not name.startswith("libtensorflow")]
        # PyTorch's is too, all of it; python/unihal_torch opens it after PyTorch.
        if "unihal_torch" in path.name:
            needed = [name for name in needed if name not in ("libtorch_cpu.so", "libc10.so")]
        assert [name for name in needed if not name.startswith(allowed)] == [], path


def test_paths_for_those_who_build_against_the_abi() -> None:
    assert Path(unihal.include_dir(), "unihal", "device.h").is_file()
    assert Path(unihal.library_dir(), "libunihal.so").is_file()


TYPED = """
import unihal
from unihal import Buffer, ops

device: unihal.Device = unihal.device("rdna:0")
free: int = device.properties.total_memory - device.memory_stats().allocated_bytes
with Buffer((2, 3), "float32", device) as x, unihal.Stream(device) as stream:
    y: Buffer = ops.softmax(x, stream=stream)
    z: Buffer = ops.add(x, 1)
    pair: tuple[Buffer, Buffer] = ops.sort(y)
    reveal_type(x.shape)
"""

MISTYPED = """
import unihal
unihal.Buffer((2, 3), "float32")
unihal.device(3)
unihal.ops.matmul([1, 2], [3])
"""


def _mypy(tmp_path: Path, code: str) -> str:
    source = tmp_path / "snippet.py"
    source.write_text(code)
    # No configuration: the project's own would look at the source tree instead of what is installed.
    options = ["--strict", "--config-file", "", "--cache-dir", str(tmp_path / "cache")]
    result = run_command([sys.executable, "-m", "mypy", *options, str(source)])
    return result.stdout


def test_users_code_type_checks(tmp_path: Path) -> None:
    output = _mypy(tmp_path, TYPED)
    assert "error" not in output
    assert 'Revealed type is "tuple[int, ...]"' in output.replace("builtins.", "")


@pytest.mark.whole
def test_mistakes_are_type_errors(tmp_path: Path) -> None:
    output = _mypy(tmp_path, MISTYPED)
    assert "snippet.py:3" in output and "snippet.py:4" in output and "snippet.py:5" in output
