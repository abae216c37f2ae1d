"""What the tests of the opencl backend share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import unihal


@pytest.fixture(scope="session")
def device() -> unihal.Device:
    """The first device. Without one tests are skipped, and fail where there should be one."""
    found = unihal.devices("polaris")
    if not found:
        reasons = "; ".join(f"{report.backend}: {report.reason}" for report in unihal.backend_reports("polaris"))
        if os.environ.get("UNIHAL_TESTS_NEED_OPENCL"):
            pytest.fail(f"there is no OpenCL device: {reasons}")
        pytest.skip(f"there is no OpenCL device ({reasons}); run tests/fetch_pocl.sh")
    if found[0].properties.backend != "opencl":
        pytest.skip("the stub serves; run pytest with --unihal-backend=opencl, as `make test-opencl` does")
    return found[0]


@pytest.fixture
def not_optimized(tmp_path: Path) -> dict[str, str]:
    """Settings of a child process whose kernels PoCL compiles without its optimization, which takes more than half of
    the time: what the kernels say is the same. What is compiled so is not found by other tests."""
    compiled = Path(os.environ.get("POCL_CACHE_DIR", tmp_path / "pocl")) / "not-optimized"
    compiled.mkdir(parents=True, exist_ok=True)
    return {
        "POCL_EXTRA_BUILD_FLAGS": "-cl-opt-disable",
        "POCL_CACHE_DIR": str(compiled),
        "UNIHAL_CACHE_DIR": str(tmp_path / "cache"),
    }
