"""The stub's strict mode as a user of Python meets it."""

from __future__ import annotations

import re
import signal

import pytest
from processes import run_python

TOUCH_DEVICE_MEMORY = """
import ctypes
import unihal

def make():
    return unihal.Buffer((5,), "float32", "rdna:0")

buffer = make()
ctypes.string_at(buffer.allocation.pointer + 8, 4)
"""


@pytest.mark.parametrize("handlers", [{}, {"PYTHONFAULTHANDLER": "1"}], ids=["alone", "with faulthandler"])
def test_host_access_is_reported_with_the_python_line(handlers: dict[str, str]) -> None:
    result = run_python(TOUCH_DEVICE_MEMORY, UNIHAL_STUB="strict", **handlers)
    assert result.returncode == -signal.SIGSEGV
    pattern = (
        r"unihal: the host (read|touched) device memory at 0x[0-9a-f]+: 8 bytes into the 20 bytes at 0x[0-9a-f]+ of "
        r"stub device 0\.\nunihal: It was allocated at <string>:6 in make < <string>:8 in <module>\.\n"
        r"unihal: Only the device can follow a device pointer\."
    )
    assert re.search(pattern, result.stderr), result.stderr
    assert ("Fatal Python error: Segmentation fault" in result.stderr) == bool(handlers)


def test_new_buffers_are_poisoned_and_the_process_ends_cleanly() -> None:
    code = """
import numpy, unihal
device = unihal.device("rdna:0")
assert device.properties.name == "unihal stub (strict)" and not device.properties.unified_memory
for dtype in ("float16", "float32", "float64"):
    assert numpy.isnan(unihal.Buffer((7, 3), dtype, device).numpy()).all(), dtype
assert (unihal.Buffer((4,), "int32", device).numpy() == 0x7FF57FF5).all()
one = unihal.Buffer.from_numpy(numpy.ones(1 << 20, "float32"), device)
for _ in range(20):
    unihal.ops.exp(one)  # still running when the process ends
"""
    result = run_python(code, UNIHAL_STUB="strict")
    assert result.returncode == 0, result.stderr


def test_the_host_cannot_look_at_memory_without_a_copy() -> None:
    code = """
import numpy, unihal
buffer = unihal.Buffer.from_numpy(numpy.arange(3), "rdna:0")
try:
    memoryview(buffer)
except BufferError as error:
    print(error)
print(buffer.numpy())
"""
    result = run_python(code, UNIHAL_STUB="strict")
    assert result.returncode == 0, result.stderr
    assert "cannot be reached from the host; use numpy(), which copies" in result.stdout
    assert "[0 1 2]" in result.stdout


@pytest.mark.parametrize(("name", "value"), [("UNIHAL_STUB", "slow"), ("UNIHAL_STUB_SEED", "-3")])
def test_nonsense_is_refused_by_name(name: str, value: str) -> None:
    code = (
        'import unihal\ntry:\n    unihal.device("rdna:0")\nexcept unihal.UnavailableError as error:\n    print(error)'
    )
    result = run_python(code, **{name: value})
    assert result.returncode == 0, result.stderr
    assert f"{name} is '{value}'; expected" in result.stdout
