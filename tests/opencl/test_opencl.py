"""The opencl backend as users meet it, on whatever OpenCL with_opencl.sh finds; `make test-opencl` runs it on PoCL.

The C++ suites beside this file test the driver. The whole of conformance is a command, and takes minutes where kernels
are not in the cache yet:

    tests/opencl/with_opencl.sh .venv/bin/unihal conformance --backend opencl
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import unihal
from processes import Completed, run_command, run_python
from unihal import Buffer, _core, ops

UNIHAL = [sys.executable, "-m", "unihal.command_line"]

#: Of each op and function, every so many-th case of conformance: the first of most, whose time is compilation.
SAMPLE = 400

PROCESSES = 2

pytestmark = pytest.mark.usefixtures("device")


def test_it_serves_polaris_and_rdna() -> None:
    properties = unihal.device("polaris:0").properties
    assert (properties.backend, properties.is_stub) == ("opencl", False)
    assert unihal.device("rdna:0").properties.name == properties.name
    assert unihal.devices("iluvatar") == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "op",
    [
        *("batch_norm/relu", "convolution/plain-relu", "cross_entropy/float32", "cross_entropy/wrong-labels"),
        *("map/adam", "map/gelu_erf", "matmul/float32", "matmul/bfloat16", "matmul/complex64"),
        *("matmul/int8-int8-int32-int32", "pool"),
        *(pytest.param(op, marks=pytest.mark.whole) for op in ("batch_norm/inference", "convolution/wide", "random")),
    ],
)
def test_a_sample_of_an_op_conforms(op: str) -> None:
    """Of what has a program for each activation, window and dtype, some: test_a_sample_of_conformance has more."""
    process = run_command(
        [*UNIHAL, "conformance", "--backend", "opencl", "--op", op, "--every", str(SAMPLE)], timeout=280
    )
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.whole
@pytest.mark.timeout(900)
def test_a_sample_of_conformance(not_optimized: dict[str, str]) -> None:
    """The samples of some ops above, and all cases in `make test-conformance-opencl`, are optimized."""
    program = Path(__file__).with_name("conformance_sample.py")

    def run(part: int) -> Completed:
        command = [sys.executable, str(program), str(SAMPLE), str(part), str(PROCESSES)]
        return run_command(command, timeout=880, UNIHAL_STRICT="1", **not_optimized)

    with ThreadPoolExecutor(PROCESSES) as pool:
        processes = list(pool.map(run, range(PROCESSES)))
    outcomes = [json.loads(line) for process in processes for line in process.stdout.splitlines()]
    assert [process.returncode for process in processes] == [0] * PROCESSES, [p.stderr for p in processes] + outcomes[
        -1:
    ]
    failed = [f"{outcome['name']}: {outcome['message']}" for outcome in outcomes if outcome["status"] == "failed"]
    assert not failed, "\n".join(failed)
    assert {outcome["op"].partition("/")[0] for outcome in outcomes} >= set(_core.op_kinds())


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "op", ["copy", "reduce/sum", *(pytest.param(op, marks=pytest.mark.long) for op in ("reduce", "gather", "softmax"))]
)
def test_kernels_compute_with_64_bit_indices(op: str) -> None:
    command = [*UNIHAL, "conformance", "--backend", "opencl", "--op", op, "--every", str(SAMPLE)]
    process = run_command(command, timeout=280, UNIHAL_OPENCL_INDEX="64")
    assert process.returncode == 0, process.stdout + process.stderr


def test_another_width_of_indices_is_an_error() -> None:
    code = "import unihal; unihal.device('polaris:0')"
    process = run_python(code, UNIHAL_BACKEND="opencl", UNIHAL_OPENCL_INDEX="32")
    assert process.returncode == 1
    assert "UNIHAL_OPENCL_INDEX is '32'; expected 64" in process.stderr


def test_a_scatter_gives_the_same_bits_each_time(device: unihal.Device) -> None:
    generator = np.random.default_rng(0)
    # Few places and many updates, which any parallel sum of floats would add in another order each time.
    indices = generator.integers(0, 7, 20000).astype(np.int32)
    updates = generator.normal(size=(20000, 3)).astype(np.float32)
    wanted = np.zeros((7, 3), np.float32)
    for index, update in zip(indices, updates):  # in order, rounded at each step
        wanted[index] += update
    for _ in range(3):
        y = Buffer.from_numpy(np.zeros((7, 3), np.float32), device)
        ops.scatter(y, Buffer.from_numpy(indices, device), Buffer.from_numpy(updates, device), combine="sum")
        np.testing.assert_array_equal(y.numpy(), wanted)


def test_an_index_outside_its_axis_is_an_error_of_the_stream(device: unihal.Device) -> None:
    table = Buffer.from_numpy(np.arange(12, dtype=np.float32).reshape(4, 3), device)
    rows = ops.gather(table, Buffer.from_numpy(np.array([1, 9], np.int64), device))
    with pytest.raises(unihal.Error, match="gather: index 9 is outside an axis of length 4"):
        device.synchronize()
    device.synchronize()  # the error came out once
    np.testing.assert_array_equal(rows.numpy(), [[3, 4, 5], [0, 0, 0]])


# With TensorFlow the training in `make test-opencl` does so as well.
@pytest.mark.parametrize("framework", ["paddle", pytest.param("tensorflow", marks=pytest.mark.whole)])
@pytest.mark.timeout(300)
def test_a_driver_with_an_llvm_loads_beside_a_framework(framework: str) -> None:
    """The framework comes first, as in users' programs, and TensorFlow shows its own LLVM to all libraries."""
    code = f"""
import {framework}, unihal, numpy
x = unihal.Buffer.from_numpy(numpy.full(4, 2, numpy.float32), unihal.device("polaris:0"))
print("result:", unihal.ops.multiply(x, x).numpy().sum())
"""
    process = run_python(code, timeout=280, UNIHAL_BACKEND="opencl")
    assert process.returncode == 0, process.stderr
    assert "result: 16.0" in process.stdout
