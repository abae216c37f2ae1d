"""Weights in 8 or 4 bits: choosing scales, packing, and the modules that compute with them.

A weight is seen as (channels, columns): a channel is what one output needs. 8 bits are int8 from -127 to 127 with
a zero point of 0, 4 bits are two numbers a byte (uint8) from 0 to 15 with a zero point of 8; asymmetric ones have zero
points packed as the weights are. Scales are float16, or bfloat16 for a bfloat16 model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import unihal_torch.low_precision  # noqa: F401 - makes torch.ops.unihal.*
from torch import Tensor, nn
from torch.nn import functional
from unihal_torch.low_precision import pack_halves

#: Scales that are tried for 4 bits, as a part of what the largest weight of a block would need.
_RATIOS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)

#: Weights that are worked on at a time, so that a large layer takes little memory besides its own.
_CHUNK = 1 << 22


@dataclass(frozen=True)
class Format:
    """How weights are stored: `bits` 8 or 4, columns a scale (`block_size`, 0: the whole channel), symmetric or not."""

    bits: int = 8
    block_size: int = 0
    symmetric: bool = True

    def __post_init__(self) -> None:
        if self.bits not in (8, 4):
            raise ValueError(f"bits: expected 8 or 4, not {self.bits}")
        if self.block_size and (self.block_size < 16 or self.block_size & (self.block_size - 1)):
            raise ValueError(f"block_size: expected 0 (per channel) or a power of two from 16, not {self.block_size}")

    def blocks(self, columns: int) -> int:
        """Scales of a channel of so many columns."""
        return -(-columns // self.block_size) if self.block_size else 1

    @property
    def zero_point(self) -> float:
        """What is taken from a stored number where there are no zero points."""
        return 8.0 if self.bits == 4 else 0.0


def scale_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the scales of weights that were of `dtype`."""
    return torch.bfloat16 if dtype == torch.bfloat16 else torch.float16


