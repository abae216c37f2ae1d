"""The discrete Fourier transform by NumPy, in the widest type that it transforms."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt

import numpy as np

from ..case import Array
from .enums import FftDirection, FftNormalization


def scale_of(normalization: FftNormalization, length: int) -> float:
    """The factor of a transform of so many elements."""
    if normalization == FftNormalization.UNSCALED or length == 0:
        return 1.0
    return 1 / length if normalization == FftNormalization.BY_LENGTH else 1 / sqrt(length)


def fft(
    x: Array,
    shape: Sequence[int],
    is_real: bool,
    axes: Sequence[int],
    direction: FftDirection = FftDirection.FORWARD,
    normalization: FftNormalization = FftNormalization.UNSCALED,
) -> Array:
    """The transform of x along the axes; ``shape`` is the result's, real if ``is_real``."""
    if 0 in (*x.shape, *shape):
        return np.zeros(shape)
    from_real = not np.iscomplexobj(x)
    y: Array = x.astype(np.longdouble if from_real else np.clongdouble)
    others, last = tuple(axes[:-1]), axes[-1]
    inverse = direction == FftDirection.INVERSE
    if from_real:
        y = np.fft.rfft(y, axis=last)
        y = np.conj(y) if inverse else y
        if others:
            y = _complex(y, others, inverse)
    elif is_real:
        if others:
            y = _complex(y, others, inverse)
        # irfft has the inverse direction; the forward one is that of the conjugate.
        y = np.fft.irfft(y if inverse else np.conj(y), shape[last], axis=last) * shape[last]
    else:
        y = _complex(y, tuple(axes), inverse)
    signal = shape if is_real else x.shape
    y = y * scale_of(normalization, prod(signal[axis] for axis in axes))
    return np.asarray(y.astype(np.float64 if is_real else np.complex128))


def _complex(x: Array, axes: tuple[int, ...], inverse: bool) -> Array:
    if not inverse:
        return np.asarray(np.fft.fftn(x, axes=axes))
    return np.asarray(np.fft.ifftn(x, axes=axes) * prod(x.shape[axis] for axis in axes))
