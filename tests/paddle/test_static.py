"""Static mode on each device type: executors that are fed and fetched from, in both intermediate representations, and
to_static where a graph mixes devices' ops, control flow and fallbacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest
from comparison import on
from processes import run

HERE = Path(__file__).parent

TRAIN_BY_EXECUTOR = """
import sys
import numpy as np
import paddle

paddle.enable_static()

def train(place):
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [4, 3], "float32")
        weight = paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(0.1))
        y = paddle.static.nn.fc(x, 5, weight_attr=weight, bias_attr=False, activation="relu")
        loss = paddle.mean(y * y)
        paddle.optimizer.SGD(0.1).minimize(loss)
    executor = paddle.static.Executor(place)
    executor.run(startup)
    feed = {"x": np.linspace(-1, 2, 12, dtype="float32").reshape(4, 3)}
    return [executor.run(main, feed=feed, fetch_list=[loss, y]) for _ in range(3)]

expected = train(paddle.CPUPlace())
for device_type in paddle.device.get_all_custom_device_type():
    for ordinal in (0, 1):
        for ours, theirs in zip(train(paddle.CustomPlace(device_type, ordinal)), expected):
            np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5)
            np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-5)
    print(device_type)
"""


@pytest.mark.parametrize(
    "new", ["1", pytest.param("0", marks=pytest.mark.whole)], ids=["new representation", "old representation"]
)
def test_an_executor_trains_on_every_device_type(tmp_path: Path, new: str) -> None:
    result = run(TRAIN_BY_EXECUTOR, tmp_path, FLAGS_enable_pir_api=new)
    assert (result.returncode, sorted(result.stdout.split())) == (0, ["iluvatar", "polaris", "rdna"]), result.stderr


def test_run_check_succeeds_wherever_the_program_is(tmp_path: Path) -> None:
    program = """
import paddle
paddle.utils.run_check()
for device in ("cpu", "polaris"):
    paddle.set_device(device)
    paddle.utils.run_check()
"""
    result = run(program, tmp_path, UNIHAL_STUB_DEVICES="1")
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("PaddlePaddle is installed successfully!") == 3


@pytest.mark.parametrize("device_type", ["iluvatar", "rdna", "polaris"])
def test_control_flow_and_its_gradient(device_type: str) -> None:
    def branches(x: Any) -> Any:
        if x.sum() > 0:  # noqa: SIM108 - a statement is what to_static turns into an op
            y = x * 2
        else:
            y = x * 3
        return (y * y).sum()

    def loop(x: Any) -> Any:  # without a gradient, which Paddle's CPU refuses too
        count = paddle.zeros([1])
        while count < 3:
            x = x * 2
            count = count + 1
        return x

    branches, loop = (paddle.jit.to_static(function, full_graph=True) for function in (branches, loop))
    with on(device_type):
        for sign, factor in ((1.0, 2), (-1.0, 3)):
            x = paddle.to_tensor([sign, 2 * sign], stop_gradient=False)
            branches(x).backward()
            np.testing.assert_allclose(x.grad.numpy(), 2 * factor**2 * x.numpy())
            np.testing.assert_array_equal(loop(x.detach()).numpy(), 8 * x.numpy())


def test_models_train_in_graphs_around_their_fallbacks(tmp_path: Path) -> None:
    log = tmp_path / "fallbacks"
    (tmp_path / "program.py").write_text((HERE / "fallback_models.py").read_text())
    program = "import runpy; runpy.run_path('program.py', run_name='__main__')"
    result = run(program, tmp_path, UNIHAL_STRICT="0", UNIHAL_FALLBACK_LOG=str(log))
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 9
    ops = {json.loads(line)["op"] for line in log.read_text().splitlines()}
    assert len(ops) >= 2, "fallbacks were to be had"


OLD_PROGRAM_THAT_FALLS_BACK = """
import numpy as np
import paddle

