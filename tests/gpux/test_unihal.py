"""GPUX on unihal's own provider, with the stub as its device; where this unihal was built with it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from service import gpux, serve, succeeded
from sources import affine_result, save, value


def has_provider() -> bool:
    """Whether unihal has the provider's library."""
    if importlib.util.find_spec("unihal.onnxruntime") is None:
        return False
    from unihal.onnxruntime import library

    try:
        return bool(library())
    except FileNotFoundError:
        return False


pytestmark = pytest.mark.skipif(not has_provider(), reason="this unihal has no provider for ONNX Runtime")


def test_nodes_are_placed_on_it(files: Path) -> None:
    found = succeeded(gpux("inspect", files / "affine.onnx", "--json", UNIHAL_BACKEND="stub"))
    assert found["provider"] == "unihal" and found["warnings"] == []
    assert [(row["op"], row["provider"]) for row in found["placement"]] == [("Gemm", "UnihalExecutionProvider")]


def test_run_and_serve(files: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    command = ["run", files / "affine.onnx", "--input", tmp_path / "x.npy", "--provider", "unihal", "--json"]
    said = succeeded(gpux(*command, UNIHAL_BACKEND="stub"))
    assert said["provider"] == "unihal"
    np.testing.assert_allclose(said["outputs"]["y"], affine_result(x), rtol=1e-5, atol=1e-5)
    with serve(str(files / "affine.onnx"), UNIHAL_BACKEND="stub", UNIHAL_STUB_DEVICES="2") as service:
        assert service.get("/info").json()["provider"]["provider"] == "unihal"
        assert service.get("/health").json()["workers"] == 2  # one a device
        for _ in range(4):
            np.testing.assert_allclose(service.predict(x.tolist()).json()["outputs"]["y"], affine_result(x), atol=1e-5)


def test_the_device_has_no_more_memory_than_is_asked_for(files: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((4096, 4), np.float32))
    command = ["run", files / "affine.onnx", "--input", tmp_path / "x.npy", "--provider", "unihal", "--json"]
    assert gpux(*command, UNIHAL_BACKEND="stub").returncode == 0
    refused = gpux(*command, "--gpu-memory", "16K", UNIHAL_BACKEND="stub")
    assert refused.returncode == 6 and "the limit" in refused.stderr and "Traceback" not in refused.stderr


def test_why_a_node_is_not_placed_on_it(tmp_path: Path) -> None:
    node = helper.make_node("StringNormalizer", ["text"], ["same"])
    texts = [value(name, ["n"], TensorProto.STRING) for name in ("text", "same")]
    save(tmp_path / "m.onnx", [node], texts[:1], texts[1:])
    [row] = succeeded(gpux("inspect", tmp_path / "m.onnx", "--json", UNIHAL_BACKEND="stub"))["placement"]
    assert row["provider"] == "CPUExecutionProvider" and "no kernel" in row["reason"]


def test_the_memory_budget_counts_what_was_measured(tmp_path: Path) -> None:
    """A model without weights whose inferences take memory: an outer product of 2 x 1024 numbers."""
    nodes = [
        helper.make_node("Unsqueeze", ["x", "two"], ["column"]),
        helper.make_node("Unsqueeze", ["x", "one"], ["row"]),
        helper.make_node("MatMul", ["column", "row"], ["outer"]),
        helper.make_node("ReduceSum", ["outer", "two"], ["y"], keepdims=0),
    ]
    constants = [numpy_helper.from_array(np.array([axis]), name) for name, axis in (("one", 1), ("two", 2))]
    given, taken = value("x", ["n", 1024]), value("y", ["n", 1024])
    save(tmp_path / "m.onnx", nodes, [given], [taken], constants)
    with serve(str(tmp_path / "m.onnx"), UNIHAL_BACKEND="stub") as service:
        [model] = service.get("/info").json()["models"]
        assert model["weight_bytes"] < 100
        assert model["bytes"] >= 2 * 1024 * 1024 * 4
