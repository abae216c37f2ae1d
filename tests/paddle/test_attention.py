"""Attention on the device is one op wherever that computes what was asked for; its numbers are test_kernels' cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import unihal
from comparison import DEVICE, on, random, to_numpy

pytestmark = pytest.mark.skipif(
    not hasattr(F, "sdpa"), reason="before 3.3 Paddle composes attention on other devices than CUDA's"
)

SHAPE = (2, 40, 4, 8)


def operands(dtype: str = "float32") -> list[Any]:
    tensors = [paddle.to_tensor(random(*SHAPE, seed=seed)).astype(dtype) for seed in range(3)]
    for tensor in tensors:
        tensor.stop_gradient = False
    return tensors


def ops_of(call: Callable[[], Any]) -> set[str]:
    """The names of the ops that a call and its gradient launch."""
    with unihal.profile() as recording:
        result = call()
        result.astype("float32").sum().backward()
        paddle.device.synchronize()
    return {total.op for total in recording.totals}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("attributes", [{}, {"is_causal": True}, {"scale": 0.5}, {"dropout_p": 0.3, "training": False}])
def test_it_is_one_op(dtype: str, attributes: dict[str, Any]) -> None:
    with on(DEVICE):
        query, key, value = operands(dtype)
        ops = ops_of(lambda: F.scaled_dot_product_attention(query, key, value, **attributes))
    if dtype == "float64" and "scale" in attributes:
        assert "softmax" in ops  # the kernel's scale has float32's precision
    else:
        assert {"attention", "attention_backward"} <= ops
        assert not {"matmul", "softmax"} & ops


def test_flash_attention_is_one_op() -> None:
    with on(DEVICE):
        query, key, value = operands("bfloat16")
        ops = ops_of(lambda: F.flash_attention.flash_attention(query, key, value, causal=True)[0])
    assert {"attention", "attention_backward"} <= ops
    assert not {"matmul", "softmax"} & ops


def test_what_the_user_allows_stays_in_force() -> None:
    from paddle.nn.attention import SDPBackend, sdpa_kernel

    with on(DEVICE):
        query, key, value = operands()
        with sdpa_kernel(SDPBackend.MATH):
            ops = ops_of(lambda: F.scaled_dot_product_attention(query, key, value, is_causal=True))
        assert "attention" not in ops and "softmax" in ops
        with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
            ops = ops_of(lambda: F.scaled_dot_product_attention(query, key, value, is_causal=True))
        assert "attention" in ops


def test_dropout_is_composed_and_drops() -> None:
    with on(DEVICE):
        query, key, value = operands()
        ops = ops_of(lambda: F.scaled_dot_product_attention(query, key, value, dropout_p=0.5, is_causal=True))
        assert "attention" not in ops and "softmax" in ops
        every = F.scaled_dot_product_attention(query, key, paddle.ones_like(value), dropout_p=1.0)
        assert not every.numpy().any()


def test_composed_causal_attention_hides_later_columns() -> None:
    """Of 32 columns and more Paddle composes it by a kernel of its own for the softmax below the diagonal."""
    scores = paddle.to_tensor(random(1, 2, 40, 40))
    with on(DEVICE):
        x = scores.astype("float32").to(DEVICE)
        x.stop_gradient = False
        weights = paddle.incubate.softmax_mask_fuse_upper_triangle(x)
        (weights * x.detach()).sum().backward()
        actual, gradient = weights.numpy(), x.grad.numpy()
    hidden = np.triu(np.ones((40, 40), bool), 1)
    masked = np.where(hidden, -np.inf, scores.numpy())
    expected = np.exp(masked - masked.max(-1, keepdims=True))
    expected /= expected.sum(-1, keepdims=True)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    moved = expected * (scores.numpy() - (expected * scores.numpy()).sum(-1, keepdims=True))
    np.testing.assert_allclose(gradient, moved, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_to_static_is_one_op_too(causal: bool) -> None:
    def attend(query: Any, key: Any, value: Any) -> Any:
        return F.scaled_dot_product_attention(query, key, value, is_causal=causal)

    with on(DEVICE):
        query, key, value = operands()
        expected = attend(query, key, value)
        static = paddle.jit.to_static(attend)
        static(query, key, value)
        ops = ops_of(lambda: static(query, key, value))
        np.testing.assert_array_equal(to_numpy(static(query, key, value)), to_numpy(expected))
    assert {"attention", "attention_backward"} <= ops


def test_mixed_precision_attends_in_the_narrow_dtype() -> None:
    with on(DEVICE):
        query, key, value = operands()
        with paddle.amp.auto_cast(dtype="bfloat16"):
            assert F.scaled_dot_product_attention(query, key, value).dtype == paddle.bfloat16


def test_what_the_kernels_do_not_compute_is_an_error_that_says_so() -> None:
    with on(DEVICE):
        query, key, value = operands()
        with pytest.raises(NotImplementedError, match="dropout of attention's weights"):
            paddle._C_ops.flash_attn(query, key, value, None, None, 0.5, False, False, False, "")
        with pytest.raises(NotImplementedError, match="return_softmax"):
            paddle._C_ops.flash_attn(query, key, value, None, None, 0.0, False, True, False, "")
        two_heads = key[:, :, :2]
        with pytest.raises(ValueError, match="a multiple"):
            paddle._C_ops.flash_attn(query[:, :, :3], two_heads, two_heads, None, None, 0.0, False, False, True, "")
