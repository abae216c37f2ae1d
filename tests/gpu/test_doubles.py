"""The hip and corex backends as users meet them, on drivers on host memory (tests/doubles/hip_on_host).

Kernels are compiled and launched, and no one computes them: what they compute is tested on a GPU (benchmarks/on_gpu.sh)
and, of the same sources, on OpenCL.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from processes import Completed, run_command, run_python

ROOT = Path(__file__).parents[2]
DOUBLES = ROOT / "tests" / "doubles"
ROOTS = {"hip": "ROCM_PATH", "corex": "COREX_ROOT"}
DEVICE_TYPES = {"hip": "rdna", "corex": "iluvatar"}


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that both vendors' variables may name."""
    folder = tmp_path_factory.mktemp("drivers")
    subprocess.run([str(DOUBLES / "hip_on_host" / "build.sh"), str(folder)], check=True)
    return folder


def run_unihal(backend: str, drivers: Path, *arguments: str, **variables: str | None) -> Completed:
    """A command of the program `unihal`, where only the vendor's driver is."""
    command = [sys.executable, "-m", "unihal.command_line", *arguments]
    settings = {ROOTS[backend]: str(drivers), "UNIHAL_GPU_LIBRARIES": "none", "COLUMNS": "1000"}
    return run_command(command, **{"UNIHAL_BACKEND": backend, **settings, **variables})


@pytest.mark.parametrize("backend", ROOTS)
def test_a_card_serves_unasked(backend: str, drivers: Path) -> None:
    process = run_unihal(backend, drivers, "devices", UNIHAL_BACKEND=None)
    assert process.returncode == 0, process.stderr
    assert re.search(rf"{DEVICE_TYPES[backend]}:0\W+{backend}\b", process.stdout), process.stdout


@pytest.mark.parametrize("backend", ROOTS)
def test_warming_the_cache_compiles_every_program_once(backend: str, drivers: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    settings = {"UNIHAL_CACHE_DIR": str(tmp_path / "cache"), "HIP_ON_HOST_PROGRAMS": str(texts)}
    process = run_unihal(backend, drivers, "cache", "warm", **settings)
    assert process.returncode == 0, process.stdout + process.stderr
    programs = list(texts.iterdir())
    assert f"{len(programs)} programs compiled, 0 were there already" in process.stdout
    sources = {program.name.partition(".")[0] for program in programs}
    assert sources >= {
        "attention",
        "batch_norm",
        "convolution_gemm",
        "gemm_tile",
        "map",
        "reduce",
        "row_norm",
        "softmax",
    }
    for program in programs:
        assert "threadIdx" in program.read_text()
    process = run_unihal(backend, drivers, "cache", "warm", **settings)
    assert f" 0 programs compiled, {len(programs)} were there already" in process.stdout


def test_a_device_tells_its_driver_its_compiler_and_the_overrides(drivers: Path) -> None:
    code = "import unihal; print(unihal.device('rdna:0').properties.driver)"
    settings = {"HSA_OVERRIDE_GFX_VERSION": "10.3.0", "HIP_ON_HOST_VERSION": "50221153"}
    process = run_python(code, UNIHAL_BACKEND="hip", ROCM_PATH=str(drivers), **settings)
    assert "HIP 5.2, hipRTC 9.0" in process.stdout, process.stderr
    assert f"(in force: HSA_OVERRIDE_GFX_VERSION=10.3.0, ROCM_PATH={drivers})" in process.stdout


def test_a_fault_of_the_driver_is_an_error_with_its_name(drivers: Path) -> None:
    code = """
import numpy, unihal
try:
    unihal.Buffer.from_numpy(numpy.zeros(4, numpy.float32), unihal.device("rdna:0"))
except unihal.Error as error:
    print(error.native_code, error.native_name)
"""
    settings = {"UNIHAL_BACKEND": "hip", "ROCM_PATH": str(drivers), "HIP_ON_HOST_FAULTS": "hipMalloc=2@0x-1"}
    process = run_python(code, **settings)
    assert process.returncode == 0, process.stderr
    assert process.stdout == "2 hipErrorOutOfMemory\n"
