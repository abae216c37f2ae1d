"""The commands doctor, devices and fallbacks, as a user runs them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import unihal_torch
from processes import Completed, run_command
from unihal import tensorflow_versions
from unihal.command_line import framework_check
from unihal.fallbacks import Fallback, read_log

UNIHAL = [sys.executable, "-m", "unihal.command_line"]


def unihal(*arguments: str, **variables: str | None) -> Completed:
    return run_command([*UNIHAL, *arguments], COLUMNS="200", **variables)


# -- doctor


@pytest.fixture(scope="module")
def healthy() -> Completed:
    return unihal("doctor", "--json")


@pytest.fixture(scope="module")
def without_hardware() -> Completed:
    # Frameworks are waited for by the tests that look at what it says of them.
    return unihal(
        "doctor", "--json", "--timeout", "0.01", UNIHAL_BACKEND=None, UNIHAL_OPENCL_LIBRARY="/no/libOpenCL.so"
    )


def test_doctor_with_the_stub(healthy: Completed) -> None:
    assert healthy.returncode == 0, healthy.stderr
    report = json.loads(healthy.stdout)
    assert report["usable"] and report["version"] == "0.1.0" and report["problems"] == []
    assert report["environment"]["UNIHAL_BACKEND"] == "stub"
    types = {entry["type"]["name"]: entry for entry in report["device_types"]}
    assert set(types) == {"iluvatar", "rdna", "polaris"}
    (device,) = types["rdna"]["devices"]
    assert device["backend"] == "stub" and device["is_stub"]
    states = {entry["backend"]: entry["state"] for entry in types["rdna"]["backends"]}
    assert states == {"hip": "not tried", "opencl": "not tried", "stub": "chosen"}


def test_doctor_tries_the_frameworks(healthy: Completed) -> None:
    frameworks = {entry["name"]: entry for entry in json.loads(healthy.stdout)["frameworks"]}
    assert frameworks["paddle"]["adapter_loads"], frameworks["paddle"]
    assert frameworks["paddle"]["devices"] == {"iluvatar": 1, "rdna": 1, "polaris": 1}
    assert frameworks["tensorflow"]["adapter_loads"], frameworks["tensorflow"]
    assert frameworks["tensorflow"]["devices"] == {"ILUVATAR": 1, "RDNA": 1, "POLARIS": 1}


def test_doctor_without_hardware(without_hardware: Completed) -> None:
    assert without_hardware.returncode == 1
    report = json.loads(without_hardware.stdout)
    assert not report["usable"]
    # Of the frameworks it says here that they were not waited for.
    missing = [problem for problem in report["problems"] if problem["what"].startswith("No ")]
    assert len(missing) == 3
    for problem in missing:
        assert problem["what"] and "UNIHAL_BACKEND=stub" in problem["next_step"]
    for entry in report["device_types"]:
        reports = {backend["backend"]: backend for backend in entry["backends"]}
        assert reports["stub"]["state"] == "not tried" and "asked" in reports["stub"]["reason"]
        refused = [backend for backend in reports.values() if backend["state"] == "refused"]
        assert refused and all(
            "there is no" in backend["reason"] or "does not load" in backend["reason"] for backend in refused
        )


@pytest.mark.long  # it imports every framework once more
def test_doctor_without_hardware_tries_the_frameworks_with_the_stub() -> None:
    report = json.loads(
        unihal("doctor", "--json", UNIHAL_BACKEND=None, UNIHAL_OPENCL_LIBRARY="/no/libOpenCL.so").stdout
    )
    assert not report["usable"] and report["frameworks"]
    assert len(report["problems"]) == 3
    # The adapters load, and it says how that was found.
    for framework in report["frameworks"]:
        assert framework["adapter_loads"] and framework["tried_with_stub"]


@pytest.mark.whole  # it imports every framework once more
def test_doctor_for_a_person() -> None:
    result = unihal("doctor")
    assert result.returncode == 0, result.stderr
    for expected in ("unihal 0.1.0", "rdna:0", "stands in for hardware", "UNIHAL_BACKEND", "paddle", "loads"):
        assert expected in result.stdout


def test_doctor_shows_the_profile_of_a_card() -> None:
    result = unihal("doctor", "--timeout", "0.01", UNIHAL_STUB_PROFILE="rx580-4gb")
    assert result.returncode == 0, result.stderr
    assert "AMD Radeon RX 580 4 GB (profile, stub)" in result.stdout
    assert "times of it are estimates" in " ".join(result.stdout.split())
    assert "3.8 GiB" in result.stdout


def test_doctor_names_the_profiles_that_there_are() -> None:
    result = unihal("doctor", "--timeout", "0.01", UNIHAL_STUB_PROFILE="rx580")
    assert result.returncode == 1
    text = " ".join(result.stdout.replace("│", " ").split())
    assert "there is no profile 'rx580'; expected rx580-4gb, rx580-8gb, rx6800xt, rx7900xtx, bi-v150" in text


def test_doctor_survives_a_nonsense_environment() -> None:
    # What it is about comes before the frameworks, which need not be waited for.
    result = unihal("doctor", "--json", "--timeout", "0.01", UNIHAL_BACKEND="cuda")
    assert result.returncode == 1
    problems = json.loads(result.stdout)["problems"]
    assert "UNIHAL_BACKEND" in problems[0]["what"] and "cuda" in problems[0]["what"]


def test_doctor_says_what_to_do_after_pytorch_was_upgraded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unihal_torch, "adapters", lambda: {"2.13": Path("libunihal_torch_2.13.so")})
    found = {}
    for version in ("2.14.1", "2.99.0"):
        monkeypatch.setattr(framework_check, "_version", lambda framework, version=version: version)
        found[version] = next(r for r in framework_check.check_frameworks(0.01, True) if r.name == "pytorch")
        assert found[version].built_for == ["2.13"] and not found[version].adapter_loads
    assert found["2.14.1"].error == "PyTorch 2.14.1 is installed, and this unihal was built for 2.13"
    assert "pip install --force-reinstall --no-deps '.[torch]'" in found["2.14.1"].next_step
    assert found["2.99.0"].error == "PyTorch 2.99.0 is not supported, 2.11 to 2.15 are"


def test_doctor_says_which_tensorflows_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorflow_versions, "built_versions", lambda: ["2.18", "2.21"])
    found = {}
    for version in ("2.19.1", "2.99.0"):
        monkeypatch.setattr(framework_check, "_version", lambda framework, version=version: version)
        found[version] = next(r for r in framework_check.check_frameworks(0.01, True) if r.name == "tensorflow")
        assert found[version].built_for == ["2.18", "2.21"] and not found[version].adapter_loads
    assert found["2.19.1"].error == "TensorFlow 2.19.1 is installed, and this unihal was built for 2.18 and 2.21"
    assert "pip install --force-reinstall --no-deps '.[tensorflow]'" in found["2.19.1"].next_step
    assert found["2.99.0"].error == "TensorFlow 2.99.0 is not supported, 2.18 to 2.21 are"


def test_doctor_waits_for_a_framework_no_longer_than_it_is_told() -> None:
    result = unihal("doctor", "--json", "--timeout", "0.01")
    problems = json.loads(result.stdout)["problems"]
    assert [problem["what"] for problem in problems] == [
        f"{name}: loading it took more than 0.01 seconds" for name in ("paddle", "tensorflow", "pytorch", "onnxruntime")
    ]
    assert all(problem["next_step"] for problem in problems)


# -- devices


def test_devices() -> None:
    result = unihal("devices")
    assert result.returncode == 0
    assert "iluvatar:0" in result.stdout and "8.0 GiB" in result.stdout


def test_devices_without_hardware() -> None:
    result = unihal("devices", UNIHAL_BACKEND=None, UNIHAL_OPENCL_LIBRARY="/no/libOpenCL.so")
    assert result.returncode == 1
    assert "unihal doctor" in result.stdout


def test_errors_are_one_line_without_a_traceback() -> None:
    result = unihal("devices", UNIHAL_BACKEND="cuda")
    assert result.returncode == 1
    assert result.stderr.startswith("unihal: ") and "UNIHAL_BACKEND" in result.stderr
    assert "Traceback" not in result.stderr


# -- fallbacks

REPORTING = """
import sys
from unihal import _core
for dtype in ("int16", "float32", "float32"):
    _core.record_fallback("paddle", "unique", dtype, "no kernel is registered")
