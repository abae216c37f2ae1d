"""What the tests of the opencl backend share."""

from __future__ import annotations

import os

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
