"""Rows of every length and alignment: softmax, cross entropy, norms and their gradients by the kernels for GPUs, whose
forms differ by what a row allows: units of 4 or 8 at once, rows held in registers, gradients in one reading. Run as a
program it compares one dtype with NumPy."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import unihal
from numpy.typing import NDArray
from processes import run_command
from unihal import Buffer, ops

#: Numbers, and what their rounding may make of a result near 1; sums for parameters are longer.
DTYPES: dict[str, tuple[Any, float]] = {
    "float32": (np.float32, 2e-5),
    "float16": (np.float16, 2e-3),
    "bfloat16": (ml_dtypes.bfloat16, 1.6e-2),
}

#: Some that are no multiple of a unit; gradients of 1000 are taken in one reading; of 9000, no team holds a row.
LENGTHS = (8, 100, 1000, 1027, 9000)

#: Where data begins, in elements.
OFFSETS = (0, 4, 1)


class _Rows:
    """Operands of one length and offset, and what should come out."""

    def __init__(self, device: unihal.Device, dtype: str, length: int, offset: int) -> None:
        self.device, self.offset = device, offset
        self.number, self.tolerance = DTYPES[dtype]
        self.name = f"{dtype}, rows of {length} at {offset}"
        self.generator = np.random.default_rng(length + offset)
        rows = 40 if length == 1000 else 3
        self.x, self.y = self.random(rows, length), self.random(rows, length)

    def random(self, *shape: int) -> NDArray[np.float64]:
        """Numbers that the dtype has."""
        return self.generator.standard_normal(shape).astype(self.number).astype(np.float64)

    def put(self, values: NDArray[Any], number: Any = None) -> Buffer:
        """On the device, at the offset."""
        flat = np.zeros(values.size + self.offset, self.number if number is None else number)
        flat[self.offset :] = values.reshape(-1)
        return Buffer.from_numpy(flat, self.device)[self.offset :].reshape(*values.shape)

    def check(self, what: str, got: Buffer | None, expected: NDArray[np.float64], factor: float = 1) -> None:
        """Against NumPy's."""
        assert got is not None
        tolerance = factor * self.tolerance
        values = got.numpy().astype(np.float64)
        np.testing.assert_allclose(values, expected, tolerance, tolerance, err_msg=f"{what}, {self.name}")


def _softmax(x: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        exponentials = np.exp(x - x.max(1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(1, keepdims=True))


def _losses(rows: _Rows) -> None:
    x, y = rows.put(rows.x), rows.put(rows.y)
    p = _softmax(rows.x)
    rows.check("softmax", ops.softmax(x), p)
    rows.check("its logarithm", ops.softmax(x, logarithm=True), np.log(p))
    rounded = p.astype(rows.number).astype(np.float64)
    expected = rounded * (rows.y - (rounded * rows.y).sum(1, keepdims=True))
    rows.check("softmax backward", ops.softmax_backward(rows.put(p), y), expected)

    labels = rows.generator.integers(0, p.shape[1], (len(p), 1))
    losses = -np.log(np.take_along_axis(p, labels, 1))
    numbers = Buffer.from_numpy(labels, rows.device)
    loss, probabilities, gradient = ops.cross_entropy(x, numbers)
    rows.check("loss", loss, losses)
    rows.check("probabilities", probabilities, p)
    rows.check("gradient", gradient, p - (labels == np.arange(p.shape[1])))
    loss, *absent = ops.cross_entropy(x, numbers, loss_only=True)
    assert absent == [None, None]
    rows.check("loss only", loss, losses)
    shares = _softmax(rows.y).astype(rows.number).astype(np.float64)
    loss, _, gradient = ops.cross_entropy(x, rows.put(shares))
    rows.check("loss of shares", loss, -(shares * np.log(p)).sum(1, keepdims=True), 2)
    rows.check("gradient of shares", gradient, p - shares)

    special = rows.x.copy()
    special[0, 3], special[1], special[2, 0] = np.nan, -np.inf, np.inf
    rows.check("softmax of no numbers", ops.softmax(rows.put(special)), _softmax(special))
    rows.check("probabilities of no numbers", ops.cross_entropy(rows.put(special), numbers)[1], _softmax(special))


def _norms(rows: _Rows) -> None:
    x, dy = rows.put(rows.x), rows.put(rows.y)
    length = rows.x.shape[1]
    scale, bias = (rows.generator.standard_normal(length, np.float32) for _ in range(2))
    scales, biases = rows.put(scale, np.float32), rows.put(bias, np.float32)
    g = rows.y * scale
    mean = rows.x.mean(1, keepdims=True)
    inverse = 1 / np.sqrt(rows.x.var(1, keepdims=True) + 1e-5)
    normal = (rows.x - mean) * inverse
    y, means, variances = ops.layer_norm(x, scales, biases)
    rows.check("layer norm", y, normal * scale + bias)
    dx, dscale, dbias = ops.layer_norm_backward(x, dy, scales, means, variances)
    expected = inverse * (g - g.mean(1, keepdims=True) - normal * (g * normal).mean(1, keepdims=True))
    rows.check("layer norm backward", dx, expected)
    rows.check("its scale", dscale, (rows.y * normal).sum(0), 2)
    rows.check("its bias", dbias, rows.y.sum(0), 2)

    inverse = 1 / np.sqrt((rows.x * rows.x).mean(1, keepdims=True) + 1e-5)
    normal = rows.x * inverse
    y, inverses = ops.rms_norm(x, scales)
    rows.check("RMS norm", y, normal * scale)
    dx, dscale = ops.rms_norm_backward(x, dy, scales, inverses)
    rows.check("RMS norm backward", dx, inverse * (g - normal * (g * normal).mean(1, keepdims=True)))
    rows.check("its scale", dscale, (rows.y * normal).sum(0), 2)


def _elementwise(rows: _Rows) -> None:
    x, y = rows.put(rows.x), rows.put(rows.y)
    rows.check("exp", ops.exp(x), np.exp(rows.x))
    rows.check("add of a row", ops.add(x, y[0]), rows.x + rows.y[0])
    rows.check("add of a column", ops.add(x, y[:, :1]), rows.x + rows.y[:, :1])
    rows.check("less", ops.less(x, y), (rows.x < rows.y).astype(np.float64))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("dtype", "every"),
    [
        pytest.param("bfloat16", 12, marks=pytest.mark.whole),
        *(pytest.param(dtype, 1, marks=pytest.mark.long) for dtype in DTYPES),
    ],
)
def test_rows_of_all_lengths(device: unihal.Device, dtype: str, every: int, not_optimized: dict[str, str]) -> None:
    variables = {"UNIHAL_OPENCL_KERNELS": "gpu", "PYTHONPATH": str(Path(__file__).parents[1])}
    if dtype != "float32":  # one dtype by what users run, the others for their own conversions
        variables |= not_optimized
    process = run_command([sys.executable, __file__, str(device), dtype, str(every)], timeout=580, **variables)
    assert process.returncode == 0, process.stdout + process.stderr


def main() -> None:
    """Compares one dtype on a device, of every so many-th length and offset."""
    device = unihal.device(sys.argv[1])
    for length, offset in list(itertools.product(LENGTHS, OFFSETS))[:: int(sys.argv[3])]:
        rows = _Rows(device, sys.argv[2], length, offset)
        _losses(rows)
        _norms(rows)
        _elementwise(rows)


if __name__ == "__main__":
    main()
