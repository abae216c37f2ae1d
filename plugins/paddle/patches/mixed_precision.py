"""Linear and attention layers under automatic mixed precision, which on our devices are as narrow as their products.

Paddle's own GPUs have linear layers so since 3.3, by an op that the list of narrow ops names (linear_v2) and whose
second gradients fail. Elsewhere the sum with a float32 bias widens the product, and what follows keeps float32 for its
gradients. Before 3.3 layers are as wide as Paddle makes them.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable

from unihal_paddle_device import present_device_is_ours


def linear_layers_are_narrow() -> bool:
    return "linear_v2" in sys.modules["paddle.amp.amp_lists"].WHITE_LIST


def narrow_sums() -> tuple[Callable[[], bool], Callable[[Any, Any], Any]]:
    """For linear layers: whether a call is to be narrow, and the sum of such a product and a bias."""
    paddle, framework = sys.modules["paddle"], sys.modules["paddle.base.framework"]
    ops, mixed_precision = paddle._C_ops, framework.core._get_amp_attrs

    def wanted() -> bool:
        return (
            mixed_precision()._amp_dtype != "float32"
            and framework.in_dynamic_or_pir_mode()
            and present_device_is_ours()
        )

    def add(product: Any, bias: Any) -> Any:
        if bias is None:
            return product
        # A dtype is one object here, which `in` looks for before it compares: that takes a fifth of an op.
        dtype, given = product.dtype, bias.dtype
        if given is not dtype and dtype in (paddle.bfloat16, paddle.float16) and given in (paddle.float32,):
            bias = ops.cast(bias, dtype)
        result = ops.add(product, bias)
        # A level at which only what is on the list is narrow.
        return result if result.dtype in (dtype,) else ops.cast(result, dtype)

    return wanted, add


def patch_linear(functional: Any) -> None:
    if not linear_layers_are_narrow():
        return
    common = functional.common
    ops, original = common._C_ops, common.linear
    is_narrow, add = narrow_sums()

    @functools.wraps(original)
    def linear(x: Any, weight: Any, bias: Any = None, name: str | None = None) -> Any:
        if not is_narrow():
            return original(x, weight, bias, name)
        return add(ops.matmul(x, weight, False, False), bias)

    common.linear = functional.linear = linear


def patch_compatible_linear(functional: Any) -> None:
    """The same for the function with PyTorch's arguments, whose layer calls what lies in its decorator."""
    if not linear_layers_are_narrow():
        return
    ops, original = functional._C_ops, functional.linear.__wrapped__
    is_narrow, add = narrow_sums()

    @functools.wraps(original)
    def linear(input: Any, weight: Any, bias: Any = None) -> Any:
        if not is_narrow():
            return original(input, weight, bias)
        return add(ops.matmul(input, weight, False, True), bias)

    functional.linear = functional.ForbidKeywordsDecorator(
        illegal_keys={"x", "name"},
        func_name="paddle.compat.nn.functional.linear",
        correct_name="paddle.nn.functional.linear",
    )(linear)


def patch_multi_head_attention(module: Any) -> None:
    """Between two narrow products the weights of an attention layer stay narrow: our softmax computes in float32
    whatever it reads and writes, and Paddle's mixed precision would widen and narrow the whole square of weights around
    it, and their gradients. Without a mask all of it is one op; no second gradients are lost, since Paddle's softmax
    has none. What both keys and values are made of is narrowed once.
    """
    if not linear_layers_are_narrow():
        return
    paddle, framework = sys.modules["paddle"], sys.modules["paddle.base.framework"]
    core, ops, functional = framework.core, paddle._C_ops, module.F
    wide, narrow, off = paddle.float32, (paddle.bfloat16, paddle.float16), core.AmpLevel.O0
    is_narrow, _ = narrow_sums()
    kind = module.MultiHeadAttention
    original, projections = kind.forward, (kind._prepare_qkv, kind.compute_kv)

    def are_linear(*layers: Any) -> bool:
        return all(type(layer) is module.Linear for layer in layers)

    def attend(layer: Any, q: Any, k: Any, v: Any) -> Any:
        return ops.flash_attn(q, k, v, None, None, layer.dropout, False, False, not layer.training, "")[0]

    def compose(layer: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
        q, k, v = (ops.transpose(x, [0, 2, 1, 3]) for x in (q, k, v))
        product = ops.matmul(ops.scale(q, layer.head_dim**-0.5, 0.0, True), k, False, True)
        if mask is not None:
            product = product + module._convert_attention_mask(mask, product.dtype)
        weights = ops.softmax(product, -1)
        if layer.dropout:
            weights = functional.dropout(weights, layer.dropout, training=layer.training, mode="upscale_in_train")
        return ops.transpose(ops.matmul(weights, v, False, False), [0, 2, 1, 3])

    @functools.wraps(original)
    def forward(
        self: Any, query: Any, key: Any = None, value: Any = None, attn_mask: Any = None, cache: Any = None
    ) -> Any:
        own = (type(self)._prepare_qkv, type(self).compute_kv)
        if self.need_weights or cache is not None or own != projections or not is_narrow():
            return original(self, query, key, value, attn_mask, cache)
        if not framework.in_dygraph_mode():
            return original(self, query, key, value, attn_mask, cache)
        key = query if key is None else key
        value = query if value is None else value
        q = self.q_proj(query)
        # A list of the user's may keep products wide.
        if q.dtype in narrow and key is value and key.dtype in (wide,) and are_linear(self.k_proj, self.v_proj):
            key = value = ops.cast(key, q.dtype)
        heads = [0, 0, self.num_heads, self.head_dim]
        q, k, v = (ops.reshape(x, heads) for x in (q, self.k_proj(key), self.v_proj(value)))
        present = core._get_amp_attrs()
        level = present._amp_level
        if not (q.dtype in narrow and k.dtype in (q.dtype,) and v.dtype in (q.dtype,)):
            result = compose(self, q, k, v, attn_mask)
        else:
            present._amp_level = off
            try:
                fuses = attn_mask is None and self.dropout < 1
                result = attend(self, q, k, v) if fuses else compose(self, q, k, v, attn_mask)
            finally:
                present._amp_level = level
        return self.out_proj(ops.reshape(result, [0, 0, self.embed_dim]))

    kind.forward = forward
