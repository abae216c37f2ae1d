"""Discrete Fourier transforms along one to three axes, named and scaled as NumPy's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Union

from .. import errors
from ..arguments import whole_numbers
from ..buffer import Buffer
from ..stream import Stream
from .launch import axis_of, launch, output

#: One axis, or up to three; negative ones count from the end.
Axes = Union[int, Sequence[int]]

#: Which direction is divided by the number of elements: the inverse one, each by its root, or the forward one.
Normalization = Literal["backward", "ortho", "forward"]

#: Numbers of uhal_fft_normalization, by direction (forward, inverse).
_NORMALIZATIONS: dict[str, tuple[int, int]] = {"backward": (0, 1), "ortho": (2, 2), "forward": (1, 0)}

_COMPLEX_OF = {"float32": "complex64", "float64": "complex128"}
_REAL_OF = {"complex64": "float32", "complex128": "float64"}


def fft(
    x: Buffer,
    axes: Axes = -1,
    *,
    norm: Normalization = "backward",
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """The transform of complex numbers, of x's shape and dtype."""
    _expect(x, _REAL_OF, "fft", "rfft")
    return _transform(x, x.shape, x.dtype, axes, False, norm, out, stream)


def ifft(
    x: Buffer,
    axes: Axes = -1,
    *,
    norm: Normalization = "backward",
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """The inverse of ``fft``."""
    _expect(x, _REAL_OF, "ifft", "irfft")
    return _transform(x, x.shape, x.dtype, axes, True, norm, out, stream)


def rfft(
    x: Buffer,
    axes: Axes = -1,
    *,
    norm: Normalization = "backward",
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """The transform of real numbers: along the last of the axes, of length n, the frequencies 0 to n // 2."""
    _expect(x, _COMPLEX_OF, "rfft", "fft")
    last = _numbers(x, axes)[-1]
    shape = [length // 2 + 1 if axis == last else length for axis, length in enumerate(x.shape)]
    return _transform(x, shape, _COMPLEX_OF[x.dtype], axes, False, norm, out, stream)


def irfft(
    x: Buffer,
    axes: Axes = -1,
    *,
    length: int | None = None,
    norm: Normalization = "backward",
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """The inverse of ``rfft``: ``length`` real numbers along the last of the axes, where x has ``length // 2 + 1``; an
    even number of them if it is not said."""
    _expect(x, _REAL_OF, "irfft", "rfft")
    last = _numbers(x, axes)[-1]
    count = 2 * (x.shape[last] - 1) if length is None else length
    if count < 0 or count // 2 + 1 != x.shape[last]:
        raise errors.InvalidArgumentError(
            f"irfft: {x.shape[last]} frequencies along axis {last} are those of {2 * x.shape[last] - 2} or "
            f"{2 * x.shape[last] - 1} numbers, not of {count}"
        )
    shape = [count if axis == last else extent for axis, extent in enumerate(x.shape)]
    return _transform(x, shape, _REAL_OF[x.dtype], axes, True, norm, out, stream)


def _expect(x: Buffer, dtypes: dict[str, str], name: str, other: str) -> None:
    if x.dtype not in dtypes:
        raise errors.InvalidArgumentError(
            f"{name} takes {' or '.join(dtypes)}, not {x.dtype}; cast it first, or take {other} if that is meant"
        )


def _numbers(x: Buffer, axes: Axes) -> list[int]:
    numbers = [axis_of(x, axis) for axis in whole_numbers(axes)]
    if not 1 <= len(numbers) <= 3 or len(set(numbers)) != len(numbers):
        raise errors.InvalidArgumentError(f"axes is {axes}; expected one to three axes, each once")
    return numbers


def _transform(
    x: Buffer,
    shape: Sequence[int],
    dtype: str,
    axes: Axes,
    inverse: bool,
    norm: Normalization,
    out: Buffer | None,
    stream: Stream | None,
) -> Buffer:
    numbers = _numbers(x, axes)
    result = output(shape, dtype, x, out, stream)
    attributes = {
        "direction": int(inverse),
        "normalization": _NORMALIZATIONS[norm][inverse],
        "axis_count": len(numbers),
        "axes": numbers,
    }
    launch("fft", [x], [result], attributes, stream=stream)
    return result
