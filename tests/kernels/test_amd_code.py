"""What AMD's compiler makes of the kernels keeps to the chip: no spilled register, no private memory, which is off the
chip on gfx803; and it is fit for its work: products leave room for enough waves and are nearly all multiplications, and
what waits for memory loads and stores 16 bytes at a time. benchmarks/amd_code.py prints the same numbers; no card is
needed."""

from __future__ import annotations

import dataclasses
import re
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
#: value. Only the last is among the programs of `unihal cache warm`.
EXCEPTIONS = {
    ("UHAL_WIDE_INDEX", "1"): "operands beyond 2^30 elements: layouts of 64-bit numbers are more than the scalar "
    "registers hold",
    ("UHAL_RANK", "10"): "operands with more than 4 axes that cannot be joined: ten lengths and strides for each are "
    "more than the scalar registers hold",
    (
        "STEP0",
        "r0 = x * sqrt(1 - map_power(p1, y)) / (1 - map_power(p0, y))",
    ): "Adam's rate, of tensors of one element: in float16 eight at a time are 16 powers",
}


#: Kernels whose hottest loop is a product of matrices.
PRODUCTS = ("gemm_tile", "convolution_gemm", "attention_forward", "attention_gradient")

#: Of the instructions of such a loop, at least so many are FMAs or matrix instructions.
LEAST_SHARE = 0.8

#: The waves of a SIMD of gfx803 that one of them leaves room for, whose place others take while it waits for memory.
LEAST_WAVES = 4

#: Kernels that wait for memory: by the macro, with its value, of those programs whose operands are aligned.
WIDE = {
    "flat": ("UHAL_UNIT", "4"),
    "draw": ("DENSE", "1"),
    "dropout": ("DENSE", "1"),
    "strided": ("UHAL_SIZE", "16"),
    "gather": ("ELEMENT", "T4"),
    "reduce": ("PARTIAL", "0"),
    "column_sums": ("UNIT", "4"),
    "softmax": ("UNIT", "4"),
    "softmax_backward": ("UNIT", "4"),
    "cross_entropy": ("UNIT", "4"),
    "row_norm": ("UNIT", "4"),
    "row_norm_gradient": ("UNIT", "4"),
    "batch_moments": ("UNIT", "4"),
    "batch_normalize": ("UNIT", "4"),
    "batch_gradient": ("UNIT", "4"),
}

#: Those of them that store no more than sums, and that load nothing.
STORES_SUMS = ("reduce", "column_sums", "batch_moments")
LOADS_NOTHING = ("draw",)

FLOAT32 = "12"


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


def unfit_products(codes: Sequence[Code]) -> list[str]:
    """The products with too few waves on gfx803, or too few multiplications in their hottest loop, with how many."""
    return [
        f"{code.card} {code.kernel}: {code.waves[0]} waves, {code.share:.1%} FMAs; {code.program}"
        for code in codes
        if code.kernel in PRODUCTS
        and (code.share < LEAST_SHARE or (code.card == "gfx803" and code.waves[0] < LEAST_WAVES))
    ]


def is_wide(program: Program) -> bool:
    """Whether a program is of a kernel of WIDE for aligned operands, all float32, of which not all are one element."""
    dtypes = re.findall(r"^#define \w+_DTYPE (\d+)$", program.macros, re.MULTILINE)
    if any(dtype != FLOAT32 for dtype in dtypes) or program.macro("UHAL_MODES") == "0":
        return False
    return any(
        program.macro(name) == value for name, value in (WIDE.get(kernel, ("", "")) for kernel, _ in program.kernels)
    )


def narrow(codes: Sequence[Code], found: Sequence[Program]) -> list[str]:
    """The kernels of WIDE that load or store fewer bytes at a time than they could, with how many."""
    wide = {program.describe() for program in found if is_wide(program)}
    return [
        f"{code.card} {code.kernel}: loads {code.widest_load}, stores {code.widest_store} bytes; {code.program}"
        for code in codes
        if code.kernel in WIDE
        and code.program in wide
        and (
            (code.widest_load < 16 and code.kernel not in LOADS_NOTHING)
            or (code.widest_store < 16 and code.kernel not in STORES_SUMS)
        )
    ]


def excepted(found: Sequence[Program]) -> list[Program]:
    """The programs that EXCEPTIONS names."""
    return [one for one in found if any(one.macro(name) == value for name, value in EXCEPTIONS)]


