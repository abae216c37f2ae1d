"""Choices between kernels for matrix products and convolutions, and CLBlast."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import unihal
from processes import run_command, run_python
from unihal import Buffer, _core, cache, errors, op_kinds, tuning
from unihal.stream import default_stream

pytestmark = pytest.mark.whole

UNIHAL = [sys.executable, "-m", "unihal.command_line"]

#: Candidates that PoCL compiles in a few seconds; conformance on a GPU has the others.
CHECKED = ("CLBlast", "32x32x32/4x4")

#: The same of convolutions.
ALGORITHMS = ("direct", "pointwise", "winograd")

#: Chooses candidate 1 for one product, and prints what is chosen for it.
CHOICE = """
import sys, unihal, unihal.tuning
from unihal import Buffer, _core, op_kinds
device = unihal.device("polaris:0")
a, b, d = (Buffer((64, 64), "float32", device) for _ in range(3))
op = (device._handle, op_kinds.number("matmul"), [a, b], [d], {})
if "choose" in sys.argv:
    _core.tuning_choose(*op, 1)
    unihal.tuning.keep(device)
if "forget" in sys.argv:
    unihal.tuning.forget(device)
print("chosen:", _core.tuning_chosen(*op))
"""


#: A layer whose forward op runs as it is chosen; `choose NAME` chooses and keeps a candidate.
LAYER = """
import sys, unihal
from unihal import Buffer, _core, op_kinds, tuning
device = unihal.device("polaris:0")
(layer,) = tuning.Convolution.parse("forward n2 c8 h9 w9 k8 3x3 p1")
op = (device._handle, op_kinds.number(layer.kind), *layer.operands(lambda shape, dtype: Buffer(shape, dtype, device)))
names = [name for name, _ in _core.tuning_describe(*op)[1]]
if "choose" in sys.argv:
    _core.tuning_choose(*op, names.index(sys.argv[-1]))
    tuning.keep(device)
else:
    chosen = _core.tuning_chosen(*op)
    print(names[chosen] if chosen >= 0 else "default")
    with unihal.Stream(device) as stream:
        _core.launch(stream._handle, *op[1:])
        stream.synchronize()
