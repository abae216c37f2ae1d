"""Ops on the device: the node tests of the onnx package, and what they do not reach."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx_cases
import pytest
import unihal
from onnx import helper
from sessions import cpu_session, fallbacks, model, session

OPS = onnx_cases.covered()

#: A case or two of each family, by the package's module, for every change; the others run before a change lands, those
#: of pooling among them, which take 12 s to make.
SAMPLE = {
    "add": "add",
    "clip": "clip",
    "cast": "cast_FLOAT_to_FLOAT16",
    "where": "where_example",
    "matmul": "matmul_2d",
    "gemm": "gemm_all_attributes",
    "softmax": "softmax_axis_1",
    "mod": "mod_broadcast",
    "conv": "conv_with_strides_padding|basic_conv_with_padding",
    "convtranspose": "convtranspose_pads",
    "batch_normalization": "batchnorm_epsilon",
    "layernormalization": "layer_normalization_2d_axis0",
    "instance_normalization": "instancenorm_epsilon",
    "reducemean": "reduce_mean_keepdims_example",
    "argmax": r"argmax_\w+example",
    "reshape": "reshape_zero_dim",
    "squeeze": "squeeze",
    "slice": "slice_neg_steps",
    "concat": "concat_2d_axis_0",
    "split": "split_equal_parts_1d_opset18",
    "pad": "pad_reflect|constant_pad",
    "gather": "gather_negative_indices",
    "scatternd": "scatternd_add",
    "scatterelements": "scatter_elements_with_axis",
    "onehot": "onehot_negative_indices",
    "topk": "top_k",
    "cumsum": "cumsum_2d_axis_0",
    "resize": "resize_upsample_sizes_cubic|resize_downsample_scales_linear_antialias",
    "gridsample": "gridsample",
    "lstm": "lstm_defaults",
    "quantizelinear": "quantizelinear_axis",
    "dequantizelinear": "dequantizelinear_blocked",
    "qlinearmatmul": "qlinearmatmul_2D_uint8_float32",
    "nonzero": "nonzero_example",
    "compress": "compress_0",
}


def check(cases: Iterable[Any]) -> dict[str, int]:
    """Runs cases; none may fail. Gives the numbers of those that passed and were left out."""
    outcomes = [onnx_cases.run(case, OPS) for case in cases]
    assert [f"{o.name}: {o.reason}" for o in outcomes if o.state == "failed"] == []
    return {state: sum(o.state == state for o in outcomes) for state in ("passed", "left out")}


def test_a_sample_of_the_node_tests() -> None:
    numbers = check(onnx_cases.cases(rf"^test_({'|'.join(SAMPLE.values())})$", SAMPLE))
    assert numbers["passed"] >= 35 and numbers["left out"] == 0


@pytest.mark.whole
def test_all_node_tests() -> None:
    assert check(onnx_cases.cases())["passed"] >= 1649


def test_what_has_no_kernel_is_left_to_the_cpu_and_counted() -> None:
    made = model([helper.make_node("Det", ["x"], ["y"])], {"x": ("float32", [3, 3])}, {"y": "float32"})
    key = ("Det", "float32", "no kernel is registered")
    before = fallbacks().get(key, 0)
    x = np.eye(3, dtype=np.float32)
    assert session(made, cpu=True).run(None, {"x": x})[0] == 1
    assert fallbacks()[key] == before + 1


def test_a_dtype_without_a_kernel_is_left_to_the_cpu_and_counted() -> None:
    made = model([helper.make_node("Equal", ["x", "x"], ["y"])], {"x": (object, [2])}, {"y": "bool"})
    x = np.array(["a", "b"], dtype=object)
    assert session(made, cpu=True).run(None, {"x": x})[0].tolist() == [True, True]
    assert ("Equal", "string", "no kernel for dtype string") in fallbacks()


def test_shapes_are_computed_on_the_cpu_and_not_counted() -> None:
    """x reshaped to what its own shape says, as exporters write it."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "first"], ["rows"]),
        helper.make_node("Concat", ["rows", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["flat"]),
        helper.make_node("Relu", ["flat"], ["y"]),
    ]
    constants = {"first": np.array([0], np.int64), "rest": np.array([-1], np.int64)}
    made = model(nodes, {"x": ("float32", ["n", 2, 3])}, {"y": "float32"}, constants)
    before = fallbacks()
    x = np.arange(24, dtype=np.float32).reshape(4, 2, 3) - 12
    assert np.array_equal(session(made, cpu=True).run(None, {"x": x})[0], np.maximum(x, 0).reshape(4, 6))
    assert fallbacks() == before


