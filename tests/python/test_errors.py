"""Exceptions: their classes, their fields, and what nonsense from outside becomes."""

from __future__ import annotations

import multiprocessing
import pickle
import shutil
from pathlib import Path

import pytest
import unihal
from processes import run_python
from unihal import Buffer, errors, ops


@pytest.mark.parametrize(
    ("status", "ours", "pythons"),
    [
        ("INVALID_ARGUMENT", unihal.InvalidArgumentError, ValueError),
        ("NOT_FOUND", unihal.NotFoundError, LookupError),
        ("RESOURCE_EXHAUSTED", unihal.OutOfMemoryError, MemoryError),
        ("FAILED_PRECONDITION", unihal.FailedPreconditionError, RuntimeError),
        ("OUT_OF_RANGE", unihal.OutOfRangeError, IndexError),
        ("UNIMPLEMENTED", unihal.UnimplementedError, NotImplementedError),
        ("UNAVAILABLE", unihal.UnavailableError, RuntimeError),
        ("DEADLINE_EXCEEDED", unihal.DeadlineExceededError, TimeoutError),
        ("PERMISSION_DENIED", unihal.PermissionDeniedError, PermissionError),
        ("CANCELLED", unihal.CancelledError, unihal.Error),
        ("SOMETHING_NEW", unihal.Error, Exception),
    ],
)
def test_classes_by_status(status: str, ours: type, pythons: type) -> None:
    error = errors.from_record("what to do", {"status": status, "op": "matmul"})
    assert type(error) is ours and isinstance(error, pythons) and isinstance(error, unihal.Error)
    assert str(error) == "what to do" and error.status == status and error.op == "matmul"


def test_fields_of_an_error_record() -> None:
    x = Buffer((2, 3), "float32", "rdna:0")
    with pytest.raises(unihal.InvalidArgumentError) as caught:
        ops.launch.launch("matmul", [x, x], [x])
    error = caught.value
    assert error.status == "INVALID_ARGUMENT" and error.code == 3
    assert "matmul" in error.op and "float32" in error.op
    assert error.device == "rdna:0 (stub)"
    assert error.file.startswith("csrc/core/") and error.line > 0


def test_errors_can_be_pickled() -> None:
    error = errors.from_record("text", {"status": "NOT_FOUND", "op": "", "line": 3})
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is unihal.NotFoundError and str(back) == "text" and back.line == 3


def test_no_hardware_says_what_was_looked_for_and_how_to_get_the_stub() -> None:
    code = """
import unihal
assert unihal.devices() == []
try:
    unihal.device("polaris:0")
except unihal.UnavailableError as error:
    print(error)
"""
    result = run_python(code, UNIHAL_BACKEND=None, UNIHAL_OPENCL_LIBRARY="/no/libOpenCL.so")
    assert result.returncode == 0, result.stderr
    for expected in (
        "polaris",
        "/no/libOpenCL.so does not load",
        "there is no HIP driver",
        "UNIHAL_BACKEND=stub",
    ):
        assert expected in result.stdout


