"""Runs of a session that are captured and launched as one piece of work."""

from __future__ import annotations

from typing import Any

import networks
import numpy as np
import onnx
import onnxruntime
import pytest
import unihal
import unihal.onnxruntime
from onnx import helper
from sessions import DEVICE, cpu_session, model, options


def captured(made: onnx.ModelProto) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(made.SerializeToString(), options(graph=True))


class Bound:
    """A session with one input and one output that stay on the device."""

    def __init__(self, session: onnxruntime.InferenceSession, x: np.ndarray, output: np.ndarray) -> None:
        place = unihal.onnxruntime.memory(DEVICE)
        self.session = session
        self.input = onnxruntime.OrtValue.ortvalue_from_numpy(x, *place)
        self.output = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(output.shape), output.dtype, *place)
        self.binding = session.io_binding()
        self.binding.bind_ortvalue_input(session.get_inputs()[0].name, self.input)
        self.binding.bind_ortvalue_output(session.get_outputs()[0].name, self.output)

    def run(self, x: np.ndarray) -> np.ndarray:
        self.input.update_inplace(x)
        self.session.run_with_iobinding(self.binding)
        result: np.ndarray = self.output.numpy()
        return result


@pytest.mark.whole
@pytest.mark.parametrize("name", ["resnet", "mobilenet"])
def test_a_network_computes_from_what_is_in_its_input_by_then(name: str) -> None:
    made = networks.build(name)
    inputs = [next(iter(networks.example(name, seed).values())) for seed in range(4)]
    plain = cpu_session(made)
    key = plain.get_inputs()[0].name
    expected = [plain.run(None, {key: x})[0] for x in inputs]
    bound = Bound(captured(made), inputs[0], expected[0])
    for _ in range(3):
        for x, answer in zip(inputs, expected, strict=True):
            assert np.abs(bound.run(x) - answer).max() <= 1e-4 * np.abs(answer).max()


def test_nothing_is_launched_by_itself_any_more() -> None:
    made = networks.build("resnet")
    x = networks.example("resnet")["x"]
    expected = cpu_session(made).run(None, {"x": x})[0]
    bound = Bound(captured(made), x, expected)
    bound.run(x)
    with unihal.inject_faults(DEVICE) as faults:
        bound.run(x)
    assert faults.counts().launches <= 1


def test_memory_is_given_back() -> None:
    device = unihal.device(f"{DEVICE}:0")
    made = networks.build("resnet")
    x = networks.example("resnet")["x"]
    expected = cpu_session(made).run(None, {"x": x})[0]
    before = device.memory_stats().allocated_bytes
    bound = Bound(captured(made), x, expected)
    bound.run(x)
    del bound
    assert device.memory_stats().allocated_bytes == before


def test_inputs_of_the_host_are_an_error() -> None:
    made = model([helper.make_node("Relu", ["x"], ["y"])], {"x": ("float32", [2])}, {"y": "float32"})
    session = captured(made)
    with pytest.raises(Exception, match="by IO binding"):
        session.run(None, {"x": np.array([-1, 2], np.float32)})


def test_a_node_on_the_cpu_is_an_error() -> None:
    nodes: list[Any] = [helper.make_node("Det", ["x"], ["d"]), helper.make_node("Relu", ["d"], ["y"])]
    made = model(nodes, {"x": ("float32", [3, 3])}, {"y": "float32"})
    with pytest.raises(Exception) as caught:
        onnxruntime.InferenceSession(made.SerializeToString(), options(cpu=True, graph=True))
    assert type(caught.value).__module__.startswith("onnxruntime")


def test_a_wrong_value_is_an_error() -> None:
    chosen = onnxruntime.SessionOptions()
    chosen.add_provider_for_devices([unihal.onnxruntime.device(DEVICE)], {"graph": "yes"})
    made = model([helper.make_node("Relu", ["x"], ["y"])], {"x": ("float32", [2])}, {"y": "float32"})
    with pytest.raises(Exception, match="graph is 'yes', expected 0 or 1"):
        onnxruntime.InferenceSession(made.SerializeToString(), chosen)
