"""Devices, errors and random numbers in one process with two devices."""

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
