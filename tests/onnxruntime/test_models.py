"""Whole models on the device, against ONNX Runtime's CPU."""

from __future__ import annotations

from pathlib import Path

import networks
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import unihal
from sessions import DEVICE, cpu_session, fallbacks, session

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"

#: By dtype, of the largest number of an output.
TOLERANCE = {torch.float32: 1e-5, torch.float16: 1e-2}


#: The first in `make test`, both in `make test-rest`.
IN_FLOAT32 = ("resnet", "llama")


def agree(model: onnx.ModelProto, feeds: dict[str, np.ndarray], tolerance: float) -> None:
    """Compares a model with the CPU; nothing may have been left to it but what computes shapes."""
    before = fallbacks()
    outputs = session(model, cpu=True).run(None, feeds)
    assert fallbacks() == before
    for output, expected in zip(outputs, cpu_session(model).run(None, feeds), strict=True):
        assert output.dtype == expected.dtype and output.shape == expected.shape
        wide = expected.astype(np.float64)
        assert np.isfinite(wide).all() and np.abs(wide).max() > 0
        assert np.abs(output.astype(np.float64) - wide).max() <= tolerance * np.abs(wide).max()


@pytest.mark.parametrize("name", [IN_FLOAT32[0], pytest.param(IN_FLOAT32[1], marks=pytest.mark.whole)])
def test_a_network_in_float32(name: str) -> None:
    agree(networks.build(name), networks.example(name), TOLERANCE[torch.float32])


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        # Two of them in each dtype: in float32 the others are above.
        pytest.param(
            name,
            dtype,
            id=f"{name}-{word}",
            marks=pytest.mark.whole if (name in IN_FLOAT32) == (word == "float16") else pytest.mark.long,
        )
        for name in networks.NETWORKS
        for word, dtype in (("float32", torch.float32), ("float16", torch.float16))
    ],
)
def test_networks(name: str, dtype: torch.dtype) -> None:
    feeds = {
        key: value.astype(np.float16) if dtype == torch.float16 and value.dtype == np.float32 else value
        for key, value in networks.example(name).items()
    }
    agree(networks.build(name, dtype), feeds, TOLERANCE[dtype])


@pytest.mark.whole
def test_another_batch_and_length() -> None:
    model = networks.build("bert")
    for batch, length in ((1, 3), (5, 20)):
        feeds = {
            "ids": np.random.default_rng(length).integers(0, 100, (batch, length)),
            "mask": np.ones((batch, length), np.int64),
        }
        agree(model, feeds, TOLERANCE[torch.float32])


@pytest.mark.whole
@pytest.mark.parametrize("path", sorted(LIGHT.glob("*.onnx")), ids=lambda path: path.stem)
def test_models_of_the_onnx_package(path: Path) -> None:
    """Their weights are constants, so that all images give one answer: that in the package."""
    model = onnx.load(path)
    expected = onnx.TensorProto()
    expected.ParseFromString(path.with_name(f"{path.stem}_output_0.pb").read_bytes())
    before = fallbacks()
    made = session(model, cpu=True)
    assert fallbacks() == before
    info = made.get_inputs()[0]
    x = np.ones(info.shape, np.float32)
    output = made.run(None, {info.name: x})[0]
    on_cpu = cpu_session(model).run(None, {info.name: x})[0]
    assert output.shape == onnx.numpy_helper.to_array(expected).shape
    assert np.allclose(output, on_cpu, 1e-4, 1e-6 * max(1, np.abs(on_cpu).max()))


# -- faults


def test_a_fault_at_any_call_is_an_error_and_nothing_stays() -> None:
    """Allocations, launches and copies that fail one after the other: each run is an error, or right."""
    model = networks.build("resnet")
    feeds = networks.example("resnet")
    device = unihal.device(f"{DEVICE}:0")
    made = session(model, cpu=True)
    expected = made.run(None, feeds)[0]
    with unihal.inject_faults(DEVICE) as faults:
        made.run(None, feeds)
    counts = faults.counts()
    assert counts.launches > 10
    failed = 0
    for kind, count in (("launch", counts.launches), ("copy", counts.copies), ("alloc", counts.allocations)):
        for number in sorted({1, 2, count // 2, count}):
            if not 1 <= number <= count:
                continue
            with unihal.inject_faults(DEVICE, f"{kind}:nth={number}") as injected:
                try:
                    output = made.run(None, feeds)[0]
                except Exception as error:
                    assert type(error).__module__.startswith("onnxruntime"), error
                    failed += 1
                else:
                    assert injected.counts().injected == 0 or np.array_equal(output, expected)
            assert np.array_equal(made.run(None, feeds)[0], expected)
    assert failed >= 4
    used = device.memory_stats().allocated_bytes
    made.run(None, feeds)
    assert device.memory_stats().allocated_bytes == used


def test_a_session_without_room_is_an_error() -> None:
    model = networks.build("resnet")
    unihal.device(f"{DEVICE}:0").empty_cache()
    with unihal.inject_faults(DEVICE, "alloc:every=1"), pytest.raises(Exception) as caught:
        session(model, cpu=True)
    assert type(caught.value).__module__.startswith("onnxruntime")


def test_a_model_that_is_cut_off_is_an_error() -> None:
    data = networks.build("resnet").SerializeToString()
    with pytest.raises(Exception) as caught:
        onnxruntime.InferenceSession(data[: len(data) // 2])
    assert type(caught.value).__module__.startswith("onnxruntime")
