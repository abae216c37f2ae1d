"""The enumerations of op.h that attributes hold."""

from __future__ import annotations

from enum import IntEnum


class Reduction(IntEnum):
    """uhal_reduction."""

    NONE = 0
    SUM = 1
    MEAN = 2
    PRODUCT = 3
    MAXIMUM = 4
    MINIMUM = 5
    ALL = 6
    ANY = 7
    SUM_OF_SQUARES = 8
    L1_NORM = 9
    L2_NORM = 10
    LOG_SUM_EXP = 11


class SegmentForm(IntEnum):
    """uhal_segment_form."""

    UNSORTED = 0
    SORTED = 1
    OFFSETS = 2


class Activation(IntEnum):
    """uhal_activation."""

    NONE = 0
    RELU = 1
    GELU_ERF = 2
    GELU_TANH = 3
    SIGMOID = 4
    TANH = 5
    SILU = 6
    RELU6 = 7


class MathMode(IntEnum):
    """uhal_math_mode."""

    STRICT = 0
    ALLOW_TF32 = 1


class PoolMode(IntEnum):
    """uhal_pool_mode."""

    MAXIMUM = 0
    AVERAGE_INCLUDE_PADDING = 1
    AVERAGE_EXCLUDE_PADDING = 2


class ResizeMode(IntEnum):
    """uhal_resize_mode."""

    NEAREST = 0
    LINEAR = 1
    CUBIC = 2


class GridSampleMode(IntEnum):
    """uhal_grid_sample_mode."""

    NEAREST = 0
    LINEAR = 1
    CUBIC = 2


class GridSamplePadding(IntEnum):
    """uhal_grid_sample_padding."""

    ZEROS = 0
    BORDER = 1
    REFLECTION = 2


class FftDirection(IntEnum):
    """uhal_fft_direction."""

    FORWARD = 0
    INVERSE = 1


class FftNormalization(IntEnum):
    """uhal_fft_normalization."""

    UNSCALED = 0
    BY_LENGTH = 1
    ORTHONORMAL = 2


class RnnMode(IntEnum):
    """uhal_rnn_mode."""

    LSTM = 0
    GRU = 1
    TANH = 2
    RELU = 3


#: Flag of uhal_axis_attributes.
AXIS_DESCENDING = 1