paddle.enable_static()
for device_type in ("iluvatar", "rdna"):
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        x = paddle.static.data("x", [1, 2, 2], "float32")
        doubled = x * 2
        block = main.global_block()
        same = block.create_var(name="same", dtype="float32", shape=[1, 2, 2])
        attributes = {"alpha": 1.0, "beta": 0.0}
        block.append_op(type="add_position_encoding", inputs={"X": doubled}, outputs={"Out": same}, attrs=attributes)
        y = same * 3
    executor = paddle.static.Executor(paddle.CustomPlace(device_type, 0))
    (result,) = executor.run(main, feed={"x": np.diag([2, 8]).astype("float32").reshape(1, 2, 2)}, fetch_list=[y])
    assert np.array_equal(result[0], np.diag([12, 48])), result
"""


def test_fallbacks_of_old_programs_are_counted_and_forbidden_in_strict_mode(tmp_path: Path) -> None:
    log = tmp_path / "fallbacks"
    old = {"FLAGS_enable_pir_api": "0", "UNIHAL_FALLBACK_LOG": str(log)}
    result = run(OLD_PROGRAM_THAT_FALLS_BACK, tmp_path, UNIHAL_STRICT="0", **old)
    assert result.returncode == 0, result.stderr
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    op = {"op": "add_position_encoding", "dtype": "float32"}
    expected = {"framework": "paddle", "reason": "no kernel is registered"} | op
    assert entries and all(expected.items() <= entry.items() for entry in entries), entries

    result = run(OLD_PROGRAM_THAT_FALLS_BACK, tmp_path, UNIHAL_STRICT="1", **old)
    assert result.returncode != 0
    assert "add_position_encoding" in result.stderr and "UNIHAL_STRICT=1" in result.stderr


def test_ops_of_old_programs(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text((HERE / "old_programs.py").read_text())
    program = "import runpy; runpy.run_path('program.py', run_name='__main__')"
    result = run(program, tmp_path, FLAGS_enable_pir_api="0")
    assert (result.returncode, result.stdout) == (0, ""), result.stdout + result.stderr


FALLBACKS_THAT_COPY_WITH_ANOTHER_CONTEXT = """
import numpy as np
import paddle

def tensor(*shape):
    return paddle.to_tensor(np.arange(np.prod(shape)).reshape(shape).astype("float32"), stop_gradient=False)

def gradients(device):
    paddle.set_device(device)
    filled, base, values = tensor(3, 4), tensor(3, 4), tensor(2, 4)
    y = paddle.index_fill(filled, paddle.to_tensor([0, 2]), 1, 5.0)
    z = paddle.index_put(base, (paddle.to_tensor([0, 2]),), values)
    ((y * y).sum() + (z * z).sum()).backward()
    return [t.numpy() for t in (y, z, filled.grad, base.grad, values.grad)]

expected = gradients("cpu")
for device in ("iluvatar", "rdna:1"):
    for ours, theirs in zip(gradients(device), expected):
        np.testing.assert_allclose(ours, theirs)
"""


def test_a_copy_on_a_stream_that_is_none_of_ours(tmp_path: Path) -> None:
    """Paddle's kernels for the CPU copy from the device with the CPU's context, and read a stream out of it."""
    result = run(FALLBACKS_THAT_COPY_WITH_ANOTHER_CONTEXT, tmp_path, UNIHAL_STRICT="0")
    assert result.returncode == 0, result.stderr


def test_callbacks_look_streams_up_before_they_follow_them(tmp_path: Path) -> None:
    """Every callback that takes a stream, with ones that Paddle made up: null, unmapped, readable but not a stream."""
    program = """
import ctypes
import paddle

