"""Trains a small network on scikit-learn's handwritten digits; writes digits.onnx and a digit as seven.png beside it.

Needs scikit-learn, onnx and pillow: python train.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

FOLDER = Path(__file__).parent


def export(network: MLPClassifier, path: Path) -> None:
    """Writes the network as ONNX: pixels [batch, 64], from 0 to 1, to probabilities [batch, 10]."""
    nodes, weights, name = [], [], "pixels"
    last = len(network.coefs_) - 1
    for index, (weight, bias) in enumerate(zip(network.coefs_, network.intercepts_)):
        weights.append(numpy_helper.from_array(weight.astype(np.float32), f"weight{index}"))
        weights.append(numpy_helper.from_array(bias.astype(np.float32), f"bias{index}"))
        nodes.append(helper.make_node("Gemm", [name, f"weight{index}", f"bias{index}"], [f"sum{index}"]))
        name = "probabilities" if index == last else f"active{index}"
        nodes.append(helper.make_node("Softmax" if index == last else "Relu", [f"sum{index}"], [name]))
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["batch", 64])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def main() -> None:
    digits = load_digits()
    images = (digits.data / 16).astype(np.float32)
    train_x, test_x, train_y, test_y = train_test_split(images, digits.target, random_state=0)
    network = MLPClassifier([64, 32], max_iter=200, early_stopping=True, random_state=0).fit(train_x, train_y)
    print(f"accuracy on {len(test_y)} digits that it has not seen: {network.score(test_x, test_y):.3f}")
    export(network, FOLDER / "digits.onnx")
    seven = test_x[np.flatnonzero(test_y == 7)[0]]
    Image.fromarray((seven.reshape(8, 8) * 255).astype(np.uint8)).resize((64, 64), Image.Resampling.NEAREST).save(
        FOLDER / "seven.png"
    )


if __name__ == "__main__":
    main()
