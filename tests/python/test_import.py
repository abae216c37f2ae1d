"""Importing unihal is cheap and touches no device."""

from __future__ import annotations

import pytest
from processes import run_python, without_places


def test_import_loads_no_heavy_module() -> None:
    code = """
import sys
import unihal
heavy = {"numpy", "typer", "rich", "paddle", "tensorflow", "matplotlib", "sklearn"} & set(sys.modules)
assert not heavy, heavy
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "" and result.stderr == ""


def test_import_enumerates_no_device() -> None:
    # The choice of a backend is refused once devices have been enumerated; so it must still be free after the import.
    code = """
import unihal
unihal.use_backend("stub")
print(unihal.devices())
"""
    result = run_python(code, UNIHAL_BACKEND=None)
    assert result.returncode == 0, result.stderr
    expected = "[unihal.device('iluvatar:0'), unihal.device('rdna:0'), unihal.device('polaris:0')]"
    assert result.stdout.strip() == expected


def test_versions() -> None:
    result = run_python("import unihal; print(unihal.__version__, *unihal.abi_version)")
    assert result.stdout.split() == ["0.1.0", "1", "13"]


def test_every_public_name_exists() -> None:
    import unihal
    from unihal import ops

    assert [name for name in unihal.__all__ if not hasattr(unihal, name)] == []
    assert [name for name in dir(ops) if not hasattr(ops, name)] == []


def test_one_core_library_in_a_framework_process() -> None:
    # What a framework's plugin does must be visible to unihal in the same process: both use one libunihal.so.
    code = """
import paddle, unihal
paddle.device.set_device("iluvatar")
with unihal.profile() as recording:
    (paddle.ones([8, 8]) + 1).numpy()
assert recording.totals, "the plugin's ops were not seen"
libraries = {line.split(None, 5)[5] for line in open("/proc/self/maps") if line.rstrip().endswith("/libunihal.so")}
print(len(libraries))
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stdout.splitlines()[-1] == "1"


@pytest.mark.parametrize("framework", ["paddle", pytest.param("tensorflow", marks=pytest.mark.whole)])
def test_without_hardware_a_framework_is_as_if_unihal_were_not_installed(framework: str) -> None:
    result = run_python(f"import {framework}", UNIHAL_BACKEND=None, GLOG_minloglevel=None, TF_CPP_MIN_LOG_LEVEL=None)
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""
    said = without_places(result.stderr).lower()
    for word in ("unihal", "custom_device", "custom device", "pluggable", "iluvatar"):
        assert word not in said, result.stderr


def test_the_level_of_paddles_logger_is_the_users_if_set() -> None:
    code = "import os; print(os.environ.get('GLOG_minloglevel'), os.environ.get('GLOG_v'))"
    assert run_python(code, GLOG_minloglevel=None, GLOG_v=None).stdout.split() == ["1", "None"]
    assert run_python(code, GLOG_minloglevel="0").stdout.split()[0] == "0"
    assert run_python(code, GLOG_minloglevel=None, GLOG_v="3").stdout.split() == ["None", "3"]
