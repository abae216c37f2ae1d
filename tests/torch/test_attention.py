"""scaled_dot_product_attention with dropout, whose weights are drawn on the device."""

from __future__ import annotations

import pytest
import torch
import unihal
from torch.nn import functional

DEVICE = torch._C._get_privateuse1_backend_name()
ON = getattr(torch, DEVICE)
#: Of the largest number of what is compared: scores, weights and products are rounded to the dtype.
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-14, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_dropout_is_of_the_weights(dtype: torch.dtype, causal: bool) -> None:
    """What is dropped shows where the values are an identity; by it the definition gives the result and gradients."""
    before = unihal.fallbacks()
    torch.manual_seed(0)
    batch, heads, queries, keys, width, rate = 2, 3, 9 if causal else 7, 9, 16, 0.3
    # Heads as models split them: rows of all heads.
    q, k, v = (
        torch.randn(batch, length, heads, width, device=DEVICE, dtype=dtype).transpose(1, 2).requires_grad_()
        for length in (queries, keys, keys)
    )
    identity = torch.eye(keys, device=DEVICE, dtype=dtype).expand(batch, heads, keys, keys).contiguous()
    state = ON.get_rng_state()
    kept = functional.scaled_dot_product_attention(q, k, identity, dropout_p=rate, is_causal=causal) != 0
    ON.set_rng_state(state)
    result = functional.scaled_dot_product_attention(q, k, v, dropout_p=rate, is_causal=causal)
    gradient = torch.randn_like(result)
    result.backward(gradient)
    if dtype != torch.float64:  # of that PyTorch composes it, for second derivatives
        assert result.stride() == q.stride()
    assert unihal.fallbacks() == before

    exact = [x.detach().cpu().double().requires_grad_() for x in (q, k, v)]
    scores = exact[0] @ exact[1].mT / width**0.5
    if causal:
        scores = scores.masked_fill(torch.ones(queries, keys).triu(1).bool(), float("-inf"))
    expected = scores.softmax(-1) * kept.cpu() / (1 - rate) @ exact[2]
    expected.backward(gradient.cpu().double())
    visible = (scores > float("-inf")).sum()
    assert abs(float(kept.sum() / visible) - (1 - rate)) < 0.1  # three deviations of so many draws
    for ours, theirs in [(result, expected), *((a.grad, b.grad) for a, b in zip((q, k, v), exact, strict=True))]:
        error = (ours.detach().cpu().double() - theirs.detach()).abs().max() / theirs.detach().abs().max()
        assert error < TOLERANCE[dtype]


def test_a_mask_with_dropout_hides_rows_as_the_cpu_does() -> None:
    """A row that sees nothing is 0, not NaN."""
    q = torch.randn(1, 1, 4, 8, device=DEVICE)
    mask = torch.ones(4, 4, dtype=torch.bool, device=DEVICE)
    mask[1] = False
    result = functional.scaled_dot_product_attention(q, q, q, mask, dropout_p=0.5)
    assert result[0, 0, 1].abs().sum() == 0 and bool(result.isfinite().all())
