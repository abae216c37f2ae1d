"""Devices, options, memory and streams of the provider."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import onnxruntime
import pytest
import unihal
import unihal.onnxruntime
from onnx import helper
from sessions import DEVICE, model, session


def product() -> onnxruntime.InferenceSession:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
    w = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32)
    return session(model(nodes, {"x": ("float32", ["n", 64])}, {"y": "float32"}, {"w": w}))


def test_devices_are_listed_with_what_is_known_of_them() -> None:
    found = {device.ep_metadata["unihal.device_type"]: device for device in unihal.onnxruntime.register()}
    assert set(found) == {"iluvatar", "rdna", "polaris"}
    assert found["rdna"].ep_metadata["unihal.backend"] == unihal.device("rdna:0").properties.backend
    assert found["rdna"].ep_name == unihal.onnxruntime.PROVIDER
    assert len({device.device.vendor_id for device in found.values()}) == 3


def test_registering_twice_is_once() -> None:
    first = unihal.onnxruntime.register()
    assert len(unihal.onnxruntime.register()) == len(first)


def test_a_device_that_is_not_there_is_an_error_that_names_those_that_are() -> None:
    with pytest.raises(ValueError, match="rdna:7.*rdna:0"):
        unihal.onnxruntime.device("rdna", 7)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"math_mode": "fast"}, "math_mode is 'fast', expected strict or tf32"),
        ({"memory_limit": "much"}, "memory_limit is 'much'"),
        ({"memory_limit": "-1"}, "memory_limit is '-1'"),
        ({"memory_limit": "99999999999G"}, "memory_limit is"),
    ],
)
def test_wrong_options_are_errors(wrong: dict[str, str], said: str) -> None:
    made = model([helper.make_node("Relu", ["x"], ["y"])], {"x": ("float32", [2])}, {"y": "float32"})
    with pytest.raises(Exception, match=said):
        session(made, **wrong)


def test_an_unknown_option_is_an_error() -> None:
    chosen = onnxruntime.SessionOptions()
    chosen.add_provider_for_devices([unihal.onnxruntime.device(DEVICE)], {"speed": "high"})
    made = model([helper.make_node("Relu", ["x"], ["y"])], {"x": ("float32", [2])}, {"y": "float32"})
    with pytest.raises(Exception, match="there is no option 'speed'"):
        onnxruntime.InferenceSession(made.SerializeToString(), chosen)


def test_two_devices_in_one_session_are_an_error() -> None:
    chosen = onnxruntime.SessionOptions()
    made = model([helper.make_node("Relu", ["x"], ["y"])], {"x": ("float32", [2])}, {"y": "float32"})
    with pytest.raises(Exception, match="one device"):
        chosen.add_provider_for_devices(unihal.onnxruntime.register()[:2], {})
        onnxruntime.InferenceSession(made.SerializeToString(), chosen)


def test_the_device_s_memory_is_used_and_given_back() -> None:
    device = unihal.device(f"{DEVICE}:0")
    before = device.memory_stats().allocated_bytes
    made = product()
    assert device.memory_stats().allocated_bytes > before
    made.run(None, {"x": np.ones((8, 64), np.float32)})
    del made
    assert device.memory_stats().allocated_bytes == before


def test_a_bound_output_stays_on_the_device() -> None:
    made = product()
    kind, number, vendor = unihal.onnxruntime.memory(DEVICE)
    x = np.random.default_rng(1).standard_normal((8, 64)).astype(np.float32)
    before = unihal.device(f"{DEVICE}:0").memory_stats().allocated_bytes
    on_device = onnxruntime.OrtValue.ortvalue_from_numpy(x, kind, number, vendor)
    assert unihal.device(f"{DEVICE}:0").memory_stats().allocated_bytes >= before + x.nbytes
    binding = made.io_binding()
    binding.bind_ortvalue_input("x", on_device)
    output = onnxruntime.OrtValue.ortvalue_from_shape_and_type([8, 32], np.float32, kind, number, vendor)
    binding.bind_ortvalue_output("y", output)
    made.run_with_iobinding(binding)
    binding.synchronize_outputs()
    assert np.allclose(output.numpy(), made.run(None, {"x": x})[0])
    assert output.numpy().max() > 0


def test_sessions_run_from_several_threads() -> None:
    made = product()
    rng = np.random.default_rng(2)
    inputs = [rng.standard_normal((n, 64)).astype(np.float32) for n in (1, 8, 32, 5)]
    expected = [made.run(None, {"x": x})[0] for x in inputs]
    wrong = []

    def work(number: int) -> None:
        for _ in range(20):
            if not np.array_equal(made.run(None, {"x": inputs[number]})[0], expected[number]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_math_mode_and_memory_limit_are_taken() -> None:
    device = unihal.device("polaris:0")
    chosen = onnxruntime.SessionOptions()
    unihal.onnxruntime.add_to(chosen, "polaris", math_mode="tf32", memory_limit="64M")
    made = model([helper.make_node("Relu", ["x"], ["y"])], {"x": ("float32", [2])}, {"y": "float32"})
    x = np.array([-1, 2], np.float32)
    assert onnxruntime.InferenceSession(made.SerializeToString(), chosen).run(None, {"x": x})[0].tolist() == [0, 2]
    assert device.memory_stats().limit_bytes == 64 << 20
    device.set_memory_limit(0)


CHILD = """
import sys
sys.path.insert(0, "tests/onnxruntime")
import numpy as np
from onnx import helper
import unihal
from sessions import model, session
{body}
"""


def child(body: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CHILD.format(body=body)],
        env=os.environ | {"UNIHAL_BACKEND": "stub"} | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_under_unihal_strict_what_is_left_to_the_cpu_is_an_error() -> None:
    body = """
