"""The GPU backends' compilers, or stand-ins for them, without a card: PyPI's NVRTC, and Debian's clang for hipRTC. They
are called with the options of csrc/backends/gpu/runtime_compiler.cc."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))

from programs import Program  # noqa: E402

#: Of AMD's device libraries, what each architecture is compiled with: its instruction set (Debian lacks gfx1100's;
#: it decides little there), whether a wavefront has 64 lanes, and whether subnormal numbers are zeros.
ARCHITECTURES = {
    "gfx803": ("803", "on", "on"),
    "gfx1030": ("1030", "off", "off"),
    "gfx1100": ("1036", "off", "off"),
}


class CompilationError(Exception):
    """A compiler's log."""


def gpu_text(source: str, macros: str = "#define UHAL_HAS_FLOAT64 1\n#define UHAL_COMPUTE_float 1\n") -> str:
    """A program for HIP and CUDA: program_text() of csrc/kernels/program_text.cc."""
    prelude = ROOT / "csrc" / "kernels" / "prelude"
    numbers = (ROOT / "csrc/tables/complex_functions.h").read_text() if "UHAL_COMPUTE_complex" in macros else ""
    return macros + (prelude / "gpu.h").read_text() + numbers + (prelude / "common.h").read_text() + source


def text_of(program: Program) -> str:
    """A program that was recorded as OpenCL C, for HIP and CUDA."""
    return gpu_text(program.source, program.macros)


def functions_text(compute: str) -> str:
    """A program with a kernel for each elementwise function of a compute type ("float")."""
    source = r"""
#if UHAL_IS_FLOATING
#define FOR_FLOATING(...) __VA_ARGS__
/* Of integers only. */
#define map_bitwise_not(x) (x)
#define map_population_count(x) (x)
#define map_bitwise_and(x, y) (x)
#define map_bitwise_or(x, y) (x)
#define map_bitwise_xor(x, y) (x)
#define map_shift_left(x, y) (x)
#define map_shift_right(x, y) (x)
#define map_gcd(x, y) (x)
#define map_lcm(x, y) (x)
#else
#define FOR_FLOATING(...)
#endif
#define INTEGER(...) __VA_ARGS__
#define FLOATING(...) FOR_FLOATING(__VA_ARGS__)
#define FUNCTION(name, ...)                                                                         \
  UHAL_KERNEL void function_##name(UHAL_POINTER(operands)) {                                        \
    UHAL_GLOBAL T* v = UHAL_ADDRESS(T, operands) + 24 * UHAL_GLOBAL_ID(0);                          \
    const T x0 = v[0], x1 = v[1], x2 = v[2], x3 = v[3], x4 = v[4], x5 = v[5], x6 = v[6], x7 = v[7]; \
    const T x = x0, y = x1, z = x2;                                                                 \
    const R p0 = UHAL_REAL(v[8]), p1 = UHAL_REAL(v[9]), p2 = UHAL_REAL(v[10]);                      \
    const R p3 = UHAL_REAL(v[11]), p4 = UHAL_REAL(v[12]);                                           \
    T r0 = C(0), r1 = C(0), r2 = C(0), r3 = C(0);                                                   \
    __VA_ARGS__;                                                                                    \
    v[16] = r0, v[17] = r1, v[18] = r2, v[19] = r3;                                                 \
  }
#define UHAL_MAP1(name, domain, flops, expression) domain(FUNCTION(name, r0 = expression))
#define UHAL_MAP2 UHAL_MAP1
#define UHAL_MAP3 UHAL_MAP1
#define UHAL_UPDATE(name, inputs, outputs, flops, ...) FLOATING(FUNCTION(name, __VA_ARGS__))
#define UHAL_COMPLEX1(name, expression) FUNCTION(name, r0 = expression)
#define UHAL_COMPLEX2 UHAL_COMPLEX1
#define UHAL_COMPLEX3 UHAL_COMPLEX1
"""
    functions = (ROOT / "csrc/kernels/prelude/map_functions.h").read_text()
    if compute in ("float", "double"):
        functions += (ROOT / "csrc/tables/special_functions.h").read_text()
    table = (ROOT / "csrc/tables" / ("complex.def" if "complex" in compute else "elementwise.def")).read_text()
    return gpu_text(functions + source + table, f"#define UHAL_HAS_FLOAT64 1\n#define UHAL_COMPUTE_{compute} 1\n")


def forbids_contraction(text: str) -> bool:
    return "\nUHAL_NO_CONTRACTION\n" in text


# -- NVRTC ----------------------------------------------------------------------------------------------------------


