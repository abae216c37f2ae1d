"""The kernels as HIP and CUDA: every program of `unihal cache warm`, and of a sample of conformance, compiles for the
architectures that the project is for, and means there what it means in OpenCL.

Programs are recorded by benchmarks/programs.py, and compiled by NVRTC and by Debian's clang (gpu_compilers.py). What
they compute is for conformance on a GPU to say.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
sys.path.append(str(Path(__file__).parents[1] / "kernels"))

import programs
from gpu_compilers import (
    ARCHITECTURES,
    amd_clang,
    compile_cuda,
    compile_hip,
    complaints,
    functions_text,
    gpu_text,
    nvrtc_library,
)
from kernel_on_host import KERNELS, dtype_macros, macro_text, with_includes
from programs import Program

CUDA = ("sm_70", "sm_80", "sm_90")

#: Of conformance, every so many-th case of each op and function, as tests/opencl takes them.
SAMPLE = 400


def without_functions(program: Program) -> tuple[str, str]:
    """What tells a program from others but the elementwise functions that it computes."""
    return program.source, re.sub(r"^#define STEP\d .*\n", "", program.macros, flags=re.MULTILINE)


@pytest.fixture(scope="session")
def warm() -> list[Program]:
    """What training in float32 needs, with one elementwise function for each way to walk over memory."""
    found = list({without_functions(program): program for program in programs.warm()}.values())
    assert len(found) > 80
    return found


@pytest.fixture(scope="session")
def sample(warm: list[Program]) -> list[Program]:
    """One program of each kernel."""
    return list({program.source: program for program in warm}.values())


@pytest.fixture(scope="session")
def all_programs(tmp_path_factory: pytest.TempPathFactory) -> list[Program]:
    """In all dtypes, and with the layouts and sizes of conformance."""
    folder: Path = tmp_path_factory.mktemp("programs")
    for dtype in programs.DTYPES:
        programs.record(["unihal", "cache", "warm", "--jobs", "1", "--dtype", dtype], folder)
    # The device computes nothing, so that no case passes; what matters is that each is launched.
    conformance = f"unihal conformance --backend opencl --every {SAMPLE} --jobs 2 || test $? = 1"
    programs.record(["bash", "-c", conformance], folder)
    found = programs.read(folder)
    assert len(found) > 600
    return found


@pytest.mark.timeout(900)
def test_a_program_of_each_kernel_compiles_as_cuda(sample: list[Program]) -> None:
    assert complaints(compile_cuda, sample, "sm_80", nvrtc_library()) == []


@pytest.mark.timeout(900)
def test_a_program_of_each_kernel_compiles_as_hip(sample: list[Program]) -> None:
    assert complaints(compile_hip, sample, "gfx1030", amd_clang()) == []


@pytest.mark.parametrize(
    "compute",
    ["float", "int64", "complex_float"]
    + [pytest.param(c, marks=pytest.mark.whole) for c in ("double", "uint64", "complex_double")],
)
def test_every_elementwise_function_compiles(compute: str) -> None:
    text = functions_text(compute)
    # Everything has an identity, what has an order a maximum, and only floating numbers are optimized.
    expected = (True, not compute.startswith("complex"), compute in ("float", "double"))
    for code in (compile_cuda(text, "sm_80", nvrtc_library()), compile_hip(text, "gfx1030", amd_clang())):
        assert tuple(b"function_" + name in code for name in (b"identity", b"maximum", b"adam")) == expected


@pytest.mark.whole
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("architecture", CUDA)
def test_all_programs_compile_as_cuda(all_programs: list[Program], architecture: str) -> None:
    assert complaints(compile_cuda, all_programs, architecture, nvrtc_library()) == []


@pytest.mark.whole
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_programs_compile_as_hip(all_programs: list[Program], architecture: str) -> None:
    assert complaints(compile_hip, all_programs, architecture, amd_clang()) == []


# -- what programs mean -----------------------------------------------------------------------------------------------

KERNEL = """
UHAL_KERNEL void f(UHAL_POINTER(x), UHAL_POINTER(y)) {
  UHAL_GLOBAL const T* from = UHAL_ADDRESS(const T, x);
  UHAL_GLOBAL T* to = UHAL_ADDRESS(T, y);
  const INDEX i = UHAL_GLOBAL_ID(0);
  to[i] = EXPRESSION;
}
"""


# The entries joined of map.cl and copy.cl, which no OpenCL program has: a step of Momentum, and a concatenation.
JOINED: dict[str, dict[str, Any]] = {
    "map.cl": {
        "UHAL_HAS_FLOAT64": 1, "UHAL_COMPUTE_float": 1, "UHAL_JOINED": 1, "UHAL_MEMBERS": 32, "UHAL_UNIT": 4,
        "UHAL_WIDE_INDEX": 0, "UHAL_RANK": 4, "UHAL_MODES": 1 | 1 << 2 | 1 << 4, "UHAL_INPUTS": 4, "UHAL_OUTPUTS": 2,
        "UHAL_VALUES": 10, "UHAL_RESULTS": 4 | 5 << 8, "UHAL_STEPS": 1, "STEP0": "r1 = p0 * z + y; r0 = x - x3 * r1",
        "STEP0_OPERANDS": 1 << 8 | 2 << 16 | 3 << 24, "STEP0_RESULT": 4,
    },
    "copy.cl": {
        "UHAL_COMPUTE_float": 1, "UHAL_JOINED": 1, "UHAL_MEMBERS": 32, "UHAL_SIZE": 16, "UHAL_WIDE_INDEX": 0,
        "UHAL_RANK": 4,
    },
}  # fmt: skip


def joined_text(file: str) -> str:
    macros = {**JOINED[file]}
    for name in ("X0", "X1", "X2", "X3", "Y0", "Y1"):
        macros |= dtype_macros(name, "float32")
    return gpu_text(with_includes(KERNELS / "source" / file), macro_text(macros))


@pytest.mark.parametrize("file", JOINED)
def test_joined_launches_compile_as_cuda(file: str) -> None:
    for architecture in CUDA:
        assert b"joined" in compile_cuda(joined_text(file), architecture, nvrtc_library())


@pytest.mark.parametrize("file", JOINED)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_joined_launches_stay_on_the_chip(architecture: str, file: str) -> None:
    assembly = compile_hip(joined_text(file), architecture, amd_clang(), as_assembly=True).decode()
    assert re.findall(r"\.private_segment_fixed_size: (\d+)", assembly) == ["0"]
    if architecture != "gfx803":  # which has no others
        assert "global_store_" in assembly and "flat_store_" not in assembly


def ptx_of(expression: str, before: str = "") -> str:
    text = gpu_text(before + KERNEL.replace("EXPRESSION", expression))
    return compile_cuda(text, "compute_80", nvrtc_library()).decode()


def assembly_of(expression: str, before: str = "", architecture: str = "gfx1030") -> str:
    text = gpu_text(before + KERNEL.replace("EXPRESSION", expression))
    return compile_hip(text, architecture, amd_clang(), as_assembly=True).decode()


def test_products_and_sums_are_fused_unless_a_source_forbids_it() -> None:
    expression, forbidding = "from[i] * from[i + 1] + from[i + 2]", "\nUHAL_NO_CONTRACTION\n"
    assert "fma.rn.f32" in ptx_of(expression)
    assert "fma" not in ptx_of(expression, forbidding)
    fused = re.compile(r"\bv_fma\w*_f32")
    for architecture in ARCHITECTURES:
        assert not fused.search(assembly_of(expression, forbidding, architecture))
        # Polaris' v_mac_f32 rounds the product, as the two instructions do that it stands for.
        assert fused.search(assembly_of(expression, architecture=architecture)) or architecture == "gfx803"


def test_division_and_square_roots_are_rounded_correctly() -> None:
    ptx = ptx_of("sqrt(from[i] / from[i + 1])")
    assert "div.rn.f32" in ptx and "sqrt.rn.f32" in ptx and "approx" not in ptx and "ftz" not in ptx
    for architecture in ARCHITECTURES:
        assert "v_div_fixup_f32" in assembly_of("from[i] / from[i + 1]", architecture=architecture)
        # The instruction alone is off by one.
        assert re.search(r"\bv_(fma|mac|mad)\w*_f32", assembly_of("sqrt(from[i])", architecture=architecture))


def test_an_exponential_is_not_the_fast_one() -> None:
    """One instruction would be e2 of a rounded product; the function corrects the product's rounding."""
    assert ptx_of("exp(from[i])").count("fma.rn.f32") >= 2
    assert len(re.findall(r"\bv_(?:fma|mac|mad)\w*_f32", assembly_of("exp(from[i])"))) >= 2


