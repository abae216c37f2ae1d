"""Sessions on the device for tests: no node may run on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import unihal
import unihal.onnxruntime
from onnx import TensorProto, helper, numpy_helper

onnxruntime.set_default_logger_severity(4)

DEVICE = "rdna"


def options(cpu: bool = False, **provider: Any) -> onnxruntime.SessionOptions:
    """A session's options: on the device alone, or also on the CPU."""
    result = onnxruntime.SessionOptions()
    result.log_severity_level = 4
    if not cpu:
        result.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    unihal.onnxruntime.add_to(result, DEVICE, **provider)
    return result


def session(model: onnx.ModelProto, **chosen: Any) -> onnxruntime.InferenceSession:
    """A session of a model on the device."""
    return onnxruntime.InferenceSession(model.SerializeToString(), options(**chosen))


def cpu_session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """ONNX Runtime's own, to compare with."""
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), quiet, providers=["CPUExecutionProvider"])


def model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[Any, Any]],
    outputs: dict[str, Any],
    constants: dict[str, np.ndarray] | None = None,
    opset: int = 21,
) -> onnx.ModelProto:
    """A model of nodes; an input is a NumPy dtype and a shape, an output a NumPy dtype."""
    domains = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(
        nodes,
        "test",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
            for name, (dtype, shape) in inputs.items()
        ],
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None)
            for name, dtype in outputs.items()
        ],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=domains)
    made.ir_version = 10
    return made


def fallbacks() -> dict[tuple[str, str, str], int]:
    """How often each op of ONNX Runtime was left to the CPU, by its name, dtype and reason."""
    return {
        (entry.op, entry.dtype, entry.reason): entry.count
        for entry in unihal.fallbacks()
        if entry.framework == "onnxruntime"
    }


#: Element types that NumPy has not, which tests hand over as bits.
BITS = {TensorProto.BFLOAT16: np.uint16, TensorProto.FLOAT8E4M3FN: np.uint8, TensorProto.FLOAT8E5M2: np.uint8}
