"""Model files: what is inside, and files that are broken or hostile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from gpux import ModelError, ModelInspector
from gpux.inspection.files import open_model
from gpux.naming import version_key
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from sources import affine, save, slow, value

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def with_weight(path: Path, tensor: onnx.TensorProto) -> Path:
    node = helper.make_node("Add", ["x", "w"], ["y"])
    return save(path, [node], [value("x", [4])], [value("y", [4])], [tensor])


def external(path: Path, location: str, length: int = 16, offset: int = 0) -> Path:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, text in (("location", location), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=text)
    return with_weight(path, tensor)


def test_metadata(files: Path) -> None:
    found = ModelInspector().extract_metadata(files / "affine.onnx")
    assert [spec.describe_shape() for spec in (*found.inputs, *found.outputs)] == ["[batch, 4]", "[batch, 2]"]
    assert found.ops == {"Gemm": 1} and found.opsets == {"ai.onnx": 17} and found.producer == "tests"
    assert (found.parameters, found.weight_bytes, found.operations) == (10, 40, 2 * 4 * 2)
    assert found.joins_batches and found.nodes_without_shapes == 0


@pytest.mark.parametrize(("name", "operations"), [("resnet50", 8.2e9), ("vgg19", 39.3e9), ("squeezenet", 0.70e9)])
def test_the_cost_of_known_networks(name: str, operations: float) -> None:
    found = ModelInspector().extract_metadata(LIGHT / f"light_{name}.onnx")
    assert found.operations == pytest.approx(operations, rel=0.01)


def test_each_node_is_placed(files: Path) -> None:
    found = ModelInspector().inspect(LIGHT / "light_resnet50.onnx", "cpu")
    placed = {row.op: row.nodes for row in found.placement}
    assert placed["Conv"] == 53 and placed["Gemm"] == 1
    assert {row.provider for row in found.placement} <= {"CPUExecutionProvider", "none"}
    assert sum(placed.values()) == found.metadata.nodes


def test_graphs_in_nodes_are_counted(files: Path) -> None:
    assert ModelInspector().extract_metadata(files / "slow.onnx").ops == {
        "Identity": 1,
        "Loop": 1,
        "MatMul": 1,
        "ReduceMean": 1,
        "Tanh": 1,
    }


def test_a_file_cut_anywhere_is_an_error(tmp_path: Path) -> None:
    content = affine(tmp_path / "whole.onnx").read_bytes()
    path = tmp_path / "cut.onnx"
    for length in range(0, len(content) - 1, 7):
        path.write_bytes(content[:length])
        with pytest.raises(ModelError):
            ModelInspector().extract_metadata(path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=8))
def test_changed_bytes_never_end_the_process(tmp_path: Path, changes: list[tuple[int, int]]) -> None:
    path = tmp_path / "changed.onnx"
    content = bytearray(affine(path).read_bytes())
    for place, byte in changes:
        content[place % len(content)] = byte
    path.write_bytes(content)
    try:
        assert open_model(path).proto.graph.node
    except ModelError as error:
        assert str(error)


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "a/../../secret", "", "link", "..\\secret"])
def test_values_outside_of_the_folder_are_refused(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(16))
    (folder / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(ModelError, match="outside of the model's folder|no path in the model's folder"):
        open_model(external(folder / "m.onnx", location))


def test_values_in_the_folder_are_read(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights/w.bin").write_bytes(np.arange(5, dtype=np.float32).tobytes())
    model = open_model(external(tmp_path / "m.onnx", "weights/w.bin", offset=4))
    assert model.external == (tmp_path / "weights/w.bin",) and model.weight_bytes == 16


@pytest.mark.parametrize(
    ("location", "length", "offset", "says"),
    [
        ("none.bin", 16, 0, "is not there"),
        ("w.bin", 16, 8, "should be 16 bytes at 8"),
        ("w.bin", 1 << 60, 0, "should be 16 bytes"),
        ("w.bin", 16, -4, "should be 16 bytes at -4"),
    ],
)
def test_values_that_are_not_there_are_refused(
    tmp_path: Path, location: str, length: int, offset: int, says: str
) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(16))
    with pytest.raises(ModelError, match=says):
        open_model(external(tmp_path / "m.onnx", location, length, offset))


@pytest.mark.parametrize(
    ("dims", "raw", "says"),
    [
        ([1 << 40, 1 << 40], b"", "holds 0"),
        ([-4], bytes(16), "no tensor has that"),
        ([5], bytes(16), "takes 20 bytes, but holds 16"),
    ],
)
def test_sizes_are_not_believed(tmp_path: Path, dims: list[int], raw: bytes, says: str) -> None:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, raw_data=raw)
    with pytest.raises(ModelError, match=says):
        open_model(with_weight(tmp_path / "m.onnx", tensor))


def test_inputs_of_absurd_sizes_are_refused(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    path = save(tmp_path / "m.onnx", [node], [value("x", [1 << 31, 1 << 31])], [value("y", [1 << 31, 1 << 31])])
    with pytest.raises(ModelError, match="no tensor has that"):
        open_model(path)


def test_deeply_nested_graphs_are_refused(tmp_path: Path) -> None:
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [], [value("y", [1])])
    for _ in range(24):
        node = helper.make_node("If", ["c"], ["y"], then_branch=graph, else_branch=helper.make_graph([], "e", [], []))
        graph = helper.make_graph([node], "g", [], [value("y", [1])])
    path = tmp_path / "deep.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    with pytest.raises(ModelError, match="nested deeper"):
        open_model(path)


def test_an_op_that_is_not_known_is_told(tmp_path: Path) -> None:
    node = helper.make_node("Frobnicate", ["x"], ["y"])
    path = save(tmp_path / "m.onnx", [node], [value("x", [1])], [value("y", [1])])
    with pytest.raises(ModelError, match="Frobnicate"):
        ModelInspector().inspect(path)


def test_versions_are_ordered_as_people_count() -> None:
    assert sorted(["1.10", "1.9", "2", "1.9-rc1", "10"], key=version_key) == ["1.9", "1.9-rc1", "1.10", "2", "10"]


def test_all_of_a_loop_is_seen(tmp_path: Path) -> None:
    model = open_model(slow(tmp_path / "m.onnx"))
    assert model.parameters == 256 * 256 and model.weight_bytes == 4 * 256 * 256
    assert numpy_helper.to_array(model.proto.graph.initializer[0]).shape == (256, 256)


def test_the_cost_of_a_recurrent_network(tmp_path: Path) -> None:
    sizes = {"x": [7, 3, 5], "w": [2, 4 * 6, 5], "r": [2, 4 * 6, 6]}
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=6, direction="bidirectional")
    weights = [numpy_helper.from_array(np.zeros(sizes[name], np.float32), name) for name in ("w", "r")]
    path = save(tmp_path / "m.onnx", [node], [value("x", sizes["x"])], [value("y", [7, 2, 3, 6])], weights)
    found = ModelInspector().extract_metadata(path)
    assert found.operations == 2 * 7 * 3 * 2 * 24 * (5 + 6)
