"""Norms that end with their activation, in one pass over memory, and RMS norms as one op instead of six.

`fuse(model)` replaces, in a model for inference:

| what | where |
|---|---|
| a group norm and the SiLU after it | diffusers' residual blocks, and the ends of its UNets, encoders and decoders |
| neighbours in a `torch.nn.Sequential`: GroupNorm and an activation | any model |
| RMS norms (`weight`, and `variance_epsilon` or `eps`) | transformers' LLaMA, Mistral, Qwen and their like |
"""

from __future__ import annotations

from typing import Any

import torch
import unihal_torch.low_precision  # noqa: F401 - makes torch.ops.unihal.*
from torch import Tensor, nn

#: Activations as modules, and what the op calls them.
_NAMES: dict[type[nn.Module], str] = {
    nn.ReLU: "relu",
    nn.ReLU6: "relu6",
    nn.SiLU: "silu",
    nn.Sigmoid: "sigmoid",
    nn.Tanh: "tanh",
}

#: RMS norms of transformers whose formula is x / sqrt(mean(x^2) + eps) * weight.
_RMS_NORMS = frozenset(
    f"{family}RMSNorm" for family in ("Llama", "Mistral", "Mixtral", "Qwen2", "Qwen3", "Phi3", "Olmo2", "Granite")
) | {"T5LayerNorm"}


def activation_name(module: nn.Module) -> str:
    """What the fused ops call an activation; "" for one that they have not."""
    if isinstance(module, nn.GELU):
        return "gelu_tanh" if module.approximate == "tanh" else "gelu"
    return _NAMES.get(type(module), "")


class FusedGroupNorm(nn.Module):
    """A group norm that ends with an activation; it has the parameters of the one that it stands for."""

    def __init__(self, norm: nn.GroupNorm, activation: str) -> None:
        super().__init__()
        self.num_groups, self.num_channels, self.eps = norm.num_groups, norm.num_channels, norm.eps
        self.weight, self.bias = norm.weight, norm.bias
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, ...) -> the same."""
        y: Tensor = torch.ops.unihal.group_norm_activation(
            x, self.num_groups, self.weight, self.bias, self.eps, self.activation
        )
        return y

    def extra_repr(self) -> str:
        """For PyTorch's text of a model."""
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, activation={self.activation}"


class FusedRMSNorm(nn.Module):
    """An RMS norm along the last axis, as one op."""

    def __init__(self, norm: Any) -> None:
        super().__init__()
        self.weight = norm.weight
        self.eps = float(getattr(norm, "variance_epsilon", getattr(norm, "eps", 1e-6)))

    def forward(self, x: Tensor) -> Tensor:
        """(..., channels) -> the same."""
        y: Tensor = torch.ops.unihal.rms_norm(x, self.weight, self.eps)
        return y


def _is_rms_norm(module: nn.Module) -> bool:
    weight = getattr(module, "weight", None)
    known = type(module).__name__ in _RMS_NORMS and isinstance(weight, Tensor)
    return known and (hasattr(module, "variance_epsilon") or hasattr(module, "eps"))


def _fuse_pair(owner: Any, norm: str, activation: str) -> int:
    """Of attributes that a forward calls one after the other: the norm takes the activation, which becomes nothing."""
    first, second = getattr(owner, norm, None), getattr(owner, activation, None)
    if not isinstance(first, nn.GroupNorm) or second is None:
        return 0
    name = activation_name(second)
    if not name:
        return 0
    setattr(owner, norm, FusedGroupNorm(first, name))
    setattr(owner, activation, nn.Identity())
    return 1


def _fuse_residual_block(block: Any) -> int:
    """diffusers' ResnetBlock2D: norm1, nonlinearity, conv1, time embedding, norm2, nonlinearity, conv2."""
    name = activation_name(block.nonlinearity)
    norms = (block.norm1, block.norm2)
    fits = name and all(isinstance(norm, nn.GroupNorm) for norm in norms)
    if not fits or getattr(block, "time_embedding_norm", "default") == "scale_shift":
        return 0
    block.norm1, block.norm2 = (FusedGroupNorm(norm, name) for norm in norms)
    projection = getattr(block, "time_emb_proj", None)
    if projection is not None and not getattr(block, "skip_time_act", False):
        # The one activation of the block serves the time embedding too, which keeps its own.
        block.time_emb_proj = nn.Sequential(block.nonlinearity, projection)
    block.nonlinearity = nn.Identity()
    return 2


def fuse(model: nn.Module) -> int:
    """Fuses what the table above names, in place; gives how many norms were replaced. For inference."""
    count = 0
    for module in list(model.modules()):
        if isinstance(module, nn.Sequential):
            for at in range(len(module) - 1):
                name = activation_name(module[at + 1])
                norm = module[at]
                if isinstance(norm, nn.GroupNorm) and name:
                    module[at], module[at + 1] = FusedGroupNorm(norm, name), nn.Identity()
                    count += 1
        elif type(module).__name__ == "ResnetBlock2D":
            count += _fuse_residual_block(module)
        elif hasattr(module, "conv_norm_out"):
            count += _fuse_pair(module, "conv_norm_out", "conv_act")
        for child, inner in list(module.named_children()):
            if _is_rms_norm(inner):
                setattr(module, child, FusedRMSNorm(inner))
                count += 1
    return count
