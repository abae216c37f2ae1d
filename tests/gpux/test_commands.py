"""Each command as a user types it."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from service import gpux, gpux_here, succeeded
from sources import affine, affine_result, image_sum, project

CONFIGURATION = """\
name: affine
version: 1.10
model: {source: model.onnx}
inputs: {x: {type: float32, shape: [batch, 4]}}
outputs: {y: {type: float32}}
runtime: {batch_size: 4}
"""


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registry with affine:1.10, built as a user does."""
    folder = tmp_path_factory.mktemp("built")
    built = succeeded(
        gpux("build", project(folder / "affine", CONFIGURATION), "--registry", folder / "models", "--json")
    )
    assert (built["name"], built["version"]) == ("affine", "1.10")
    for name in ("model_info.json", "provider_info.json"):
        assert json.loads((folder / "affine/.gpux" / name).read_text()) == json.loads(
            (folder / "models/affine/1.10" / name).read_text()
        )
    assert built["model"]["ops"] == {"Gemm": 1}
    return folder / "models"


def test_run_by_name(registry: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
    (tmp_path / "x.json").write_text(json.dumps({"inputs": {"x": x.tolist()}}))
    np.save(tmp_path / "x.npy", x)
    for name in ("x.json", "x.npy"):
        said = succeeded(gpux_here("run", "affine", "--input", tmp_path / name, "--json", GPUX_REGISTRY=str(registry)))
        assert said["provider"] in ("cpu", "unihal") and said["version"] == "1.10"
        np.testing.assert_allclose(said["outputs"]["y"], affine_result(x), rtol=1e-5, atol=1e-5)


def test_outputs_into_a_file(registry: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.ones((1, 4), np.float32))
    out = tmp_path / "y.npz"
    result = gpux("run", "affine:1.10", "--registry", registry, "--input", tmp_path / "x.npz", "--output", out)
    assert result.returncode == 0, result.stderr
    assert "float32" in result.stdout and "[1, 2]" in result.stdout
    np.testing.assert_allclose(np.load(out)["y"], affine_result(np.ones((1, 4))), rtol=1e-5)


def test_benchmark(registry: Path) -> None:
    arguments = [
        "run",
        "affine",
        "--registry",
        registry,
        "--benchmark",
        "--runs",
        "20",
        "--warmup",
        "2",
        "--batch",
        "8",
    ]
    found = succeeded(gpux(*arguments, "--json"))["benchmark"]
    assert (found["runs"], found["batch"]) == (20, 8) and 0 < found["p50_ms"] <= found["p99_ms"]


def test_inspect(registry: Path) -> None:
    result = gpux("inspect", "affine", "--registry", registry, "--provider", "cuda", COLUMNS="200")
    assert result.returncode == 0, result.stderr
    for text in ("float32", "[batch, 4]", "Gemm", "CPUExecutionProvider", "ai.onnx 17", "40 B", "16FLOP"):
        assert text in result.stdout
    assert result.stderr.startswith("gpux: warning: CUDA cannot be used (not in this build of ONNX Runtime); ")


def test_config_shows_sources(registry: Path) -> None:
    said = succeeded(gpux("config", "affine", "--json", GPUX_REGISTRY=str(registry), GPUX_PORT="81"))
    assert said["port"] == {"value": 81, "source": "GPUX_PORT"}
    assert said["batch_size"] == {"value": 4, "source": f"{registry}/affine/1.10/gpux.yml:6"}
    assert said["timeout"] == {"value": 30.0, "source": "default"}


def test_models(registry: Path, tmp_path: Path) -> None:
    own = tmp_path / "models"
    for version in ("1.9", "1.10"):
        folder = project(tmp_path / version, CONFIGURATION.replace("1.10", version))
        assert gpux_here("build", folder, "--registry", own).returncode == 0
    rows = succeeded(gpux("models", "list", "--registry", own, "--json"))
    assert [(row["name"], row["version"]) for row in rows] == [("affine", "1.9"), ("affine", "1.10")]
    assert succeeded(gpux_here("models", "remove", "affine:1.9", "--registry", own, "--json")) == {
        "removed": ["affine:1.9"]
    }
    assert [row["version"] for row in succeeded(gpux_here("models", "list", "--registry", own, "--json"))] == ["1.10"]


def test_paths_are_not_cut_where_the_terminal_is_narrow(registry: Path) -> None:
    for command in (["models", "list"], ["inspect", "affine"], ["config", "affine"]):
        said = gpux_here(*command, GPUX_REGISTRY=str(registry), COLUMNS="80")
        assert said.returncode == 0 and "\N{HORIZONTAL ELLIPSIS}" not in said.stdout
        rows = [line.split("\N{BOX DRAWINGS LIGHT VERTICAL}") for line in said.stdout.splitlines()]
        columns = ("".join(row[i].strip() for row in rows if len(row) > i) for i in range(6))
        assert any(str(registry) in column for column in columns), said.stdout


def test_the_version() -> None:
    assert gpux_here("--version").stdout == f"gpux {importlib.metadata.version('unihal')}\n"


def test_an_image_runs(tmp_path: Path) -> None:
    image_sum(tmp_path / "m.onnx")
    Image.new("RGB", (20, 30), (255, 0, 51)).save(tmp_path / "i.png")
    said = succeeded(gpux_here("run", tmp_path / "m.onnx", "--input", tmp_path / "i.png", "--json"))
    np.testing.assert_allclose(np.ravel(said["outputs"]["mean"]), [1, 0, 0.2], atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["run", "nothing"], 7, "gpux: no model 'nothing' in "),
        (["run", "affin", "--benchmark"], 7, "did you mean affine?"),
        (["run", "affine:2", "--benchmark"], 7, "has no version '2'; it has 1.10"),
        (["run", "affine"], 5, "gpux: no input: name a file with --input"),
        (["run", "affine", "--input", "none.json"], 5, "gpux: none.json cannot be read: No such file"),
        (["run", "affine", "--benchmark", "--provider", "gpu"], 3, "gpux: --provider: 'gpu' is no provider"),
        (
            ["run", "affine", "--benchmark", "--gpu-memory", "lots"],
            3,
            "gpux: --gpu-memory: 'lots' is no amount of memory",
        ),
        (["serve", "affine", "--gpu-memory", "0"], 3, "gpux: --gpu-memory: "),
        (["run", "affine", "--frobnicate"], 2, "No such option"),
        (["inspect", "../none.onnx"], 7, "is not there"),
        (["build", "/nowhere"], 3, "gpux: /nowhere cannot be read: No such file"),
        (["deploy", "affine"], 3, "say where to: either --ray or --docker"),
        (["serve", "affine", "--tls-key", "x"], 3, "tls_key is set, but tls_certificate is not"),
    ],
)
def test_exit_codes(registry: Path, arguments: list[str], code: int, says: str) -> None:
    result = gpux_here(*arguments, GPUX_REGISTRY=str(registry))
    assert result.returncode == code, result.stderr
    assert says in result.stderr and "Traceback" not in result.stderr


