"""The passes of radix sort by warps (stable_order.cl), without a GPU: on the host, as test_matrix_kernels.py runs
attention. Macros, arguments and launches are those of csrc/kernels/stable_order.cc."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from kernel_on_host import HERE, KERNELS, gpu_prelude, library, macro_text, with_includes
from numpy.typing import NDArray

GROUP, TILE, DIGITS_OF_SCAN = 256, 2048, 8
MACROS = {
    "UHAL_HAS_FLOAT64": 1, "UHAL_COMPUTE_float": 1, "UHAL_WIDE_INDEX": 0, "UHAL_RANK": 4, "UHAL_GROUP": GROUP,
    "TILE": TILE, "LOCAL_BITS": 3,
}  # fmt: skip
ENTRY = """
static void** arguments;
static char* at(int i) { return (char*)arguments[i]; }
static int number(int i) { return *(int*)arguments[i]; }
static void count() { radix_count(at(0), at(4), number(6), number(7), 1 << number(8)); }
static void scan() { radix_scan(at(4), at(5), (number(6) + TILE - 1) / TILE, 1 << number(8)); }
static void move() { radix_move(at(0), at(1), at(2), at(3), at(4), at(5), number(6), number(7), number(8), number(9)); }
extern "C" void pass(unsigned groups, unsigned groups_of_digits, void** given) {
  arguments = given;
  on_host::launch(groups, UHAL_GROUP, count);
  on_host::launch(groups_of_digits, UHAL_GROUP, scan);
  on_host::launch(groups, UHAL_GROUP, move);
}
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    source = with_includes(KERNELS / "source/stable_order.cl")
    parts = [
        f'#include "{HERE}/matrix_machine.h"', "#undef __shared__", "#define __shared__ static", macro_text(MACROS),
        gpu_prelude(), with_includes(KERNELS / "prelude/common.h"), source, ENTRY,
    ]  # fmt: skip
    return library(tmp_path_factory.mktemp("order"), "\n".join(parts))


def sort(kernels: ctypes.CDLL, keys: NDArray[Any], bits: int, passes: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The keys in order, and where each came from."""
    count, tiles, digits = len(keys), -(-len(keys) // TILE), 1 << bits
    source, order = keys.astype(np.uint32), np.full(count, 7, np.uint32)
    totals, sums = np.full(tiles * digits, -1, np.int32), np.full(digits, -1, np.int32)
    for number in range(passes):
        moved, moved_order = np.zeros(count, np.uint32), np.zeros(count, np.uint32)
        numbers = [np.int32(each) for each in (count, number * bits, bits, number == 0)]
        kept = [source, order, moved, moved_order, totals, sums, *(np.asarray(each) for each in numbers)]
        addresses = (ctypes.c_void_p * len(kept))(*(each.ctypes.data for each in kept))
        kernels["pass"](ctypes.c_uint(tiles), ctypes.c_uint(-(-digits // DIGITS_OF_SCAN)), addresses)
        source, order = moved, moved_order
    return source, order


@pytest.mark.parametrize(
    ("count", "largest", "bits"),
    [(1, 0, 1), (2048, 511, 9), (5000, 70000, 9), (4097, 5, 3), (3000, 0, 1), (66000, 200, 8)],
)
def test_keys_in_order(kernels: ctypes.CDLL, count: int, largest: int, bits: int) -> None:
    keys = np.random.default_rng(count).integers(0, largest + 1, count)
    passes = max(-(-int(largest).bit_length() // bits), 1)
    found, order = sort(kernels, keys, bits, passes)
    np.testing.assert_array_equal(order, np.argsort(keys, kind="stable"))
    np.testing.assert_array_equal(found, np.sort(keys))
