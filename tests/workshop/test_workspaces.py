"""What single ops take besides their outputs, against the device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
import unihal
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from unihal_workshop.planning.workspaces import _ROWS, workspaces_of

#: Numbers of a few bytes, and blocks of 256.
SLACK = 1536


class Watch(TorchDispatchMode):
    """Bytes that each op took at its worst, beyond what was there before and after."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, tuple[int, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        device = unihal.device("rdna")
        device.reset_peak_memory_stats()
        before = device.memory_stats().allocated_bytes
        out = func(*args, **(kwargs or {}))
        stats = device.memory_stats()
        name = func.name().removeprefix("aten::")
        if any(isinstance(leaf, torch.Tensor) and leaf.device.type == "rdna" for leaf in pytree.tree_leaves(out)):
            planned = sum(-(-size // 256) * 256 for size in workspaces_of(name, args, kwargs or {}, out))
            self.seen[name] = (planned, stats.peak_allocated_bytes - max(before, stats.allocated_bytes))
        return out


def _cell(kind: type[torch.nn.Module]) -> Any:
    def run(x: torch.Tensor) -> torch.Tensor:
        layer = kind(96, 160, batch_first=True).to(x)
        return layer(x.reshape(8, 12, 96))[0]

    return run


RUNS: dict[str, Any] = {
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:], torch.ones_like(x[0]), torch.zeros_like(x[0])),
    "batch_norm": lambda x: torch.nn.BatchNorm1d(x.shape[1]).to(x)(x),
    "group_norm": lambda x: torch.nn.GroupNorm(4, x.shape[1]).to(x)(x),
    "var": lambda x: x.var(-1),
    "std_mean": lambda x: torch.std_mean(x, 1)[0],
    "norm": lambda x: torch.linalg.vector_norm(x, 3.0, -1),
    "norm_infinite": lambda x: torch.linalg.vector_norm(x, float("inf"), -1),
    "max_pool": lambda x: F.max_pool2d(x.reshape(2, 6, 8, 96), 2),
    "reflection": lambda x: F.pad(x.reshape(2, 6, 8, 96), (2, 2, 2, 2), "reflect"),
    "lstm": _cell(torch.nn.LSTM),
    "gru": _cell(torch.nn.GRU),
    "likelihood": lambda x: F.cross_entropy(x, torch.zeros(x.shape[0], dtype=torch.int64, device=x.device)),
    "attention_mask": lambda x: F.scaled_dot_product_attention(
        *[x.reshape(1, 2, 48, 96)] * 3, attn_mask=torch.ones(48, 48, dtype=torch.bool, device=x.device)
    ),
    "attention_causal": lambda x: F.scaled_dot_product_attention(
        x.reshape(1, 2, 48, 96), *[x.reshape(1, 2, 48, 96)[:, :, :40]] * 2, is_causal=True
    ),
    "attention_dropout": lambda x: F.scaled_dot_product_attention(*[x.reshape(1, 2, 48, 96)] * 3, dropout_p=0.5),
    "attention_dropout_causal": lambda x: F.scaled_dot_product_attention(
        *[x.reshape(1, 2, 48, 96)] * 3, dropout_p=0.5, is_causal=True
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["float32", "float16"])
@pytest.mark.parametrize("name", RUNS)
def test_scratch_memory_is_the_rows(name: str, dtype: torch.dtype) -> None:
    x = torch.randn(96, 96).to(dtype).to("rdna").requires_grad_(True)
    with Watch() as watch:
        RUNS[name](x).float().sum().backward()
    torch.rdna.synchronize()
    rows = [op for op in watch.seen if op in _ROWS]
    assert rows, watch.seen
    for op, (planned, taken) in watch.seen.items():
        assert abs(planned - taken) <= max(SLACK, 0.05 * taken), (op, planned, taken)