def nvrtc_library() -> str:
    """requirements.txt installs it; without it the test is skipped."""
    spec = importlib.util.find_spec("nvidia")
    for folder in [] if spec is None else list(spec.submodule_search_locations or []):
        for file in Path(folder, "cuda_nvrtc", "lib").glob("libnvrtc.so.*"):
            return str(file)
    pytest.skip("there is no NVRTC: pip install nvidia-cuda-nvrtc-cu12, as requirements.txt says")


@cache
def _opened(library: str) -> ctypes.CDLL:
    return ctypes.CDLL(library)


def compile_cuda(text: str, architecture: str, library: str) -> bytes:
    """Machine code for "sm_80", PTX for "compute_80"."""
    nvrtc = _opened(library)
    program = ctypes.c_void_p()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"program.cu", 0, None, None) == 0
    contraction = "false" if forbids_contraction(text) else "true"
    flags = ["--ftz=false", "--prec-div=true", "--prec-sqrt=true", f"--fmad={contraction}"]
    options = [option.encode() for option in [f"--gpu-architecture={architecture}", *flags]]
    code = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    what = "ProgramLog" if code != 0 else "CUBIN" if architecture.startswith("sm_") else "PTX"
    size = ctypes.c_size_t()
    assert getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) == 0
    result = ctypes.create_string_buffer(size.value)
    assert getattr(nvrtc, f"nvrtcGet{what}")(program, result) == 0
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if code != 0:
        raise CompilationError(result.value.decode())
    return result.raw


# -- clang for AMD's GPUs ---------------------------------------------------------------------------------------------


def amd_clang() -> str:
    """Of the system, or of tests/fetch_amd_clang.sh; without it the test is skipped."""
    fetched = subprocess.run(
        ["bash", str(ROOT / "tests/fetch_amd_clang.sh")], capture_output=True, text=True, check=False
    )
    if fetched.returncode != 0:
        pytest.skip(f"there is no clang for AMD's GPUs: {fetched.stderr.splitlines()[-1]}")
    own = ROOT / ".venv/amd-clang/bin/clang"
    return str(own if own.exists() else "/usr/bin/clang-19")


def compile_hip(text: str, architecture: str, clang: str, as_assembly: bool = False) -> bytes:
    """A code object, in which everything is defined, or its assembly."""
    isa, wide, daz = ARCHITECTURES[architecture]
    system = Path(clang).parents[1] if clang.startswith(str(ROOT)) else Path("/")
    bitcode = system / "usr" / "lib" / f"{os.uname().machine}-linux-gnu" / "amdgcn" / "bitcode"
    libraries = [
        "ocml", f"oclc_isa_version_{isa}", f"oclc_wavefrontsize64_{wide}", f"oclc_daz_opt_{daz}",
        "oclc_finite_only_off", "oclc_unsafe_math_off", "oclc_correctly_rounded_sqrt_on", "oclc_abi_version_500",
    ]  # fmt: skip
    command = [
        clang,
        "-x",
        "hip",
        f"--offload-arch={architecture}",
        "-O3",
        "--cuda-device-only",
        "-nogpulib",
        "-nogpuinc",
    ]
    command += ["-ffp-contract=off" if forbids_contraction(text) else "-ffp-contract=on", "-fno-strict-aliasing"]
    command += ["--gpu-max-threads-per-block=256", "--no-gpu-bundle-output", "-S" if as_assembly else "-c"]
    command += ["-Wall", "-Wno-unused", "-Wno-tautological-compare", "-Werror"]
    for library in libraries:
        command += ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(bitcode / f"{library}.bc")]
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "program")
        process = subprocess.run(
            [*command, "-o", str(result), "-"], input=text, capture_output=True, text=True, check=False
        )
        if process.returncode != 0:
            raise CompilationError(process.stderr)
        return result.read_bytes()


# -- many programs ----------------------------------------------------------------------------------------------------

Compile = Callable[[str, str, str], bytes]


def _complaint(compile_program: Compile, program: Program, architecture: str, compiler: str) -> str:
    """Why a program does not serve, or an empty text."""
    try:
        code = compile_program(text_of(program), architecture, compiler)
    except CompilationError as error:
        return f"{program.describe()} does not compile for {architecture}:\n{error}"
    lacking = [kernel for kernel, _ in program.kernels if kernel.encode() not in code]
    return f"{program.describe()} has no kernel {lacking} on {architecture}" if lacking else ""


def complaints(compile_program: Compile, programs: Sequence[Program], architecture: str, compiler: str) -> list[str]:
    """Of programs that do not compile, or lack a kernel that was launched; on all cores."""
    count = len(programs)
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        found = pool.map(
            _complaint, [compile_program] * count, programs, [architecture] * count, [compiler] * count, chunksize=4
        )
        return [complaint for complaint in found if complaint]
