"""Small models, whose results are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WEIGHT = np.arange(8, dtype=np.float32).reshape(4, 2) / 4
BIAS = np.array([0.5, -1.0], np.float32)


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    weights: list[onnx.TensorProto] | None = None,
) -> Path:
    graph = helper.make_graph(nodes, path.stem, inputs, outputs, weights or [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="tests")
    onnx.save(model, path)
    return path


def value(name: str, shape: list[int | str], dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def affine(path: Path) -> Path:
    """y = x W + b, x [batch, 4], y [batch, 2]."""
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"])
    weights = [numpy_helper.from_array(WEIGHT, "w"), numpy_helper.from_array(BIAS, "b")]
    return save(path, [node], [value("x", ["batch", 4])], [value("y", ["batch", 2])], weights)


def affine_result(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) @ WEIGHT + BIAS


def mixing(path: Path) -> Path:
    """y = softmax over the batch: its requests must not be joined."""
    node = helper.make_node("Softmax", ["x"], ["y"], axis=0)
    return save(path, [node], [value("x", ["batch", 4])], [value("y", ["batch", 4])])


def texts(path: Path) -> Path:
    """The text itself."""
    node = helper.make_node("Identity", ["text"], ["same"])
    return save(path, [node], [value("text", ["n"], TensorProto.STRING)], [value("same", ["n"], TensorProto.STRING)])


def image_sum(path: Path) -> Path:
    """The mean of each channel, of images [batch, 3, 8, 8]."""
    node = helper.make_node("GlobalAveragePool", ["image"], ["mean"])
    return save(path, [node], [value("image", ["batch", 3, 8, 8])], [value("mean", ["batch", 3, 1, 1])])


def slow(path: Path) -> Path:
    """x multiplied `times` times with a matrix of 256 x 256, all in one Loop."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["keep"], ["again"]),
            helper.make_node("MatMul", ["state", "m"], ["product"]),
            helper.make_node("Tanh", ["product"], ["next"]),
        ],
        "body",
        [value("i", [], TensorProto.INT64), value("keep", [], TensorProto.BOOL), value("state", [256, 256])],
        [value("again", [], TensorProto.BOOL), value("next", [256, 256])],
    )
    matrix = np.full((256, 256), 1 / 256, np.float32)
    nodes = [
        helper.make_node("Loop", ["times", "", "m"], ["state"], body=body),
        helper.make_node("ReduceMean", ["state"], ["y"], keepdims=0),
    ]
    return save(
        path, nodes, [value("times", [], TensorProto.INT64)], [value("y", [])], [numpy_helper.from_array(matrix, "m")]
    )


def project(folder: Path, configuration: str, maker=affine) -> Path:
    """A folder with gpux.yml and model.onnx."""
    folder.mkdir(parents=True, exist_ok=True)
    maker(folder / "model.onnx")
    (folder / "gpux.yml").write_text(configuration)
    return folder
