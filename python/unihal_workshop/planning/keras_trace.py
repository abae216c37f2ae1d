"""Traces of Keras models on the backend TensorFlow: the graph of one call, each tensor until it was read for the last
time.

TensorFlow runs a graph in an order of its own and pools memory itself: this is the order of the calls in the model,
and bytes as TensorFlow's pool counts them (`tf.config.experimental.get_memory_info`). On the backend torch a Keras
model is a module of PyTorch, and planned as one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError, ModelError
from .trace import Op, Tensor, Trace

#: Ops whose output is the first input's memory.
_ALIASES = {
    "Identity",
    "IdentityN",
    "Reshape",
    "Squeeze",
    "ExpandDims",
    "StopGradient",
    "PreventGradient",
    "ReadVariableOp",
}
#: Ops that write into an input that nobody else reads (TensorFlow forwards its buffer, or the op is part of a
#: product). Those of one shape that follow one another, but for BiasAdd, are one op of unihal's graph pass: what is
#: between them is nowhere.
_IN_PLACE = {
    "Relu", "Relu6", "Elu", "Selu", "Sigmoid", "Tanh", "Softplus", "Softsign", "LeakyRelu", "Add", "AddV2",
    "Sub", "Mul", "RealDiv", "BiasAdd", "Neg", "Abs", "Square", "Sqrt", "Rsqrt", "Exp", "Log", "Erf", "Erfc",
    "Expm1", "Log1p", "Sin", "Cos", "Sign", "Floor", "Ceil", "Reciprocal", "Maximum", "Minimum", "Pow",
    "SquaredDifference", "Softmax", "LogSoftmax",
}  # fmt: skip
#: Ops that hand a piece of work to another graph, which is not looked into.
_CALLS = {"PartitionedCall", "StatefulPartitionedCall", "While", "StatelessWhile", "If", "StatelessIf"}
_GRANULE = 256


def load_keras(path: Path) -> Any:
    """The model of a .keras file, on Keras' backend of this process."""
    import contextlib

    import keras

    place: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        place = tf.device("/CPU:0")  # a plan takes nothing of a card
    try:
        with place:
            return keras.saving.load_model(path, compile=False)
    except Exception as error:  # a ZIP file, JSON, HDF5, unknown layers: each fails in its own way
        raise ModelError(f"{path} is no model that Keras loads: {type(error).__name__}: {error}") from None


def _shapes(model: Any, inputs: Any) -> list[list[int]]:
    """Shapes of all inputs of a model."""
    given = inputs
    if isinstance(given, Sequence) and given and all(isinstance(size, int) for size in given):
        given = [given]
    shapes = [list(getattr(each, "shape", each)) for each in (given or ())]
    wanted = [list(tensor.shape) for tensor in getattr(model, "inputs", None) or ()]
    if not shapes:
        if not wanted:
            raise InputError("the model was not built, so the shapes of its inputs have to be given")
        return [[size if size is not None else 1 for size in shape] for shape in wanted]
    if wanted and (
        len(wanted) != len(shapes)
        or any(
            len(ours) != len(theirs) or any(b not in (None, a) for a, b in zip(ours, theirs))
            for ours, theirs in zip(shapes, wanted)
        )
    ):
        raise InputError(f"inputs of the shapes {shapes}: the model takes {wanted}")
    return shapes


def trace_keras(model: Any, inputs: Any) -> tuple[Trace, str, str, int]:
    """The trace of one call in inference, the model's name, its dtype, and the number of samples."""
    import keras

    if keras.backend.backend() != "tensorflow":
        raise ModelError(
            f"Keras computes by {keras.backend.backend()} here: models are planned on the backends tensorflow and "
            "torch (KERAS_BACKEND)"
        )
    import tensorflow as tf

    shapes = _shapes(model, inputs)
    dtype = getattr(model, "compute_dtype", None) or "float32"
    kinds = [tensor.dtype for tensor in getattr(model, "inputs", None) or ()] or [dtype] * len(shapes)
    specs = [tf.TensorSpec(shape, kind) for shape, kind in zip(shapes, kinds)]
    with tf.device("/CPU:0"):
        function = tf.function(
            lambda *tensors: model(tensors[0] if len(tensors) == 1 else list(tensors), training=False)
        )
        try:
            concrete = function.get_concrete_function(*specs)
        except Exception as error:
            raise ModelError(f"{model.name} cannot be traced: {type(error).__name__}: {error}") from error
    trace = Trace()
    for variable in model.variables:
        size = math.prod(variable.shape) * tf.as_dtype(variable.dtype).size
        trace.add(Tensor(_rounded(size), "weights", "load", variable.path, str(variable.dtype), tuple(variable.shape)))
    trace.start = len(trace.events)
    _Graph(concrete.graph, {tensor.name for tensor in concrete.inputs[: len(specs)]}, trace)
    return trace, str(model.name), str(dtype), shapes[0][0] if shapes[0] else 1