@pytest.mark.parametrize(
    ("op", "shapes", "attributes"),
    [
        ("MatMul", [(3, 4), (5, 6)], {}),
        ("Concat", [(2, 3), (2, 4)], {"axis": 0}),
        ("Conv", [(1, 3, 8, 8), (4, 2, 3, 3)], {}),
        ("Add", [(2, 3), (2, 4)], {}),
    ],
)
def test_what_the_cpu_refuses_the_device_refuses(
    op: str, shapes: list[tuple[int, ...]], attributes: dict[str, int]
) -> None:
    names = [f"x{i}" for i in range(len(shapes))]
    # Lengths that the model does not say are known only when it runs.
    inputs = {
        name: ("float32", [f"{name}_{axis}" for axis in range(len(shape))])
        for name, shape in zip(names, shapes, strict=True)
    }
    made = model([helper.make_node(op, names, ["y"], **attributes)], inputs, {"y": "float32"})
    feeds = {name: np.ones(shape, np.float32) for name, shape in zip(names, shapes, strict=True)}
    with pytest.raises(Exception) as on_cpu:
        cpu_session(made).run(None, feeds)
    with pytest.raises(Exception) as on_device:
        session(made).run(None, feeds)
    assert "onnxruntime" in type(on_cpu.value).__module__ and "onnxruntime" in type(on_device.value).__module__
    assert f"{op} on rdna:0" in str(on_device.value)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zero_points", [False, True])
def test_matmul_of_few_bits(dtype: str, bits: int, zero_points: bool) -> None:
    rng = np.random.default_rng(bits)
    rows, columns, block = 64, 24, 32
    blocks = rows // block
    weights = rng.integers(0, 2**bits, (columns, rows), dtype=np.uint8)
    packed = weights[:, 0::2] | (weights[:, 1::2] << 4) if bits == 4 else weights
    scales = rng.uniform(0.01, 0.1, (columns, blocks)).astype(dtype)
    zeros = rng.integers(0, 2**bits, (columns, blocks), dtype=np.uint8)
    constants = {"b": packed.reshape(columns, blocks, -1), "scales": scales}
    names = ["x", "b", "scales"]
    if zero_points:
        names.append("zeros")
        constants["zeros"] = zeros[:, 0::2] | (zeros[:, 1::2] << 4) if bits == 4 else zeros
    node = helper.make_node(
        "MatMulNBits", names, ["y"], domain="com.microsoft", K=rows, N=columns, bits=bits, block_size=block
    )
    made = model([node], {"x": (dtype, [5, rows])}, {"y": dtype}, constants)
    x = rng.standard_normal((5, rows)).astype(dtype)
    points = zeros if zero_points else np.full((columns, blocks), 2 ** (bits - 1))
    whole = (weights.astype(np.float64) - points.repeat(block, 1)) * scales.astype(np.float64).repeat(block, 1)
    expected = x.astype(np.float64) @ whole.T
    tolerance = 1e-4 if dtype == "float32" else 2e-2
    assert np.allclose(session(made).run(None, {"x": x})[0], expected, tolerance, tolerance * abs(expected).max())


# -- against ONNX Runtime's CPU provider: what the package's cases do not reach

RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def agree(op: str, inputs: dict[str, np.ndarray], outputs: dict[str, str], opset: int = 21, **attributes: Any) -> None:
    """A node on the device, the CPU forbidden, and on the CPU."""
    kinds = {name: (value.dtype, list(value.shape)) for name, value in inputs.items()}
    made = model([helper.make_node(op, list(inputs), list(outputs), **attributes)], kinds, outputs, opset=opset)
    for ours, theirs in zip(session(made).run(None, inputs), cpu_session(made).run(None, inputs), strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("...ij,...jk->...ik", [(2, 3, 4, 5), (1, 3, 5, 6)]),
        ("...ij,jk", [(2, 4, 5), (5, 6)]),
        ("bhwc,hkc->bhwk", [(2, 3, 4, 5), (3, 6, 5)]),
        ("i...->...", [(3, 2, 4)]),
        ("...,...", [(2, 1, 4), (2, 3, 1)]),
        ("ij,ij->i", [(3, 4), (3, 1)]),
        ("b...d,...d->b...", [(2, 3, 4), (3, 4)]),
    ],
)
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    inputs = {f"x{i}": floats(*shape) for i, shape in enumerate(shapes)}
    kinds = {name: (value.dtype, list(value.shape)) for name, value in inputs.items()}
    made = model([helper.make_node("Einsum", list(inputs), ["y"], equation=equation)], kinds, {"y": "float32"})
    expected = np.einsum(equation, *inputs.values())
    np.testing.assert_allclose(session(made).run(None, inputs)[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize(("window", "dilations", "pads"), [([3], [2], [2, 1]), ([2, 3], [3, 2], [1, 2, 1, 2])])
def test_pools_with_gaps(window: list[int], dilations: list[int], pads: list[int], ceil: int) -> None:
    x = floats(2, 3, *(11, 10)[: len(window)])
    form = {"kernel_shape": window, "dilations": dilations, "pads": pads, "strides": [2] * len(window)}
    agree("MaxPool", {"x": x}, {"y": "float32"}, ceil_mode=ceil, **form)
    agree("MaxPool", {"x": x}, {"y": "float32", "places": "int64"}, ceil_mode=ceil, **form)
    agree("AveragePool", {"x": x}, {"y": "float32"}, **form)
    agree("AveragePool", {"x": x}, {"y": "float32"}, count_include_pad=1, **form)
    agree("LpPool", {"x": x}, {"y": "float32"}, p=3, **form)


@pytest.mark.parametrize("shape", [(5, 7), (4, 3, 6)])
def test_places_along_columns(shape: tuple[int, ...]) -> None:
    form = {"kernel_shape": [2] * len(shape), "strides": [1] * len(shape), "pads": [1] * 2 * len(shape)}
    agree("MaxPool", {"x": floats(2, 3, *shape)}, {"y": "float32", "places": "int64"}, storage_order=1, **form)


@pytest.mark.parametrize("sorted_", [0, 1])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((50,), None), ((50,), 0), ((20, 3), None), ((20, 3), 0), ((20, 3), 1), ((1, 4), 0), ((0,), None)],
)
def test_unique(shape: tuple[int, ...], axis: int | None, sorted_: int) -> None:
    x = RNG.integers(0, 4, shape).astype(np.float32)
    outputs = {"y": "float32", "first": "int64", "which": "int64", "counts": "int64"}
    attributes = {} if axis is None else {"axis": axis}
    agree("Unique", {"x": x}, outputs, sorted=sorted_, **attributes)


@pytest.mark.parametrize(("groups", "offset_groups", "mask"), [(1, 1, False), (2, 1, True), (1, 2, True)])
def test_deformable_convolution(groups: int, offset_groups: int, mask: bool) -> None:
    inputs = {
        "x": floats(2, 4, 7, 6),
        "w": floats(6, 4 // groups, 3, 2),
        "offset": floats(2, offset_groups * 12, 4, 5),
        "b": floats(6),
    }
    if mask:
        inputs["mask"] = RNG.uniform(0, 1, (2, offset_groups * 6, 4, 5)).astype(np.float32)
    form = {"pads": [1, 0, 1, 1], "strides": [2, 1], "dilations": [1, 2], "group": groups}
    agree("DeformConv", inputs, {"y": "float32"}, offset_group=offset_groups, **form)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("region", [[0, 0, 0.2, 0.1, 1, 1, 0.7, 0.8], [0, 0, -0.3, 0.5, 1, 1, 0.6, 1.4]])
def test_a_region_of_an_image(region: list[float], mode: str) -> None:
    inputs = {"x": floats(1, 2, 7, 6)}
    constants = {"region": np.array(region, np.float32), "sizes": np.array([1, 2, 5, 9], np.int64)}
    attributes = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 3.0}
    node = helper.make_node("Resize", ["x", "region", "", "sizes"], ["y"], **attributes)
    made = model([node], {"x": ("float32", [1, 2, 7, 6])}, {"y": "float32"}, constants)
    expected = cpu_session(made).run(None, inputs)[0]
    np.testing.assert_allclose(session(made).run(None, inputs)[0], expected, rtol=1e-4, atol=1e-5)


def test_a_device_without_room_says_so() -> None:
    """ONNX Runtime goes on with a tensor whose memory was refused: the copy into it, or the op, says why."""
    made = model([helper.make_node("Exp", ["x"], ["y"])], {"x": ("float32", ["n"])}, {"y": "float32"})
    device = unihal.device("rdna:0")
    limited = session(made)
    device.set_memory_limit(device.memory_stats().reserved_bytes + (1 << 20))
    try:
        with pytest.raises(Exception, match="limit"):
            limited.run(None, {"x": np.zeros(1 << 22, np.float32)})
    finally:
        device.set_memory_limit(0)
    assert limited.run(None, {"x": np.zeros(4, np.float32)})[0].tolist() == [1] * 4
