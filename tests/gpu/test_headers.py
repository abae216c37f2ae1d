"""What unihal declares of the vendors' libraries, for it builds without their headers, against those headers.

headers/*.cc says what has to agree, and the compiler whether it does. HIP 5.2's headers come from Debian, without root
(tests/fetch_hip_headers.sh), those of CUDA's driver with requirements.txt. The others are in large packages: they are
looked at where they are installed, or where UNIHAL_TESTS_HEADERS names folders of them, separated by colons.
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


# PyPI's packages with headers, and the folders in them.
PACKAGES = {
    "triton": "backends/amd/include",
    **{
        f"nvidia.{name}": "include"
        for name in ("cublas", "cuda_cccl", "cuda_nvcc", "cuda_nvrtc", "cuda_runtime", "cudnn", "nccl")
    },
}


def installed() -> list[Path]:
    """Folders of headers on this machine, beside HIP 5.2's."""
    named = [Path(folder) for folder in os.environ.get("UNIHAL_TESTS_HEADERS", "").split(":") if folder]
    packages = [in_package(package, folder) for package, folder in PACKAGES.items()]
    return [*named, *(folder for folder in packages if folder is not None), Path("/usr/local/cuda/include")]


def hip_5() -> list[Path]:
    """HIP 5.2's headers."""
    subprocess.run(["bash", str(ROOT / "tests" / "fetch_hip_headers.sh")], check=True)
    return [ROOT / ".venv" / "hip" / "usr" / "include"]


def cuda() -> list[Path]:
    """CUDA's headers."""
    folder = in_package("nvidia.cuda_runtime", "include")
    assert folder is not None, "requirements.txt installs nvidia-cuda-runtime-cu12"
    return [folder]


def large(*headers: str) -> Callable[[], list[Path]]:
    """Folders with all of some headers; without them a test is skipped."""

    def find() -> list[Path]:
        folders = installed()
        missing = [header for header in headers if not any((folder / header).exists() for folder in folders)]
        if missing:
            pytest.skip(f"{', '.join(missing)} is not installed; packages with it have up to 700 MB")
        # Two releases of HIP must not mix.
        return sorted(folders, key=lambda folder: not (folder / headers[0]).exists())

    find.__name__ = headers[0]
    return find


# What cuBLAS and NCCL include of CUDA's runtime, beside their own.
CUDA_RUNTIME = ("cuda_runtime.h", "crt/host_defines.h", "nv/target")

CHECKS: list[tuple[str, Callable[[], list[Path]]]] = [
    ("hip.cc", hip_5),
    ("hip.cc", large("hip/hip_runtime_api.h")),
    ("hiprtc.cc", hip_5),
    ("cuda.cc", cuda),
    ("nvrtc.cc", large("nvrtc.h")),
    ("cublaslt.cc", large("cublasLt.h", *CUDA_RUNTIME)),
    ("cublas.cc", large("cublas_v2.h", *CUDA_RUNTIME)),
    ("cudnn.cc", large("cudnn.h", *CUDA_RUNTIME)),
    ("cudnn_graph.cc", large("cudnn.h", *CUDA_RUNTIME)),
    ("nccl.cc", large("nccl.h", *CUDA_RUNTIME)),
]


def complaints(check: str, headers: list[Path], root: Path = ROOT) -> str:
    """What the compiler says of a file of headers/, with sources of `root` before ours."""
    command = ["g++", "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
    includes = [f"-I{root}", f"-I{ROOT}", f"-I{ROOT / 'include'}", *(f"-isystem{folder}" for folder in headers)]
    file = str(Path(__file__).with_name("headers") / check)
    return subprocess.run([*command, *includes, file], capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize(("check", "headers"), CHECKS, ids=lambda value: getattr(value, "__name__", value))
def test_our_declarations_agree_with_the_vendors(check: str, headers: Callable[[], list[Path]]) -> None:
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
    check: str, headers: Callable[[], list[Path]], file: str, right: str, wrong: str, complaint: str, tmp_path: Path
) -> None:
    folder = tmp_path / "csrc" / "backends" / "gpu"
    shutil.copytree(ROOT / "csrc" / "backends" / "gpu", folder)
    text = (folder / file).read_text()
    assert text.count(right) == 1
    (folder / file).write_text(text.replace(right, wrong))
    assert complaint in complaints(check, headers(), tmp_path)