def test_a_core_without_its_backends_says_where_it_looked_and_what_it_met(tmp_path: Path) -> None:
    library = Path(unihal.__file__).parent / "lib" / "libunihal.so"
    shutil.copy(library, tmp_path)
    shutil.copy(library.with_name("libunihal_opencl.so"), tmp_path / "libunihal_corex.so")
    code = f"""
import ctypes
core = ctypes.CDLL("{tmp_path / "libunihal.so"}")
class Error(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("status", ctypes.c_int32), ("code", ctypes.c_int32),
                ("name", ctypes.c_char_p), ("message", ctypes.c_char_p)]
core.uhal_last_error.restype = ctypes.POINTER(Error)
device = ctypes.c_void_p()
for device_type in (b"rdna", b"iluvatar"):
    assert core.uhal_device_get(device_type, 0, ctypes.byref(device)) == 14
    print(core.uhal_last_error().contents.message.decode())
"""
    result = run_python(code, UNIHAL_BACKEND=None)
    assert result.returncode == 0, result.stderr
    assert f"libunihal_hip.so was not found in {tmp_path}" in result.stdout
    assert "is the backend 'opencl', not 'corex'" in result.stdout


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("UNIHAL_BACKEND", "cuda", "stub"),
        ("UNIHAL_STUB_DEVICES", "0", "64"),
        ("UNIHAL_STUB_DEVICES", "65", "64"),
        ("UNIHAL_STUB_DEVICES", "two", "64"),
        ("UNIHAL_STUB_MEMORY", "8X", "4G"),
        ("UNIHAL_MEMORY_LIMIT", "-1", "K"),
        ("UNIHAL_MEMORY_LIMIT", "99999999999999999999", "K"),
        ("UNIHAL_STRICT", "yes", "1"),
        ("UNIHAL_CHECK_NAN", "2", "1"),
    ],
)
def test_nonsense_in_the_environment_is_named(name: str, value: str, allowed: str) -> None:
    code = """
import unihal
try:
    device = unihal.device("rdna:0")
    x = unihal.Buffer((4,), "float32", device)
    unihal.ops.fill(x, 1)
except unihal.Error as error:
    print(error)
"""
    result = run_python(code, **{"UNIHAL_BACKEND": "stub", name: value})
    assert result.returncode == 0, result.stderr
    assert name in result.stdout and value in result.stdout and allowed in result.stdout, result.stdout


def test_a_choice_after_devices_were_used_is_refused() -> None:
    code = """
import unihal
unihal.devices()
try:
    unihal.use_backend("opencl")
except unihal.FailedPreconditionError as error:
    print("refused:", error)
"""
    assert run_python(code).stdout.startswith("refused:")


@pytest.mark.parametrize("content", [None, b"", b"no library"])
def test_broken_backend_libraries_are_refused(tmp_path: object, content: bytes | None) -> None:
    path = f"{tmp_path}/libunihal_broken.so"
    if content is not None:
        with open(path, "wb") as file:
            file.write(content)
    with pytest.raises((unihal.NotFoundError, unihal.InvalidArgumentError), match=r"libunihal_broken\.so"):
        unihal.load_backend(path)


def _use_device_in_child(queue: multiprocessing.Queue[str]) -> None:
    try:
        unihal.Buffer((4,), "float32", "rdna:0")
    except unihal.FailedPreconditionError as error:
        queue.put(str(error))
    else:
        queue.put("not refused")


def _child_message(method: str) -> str:
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=_use_device_in_child, args=(queue,))
    child.start()
    message: str = queue.get(timeout=60)
    child.join(timeout=60)
    assert child.exitcode == 0
    return message


def test_a_forked_child_is_refused(device: unihal.Device) -> None:
    ops.fill(Buffer((4,), "float32", device), 1)
    assert "fork" in _child_message("fork")


def test_a_spawned_child_may_use_the_device(device: unihal.Device) -> None:
    ops.fill(Buffer((4,), "float32", device), 1)
    assert _child_message("spawn") == "not refused"


def test_buffers_inherited_by_a_forked_child_are_harmless() -> None:
    code = """
import os, unihal
x = unihal.ops.fill(unihal.Buffer((4,), "float32", "rdna:0"), 1)
child = os.fork()
if child == 0:
    del x
    raise SystemExit(0)
assert os.waitpid(child, 0)[1] == 0
assert (x.numpy() == 1).all()
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr


def test_after_finalize_calls_are_refused() -> None:
    code = """
import unihal
from unihal import _core
x = unihal.Buffer((4,), "float32", "rdna:0")
_core.finalize()
_core.finalize()
try:
    unihal.ops.fill(x, 1)
except unihal.FailedPreconditionError as error:
    print("refused:", error)
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("refused:")
