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

UNIHAL = [sys.executable, "-m", "unihal.cli"]
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


def test_the_doctor_says_what_does_not_serve() -> None:
    process = present("processor,rtx3060,rx580-mesa,rx580,opencl-1.0,no-compiler,name-odd", "doctor")
    text = " ".join(process.stdout.split())
    assert "it has 'OpenCL 1.0 ATI-Stream-v2.2 (302)', and OpenCL 1.2 is needed" in text
    assert "the driver has no compiler for it" in text
    assert "it is the same card as Radeon RX 580 Series (Ellesmere)" in text
    assert "it is a processor, and there are other devices" in text


def test_the_doctor_says_why_there_is_none() -> None:
    process = present("local-16k,embedded", "devices")
    assert process.returncode == 1
    text = " ".join(present("local-16k,embedded", "doctor").stdout.split())
    assert "it has 16384 bytes of local memory, and 32768 are needed" in text
    assert "it has OpenCL's embedded profile only" in text


# What depends on the limits most. Whole samples run by hand: see docs/opencl.md.
LIMITED = ("attention", "matmul", "sort", "softmax", "scatter")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("device", ["rx580-no-float64", "groups-16"])
def test_kernels_keep_to_the_limits_of_a_device(device: str, tmp_path: Path) -> None:
    for op in LIMITED:
        results = tmp_path / f"{op}.json"
        arguments = ("conformance", "--backend", "opencl", "--op", op, "--every", "100", "--json", str(results))
        process = present(device, *arguments, timeout=400)
        assert process.returncode == 0, process.stdout + process.stderr
        reasons = {outcome.get("detail", "") for outcome in json.loads(results.read_text())["outcomes"]}
        if device == "groups-16" and op == "attention":
            assert any("attention needs work-groups of 64 items, and the device allows 16" in text for text in reasons)