"""

#: Small layers that make as few kernels as possible: of several algorithms, with a border, and no multiples of a tile.
LAYERS = (
    "n3 c5 h9 w11 k7 3x3 p1",
    "n3 c6 h5 w8 k10 1x1 nhwc",
    "n3 c6 h5 w8 k10 1x1 s2 nhwc",
    "n2 c4 h7 w9 k6 1x1 s2x3 g2",
    "n2 c4 h6 w9 k6 1x1 s2x3",
    "n2 c4 h6 w8 k6 1x1 s1x2 nhwc",
    "n2 c8 z4 h6 w8 k6 1x1x1 s2 ndhwc",
    "n2 c4 h10 w15 k6 1x1 s5 nhwc",
)


def numbered(shape: Sequence[int], dtype: str, device: unihal.Device) -> Buffer:
    """Some numbers, the same for each shape."""
    values = np.random.default_rng(len(shape)).standard_normal(shape, np.float32)
    return Buffer.from_numpy(values.astype(dtype), device)


@pytest.mark.timeout(500)
@pytest.mark.long  # PoCL compiles for a minute; what is chosen is kept and found again is tested below
@pytest.mark.parametrize("form", ["nn", "tt"])
def test_candidates_give_the_product(device: unihal.Device, form: str) -> None:
    m, n, k = 133, 70, 301
    generator = np.random.default_rng(0)
    a, b = generator.standard_normal((m, k), np.float32), generator.standard_normal((k, n), np.float32)
    x = Buffer.from_numpy(a, device) if form[0] == "n" else Buffer.from_numpy(a.T.copy(), device).T
    y = Buffer.from_numpy(b, device) if form[1] == "n" else Buffer.from_numpy(b.T.copy(), device).T
    d = Buffer((m, n), "float32", device)
    op = (device._handle, op_kinds.number("matmul"), [x, y], [d], {})
    key, candidates = _core.tuning_describe(*op)
    assert key == f"gemm float32 {form} 128 64 256 1"
    assert len(candidates) > 5
    numbers = [number for number, (name, usable) in enumerate(candidates) if usable and name in CHECKED]
    assert numbers
    try:
        for number in [*numbers, -1]:
            _core.tuning_choose(*op, number)
            assert _core.tuning_chosen(*op) == number
            unihal.ops.fill(d, np.nan)
            unihal.ops.matmul(x, y, out=d)
            np.testing.assert_allclose(d.numpy(), a @ b, rtol=1e-4, atol=1e-4, err_msg=f"candidate {number}")
    finally:
        _core.tuning_choose(*op, -1)


@pytest.mark.parametrize(
    ("times", "seconds", "chosen"),
    [
        ({-1: 1.0, 0: 0.995, 1: 1.0}, 2, -1),
        ({-1: 1.0, 0: 0.95, 1: 0.944}, 2, 0),
        ({-1: 1.0, 0: 0.955, 1: 0.944}, 2, 1),
        ({-1: 1.0, 0: 1.2, 1: 0.98}, 2, 1),
        ({-1: 1.0, 0: 1.2, 1: 0.98}, 0.5, -1),
        ({-1: 1.0}, 2, -1),
    ],
)
def test_of_times_that_do_not_differ_the_first_one_is_chosen(
    times: dict[int, float], seconds: float, chosen: int
) -> None:
    assert tuning._choice(times, seconds) == chosen


def test_what_has_no_choice_says_so(device: unihal.Device) -> None:
    a, d = (Buffer((2, 2), "float32", device) for _ in range(2))
    op = (device._handle, op_kinds.number("matmul"), [a, a], [d], {})
    assert _core.tuning_describe(*op) == ("", [])
    assert _core.tuning_chosen(*op) == -1
    with pytest.raises(errors.InvalidArgumentError, match="nothing to choose"):
        _core.tuning_choose(*op, 0)


def test_a_candidate_that_does_not_exist_is_refused(device: unihal.Device) -> None:
    a, d = (Buffer((64, 64), "float32", device) for _ in range(2))
    with pytest.raises(errors.OutOfRangeError, match="there is no candidate 200"):
        _core.tuning_choose(device._handle, op_kinds.number("matmul"), [a, a], [d], {}, 200)


def test_choices_are_kept_for_later_processes(device: unihal.Device, tmp_path: Path) -> None:
    def chosen(*arguments: str) -> str:
        process = run_python(CHOICE, *arguments, UNIHAL_CACHE="on", UNIHAL_CACHE_DIR=str(tmp_path))
        assert process.returncode == 0, process.stderr
        return process.stdout.strip()

    assert chosen() == "chosen: -1"
    assert chosen("choose") == "chosen: 1"
    assert chosen() == "chosen: 1"
    assert chosen("forget") == "chosen: -1"
    assert chosen() == "chosen: -1"


@pytest.mark.parametrize("layer", LAYERS)
def test_candidates_give_the_convolution(device: unihal.Device, layer: str) -> None:
    for convolution in tuning.Convolution.parse(layer):
        operands = convolution.operands(lambda shape, dtype: numbered(shape, dtype, device))
        op = (device._handle, op_kinds.number(convolution.kind), *operands)
        key, candidates = _core.tuning_describe(*op)
        assert key.startswith(f"convolution_{convolution.direction} float32 n")
        names = {name: number for number, (name, usable) in enumerate(candidates) if usable}
        assert len(names) >= 2
        results = {}
        try:
            for name, number in {**names, "default": -1}.items():
                _core.tuning_choose(*op, number)
                assert _core.tuning_chosen(*op) == number
                (result,) = operands[1]
                unihal.ops.fill(result, np.nan)
                _core.launch(default_stream(device)._handle, *op[1:])
                results[name] = result.numpy()
        finally:
            _core.tuning_choose(*op, -1)
        for name, result in results.items():
            np.testing.assert_allclose(
                result, results["direct"], rtol=1e-4, atol=1e-3, err_msg=f"{convolution}: {name}"
            )


def test_a_choice_that_cannot_run_an_op_of_its_key_is_ignored(device: unihal.Device) -> None:
    (layer,) = tuning.Convolution.parse("forward n2 c4 h6 w8 k5 1x1")
    inputs, outputs, attributes = layer.operands(lambda shape, dtype: numbered(shape, dtype, device))
    wide = numbered((2, 4, 6, 10), "float32", device)
    kind = op_kinds.number(layer.kind)
    dense = (device._handle, kind, inputs, outputs, attributes)
    cut = (device._handle, kind, [wide[..., :8], inputs[1]], outputs, attributes)
    key, candidates = _core.tuning_describe(*dense)
    assert _core.tuning_describe(*cut)[0] == key
    number = [name for name, _ in candidates].index("pointwise")
    with pytest.raises(errors.UnimplementedError, match=r"\(pointwise\) cannot run this op on this device"):
        _core.tuning_choose(*cut, number)
    try:
        _core.tuning_choose(*dense, number)
        _core.launch(default_stream(device)._handle, *cut[1:])
        expected = np.einsum("nchw,kc->nkhw", wide.numpy()[..., :8], inputs[1].numpy()[..., 0, 0])
        np.testing.assert_allclose(outputs[0].numpy(), expected, rtol=1e-4, atol=1e-4)
    finally:
        _core.tuning_choose(*dense, -1)


def test_a_convolution_runs_in_a_later_process_as_chosen(device: unihal.Device, tmp_path: Path) -> None:
    def run(*arguments: str) -> tuple[str, set[str]]:
        before = {entry.path for entry in cache.entries(tmp_path)}
        process = run_python(LAYER, *arguments, UNIHAL_CACHE="on", UNIHAL_CACHE_DIR=str(tmp_path))
        assert process.returncode == 0, process.stderr
        added = [entry for entry in cache.entries(tmp_path) if entry.path not in before]
        return process.stdout.strip(), {str(entry.label) for entry in added}

    assert run("choose", "direct") == ("", {"tuning choices"})
    assert run() == ("direct", {"program convolution_direct"})
    assert run("choose", "winograd") == ("", set())
    name, programs = run()
    assert (name, "program winograd" in programs) == ("winograd", True)
    unihal_tune = [*UNIHAL, "tune", "--device", "polaris:0", "--forget"]
    assert run_command(unihal_tune, UNIHAL_CACHE="on", UNIHAL_CACHE_DIR=str(tmp_path)).returncode == 0
    assert run()[0] == "default"


def test_the_command_tunes_a_convolution(device: unihal.Device, tmp_path: Path) -> None:
    command = [*UNIHAL, "tune", "--device", "polaris:0", "--seconds", "0.001"]
    words = "forward n2 c8 h9 w9 k8 3x3 p1"
    process = run_command(
        [*command, "--convolution", words], UNIHAL_CACHE="on", UNIHAL_CACHE_DIR=str(tmp_path), COLUMNS="160"
    )
    assert process.returncode == 0, process.stderr
    assert f"{words} nchw float32" in process.stdout
    assert any(entry.label == "tuning choices" for entry in cache.entries(tmp_path))


def test_tune_measures_and_chooses(device: unihal.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    describe = _core.tuning_describe

    def some(*op: Any) -> tuple[str, list[tuple[str, bool]]]:
        key, candidates = describe(*op)
        return key, [(name, usable and name in (*CHECKED, *ALGORITHMS)) for name, usable in candidates]

    monkeypatch.setattr(_core, "tuning_describe", some)
    try:
        (layer,) = tuning.Convolution.parse(LAYERS[1] + " backward_filter")
        product, convolution = tuning.tune(device, [tuning.MatrixProduct(48, 48, 64, "nt"), layer], 0.001)
        assert product.key == "gemm float32 nt 32 32 64 1"
        assert convolution.problem == layer
        assert convolution.key == "convolution_backward_filter float32 nhwc hwio 1x1 s1 p0 d1 g1 n2 c6 k10 h5 w8"
        for result in (product, convolution):
            assert {candidate.name for candidate in result.candidates} <= {*CHECKED, *ALGORITHMS}
            assert all(candidate.seconds > 0 for candidate in result.candidates)
            assert result.gain >= 1
    finally:
        tuning.forget(device)


@pytest.mark.parametrize("error", [errors.OutOfMemoryError("no room"), KeyboardInterrupt()])
def test_a_measurement_that_fails_chooses_nothing(
    device: unihal.Device, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    (layer,) = tuning.Convolution.parse(LAYERS[1] + " forward")
    operands = layer.operands(lambda shape, dtype: Buffer(shape, dtype, device))
    op = (device._handle, op_kinds.number(layer.kind), *operands)
    names = [name for name, _ in _core.tuning_describe(*op)[1]]
    launch = _core.launch

    def failing(stream: _core.Stream, kind: int, *rest: Any) -> None:
        if kind == op[1] and _core.tuning_chosen(*op) == names.index("direct"):
            raise error
        launch(stream, kind, *rest)

    monkeypatch.setattr(_core, "launch", failing)
    try:
        _core.tuning_choose(*op, names.index("pointwise"))
        if isinstance(error, errors.Error):
            (result,) = tuning.tune(device, [layer], 0.001)
            assert result.failures == {"direct": "no room"}
            assert "pointwise" in [candidate.name for candidate in result.candidates]
            assert "direct" not in [candidate.name for candidate in result.candidates]
        else:
            with pytest.raises(KeyboardInterrupt):
                list(tuning.tune(device, [layer], 0.001))
            assert _core.tuning_chosen(*op) == names.index("pointwise")
    finally:
        _core.tuning_choose(*op, -1)


def test_a_device_without_choices_is_refused() -> None:
    process = run_command([*UNIHAL, "tune", "--shape", "48x48x64"], UNIHAL_BACKEND="stub")
    assert process.returncode == 1
    assert "has no extension 'uhal.tuning'" in process.stderr


def test_a_shape_that_is_none_is_refused() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="expected MxNxK or BATCHxMxNxK"):
        tuning.MatrixProduct.parse("12x12", "nn", "float32")
    with pytest.raises(errors.InvalidArgumentError, match="expected one of nn, nt, tn, tt"):
        tuning.MatrixProduct.parse("12x12x12", "nx", "float32")
    assert tuning.MatrixProduct.parse("3x5x6x7", "tn", "float64") == tuning.MatrixProduct(5, 6, 7, "tn", "float64", 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("n32 c256 h14 w14 k256", "has 0 windows, such as 3x3, and needs one"),
        ("n32 c256 h14 w14 k256 3x3 1x1", "has 2 windows"),
        ("n32 c256 h14 w14 3x3", "has no word for k (filters)"),
        ("n32 c256 14 w14 k256 3x3", "has the word '14', which means nothing"),
        ("n32 c256 h14 w14 k0 3x3", "has the word 'k0', which means nothing"),
        ("n32 n16 c256 h14 w14 k256 3x3", "has two words for n, n32 and n16"),
        ("n32 c256 h14 w14 k256 3x3x3", "has a window of 3 axes for images of 2"),
        ("n32 c256 h14 w14 k256 3x3 s1x1x1", "has 3 numbers for s, and images have 2 axes"),
        ("n32 c256 h14 w14 k256 3x3 ncdhw", "has the layouts ncdhw; here one is possible of nchw, nhwc"),
        ("n32 c256 h14 w14 k256 3x3 oihw hwio", "has the layouts oihw, hwio; here one is possible of oihw, ohwi, hwio"),
    ],
)
def test_words_that_are_no_convolution_are_refused(words: str, message: str) -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        tuning.Convolution.parse(words)
    assert message in str(caught.value)
    assert "expected words as in 'forward n32 c256 h14 w14 k256 3x3 s1 p1 nchw'" in str(caught.value)


def test_words_in_any_order_name_convolutions() -> None:
    directions = [layer.direction for layer in tuning.Convolution.parse("k8 3x3 n2 w9 c8 h7")]
    assert directions == list(tuning.DIRECTIONS)
    key = "convolution_backward_data float16 ndhwc dhwio 3x3x1 s2 p1x1x0 d1 g2 n2 c8 k8 z4 h9 w9"
    (layer,) = tuning.Convolution.parse(key)
    assert layer == tuning.Convolution(
        "backward_data", 2, 8, (4, 9, 9), 8, (3, 3, 1), (2, 2, 2), (1, 1, 0), (1, 1, 1), 2, "ndhwc", "dhwio", "float16"
    )
    assert layer.output == (2, 5, 5)
    assert layer.flops == 2 * 2 * 8 * 4 * (2 * 5 * 5) * 9
    assert str(layer) == "backward_data n2 c8 z4 h9 w9 k8 3x3x1 s2 p1x1x0 g2 ndhwc dhwio float16"
    assert tuning.Convolution.parse(str(layer)) == [layer]
    (allowed,) = tuning.Convolution.parse("forward n1 c8 h9 w9 k8 3x3 tf32")
    assert allowed.math_mode == "tf32" and tuning.Convolution.parse(str(allowed)) == [allowed]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"image": (9,), "window": (3,)}, r"the image \(9,\) has 1 axes; expected 2 or 3"),
        ({"direction": "backward"}, "the direction 'backward' is none; expected one of"),
        ({"layout": "ncdhw"}, "the layout 'ncdhw' is none"),
        ({"filter_layout": "iohw"}, "the filter layout 'iohw' is none"),
        ({"window": (3, 3, 3)}, r"the window \(3, 3, 3\) has 3 axes, the image has 2"),
        ({"padding": (1,)}, r"the padding \(1,\) has 1 axes, the image has 2"),
    ],
)
def test_sizes_that_are_no_convolution_are_refused(wrong: dict[str, Any], message: str) -> None:
    sizes = {"direction": "forward", "batch": 1, "channels": 8, "image": (9, 9), "filters": 8, "window": (3, 3)}
    with pytest.raises(errors.InvalidArgumentError, match=message):
        tuning.Convolution(**{**sizes, **wrong})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("forward n1 c8 h2 w2 k8 5x5", "is larger than its image with the padding"),
        ("forward n1 c8 h9 w9 k8 3x3 g3", "are no multiples of its 3 groups"),
        ("forward n1 c8 h9 w9 k8 3x3 int32", "takes floating point, or forward int8"),
    ],
)
def test_convolutions_that_there_are_not_are_refused(device: unihal.Device, words: str, message: str) -> None:
    with pytest.raises(errors.Error, match=message):
        list(tuning.tune(device, tuning.Convolution.parse(words)))


@pytest.mark.timeout(500)
def test_the_kernels_for_gpus_conform(device: unihal.Device, not_optimized: dict[str, str]) -> None:
    command = [*UNIHAL, "conformance", "--backend", "opencl", "--op", "matmul", "--every", "40"]
    process = run_command(command, timeout=480, UNIHAL_OPENCL_KERNELS="gpu", **not_optimized)
    assert process.returncode == 0, process.stdout + process.stderr


def test_clblast_takes_products_on_request(device: unihal.Device) -> None:
    if "CLBlast" not in device.properties.driver:
        pytest.skip("there is no libclblast.so.1")
    program = """
import numpy as np, unihal
from unihal import Buffer, ops
device = unihal.device("polaris:0")
assert device.properties.driver.endswith(", CLBlast"), device.properties.driver
generator = np.random.default_rng(0)
a, b = generator.standard_normal((65, 40), np.float32), generator.standard_normal((40, 33), np.float32)
d = ops.matmul(Buffer.from_numpy(a, device), Buffer.from_numpy(b.T.copy(), device).T, alpha=0.5).numpy()
assert abs(d - 0.5 * (a @ b)).max() < 1e-4
"""
    process = run_python(program, timeout=280, UNIHAL_CLBLAST="on")
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize(
    ("variable", "message"), [("UNIHAL_CLBLAST", "expected on or off"), ("UNIHAL_OPENCL_KERNELS", "expected gpu")]
)
def test_a_wish_that_means_nothing_is_an_error(device: unihal.Device, variable: str, message: str) -> None:
    process = run_command([sys.executable, "-c", "import unihal; unihal.device('polaris:0')"], **{variable: "maybe"})
    assert process.returncode != 0
    assert f"{variable} is 'maybe'; {message}" in process.stderr
