"""Devices, errors, random numbers and mixed precision in one process with two devices."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import paddle
import pytest
from comparison import on, random
from paddle import nn


def test_device_types_and_counts() -> None:
    assert {"iluvatar", "rdna", "polaris"} <= set(paddle.device.get_all_custom_device_type())
    if hasattr(paddle.device, "get_device_module"):  # since Paddle 3.3
        assert paddle.device.get_device_module("rdna").__name__ == "paddle.device.custom_device"


@pytest.mark.parametrize("device", ["iluvatar:2", "rdna:7"])
def test_an_unknown_ordinal_is_an_error(device: str) -> None:
    with pytest.raises(ValueError, match=device):
        paddle.set_device(device)
    with pytest.raises(ValueError, match=device):
        paddle.CustomPlace(device.split(":")[0], int(device.split(":")[1]))


def test_a_device_is_the_same_one_each_time() -> None:
    """Names are looked up once."""
    chosen = paddle.device.get_device()
    try:
        for device in ("rdna:1", "rdna:0", "cpu", "rdna:1", "rdna:0"):
            assert device in str(paddle.set_device(device)).lower().replace("place(", "")
            assert paddle.device.get_device() == device
            assert paddle.ones([1]).place._equals(paddle.set_device(device))
    finally:
        paddle.set_device(chosen)


def test_an_unknown_type_is_paddles_own_error() -> None:
    with pytest.raises(ValueError, match="The device must be a string"):
        paddle.set_device("voodoo")


def test_two_devices_compute_apart_and_exchange_through_the_host() -> None:
    with on("iluvatar:1"):
        x = paddle.to_tensor([1.0, 2.0]) * 3
        assert "iluvatar:1" in str(x.place)
    with on("iluvatar:0"):
        y = paddle.to_tensor(x.cpu().numpy()) + 1
        assert "iluvatar:0" in str(y.place)
    np.testing.assert_array_equal(y.numpy(), [4, 7])
    np.testing.assert_array_equal(x.numpy(), [3, 6])


def test_threads_and_types_have_devices_of_their_own() -> None:
    """The threads take turns, so that what one chooses would be seen by the other. Ops run where their tensors are."""
    turns = threading.Barrier(2, timeout=60)
    places: dict[str, list[str]] = {}

    def work(name: str, devices: list[str]) -> None:
        places[name] = []
        for device in devices:
            device_type, ordinal = device.split(":")
            x = paddle.to_tensor(np.ones(4, "float32"), place=paddle.CustomPlace(device_type, int(ordinal)))
            turns.wait()
            y = paddle.nn.functional.relu(x + x)
            places[name].append(str((y * y).sum().place) if float((y * y).sum()) == 16 else "wrong")
            turns.wait()

    chosen = {
        "a": ["iluvatar:0", "rdna:1", "iluvatar:1", "rdna:0"],
        "b": ["iluvatar:1", "rdna:1", "polaris:0", "iluvatar:0"],
    }
    threads = [threading.Thread(target=work, args=item) for item in chosen.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, devices in chosen.items():
        assert len(places[name]) == len(devices)
        for place, device in zip(places[name], devices, strict=True):
            assert device in place, (name, place, device)


def test_an_error_in_a_kernel_is_an_exception_that_names_it() -> None:
    with on("iluvatar"):
        x = paddle.ones([3, 4])
        narrow = nn.initializer.TruncatedNormal(a=-1.0, b=1.0)
        with pytest.raises(NotImplementedError, match=r"\(unihal\) truncated_gaussian_random: a truncation other than"):
            nn.Linear(3, 4, weight_attr=narrow)
        with pytest.raises(ValueError):
            paddle.matmul(x, x)
        assert float(x.sum()) == 12


def test_an_index_outside_is_an_error_of_the_stream() -> None:
    with on("iluvatar"), pytest.raises(Exception, match="index|range"):
        nn.functional.embedding(paddle.to_tensor([99]), paddle.ones([3, 2])).numpy()


def test_random_numbers_follow_the_seed() -> None:
    with on("iluvatar"):

        def draw(seed: int) -> list[Any]:
            paddle.seed(seed)
            return [paddle.rand([1000]).numpy(), paddle.randn([1000]).numpy(), paddle.rand([1000]).numpy()]

        first, again, other = draw(1), draw(1), draw(2)
    for a, b, c in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(a, b)
        assert not np.array_equal(a, c)
    assert not np.array_equal(first[0], first[2])
    assert 0 <= first[0].min() and first[0].max() < 1 and abs(first[0].mean() - 0.5) < 0.05
    assert abs(first[1].mean()) < 0.15 and abs(first[1].std() - 1) < 0.1


@pytest.mark.parametrize("mode", ["upscale_in_train", "downscale_in_infer"])
def test_dropout_and_its_gradient(mode: str) -> None:
    with on("iluvatar"):
        x = paddle.to_tensor(random(40, 50, low=0.5, high=1.5), stop_gradient=False)
        y = nn.functional.dropout(x, 0.25, mode=mode)
        y.sum().backward()
        factor = 1 / 0.75 if mode == "upscale_in_train" else 1.0
        kept = y.numpy() != 0
        np.testing.assert_allclose(y.numpy(), x.numpy() * kept * factor, rtol=1e-6)
        np.testing.assert_allclose(x.grad.numpy(), kept * factor, rtol=1e-6)
        assert abs(kept.mean() - 0.75) < 0.04
        inference = nn.functional.dropout(x, 0.25, training=False, mode=mode)
        expected = x.numpy() * (1.0 if mode == "upscale_in_train" else 0.75)
        np.testing.assert_allclose(inference.numpy(), expected, rtol=1e-6)


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


def test_flags_are_those_that_there_are() -> None:
    """Also when they are asked for again."""
    for _ in range(2):
        assert paddle.get_flags("FLAGS_check_nan_inf") == {"FLAGS_check_nan_inf": False}
        with pytest.raises(ValueError, match="FLAGS_no_such_flag"):
            paddle.get_flags("FLAGS_no_such_flag")


def test_optimizers_match_the_cpu() -> None:
    makers: dict[str, Any] = {
        "sgd": lambda p: paddle.optimizer.SGD(0.1, parameters=p),
        "momentum": lambda p: paddle.optimizer.Momentum(0.1, 0.9, parameters=p, weight_decay=0.01),
        "nesterov": lambda p: paddle.optimizer.Momentum(0.1, 0.9, parameters=p, use_nesterov=True),
        "adam": lambda p: paddle.optimizer.Adam(0.1, parameters=p),
        "amsgrad": lambda p: paddle.optimizer.Adam(0.1, parameters=p, amsgrad=True),
        "adamw": lambda p: paddle.optimizer.AdamW(0.1, parameters=p, weight_decay=0.1),
    }
    for name, make in makers.items():
        results = []
        for device in ("cpu", "iluvatar"):
            with on(device):
                weight = paddle.create_parameter([3, 4], "float32")
                weight.set_value(random(3, 4))
                optimizer = make([weight])
                for step in range(5):
                    (weight * paddle.to_tensor(random(3, 4, seed=step))).sum().backward()
                    optimizer.step()
                    optimizer.clear_grad()
                results.append(weight.numpy())
        np.testing.assert_allclose(results[1], results[0], rtol=1e-5, atol=1e-6, err_msg=name)
