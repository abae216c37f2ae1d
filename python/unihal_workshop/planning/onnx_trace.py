"""Traces of ONNX models: the graph in its order, each value from the node that makes it to the last that reads it.

The graph is the one that ONNX Runtime makes of the file by the optimizations that it does for every provider (folded
constants and shapes, a batch norm within a convolution), for the shapes that are planned.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
from gpux.errors import ModelError as GPUXModelError
from gpux.inspection.cost import node_operations
from gpux.inspection.files import CheckedModel, bits_of, open_model
from onnx import shape_inference

from ..errors import InputError, ModelError
from ..naming import nearest
from .trace import Op, Tensor, Trace

#: Ops whose output is the input's memory under another shape.
_ALIASES = {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze"}
#: Ops whose output takes the first input's memory when nobody else reads that (plugins/onnxruntime/kernels,
#: Reuse::kInPlace).
_IN_PLACE = {
    "Abs", "Neg", "Sign", "Reciprocal", "Floor", "Ceil", "Round", "Exp", "Log", "Sqrt", "Sin", "Cos", "Tan",
    "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Asinh", "Acosh", "Atanh", "Erf", "Relu", "Sigmoid",
    "LeakyRelu", "Elu", "Selu", "HardSigmoid", "HardSwish", "Softplus", "Softsign", "Mish", "ThresholdedRelu",
    "Swish", "Not", "BitwiseNot", "QuickGelu", "Gelu", "Celu", "Add", "Sub", "Mul", "Div", "Pow", "And", "Or",
    "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Mod", "BitShift", "Clip", "Softmax", "LogSoftmax",
}  # fmt: skip
#: Ops that compute with shapes, in the host's memory.
_SHAPES = {"Shape", "Size"}
_MATRICES = {"MatMul", "Gemm"}
#: Ops around which the provider may lay images out anew (its option `layout`).
_IMAGES = {"Conv", "ConvTranspose", "MaxPool", "AveragePool", "QLinearConv"}
LAYOUT_NOTE = "planned for the provider's layout=nchw; its default may take more, for images that are laid out anew"


class OnnxModel:
    """An ONNX file, for traces of several batches. `shapes` gives inputs' shapes by name; what is left out comes from
    the file.

    Free axes that no shape gives are 1. `batch` is the first axis of the first input if the file leaves it free, else
    None.
    """

    def __init__(self, path: Path, shapes: Mapping[str, Sequence[int]]) -> None:
        try:
            self._model: CheckedModel = open_model(path)
        except GPUXModelError as error:
            raise ModelError(str(error)) from error
        self.path = path
        graph = self._model.proto.graph
        constants = {tensor.name for tensor in graph.initializer}
        self._inputs = {value.name: value for value in graph.input if value.name not in constants}
        for name, shape in shapes.items():
            if name not in self._inputs:
                raise InputError(f"{path.name} has no input {name!r}{nearest(name, self._inputs)}")
            if not all(isinstance(size, int) and size >= 0 for size in shape):
                raise InputError(f"the shape of {name} is {list(shape)}: expected whole numbers, none below 0")
            rank = len(self._inputs[name].type.tensor_type.shape.dim)
            if len(shape) != rank:
                raise InputError(f"the shape of {name} is {list(shape)}: {path.name} has {rank} axes there")
        self._shapes = {name: [int(size) for size in shape] for name, shape in shapes.items()}
        self.batch: int | None = None
        self.dtype = "float32"
        for name, value in self._inputs.items():
            tensor = value.type.tensor_type
            if tensor.shape.dim and not tensor.shape.dim[0].HasField("dim_value"):
                self.batch = self._shapes[name][0] if name in self._shapes else 1
            self.dtype = onnx.TensorProto.DataType.Name(tensor.elem_type).lower().replace("float", "float32", 1)
            if tensor.elem_type != onnx.TensorProto.FLOAT:
                self.dtype = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
            break

    def _shape_of(self, name: str, batch: int | None) -> list[int]:
        dimensions = self._inputs[name].type.tensor_type.shape.dim
        shape = self._shapes.get(name) or [d.dim_value if d.HasField("dim_value") else 1 for d in dimensions]
        shape = list(shape)
        if batch is not None and dimensions and not dimensions[0].HasField("dim_value"):
            shape[0] = batch
        return shape

    def _fixed(self, batch: int | None) -> onnx.ModelProto:
        """The model with the inputs' shapes written into it."""
        fixed = onnx.ModelProto()
        fixed.CopyFrom(self._model.proto)
        # Values that the graph computed before for other sizes would contradict what is inferred now.
        del fixed.graph.value_info[:]
        constants = {tensor.name for tensor in fixed.graph.initializer}
        for value in fixed.graph.input:
            if value.name not in constants:
                for dimension, size in zip(value.type.tensor_type.shape.dim, self._shape_of(value.name, batch)):
                    dimension.dim_value = size
        for value in fixed.graph.output:
            value.type.tensor_type.ClearField("shape")
        return fixed

    def _optimized(self, model: onnx.ModelProto, notes: list[str]) -> onnx.ModelProto:
        """What ONNX Runtime makes of it; the model itself, and a note, where it cannot be asked."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        folder = str(self.path.resolve().parent)
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        with tempfile.TemporaryDirectory(prefix="unihal-plan-") as place:
            options.optimized_model_filepath = str(Path(place) / "optimized.onnx")
            options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "weights")
            try:
                onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
                return onnx.load(options.optimized_model_filepath, load_external_data=False)
            except Exception as error:  # ONNX Runtime has a dozen classes, protobuf others
                notes.append(
                    f"planned as the file is: ONNX Runtime does not open it ({' '.join(str(error).split())[:200]})"
                )
                return model

    def _inferred(self, model: onnx.ModelProto) -> dict[str, tuple[int, list[int]]]:
        """Types and shapes of all values."""
        try:
            fixed = shape_inference.infer_shapes(model, data_prop=True)
        except Exception as error:  # onnx has no class for what it cannot infer
            raise ModelError(f"{self.path.name}: shapes cannot be inferred: {str(error).strip()[:300]}") from None
        found: dict[str, tuple[int, list[int]]] = {
            tensor.name: (tensor.data_type, list(tensor.dims)) for tensor in fixed.graph.initializer
        }
        for value in (*fixed.graph.input, *fixed.graph.value_info, *fixed.graph.output):
            shape = value.type.tensor_type.shape
            if value.type.tensor_type.HasField("shape") and all(each.HasField("dim_value") for each in shape.dim):
                found.setdefault(value.name, (value.type.tensor_type.elem_type, [each.dim_value for each in shape.dim]))
        return found

    def trace(self, batch: int | None = None) -> Trace:
        """The trace of one inference; `batch` samples in place of the shapes' own."""
        if batch is not None and self.batch is None:
            raise ModelError(f"{self.path.name}: the first axis is not free, so there is no batch")
        trace = Trace()
        model = self._optimized(self._fixed(batch), trace.notes)
        graph = model.graph
        if any(node.op_type in _IMAGES for node in graph.node):
            trace.notes.append(LAYOUT_NOTE)
        values = self._inferred(model)
        numbers: dict[str, int] = {}

        def size_of(name: str) -> int:
            kind, shape = values[name]
            return (math.prod(shape) * bits_of(kind) + 7) // 8

        def add(name: str, category: str, op: str, module: str) -> int:
            kind, shape = values[name]
            number = trace.add(
                Tensor(size_of(name), category, op, module, _dtype_name(kind), tuple(shape), math.prod(shape))
            )
            numbers[name] = number
            return number

        on_host = _host_values(graph)
        matrices = {node.input[1] for node in graph.node if node.op_type in _MATRICES and len(node.input) > 1}
        for tensor in graph.initializer:
            if tensor.name not in on_host:
                number = add(tensor.name, "weights", "load", tensor.name)
                trace.tensors[number].quantizable = tensor.name in matrices and len(tensor.dims) == 2
        trace.start = len(trace.events)
        for name in self._inputs:
            add(name, "inputs", "input", name)
        buffers = _Buffers(graph, values, on_host, set(self._inputs))
        unknown = []
        for index, node in enumerate(graph.node):
            made = [name for name in node.output if name and name not in on_host]
            if not made:
                continue
            for name in made:
                if name not in values:
                    unknown.append(name)
                elif buffers.first.get(name) == index:
                    add(name, "activations", node.op_type, node.name)
            reads = [name for name in node.input if name]
            weights = tuple(
                numbers[name]
                for name in reads
                if name in numbers and trace.tensors[numbers[name]].category == "weights"
            )
            if node.op_type not in _ALIASES:
                shapes = [values[n][1] if n in values else None for n in node.input]
                results = [values[n][1] if n in values else None for n in node.output]
                moved = sum(size_of(n) for n in {*reads, *made} if n in values)
                trace.end_op(Op(node.op_type, node.name, node_operations(node, shapes, results), moved, weights))
            for name in buffers.ends.get(index, ()):
                if name in numbers:
                    trace.drop(numbers.pop(name))
        if unknown:
            raise ModelError(
                f"{self.path.name}: the shape of {unknown[0]} ({len(unknown)} such values) depends on values, so its "
                "memory cannot be planned"
            )
        return trace


