"""Weights of few bits, as UHAL_OP_MATMUL_QUANTIZED reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def unpacked(packed: NDArray[Any], rows: int) -> NDArray[Any]:
    """Numbers of 4 bits, two a byte along the first axis, the low half first; signed ones from int8."""
    bits = packed.view(np.uint8)
    halves = np.stack([bits & 15, bits >> 4], axis=1).reshape(2 * len(bits), *bits.shape[1:])[:rows]
    numbers = halves.astype(np.int64)
    return (numbers ^ 8) - 8 if packed.dtype == np.int8 else numbers


def dequantized(
    b: NDArray[Any],
    scales: NDArray[Any],
    zero_points: NDArray[Any] | None,
    k: int,
    *,
    bits: int = 8,
    block_size: int = 0,
    zero_point: float = 0,
) -> NDArray[Any]:
    """The weights (k, n) as float64."""
    n = b.shape[1]
    q = unpacked(b, k) if bits == 4 else b.astype(np.int64)
    blocks = 1 if block_size == 0 else -(-k // block_size)
    if zero_points is None:
        zeros: NDArray[Any] = np.full((blocks, n), zero_point)
    elif zero_points.dtype == b.dtype and bits == 4:
        zeros = unpacked(np.broadcast_to(zero_points, (-(-blocks // 2), n)), blocks)
    else:
        zeros = np.broadcast_to(zero_points, (blocks, n)).astype(np.float64)
    block = np.zeros(k, np.int64) if block_size == 0 else np.arange(k) // block_size
    return np.asarray((q - zeros[block]) * np.broadcast_to(scales, (blocks, n))[block], np.float64)
