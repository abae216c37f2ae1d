"""Choices between kernels for matrix products, and CLBlast."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import unihal
from processes import run_command, run_python
from unihal import Buffer, _core, errors, op_kinds, tuning

UNIHAL = [sys.executable, "-m", "unihal.cli"]

#: Candidates that PoCL compiles in a few seconds; conformance on a GPU has the others.
CHECKED = ("CLBlast", "32x32x32/4x4", "128x16x16/8x4")

#: Chooses candidate 1 for one product, and prints what is chosen for it.
CHOICE = """
import sys, unihal, unihal.tuning
from unihal import Buffer, _core, op_kinds
device = unihal.device("polaris:0")
a, b, d = (Buffer((64, 64), "float32", device) for _ in range(3))
op = (device._handle, op_kinds.number("matmul"), [a, b], [d])
if "choose" in sys.argv:
    _core.tuning_choose(*op, 1)
    unihal.tuning.keep(device)
if "forget" in sys.argv:
    unihal.tuning.forget(device)
print("chosen:", _core.tuning_chosen(*op))
"""


@pytest.fixture
def device() -> unihal.Device:
    """The first device; skipped without one."""
    found = unihal.devices("polaris")
    if not found:
        pytest.skip("there is no OpenCL device; run tests/fetch_pocl.sh")
    return found[0]


@pytest.mark.timeout(500)
@pytest.mark.parametrize("form", ["nn", "tt"])
def test_candidates_give_the_product(device: unihal.Device, form: str) -> None:
    m, n, k = 133, 70, 301
    generator = np.random.default_rng(0)
    a, b = generator.standard_normal((m, k), np.float32), generator.standard_normal((k, n), np.float32)
    x = Buffer.from_numpy(a, device) if form[0] == "n" else Buffer.from_numpy(a.T.copy(), device).T
    y = Buffer.from_numpy(b, device) if form[1] == "n" else Buffer.from_numpy(b.T.copy(), device).T
    d = Buffer((m, n), "float32", device)
    op = (device._handle, op_kinds.number("matmul"), [x, y], [d])
    key, candidates = _core.tuning_describe(*op)
    assert key == f"gemm float32 {form} 128 64 256 1"
    assert len(candidates) > 5
    numbers = [number for number, (name, usable) in enumerate(candidates) if usable and name in CHECKED]
    assert len(numbers) >= 2
    try:
        for number in [*numbers, -1]:
            _core.tuning_choose(*op, number)
            assert _core.tuning_chosen(*op) == number
            unihal.ops.fill(d, np.nan)
            unihal.ops.matmul(x, y, out=d)
            np.testing.assert_allclose(d.numpy(), a @ b, rtol=1e-4, atol=1e-4, err_msg=f"candidate {number}")
    finally:
        _core.tuning_choose(*op, -1)


def test_what_has_no_choice_says_so(device: unihal.Device) -> None:
    a, d = (Buffer((2, 2), "float32", device) for _ in range(2))
    op = (device._handle, op_kinds.number("matmul"), [a, a], [d])
    assert _core.tuning_describe(*op) == ("", [])
    assert _core.tuning_chosen(*op) == -1
    with pytest.raises(errors.InvalidArgumentError, match="nothing to choose"):
        _core.tuning_choose(*op, 0)


def test_a_candidate_that_does_not_exist_is_refused(device: unihal.Device) -> None:
    a, d = (Buffer((64, 64), "float32", device) for _ in range(2))
    with pytest.raises(errors.OutOfRangeError, match="there is no candidate 200"):
        _core.tuning_choose(device._handle, op_kinds.number("matmul"), [a, a], [d], 200)


def test_choices_are_kept_for_later_processes(device: unihal.Device, tmp_path: Path) -> None:
    def chosen(*arguments: str) -> str:
        process = run_python(CHOICE, *arguments, UNIHAL_CACHE_DIR=str(tmp_path))
        assert process.returncode == 0, process.stderr
        return process.stdout.strip()

    assert chosen() == "chosen: -1"
    assert chosen("choose") == "chosen: 1"
    assert chosen() == "chosen: 1"
    assert chosen("forget") == "chosen: -1"
    assert chosen() == "chosen: -1"


def test_tune_measures_and_chooses(device: unihal.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    describe = _core.tuning_describe

    def some(*op: Any) -> tuple[str, list[tuple[str, bool]]]:
        key, candidates = describe(*op)
        return key, [(name, usable and name in CHECKED) for name, usable in candidates]

    monkeypatch.setattr(_core, "tuning_describe", some)
    try:
        (result,) = tuning.tune(device, [tuning.MatrixProduct(48, 48, 64, "nt")], 0.001)
        assert result.key == "gemm float32 nt 32 32 64 1"
        assert {candidate.name for candidate in result.candidates} <= set(CHECKED)
        assert all(candidate.seconds > 0 for candidate in result.candidates)
        assert result.gain >= 1
    finally:
        tuning.forget(device)


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


@pytest.mark.timeout(500)
def test_the_kernels_for_gpus_conform(device: unihal.Device) -> None:
    command = [*UNIHAL, "conformance", "--backend", "opencl", "--op", "matmul", "--every", "40"]
    process = run_command(command, timeout=480, UNIHAL_OPENCL_KERNELS="gpu")
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
