"""Launches that were joined to one: the entries joined of map.cl and copy.cl on the host, with arguments as
csrc/kernels/map_chain.cc and csrc/kernels/ops/copy.cc make them."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_on_host import HERE, KERNELS, dtype_macros, gpu_prelude, library, macro_text, with_includes
from numpy.typing import NDArray
from unihal.conformance.number_format import round_to

MEMBERS, GROUP = 8, 256
SIZES = (1, 3, 4, 255, 1024, 1025, 2051)
FUNCTION = "r0 = x * y + p0"

ENTRY = """
static void** arguments;
static void work() {
  joined(ARGUMENTS);
}
extern "C" void run(unsigned groups, void** given) {
  arguments = given;
  on_host::launch(groups, 256, work);
}
"""
COMMON = {"UHAL_HAS_FLOAT64": 1, "UHAL_COMPUTE_float": 1, "UHAL_WIDE_INDEX": 0, "UHAL_RANK": 1, "UHAL_JOINED": 1}


def program(file: str, macros: dict[str, Any], arguments: str) -> str:
    return "\n".join(
        [
            f'#include "{HERE}/matrix_machine.h"', macro_text({**COMMON, **macros}), gpu_prelude(),
            with_includes(KERNELS / "prelude/common.h"), with_includes(KERNELS / "source" / file),
            ENTRY.replace("ARGUMENTS", arguments),
        ]
    )  # fmt: skip


def map_program(unit: int, dtype: str, scalar: bool) -> str:
    macros: dict[str, Any] = { "UHAL_MEMBERS": MEMBERS, "UHAL_UNIT": unit, "UHAL_MODES": 1 if scalar else 5,
        "UHAL_INPUTS": 2, "UHAL_OUTPUTS": 1, "UHAL_VALUES": 2 + 1 + 4, "UHAL_RESULTS": 2, "UHAL_STEPS": 1,
        "STEP0": FUNCTION, "STEP0_OPERANDS": 1 << 8, "STEP0_RESULT": 2,
    }  # fmt: skip
    for name in ("X0", "Y0"):
        macros |= dtype_macros(name, dtype)
    macros |= dtype_macros("X1", "float32")
    return program("map.cl", macros, "*(Members*)arguments[0], *(Parameters*)arguments[1], *(int32*)arguments[2]")


def aligned(count: int, dtype: Any) -> NDArray[Any]:
    memory = np.zeros(count * np.dtype(dtype).itemsize + 128, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + count * np.dtype(dtype).itemsize].view(dtype)


def to_bits(values: NDArray[Any], dtype: str) -> NDArray[Any]:
    if dtype == "float32":
        return values.astype(np.float32)
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def to_numbers(bits: NDArray[Any], dtype: str) -> NDArray[Any]:
    return bits if dtype == "float32" else (bits.astype(np.uint32) << 16).view(np.float32)


@pytest.mark.parametrize("scalar", [False, True])
@pytest.mark.parametrize(("unit", "dtype"), [(1, "float32"), (4, "float32"), (4, "bfloat16"), (8, "bfloat16")])
def test_each_member_is_what_it_is_alone(tmp_path: Path, unit: int, dtype: str, scalar: bool) -> None:
    generator = np.random.default_rng(unit)
    storage = np.float32 if dtype == "float32" else np.uint16
    x = [round_to(generator.normal(size=size), dtype) for size in SIZES]
    y = [generator.normal(size=1 if scalar else size).astype(np.float32) for size in SIZES]
    shift = 1.0
    operands: list[list[NDArray[Any]]] = []
    for a, b in zip(x, y):
        result, left, right = aligned(a.size + 8, storage), aligned(a.size, storage), aligned(b.size, np.float32)
        left[:], right[:], result[:] = to_bits(a, dtype), b, 7
        operands.append([result, left, right])
    addresses, (counts, firsts) = np.zeros((MEMBERS, 3), np.uint64), np.zeros((2, MEMBERS), np.int32)
    items = 0
    for member, (size, views) in enumerate(zip(SIZES, operands)):
        addresses[member] = [view.ctypes.data for view in views]
        counts[member], firsts[member] = size, items
        items += -(-size // (GROUP * unit)) * GROUP
    members = np.frombuffer(addresses.tobytes() + counts.tobytes() + firsts.tobytes(), np.uint8)
    parameters = np.zeros(8, np.float32)
    parameters[0] = shift
    kept = [members, parameters, np.int32([len(SIZES)])]
    given = (ctypes.c_void_p * len(kept))(*(each.ctypes.data for each in kept))
    library(tmp_path, map_program(unit, dtype, scalar)).run(ctypes.c_uint(items // GROUP), given)

    for a, b, (result, _, _) in zip(x, y, operands):
        expected = round_to(a.astype(np.float64) * b + shift, dtype)
        seen = to_numbers(result[: a.size], dtype)
        np.testing.assert_allclose(seen, expected, rtol=2**-7 if dtype == "bfloat16" else 2**-22, atol=2**-22)
        assert (result[a.size :] == 7).all(), "elements behind the last one were written"


@pytest.mark.parametrize("unit", [1, 2, 4, 8, 16])
def test_rows_go_where_they_belong(tmp_path: Path, unit: int) -> None:
    rows, widths = 5, (3, 300, 1, 64, 17)  # units
    generator = np.random.default_rng(unit)
    parts = [aligned(rows * width * unit, np.uint8).reshape(rows, width * unit) for width in widths]
    whole = aligned(rows * (sum(widths) + 1) * unit, np.uint8).reshape(rows, -1)
    for part in parts:
        part[...] = generator.integers(1, 256, part.shape)
    to, source = np.zeros((2, MEMBERS), np.uint64)
    counts, columns, to_pitches, from_pitches, firsts = np.zeros((5, MEMBERS), np.int32)
    items = start = 0
    for member, (width, part) in enumerate(zip(widths, parts)):
        to[member], source[member] = whole.ctypes.data + start * unit, part.ctypes.data
        counts[member], columns[member] = rows * width, width
        to_pitches[member], from_pitches[member] = sum(widths) + 1, width
        firsts[member] = items
        items += -(-rows * width // GROUP) * GROUP
        start += width
    lists = (to, source, counts, columns, to_pitches, from_pitches, firsts)
    kept = [np.frombuffer(b"".join(each.tobytes() for each in lists), np.uint8), np.int32([len(widths)])]
    given = (ctypes.c_void_p * len(kept))(*(each.ctypes.data for each in kept))
    text = program(
        "copy.cl", {"UHAL_SIZE": unit, "UHAL_MEMBERS": MEMBERS}, "*(Members*)arguments[0], *(int32*)arguments[1]"
    )
    library(tmp_path, text).run(ctypes.c_uint(items // GROUP), given)

    np.testing.assert_array_equal(whole[:, : sum(widths) * unit], np.concatenate(parts, 1))
    assert (whole[:, sum(widths) * unit :] == 0).all(), "what lies between the rows was written"
