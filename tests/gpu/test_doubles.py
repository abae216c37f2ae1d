"""The hip and corex backends as users meet them, on drivers on host memory (tests/doubles/hip_on_host).

Kernels are compiled and launched, and no one computes them: what they compute is tested on a GPU (benchmarks/on_gpu.sh)
and, of the same sources, on OpenCL.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from gpu_compilers import compile_cuda, nvrtc_library
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


#: Of each backend: a library's source, its file, and what is compiled in.
LIBRARIES = {
    "corex": (("lt", "libcublasLt.so.12", ""), ("cudnn", "libcudnn.so.9", "")),
    "hip": (("lt", "libhipblaslt.so.0", "-DON_HOST_HIP"), ("miopen", "libMIOpen.so.1", "")),
}
NAMES = {"corex": ("cuBLASLt 12.4", "cuDNN 9.14"), "hip": ("hipBLASLt 0.10", "MIOpen 3.2")}


@pytest.fixture(scope="module")
def libraries(drivers: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables with which both backends find drivers and libraries, which compute nothing."""
    folder = tmp_path_factory.mktemp("libraries") / "root"
    shutil.copytree(drivers, folder, symlinks=True)
    for rows in LIBRARIES.values():
        for source, file, option in rows:
            text = DOUBLES / "libraries_on_host" / f"{source}.cc"
            command = ["g++", "-std=c++17", "-O0", "-fPIC", "-shared", f"-I{ROOT}", *filter(None, [option])]
            subprocess.run([*command, str(text), "-o", str(folder / "lib" / file)], check=True)
    (folder / "TensileLibrary_lazy_gfx1030.dat").touch()
    tensile = {f"{name}_TENSILE_LIBPATH": str(folder) for name in ("ROCBLAS", "HIPBLASLT")}
    return {**dict.fromkeys(ROOTS.values(), str(folder)), **tensile, "LIBRARIES_ON_HOST_IDLE": "1"}


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


#: Attention and its gradient with heads of both kinds of tiles: those that fit into 48 KiB, and those that do not.
ATTENTION = """
import unihal
from unihal import Buffer, ops
device = unihal.device("iluvatar:0")
for dtype in ("bfloat16", "float16", "float32"):
    for features in (32, 64, 256):
        q, k, v, dy = (Buffer((1, 2, 300, features), dtype, device) for _ in range(4))
        y, total = ops.attention(q, k, v, causal=True)
        ops.attention_backward(q, k, v, None, y, total, dy, causal=True)
device.synchronize()
"""


@pytest.mark.parametrize(
    ("card", "driver", "forms", "architecture"),
    [
        ("NVIDIA H100:9.0:2048", "11080", 18, "sm_80"),
        ("NVIDIA H100:9.0:2048", "12040", 18, "sm_90a"),
        ("NVIDIA V100:7.0:2048", "12040", 0, ""),
    ],
    ids=["matrix cores", "of four warps", "none"],
)
def test_attention_runs_on_matrix_cores_where_there_are_some(
    drivers: Path, tmp_path: Path, card: str, driver: str, forms: int, architecture: str
) -> None:
    settings = {"HIP_ON_HOST_DEVICES": card, "HIP_ON_HOST_PROGRAMS": str(tmp_path), "UNIHAL_CACHE": "off"}
    settings["HIP_ON_HOST_VERSION"] = driver
    process = run_python(ATTENTION, UNIHAL_BACKEND="corex", COREX_ROOT=str(drivers), **settings)
    assert process.returncode == 0, process.stderr
    found = list(tmp_path.glob("attention_matrix.*"))
    assert len(found) == forms
    texts = [program.read_text() for program in found]
    of_four_warps = [text for text in texts if "#define UHAL_MATRIX_FORM 3\n" in text]
    # Of heads of 64: those of 256 need more local memory than the double has.
    assert len(of_four_warps) == (6 if architecture == "sm_90a" else 0)
    for text in texts[::6] + of_four_warps[::3]:
        compile_cuda(text, architecture, nvrtc_library())


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


