"""What AMD's compiler makes of the kernels keeps to the chip: no spilled register, no private memory, which is off the
chip on gfx803. benchmarks/amd_code.py prints the same numbers; no card is needed."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import amd_code
import programs
from amd_code import Code
from programs import Program

#: Kernels that may keep something in private memory, or spill registers, and why: by a macro of their program, with its
#: value. None of these is among the programs of `unihal cache warm`.
EXCEPTIONS = {
    ("UHAL_WIDE_INDEX", "1"): "operands beyond 2^30 elements: layouts of 64-bit numbers are more than the scalar "
    "registers hold",
    ("UHAL_RANK", "10"): "operands with more than 4 axes that cannot be joined: ten lengths and strides for each are "
    "more than the scalar registers hold",
}


@pytest.fixture(scope="session")
def compiler() -> amd_code.Compiler:
    """clang for AMD's GPUs, which tests/fetch_amd_clang.sh has fetched where the system has none."""
    try:
        return amd_code.find_compiler()
    except amd_code.NoCompilerError as error:
        pytest.skip(str(error))


def one_of_each_kernel(found: Sequence[Program]) -> list[Program]:
    """The first program, by its macros, of each kernel."""
    first: dict[str, Program] = {}
    for program in sorted(found, key=Program.describe):
        for kernel, _ in program.kernels:
            first.setdefault(kernel, program)
    return list(dict.fromkeys(first.values()))


def off_the_chip(codes: Sequence[Code], excepted: Sequence[Program] = ()) -> list[str]:
    """The kernels that spill registers or use private memory, with how much of it."""
    left_out = {program.describe() for program in excepted}
    return [
        f"{code.card} {code.kernel}: {code.spills} spills, {code.private_bytes} bytes; {code.program}"
        for code in codes
        if (code.spills or code.private_bytes) and code.program not in left_out
    ]


def excepted(found: Sequence[Program]) -> list[Program]:
    """The programs that EXCEPTIONS names."""
    return [one for one in found if any(one.macro(name) == value for name, value in EXCEPTIONS)]


def test_a_sample_of_the_kernels_stays_on_the_chip(compiler: amd_code.Compiler) -> None:
    sample = one_of_each_kernel(programs.warm("gfx803"))
    codes = amd_code.compile_all(compiler, sample, "gfx803")
    assert len({code.kernel for code in codes}) >= 30
    assert off_the_chip(codes, excepted(sample)) == []


@pytest.mark.whole
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("card", "dtype"), [("gfx803", "float32"), ("gfx1030", "float32"), ("gfx1100", "float32"), ("gfx803", "float16")]
)
def test_all_kernels_stay_on_the_chip(compiler: amd_code.Compiler, card: str, dtype: str) -> None:
    found = programs.warm(card, [dtype])
    codes = amd_code.compile_all(compiler, found, card)
    assert len(codes) >= 150
    assert excepted(found) == []
    assert off_the_chip(codes) == []


# A kernel of one's own, with what the test is about planted.
PLANTED = """
__attribute__((reqd_work_group_size(256, 1, 1)))
__kernel void planted(__global float* y, __global const float* x, int4 at, int count) {
  __local float tile[4096];
  %s
  tile[get_local_id(0)] = x[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  float sum = 0;
  for (int i = 0; i < count; ++i) {
    #pragma unroll
    for (int k = 0; k < 64; ++k) sum += tile[i + k] * tile[i + k + 256];
  }
  y[get_global_id(0)] = sum %s;
}
"""


def planted(compiler: amd_code.Compiler, card: str, head: str = "", tail: str = "") -> Code:
    """The compiled kernel."""
    program = Program(PLANTED % (head, tail), ("-cl-std=CL1.2",), (("planted", 256),))
    (code,) = amd_code.analyze(compiler.assemble(program, card), program, card)
    return code


def test_private_memory_is_found(compiler: amd_code.Compiler) -> None:
    array = "float kept[32]; for (int i = 0; i < 32; ++i) kept[i] = x[i * count];"
    code = planted(compiler, "gfx803", array, "+ kept[count & 31] + kept[at.x & 31]")
    assert code.private_bytes >= 128
    assert len(off_the_chip([code])) == 1
    assert off_the_chip([planted(compiler, "gfx803")]) == []


def test_spills_are_found(compiler: amd_code.Compiler) -> None:
    # More is alive at the barrier than a work-item of 64 registers has.
    array = "float v[96];\n#pragma unroll\nfor (int i = 0; i < 96; ++i) v[i] = x[i * count + get_global_id(0)];"
    text = PLANTED % (array, "".join(f" + v[{i}] * v[{95 - i}] * sum" for i in range(96)))
    few = text.replace("__kernel", "__attribute__((amdgpu_num_vgpr(40))) __kernel")
    program = Program(few, ("-cl-std=CL1.2",), (("planted", 256),))
    (code,) = amd_code.analyze(compiler.assemble(program, "gfx803"), program, "gfx803")
    assert code.spills > 0
    assert len(off_the_chip([code])) == 1


@pytest.mark.parametrize("card", programs.CARDS)
def test_the_hottest_loop_is_that_of_the_products(compiler: amd_code.Compiler, card: str) -> None:
    code = planted(compiler, card)
    assert (code.hot_depth, code.hot_fmas) == (1, 64)
    assert 0.2 < code.share < 1


def test_waves_follow_from_what_a_kernel_takes(compiler: amd_code.Compiler) -> None:
    code = planted(compiler, "gfx803")
    assert code.local_bytes == 16384
    few = dataclasses.replace(code, vector_registers=20, scalar_registers=30)
    assert few.waves == (4, "local memory")  # 4 groups of 16 KiB in 64 KiB, of 4 waves on 4 SIMDs
    assert dataclasses.replace(few, local_bytes=17408).waves == (3, "local memory")
    assert dataclasses.replace(few, local_bytes=0).waves == (10, "the hardware")
    assert dataclasses.replace(few, local_bytes=0, scalar_registers=98).waves == (7, "scalar registers")
    assert dataclasses.replace(few, local_bytes=0, vector_registers=65).waves == (3, "vector registers")
    # RDNA: 8 waves of 32 on the 4 SIMDs of a pair of units with 128 KiB.
    assert dataclasses.replace(few, card="gfx1030").waves == (16, "the hardware")
    assert dataclasses.replace(few, card="gfx1030", vector_registers=65).waves == (12, "vector registers")
    assert dataclasses.replace(few, card="gfx1100", vector_registers=97).waves == (12, "vector registers")
    assert dataclasses.replace(few, card="gfx1100", local_bytes=65536).waves == (4, "local memory")


def test_macros_of_a_program_are_read() -> None:
    program = Program("#define UHAL_RANK 10\n#define X_STORAGE int\n/* text */\n#define Y 1\n", (), ())
    assert (program.macro("UHAL_RANK"), program.macro("Y"), program.describe()) == ("10", None, "UHAL_RANK=10")
    assert excepted([program]) == [program]
