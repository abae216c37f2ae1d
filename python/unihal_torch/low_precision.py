"""Ops that PyTorch has not, as ``torch.ops.unihal.*``, on every device: importing this module makes them.

===========================  ==========================================================================================
``matmul_quantized``         activation(x @ w.T + bias) of weights that stay in 8 or 4 bits
``dequantize_weight``        those weights as numbers
``group_norm_activation``    activation(group_norm(x)) in one pass
``rms_norm``                 x / sqrt(mean(x**2) + epsilon) * weight, along the last axis
===========================  ==========================================================================================

Weights are (channels, columns) of int8 or uint8, of 4 bits (channels, ceil(columns / 2)) of uint8 with column 2 i in
the low half of byte i; ``w = (q - zero) * scales``. Scales are floating, (channels, blocks), ``block_size`` columns a
block (a power of two from 16; 0: one block). Zero points are optional: of the weights' dtype and packed as they are, or
floating, (channels, blocks); without them the number ``zero_point`` stands for all. Activations are none, relu, relu6,
gelu, gelu_tanh, sigmoid, tanh and silu.

On unihal's device they are the ABI's ops (plugins/torch/kernels/low_precision.cc). Elsewhere, and in traces, the same
is composed of PyTorch's ops. Gradients go to ``x`` alone, weights of few bits and parameters of norms are constants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

#: The functions that an op may end with.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": functional.relu,
    "relu6": functional.relu6,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "silu": functional.silu,
}

_SCHEMAS = (
    "matmul_quantized(Tensor x, Tensor weight, Tensor scales, Tensor? zero_points, Tensor? bias, int bits, "
    "int block_size, float zero_point, str activation) -> Tensor",
    "dequantize_weight(Tensor weight, Tensor scales, Tensor? zero_points, int columns, int bits, int block_size, "
    "float zero_point, ScalarType dtype) -> Tensor",
    "group_norm_activation(Tensor x, int groups, Tensor? weight, Tensor? bias, float epsilon, str activation) "
    "-> Tensor",
    "rms_norm(Tensor x, Tensor? weight, float epsilon) -> Tensor",
)

_library = torch.library.Library("unihal", "DEF")
for _schema in _SCHEMAS:
    _library.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))


def _activation(name: str) -> Callable[[Tensor], Tensor]:
    if name not in ACTIVATIONS:
        raise ValueError(f"activation {name!r}: expected {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def pack_halves(numbers: Tensor) -> Tensor:
    """Numbers from 0 to 15 (uint8), one an element, as two a byte along the last axis, the low half first."""
    if numbers.dtype != torch.uint8:
        raise TypeError(f"pack_halves: expected uint8, not {numbers.dtype}")
    if numbers.shape[-1] % 2:
        numbers = functional.pad(numbers, (0, 1))
    return numbers[..., 0::2] | (numbers[..., 1::2] << 4)


def unpack_halves(packed: Tensor, count: int) -> Tensor:
    """The inverse of :func:`pack_halves`: the first ``count`` numbers of the last axis, a byte each."""
    return torch.stack((packed & 15, packed >> 4), dim=-1).flatten(-2)[..., :count]


def _check_weights(weight: Tensor, scales: Tensor, columns: int, bits: int, block_size: int) -> None:
    if bits not in (8, 4):
        raise ValueError(f"bits: expected 8 or 4, not {bits}")
    if block_size and (block_size < 16 or block_size & (block_size - 1)):
        raise ValueError(f"block_size: expected 0 or a power of two from 16, not {block_size}")
    if weight.dtype != torch.uint8 and (bits == 4 or weight.dtype != torch.int8):
        raise TypeError(f"weight: expected uint8{' or int8' if bits == 8 else ''}, not {weight.dtype}")
    stored = columns if bits == 8 else -(-columns // 2)
    if weight.dim() != 2 or weight.shape[1] != stored:
        raise RuntimeError(
            f"weight: {columns} columns of {bits} bits take {stored} bytes, the shape is {tuple(weight.shape)}"
        )
    blocks = -(-columns // block_size) if block_size else 1
    if tuple(scales.shape) != (weight.shape[0], blocks):
        raise RuntimeError(f"scales: expected ({weight.shape[0]}, {blocks}), not {tuple(scales.shape)}")
    if not scales.is_floating_point():
        raise TypeError(f"scales: expected a floating dtype, not {scales.dtype}")


def _dequantize(
    weight: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    columns: int,
    bits: int,
    block_size: int,
    zero_point: float,
    dtype: torch.dtype,
) -> Tensor:
    _check_weights(weight, scales, columns, bits, block_size)
    numbers = (unpack_halves(weight, columns) if bits == 4 else weight).to(torch.float32)
    wide = scales.to(torch.float32)
    zeros: Tensor | float = zero_point
    if zero_points is not None:
        is_packed = bits == 4 and not zero_points.is_floating_point()
        zeros = (unpack_halves(zero_points, scales.shape[1]) if is_packed else zero_points).to(torch.float32)
    if block_size:
        wide = wide.repeat_interleave(block_size, 1)[:, :columns]
        if isinstance(zeros, Tensor):
            zeros = zeros.repeat_interleave(block_size, 1)[:, :columns]
    return ((numbers - zeros) * wide).to(dtype)


def _matmul_quantized(
    x: Tensor,
    weight: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    bias: Tensor | None,
    bits: int,
    block_size: int,
    zero_point: float,
    activation: str,
) -> Tensor:
    dense = _dequantize(weight, scales, zero_points, x.shape[-1], bits, block_size, zero_point, x.dtype)
    return _activation(activation)(functional.linear(x, dense, None if bias is None else bias.to(x.dtype)))


def _group_norm_activation(
    x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, epsilon: float, activation: str
) -> Tensor:
    return _activation(activation)(functional.group_norm(x, groups, weight, bias, epsilon))


def _rms_norm(x: Tensor, weight: Tensor | None, epsilon: float) -> Tensor:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    return (wide if weight is None else wide * weight.to(wide.dtype)).to(x.dtype)


_COMPOSED: dict[str, Callable[..., Tensor]] = {
    "matmul_quantized": _matmul_quantized,
    "dequantize_weight": _dequantize,
    "group_norm_activation": _group_norm_activation,
    "rms_norm": _rms_norm,
}
for _name, _function in _COMPOSED.items():
    for _key in ("CPU", "CUDA"):
        _library.impl(_name, _function, _key)


# -- shapes, for traces ------------------------------------------------------------------------------------------------


def _product_shape(x: Tensor, weight: Tensor, scales: Tensor, zero_points: Any, bias: Any, *_: Any) -> Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def _weight_shape(
    weight: Tensor,
    scales: Tensor,
    zero_points: Any,
    columns: int,
    bits: int,
    block_size: int,
    zero_point: float,
    dtype: torch.dtype,
) -> Tensor:
    return weight.new_empty((weight.shape[0], columns), dtype=dtype)


def _group_norm_shape(x: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(x)


def _rms_norm_shape(x: Tensor, *_: Any) -> Tensor:
    return x.new_empty(x.shape)


torch.library.register_fake("unihal::matmul_quantized", _product_shape, lib=_library)
torch.library.register_fake("unihal::dequantize_weight", _weight_shape, lib=_library)
torch.library.register_fake("unihal::group_norm_activation", _group_norm_shape, lib=_library)
torch.library.register_fake("unihal::rms_norm", _rms_norm_shape, lib=_library)


# -- gradients ---------------------------------------------------------------------------------------------------------


def _save_product(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, scales, zero_points, bias, bits, block_size, zero_point, activation = inputs
    ctx.save_for_backward(x if activation != "none" else None, weight, scales, zero_points, bias)
    ctx.numbers = (x.shape[-1], bits, block_size, zero_point)
    ctx.activation = activation


def _product_backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    x, weight, scales, zero_points, bias = ctx.saved_tensors
    dense = torch.ops.unihal.dequantize_weight(weight, scales, zero_points, *ctx.numbers, gradient.dtype)
    if ctx.activation != "none":
        with torch.enable_grad():
            before = functional.linear(x.detach(), dense, bias).detach().requires_grad_()
            (gradient,) = torch.autograd.grad(_activation(ctx.activation)(before), before, gradient)
    return (gradient @ dense, *(None,) * 8)


torch.library.register_autograd(
    "unihal::matmul_quantized", _product_backward, setup_context=_save_product, lib=_library
)


def _save_all(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    tensors = [value if isinstance(value, Tensor) else None for value in inputs]
    ctx.save_for_backward(*tensors)
    ctx.others = [None if isinstance(value, Tensor) else value for value in inputs]


def _composed_backward(name: str) -> Callable[..., tuple[Tensor | None, ...]]:
    """The gradient of the composed form: forward again, and back through PyTorch's own ops."""

    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs = [other if tensor is None else tensor for tensor, other in zip(ctx.saved_tensors, ctx.others)]
        with torch.enable_grad():
            x = inputs[0].detach().requires_grad_()
            (found,) = torch.autograd.grad(_COMPOSED[name](x, *inputs[1:]), x, gradient)
        return (found, *(None,) * (len(inputs) - 1))

    return backward


for _name in ("group_norm_activation", "rms_norm"):
    torch.library.register_autograd(
        f"unihal::{_name}", _composed_backward(_name), setup_context=_save_all, lib=_library
    )