def _rounded(size: int) -> int:
    return (size + _GRANULE - 1) // _GRANULE * _GRANULE


def _joins(op: Any) -> bool:
    return op.type in _IN_PLACE and op.type not in ("BiasAdd", "Softmax", "LogSoftmax")


class _Graph:
    """Walks a graph's ops in order, and knows which memory each tensor has."""

    def __init__(self, graph: Any, arguments: set[str], trace: Trace) -> None:
        self._trace = trace
        self._arguments = arguments
        self._readers: dict[str, list[Any]] = {}
        self._outputs = [tensor.name for tensor in graph.outputs]
        for op in graph.get_operations():
            for tensor in op.inputs:
                self._readers.setdefault(tensor.name, []).append(op)
        #: The memories that a tensor stands for: one, or those that an op reads which was joined with the next.
        self._places: dict[str, tuple[str, ...]] = {}
        self._left: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        for op in graph.get_operations():
            self._visit(op)

    def _reads(self, name: str) -> int:
        return len(self._readers.get(name, ())) + self._outputs.count(name)

    def _is_joined(self, op: Any) -> bool:
        """Whether the op's output is nowhere, since the next op computes it on its way."""
        name = op.outputs[0].name
        readers = self._readers.get(name, [])
        return (
            _joins(op)
            and len(readers) == 1
            and self._reads(name) == 1
            and _joins(readers[0])
            and list(readers[0].outputs[0].shape) == list(op.outputs[0].shape)
        )

    def _visit(self, op: Any) -> None:
        if op.type in _CALLS:
            self._trace.notes.append(f"{op.name} ({op.type}) runs another graph, whose memory is not counted")
        if op.type == "ReadVariableOp" or not op.outputs:
            return
        sources = [place for tensor in op.inputs for place in self._places.get(tensor.name, ())]
        if self._is_joined(op):
            self._places[op.outputs[0].name] = tuple(sources)
            return
        for index, tensor in enumerate(op.outputs):
            size = _bytes_of(tensor)
            if size is None or op.type == "Const" or (op.type == "Placeholder" and tensor.name not in self._arguments):
                continue  # a handle of a variable, or what lies on the host
            shared = self._shared(op, sources, _rounded(size)) if index == 0 else ""
            name = shared or tensor.name
            self._places[tensor.name] = (name,)
            self._left[name] = self._left.get(name, 0) + self._reads(tensor.name)
            if not shared:
                category = "inputs" if op.type == "Placeholder" else "activations"
                self._numbers[name] = self._trace.add(
                    Tensor(_rounded(size), category, op.type, op.name, tensor.dtype.name, tuple(tensor.shape))
                )
        if op.type not in _ALIASES and op.type not in ("Placeholder", "Const", "NoOp"):
            moved = sum(_bytes_of(tensor) or 0 for tensor in (*op.inputs, *op.outputs))
            self._trace.end_op(Op(op.type, op.name, _operations(op), moved))
        for name in sources:
            self._left[name] -= 1
        for name in dict.fromkeys([*sources, *(place for t in op.outputs for place in self._places.get(t.name, ()))]):
            if self._left.get(name, 0) <= 0 and name in self._numbers:
                number = self._numbers.pop(name)
                if self._trace.tensors[number].category == "activations":
                    self._trace.drop(number)

    def _shared(self, op: Any, sources: list[str], size: int) -> str:
        """The memory of the first input, if the output takes it."""
        if not sources:
            return ""
        first = sources[0]
        number = self._numbers.get(first)
        if op.type in _ALIASES:
            return first
        alone = len(set(sources)) == 1 and len(self._places.get(op.inputs[0].name, ())) == 1
        is_last = self._left.get(first) == 1
        return (
            first
            if op.type in _IN_PLACE
            and alone
            and is_last
            and number is not None
            and (self._trace.tensors[number].bytes == size)
            else ""
        )


def _bytes_of(tensor: Any) -> int | None:
    """None: no tensor of numbers (a resource), or one on the host."""
    if tensor.dtype.name in ("resource", "variant", "string", "int32"):
        return None
    if tensor.shape.rank is None or not tensor.shape.is_fully_defined():
        raise ModelError(f"the shape of {tensor.name} depends on values, so its memory cannot be planned")
    return int(math.prod(tensor.shape)) * int(tensor.dtype.size)


def _operations(op: Any) -> int:
    out = math.prod(op.outputs[0].shape) if op.outputs[0].shape.rank is not None else 0
    if op.type in ("Conv2D", "Conv3D", "DepthwiseConv2dNative") and len(op.inputs) > 1:
        kernel = op.inputs[1].shape
        inner = math.prod(kernel[:-1]) if op.type != "DepthwiseConv2dNative" else math.prod(kernel[:-2])
        return int(2 * out * inner)
    if op.type in ("MatMul", "BatchMatMulV2"):
        return int(2 * out * op.inputs[0].shape[-1])
    return int(out)
