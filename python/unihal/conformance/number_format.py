"""The dtypes on the host: their bytes to numbers and back, without any package for bfloat16.

Elements are decoded to float64 (complex128), which holds every float16, bfloat16 and float32 exactly; integers and bool
keep their NumPy dtype.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .case import Array


@dataclass(frozen=True)
class FloatFormat:
    """Figures of a binary floating-point format."""

    #: Of the significand, the leading one included.
    bits: int
    smallest_exponent: int
    largest: float

    @property
    def unit_roundoff(self) -> float:
        """The largest relative error of rounding to nearest."""
        return 2.0**-self.bits

    @property
    def smallest_normal(self) -> float:
        """The least positive number of full precision."""
        return 2.0**self.smallest_exponent

    @property
    def smallest_subnormal(self) -> float:
        """The least positive number."""
        return 2.0 ** (self.smallest_exponent - self.bits + 1)


_FLOAT32 = FloatFormat(24, -126, float(np.finfo(np.float32).max))
_FLOAT64 = FloatFormat(53, -1022, float(np.finfo(np.float64).max))

#: By dtype; complex ones have the format of their parts.
FORMATS = {
    "float16": FloatFormat(11, -14, 65504.0),
    "bfloat16": FloatFormat(8, -126, float.fromhex("0x1.fep127")),
    "float32": _FLOAT32,
    "float64": _FLOAT64,
    "float8_e4m3fn": FloatFormat(4, -6, 448.0),
    "float8_e5m2": FloatFormat(3, -14, 57344.0),
    "complex64": _FLOAT32,
    "complex128": _FLOAT64,
}

#: What holds the bytes of a dtype that NumPy lacks.
_BITS = {"bfloat16": np.uint16, "float8_e4m3fn": np.uint8, "float8_e5m2": np.uint8}


def is_float8(dtype: str) -> bool:
    """Whether a dtype is for storage only."""
    return dtype.startswith("float8")


def is_inexact(dtype: str) -> bool:
    """Whether a dtype is floating or complex."""
    return dtype in FORMATS


def is_complex(dtype: str) -> bool:
    """Whether a dtype is complex."""
    return dtype.startswith("complex")


def storage(dtype: str) -> np.dtype[Any]:
    """The NumPy dtype of the stored elements: of their bits, where NumPy has no such numbers."""
    return np.dtype(_BITS.get(dtype, dtype))


def bits_dtype(dtype: str) -> str:
    """The unsigned integers that have as many bits as the elements; of no complex128."""
    return f"uint{8 * storage(dtype).itemsize}"


def encode(values: Array, dtype: str) -> Array:
    """Elements as they are stored, rounded to nearest even; integers wrap, and bool is whether a value is not 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype == "bfloat16":
            return _encode_bfloat16(np.asarray(values, np.float64))
        if is_float8(dtype):
            return _encode_float8(np.asarray(values, np.float64), dtype)
        if dtype == "bool":
            return np.asarray(values != 0)
        return np.asarray(values).astype(dtype)


def decode(stored: Array, dtype: str) -> Array:
    """The numbers that stored elements stand for."""
    if dtype == "bfloat16":
        with np.errstate(invalid="ignore"):  # of signalling NaN
            return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if is_float8(dtype):
        return _float8_numbers(dtype)[stored]
    if dtype in FORMATS:
        return stored.astype(np.complex128 if is_complex(dtype) else np.float64)
    return stored


def round_to(values: Array, dtype: str) -> Array:
    """The numbers that remain of values once they are stored."""
    return decode(encode(values, dtype), dtype)


def _encode_bfloat16(values: Array) -> Array:
    """Rounds once: by way of float32 with round-to-odd, so that no second rounding sees a false tie."""
    single = values.astype(np.float32)
    bits = single.view(np.uint32)
    inexact = single.astype(np.float64) != values
    # A float32 that was rounded away from zero steps back; then the odd last bit says that something was cut off.
    away = np.abs(single.astype(np.float64)) > np.abs(values)
    bits = np.where(inexact & away, bits - np.uint32(1), bits)
    bits = np.where(inexact & np.isfinite(values), bits | np.uint32(1), bits)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet_nan = (bits >> np.uint32(16)) | np.uint32(0x0040)
    return np.asarray(np.where(np.isnan(values), quiet_nan, rounded).astype(np.uint16))


def _float8_numbers(dtype: str) -> Array:
    """What each of the 256 bytes stands for."""
    stored = FORMATS[dtype]
    fraction_bits = stored.bits - 1
    magnitudes = np.arange(128)
    exponent = magnitudes >> fraction_bits
    fraction = (magnitudes & ((1 << fraction_bits) - 1)) * 2.0**-fraction_bits
    normal = (1 + fraction) * 2.0 ** (exponent + stored.smallest_exponent - 1)
    numbers = np.where(exponent == 0, fraction * 2.0**stored.smallest_exponent, normal)
    if dtype == "float8_e5m2":
        numbers[0x7C:] = np.inf, np.nan, np.nan, np.nan
    else:
        numbers[0x7F] = np.nan
    return np.concatenate([numbers, -numbers])


def _encode_float8(values: Array, dtype: str) -> Array:
    """To nearest even; what is beyond the largest number is infinite where there are infinities, else NaN."""
    stored = FORMATS[dtype]
    numbers = _float8_numbers(dtype)[:128]
    finite = numbers[: int(np.argmax(numbers == stored.largest)) + 1]
    size = np.abs(values)
    exponent = np.maximum(np.frexp(size)[1] - 1, stored.smallest_exponent)
    step = 2.0 ** (exponent - stored.bits + 1)
    rounded = np.rint(np.where(np.isfinite(size), size, 0) / step) * step
    code = np.searchsorted(finite, np.minimum(rounded, stored.largest))
    beyond = (rounded > stored.largest) | np.isinf(size)
    code = np.where(np.isnan(values), 0x7F, np.where(beyond, len(finite), code))
    return np.asarray(code | np.where(np.signbit(values), 0x80, 0), np.uint8)
