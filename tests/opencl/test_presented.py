"""Devices that drivers present (presented_devices.h), as users see them; and kernels under their limits, on PoCL.

The table of what is presented, and most of what is checked, is in the C++ suite beside this file.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import run_command

pytestmark = pytest.mark.whole

UNIHAL = [sys.executable, "-m", "unihal.command_line"]
LIBRARY = Path(__file__).parents[2] / "build/cmake/tests/opencl/libpresented_opencl.so"


@pytest.fixture(autouse=True)
def library() -> None:
    """Tests of this file need the library, and an OpenCL to compute with."""
    if not os.environ.get("UNIHAL_TESTS_NEED_OPENCL"):
        pytest.skip("there is no PoCL; run tests/fetch_pocl.sh")
    if not LIBRARY.exists():
        pytest.skip("`make test-native` builds what presents devices")


def present(keys: str, *arguments: str, timeout: int = 100, **settings: str) -> Any:
    """Runs a command of unihal's where these devices are all that there is."""
    return run_command(
        [*UNIHAL, *arguments],
        timeout=timeout,
        UNIHAL_BACKEND="opencl",
        UNIHAL_OPENCL_LIBRARY=str(LIBRARY),
        PRESENTED_OPENCL=keys,
        COLUMNS="300",
        **settings,
    )


def test_devices_lists_those_that_serve() -> None:
    process = present("processor,rtx3060,rx580-mesa,rx6800xt,opencl-1.1", "devices")
    assert process.returncode == 0, process.stderr
    rows = [line for line in process.stdout.splitlines() if "polaris:" in line]
    assert [row.split("opencl")[0].strip(" │") for row in rows] == ["polaris:0", "polaris:1", "polaris:2"]
    assert "AMD Radeon RX 6800 XT (gfx1030)" in rows[0]
    assert "radeonsi, polaris10" in rows[1]
    assert "RTX 3060" in rows[2]


def doctors_reasons(keys: str) -> str:
    """What the doctor says that it looked for, in one line."""
    # The frameworks come after it, and need not be waited for.
    rows = [row.split("│") for row in present(keys, "doctor", "--timeout", "0.01").stdout.splitlines()]
    return " ".join(" ".join(row[4] for row in rows if len(row) == 6).split())


def test_the_doctor_says_what_does_not_serve() -> None:
    text = doctors_reasons("processor,rtx3060,rx580-mesa,rx580,opencl-1.0,no-compiler,name-odd")
    assert "it has 'OpenCL 1.0 ATI-Stream-v2.2 (302)', and OpenCL 1.2 is needed" in text
    assert "the driver has no compiler for it" in text
    assert "it is the same card as Radeon RX 580 Series (Ellesmere)" in text
    assert "it is a processor, and there are other devices" in text


def test_the_doctor_says_why_there_is_none() -> None:
    assert present("local-16k,embedded", "devices").returncode == 1
    text = doctors_reasons("local-16k,embedded")
    assert "it has 16384 bytes of local memory, and 32768 are needed" in text
    assert "it has OpenCL's embedded profile only" in text


_DEFAULT_DEVICE = {
    "paddle": "import paddle; print(paddle.get_device())",
    "tensorflow": "import tensorflow as tf; print(tf.constant([1.0]).device.rpartition('device:')[2])",
}


def default_device(framework: str, **settings: str) -> str:
    """What the framework computes on where nothing was chosen, and no backend was asked for."""
    command = [sys.executable, "-W", "ignore", "-c", _DEFAULT_DEVICE[framework]]
    process = run_command(command, UNIHAL_BACKEND=None, TF_CPP_MIN_LOG_LEVEL="3", **settings)
    assert process.returncode == 0, process.stderr
    return process.stdout.strip().lower()


@pytest.mark.parametrize("framework", _DEFAULT_DEVICE)
def test_a_processor_serves_only_when_asked_for(framework: str) -> None:
    assert default_device(framework).startswith("cpu")  # with PoCL
    # OpenCL is polaris' first backend, and rdna's second.
    assert default_device(framework, UNIHAL_OPENCL_DEVICE="0") == "polaris:0"


def test_the_default_device_is_of_the_type_whose_first_backend_drives_it() -> None:
    settings = {"UNIHAL_OPENCL_LIBRARY": str(LIBRARY), "PRESENTED_OPENCL": "processor,rx580"}
    assert default_device("paddle", **settings) == "polaris:0"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("framework", "device_type"), [("paddle", "polaris"), ("tensorflow", "POLARIS")])
def test_without_float64_the_host_computes_in_it(framework: str, device_type: str, tmp_path: Path) -> None:
    loader = tmp_path / "libOpenCL.so.1"  # the name tells the backend that drivers come with it, which bring an LLVM
    loader.symlink_to(LIBRARY)
    training = Path(__file__).parents[1] / framework / "incomplete_training.py"
    process = run_command(
        [sys.executable, "-W", "ignore", str(training), device_type, "float64"],
        timeout=290,
        UNIHAL_BACKEND="opencl",
        UNIHAL_OPENCL_LIBRARY=str(loader),
        PRESENTED_OPENCL="rx580-no-float64",
    )
    assert process.returncode == 0, process.stderr
    result = json.loads(process.stdout.splitlines()[-1])
    for mode, error in result["errors"].items():
        assert error < 1e-12, mode  # values up to 25: a few roundings of float64, and what they grow to
    fallbacks = result["fallbacks"]
    assert {entry[0] for entry in fallbacks} == {"polaris:0 (opencl)"}, fallbacks
    assert {entry[2] for entry in fallbacks} == {"float64"}, fallbacks
    assert {entry[3] for entry in fallbacks} == {"the device has no float64"}, fallbacks
    assert len(fallbacks) > 10


# The first case of what depends on the limits most. docs/opencl.md tells how to run whole samples.
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("device", "op", "gap"),
    [
        ("groups-16", "attention", "attention needs work-groups of 64 items, and the device allows 16"),
        ("groups-16", "softmax", ""),
        ("groups-1", "sort", ""),
        ("rx580-no-float64", "cross_entropy", "the device has no float64"),
    ],
)
def test_kernels_keep_to_the_limits_of_a_device(device: str, op: str, gap: str, tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    arguments = ("conformance", "--backend", "opencl", "--op", op, "--every", "400", "--json", str(results))
    process = present(device, *arguments, timeout=280)
    assert process.returncode == 0, process.stdout + process.stderr
    outcomes = json.loads(results.read_text())["outcomes"]
    said = {(outcome["status"], outcome["message"]) for outcome in outcomes}
    assert said == {("passed", "")} if not gap else any(gap in message for _, message in said)
