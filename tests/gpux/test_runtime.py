"""GPUXRuntime and ProviderManager."""

from __future__ import annotations

import io
import sys
import threading
import types
from pathlib import Path
from typing import Any

import gpux
import numpy as np
import onnxruntime as ort
import pytest
from gpux import InputError, ModelError, ProviderError, ProviderManager, providers
from gpux.configuration.model_file import Normalize, Preprocessing
from gpux.errors import TooLargeError
from gpux.execution.inputs import inputs_of_json, random_inputs, read_inputs
from gpux.execution.measurement import percentile
from gpux.execution.preprocessing import MAX_PIXELS, TextEncoder, image_to_inputs
from gpux.tensors import TensorSpec, convert
from PIL import Image
from sources import affine_result

IMAGE = TensorSpec("image", "float32", (None, 3, 8, 8), ("batch", None, None, None))


@pytest.fixture(scope="module")
def runtime(files: Path) -> gpux.GPUXRuntime:
    runtime = gpux.GPUXRuntime("cpu")
    runtime.load_model(files / "affine.onnx")
    return runtime


def test_infer(runtime: gpux.GPUXRuntime) -> None:
    x = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    np.testing.assert_allclose(runtime.infer({"x": x})["y"], affine_result(x), rtol=1e-5, atol=1e-6)
    assert list(runtime.infer({"x": x}, ["y"])) == ["y"]


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({}, r"input x is missing: float32 of the shape \[batch, 4\]"),
        ({"X": np.zeros((1, 4), np.float32)}, "no input 'X'; did you mean|no input 'X'; known: x"),
        ({"x": np.zeros((1, 5), np.float32)}, r"shape \[1, 5\], but the model takes \[batch, 4\]"),
        ({"x": np.zeros(4, np.float32)}, "of rank 1, but the model takes .* of rank 2"),
        ({"x": np.zeros((1, 4))}, "dtype float64, but the model takes float32"),
    ],
)
def test_wrong_inputs_are_named(runtime: gpux.GPUXRuntime, inputs: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        runtime.infer(inputs)


def test_an_unknown_output_is_named(runtime: gpux.GPUXRuntime) -> None:
    with pytest.raises(InputError, match="no output 'z'; it has y"):
        runtime.infer({"x": np.zeros((1, 4), np.float32)}, ["z"])


def test_threads_may_infer_at_a_time(runtime: gpux.GPUXRuntime) -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).standard_normal((3, 4)).astype(np.float32)
        for _ in range(50):
            if not np.allclose(runtime.infer({"x": x})["y"], affine_result(x), atol=1e-5):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_nothing_runs_without_a_model() -> None:
    with pytest.raises(ModelError, match="load_model"):
        gpux.GPUXRuntime("cpu").infer({})


def test_benchmark(runtime: gpux.GPUXRuntime) -> None:
    calls: list[int] = []
    found = runtime.benchmark(runs=20, warmup=5, batch=3, progress=calls.append)
    assert calls == list(range(1, 26))
    assert (found.runs, found.warmup, found.batch) == (20, 5, 3)
    assert 0 < found.min_ms <= found.p50_ms <= found.p90_ms <= found.p95_ms <= found.p99_ms <= found.max_ms
    assert found.throughput == pytest.approx(3 * 1e3 / found.mean_ms)


def test_percentiles() -> None:
    assert [percentile([1.0, 2.0, 3.0, 4.0], share) for share in (0, 0.5, 0.9, 1)] == pytest.approx([1, 2.5, 3.7, 4])
    assert percentile([], 0.5) == 0


def test_provider_info(runtime: gpux.GPUXRuntime) -> None:
    info = runtime.get_provider_info()
    assert info["provider"] == "cpu" and info["session"] == ["CPUExecutionProvider"]
    assert info["available"][-1] == "cpu" and info["versions"]["onnxruntime"] == ort.__version__


# -- providers ---------------------------------------------------------------------------------------------------------

ALL = [row.runtime_name for row in providers.PROVIDERS.values() if row.name != "unihal"]


@pytest.mark.parametrize(
    ("system", "machine", "order"),
    [
        ("Linux", "x86_64", "tensorrt cuda rocm migraphx coreml directml openvino cpu"),
        ("Darwin", "arm64", "coreml cpu"),
        ("Darwin", "x86_64", "tensorrt cuda rocm migraphx coreml directml openvino cpu"),
        ("Windows", "AMD64", "tensorrt cuda directml openvino cpu"),
    ],
)
def test_orders(system: str, machine: str, order: str) -> None:
    manager = ProviderManager(system, machine, ALL)
    found = [name for name in manager.get_available_providers() if name != "unihal"]
    assert found == order.split()
    assert manager.get_best_provider().name == order.split()[0]