class _Buffers:
    """Which values share memory, by the rules of ONNX Runtime's planner for one stream.

    A value whose node runs in place, or only names it anew, has its input's memory. Another one takes the memory of a
    value of the same shape and width that was read for the last time before, the latest first; in between that memory
    is not given back. `first` has the node at which each memory is asked for, by the value that is first in it,
    `ends` the values that are first in the memory that goes after a node.
    """

    def __init__(
        self,
        graph: onnx.GraphProto,
        values: Mapping[str, tuple[int, list[int]]],
        on_host: set[str],
        inputs: set[str],
    ) -> None:
        self.first: dict[str, int] = {}
        self.ends: dict[int, list[str]] = {}
        self._values = values
        outputs = {value.name for value in graph.output}
        buffer: dict[str, str] = {}
        uses: dict[str, int] = {}
        for node in graph.node:
            for name in node.input:
                uses[name] = uses.get(name, 0) + 1
        for name in outputs | inputs:
            uses[name] = uses.get(name, 0) + 1
        free: list[str] = []
        last: dict[str, int] = {}
        for index, node in enumerate(graph.node):
            made = [name for name in node.output if name and name not in on_host and name in values]
            for name in made:
                source = self._shared(node, name, buffer, uses, outputs)
                if source is None and name not in outputs:
                    source = next((each for each in free if self._same(each, name)), None)
                    if source is not None:
                        free.remove(source)
                if source is None:
                    buffer[name] = name
                    self.first[name] = index
                else:
                    buffer[name] = source
                    if source != name:
                        uses[source] = uses.get(source, 0) + uses.get(name, 0)
            for name in [*node.input, *made]:
                base = buffer.get(name)
                if base is None:
                    continue
                if name in node.input:
                    uses[base] -= 1
                if uses.get(base, 0) == 0 and base not in free:
                    free.insert(0, base)
                    last[base] = index
        for base in free:
            self.ends.setdefault(last[base], []).append(base)

    def _same(self, first: str, second: str) -> bool:
        kind, shape = self._values[first]
        other, others = self._values[second]
        return shape == others and bits_of(kind) == bits_of(other)

    def _shared(
        self, node: onnx.NodeProto, name: str, buffer: Mapping[str, str], uses: Mapping[str, int], outputs: set[str]
    ) -> str | None:
        """The memory of the first input, if the output takes it."""
        if name != node.output[0] or name in outputs or not node.input:
            return None
        base = buffer.get(node.input[0])
        if base is None:
            return None
        if node.op_type in _ALIASES:
            return base
        is_last = uses.get(base, 0) == 1
        return base if node.op_type in _IN_PLACE and is_last and self._same(node.input[0], name) else None


def _dtype_name(kind: int) -> str:
    return str(onnx.TensorProto.DataType.Name(kind)).lower()


def _host_values(graph: onnx.GraphProto) -> set[str]:
    """Values that only compute with shapes, which stay in the host's memory."""
    result: set[str] = set()
    constants = {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        if (
            node.op_type in _SHAPES
            or node.op_type == "Constant"
            or (
                any(name in result for name in node.input)
                and all(not name or name in result or name in constants for name in node.input)
            )
        ):
            result.update(node.output)
    # Shapes and the like that ops read as arguments.
    for node in graph.node:
        if node.op_type in ("Reshape", "Expand", "Tile", "Squeeze", "Unsqueeze", "Slice", "Resize", "Pad"):
            result.update(name for name in node.input[1:] if name in constants)
    return result