def test_a_sample_of_the_kernels_stays_on_the_chip(compiler: amd_code.Compiler) -> None:
    found = programs.warm("gfx803")
    sample = one_of_each_kernel(found)
    sample += [one for one in one_of_each_kernel([one for one in found if is_wide(one)]) if one not in sample]
    codes = amd_code.compile_all(compiler, sample, "gfx803")
    assert len({code.kernel for code in codes}) >= 30
    assert off_the_chip(codes, excepted(sample)) == []
    assert {code.kernel for code in codes} >= {*PRODUCTS, *WIDE}
    assert unfit_products(codes) == []
    assert {kernel for one in sample if is_wide(one) for kernel, _ in one.kernels} >= set(WIDE)
    assert narrow(codes, sample) == []


@pytest.mark.parametrize("card", ["gfx1030", "gfx1100"])
def test_a_product_of_each_kind_multiplies(compiler: amd_code.Compiler, card: str) -> None:
    sample = one_of_each_kernel(
        [one for one in programs.warm(card) if any(name in PRODUCTS for name, _ in one.kernels)]
    )
    codes = amd_code.compile_all(compiler, sample, card)
    assert {code.kernel for code in codes} >= set(PRODUCTS)
    assert unfit_products(codes) == []


@pytest.mark.whole
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("card", "dtype"), [("gfx803", "float32"), ("gfx1030", "float32"), ("gfx1100", "float32"), ("gfx803", "float16")]
)
def test_all_kernels_stay_on_the_chip(compiler: amd_code.Compiler, card: str, dtype: str) -> None:
    found = programs.warm(card, [dtype])
    codes = amd_code.compile_all(compiler, found, card)
    assert len(codes) >= 150
    assert {one.macro("STEP0") is None for one in excepted(found)} <= {False}
    assert off_the_chip(codes, excepted(found)) == []
    assert unfit_products(codes) == []
    assert narrow(codes, found) == []


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
    (code,) = amd_code.analyze(compiler.assemble(program, card), program, card, compiler)
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
    (code,) = amd_code.analyze(compiler.assemble(program, "gfx803"), program, "gfx803", compiler)
    assert code.spills > 0
    assert len(off_the_chip([code])) == 1


@pytest.mark.parametrize("card", programs.CARDS)
def test_the_hottest_loop_is_that_of_the_products(compiler: amd_code.Compiler, card: str) -> None:
    code = planted(compiler, card)
    assert (code.hot_depth, code.hot_fmas) == (1, 64)
    assert 0.2 < code.share < 1
    # One wave multiplies 64 times in 64 cycles at best.
    assert code.hot_cycles is None or 64 <= code.hot_cycles < 1000


def test_products_that_wait_are_found(compiler: amd_code.Compiler) -> None:
    fit = dataclasses.replace(planted(compiler, "gfx803"), kernel="gemm_tile", vector_registers=64, hot_instructions=80)
    assert unfit_products([fit]) == []
    assert len(unfit_products([dataclasses.replace(fit, vector_registers=65)])) == 1
    assert len(unfit_products([dataclasses.replace(fit, local_bytes=16385)])) == 1
    assert len(unfit_products([dataclasses.replace(fit, hot_instructions=81)])) == 1
    assert unfit_products([dataclasses.replace(fit, card="gfx1030", vector_registers=200)]) == []


@pytest.mark.parametrize("card", programs.CARDS)
@pytest.mark.parametrize(("unit", "width"), [("uchar", 1), ("short", 2), ("float", 4), ("float2", 8), ("float4", 16)])
def test_the_widest_access_is_found(compiler: amd_code.Compiler, card: str, unit: str, width: int) -> None:
    text = f"""
__kernel void flat(__global {unit}* y, __global const {unit}* x, __global uchar* small) {{
  y[get_global_id(0)] = x[get_global_id(0)];
  small[get_global_id(0)] = small[get_global_id(0) + 1];
}}
"""
    program = Program("#define UHAL_UNIT 4\n#define X0_DTYPE 12\n" + text, ("-cl-std=CL1.2",), (("flat", 256),))
    (code,) = amd_code.analyze(compiler.assemble(program, card), program, card, compiler)
    assert (code.widest_load, code.widest_store) == (width, width)
    assert len(narrow([code], [program])) == (width < 16)


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
