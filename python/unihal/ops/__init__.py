"""Direct calls of the ABI's ops on buffers.

Every elementwise function of the library is here by its name (``ops.add``, ``ops.silu``, ...; ``dir(ops)`` lists them).
All calls allocate their outputs, or write into ``out=``; they run on ``stream=``, or on the device's default stream.
"""

from __future__ import annotations

from ..arguments import check_arguments
from .data_dependent import (
    bin_count,
    count_nonzero,
    histogram,
    masked_select,
    nonzero,
    search_sorted,
    set_difference,
    unique,
    unique_consecutive,
)
from .elementwise import MapFunction, map_function, map_function_names
from .fourier import fft, ifft, irfft, rfft
from .image import (
    adaptive_average_pool,
    adaptive_max_pool,
    adaptive_pool_backward,
    average_pool,
    convolution,
    convolution_backward_data,
    convolution_backward_filter,
    grid_sample,
    grid_sample_backward_data,
    grid_sample_backward_grid,
    max_pool,
    pool_backward,
    resize,
    resize_backward,
)
from .linear import attention, attention_backward, matmul
from .linear_algebra import (
    cholesky,
    cholesky_solve,
    det,
    eig,
    eigh,
    eigvalsh,
    inv,
    lstsq,
    lu,
    matrix_power,
    matrix_rank,
    pinv,
    qr,
    slogdet,
    solve,
    svd,
    svdvals,
    triangular_solve,
)
from .movement import (
    cast,
    copy,
    fill,
    gather,
    gather_elements,
    gather_nd,
    iota,
    one_hot,
    scatter,
    scatter_elements,
    scatter_nd,
    triangular,
)
from .normalization import (
    batch_norm,
    batch_norm_backward,
    cross_entropy,
    cross_entropy_backward,
    group_norm,
    group_norm_backward,
    layer_norm,
    layer_norm_backward,
    rms_norm,
    rms_norm_backward,
    softmax,
    softmax_backward,
)
from .random import dropout, random
from .reduction import all, any, argmax, argmin, max, mean, min, product, reduce, scan, sort, sum, top_k
from .segments import (
    embedding_bag,
    segment_max,
    segment_mean,
    segment_min,
    segment_product,
    segment_reduce,
    segment_reduce_backward,
    segment_sum,
    send_and_receive,
)
from .sequences import ctc_loss, rnn, rnn_backward
from .sparse import coalesce, coalesce_rows, coo_matmul, csr_matmul, update_rows

__all__ = [
    "adaptive_average_pool",
    "adaptive_max_pool",
    "adaptive_pool_backward",
    "all",
    "any",
    "argmax",
    "argmin",
    "attention",
    "attention_backward",
    "average_pool",
    "batch_norm",
    "batch_norm_backward",
    "bin_count",
    "cast",
    "cholesky",
    "cholesky_solve",
    "coalesce",
    "coalesce_rows",
    "convolution",
    "convolution_backward_data",
    "convolution_backward_filter",
    "coo_matmul",
    "copy",
    "count_nonzero",
    "cross_entropy",
    "cross_entropy_backward",
    "csr_matmul",
    "ctc_loss",
    "det",
    "dropout",
    "eig",
    "eigh",
    "eigvalsh",
    "embedding_bag",
    "fft",
    "fill",
    "gather",
    "gather_elements",
    "gather_nd",
    "grid_sample",
    "grid_sample_backward_data",
    "grid_sample_backward_grid",
    "group_norm",
    "group_norm_backward",
    "histogram",
    "ifft",
    "inv",
    "iota",
    "irfft",
    "layer_norm",
    "layer_norm_backward",
    "lstsq",
    "lu",
    "masked_select",
    "matmul",
    "matrix_power",
    "matrix_rank",
    "max",
    "max_pool",
    "mean",
    "min",
    "nonzero",
    "one_hot",
    "pinv",
    "pool_backward",
    "product",
    "qr",
    "random",
    "reduce",
    "resize",
    "resize_backward",
    "rfft",
    "rms_norm",
    "rms_norm_backward",
    "rnn",
    "rnn_backward",
    "scan",
    "scatter",
    "scatter_elements",
    "scatter_nd",
    "search_sorted",
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_product",
    "segment_reduce",
    "segment_reduce_backward",
    "segment_sum",
    "send_and_receive",
    "set_difference",
    "slogdet",
    "softmax",
    "softmax_backward",
    "solve",
    "sort",
    "sum",
    "svd",
    "svdvals",
    "top_k",
    "triangular",
    "triangular_solve",
    "unique",
    "unique_consecutive",
    "update_rows",
]

check_arguments(globals(), (*__all__, "MapFunction"))


def __getattr__(name: str) -> MapFunction:
    function = map_function(name)
    if function is None:
        raise AttributeError(f"module 'unihal.ops' has no op {name!r}")
    return function


def __dir__() -> list[str]:
    return sorted([*__all__, *map_function_names()])
