"""Paddle with unihal's stub, or the backend that --unihal-backend names, fallbacks forbidden, in this process.

Everything here must be set before Paddle is imported. An installed unihal is found by Paddle itself; without one the
build tree's plugins are used. The libraries of Paddle and TensorFlow clash: never run both suites in one process.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import pytest

BUILD_TREE_PLUGINS = Path(__file__).parents[2] / "build" / "dev" / "site" / "paddle_custom_device"

os.environ.setdefault("UNIHAL_BACKEND", "stub")
os.environ["UNIHAL_STRICT"] = "1"
os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")  # on NVIDIA's cards too results are compared as float32's
os.environ["UNIHAL_STUB_DEVICES"] = "2"
os.environ.setdefault("GLOG_minloglevel", "1")
if not (Path(sysconfig.get_path("platlib")) / "paddle_custom_device").exists():
    os.environ.setdefault("CUSTOM_DEVICE_ROOT", str(BUILD_TREE_PLUGINS))
assert "tensorflow" not in sys.modules, "run tests/paddle in a process of its own"

sys.path.insert(0, str(Path(__file__).parent))

# Paddle notes Python's stack with each op of a graph, most of which is pytest's: an eighth of the time of such tests.
sys.tracebacklimit = 8

# Memory is exact, and races are found, on the strict stub only.
collect_ignore = [] if os.environ.get("UNIHAL_STUB") == "strict" else ["test_strict.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of older versions of Paddle some tests are left out: older_versions.py."""
    import paddle
    from older_versions import why_left_out

    for item in items:
        reason = why_left_out(paddle.__version__, item.nodeid)
        if reason:
            item.add_marker(pytest.mark.skip(reason=f"Paddle {paddle.__version__}: {reason}"))