paddle.set_device("rdna")
x = paddle.to_tensor([0.0] * 4)
path = next(line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if "libunihal_paddle.so" in line)
library = ctypes.CDLL(path)
# 3.3's layout: its size, then pointers in the order of plugins/paddle/device_interface.cc.
interface = (ctypes.c_size_t * 141)(1128)
parameters = (ctypes.c_size_t * 16)(96, ctypes.addressof(interface))
library.uhal_paddle_initialize(parameters, b"rdna")
pointer = ctypes.c_void_p
slots = {name: interface[index] for name, index in {"query_stream": 9, "stream_add_callback": 10, "create_event": 11,
         "record_event": 12, "destroy_event": 13, "synchronize_stream": 16, "stream_wait_event": 18,
         "destroy_stream": 8, "async_h2d": 38, "async_d2h": 39}.items()}

def call(name, *arguments):
    return ctypes.CFUNCTYPE(ctypes.c_int, *[type(a) for a in arguments])(slots[name])(*arguments)

number = ctypes.c_int(0)
device = pointer(ctypes.addressof(number))
junk = ctypes.create_string_buffer(bytes([0x5A]) * 64)
host = (ctypes.c_float * 4)(1, 2, 3, 4)
event = pointer()
assert call("create_event", device, pointer(ctypes.addressof(event))) == 0
called = []
CALLBACK = ctypes.CFUNCTYPE(None, pointer, pointer, pointer, pointer)
callback = CALLBACK(lambda *arguments: called.append(1))
size = ctypes.c_size_t(16)
for stream in (pointer(), pointer(0x5a5a5a5a5a5a), pointer(ctypes.addressof(junk))):
    back = (ctypes.c_float * 4)()
    data = pointer(x.data_ptr())
    assert call("async_h2d", device, stream, data, pointer(ctypes.addressof(host)), size) == 0
    assert call("async_d2h", device, stream, pointer(ctypes.addressof(back)), data, size) == 0
    assert list(back) == [1, 2, 3, 4], list(back)
    assert call("record_event", device, stream, event) == 0
    assert call("stream_wait_event", device, stream, event) == 0
    assert call("stream_add_callback", device, stream, pointer(ctypes.cast(callback, pointer).value), pointer()) == 0
    assert call("synchronize_stream", device, stream) == 0
    assert call("query_stream", device, stream) == 0
    assert call("destroy_stream", device, stream) == 0
assert call("destroy_event", device, event) == 0
assert len(called) == 3
print(x.numpy().tolist())
"""
    result = run(program, tmp_path, UNIHAL_STRICT="0", UNIHAL_PADDLE_NO_KERNELS="1")
    assert (result.returncode, result.stdout) == (0, "[1.0, 2.0, 3.0, 4.0]\n"), result.stderr


KEYWORD_ARGUMENTS = """
import gc
import paddle

def once(depth):
    net = paddle.nn.Sequential(*[paddle.nn.Linear(4, 4) for _ in range(depth)])
    def loss(x):
        return net(x).sum()
    paddle.jit.to_static(loss, full_graph=True)(paddle.ones([2, 4])).backward()

main = paddle.pir.Program()
block = main.global_block()
with paddle.pir_utils.IrGuard(), paddle.pir.core.program_guard(main):
    x = paddle.static.data("x", [2, 3], "float32")
    block.add_kwarg("k", x.type())
first, second = block.kwargs()["k"], block.kwargs()["k"]
assert first is not second and first.is_same(second) and (first.name, first.shape) == ("k", [2, 3])

gc.disable()
paddle.set_device("cpu")
for i in range(16):
    once(1 + i % 8)
"""


def test_keyword_arguments_of_blocks_are_copies(tmp_path: Path) -> None:
    """What refers to a block is gone before its memory is another program's: Paddle's own references ended processes,
    this one after about ten programs."""
    file = tmp_path / "program.py"  # to_static reads the source
    file.write_text(KEYWORD_ARGUMENTS)
    result = run("import runpy; runpy.run_path('program.py', run_name='__main__')", tmp_path)
    assert result.returncode == 0, result.stderr
