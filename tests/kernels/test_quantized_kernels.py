"""Few rows times weights of few bits on matrix cores, without any: quantized_rows_matrix.cl on the host, as
test_matrix_kernels.py runs attention. Macros and arguments are those of csrc/kernels/ops/matmul_quantized.cc."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_on_host import HERE, KERNELS, dtype_macros, gpu_prelude, library, macro_text, with_includes
from numpy.typing import NDArray
from unihal.conformance.number_format import round_to

Array = NDArray[Any]

WARPS = 4
CHANNELS = 16
ENTRY = """
static void** arguments;
static char* at(int i) { return (char*)arguments[i]; }
template <class Type> static Type value(int i) { return *(Type*)arguments[i]; }
static void rows() {
  quantized_rows_matrix(at(0), at(1), at(2), at(3), at(4), at(5), value<QUANTIZED_SHAPE>(6), value<float>(7),
                        value<int32>(8), value<int32>(9), value<int32>(10));
}
extern "C" void run(unsigned groups, void** given) {
  arguments = given;
  on_host::launch(groups, WARPS * 32, rows);
}
"""


def program(macros: dict[str, Any]) -> str:
    source = with_includes(KERNELS / "source/quantized_rows_matrix.cl")
    return "\n".join(
        [
            f'#include "{HERE}/matrix_machine.h"', "#undef __shared__", "#define __shared__ static",
            f'#define UHAL_MATRIX_INSTRUCTIONS "{HERE}/mma_instructions.h"', macro_text(macros), gpu_prelude(),
            with_includes(KERNELS / "prelude/common.h"), source, ENTRY,
        ]
    )  # fmt: skip


def to_bits(values: Array, dtype: str) -> Array:
    """Numbers that the dtype has, as it stores them."""
    if dtype == "float16":
        return values.astype(np.float16)
    return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def aligned(array: Array) -> Array:
    memory = np.empty(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    result = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


# Rows, k, n, bits, block (0: a channel), dtype, signed, zero points: one, an array, packed ones.
PROBLEMS = [
    (1, 160, 19, 4, 32, "float16", 0, "one"),
    (3, 1056, 16, 4, 64, "float16", 1, "array"),
    (8, 384, 5, 4, 128, "bfloat16", 0, "packed"),
    (5, 224, 33, 4, 0, "bfloat16", 1, "packed"),
    (2, 96, 17, 4, 256, "float16", 1, "one"),
    (1, 336, 18, 8, 32, "float16", 0, "array"),
    (7, 1040, 16, 8, 0, "float16", 1, "array"),
    (4, 64, 3, 8, 16, "float16", 1, "one"),
]


@pytest.mark.parametrize("infinite", [False, True])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: "x".join(str(each) for each in problem))
def test_few_rows_times_weights_of_few_bits(
    tmp_path: Path, problem: tuple[int, int, int, int, int, str, int, str], infinite: bool
) -> None:
    m, k, n, bits, block, dtype, signed, zeros_form = problem
    generator = np.random.default_rng(k)
    length = block or k
    shift = (length - 1).bit_length()
    blocks = -(-k // (1 << shift))
    lowest = -(1 << (bits - 1)) if signed else 0
    weights = generator.integers(0, 1 << bits, (n, k)) + lowest
    a = round_to(generator.normal(0, 1, (m, k)), dtype)
    if infinite:
        a[0, k // 3] = np.inf
    scales = round_to(generator.uniform(0.01, 0.1, (n, blocks)), "float32")
    zeros = generator.integers(0, 1 << bits, (n, blocks)) + lowest
    zero = 2.5
    bytes_of = (weights % (1 << bits)).astype(np.uint8)
    packed_zeros = (zeros % 16).astype(np.uint8)
    if bits == 4:
        bytes_of = bytes_of[:, ::2] | bytes_of[:, 1::2] << 4
    if zeros_form == "packed":
        packed_zeros = np.pad(packed_zeros, ((0, 0), (0, blocks % 2)))
        packed_zeros = packed_zeros[:, ::2] | packed_zeros[:, 1::2] << 4
    of_zeros = packed_zeros if zeros_form == "packed" else zeros.astype(np.int8 if signed else np.uint8)
    step, chunk = 512 // bits, 128 // bits
    macros = {
        "UHAL_HAS_FLOAT64": 1, "UHAL_COMPUTE_float": 1, "UHAL_WIDE_INDEX": 0, "UHAL_RANK": 4, "UHAL_MATRIX_FORM": 1,
        "BITS": bits, "IS_SIGNED": signed, "ZEROS": ("one", "array", "packed").index(zeros_form), "WARPS": WARPS,
        "BY_SETS": int(1 << shift < step), "SETS": (1 << shift) // chunk if 1 << shift < step else 4,
        "UHAL_ACTIVATION": 0, **dtype_macros("A", dtype), **dtype_macros("S", "float32"),
        **dtype_macros("Z", "int8" if signed else "uint8"), **dtype_macros("C", "float32"),
        **dtype_macros("D", "float32"),
    }  # fmt: skip
    bias = round_to(generator.normal(0, 1, (n,)), "float32").astype(np.float32)
    d = aligned(np.full((m, n), np.nan, np.float32))
    operands = [aligned(each) for each in (to_bits(a, dtype), bytes_of, scales.astype(np.float32), of_zeros, bias)]
    zero_columns = of_zeros.shape[1]
    shape = np.array([n, k, k, 1, 1, bytes_of.shape[1], 1, blocks, 1, zero_columns, 0, 1, n, 1], np.int32)
    numbers = [np.float32(zero), np.int32(shift), np.int32(m), np.int32(1)]
    kept = [*operands, d, shape, *(np.asarray(number) for number in numbers)]
    addresses = (ctypes.c_void_p * len(kept))(*(each.ctypes.data for each in kept))
    library(tmp_path, program(macros)).run(ctypes.c_uint(-(-n // CHANNELS)), addresses)

    of_block = np.arange(k) >> shift
    points = zeros[:, of_block] if zeros_form != "one" else np.full((n, k), zero)
    dense = (weights - points) * scales[:, of_block]
    # Term by term: of an infinite number a weight that is 0 makes NaN, any other an infinity.
    with np.errstate(invalid="ignore"):
        expected = (a.astype(np.float64)[:, None, :] * dense).sum(-1) + bias
    assert np.isinf(expected).any() == infinite
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(d[~finite], expected[~finite])
    a = np.where(np.isfinite(a), a, 0)
    # Products with weights and with zero points are summed apart, a bfloat16's factors with 2^7 more.
    factor = np.abs(weights - lowest) + np.abs(points - lowest) + (256 if dtype == "bfloat16" else 0)
    size = np.abs(a) @ (factor * scales[:, of_block]).T + np.abs(bias)
    assert finite.any() or m == 1
    assert (np.abs(d[finite] - expected[finite]) <= np.sqrt(k) * 2**-23 * size[finite]).all()
