"""Floating-point operations of a model, from the shapes of its nodes; a product with a sum counts as two."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import onnx
from onnx import shape_inference

Shape = Sequence[int]
Shapes = Sequence["Shape | None"]


def _attribute(node: onnx.NodeProto, name: str, default: int) -> int:
    return next((int(attribute.i) for attribute in node.attribute if attribute.name == name), default)


def _conv(node: onnx.NodeProto, inputs: Shapes, outputs: Shapes) -> int:
    weight, output = inputs[1], outputs[0]
    return 2 * math.prod(output) * math.prod(weight[1:]) if weight and output else 0


def _conv_transpose(node: onnx.NodeProto, inputs: Shapes, outputs: Shapes) -> int:
    x, weight = inputs[0], inputs[1]
    return 2 * math.prod(x) * math.prod(weight[1:]) if weight and x else 0


def _matmul(node: onnx.NodeProto, inputs: Shapes, outputs: Shapes) -> int:
    a, output = inputs[0], outputs[0]
    return 2 * math.prod(output) * a[-1] if a and output is not None else 0


def _gemm(node: onnx.NodeProto, inputs: Shapes, outputs: Shapes) -> int:
    a, output = inputs[0], outputs[0]
    if not a or not output:
        return 0
    return 2 * math.prod(output) * (a[0] if _attribute(node, "transA", 0) else a[-1])


def _recurrent(node: onnx.NodeProto, inputs: Shapes, outputs: Shapes) -> int:
    """The products of all steps, gates and directions; x [length, batch, input], weights [directions, gates, input]."""
    x, weight, recurrence = inputs[0], inputs[1], inputs[2]
    if not x or not weight or not recurrence:
        return 0
    return 2 * x[0] * x[1] * weight[0] * weight[1] * (weight[2] + recurrence[2])


def _attention(node: onnx.NodeProto, inputs: Shapes, outputs: Shapes) -> int:
    query, key = inputs[0], inputs[1]
    return 4 * math.prod(query) * key[-2] if query and key and len(key) >= 2 else 0


def _per_input(factor: int) -> Callable[[onnx.NodeProto, Shapes, Shapes], int]:
    def count(node: onnx.NodeProto, inputs: Shapes, outputs: Shapes) -> int:
        return factor * math.prod(inputs[0]) if inputs and inputs[0] is not None else 0

    return count


def _per_output(node: onnx.NodeProto, inputs: Shapes, outputs: Shapes) -> int:
    return math.prod(outputs[0]) if outputs and outputs[0] is not None else 0


def _pool(node: onnx.NodeProto, inputs: Shapes, outputs: Shapes) -> int:
    kernel: list[int] = next((list(each.ints) for each in node.attribute if each.name == "kernel_shape"), [])
    return math.prod(kernel) * _per_output(node, inputs, outputs)


_RULES: dict[str, Callable[[onnx.NodeProto, Shapes, Shapes], int]] = {
    "Conv": _conv,
    "ConvInteger": _conv,
    "QLinearConv": _conv,
    "ConvTranspose": _conv_transpose,
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "QLinearMatMul": _matmul,
    "Gemm": _gemm,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
    "Attention": _attention,
    "AveragePool": _pool,
    "MaxPool": _pool,
    "GlobalAveragePool": _per_input(1),
    "Softmax": _per_input(5),
    "LogSoftmax": _per_input(5),
    "LayerNormalization": _per_input(8),
    "BatchNormalization": _per_input(2),
    "InstanceNormalization": _per_input(8),
    "LRN": _per_input(8),
}
# What only moves values.
_FREE = {
    *(
        "Reshape",
        "Transpose",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Identity",
        "Concat",
        "Split",
        "Slice",
        "Gather",
        "Pad",
    ),
    *(
        "Shape",
        "Constant",
        "ConstantOfShape",
        "Cast",
        "Expand",
        "Tile",
        "Dropout",
        "Size",
        "GatherND",
        "GatherElements",
    ),
    *(
        "ScatterND",
        "ScatterElements",
        "Range",
        "NonZero",
        "Where",
        "If",
        "Loop",
        "Scan",
        "DepthToSpace",
        "SpaceToDepth",
    ),
}


def count_operations(proto: onnx.ModelProto, free_size: int = 1) -> tuple[int, int]:
    """Operations of one inference with free axes at `free_size`, and how many nodes have shapes that are not known."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(proto)
    # Values that the graph computed before for other sizes would contradict what is inferred now.
    del fixed.graph.value_info[:]
    for value in (*fixed.graph.input, *fixed.graph.output):
        for dimension in value.type.tensor_type.shape.dim:
            if not dimension.HasField("dim_value"):
                dimension.dim_value = free_size
    for value in fixed.graph.output:
        value.type.tensor_type.ClearField("shape")
    try:
        fixed = shape_inference.infer_shapes(fixed, data_prop=True)
    except Exception:  # onnx has no class for what it cannot infer
        return 0, len(fixed.graph.node)
    shapes: dict[str, Shape | None] = {tensor.name: list(tensor.dims) for tensor in fixed.graph.initializer}
    for value in (*fixed.graph.input, *fixed.graph.value_info, *fixed.graph.output):
        shape = value.type.tensor_type.shape
        if value.type.tensor_type.HasField("shape") and all(each.HasField("dim_value") for each in shape.dim):
            shapes.setdefault(value.name, [each.dim_value for each in shape.dim])
    total = unknown = 0
    for node in fixed.graph.node:
        if node.op_type in _FREE:
            continue
        inputs = [shapes.get(name) for name in node.input]
        outputs = [shapes.get(name) for name in node.output]
        if any(shapes.get(name) is None for name in (*node.input, *node.output[:1]) if name):
            unknown += 1
            continue
        try:
            total += _RULES.get(node.op_type, _per_output)(node, inputs, outputs)
        except (IndexError, TypeError):
            unknown += 1
    return total, unknown


def node_operations(node: onnx.NodeProto, inputs: Shapes, outputs: Shapes) -> int:
    """Operations of one node from its operands' shapes (None: not known, and then of what needs it 0)."""
    if node.op_type in _FREE:
        return 0
    try:
        return _RULES.get(node.op_type, _per_output)(node, inputs, outputs)
    except (IndexError, TypeError):
        return 0
