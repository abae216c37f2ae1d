"""What unihal declares of the vendors' libraries, for it builds without their headers, against those headers.

headers/*.cc says what has to agree, and the compiler whether it does. HIP 5.2's headers come from Debian, without root
(tests/fetch_hip_headers.sh), CUDA's with requirements.txt. HIP 7's are in PyPI's triton, which is large: they are
looked at where it is installed, or where UNIHAL_TESTS_HIP_HEADERS names a folder with hip/hip_runtime_api.h.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def in_package(package: str, folder: str) -> Path | None:
    """A folder of an installed Python package."""
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return None
    places = [] if spec is None else list(spec.submodule_search_locations or [])
    return Path(places[0]) / folder if places else None


def hip_5() -> Path:
    """HIP 5.2's headers."""
    subprocess.run(["bash", str(ROOT / "tests" / "fetch_hip_headers.sh")], check=True)
    return ROOT / ".venv" / "hip" / "usr" / "include"


def hip_7() -> Path:
    """HIP 7's headers, if they are there."""
    named = os.environ.get("UNIHAL_TESTS_HIP_HEADERS")
    folder = Path(named) if named else in_package("triton", "backends/amd/include")
    if folder is None or not folder.is_dir():
        pytest.skip("HIP 7's headers are in PyPI's triton (290 MB), which is not installed")
    return folder


def cuda() -> Path:
    """CUDA's headers."""
    folder = in_package("nvidia.cuda_runtime", "include")
    assert folder is not None, "requirements.txt installs nvidia-cuda-runtime-cu12"
    return folder


CHECKS: list[tuple[str, Callable[[], Path]]] = [("hip.cc", hip_5), ("hip.cc", hip_7), ("cuda.cc", cuda)]


def complaints(check: str, headers: Path, root: Path = ROOT) -> str:
    """What the compiler says of a file of headers/, with sources of `root` before ours."""
    command = ["g++", "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
    includes = [f"-I{root}", f"-I{ROOT}", f"-I{ROOT / 'include'}", "-isystem", str(headers)]
    file = str(Path(__file__).with_name("headers") / check)
    return subprocess.run([*command, *includes, file], capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize(("check", "headers"), CHECKS, ids=lambda value: getattr(value, "__name__", value))
def test_our_declarations_agree_with_the_vendors(check: str, headers: Callable[[], Path]) -> None:
    assert complaints(check, headers()) == ""


@pytest.mark.parametrize(
    ("check", "headers", "file", "right", "wrong", "complaint"),
    [
        ("hip.cc", hip_5, "hip.cc", "{63, 87, ", "{63, 86, ", "hipDeviceAttributeWarpSize"),
        ("hip.cc", hip_5, "hip.cc", "kOldArchitectureName = 396", "kOldArchitectureName = 392", "gcnArchName"),
        ("cuda.cc", cuda, "corex.cc", "{16, 10, 1, ", "{16, 10, 2, ", "MAX_THREADS_PER_BLOCK"),
        (
            "hip.cc",
            hip_5,
            "functions.def",
            "(size_t* bytes, int device)",
            "(int* bytes, int device)",
            "hipDeviceTotalMem",
        ),
        ("cuda.cc", cuda, "functions.def", "(size_t* bytes, int device)", "(size_t* bytes)", "cuDeviceTotalMem_v2"),
        ("hip.cc", hip_5, "status.cc", "{701, UHAL", "{702, UHAL", "hipErrorLaunchOutOfResources"),
    ],
)
def test_a_wrong_declaration_is_found(
    check: str, headers: Callable[[], Path], file: str, right: str, wrong: str, complaint: str, tmp_path: Path
) -> None:
    folder = tmp_path / "csrc" / "backends" / "gpu"
    shutil.copytree(ROOT / "csrc" / "backends" / "gpu", folder)
    text = (folder / file).read_text()
    assert text.count(right) == 1
    (folder / file).write_text(text.replace(right, wrong))
    assert complaint in complaints(check, headers(), tmp_path)
