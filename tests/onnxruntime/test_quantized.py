"""Networks that ONNX Runtime's own tools quantized, on the device: against its CPU provider, and against float32."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path
from typing import Any

import networks
import numpy as np
import onnx
import pytest
from onnxruntime import quantization
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, matmul_nbits_quantizer
from sessions import cpu_session, fallbacks, session


class Examples(CalibrationDataReader):  # type: ignore[misc]
    """A few inputs for the ranges of activations."""

    def __init__(self, name: str) -> None:
        self.left = [networks.example(name, seed) for seed in range(3)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self.left.pop() if self.left else None


@functools.cache
def exported(name: str) -> bytes:
    data: bytes = networks.build(name).SerializeToString()
    return data


def prepared(name: str, folder: Path) -> Path:
    """A network in a file, as quantization wants it: with shapes, and simplified."""
    path = folder / f"{name}.onnx"
    path.write_bytes(exported(name))
    quantization.quant_pre_process(path, folder / "prepared.onnx", skip_symbolic_shape=True)
    return folder / "prepared.onnx"


def quantize(way: str, name: str, folder: Path) -> onnx.ModelProto:
    """A network with weights of few bits: by static QDQ or QOperator, dynamically, or MatMulNBits.

    Of int8 they keep 7 bits (reduce_range): of 8 ONNX Runtime's own products with uint8 overflow 16 bits where x86 has
    no VNNI, and its answers are then several times as far from the network in float32 as the device's.
    """
    source, target = prepared(name, folder), folder / "quantized.onnx"
    if way in ("QDQ", "QOperator"):
        quantization.quantize_static(
            source,
            target,
            Examples(name),
            quant_format=QuantFormat[way],
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            reduce_range=True,
        )
    elif way == "dynamic":
        quantization.quantize_dynamic(source, target, weight_type=QuantType.QInt8, reduce_range=True)
    else:
        bits = int(way[-1])
        settings = matmul_nbits_quantizer.DefaultWeightOnlyQuantConfig(block_size=32, is_symmetric=True, bits=bits)
        made = matmul_nbits_quantizer.MatMulNBitsQuantizer(onnx.load(source), algo_config=settings)
        made.process()
        return made.model.model
    return onnx.load(target)


#: What each way makes of a network, at least one of it.
MADE = {
    "QDQ": {"DequantizeLinear"},
    "QOperator": {"QLinearConv", "QLinearMatMul"},
    "dynamic": {"MatMulInteger", "ConvInteger", "DynamicQuantizeMatMul"},
    "bits 4": {"MatMulNBits"},
    "bits 8": {"MatMulNBits"},
}


def check(way: str, name: str, folder: Path) -> None:
    """Runs a quantized network on the device, without any fallback, and compares it."""
    model = quantize(way, name, folder)
    assert MADE[way] & {node.op_type for node in model.graph.node}
    feeds = networks.example(name)
    before = Counter(fallbacks())
    output = session(model, cpu=True).run(None, feeds)[0]
    assert Counter(fallbacks()) - before == Counter()
    expected = cpu_session(model).run(None, feeds)[0]
    exact = cpu_session(onnx.load_from_string(exported(name))).run(None, feeds)[0]
    largest = np.abs(expected).max()
    assert output.shape == expected.shape and output.dtype == expected.dtype
    # Quantized numbers may round to either side of a half; each such step is spread by what comes after it.
    assert np.abs(output - expected).mean() <= 0.01 * largest
    # And the device is no further from the network in float32 than the CPU is.
    assert np.abs(output - exact).mean() <= 1.1 * np.abs(expected - exact).mean() + 0.01 * largest


def cases() -> list[Any]:
    rows = [(way, name) for way in MADE for name in networks.NETWORKS]
    # Nothing in images' networks is a product of matrices but one of a few numbers.
    rows = [row for row in rows if not (row[0].startswith("bits") and row[1] in ("resnet", "mobilenet"))]
    return [pytest.param(*row, id=f"{row[0]}-{row[1]}") for row in rows]


@pytest.mark.whole
@pytest.mark.parametrize(("way", "name"), cases())
def test_a_quantized_network(way: str, name: str, tmp_path: Path) -> None:
    check(way, name, tmp_path)
