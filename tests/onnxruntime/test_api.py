"""The slots of ONNX Runtime's C API that the adapter calls: they are where it thinks, in the installed wheel."""

from __future__ import annotations

import ctypes
import json
import subprocess
from pathlib import Path

import onnxruntime
import pytest
import unihal.onnxruntime

VERSION = 24
Table = ctypes.POINTER(ctypes.c_void_p)


@pytest.fixture(scope="module")
def slots() -> dict[str, dict[str, int]]:
    library = ctypes.CDLL(unihal.onnxruntime.library())
    library.uhal_onnxruntime_slots.restype = ctypes.c_char_p
    result: dict[str, dict[str, int]] = json.loads(library.uhal_onnxruntime_slots().decode())
    return result


class ApiBase(ctypes.Structure):
    _fields_ = (
        ("get_api", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)),
        ("get_version_string", ctypes.CFUNCTYPE(ctypes.c_char_p)),
    )


@pytest.fixture(scope="module")
def base() -> ApiBase:
    folder = Path(onnxruntime.__file__).parent / "capi"
    path = next(iter(folder.glob("libonnxruntime.so*")))
    library = ctypes.CDLL(str(path))
    library.OrtGetApiBase.restype = ctypes.POINTER(ApiBase)
    found: ApiBase = library.OrtGetApiBase().contents
    return found


@pytest.fixture(scope="module")
def api(base: ApiBase) -> ctypes.Array[ctypes.c_void_p]:
    address = base.get_api(VERSION)
    assert address
    return (ctypes.c_void_p * 412).from_address(address)


def test_the_version_is_what_the_wheel_says(base: ApiBase) -> None:
    assert base.get_version_string().decode() == onnxruntime.__version__
    assert int(onnxruntime.__version__.split(".")[1]) >= VERSION


def test_every_slot_is_filled(api: ctypes.Array[ctypes.c_void_p], slots: dict[str, dict[str, int]]) -> None:
    assert all(api[slot] for slot in slots["OrtApi"].values())
    get_ep_api = ctypes.CFUNCTYPE(ctypes.c_void_p)(api[slots["OrtApi"]["GetEpApi"]])
    ep_api = (ctypes.c_void_p * 50).from_address(get_ep_api())
    assert all(ep_api[slot] for slot in slots["OrtEpApi"].values())
    assert len(set(slots["OrtApi"].values())) == len(slots["OrtApi"])
    assert len(set(slots["OrtEpApi"].values())) == len(slots["OrtEpApi"])


def test_statuses_answer_at_their_slots(api: ctypes.Array[ctypes.c_void_p], slots: dict[str, dict[str, int]]) -> None:
    names = slots["OrtApi"]
    create = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p)(api[names["CreateStatus"]])
    code = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(api[names["GetErrorCode"]])
    message = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(api[names["GetErrorMessage"]])
    release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(api[names["ReleaseStatus"]])
    status = create(9, b"what went wrong")
    assert (code(status), message(status)) == (9, b"what went wrong")
    release(status)


def test_pairs_answer_at_their_slots(api: ctypes.Array[ctypes.c_void_p], slots: dict[str, dict[str, int]]) -> None:
    names = slots["OrtApi"]
    create = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p))(api[names["CreateKeyValuePairs"]])
    add = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)(api[names["AddKeyValuePair"]])
    get = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p, ctypes.c_char_p)(api[names["GetKeyValue"]])
    release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(api[names["ReleaseKeyValuePairs"]])
    pairs = ctypes.c_void_p()
    create(ctypes.byref(pairs))
    add(pairs, b"key", b"value")
    assert get(pairs, b"key") == b"value"
    assert get(pairs, b"other") is None
    release(pairs)


def test_memory_answers_at_its_slots(api: ctypes.Array[ctypes.c_void_p], slots: dict[str, dict[str, int]]) -> None:
    names, ep_names = slots["OrtApi"], slots["OrtEpApi"]
    get_ep_api = ctypes.CFUNCTYPE(ctypes.c_void_p)(api[names["GetEpApi"]])
    ep_api = (ctypes.c_void_p * 50).from_address(get_ep_api())
    arguments = (ctypes.c_char_p, ctypes.c_int32, ctypes.c_uint32, ctypes.c_int32, ctypes.c_int32, ctypes.c_size_t)
    create = ctypes.CFUNCTYPE(ctypes.c_void_p, *arguments, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))(
        api[names["CreateMemoryInfo_V2"]]
    )
    release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(api[names["ReleaseMemoryInfo"]])
    info = ctypes.c_void_p()
    assert create(b"test", 1, 0x756E6901, 3, 0, 256, 0, ctypes.byref(info)) is None
    device = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(ep_api[ep_names["MemoryInfo_GetMemoryDevice"]])(info)
    reads = {
        "MemoryDevice_GetDeviceType": 1,
        "MemoryDevice_GetMemoryType": 0,
        "MemoryDevice_GetVendorId": 0x756E6901,
        "MemoryDevice_GetDeviceId": 3,
    }
    for name, expected in reads.items():
        assert ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p)(ep_api[ep_names[name]])(device) == expected, name
    release(info)


def test_the_library_needs_nothing_of_onnx_runtime() -> None:
    symbols = subprocess.run(
        ["nm", "--dynamic", "--undefined-only", unihal.onnxruntime.library()],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "Ort" not in symbols and "onnx" not in symbols
