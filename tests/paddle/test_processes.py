"""What needs a process of its own: imports, exits, environment variables, controls."""

from __future__ import annotations

import json
import os
import sysconfig
from pathlib import Path

import pytest
from processes import run

TRAIN_ONE_STEP = """
import paddle
from paddle import nn
paddle.set_device("iluvatar")
network = nn.Linear(4, 2)
optimizer = paddle.optimizer.Adam(parameters=network.parameters())
loss = network(paddle.ones([3, 4])).mean()
loss.backward()
optimizer.step()
print(float(loss))
"""


def test_a_process_that_used_a_device_exits_with_0(tmp_path: Path) -> None:
    result = run(TRAIN_ONE_STEP, tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    float(result.stdout)


def test_import_without_hardware_is_silent(tmp_path: Path) -> None:
    result = run("import paddle; print((paddle.to_tensor([1.0]) + 1).place)", tmp_path, UNIHAL_BACKEND=None)
    assert (result.returncode, result.stdout, result.stderr) == (0, "Place(cpu)\n", "")


def test_the_default_device_and_what_replaces_it(tmp_path: Path) -> None:
    """The stub is the second backend of one type and the third of the others."""
    program = """
import paddle
print(paddle.device.get_all_custom_device_type(), paddle.get_device())
for device in ("cpu", "rdna:1"):
    paddle.set_device(device)
    paddle.enable_static()
    print(paddle.get_device())
    paddle.disable_static()
    print(paddle.get_device(), (paddle.ones([2]) + 1).place)
with paddle.base.dygraph.guard(paddle.CPUPlace()):
    print(paddle.get_device())
print(paddle.get_device())
"""
    expected = """
['iluvatar', 'rdna', 'polaris'] iluvatar:0
cpu
cpu Place(cpu)
rdna:1
rdna:1 Place(rdna:1)
cpu
rdna:1
"""
    result = run(program, tmp_path)
    assert (result.returncode, result.stdout) == (0, expected.lstrip()), result.stderr


# Who allocates before Paddle does: unihal, much of 4 GiB or the least of 8, or another type on the same hardware.
ALLOCATED_BEFORE = {
    "much": "held = unihal.Buffer((1 << 28,), 'float32', 'iluvatar:0')",
    "little": "held = unihal.Buffer((4,), 'float32', 'iluvatar:0')",
    "another type": "paddle.set_device('rdna'); held = paddle.ones([1 << 20])",
}


@pytest.mark.parametrize(
    ("before", "profile", "system_allocator", "strategy"),
    [
        pytest.param("much", "rx580-4gb", "1", "naive_best_fit", marks=pytest.mark.whole),
        pytest.param("much", "rx580-4gb", None, "naive_best_fit", marks=pytest.mark.whole),
        pytest.param("little", None, "1", "auto_growth", marks=pytest.mark.whole),
        pytest.param("another type", None, "1", None, marks=pytest.mark.whole),
        ("another type", "rx580-4gb", None, "naive_best_fit"),
    ],
)
def test_the_best_fit_pool_grows_beside_what_is_allocated(
    before: str, profile: str | None, system_allocator: str | None, strategy: str | None, tmp_path: Path
) -> None:
    """Its first chunk is a part of the memory: a whole one would not be there any more."""
    program = f"""
import paddle, unihal
{ALLOCATED_BEFORE[before]}
paddle.set_device("iluvatar")
print((paddle.ones([3]) + 1).sum().item())
stats = unihal.device("iluvatar:0").memory_stats()
print(0 < stats.allocated_bytes < stats.total_bytes // 2)
"""
    flags = {"FLAGS_use_system_allocator": system_allocator, "FLAGS_allocator_strategy": strategy}
    result = run(program, tmp_path, UNIHAL_STUB_PROFILE=profile, UNIHAL_STRICT=None, **flags)
    assert (result.returncode, result.stdout) == (0, "6.0\nTrue\n"), result.stderr


def test_a_device_without_hardware_tells_what_was_looked_for(tmp_path: Path) -> None:
    program = """
import paddle
print(paddle.device.get_all_custom_device_type())
for make in (lambda: paddle.set_device("polaris"), lambda: paddle.CustomPlace("rdna", 0)):
    try:
        make()
    except ValueError as error:
        print(error)
"""
    result = run(program, tmp_path, UNIHAL_BACKEND=None)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("[]\n")
    for text in ("No device of type 'polaris'", "No device of type 'rdna'", "opencl", "hip", "UNIHAL_BACKEND=stub"):
        assert text in result.stdout


def test_without_kernels_strict_mode_fails(tmp_path: Path) -> None:
    """The control: if this passed, everything else might have run on the CPU unnoticed."""
    result = run(TRAIN_ONE_STEP, tmp_path, UNIHAL_PADDLE_NO_KERNELS="1")
    assert result.returncode != 0
    assert "UNIHAL_STRICT=1" in result.stderr


@pytest.mark.parametrize(  # in graphs: test_static.py trains around them
    "static", [False, pytest.param(True, marks=pytest.mark.whole)], ids=["dygraph", "to_static"]
)
def test_fallbacks_are_counted_and_forbidden_in_strict_mode(tmp_path: Path, static: bool) -> None:
    (tmp_path / "program.py").write_text(f"""
import numpy
import paddle
paddle.set_device("rdna")
def function(x):
    return paddle._C_ops.add_position_encoding(x.reshape([1, 2, 2]), 1.0, 0.0).reshape([2, 2]) * 2
if {static}:
    function = paddle.jit.to_static(function, full_graph=True)
result = function(paddle.to_tensor([[4.0, 0.0], [0.0, 9.0]])).numpy()
assert numpy.array_equal(result.diagonal(), [8, 18]), result
""")
    program = "import runpy; runpy.run_path('program.py')"
    log = tmp_path / "fallbacks"
    result = run(program, tmp_path, UNIHAL_STRICT="0", UNIHAL_FALLBACK_LOG=str(log))
    assert result.returncode == 0, result.stderr
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert {"framework": "paddle", "op": "add_position_encoding", "dtype": "float32"}.items() <= entries[0].items()
    assert entries[0]["reason"] == "no kernel is registered"

    result = run(program, tmp_path, UNIHAL_STRICT="1")
    assert result.returncode != 0
    assert "add_position_encoding" in result.stderr and "UNIHAL_STRICT=1" in result.stderr


@pytest.mark.parametrize(
    "device_type", ["rdna", *(pytest.param(name, marks=pytest.mark.whole) for name in ("iluvatar", "polaris"))]
)
def test_graphs_run_on_every_device_type(tmp_path: Path, device_type: str) -> None:
    (tmp_path / "program.py").write_text(f"""
import paddle
paddle.set_device("{device_type}")
def twice(x):
    return x + x
result = paddle.jit.to_static(twice, full_graph=True)(paddle.to_tensor([1.5]))
print(result.place, result.numpy().item())
""")
    result = run("import runpy; runpy.run_path('program.py')", tmp_path)
    assert (result.returncode, result.stdout) == (0, f"Place({device_type}:0) 3.0\n"), result.stderr


def test_out_of_memory_is_an_exception_and_the_process_goes_on(tmp_path: Path) -> None:
    program = """
import paddle
paddle.set_device("iluvatar")
try:
    paddle.zeros([64, 1024, 1024])
    print("no error")
except Exception as error:
    print("error", "memory" in str(error).lower())
print(float(paddle.ones([4]).sum()))
"""
    result = run(program, tmp_path, UNIHAL_STUB_MEMORY="64M")
    assert (result.returncode, result.stdout) == (0, "error True\n4.0\n"), result.stderr


def test_a_bad_environment_variable_is_named(tmp_path: Path) -> None:
    program = """
import paddle
try:
    paddle.set_device("iluvatar")
except ValueError as error:
    print(error)
"""
    result = run(program, tmp_path, UNIHAL_STUB_DEVICES="many")
    assert result.returncode == 0, result.stderr
    assert "UNIHAL_STUB_DEVICES" in result.stdout and "many" in result.stdout


def test_the_adapter_missing_does_not_break_the_import(tmp_path: Path) -> None:
    installed = Path(os.environ.get("CUSTOM_DEVICE_ROOT") or sysconfig.get_path("platlib") + "/paddle_custom_device")
    plugins = tmp_path / "paddle_custom_device"
    plugins.mkdir()
    (plugins / "libunihal_rdna.so").write_bytes((installed / "libunihal_rdna.so").read_bytes())
    result = run("import paddle; print('imported')", tmp_path, CUSTOM_DEVICE_ROOT=str(plugins))
    assert (result.returncode, result.stdout) == (0, "imported\n")
    assert "unihal: device type rdna is not available in Paddle" in result.stderr


def test_data_loader_workers_beside_training(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("""
import numpy
import paddle
from paddle import nn

class Numbers(paddle.io.Dataset):
    def __getitem__(self, i):
        return numpy.full([4], i, "float32"), numpy.array([i % 2], "int64")
    def __len__(self):
        return 32

if __name__ == "__main__":
    paddle.set_device("iluvatar")
    network = nn.Linear(4, 2)
    optimizer = paddle.optimizer.SGD(0.01, parameters=network.parameters())
    seen = 0
    for _ in range(2):
        for x, y in paddle.io.DataLoader(Numbers(), batch_size=8, num_workers=2):
            loss = nn.functional.cross_entropy(network(x), y)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            seen += x.shape[0]
    print(seen)
""")
    result = run("import runpy; runpy.run_path('program.py', run_name='__main__')", tmp_path)
    assert (result.returncode, result.stdout) == (0, "64\n"), result.stderr


def test_an_unknown_device_interface_is_refused(tmp_path: Path) -> None:
    """Paddle changes this struct without changing its version, so another size must not be written to."""
    program = """
import ctypes
import paddle
library = next(line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if "libunihal_paddle.so" in line)
interface = (ctypes.c_size_t * 200)(1000)
parameters = (ctypes.c_size_t * 16)(96, ctypes.addressof(interface))
ctypes.CDLL(library).uhal_paddle_initialize(parameters, b"rdna")
assert list(interface) == [1000] + [0] * 199 and list(parameters)[2:] == [0] * 14
"""
    result = run(program, tmp_path)
    assert result.returncode == 0, result.stderr
    assert "1000 bytes" in result.stderr and "supported versions: 3.0, 3.1, 3.2, 3.3" in result.stderr


def test_coverage_is_json_without_paddle(tmp_path: Path) -> None:
    installed = Path(os.environ.get("CUSTOM_DEVICE_ROOT") or sysconfig.get_path("platlib") + "/paddle_custom_device")
    program = f"""
import ctypes
library = ctypes.CDLL({str(installed.parent / "unihal" / "lib" / "libunihal_paddle.so")!r})
library.uhal_paddle_coverage.restype = ctypes.c_char_p
print(library.uhal_paddle_coverage().decode())
"""
    result = run(program, tmp_path)
    rows = json.loads(result.stdout)
    add = next(row for row in rows if row["kernel"] == "add")
    assert add["signature"] == "tensor,tensor;;tensor" and "bfloat16" in add["dtypes"] and add["skipped"] == ""


def test_each_tensor_is_an_allocation_under_the_memory_check(tmp_path: Path) -> None:
    program = """
import paddle, unihal
paddle.set_device("rdna")

def sizes():
    return [live.bytes for live in unihal.live_allocations("rdna:0")]

def build():
    return paddle.ones([66, 64])

x = build()
assert sizes() == [66 * 64 * 4], sizes()
(live,) = unihal.live_allocations("rdna:0")
assert " in build < <string>" in live.site, live.site
for _ in range(5):
    y = paddle.matmul(x, x, transpose_x=True).sum()
assert float(y) == 64 * 64 * 66
del x, y
assert sizes() == []
"""
    result = run(program, tmp_path, UNIHAL_CHECK_MEMORY="1", FLAGS_free_idle_chunk="1")
    assert (result.returncode, result.stderr) == (0, "")
