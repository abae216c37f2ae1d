"""Each op with a kernel in each of its versions since opset 7, as ONNX's own registry of ops has them."""

from __future__ import annotations

import ctypes
import functools
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx_cases
import onnxruntime
import pytest
import unihal.onnxruntime
from onnx import helper
from sessions import cpu_session, fallbacks, model, session

FIRST = 7  # the oldest opset that ONNX Runtime takes


@functools.cache
def rows() -> list[dict[str, Any]]:
    """The kernels, as the library tells them."""
    library = ctypes.CDLL(unihal.onnxruntime.library())
    library.uhal_onnxruntime_coverage.restype = ctypes.c_char_p
    found: list[dict[str, Any]] = json.loads(library.uhal_onnxruntime_coverage().decode())
    return found


@functools.cache
def versions() -> dict[str, list[int]]:
    """For each op of ONNX with a kernel: its versions that a model of opset 7 or later may have."""
    covered = {row["op"] for row in rows() if row["domain"] == ""}
    found = defaultdict(set)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.name in covered and not schema.deprecated:
            found[schema.name].add(schema.since_version)
    result = {}
    for name, all_versions in found.items():
        last_before = max((version for version in all_versions if version <= FIRST), default=None)
        result[name] = sorted(version for version in all_versions if version > FIRST or version == last_before)
    return result


def test_each_version_of_an_op_has_a_kernel() -> None:
    missing = [
        (name, version)
        for name, its_versions in versions().items()
        for version in its_versions
        if not any(
            row["op"] == name and row["domain"] == "" and row["first"] <= version <= row["last"] for row in rows()
        )
    ]
    assert missing == []


def in_opset(made: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """The model as one of another opset."""
    result = onnx.ModelProto()
    result.CopyFrom(made)
    del result.opset_import[:]
    result.opset_import.extend([helper.make_opsetid("", max(opset, FIRST)), helper.make_opsetid("com.microsoft", 1)])
    result.ir_version = 8
    return result


def older_cases() -> Iterator[tuple[Any, str, int]]:
    """The package's cases of one node, each in every version of its op."""
    for case in onnx_cases.cases():
        if len(case.model.graph.node) != 1 or case.model.graph.node[0].domain not in ("", "ai.onnx"):
            continue
        name = case.model.graph.node[0].op_type
        for version in versions().get(name, ()):
            yield case, name, version


def agree(made: onnx.ModelProto, feeds: dict[str, Any], name: str) -> str:
    """What the device does otherwise than the CPU; "" if nothing; "skipped" for what ONNX Runtime does not take."""
    try:
        theirs = [value.numpy() for value in cpu_session(made).run_with_ort_values(None, feeds)]
    except Exception:
        return "skipped"
    before, refusal = fallbacks(), ""
    try:
        ours = [value.numpy() for value in session(made).run_with_ort_values(None, feeds)]
    except Exception as error:
        refusal = str(error)[:200] or repr(error)
    if refusal:  # the session went with its error, and what it left to the CPU is counted
        left = [key[2] for key, count in fallbacks().items() if count > before.get(key, 0)]
        return f"left out: {left[0]}" if left else refusal
    for a, b in zip(ours, theirs, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{a.dtype} {a.shape}, on the CPU {b.dtype} {b.shape}"
        rtol, atol = (2e-2, 2e-2) if a.dtype == np.float16 else (1e-4, 1e-5)
        if name in ("DFT", "STFT") and b.size:  # sums in which large numbers cancel
            atol = 3e-6 * np.abs(b).max() * b.shape[-2]
        if not np.allclose(a.astype(np.float64), b.astype(np.float64), rtol, atol, equal_nan=True):
            return f"differs: {a.ravel()[:4]}, on the CPU {b.ravel()[:4]}"
    return ""


#: Where ONNX Runtime's CPU provider does not give the package's answers, and the device does.
OTHERWISE = (
    r"^test_(attention_4d_with_past_and_present_qk_matmul_bias_.d_mask_causal|maxunpool_export_with_output_shape)$"
)

#: Whose answers are random numbers, which are not the CPU's.
RANDOM = ("Bernoulli", "Dropout", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")


@pytest.mark.long
def test_the_cases_of_the_package_in_older_opsets() -> None:
    """Many a case has the attributes of older versions of its op: the device must answer those as the CPU does."""
    tried: set[tuple[str, int]] = set()
    wrong = []
    for case, name, version in older_cases():
        if name in RANDOM or case.name in onnx_cases.AS_ONNXRUNTIME or re.search(OTHERWISE, case.name):
            continue
        made = onnx_cases.for_numpy(in_opset(case.model, version))
        try:
            feeds = {
                info.name: onnx_cases.feed(value, info)
                for info, value in zip(made.graph.input, case.data_sets[0][0], strict=False)
            }
        except Exception:
            continue  # values that NumPy does not hold
        outcome = agree(made, feeds, name)
        if "opset" in outcome or (outcome and outcome != "skipped" and not outcome.startswith("left out")):
            wrong.append(f"{case.name} in opset {version}: {outcome}")
        if outcome == "":
            tried.add((name, version))
    assert wrong == []
    assert len(tried) >= 430


# -- forms that ops had: attributes that became inputs


X = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)

#: Op, attributes and the opsets in which it has them.
OLD_FORMS = [
    ("Squeeze", {"axes": [1]}, range(7, 13)),
    ("Unsqueeze", {"axes": [0, 3]}, range(7, 13)),
    ("Slice", {"axes": [1, 3], "starts": [1, -3], "ends": [9, -1]}, range(7, 10)),
    ("Pad", {"pads": [0, 1, 0, 2, 0, 0, 1, 1], "value": 2.0}, range(7, 11)),
    ("Pad", {"pads": [0, 0, 1, 2, 0, 0, 1, 1], "mode": "reflect"}, range(7, 11)),
    ("Clip", {"min": -0.5, "max": 0.75}, range(7, 11)),
    ("Split", {"axis": 3, "split": [2, 3]}, range(7, 13)),
    ("Dropout", {"ratio": 0.25}, range(7, 12)),
    ("Upsample", {"scales": [1.0, 1.0, 2.0, 3.0], "mode": "nearest"}, range(7, 9)),
    ("Upsample", {"scales": [1.0, 1.0, 2.0, 2.0], "mode": "linear"}, range(7, 9)),
    ("TopK", {"axis": 2, "k": 2}, range(7, 10)),
    ("Softmax", {"axis": 1}, range(7, 13)),
    ("LogSoftmax", {"axis": 2}, range(7, 13)),
    ("Hardmax", {"axis": 2}, range(7, 13)),
    ("Flatten", {"axis": 2}, range(7, 13)),
    ("ReduceSum", {"axes": [1, 3], "keepdims": 0}, range(7, 13)),
    *(
        (f"Reduce{name}", {"axes": [1, 3]}, range(7, 18))
        for name in ("Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSumExp")
    ),
    ("AveragePool", {"kernel_shape": [2, 3], "pads": [0, 1, 1, 1], "count_include_pad": 1}, range(7, 19)),
    ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}, range(7, 22)),
    ("MaxPool", {"kernel_shape": [2, 2], "dilations": [2, 3]}, range(10, 22)),
    ("LpPool", {"kernel_shape": [2, 2], "p": 2}, range(7, 22)),
    ("InstanceNormalization", {"epsilon": 1e-3}, range(7, 22)),
    ("LRN", {"size": 3}, range(7, 22)),
    ("ThresholdedRelu", {"alpha": 0.3}, range(10, 22)),
    ("Transpose", {"perm": [3, 1, 0, 2]}, range(7, 22)),
    ("DepthToSpace", {"blocksize": 1}, range(7, 22)),
    ("ArgMax", {"axis": 2, "keepdims": 0}, range(7, 22)),
    ("Cast", {"to": onnx.TensorProto.FLOAT}, range(7, 22)),
    ("Gemm", {"transB": 1, "alpha": 0.5, "beta": 2.0}, range(7, 22)),
    ("BatchNormalization", {"epsilon": 1e-3, "momentum": 0.8}, range(7, 22)),
    ("GlobalLpPool", {"p": 3}, range(7, 22)),
    ("MaxRoiPool", {"pooled_shape": [2, 2], "spatial_scale": 0.5}, range(7, 22)),
    ("Resize", {"mode": "linear"}, range(10, 11)),
    ("Resize", {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}, range(11, 13)),
    ("RoiAlign", {"output_height": 2, "output_width": 3, "sampling_ratio": 2}, range(10, 16)),
    ("Max", {}, range(7, 22)),
    ("Min", {}, range(7, 22)),
    ("Sum", {}, range(7, 22)),
    ("Mean", {}, range(7, 22)),
]