def test_a_barrier_does_not_wait_for_loads_from_the_devices_memory() -> None:
    kernel = """
UHAL_KERNEL UHAL_GROUP_SIZE(64, 1, 1) void f(UHAL_POINTER(x), UHAL_POINTER(y)) {
  UHAL_LOCAL_MEMORY T tile[64];
  const INDEX i = UHAL_LOCAL_ID(0);
  tile[i] = UHAL_ADDRESS(const T, x)[i];
  const T next = UHAL_ADDRESS(const T, x)[i + 64];
  UHAL_BARRIER();
  UHAL_ADDRESS(T, y)[i] = tile[63 - i] + next;
}
"""
    text = compile_hip(gpu_text(kernel), "gfx1030", amd_clang(), as_assembly=True).decode()
    before, _, _ = text.partition("s_barrier")
    assert "s_barrier" in text and "ds_write_b32" in before
    assert "vmcnt(0)" not in before and "buffer_gl0_inv" not in text


def test_groups_of_a_stated_size_are_compiled_for_it() -> None:
    """Of 1024, which leaves fewer registers to each work-item, and of the usual 256."""
    kernel = "\nUHAL_KERNEL UHAL_GROUP_SIZE(32, 16, 2) void f(UHAL_POINTER(x)) { UHAL_ADDRESS(T, x)[0] = 0; }\n"
    assert re.search(r"\.maxntid\s+1024\b", compile_cuda(gpu_text(kernel), "compute_80", nvrtc_library()).decode())
    stated = compile_hip(gpu_text(kernel), "gfx1030", amd_clang(), as_assembly=True).decode()
    assert ".max_flat_workgroup_size: 1024" in stated
    assert ".max_flat_workgroup_size: 256" in assembly_of("from[i]")
