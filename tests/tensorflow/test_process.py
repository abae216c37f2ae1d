"""What needs a process of its own: device counts, memory, fallbacks, strict mode, errors at load, exit codes."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import textwrap
from pathlib import Path

import forks
import pytest
from processes import run_python, without_places

HERE = Path(__file__).resolve().parent
PRELUDE = "import tensorflow as tf\nimport numpy as np\n"


def run(code: str, status: int = 0, **environment: str) -> str:
    """Runs code after the usual imports, in a fork; returns its standard output and error."""
    variables = {**os.environ, "UNIHAL_STRICT": "0", **environment}
    result = forks.run(["-c", PRELUDE + textwrap.dedent(code)], variables)
    assert result.returncode == status, result.stdout + result.stderr
    return result.stdout + result.stderr


def run_with_import(code: str, **environment: str | None) -> str:
    """The same in a process that imports TensorFlow with its plugins. A variable set to None is removed."""
    result = run_python(PRELUDE + textwrap.dedent(code), timeout=180, **{"UNIHAL_STRICT": "0", **environment})
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def test_all_device_types_in_one_process() -> None:
    output = run_with_import(
        """
        for name in ("ILUVATAR", "POLARIS", "RDNA"):
            assert len(tf.config.list_physical_devices(name)) == 1, name
            with tf.device(f"/device:{name}:0"):
                total = tf.reduce_sum(tf.ones([3, 4]) * 2)
            assert name in total.device and total.numpy() == 24
        with tf.device("/device:RDNA:0"):
            x = tf.constant([1.0, 2.0])
        with tf.device("/device:POLARIS:0"):
            y = tf.identity(x) + 1
        print("sum", y.numpy().tolist())
        """
    )
    assert "sum [2.0, 3.0]" in output


def test_two_devices_of_a_type() -> None:
    run(
        """
        assert len(tf.config.list_physical_devices("RDNA")) == 2
        with tf.device("/device:RDNA:0"):
            x = tf.random.stateless_uniform([1000], [1, 2])
        with tf.device("/device:RDNA:1"):
            y = tf.identity(x)
            z = y * 2
        assert "RDNA:1" in y.device and "RDNA:1" in z.device
        np.testing.assert_array_equal(z.numpy(), x.numpy() * 2)

        strategy = tf.distribute.MirroredStrategy(["RDNA:0", "RDNA:1"])
        with strategy.scope():
            variable = tf.Variable(1.0, aggregation=tf.VariableAggregation.SUM)
        def step():
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            variable.assign_add(tf.cast(replica + 1, tf.float32))
        strategy.run(step)
        assert variable.numpy() == 4.0
        """,
        UNIHAL_STUB_DEVICES="2",
    )


@pytest.mark.skipif(
    importlib.metadata.version("tensorflow-cpu").startswith("2.18."),
    reason="TensorFlow 2.18 has one list for all types: test_versions.py",
)
def test_set_visible_devices() -> None:
    run(
        """
        devices = tf.config.list_physical_devices("RDNA")
        tf.config.set_visible_devices(devices[1], "RDNA")
        assert len(tf.config.list_logical_devices("RDNA")) == 1
        with tf.device("/device:RDNA:0"):
            assert tf.reduce_sum(tf.ones(5)).numpy() == 5
        """,
        UNIHAL_STUB_DEVICES="2",
    )


def test_memory_statistics() -> None:
    run(
        """
        for name in ("ILUVATAR", "POLARIS", "RDNA"):  # TensorFlow wants one setting for all plugin devices
            for device in tf.config.list_physical_devices(name):
                tf.config.experimental.set_memory_growth(device, True)
        info = lambda: tf.config.experimental.get_memory_info("RDNA:0")
        with tf.device("/device:RDNA:0"):
            before = info()["current"]
            x = tf.zeros([1 << 20])
            x.numpy()
            held = info()["current"] - before
            assert 4 << 20 <= held < 5 << 20, held
            assert info()["peak"] >= 4 << 20
            del x
            tf.config.experimental.reset_memory_stats("RDNA:0")
            assert info()["current"] - before < 1 << 16 and info()["peak"] < 1 << 20, info()
        """
    )


@pytest.mark.whole
def test_out_of_memory_is_an_exception_and_the_process_goes_on() -> None:
    run(
        """
        with tf.device("/device:RDNA:0"):
            try:
                tf.zeros([64 << 20]).numpy()  # TensorFlow's allocator tries again for ten seconds
                raise SystemExit("not refused")
            except tf.errors.ResourceExhaustedError as error:
                assert "RDNA:0" in str(error), error
            assert tf.reduce_sum(tf.ones([1000])).numpy() == 1000
        """,
        UNIHAL_STUB_MEMORY="64M",
    )


def test_an_import_without_hardware_is_silent() -> None:
    output = run_with_import(
        """
        assert tf.config.list_physical_devices("RDNA") == []
        assert tf.reduce_sum(tf.ones(3)).numpy() == 3
        try:
            with tf.device("/device:RDNA:0"):
                tf.config.set_soft_device_placement(False)
                tf.zeros(1)
            raise SystemExit("a device where there is none")
        except tf.errors.InvalidArgumentError:
            pass
        """,
        UNIHAL_BACKEND=None,
    )
    assert "unihal" not in without_places(output)


@pytest.mark.whole  # test_errors.py in tests/python has it without an import of TensorFlow
def test_a_nonsense_backend_is_named() -> None:
    output = run_with_import("assert tf.config.list_physical_devices('RDNA') == []", UNIHAL_BACKEND="tpu9")
    assert "device type RDNA is off in TensorFlow" in output
    assert "tpu9" in output


def plugin_folder() -> Path:
    folder = os.environ.get("TF_PLUGGABLE_DEVICE_LIBRARY_PATH")
    if folder is None:
        pytest.skip("needs the plugin of a build tree")
    return Path(folder)


def test_the_plugin_loaded_twice(tmp_path: Path) -> None:
    """A second copy in another folder registers no devices and no kernels, and ends nothing."""
    shutil.copytree(plugin_folder().parent, tmp_path / "site")
    run_with_import(
        f"""
        from tensorflow.python.framework import load_library
        load_library.load_pluggable_device_library({str(tmp_path / "site" / "tensorflow-plugins")!r})
        assert len(tf.config.list_physical_devices("RDNA")) == 1
        with tf.device("/device:RDNA:0"):
            assert (tf.ones(3) + 1).numpy().sum() == 6
        """
    )


def test_a_loader_without_its_adapter(tmp_path: Path) -> None:
    folder = tmp_path / "tensorflow-plugins"
    folder.mkdir()
    shutil.copy(plugin_folder() / "libunihal_rdna.so", folder)
    output = run_with_import("print(tf.config.list_physical_devices())", TF_PLUGGABLE_DEVICE_LIBRARY_PATH=str(folder))
    assert "device type RDNA is off, its adapter could not be opened" in output
    assert "reinstall unihal" in output


def test_a_tensorflow_without_a_shim(tmp_path: Path) -> None:
    """Another version of TensorFlow than the shims were built for: no devices, and a message with the versions."""
    site = tmp_path / "site"
    shutil.copytree(plugin_folder().parent, site, symlinks=True)
    for number, shim in enumerate((site / "unihal" / "lib").glob("libunihal_tensorflow_shim_*.so")):
        shim.rename(shim.with_name(f"libunihal_tensorflow_shim_9.{number}.so"))
    output = run_with_import(
        "assert tf.config.list_physical_devices('RDNA') == []",
        TF_PLUGGABLE_DEVICE_LIBRARY_PATH=str(site / "tensorflow-plugins"),
    )
    assert "built for TensorFlow 9.0" in output and "device type RDNA is off in TensorFlow" in output


CONTROL = """
tf.config.set_soft_device_placement({soft})
with tf.device("/device:RDNA:0"):
    x = tf.ones([4, 4])
    print("ran on", tf.matmul(x, x).device)