print("output of the program", sys.argv[1:])
sys.exit(3)
"""


def test_fallbacks_prints_each_op_and_passes_on_the_exit_code() -> None:
    result = unihal("fallbacks", "--", sys.executable, "-c", REPORTING, "--epochs", "2")
    assert result.returncode == 3
    assert result.stdout == "output of the program ['--epochs', '2']\n"
    rows = [line for line in result.stderr.splitlines() if "unique" in line]
    assert len(rows) == 2
    assert "float32" in rows[0] and "2" in rows[0] and "no kernel is registered" in rows[0]
    assert "int16" in rows[1] and "1" in rows[1]


def test_fallbacks_of_a_program_without_any() -> None:
    result = unihal("fallbacks", "--", sys.executable, "-c", "pass")
    assert result.returncode == 0
    assert "no op fell back" in result.stderr


def test_fallbacks_of_a_killed_program() -> None:
    result = unihal("fallbacks", "--", sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    assert result.returncode == 128 + 9


def test_fallbacks_of_a_missing_program() -> None:
    result = unihal("fallbacks", "--", "no-such-program-of-unihal")
    assert result.returncode == 127
    assert "no-such-program-of-unihal cannot be run" in result.stderr


def test_a_log_with_broken_lines_is_read() -> None:
    entry = {"framework": "paddle", "op": "unique", "dtype": "", "reason": "r"}
    lines = [json.dumps(entry), "", "{", '{"framework": 1}', "[]", json.dumps(entry)]
    assert read_log(lines) == [Fallback("paddle", "unique", "", "r", 2)]


def test_fallbacks_of_a_framework(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(
        "import paddle\n"
        "paddle.device.set_device('iluvatar')\n"
        "x = paddle.to_tensor([[2.0, 1.0], [1.0, 3.0]])\n"
        "print(paddle._C_ops.add_position_encoding(x.reshape([1, 2, 2]), 1.0, 0.0).shape)\n"
    )
    result = unihal("fallbacks", "--", sys.executable, str(program))
    assert result.returncode == 0, result.stderr[-2000:]
    words = ("paddle", "add_position_encoding", "float32")
    assert any(all(word in line for word in words) for line in result.stderr.splitlines())


def test_strict_mode_makes_a_fallback_an_error() -> None:
    code = """
import unihal
from unihal import _core
assert unihal.is_strict()
try:
    _core.record_fallback("paddle", "unique", "int16", "no kernel is registered")
except unihal.UnimplementedError as error:
    print(error)
print(unihal.fallbacks())
"""
    result = run_command([sys.executable, "-c", code], UNIHAL_STRICT="1")
    assert result.returncode == 0, result.stderr
    assert "unique" in result.stdout.splitlines()[0] and "UNIHAL_STRICT" in result.stdout.splitlines()[0]
    assert "count=1" in result.stdout


def test_help_lists_the_commands() -> None:
    result = unihal("--help")
    assert result.returncode == 0
    for command in ("doctor", "devices", "fallbacks", "demo"):
        assert command in result.stdout


def test_an_unknown_command_is_refused() -> None:
    result = unihal("frobnicate")
    assert result.returncode == 2 and "frobnicate" in result.stderr