def test_a_preferred_provider_is_taken() -> None:
    assert ProviderManager("Linux", "x86_64", ALL).get_best_provider("openvino").name == "openvino"


def test_a_missing_one_is_a_warning_that_says_what_was_taken() -> None:
    manager = ProviderManager("Linux", "x86_64", ["OpenVINOExecutionProvider", "CPUExecutionProvider"])
    choice = manager.get_best_provider("cuda")
    assert choice.warnings[0].startswith("CUDA cannot be used (not in this build of ONNX Runtime); ")
    [warning] = ProviderManager("Darwin", "arm64", ["CPUExecutionProvider"]).get_best_provider("cuda").warnings
    assert warning == "CUDA cannot be used (not on Darwin arm64); CPU was taken"


def test_a_name_that_is_none_is_an_error() -> None:
    with pytest.raises(ProviderError, match="'cdua' is no provider; did you mean cuda?"):
        ProviderManager().get_best_provider("cdua")


@pytest.fixture()
def unihal_module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Stands in for unihal.onnxruntime."""
    module = types.ModuleType("unihal.onnxruntime")
    monkeypatch.setitem(sys.modules, "unihal.onnxruntime", module)
    providers._register_unihal.cache_clear()
    yield module
    providers._register_unihal.cache_clear()


def test_unihals_provider_is_taken_before_the_cpu(unihal_module: Any) -> None:
    devices = [types.SimpleNamespace(ep_metadata={"unihal.device_type": kind}) for kind in ("rdna", "rdna", "polaris")]
    unihal_module.register = lambda: devices  # the third is the first card again
    choice = ProviderManager("Linux", "x86_64", ["CPUExecutionProvider"]).get_best_provider()
    assert (choice.name, choice.devices, choice.warnings) == (
        "unihal",
        tuple(devices[:2]),
        (),
    )  # the third is the first card again
    assert (
        ProviderManager("Linux", "x86_64", ["CUDAExecutionProvider", "CPUExecutionProvider"]).get_best_provider().name
        == "cuda"
    )


def test_why_unihals_provider_is_not_there(unihal_module: Any) -> None:
    def register() -> str:
        raise RuntimeError("no device\nwas found")

    unihal_module.register = register
    choice = ProviderManager("Linux", "x86_64", ["CPUExecutionProvider"]).get_best_provider("unihal")
    assert choice.name == "cpu"
    assert choice.warnings == ("unihal cannot be used (no device was found); CPU was taken",)


# -- inputs ------------------------------------------------------------------------------------------------------------

SPECS = {"a": TensorSpec("a", "float32", (None, 2)), "b": TensorSpec("b", "int64", (None,))}


@pytest.mark.parametrize("text", ['{"inputs": {"a": [[1, 2.5]], "b": [3]}}', '{"a": [[1, 2.5]], "b": [3]}'])
def test_json_inputs(text: str) -> None:
    found = inputs_of_json(text.encode(), SPECS)
    assert found["a"].dtype == np.float32 and found["a"].tolist() == [[1, 2.5]]
    assert found["b"].dtype == np.int64 and found["b"].tolist() == [3]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "no JSON"),
        ("[NaN]", "NaN and infinities are no JSON"),
        ("[1]", "expected values by name"),
        ('{"inputs": {}, "x": 1}', "unknown key 'x'"),
        ('{"c": 1}', "no input 'c'"),
        ('{"a": [[1], [1, 2]]}', "input a is no regular array"),
        ('{"a": [["x", 1]]}', "input a has texts, not float32"),
        ('{"a": [[null, 1]]}', "input a has objects, null"),
        ('{"a": [[true, false]]}', "input a has booleans, not float32"),
        ('{"a": [[1e39, 1]]}', "not finite in float32"),
        ('{"b": [1.5]}', "input b has fractions, not int64"),
        ('{"b": [18446744073709551615]}', "input b has values outside of int64"),
        ('{"b": {"x": 1}}', "input b has objects"),
        ("[" * 5000, "no JSON"),
    ],
)
def test_json_that_does_not_fit(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        inputs_of_json(text.encode(), SPECS)


@pytest.mark.parametrize(
    ("dtype", "given", "stays"),
    [("uint8", [0, 255], True), ("uint8", [256], False), ("int8", [-129], False), ("float16", [65504], True),
     ("float16", [70000.0], False), ("bool", [True], True), ("bool", [1], False), ("string", ["a"], True),
     ("string", [1], False), ("uint64", [2**64 - 1], True), ("float64", [1], True), ("bfloat16", [1], False)],
)  # fmt: skip
def test_values_are_never_changed(dtype: str, given: list[Any], stays: bool) -> None:
    spec = TensorSpec("x", dtype, (None,))
    if stays:
        assert convert(given, spec).tolist() == given
    else:
        with pytest.raises(InputError):
            convert(given, spec)


def test_arrays_from_files(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((2, 2), np.float32))
    np.savez(tmp_path / "a.npz", a=np.ones((2, 2), np.float32), b=np.arange(2))
    one = {"a": SPECS["a"]}
    assert read_inputs(tmp_path / "a.npy", one, Preprocessing(), None)["a"].shape == (2, 2)
    assert set(read_inputs(tmp_path / "a.npz", SPECS, Preprocessing(), None)) == {"a", "b"}
    with pytest.raises(InputError, match=r"has the inputs a, b: use \.npz"):
        read_inputs(tmp_path / "a.npy", SPECS, Preprocessing(), None)


def test_files_that_are_none(tmp_path: Path) -> None:
    np.save(tmp_path / "pickle.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "pickle.npz", a=np.array([{}], dtype=object))
    for name in ("broken.npy", "broken.npz", "broken.png", "broken.json"):
        (tmp_path / name).write_bytes(b"\x93NUMPY\xff\xff rubbish")
    (tmp_path / "broken.txt").write_bytes(b"\xff")
    (tmp_path / "x.exe").touch()
    for path in [*tmp_path.iterdir(), tmp_path / "none.json"]:
        with pytest.raises(InputError):
            read_inputs(path, {"image": IMAGE}, Preprocessing(), None)


def picture(width: int = 8, height: int = 8, colour: tuple[int, int, int] = (255, 128, 0), mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), colour).convert(mode).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P"])
def test_images_become_inputs(mode: str) -> None:
    array = image_to_inputs(picture(32, 16, mode=mode), [IMAGE], Preprocessing())["image"]
    assert array.shape == (1, 3, 8, 8) and array.dtype == np.float32 and array.flags.c_contiguous
    np.testing.assert_allclose(array[0, :, 3, 3], np.array([255, 128, 0]) / 255, atol=0.01)


def test_images_are_normalized() -> None:
    settings = Preprocessing(normalize=Normalize(mean=[0.5, 0.5, 0.5], std=[0.5, 0.25, 1]))
    array = image_to_inputs(picture(), [IMAGE], settings)["image"]
    np.testing.assert_allclose(array[0, :, 0, 0], [1, (128 / 255 - 0.5) / 0.25, -0.5], atol=1e-5)
    array = image_to_inputs(picture(), [IMAGE], Preprocessing(normalize="none"))["image"]
    np.testing.assert_array_equal(array[0, :, 0, 0], [255, 128, 0])


def test_other_layouts_of_images() -> None:
    last = TensorSpec("i", "uint8", (None, None, None, 3))
    assert image_to_inputs(picture(6, 4), [last], Preprocessing(resize=[5, 7]))["i"].shape == (1, 5, 7, 3)
    flat = TensorSpec("i", "float32", (None, 64))
    assert image_to_inputs(picture(), [flat], Preprocessing())["i"].shape == (1, 64)
    with pytest.raises(InputError, match="takes no image"):
        image_to_inputs(picture(), [TensorSpec("i", "float32", (None, 5))], Preprocessing())


def test_an_image_of_absurd_size_is_refused_before_it_is_decoded() -> None:
    content = bytearray(picture())
    content[16:24] = (1 << 15).to_bytes(4, "big") * 2  # the size in PNG's header
    assert 1 << 30 > MAX_PIXELS
    with pytest.raises((TooLargeError, InputError), match="pixels|cannot be read"):
        image_to_inputs(bytes(content), [IMAGE], Preprocessing())


def test_texts_become_tokens(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "red": 1, "fox": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "tokenizer.json"))
    encoder = TextEncoder(tmp_path / "tokenizer.json")
    ids = TensorSpec("input_ids", "int64", (None, 5))
    mask = TensorSpec("attention_mask", "int64", (None, None))
    found = encoder.encode("red red fox", [ids, mask])
    assert found["input_ids"].tolist() == [[1, 1, 2, 0, 0]] and found["attention_mask"].tolist() == [[1, 1, 1]]
    with pytest.raises(InputError, match="pixels cannot be made from a text"):
        encoder.encode("fox", [TensorSpec("pixels", "float32", (None, 3)), ids])
    with pytest.raises(InputError, match="0 tokens"):
        encoder.encode("", [ids])


def test_random_inputs_are_the_same_for_the_same_seed() -> None:
    first, second = random_inputs(SPECS, 3, seed=1), random_inputs(SPECS, 3, seed=1)
    assert first["a"].shape == (3, 2) and first["b"].shape == (3,)
    assert all(np.array_equal(first[name], second[name]) for name in SPECS)
