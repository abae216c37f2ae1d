"""What ops of the adapter take besides their outputs while they run, from its kernels (plugins/torch/kernels).

A row is an op and a function of its operands that gives the bytes of each piece. Ops without a row take nothing but,
here and there, a number of a few bytes. `tests/workshop/test_workspaces.py` holds the rows against the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from .allocator import SMALL_GRANULE

#: Operands by position, those by name, and the op's results.
Row = Callable[[Sequence[Any], Mapping[str, Any], Any], list[int]]

_LONG = 8
_HALVES = (torch.float16, torch.bfloat16)


def workspaces_of(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> list[int]:
    """Bytes of each piece of scratch memory of an op of ATen (`native_layer_norm`, `var.correction`)."""
    row = _ROWS.get(name)
    return [size for size in row(args, kwargs, out) if size] if row is not None else []


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _wide(tensor: torch.Tensor) -> int:
    """Bytes of a number of the dtype in which a reduction of a tensor is computed."""
    return 8 if tensor.dtype == torch.float64 else 4


def _rounded(size: int) -> int:
    return -(-size // SMALL_GRANULE) * SMALL_GRANULE


def _copies(dtype: torch.dtype, *tensors: torch.Tensor | None) -> list[int]:
    """Copies in float32 of what is in float16 beside inputs of float16."""
    return [
        4 * tensor.numel() for tensor in tensors if tensor is not None and dtype in _HALVES and tensor.dtype == dtype
    ]


# -- norms -------------------------------------------------------------------------------------------------------------


def _norm(tensors: Sequence[int], statistics: Sequence[int]) -> Row:
    """Of a norm: its parameters, and the results that are statistics, once more in float32 where all is in float16."""

    def row(args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> list[int]:
        dtype = args[0].dtype
        parameters = [args[index] for index in tensors if index < len(args)]
        return _copies(dtype, *parameters) + _copies(dtype, *(out[index] for index in statistics))

    return row


def _norm_backward(weight: int, mean: int, mask: int, input_: int) -> Row:
    """Of a norm's gradient: the variances, copies in float32, and the input's gradient where nobody asked for it."""

    def row(args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> list[int]:
        tensor, scale, moments = args[input_], args[weight], args[mean]
        pieces = _copies(tensor.dtype, scale, moments)
        if moments is not None:
            pieces.append(moments.numel() * _wide(tensor))
        if not args[mask][0] and out[0] is None:  # fake tensors have it among the results
            pieces.append(_bytes(tensor))
        return pieces + _copies(tensor.dtype, *(each for each in out[1:] if each is not None))

    return row


# -- recurrent cells ---------------------------------------------------------------------------------------------------


def _lstm_cell(args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> list[int]:
    return [_bytes(args[0]), *[_bytes(args[2])] * 4]


def _lstm_cell_backward(args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> list[int]:
    bias = _rounded(_bytes(out[2])) if out[2] is not None else 0
    return [max(0, 13 * _rounded(_bytes(args[2])) - bias)]


def _gru_cell(args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> list[int]:
    return [_bytes(args[0]), _bytes(args[1]), *[_bytes(args[2])] * 3]


def _gru_cell_backward(args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> list[int]:
    return [_bytes(args[0])] * 3


# -- others ------------------------------------------------------------------------------------------------------------


def _variance(args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> list[int]:
    tensor = args[0]
    result = out[0] if isinstance(out, (tuple, list)) else out
    wide = _wide(tensor)
    return [result.numel() * wide, tensor.numel() * wide, result.numel() * wide, wide]


def _vector_norm(args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> list[int]:
    order = args[1] if len(args) > 1 else kwargs.get("ord", 2)
    if order in (1, 2):
        return []
    if math.isinf(order):
        return [_bytes(args[0])]
    return [args[0].numel() * _wide(args[0]), out.numel() * _wide(args[0])]


def _max_pool_backward(args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> list[int]:
    return [args[0].numel() * args[1].element_size()]


def _reflection(args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> list[int]:
    high, wide = out.shape[-2:]
    return [out.numel() // high * args[0].shape[-2] * out.element_size(), max(high, wide) * _LONG]


def _reflection_backward(args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> list[int]:
    gradient = args[0]
    high, wide = gradient.shape[-2:]
    return [gradient.numel() // wide * out.shape[-1] * out.element_size(), _bytes(out), max(high, wide) * _LONG]


def _likelihood(args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> list[int]:
    rows = args[1].numel()
    size = args[0].element_size()
    weighted = [rows * size] if args[2] is not None else []
    return [rows * _LONG, rows * size, rows * size, *weighted]


def _likelihood_backward(args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> list[int]:
    rows, size = args[2].numel(), args[1].element_size()
    return [rows * _LONG, rows * size, rows * size, *[_LONG] * 3]


def _attention(query: int, key: int, mask: int, causal: int, dropout: int, back: bool) -> Row:
    """A mask of truths, and a causal one of sides that differ, are made into one that is added.

    With dropout there are the weights, or in the gradient two of them, what is dropped of each, and the mask of a
    causal product.
    """

    def row(args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> list[int]:
        given = args[mask] if len(args) > mask else kwargs.get("attn_bias")
        is_causal = args[causal] if len(args) > causal else kwargs.get("is_causal", False)
        rate = args[dropout] if len(args) > dropout else kwargs.get("dropout_p", 0.0)
        size = args[query].element_size()
        batch, heads, rows = args[query].shape[:3]
        columns = args[key].shape[2]
        if rate:
            weights = batch * heads * rows * columns
            if back:
                return [weights * size, weights * size, weights, weights]
            return [*([rows * columns * size] if is_causal else []), weights * size, weights]
        if given is not None and given.dtype == torch.bool:
            return [given.numel() * size]
        if is_causal and rows != columns:
            return [rows * columns * size]
        return []

    return row


def _unpacked(args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> list[int]:
    """Numbers of 4 bits, two in a byte, are a byte each before they are numbers."""
    return [out.numel()] if args[4] == 4 else []


_ROWS: dict[str, Row] = {
    "unihal::dequantize_weight": _unpacked,
    "native_layer_norm": _norm((2, 3), (1, 2)),
    "native_group_norm": _norm((1, 2), (1, 2)),
    "native_batch_norm": _norm((1, 2, 3, 4), (1, 2)),
    "_native_batch_norm_legit": _norm((1, 2, 3, 4), (1, 2)),
    "_native_batch_norm_legit.no_stats": _norm((1, 2), (1, 2)),
    "native_layer_norm_backward": _norm_backward(5, 3, 7, 1),
    "native_group_norm_backward": _norm_backward(4, 2, 9, 1),
    "native_batch_norm_backward": _norm_backward(2, 5, 9, 1),
    "_thnn_fused_lstm_cell": _lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": _lstm_cell_backward,
    "_thnn_fused_gru_cell": _gru_cell,
    "_thnn_fused_gru_cell_backward": _gru_cell_backward,
    "var.correction": _variance,
    "std.correction": _variance,
    "var_mean.correction": _variance,
    "std_mean.correction": _variance,
    "linalg_vector_norm": _vector_norm,
    "max_pool2d_with_indices_backward": _max_pool_backward,
    "reflection_pad2d": _reflection,
    "reflection_pad2d_backward": _reflection_backward,
    "nll_loss_forward": _likelihood,
    "nll_loss2d_forward": _likelihood,
    "nll_loss_backward": _likelihood_backward,
    "nll_loss2d_backward": _likelihood_backward,
    "_scaled_dot_product_fused_attention_overrideable": _attention(0, 1, 3, 5, 4, back=False),
    "_scaled_dot_product_fused_attention_overrideable_backward": _attention(1, 2, 4, 13, 12, back=True),
}
