"""Automatic mixed precision: training, and layers that are as narrow as their products (patches/mixed_precision.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
import unihal
from comparison import on, random
from paddle import nn


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("level", ["O1", "O2"])
def test_mixed_precision_training(dtype: str, level: str) -> None:
    with on("iluvatar"):
        paddle.seed(0)
        network: Any = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))
        optimizer = paddle.optimizer.AdamW(1e-2, parameters=network.parameters(), multi_precision=True)
        if level == "O2":
            network, optimizer = paddle.amp.decorate(network, optimizer, level="O2", dtype=dtype)
        scaler = paddle.amp.GradScaler(init_loss_scaling=256.0, enable=dtype == "float16")
        x, y = paddle.to_tensor(random(32, 8)), paddle.to_tensor(np.arange(32)[:, None] % 4)
        losses = []
        for _ in range(15):
            with paddle.amp.auto_cast(level=level, dtype=dtype):
                logits = network(x)
                assert paddle.matmul(x, network[0].weight).dtype == getattr(paddle, dtype)
                loss = nn.functional.cross_entropy(logits, y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.clear_grad()
            losses.append(float(loss))
        assert losses[-1] < 0.9 * losses[0]


#: Paddle's own GPUs have linear layers in mixed precision as narrow as their products since 3.3.
IS_NARROW = "linear_v2" in paddle.amp.amp_lists.WHITE_LIST


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("level", ["OD", "O1", "O2"])
def test_a_linear_layer_is_as_narrow_as_its_product(dtype: str, level: str) -> None:
    with on("iluvatar"):
        layer = nn.Linear(8, 4)
        weight, bias = layer.weight.numpy(), np.float32([0.5, -0.5, 2, 0])
        layer.bias.set_value(bias)
        x = random(3, 8)
        inputs = paddle.to_tensor(x, stop_gradient=False)
        with paddle.amp.auto_cast(level=level, dtype=dtype):
            y = layer(inputs)
            plain = nn.functional.linear(inputs, layer.weight)
        if IS_NARROW:
            assert y.dtype == plain.dtype == getattr(paddle, dtype)
        np.testing.assert_allclose(y.astype("float32").numpy(), x @ weight + bias, rtol=0, atol=0.05)
        # Gradients have their tensors' types, and gradients of their own.
        first = paddle.grad(y.astype("float32").square().sum(), [inputs, layer.weight, layer.bias], create_graph=True)
        assert {gradient.dtype for gradient in first} == {paddle.float32}
        (second,) = paddle.grad(first[1].square().sum(), [layer.weight])
        dy = 2 * (x @ weight + bias)
        np.testing.assert_allclose(first[2].numpy(), dy.sum(0), rtol=0.05, atol=0.1)
        np.testing.assert_allclose(second.numpy(), 4 * x.T @ (x @ (x.T @ dy)), rtol=0.1, atol=3)
        assert layer(inputs).dtype == paddle.float32


@pytest.mark.skipif(not IS_NARROW, reason="linear layers are as wide as their bias before Paddle 3.3")
@pytest.mark.parametrize("full_graph", [True, False])
def test_a_linear_layer_in_a_graph_is_as_narrow_as_its_product(full_graph: bool) -> None:
    with on("iluvatar"):
        layer = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 2))
        x = paddle.to_tensor(random(3, 8))
        with paddle.amp.auto_cast(dtype="bfloat16"):
            expected = layer(x)
            y = paddle.jit.to_static(layer, full_graph=full_graph)(x)
        assert y.dtype == expected.dtype == paddle.bfloat16
        np.testing.assert_allclose(y.astype("float32").numpy(), expected.astype("float32").numpy(), rtol=0, atol=0.02)


def test_linear_layers_are_as_wide_as_a_list_of_ops_asks_for() -> None:
    with on("iluvatar"):
        layer, x = nn.Linear(8, 4), paddle.to_tensor(random(3, 8))
        with paddle.amp.auto_cast(dtype="bfloat16", custom_black_list=["matmul", "matmul_v2"]):
            assert layer(x).dtype == paddle.float32


@pytest.mark.skipif(not IS_NARROW, reason="linear layers are as wide as their bias before Paddle 3.3")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("level", ["OD", "O1", "O2"])
def test_a_linear_layer_with_arguments_of_pytorch_is_narrow_too(dtype: str, level: str) -> None:
    linear = paddle.compat.nn.functional.linear
    with on("iluvatar"):
        layer = paddle.compat.nn.Linear(8, 4)
        weight, bias = layer.weight.numpy(), layer.bias.numpy()
        x = random(3, 8)
        inputs = paddle.to_tensor(x, stop_gradient=False)
        with paddle.amp.auto_cast(level=level, dtype=dtype):
            results = layer(inputs), linear(inputs, layer.weight, layer.bias), linear(inputs, weight=layer.weight)
        assert {y.dtype for y in results} == {getattr(paddle, dtype)}
        for y, expected in zip(results, [x @ weight.T + bias, x @ weight.T + bias, x @ weight.T]):
            np.testing.assert_allclose(y.astype("float32").numpy(), expected, rtol=0, atol=0.05)
        first = paddle.grad(
            results[0].astype("float32").square().sum(), [inputs, layer.weight, layer.bias], create_graph=True
        )
        assert {gradient.dtype for gradient in first} == {paddle.float32}
        dy = 2 * (x @ weight.T + bias)
        np.testing.assert_allclose(first[1].numpy(), dy.T @ x, rtol=0.05, atol=0.1)
        (second,) = paddle.grad(first[2].square().sum(), [layer.bias])
        np.testing.assert_allclose(second.numpy(), 4 * 3 * dy.sum(0), rtol=0.1, atol=0.5)
        y = layer(inputs)
        assert y.dtype == paddle.float32
        np.testing.assert_allclose(y.numpy(), x @ weight.T + bias, rtol=1e-5, atol=1e-6)
        with pytest.raises(TypeError, match="paddle.nn.functional.linear"):
            linear(x=inputs, weight=layer.weight)
    with on("cpu"):
        np.testing.assert_allclose(layer.to("cpu")(paddle.to_tensor(x)).numpy(), x @ weight.T + bias, rtol=1e-5)


@pytest.mark.skipif(not IS_NARROW, reason="linear layers are as wide as their bias before Paddle 3.3")
@pytest.mark.parametrize("full_graph", [True, False])
def test_a_linear_layer_with_arguments_of_pytorch_is_narrow_in_a_graph_too(full_graph: bool) -> None:
    with on("iluvatar"):
        layer = nn.Sequential(paddle.compat.nn.Linear(8, 4), nn.Tanh(), paddle.compat.nn.Linear(4, 2))
        x = paddle.to_tensor(random(3, 8))
        with paddle.amp.auto_cast(dtype="bfloat16"):
            expected = layer(x)
            y = paddle.jit.to_static(layer, full_graph=full_graph)(x)
        assert y.dtype == expected.dtype == paddle.bfloat16
        np.testing.assert_allclose(y.astype("float32").numpy(), expected.astype("float32").numpy(), rtol=0, atol=0.02)


@pytest.mark.skipif(not IS_NARROW, reason="linear layers are as wide as their bias before Paddle 3.3")
class TestMultiHeadAttention:
    """Its weights stay narrow between the products, and it computes what it does in float32."""

    #: Queries, and what keys and values are made of where it is not the queries.
    QUERY, MEMORY = random(2, 5, 16), random(2, 7, 16, seed=1)
    MASK = np.arange(7) < 5
    FAR = np.where(MASK, 0, -1e9).astype("float32")

    @staticmethod
    def layer(**options: Any) -> Any:
        paddle.seed(0)
        return nn.MultiHeadAttention(16, 2, **options)

    @pytest.mark.parametrize("level", ["O1", "O2"])
    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    @pytest.mark.parametrize("memory", ["none", "one", "two", "masked", "far"])
    def test_it_computes_what_it_does_in_float32(self, memory: str, dtype: str, level: str) -> None:
        def results(enable: bool) -> list[Any]:
            layer = self.layer()
            query, key, value = (
                paddle.to_tensor(a, stop_gradient=False) for a in (self.QUERY, self.MEMORY, 2 * self.MEMORY)
            )
            masks = {"masked": self.MASK, "far": self.FAR}
            mask = paddle.to_tensor(masks[memory]) if memory in masks else None
            inputs = {"none": [query], "one": [query, key, key]}.get(memory, [query, key, value])
            with paddle.amp.auto_cast(enable, level=level, dtype=dtype):
                y = layer(*inputs, attn_mask=mask)
                assert y.dtype == (getattr(paddle, dtype) if enable else paddle.float32)
                loss = (y.astype("float32") * paddle.to_tensor(random(2, 5, 16, seed=2))).sum()
            loss.backward()
            read = {id(tensor): tensor for tensor in inputs}.values()
            # A bias that all keys have changes nothing: its gradient is rounding.
            held = [p for name, p in layer.named_parameters() if name != "k_proj.bias"]
            return [y.astype("float32"), *(tensor.grad for tensor in [*read, *held])]

        with on("iluvatar"):
            for narrow, wide in zip(results(True), results(False)):
                assert narrow.dtype == paddle.float32
                # A few roundings of numbers of eight bits in sums of 16.
                error = np.abs(narrow.numpy() - wide.numpy()).max()
                assert error < 0.03 * np.abs(wide.numpy()).max()

    @pytest.mark.parametrize("dropout", [0.0, 0.1])
    @pytest.mark.parametrize("masked", [False, True])
    @pytest.mark.parametrize("inputs", ["self", "cross"])
    def test_nothing_between_the_products_is_cast(self, inputs: str, masked: bool, dropout: float) -> None:
        casts = 2
        with on("iluvatar"):
            layer = self.layer(dropout=dropout)
            parameters = len(layer.parameters())
            query, key = (paddle.to_tensor(a, stop_gradient=False) for a in (self.QUERY, self.MEMORY))
            mask = paddle.zeros([1, 1, 1, 5 if inputs == "self" else 7], dtype="bfloat16") if masked else None
            with unihal.profile() as recording:
                with paddle.amp.auto_cast(dtype="bfloat16"):
                    y = layer(query, attn_mask=mask) if inputs == "self" else layer(query, key, key, mask)
                y.backward(paddle.ones_like(y))
            launched = [event.op for event in recording.events]
            if not masked:
                fused = ["attention", "attention_backward"] if dropout == 0 else ["softmax", "dropout"]
                assert all(launched.count(op) == 1 for op in fused) and "copy" not in launched
            # Forward and back: of the parameters, of the queries, and of what keys and values are made of.
            assert launched.count("cast") == 2 * (parameters + casts)

    def test_second_gradients_are_refused_as_those_of_softmax(self) -> None:
        with on("iluvatar"):
            for enable in (False, True):
                layer, x = self.layer(), paddle.to_tensor(self.QUERY, stop_gradient=False)
                with paddle.amp.auto_cast(enable, dtype="bfloat16"):
                    y = layer(x)
                with pytest.raises(RuntimeError, match="doesn't have any grad op"):
                    paddle.grad([y], [x], create_graph=True)

    @pytest.mark.parametrize("dropout", [0.0, 0.5])
    def test_gradients_of_a_graph_that_is_kept(self, dropout: float) -> None:
        with on("iluvatar"):
            layer = self.layer(dropout=dropout)
            query, key = (paddle.to_tensor(a, stop_gradient=False) for a in (self.QUERY, self.MEMORY))
            with paddle.amp.auto_cast(dtype="bfloat16"):
                y = layer(query, key, key)
            first, again = (paddle.grad([y], [query, key], [y], retain_graph=True) for _ in range(2))
            y.backward(y.detach())
            for one, other, tensor in zip(first, again, (query, key)):
                np.testing.assert_array_equal(one.numpy(), other.numpy())
                np.testing.assert_array_equal(one.numpy(), tensor.grad.numpy())

    def test_frozen_layers_and_inputs(self) -> None:
        with on("iluvatar"):
            layer = self.layer(dropout=0.1)
            query, key = (paddle.to_tensor(a) for a in (self.QUERY, self.MEMORY))
            layer.q_proj.weight.stop_gradient = layer.q_proj.bias.stop_gradient = True
            with paddle.amp.auto_cast(dtype="bfloat16"):
                layer(query, key, key).sum().backward()
            assert layer.q_proj.weight.grad is None
            assert all(layer.get_submodule(name).weight.grad is not None for name in ("k_proj", "v_proj", "out_proj"))

    def test_recompute(self) -> None:
        from paddle.distributed.fleet.utils import recompute

        with on("iluvatar"):
            layer = self.layer(dropout=0.5)
            gradients = []
            for again in (False, True):
                x = paddle.to_tensor(self.QUERY, stop_gradient=False)
                paddle.seed(3)
                with paddle.amp.auto_cast(dtype="bfloat16"):
                    y = recompute(layer, x) if again else layer(x)
                y.backward(y.detach())
                gradients.append(x.grad.numpy())
            np.testing.assert_array_equal(*gradients)

    def test_a_list_of_ones_own_keeps_it_wide(self) -> None:
        with on("iluvatar"):
            layer, x = self.layer(), paddle.to_tensor(self.QUERY)
            with paddle.amp.auto_cast(dtype="bfloat16", custom_black_list=["matmul", "matmul_v2"]):
                y = layer(x)
                assert (
                    paddle.nn.functional.softmax(x.astype("bfloat16")).dtype == paddle.float32
                )  # the level is what it was
            assert y.dtype == paddle.float32
            np.testing.assert_allclose(y.numpy(), layer(x).numpy(), rtol=1e-5, atol=1e-6)

    def test_weights_that_are_asked_for_are_wide(self) -> None:
        with on("iluvatar"):
            layer, x = self.layer(need_weights=True), paddle.to_tensor(self.QUERY)
            with paddle.amp.auto_cast(dtype="bfloat16"):
                y, weights = layer(x)
            assert (y.dtype, weights.dtype) == (paddle.bfloat16, paddle.float32)
            np.testing.assert_allclose(weights.sum(-1).numpy(), 1, rtol=1e-5)

    def test_a_cache_grows(self) -> None:
        with on("iluvatar"):
            layer = self.layer()
            x = paddle.to_tensor(self.QUERY)
            with paddle.amp.auto_cast(dtype="bfloat16"):
                _, cache = layer(x, x, x, cache=layer.gen_cache(x))
            assert cache.k.shape == [2, 2, 5, 8]

    def test_an_error_leaves_the_level_as_it_was(self) -> None:
        with on("iluvatar"):
            layer, x = self.layer(), paddle.to_tensor(self.QUERY)
            with paddle.amp.auto_cast(dtype="bfloat16"):
                with pytest.raises(ValueError, match="(?i)dimension|shape"):
                    layer(x, attn_mask=paddle.ones([3, 3, 3, 3]))
                assert paddle.nn.functional.softmax(x.astype("bfloat16")).dtype == paddle.float32

    @pytest.mark.parametrize("full_graph", [True, False])
    def test_it_does_the_same_in_a_graph(self, full_graph: bool) -> None:
        with on("iluvatar"):
            layer, x = self.layer(), paddle.to_tensor(self.QUERY)
            with paddle.amp.auto_cast(dtype="bfloat16"):
                expected = layer(x)
                y = paddle.jit.to_static(layer, full_graph=full_graph)(x)
            np.testing.assert_allclose(
                y.astype("float32").numpy(), expected.astype("float32").numpy(), rtol=0, atol=0.02
            )

    def test_dropout_of_weights(self) -> None:
        with on("iluvatar"):
            layer, x = self.layer(dropout=0.5), paddle.to_tensor(self.QUERY)
            with paddle.amp.auto_cast(dtype="bfloat16"):
                paddle.seed(1)
                first = layer(x).astype("float32").numpy()
                paddle.seed(1)
                np.testing.assert_array_equal(layer(x).astype("float32").numpy(), first)
                other = layer(x).astype("float32").numpy()
                layer.eval()
                whole = layer(x).astype("float32").numpy()
            assert (other != first).any() and (whole != first).any()
