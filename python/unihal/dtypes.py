"""Names of dtypes, what operands of different dtypes are computed in, and NumPy's dtypes of the same names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import _core, errors

if TYPE_CHECKING:
    import numpy as np

_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = frozenset(("bool", *_SIGNED, *_UNSIGNED))

#: What NumPy has only with the package ml_dtypes.
_OF_ML_DTYPES = frozenset(("bfloat16", "float8_e4m3fn", "float8_e5m2"))


def number(name: str) -> int:
    """The ABI's number of a dtype."""
    try:
        return _core.DTYPES[name]
    except KeyError:
        known = ", ".join(_core.DTYPES)
        raise errors.InvalidArgumentError(f"{name!r} is no dtype; the dtypes are: {known}") from None


def promote(names: Iterable[str]) -> str:
    """The smallest dtype that holds the values of all the given ones, floating if any of them is."""
    distinct = set(names)
    if len(distinct) == 1:
        return distinct.pop()
    complex_ones = distinct & {"complex64", "complex128"}
    if complex_ones:
        return "complex128" if distinct & {"complex128", "float64"} else "complex64"
    floating = distinct - INTEGERS
    if floating:
        if "float64" in floating:
            return "float64"
        return floating.pop() if len(floating) == 1 else "float32"
    distinct.discard("bool")
    if distinct <= set(_SIGNED):
        return max(distinct, key=_SIGNED.index)
    if distinct <= set(_UNSIGNED):
        return max(distinct, key=_UNSIGNED.index)
    # Signed and unsigned: the signed one that holds both; above 32 bits there is none, and int64 has to do.
    widest_unsigned = max(_UNSIGNED.index(name) for name in distinct if name in _UNSIGNED)
    widest_signed = max(_SIGNED.index(name) for name in distinct if name in _SIGNED)
    return _SIGNED[min(max(widest_unsigned + 1, widest_signed), len(_SIGNED) - 1)]


def floating(name: str) -> str:
    """The dtype in which a function without an integer form computes on operands of a dtype."""
    if name not in INTEGERS:
        return name
    return "float64" if name in ("int32", "int64", "uint32", "uint64") else "float32"


#: The dtype of a complex dtype's parts.
_PARTS = {"complex64": "float32", "complex128": "float64"}


def is_complex(name: str) -> bool:
    """Whether a dtype is complex."""
    return name in _PARTS


def real_part(name: str) -> str:
    """The dtype of a complex dtype's parts; a real dtype itself."""
    return _PARTS.get(name, name)


def with_imaginary_part(name: str) -> str:
    """The complex dtype whose parts hold the values of a dtype."""
    if is_complex(name):
        return name
    return "complex128" if floating(name) == "float64" else "complex64"


def to_numpy(name: str) -> np.dtype[Any]:
    """NumPy's dtype; bfloat16 and float8 come from the package ml_dtypes."""
    import numpy as np

    if name not in _OF_ML_DTYPES:
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise errors.UnimplementedError(
            f"NumPy has no {name} of its own; install the package ml_dtypes, or cast to float32 first"
        ) from None
    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return found


def from_numpy(dtype: np.dtype[Any]) -> str:
    """The name of a NumPy dtype, refused if the ABI has none of its kind or it is not in the machine's byte order."""
    if not dtype.isnative:
        raise errors.InvalidArgumentError(f"the array's dtype {dtype!r} is not in this machine's byte order")
    number(dtype.name)
    return str(dtype.name)