def test_an_error_is_json_too(registry: Path) -> None:
    result = gpux("run", "nothing", "--benchmark", "--json", GPUX_REGISTRY=str(registry))
    assert result.returncode == 7
    assert json.loads(result.stdout)["error"]["kind"] == "UnknownModelError"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            ("type: float32, shape", "type: float64, shape"),
            "gpux.yml:4: inputs.x.type: float64, but the model has float32",
        ),
        (("[batch, 4]", "[batch, 5]"), "gpux.yml:4: inputs.x.shape: ['batch', 5], but the model has [batch, 4]"),
        (("{x:", "{z:"), "gpux.yml:4: inputs.z: the model has no such input; known: x"),
        (("{y:", "{yy:"), "gpux.yml:5: outputs.yy: the model has no such output"),
        (("model.onnx", "modell.onnx"), "gpux.yml:3: model.source: modell.onnx is not there; did you mean model.onnx?"),
        (("model.onnx", "../model.onnx"), "gpux.yml:3: model.source: ../model.onnx lies outside of the folder"),
        (("model.onnx", "https://x/m.onnx"), "gpux.yml:3: model.source: https://x/m.onnx is an address"),
        (
            ("runtime:", "preprocessing: {normalize: unit}\nruntime:"),
            "gpux.yml:6: preprocessing.normalize: the model has no input",
        ),
    ],
)
def test_build_names_what_does_not_fit(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    # In this process: each of the program's own takes most of a second.
    from gpux.errors import ConfigurationError
    from gpux.registry.build import build
    from gpux.registry.store import Registry

    folder = project(tmp_path / "p", CONFIGURATION.replace(*change))
    with pytest.raises(ConfigurationError) as caught:
        build(folder, Registry(tmp_path / "models"), "cpu")
    assert any(f"{folder}/{says}" in problem for problem in caught.value.problems), caught.value.problems
    assert not (tmp_path / "models").exists()


def test_a_broken_model_is_told_by_its_line(tmp_path: Path) -> None:
    folder = project(tmp_path, CONFIGURATION)
    (folder / "model.onnx").write_bytes(affine(tmp_path / "m.onnx").read_bytes()[:-9])
    result = gpux_here("build", folder, "--registry", tmp_path / "models")
    assert result.returncode == 4 and result.stderr.startswith(f"gpux: {folder}/gpux.yml:3: ")


def test_deploy_writes_files(registry: Path, tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    out = tmp_path / "out"
    written = succeeded(gpux("deploy", "affine", "--docker", out, "--registry", registry, "--port", "9001", "--json"))
    assert [Path(path).name for path in written["written"]] == ["Dockerfile", "kubernetes.yml", "models"]
    text = (out / "Dockerfile").read_text()
    assert 'CMD ["gpux", "serve", "affine:1.10"]' in text and "USER gpux" in text and "GPUX_HOST=0.0.0.0" in text
    manifests = list(yaml.safe_load_all((out / "kubernetes.yml").read_text()))
    assert [each["kind"] for each in manifests] == ["Deployment", "Service", "HorizontalPodAutoscaler"]
    container = manifests[0]["spec"]["template"]["spec"]["containers"][0]
    assert container["ports"] == [{"name": "http", "containerPort": 9001}]
    # What goes into the container runs as it is.
    said = succeeded(gpux_here("run", "affine", "--registry", out / "models", "--benchmark", "--runs", "1", "--json"))
    assert said["version"] == "1.10"