made = model([helper.make_node("Det", ["x"], ["d"]), helper.make_node("Relu", ["d"], ["y"])],
             {"x": ("float32", [3, 3])}, {"y": "float32"})
try:
    session(made, cpu=True).run(None, {"x": np.eye(3, dtype=np.float32)})
    print("it ran")
except Exception as error:
    print(error)
"""
    result = child(body, UNIHAL_STRICT="1")
    assert result.returncode == 0, result.stderr
    assert "Det" in result.stdout and "no kernel is registered" in result.stdout


def test_a_function_without_a_kernel_is_what_its_body_is() -> None:
    """ONNX Runtime puts a function's body in its place where nobody has a kernel for it: that falls back to nothing."""
    body = """
pad = helper.make_node("CenterCropPad", ["x", "shape"], ["y"], axes=[0, 1])
made = model([pad], {"x": ("float32", [5, 7])}, {"y": "float32"}, {"shape": np.array([3, 9])})
twice = helper.make_function("mine", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])],
                             [helper.make_opsetid("", 21)])
own = model([helper.make_node("Twice", ["x"], ["y"], domain="mine")], {"x": ("float32", [2, 3])}, {"y": "float32"})
own.functions.append(twice)
own.opset_import.append(helper.make_opsetid("mine", 1))
for each, shape in ((made, (5, 7)), (own, (2, 3))):
    print(session(each, cpu=True).run(None, {"x": np.ones(shape, np.float32)})[0].sum())
print(unihal.fallbacks())
"""
    result = child(body, UNIHAL_STRICT="1")
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n")[:3] == ["21.0", "12.0", "[]"]


def test_what_is_left_of_a_session_that_never_ran_is_counted() -> None:
    body = """
made = model([helper.make_node("Det", ["x"], ["y"])], {"x": ("float32", [3, 3])}, {"y": "float32"})
opened = session(made, cpu=True)
del opened
print([(f.op, f.count) for f in unihal.fallbacks()])
"""
    result = child(body)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[('Det', 1)]"


def test_without_a_device_the_list_is_empty() -> None:
    result = child("import unihal.onnxruntime; print(len(unihal.onnxruntime.register()))", UNIHAL_BACKEND="hip")
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "0"