def quantize_tensor(
    weight: Tensor, form: Format, importance: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """(channels, columns) -> stored weights, scales (channels, blocks) and zero points (None if symmetric).

    `importance` (columns): how much an error of a column counts; inputs' mean squares, say. With it, and for 4 bits,
    each block takes the scale of several that has the least squared error. On the device `meta` only shapes count.
    """
    if weight.dim() != 2 or not weight.is_floating_point():
        raise ValueError(f"expected floating weights (channels, columns), not {weight.dtype} {tuple(weight.shape)}")
    channels, columns = weight.shape
    blocks = form.blocks(columns)
    kept = scale_dtype(weight.dtype)
    stored_columns = columns if form.bits == 8 else -(-columns // 2)
    stored_dtype = torch.int8 if form.bits == 8 and form.symmetric else torch.uint8
    if weight.is_meta:
        zeros = None
        if not form.symmetric:
            zeros = weight.new_empty((channels, blocks if form.bits == 8 else -(-blocks // 2)), dtype=stored_dtype)
        return (
            weight.new_empty((channels, stored_columns), dtype=stored_dtype),
            weight.new_empty((channels, blocks), dtype=kept),
            zeros,
        )
    pieces = []
    rows = max(1, _CHUNK // max(columns, 1))
    for part in weight.detach().split(rows):
        pieces.append(_quantize_rows(part.to(torch.float32), form, importance, kept))
    data, scales, points = zip(*pieces)
    return torch.cat(data), torch.cat(scales), None if form.symmetric else torch.cat(points)


def _quantize_rows(
    weight: Tensor, form: Format, importance: Tensor | None, kept: torch.dtype
) -> tuple[Tensor, Tensor, Tensor | None]:
    channels, columns = weight.shape
    blocks = form.blocks(columns)
    width = form.block_size or columns
    padded = functional.pad(weight, (0, blocks * width - columns)).view(channels, blocks, width)
    counts: Tensor | None = None
    if importance is not None:
        counts = importance.to(weight.device, torch.float32).clamp_min(0)
        counts = functional.pad(counts, (0, blocks * width - columns)).view(1, blocks, width)
    ratios = _RATIOS if form.bits == 4 or importance is not None else _RATIOS[:1]
    best: tuple[Tensor, Tensor, Tensor | None] | None = None
    least = torch.full((channels, blocks, 1), math.inf, device=weight.device)
    for ratio in ratios:
        numbers, scales, zeros = _round(padded, form, ratio, kept)
        if len(ratios) == 1:
            best = (numbers, scales, zeros)
            break
        error = (numbers - (form.zero_point if zeros is None else zeros)) * scales - padded
        error = error.square() if counts is None else error.square() * counts
        total = error.sum(-1, keepdim=True)
        better = total < least
        least = torch.where(better, total, least)
        if best is None:
            best = (numbers, scales, zeros)
            continue
        best = (
            torch.where(better, numbers, best[0]),
            torch.where(better, scales, best[1]),
            None if zeros is None or best[2] is None else torch.where(better, zeros, best[2]),
        )
    assert best is not None
    numbers, scales, zeros = best
    flat = numbers.view(channels, blocks * width)[:, :columns]
    stored = flat.to(torch.int8 if form.bits == 8 and form.symmetric else torch.uint8)
    points = None if zeros is None else zeros.view(channels, blocks).to(torch.uint8)
    if form.bits == 4:
        stored = pack_halves(stored)
        points = None if points is None else pack_halves(points)
    return stored.contiguous(), scales.view(channels, blocks).to(kept), points


def _round(blocks: Tensor, form: Format, ratio: float, kept: torch.dtype) -> tuple[Tensor, Tensor, Tensor | None]:
    """Stored numbers (as float32), scales rounded to what is kept, zero points."""
    tiny = 2.0**-24 if kept == torch.float16 else torch.finfo(kept).tiny
    if form.symmetric:
        most = 127 if form.bits == 8 else 7
        largest = blocks.abs().amax(-1, keepdim=True) * ratio
        scales = (largest / most).to(kept).to(torch.float32).clamp_min(tiny)
        numbers = torch.round(blocks / scales).clamp(-most - (form.bits == 4), most)
        return numbers + form.zero_point, scales, None
    most = 255 if form.bits == 8 else 15
    low = blocks.amin(-1, keepdim=True).clamp_max(0) * ratio
    high = blocks.amax(-1, keepdim=True).clamp_min(0) * ratio
    scales = ((high - low) / most).to(kept).to(torch.float32).clamp_min(tiny)
    zeros = torch.round(-low / scales).clamp(0, most)
    return (torch.round(blocks / scales) + zeros).clamp(0, most), scales, zeros


class QuantizedModule(nn.Module):
    """What modules with weights of few bits share: buffers `stored`, `scales`, `zero_points` (or None)."""

    stored: Tensor
    scales: Tensor
    zero_points: Tensor | None

    def __init__(self, weight: Tensor, form: Format, importance: Tensor | None = None) -> None:
        super().__init__()
        self.form = form
        self.columns = weight.shape[1]
        self.weight_dtype = weight.dtype
        stored, scales, zeros = quantize_tensor(weight, form, importance)
        self.register_buffer("stored", stored)
        self.register_buffer("scales", scales)
        self.register_buffer("zero_points", zeros)

    def dense(self, dtype: torch.dtype | None = None) -> Tensor:
        """The weights as numbers, (channels, columns), made anew with each call."""
        dense: Tensor = torch.ops.unihal.dequantize_weight(
            self.stored,
            self.scales,
            self.zero_points,
            self.columns,
            self.form.bits,
            self.form.block_size,
            self.form.zero_point,
            dtype or self.weight_dtype,
        )
        return dense

    def multiply(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """x @ weight.T + bias."""
        y: Tensor = torch.ops.unihal.matmul_quantized(
            x,
            self.stored,
            self.scales,
            self.zero_points,
            bias,
            self.form.bits,
            self.form.block_size,
            self.form.zero_point,
            "none",
        )
        return y

    @property
    def weight(self) -> Tensor:
        """The weights in the shape of the module that this one stands for, made anew: for code that asks for them."""
        return self.dense()

    def extra_repr(self) -> str:
        """For PyTorch's text of a model."""
        width = f"blocks of {self.form.block_size}" if self.form.block_size else "per channel"
        return f"{self.stored.shape[0]}x{self.columns}, {self.form.bits} bits, {width}"


class QuantizedLinear(QuantizedModule):
    """`nn.Linear` with weights of few bits: one op of the device, that reads them as they are."""

    def __init__(self, weight: Tensor, bias: Tensor | None, form: Format, importance: Tensor | None = None) -> None:
        super().__init__(weight, form, importance)
        self.in_features, self.out_features = self.columns, weight.shape[0]
        self.bias = None if bias is None else nn.Parameter(bias.detach(), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) -> (..., out_features)."""
        return self.multiply(x, self.bias)


class TiedLinear(QuantizedModule):
    """A linear layer with the weights of another module, as decoders have that tie their embedding and their head.

    It holds the module rather than the buffers, since `Module.to` copies a buffer that two modules have twice.
    """

    def __init__(self, source: QuantizedModule, bias: Tensor | None) -> None:
        nn.Module.__init__(self)
        self.source = source
        self.form, self.columns, self.weight_dtype = source.form, source.columns, source.weight_dtype
        self.in_features, self.out_features = self.columns, source.stored.shape[0]
        self.bias = None if bias is None else nn.Parameter(bias.detach(), requires_grad=False)

    def dense(self, dtype: torch.dtype | None = None) -> Tensor:
        """The weights as numbers, made anew."""
        return self.source.dense(dtype)

    def extra_repr(self) -> str:
        """For PyTorch's text of a model."""
        return "tied"

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) -> (..., out_features)."""
        return self.source.multiply(x, self.bias)


class QuantizedConvolution(QuantizedModule):
    """`nn.Conv2d` (or 1-d, 3-d) whose weights are made numbers for each call, a layer's at a time."""

    def __init__(self, module: Any, form: Format, importance: Tensor | None = None) -> None:
        super().__init__(module.weight.detach().flatten(1), form, importance)
        self.shape = tuple(module.weight.shape)
        self.stride, self.dilation, self.groups = module.stride, module.dilation, module.groups
        self.padding, self.padding_mode = module.padding, module.padding_mode
        self.in_channels, self.out_channels = module.in_channels, module.out_channels
        self.kernel_size = module.kernel_size
        self._around: Any = getattr(module, "_reversed_padding_repeated_twice", None)
        self._convolve = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}[len(self.shape) - 2]
        bias = module.bias
        self.bias = None if bias is None else nn.Parameter(bias.detach(), requires_grad=False)

    @property
    def weight(self) -> Tensor:
        """The weights in the convolution's shape, made anew."""
        return self.dense().view(self.shape)

    def forward(self, x: Tensor) -> Tensor:
        """As the module that this one stands for."""
        padding = self.padding
        if self.padding_mode != "zeros":
            x = functional.pad(x, self._around, mode=self.padding_mode)
            padding = 0
        dense = self.dense(x.dtype).view(self.shape)
        bias = None if self.bias is None else self.bias.to(x.dtype)
        y: Tensor = self._convolve(x, dense, bias, self.stride, padding, self.dilation, self.groups)
        return y


class QuantizedEmbedding(QuantizedModule):
    """`nn.Embedding` whose rows become numbers when they are looked up."""

    def __init__(self, module: Any, form: Format) -> None:
        super().__init__(module.weight.detach(), form)
        self.num_embeddings, self.embedding_dim = module.num_embeddings, module.embedding_dim
        self.padding_idx = module.padding_idx

    def forward(self, indices: Tensor) -> Tensor:
        """(...) of whole numbers -> (..., embedding_dim)."""
        flat = indices.reshape(-1)
        zeros = None if self.zero_points is None else self.zero_points.index_select(0, flat)
        rows: Tensor = torch.ops.unihal.dequantize_weight(
            self.stored.index_select(0, flat),
            self.scales.index_select(0, flat),
            zeros,
            self.columns,
            self.form.bits,
            self.form.block_size,
            self.form.zero_point,
            self.weight_dtype,
        )
        return rows.view(*indices.shape, self.columns)


def replacement(
    module: Any, form: Format, importance: Tensor | None = None, share: QuantizedModule | None = None
) -> QuantizedModule | None:
    """The module with weights of few bits that stands for `module`; None where there is none for its class."""
    kind = type(module).__name__
    made: QuantizedModule | None = None
    if isinstance(module, nn.Linear):
        if share is None:
            made = QuantizedLinear(module.weight, module.bias, form, importance)
        else:
            made = TiedLinear(share, module.bias)
    elif isinstance(module, nn.Embedding) and module.max_norm is None:
        made = QuantizedEmbedding(module, form)
    elif isinstance(module, nn.modules.conv._ConvNd) and not getattr(module, "transposed", False):
        made = QuantizedConvolution(module, form, importance)
    elif kind == "Conv1D" and hasattr(module, "nf"):  # GPT-2's linear layers, (columns, channels) in memory
        made = QuantizedLinear(module.weight.detach().t(), module.bias, form, importance)
    if made is not None:
        made.train(module.training)
    return made
