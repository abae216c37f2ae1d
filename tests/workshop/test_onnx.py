"""Plans of ONNX models against ONNX Runtime with unihal's provider, on the stub."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import unihal
import unihal.onnxruntime
import unihal_workshop as workshop
from networks import NETWORKS, resnet
from onnx import TensorProto, helper
from unihal_workshop.planning.onnx_trace import LAYOUT_NOTE


def export(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], path: Path) -> Path:
    torch.onnx.export(
        module.eval(), inputs, str(path), dynamo=False, input_names=["x"], output_names=["y"],
        dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}, opset_version=17,
    )  # fmt: skip
    return path


def peak_of(path: Path, shape: tuple[int, ...]) -> int:
    gc.collect()
    device = unihal.device("rdna")
    device.empty_cache()
    assert device.memory_stats().allocated_bytes == 0
    device.reset_peak_memory_stats()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.enable_mem_pattern = False
    options.add_free_dimension_override_by_name("n", shape[0])
    unihal.onnxruntime.add_to(options, "rdna", layout="nchw")
    session = onnxruntime.InferenceSession(str(path), options)
    session.run(None, {"x": np.zeros(shape, np.float32)})
    peak = int(device.memory_stats().peak_allocated_bytes)
    del session
    gc.collect()
    return peak


NAMES: dict[str, Any] = {
    "unet": (NETWORKS["unet"][0], (2, 3, 64, 64)),
    "transformer": (NETWORKS["transformer"][0], (4, 64, 128)),
    "mlp": (
        lambda: torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)),
        (256, 512),
    ),
    "resnet": (lambda: resnet((1, 1, 1, 1), 10), (4, 3, 96, 96)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", ["unet", "mlp", *(pytest.param(name, marks=pytest.mark.whole) for name in ("transformer", "resnet"))]
)
def test_the_peak_is_the_plans(name: str, tmp_path: Path) -> None:
    make, shape = NAMES[name]
    path = export(make(), (torch.zeros(shape),), tmp_path / f"{name}.onnx")
    plan = workshop.plan(path, {"x": shape}, "rx580-4gb", find_batch=False)
    assert plan.notes == ([LAYOUT_NOTE] if name in ("unet", "resnet") else []) and plan.batch == shape[0]
    assert plan.peak_bytes == pytest.approx(peak_of(path, shape), rel=0.05)


def small(path: Path, batch: int | str = "n") -> Path:
    """A product and a sum; the second axis is 256."""
    weight = np.zeros((256, 256), np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 256])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 256])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_the_largest_batch(tmp_path: Path) -> None:
    path = small(tmp_path / "m.onnx")
    card = workshop.find_card("rx580-4gb")
    plan = workshop.plan(path, {}, card, reserve=card.memory - (64 << 20))
    assert plan.largest_batch is not None
    for batch, fits in ((plan.largest_batch, True), (plan.largest_batch + 1, False)):
        given = workshop.plan(path, {"x": (batch, 256)}, card, reserve=plan.reserve, find_batch=False)
        assert given.fits is fits
    fixed = workshop.plan(small(tmp_path / "f.onnx", 8), {}, card)
    assert fixed.batch is None and fixed.largest_batch is None


def test_mistakes(tmp_path: Path) -> None:
    path = small(tmp_path / "m.onnx")
    for inputs, said in (
        ({"z": (1, 256)}, "no input 'z'"),
        ({"x": (1, 2, 3)}, "2 axes"),
        ({"x": (-1, 256)}, "none below 0"),
        ([1], "a mapping of names to shapes"),
    ):
        with pytest.raises(workshop.InputError, match=said):
            workshop.plan(path, inputs, "rx580-4gb")
    (tmp_path / "b.onnx").write_bytes(b"not a model")
    with pytest.raises(workshop.ModelError):
        workshop.plan(tmp_path / "b.onnx", {}, "rx580-4gb")


def test_shapes_that_depend_on_values_are_refused(tmp_path: Path) -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["i"]), helper.make_node("Cast", ["i"], ["y"], to=TensorProto.FLOAT)]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, None])],
    )
    path = tmp_path / "v.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    with pytest.raises(workshop.ModelError, match="depends on values"):
        workshop.plan(path, {}, "rx580-4gb")