#: Runs a product, one with a vector and a convolution, and prints what they ran on; `choose NAME` chooses and keeps a
#: candidate for the product before.
IMPLEMENTATIONS = """
import sys, unihal
from unihal import Buffer, _core, op_kinds, ops, tuning
device = unihal.device(sys.argv[1])
make = lambda *shape: Buffer(shape, "float32", device)
if "choose" in sys.argv:
    op = (device._handle, op_kinds.number("matmul"), [make(64, 64), make(64, 64)], [make(64, 64)], {})
    names = [name for name, usable in _core.tuning_describe(*op)[1] if usable]
    _core.tuning_choose(*op, [name for name, _ in _core.tuning_describe(*op)[1]].index(sys.argv[-1]))
    tuning.keep(device)
    print(*names, sep=", ")
with unihal.profile() as recording:
    ops.matmul(make(64, 64), make(64, 64))
    ops.matmul(make(64, 512), make(512, 2)[:, :1])
    _core.launch(unihal.stream.default_stream(device)._handle, op_kinds.number("convolution"),
                 [make(2, 16, 9, 9), make(16, 16, 3, 3)], [make(2, 16, 7, 7)], {})
for event in recording.events:
    if event.op in ("matmul", "convolution"):
        print(event.implementation)
assert recording.events[0].implementation.split(" ")[0] in recording.summary()
"""


@pytest.mark.parametrize("backend", ROOTS)
def test_the_profiler_says_what_ran(backend: str, libraries: dict[str, str], tmp_path: Path) -> None:
    def implementations(*arguments: str, used: str = "all") -> list[str]:
        settings = {"UNIHAL_BACKEND": backend, "UNIHAL_GPU_LIBRARIES": used, "UNIHAL_CACHE_DIR": str(tmp_path)}
        process = run_python(IMPLEMENTATIONS, f"{DEVICE_TYPES[backend]}:0", *arguments, **libraries, **settings)
        assert process.returncode == 0, process.stderr
        return process.stdout.splitlines()

    gemm, convolution = NAMES[backend]
    assert implementations() == [gemm, "gemm_vector", convolution]
    own = implementations(used="none")
    assert re.fullmatch(r"gemm_tile \d+x\d+x\d+/\d+x\d+", own[0]), own
    assert own[1] == "gemm_vector"
    assert re.fullmatch(r"(winograd \+ )?convolution_gemm \d+x\d+x\d+", own[2]), own
    names, product, *_ = implementations("choose", f"{gemm} #2")
    assert names.startswith(f"{gemm}, 128x128x8") and names.endswith(f", {gemm} #2, {gemm} #3"), names
    assert product == gemm
    implementations("choose", "64x64x16/4x4")
    assert implementations()[0] == "gemm_tile 64x64x16/4x4", "as it was kept"
    assert implementations(used="none")[0] == own[0], "a choice belongs to the libraries that were there"


@pytest.mark.parametrize("backend", ROOTS)
def test_the_algorithms_of_libraries_are_tuned(backend: str, libraries: dict[str, str], tmp_path: Path) -> None:
    settings = {"UNIHAL_GPU_LIBRARIES": "all", "UNIHAL_CACHE_DIR": str(tmp_path), **libraries}
    words = ["--shape", "64x64x64", "--shape", "64x1x512", "--convolution", "forward n2 c8 h9 w9 k8 3x3 p1"]
    process = run_unihal(backend, Path(), "tune", "--seconds", "0.001", *words, **settings)
    assert process.returncode == 0, process.stdout + process.stderr
    rows = re.findall(r"│ (.*?) +│.*│ (\w+) +│\n", process.stdout)
    assert [name for name, _ in rows] == ["64 x 64 x 64 nn float32", "64 x 1 x 512 nn float32", rows[2][0]]
    assert all(kept in ("default", "fastest") for _, kept in rows)
    assert "failed" not in process.stdout
