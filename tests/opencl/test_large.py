"""Operands of 2^32 elements and more, which need 64-bit indices. Minutes and 10 GB: only with UNIHAL_TESTS_LARGE=1.

    UNIHAL_TESTS_LARGE=1 tests/opencl/with_opencl.sh .venv/bin/pytest --unihal-backend=opencl tests/opencl/test_large.py

Small operands reach the same kernels with UNIHAL_OPENCL_INDEX=64 (docs/environment.md).
"""

from __future__ import annotations

import os

import numpy as np
import pytest
import unihal
from unihal import Buffer, ops

COLUMNS = 65536
#: Where the device takes buffers of more than 4 GiB, which PoCL does not; else, with nothing beyond element 2^32.
MOST_ROWS, FEWEST_ROWS = 65538, 65536
#: Rows around elements 2^31 and 2^32, the first and the last.
MARKS = (0, 1, 32766, 32767, 32768, 32769, 65534, 65535, 65536, 65537)

pytestmark = [
    pytest.mark.skipif(not os.environ.get("UNIHAL_TESTS_LARGE"), reason="takes minutes; set UNIHAL_TESTS_LARGE=1"),
    pytest.mark.timeout(1200),
]


def available_memory() -> int:
    """Bytes that the host can give."""
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable"))


@pytest.fixture
def large_device(device: unihal.Device) -> unihal.Device:
    """The device, if it takes two such operands."""
    properties = device.properties
    needed = 2 * MOST_ROWS * COLUMNS + (1 << 30)
    if properties.max_allocation < FEWEST_ROWS * COLUMNS:
        pytest.skip(f"needs buffers of {FEWEST_ROWS * COLUMNS} bytes")
    if min(properties.total_memory, available_memory()) < needed:
        pytest.skip(f"needs {needed} bytes of memory")
    return device


def rows_of(device: unihal.Device) -> int:
    """As many as it takes."""
    return MOST_ROWS if device.properties.max_allocation >= MOST_ROWS * COLUMNS else FEWEST_ROWS


def marks_of(x: Buffer | np.ndarray) -> list[int]:
    """The rows that hold something."""
    return [k for k in MARKS if k < x.shape[0]]


def row(k: int) -> np.ndarray:
    """What row k of the operand holds: zeros, and numbers at both ends that tell it from the others marked."""
    values = np.zeros(COLUMNS, np.int8)
    values[:3] = values[-3:] = np.array([MARKS.index(k) + 1, 50, -50], np.int8)
    return values


@pytest.fixture
def x(large_device: unihal.Device) -> Buffer:
    """Zeros but for the rows at the marks."""
    result = ops.fill(Buffer((rows_of(large_device), COLUMNS), "int8", large_device), 0)
    for k in marks_of(result):
        ops.copy(Buffer.from_numpy(row(k), large_device), out=result[k])
    return result


def expect_rows(y: Buffer, factor: int = 1) -> None:
    for k in marks_of(y):
        np.testing.assert_array_equal(y[k].numpy(), factor * row(k), err_msg=f"row {k}")
    for k in (100, 32770, 65530):  # what lies between is zero
        assert not y[k].numpy().any(), k


def test_copy(x: Buffer) -> None:
    y = ops.fill(Buffer(x.shape, "int8", x.device), 1)
    ops.copy(x, out=y)
    expect_rows(y)


def test_a_fill(x: Buffer) -> None:
    ops.fill(x, 3)
    for k in marks_of(x):
        assert (x[k].numpy() == 3).all(), k


def test_copies_from_and_to_the_host(large_device: unihal.Device) -> None:
    values = np.zeros((rows_of(large_device), COLUMNS), np.int8)
    for k in marks_of(values):
        values[k] = row(k)
    found = Buffer.from_numpy(values, large_device).numpy()
    for k in (*marks_of(values), 100, 32770, 65530):
        np.testing.assert_array_equal(found[k], values[k], err_msg=f"row {k}")


def test_a_copy_of_views_with_gaps(x: Buffer) -> None:
    y = ops.fill(Buffer(x.shape, "int8", x.device), 1)
    ops.copy(x[:, 1:-1], out=y[:, 1:-1])
    for k in marks_of(x):
        expected = row(k)
        expected[[0, -1]] = 1
        np.testing.assert_array_equal(y[k].numpy(), expected, err_msg=f"row {k}")


def test_add(x: Buffer) -> None:
    expect_rows(ops.add(x, x, out=x), 2)


def test_add_of_views_with_gaps(x: Buffer) -> None:
    inner = x[:, 1:-1]
    ops.add(inner, inner, out=inner)
    for k in marks_of(x):
        expected = 2 * row(k)
        expected[[0, -1]] //= 2
        np.testing.assert_array_equal(x[k].numpy(), expected, err_msg=f"row {k}")


def test_sums(x: Buffer) -> None:
    marks = marks_of(x)
    total = sum(int(row(k).sum()) for k in marks)
    assert ops.sum(x).numpy() == total
    by_row = ops.sum(x, 1).numpy()
    assert {int(k) for k in by_row.nonzero()[0]} == set(marks)
    assert [by_row[k] for k in marks] == [row(k).sum(dtype=np.int64) for k in marks]
    by_column = ops.sum(x, 0).numpy()
    np.testing.assert_array_equal(by_column, np.sum([row(k) for k in marks], 0, dtype=np.int64))


def test_the_place_of_the_largest(x: Buffer) -> None:
    at = x.size - 7
    flat = x.reshape(x.size)
    ops.copy(Buffer.from_numpy(np.array([120], np.int8), x.device), out=flat[at : at + 1])
    assert ops.argmax(flat, 0).numpy() == at


def test_transpose(x: Buffer) -> None:
    y = ops.copy(x.transpose(1, 0))
    rows, marks = x.shape[0], marks_of(x)
    assert y.shape == (COLUMNS, rows)
    marked = y[:, rows - 2 :].numpy()
    np.testing.assert_array_equal(marked[:, 0], row(rows - 2))
    np.testing.assert_array_equal(marked[:, 1], row(rows - 1))
    for at in (0, 1, COLUMNS - 3, COLUMNS - 1):
        column = y[at].numpy()
        assert [column[k] for k in marks] == [row(k)[at] for k in marks]
        assert np.count_nonzero(column) == len(marks)


def test_gather_and_scatter(x: Buffer) -> None:
    marks = marks_of(x)[::-1]
    indices = Buffer.from_numpy(np.array(marks, np.int64), x.device)
    rows = ops.gather(x, indices)
    np.testing.assert_array_equal(rows.numpy(), [row(k) for k in marks])
    ops.scatter(x, indices, rows, combine="sum")
    expect_rows(x, 2)
    flat = x.reshape(x.size)
    elements = np.array([k * COLUMNS + 1 for k in marks], np.int64)
    np.testing.assert_array_equal(ops.gather(flat, Buffer.from_numpy(elements, x.device)).numpy(), 100)


def test_more_results_than_32_bits_count(large_device: unihal.Device) -> None:
    """A small table, gathered into a large result."""
    table = Buffer.from_numpy(np.arange(3 * COLUMNS, dtype=np.int64).astype(np.int8).reshape(3, COLUMNS), large_device)
    numbers = np.arange(rows_of(large_device), dtype=np.int32) % 3
    y = ops.gather(table, Buffer.from_numpy(numbers, large_device))
    expected = table.numpy()
    for k in marks_of(y):
        np.testing.assert_array_equal(y[k].numpy(), expected[numbers[k]], err_msg=f"row {k}")
