"""UHAL_OP_RANDOM: Philox4x32-10 and the numbers that TensorFlow makes of its words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Salmon, Moraes, Dror and Shaw, Parallel Random Numbers: As Easy as 1, 2, 3 (2011).
_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)

#: Bits of a word that become the fraction of a uniform number.
_FRACTION_BITS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}


def philox(key: int, counter: Sequence[int], blocks: int) -> Array:
    """The four words of each block; the 128-bit counter, given as its low and high half, goes up by one per block."""
    first = counter[0] + (counter[1] << 64)
    numbers = [(first + block) % 2**128 for block in range(blocks)]
    columns = [np.array([number >> shift & 0xFFFFFFFF for number in numbers], np.uint64) for shift in (0, 32, 64, 96)]
    keys = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(_ROUNDS):
        products = [columns[0] * np.uint64(_MULTIPLIERS[0]), columns[2] * np.uint64(_MULTIPLIERS[1])]
        columns = [
            products[1] >> _HALF ^ columns[1] ^ np.uint64(keys[0]),
            products[1] & _LOW,
            products[0] >> _HALF ^ columns[3] ^ np.uint64(keys[1]),
            products[0] & _LOW,
        ]
        keys = [(part + step) % 2**32 for part, step in zip(keys, _WEYL)]
    return np.stack(columns, axis=1)


def words(count: int, itemsize: int, key: int, counter: Sequence[int]) -> Array:
    """The bits of each of ``count`` elements: a word, or two of them for dtypes of eight bytes, the lower one first."""
    per_block = 2 if itemsize == 8 else 4
    drawn = philox(key, counter, -(-count // per_block)).reshape(-1)
    if itemsize == 8:
        drawn = drawn[0::2] | drawn[1::2] << _HALF
    return np.asarray(drawn[:count])


def unit(bits: Array, dtype: str) -> Array:
    """Numbers in [0, 1): as many low bits as the dtype's fraction has. Of two words the first holds the upper bits."""
    if dtype == "float64":
        bits = (bits & _LOW) << _HALF | bits >> _HALF
    fraction = _FRACTION_BITS[dtype]
    return np.asarray((bits & np.uint64(2**fraction - 1)).astype(np.float64) * 2.0**-fraction)


def normal(count: int, itemsize: int, key: int, counter: Sequence[int]) -> tuple[Array, Array]:
    """Standard normal numbers of Box and Muller's transform, and the radius that each one is a part of."""
    dtype = "float64" if itemsize == 8 else "float32"
    uniform = unit(words(count + count % 2, itemsize, key, counter), dtype)
    radius = np.sqrt(-2 * np.log(np.maximum(uniform[0::2], 1e-7)))
    angle = 2 * math.pi * uniform[1::2]
    values = np.stack([np.sin(angle) * radius, np.cos(angle) * radius], axis=1).reshape(-1)
    return values[:count], np.repeat(radius, 2)[:count]
