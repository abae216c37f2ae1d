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


def test_dropout_is_one_op_of_paddles() -> None:
    """Two products, a softmax and a dropout; with a mask, and of all weights, Paddle composes it."""
    with on(DEVICE):
        query, key, value = operands()
        with unihal.profile() as recording:
            result = F.scaled_dot_product_attention(query, key, value, dropout_p=0.5)
        assert [event.op for event in recording.events] == ["matmul", "softmax", "dropout", "matmul"]
        assert {event.name for event in recording.events} == {"flash_attn"}
        with unihal.profile() as recording:
            result.backward(paddle.ones_like(result))
        assert [event.name for event in recording.events].count("flash_attn_grad") == 7
        mask = paddle.zeros([40, 40])
        for composed in ({"attn_mask": mask, "dropout_p": 0.5}, {"dropout_p": 1.0}):
            with unihal.profile() as recording:
                F.scaled_dot_product_attention(query, key, value, **composed)
            assert "flash_attn" not in {event.name for event in recording.events}
        every = F.scaled_dot_product_attention(query, key, paddle.ones_like(value), dropout_p=1.0)
        assert not every.numpy().any()


def attention_by_weights(tensors: list[Any], dy: Any, causal: bool, weights: Any, rate: float) -> list[Any]:
    """The result and the gradients in float64 of (batch, length, heads, features) with these weights after dropout."""
    q, k, v, dy = (tensor.transpose(0, 2, 1, 3).astype("float64") for tensor in (*tensors, dy))
    groups = q.shape[1] // k.shape[1]
    all_k, all_v = (np.repeat(x, groups, 1) for x in (k, v))
    scale = q.shape[-1] ** -0.5
    scores = scale * q @ all_k.swapaxes(2, 3)
    if causal:
        scores[..., np.triu(np.ones(scores.shape[2:], bool), 1)] = -np.inf
    every = np.exp(scores - scores.max(-1, keepdims=True))
    every /= every.sum(-1, keepdims=True)
    kept = (weights != 0) / (1 - rate)
    np.testing.assert_allclose(weights, every * kept, rtol=0.02, atol=1e-6)
    slopes = kept * (dy @ all_v.swapaxes(2, 3))
    moved = scale * every * (slopes - (every * slopes).sum(-1, keepdims=True))

    def of_groups(x: Any) -> Any:
        return x.reshape(x.shape[0], k.shape[1], groups, *x.shape[2:]).sum(2)

    results = (
        (every * kept) @ all_v,
        moved @ all_k,
        of_groups(moved.swapaxes(2, 3) @ q),
        of_groups((every * kept).swapaxes(2, 3) @ dy),
    )
    return [result.transpose(0, 2, 1, 3) for result in results]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(  # and the heads of keys and values
    ("op", "heads"), [("flash_attn", 4), ("flash_attn", 2), ("memory_efficient_attention", 4)]
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_dropout_and_its_gradients(dtype: str, op: str, heads: int, causal: bool) -> None:
    """What was dropped is seen where the values are a unit matrix."""
    rate, length = 0.4, 24
    arrays = [random(2, length, 4 if i == 0 else heads, length, seed=i) for i in range(3)]
    dy = random(2, length, 4, length, seed=3)

    def attend(q: Any, k: Any, v: Any) -> Any:
        paddle.seed(5)  # the same numbers each time
        if op == "flash_attn":
            return paddle._C_ops.flash_attn(q, k, v, None, None, rate, causal, False, False, "")[0]
        nothing = (None,) * 5
        return paddle._C_ops.memory_efficient_attention(
            q, k, v, *nothing, float(length), float(length), causal, rate, -1.0, False
        )[0]

    with on(DEVICE):
        tensors = [paddle.to_tensor(a).astype(dtype) for a in arrays]
        for tensor in tensors:
            tensor.stop_gradient = False
        units = paddle.to_tensor(np.broadcast_to(np.eye(length, dtype="f4")[:, None], arrays[1].shape)).astype(dtype)
        weights = to_numpy(attend(*tensors[:2], units).astype("float32")).transpose(0, 2, 1, 3)
        result = attend(*tensors)
        result.backward(paddle.to_tensor(dy).astype(dtype))
        actual = [to_numpy(x.astype("float32")) for x in (result, *(tensor.grad for tensor in tensors))]
        given = [to_numpy(tensor.astype("float32")) for tensor in tensors]
    visible = np.tril(np.ones((length, length), bool)) if causal else np.ones((length, length), bool)
    dropped = (weights[..., visible] == 0).mean()
    assert abs(dropped - rate) < 4 * np.sqrt(rate * (1 - rate) / weights[..., visible].size)
    expected = attention_by_weights(given, dy, causal, weights, rate)
    tolerance = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    for one, other in zip(actual, expected):
        assert np.abs(one - other).max() <= tolerance * np.abs(other).max()


@pytest.mark.parametrize(("queries", "keys", "features"), [(0, 5, 4), (5, 0, 4), (5, 6, 0)])
def test_dropout_where_there_is_nothing(queries: int, keys: int, features: int) -> None:
    with on(DEVICE):
        q, k, v = (
            paddle.ones([2, length, 3, size]) for length, size in ((queries, features), (keys, features), (keys, 2))
        )
        for tensor in (q, k, v):
            tensor.stop_gradient = False
        y = paddle._C_ops.flash_attn(q, k, v, None, None, 0.5, False, False, False, "")[0]
        y.backward(paddle.ones_like(y))
        assert y.shape == [2, queries, 3, 2] and v.grad.shape == v.shape
        if keys == 0:
            assert not y.numpy().any() and not q.grad.numpy().any()
        if queries == 0:
            assert not k.grad.numpy().any() and not v.grad.numpy().any()
        if features == 0:  # all weights are a sixth, or a third
            np.testing.assert_allclose(3 * y.numpy(), np.rint(3 * y.numpy()), rtol=1e-5)
            assert y.numpy().any()


def test_a_graph_drops_too() -> None:
    with on(DEVICE):
        query, key, value = operands()
        static = paddle.jit.to_static(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.5))
        first, second = static(query, key, value), static(query, key, value)
        assert (first.numpy() != second.numpy()).any()
        # Of one set of weights it is linear in the values.
        (gradient,) = paddle.grad([first], [value], [first])
        np.testing.assert_allclose(float((gradient * value).sum()), float((first * first).sum()), rtol=1e-4)


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
        refused = {
            "with a mask": (key, paddle.zeros([1, 1, 40, 40]), 0.5, False),
            "of all weights": (key, None, 1.0, False),
            "differ in number": (key[:, :30], None, 0.5, True),
        }
        for reason, (keys, mask, rate, causal) in refused.items():
            with pytest.raises(NotImplementedError, match=reason):
                paddle._C_ops.flash_attn(query, keys, keys, None, mask, rate, causal, False, False, "")
        with pytest.raises(NotImplementedError, match="return_softmax"):
            paddle._C_ops.flash_attn(query, key, value, None, None, 0.0, False, True, False, "")
        two_heads = key[:, :, :2]
        with pytest.raises(ValueError, match="a multiple"):
            paddle._C_ops.flash_attn(query[:, :, :3], two_heads, two_heads, None, None, 0.0, False, False, True, "")


@pytest.mark.parametrize("scale", [-1.0, -0.25, 0.0, 0.3, None])
def test_any_scale(scale: float | None) -> None:
    results = []
    for place in ("cpu", DEVICE):
        with on(place):
            query, key, value = operands()
            result = F.scaled_dot_product_attention(query, key, value, scale=scale)
            result.square().sum().backward()
            results.append([to_numpy(t) for t in (result, query.grad, key.grad, value.grad)])
    for theirs, ours in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4)