"""


@pytest.mark.whole
def test_the_control_without_kernels_fails() -> None:
    """What passes with kernels must not pass without: else it would have run on the CPU."""
    assert "RDNA" in run(CONTROL.format(soft=False))
    output = run(CONTROL.format(soft=False), status=1, UNIHAL_TENSORFLOW_NO_KERNELS="1")
    assert "InvalidArgumentError" in output or "NotFoundError" in output
    output = run(CONTROL.format(soft=True), status=1, UNIHAL_TENSORFLOW_NO_KERNELS="1", UNIHAL_STRICT="1")
    assert "UnimplementedError" in output


FALLBACKS = """
with tf.device("/device:RDNA:0"):
    x = tf.random.stateless_uniform([4, 4], [1, 2]) + tf.constant(4 * np.eye(4, dtype="float32"))
    if {graph}:
        inverse = tf.function(lambda a: tf.linalg.sqrtm(a * 2) + 1)(x)
    else:
        inverse = tf.linalg.sqrtm(x)
        tf.linalg.sqrtm(x)
    tf.strings.length("a string belongs to the host")
    for row in tf.data.Dataset.from_tensor_slices([1.0, 2.0]).batch(2):
        row + 1
print("done", inverse.device)
"""


@pytest.mark.parametrize("graph", [pytest.param(False, marks=pytest.mark.whole), True], ids=["eager", "graph"])
def test_fallbacks_are_logged(graph: bool, tmp_path: Path) -> None:
    log = tmp_path / "fallbacks.jsonl"
    output = run(FALLBACKS.format(graph=graph), UNIHAL_FALLBACK_LOG=str(log))
    assert "done" in output
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert {(e["framework"], e["op"], e["dtype"]) for e in entries} == {("tensorflow", "MatrixSquareRoot", "float32")}
    assert len(entries) == (1 if graph else 2)
    assert entries[0]["reason"] == "no kernel is registered"


@pytest.mark.parametrize("graph", [False, pytest.param(True, marks=pytest.mark.whole)], ids=["eager", "graph"])
def test_a_fallback_is_an_error_in_strict_mode(graph: bool) -> None:
    output = run(FALLBACKS.format(graph=graph), status=1, UNIHAL_STRICT="1")
    assert "MatrixSquareRoot" in output.splitlines()[-1] or "MatrixSquareRoot" in output


def test_what_was_asked_of_the_cpu_is_no_fallback(tmp_path: Path) -> None:
    log = tmp_path / "fallbacks.jsonl"
    run(
        """
        with tf.device("/CPU:0"):
            x = tf.linalg.sqrtm(tf.eye(3)) + tf.ones([3, 3])
        @tf.function
        def mixed(a):
            with tf.device("/CPU:0"):
                b = tf.exp(a)
            with tf.device("/device:RDNA:0"):
                return b + 1
        mixed(x)
        """,
        UNIHAL_FALLBACK_LOG=str(log),
    )
    assert not log.exists() or log.read_text() == ""


def test_grouped_convolution_and_jit_compile() -> None:
    """Keras asks for XLA by itself in both, which plugin devices have none of."""
    run(
        """
        import keras
        with tf.device("/device:RDNA:0"):
            model = keras.Sequential([keras.layers.Input((8, 8, 4)), keras.layers.Conv2D(8, 3, groups=2),
                                      keras.layers.Flatten(), keras.layers.Dense(1)])
            model.compile(keras.optimizers.SGD(1e-3), "mse")
            history = model.fit(np.ones((8, 8, 8, 4), "float32"), np.zeros(8), epochs=3, verbose=0)
        losses = history.history["loss"]
        assert np.isfinite(losses).all() and losses[-1] < losses[0], losses
        """,
        UNIHAL_STRICT="1",
    )


def test_coverage() -> None:
    output = run(
        """
        import ctypes
        coverage = ctypes.CDLL("libunihal_tensorflow.so").uhal_tensorflow_coverage
        coverage.restype = ctypes.c_char_p
        print("COVERAGE", coverage().decode().replace(chr(10), " "))
        """
    )
    line = next(line for line in output.splitlines() if line.startswith("COVERAGE "))
    table = {entry["op"]: entry["dtypes"] for entry in json.loads(line.removeprefix("COVERAGE "))}
    assert len(table) > 200
    assert {"float16", "bfloat16", "float32", "float64"} <= set(table["MatMul"])
    assert table["LogicalAnd"] == []


def test_only_the_c_interface_is_used() -> None:
    """A plugin that links C++ internals dies with the next release; only the shim may."""
    library = plugin_folder().parent / "unihal" / "lib" / "libunihal_tensorflow.so"
    symbols = subprocess.run(
        ["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True
    ).stdout
    names = [line.split()[-1] for line in symbols.splitlines()]
    assert "TF_NewKernelBuilder" in names
    assert not [
        name for name in names if name.startswith("_Z") and ("tensorflow" in name or "tsl" in name or "absl" in name)
    ]


def test_each_tensor_is_an_allocation_under_the_memory_check() -> None:
    output = run(
        """
        import unihal

        def sizes():
            return [live.bytes for live in unihal.live_allocations("rdna:0") if live.kind == "device"]

        def build():
            return tf.random.stateless_uniform([33, 5], [1, 2])

        @tf.function
        def step(x):
            return tf.reduce_sum(tf.nn.relu(tf.matmul(x, x, transpose_a=True)))

        with tf.device("/device:RDNA:0"):
            x = build()
            assert sizes().count(33 * 5 * 4) == 1, sizes()
            (site,) = {live.site for live in unihal.live_allocations("rdna:0") if live.bytes == 660}
            for _ in range(20):
                step(x).numpy()
            del x
            assert 33 * 5 * 4 not in sizes() and 5 * 5 * 4 not in sizes(), sizes()
        print("built at", site)
        print("kept", sum(sizes()))
        """,
        UNIHAL_CHECK_MEMORY="1",
    )
    site = output.split("built at ")[1].splitlines()[0]
    assert " < ... < <string>:" in site and " in build < <string>:" in site  # the innermost line is TensorFlow's
    kept = int(output.split("kept ")[1].split()[0])
    assert kept < 1000  # scalars that eager mode keeps


@pytest.mark.parametrize("stub", ["fast", pytest.param("strict", marks=pytest.mark.whole)])
def test_constants_of_a_graph_wait_for_the_memory_that_they_take(stub: str) -> None:
    """TensorFlow lets other copies to the device wait for the kernels that still use the memory, but not these."""
    output = run(
        """
        import unihal

        with tf.device("/device:RDNA:0"):
            x = tf.random.stateless_uniform([4, 4], [1, 2]) + tf.constant(4 * np.eye(4, dtype="float32"))
            y = tf.function(lambda a: a * 2 + 1)(x)
        races = unihal.races()
        assert not races, races[0]
        np.testing.assert_array_equal(y, x.numpy() * 2 + 1)
        print("checks in force:", unihal.device("rdna:0").properties.checks & 1)
        """,
        UNIHAL_STUB=stub,
        UNIHAL_CHECK_RACES="1",
    )
    assert "checks in force: 1" in output