@pytest.mark.parametrize(
    ("op", "attributes", "opsets"), OLD_FORMS, ids=[f"{row[0]}-{i}" for i, row in enumerate(OLD_FORMS)]
)
def test_attributes_that_became_inputs(op: str, attributes: dict[str, Any], opsets: range) -> None:
    feeds, outputs, constants = {"x": X}, ["y"], {}
    if op == "Squeeze":
        feeds = {"x": X[:, :1]}
    elif op == "InstanceNormalization":
        feeds |= {"scale": X[0, :, 0, 0], "bias": X[1, :, 0, 0]}
    elif op == "BatchNormalization":
        feeds |= {name: np.abs(X[0, :, 0, i]) for i, name in enumerate(("scale", "bias", "mean", "variance"))}
    elif op == "Gemm":
        feeds = {"x": X[0, 0], "w": X[1, 1], "c": X[0, 1, :, :1] * np.ones((1, 4), np.float32)}
    elif op in ("Max", "Min", "Sum", "Mean"):
        feeds |= {"other": X[::-1].copy(), "third": X[:, ::-1].copy()}
    elif op == "MaxRoiPool":
        feeds["regions"] = np.array([[0, 0, 0, 8, 6], [1, 2, 2, 7, 7]], np.float32)
    elif op == "RoiAlign":
        feeds |= {"regions": np.array([[0, 0, 3, 3], [1, 1, 4, 2]], np.float32), "images": np.array([0, 1], np.int64)}
    elif op == "Resize":
        constants = {"scales": np.array([1, 1, 2, 1.5], np.float32)}
        if opsets[0] > 10:
            constants = {"region": np.zeros(0, np.float32), **constants}
    elif op == "Split":
        outputs = ["y", "rest"]
    elif op == "TopK":
        outputs = ["y", "places"]
    for opset in {opsets[0], opsets[-1], *(version for version in versions()[op] if version in opsets)}:
        node = helper.make_node(op, [*feeds, *constants], outputs, **attributes)
        inputs = {name: (value.dtype, list(value.shape)) for name, value in feeds.items()}
        kind = np.int64 if op == "ArgMax" else np.float32
        made = in_opset(model([node], inputs, {"y": kind}, constants), opset)
        values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(value) for name, value in feeds.items()}
        assert agree(made, values, op) == "", opset
