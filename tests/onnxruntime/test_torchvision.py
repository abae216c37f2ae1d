"""torchvision's ResNet-50 and MobileNetV3 on the device, exported and quantized, against ONNX Runtime's CPU."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path
from typing import Any

import networks
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnxruntime import quantization
from sessions import cpu_session, fallbacks, session
from unihal_workshop.pipelines.torchvision import make_importable

NAMES = ["resnet50", "mobilenet_v3_large"]


@functools.cache
def models() -> Any:
    """torchvision.models. Its C++ ops, which no network here has, need not load: PyPI's wheel is built for CUDA."""
    make_importable()
    import torchvision.models

    return torchvision.models


def images(dtype: Any = np.float32) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(0).standard_normal((2, 3, 224, 224)).astype(dtype)}


@functools.cache
def exported(name: str, dtype: torch.dtype) -> bytes:
    """The network with random weights, and statistics that are not all alike."""
    torch.manual_seed(0)
    module = getattr(models(), name)(weights=None)
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(part.running_mean, -0.1, 0.1)
            torch.nn.init.uniform_(part.running_var, 0.5, 1.5)
    data: bytes = networks.export(module, images(), dtype).SerializeToString()
    return data


def run(model: onnx.ModelProto, feeds: dict[str, np.ndarray], **options: Any) -> np.ndarray:
    """On the device; nothing may fall back."""
    before = Counter(fallbacks())
    output: np.ndarray = session(model, cpu=True, **options).run(None, feeds)[0]
    assert Counter(fallbacks()) - before == Counter()
    return output


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize(
    "dtype",
    [
        pytest.param(torch.float32, id="float32", marks=pytest.mark.whole),
        pytest.param(torch.float16, id="float16", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("name", [pytest.param(NAMES[0], marks=pytest.mark.long), NAMES[1]])
def test_a_network(name: str, dtype: torch.dtype, layout: str) -> None:
    model = onnx.load_from_string(exported(name, dtype))
    feeds = images(np.float16 if dtype == torch.float16 else np.float32)
    output, expected = run(model, feeds, layout=layout), cpu_session(model).run(None, feeds)[0]
    assert output.dtype == expected.dtype and output.shape == expected.shape == (2, 1000)
    largest = np.abs(expected.astype(np.float64)).max()
    assert largest > 0
    room = {torch.float32: 1e-5, torch.float16: 1e-2}[dtype] * largest
    assert np.abs(output.astype(np.float64) - expected.astype(np.float64)).max() <= room


class Images(quantization.CalibrationDataReader):  # type: ignore[misc]
    """One batch for the ranges of activations."""

    def __init__(self) -> None:
        self.left = [images()]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self.left.pop() if self.left else None


@pytest.mark.long
@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("name", NAMES)
def test_a_network_in_int8(name: str, form: str, tmp_path: Path) -> None:
    source, prepared, target = (tmp_path / f"{stage}.onnx" for stage in ("source", "prepared", "target"))
    source.write_bytes(exported(name, torch.float32))
    quantization.quant_pre_process(source, prepared, skip_symbolic_shape=True)
    quantization.quantize_static(
        prepared, target, Images(), quant_format=quantization.QuantFormat[form], per_channel=True
    )
    model, feeds = onnx.load(target), images()
    output, expected = run(model, feeds), cpu_session(model).run(None, feeds)[0]
    exact = onnxruntime.InferenceSession(exported(name, torch.float32)).run(None, feeds)[0]
    off = np.abs(expected - exact).mean()
    assert output.shape == (2, 1000)
    # Numbers that round to either side of a half spread from layer to layer: the device is as near as the CPU is.
    assert np.abs(output - exact).mean() <= 1.1 * off + 1e-3 * np.abs(exact).max()
