"""What differs between the versions of TensorFlow that one installation serves."""

from __future__ import annotations

import os

import pytest
import tensorflow as tf
from compare import DEVICE
from test_process import run
from unihal import tensorflow_versions


def test_the_version_that_was_asked_for_is_served() -> None:
    """`make test-tensorflow-versions` names another one by its folder."""
    minor = tensorflow_versions.minor_version(tf.__version__)
    folders = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if "/tensorflow-" in path]
    assert all(f"/tensorflow-{tf.__version__}/" in folder for folder in folders)
    assert minor in tensorflow_versions.built_versions() and tensorflow_versions.misfit(tf.__version__) == ""
    with tf.device(DEVICE):
        assert "RDNA" in (tf.ones(3) + 1).device


def test_all_kernels_are_registered_but_those_of_ops_that_came_later() -> None:
    output = run("print(len(tf.config.list_physical_devices('RDNA')))")
    assert "unihal: no kernel for" not in output, output


def test_types_are_told_apart() -> None:
    """Which TensorFlow 2.18 does not do by itself."""
    run(
        """
        devices = {name: tf.config.list_physical_devices(name) for name in ("CPU", "ILUVATAR", "POLARIS", "RDNA")}
        tf.config.set_visible_devices([*devices["CPU"], *devices["POLARIS"], devices["RDNA"][1], devices["RDNA"][0]])
        found = [device.name for device in tf.config.list_logical_devices()]
        types = ("POLARIS", "RDNA")
        assert found == ["/device:CPU:0", *(f"/device:{name}:{i}" for name in types for i in range(2))], found
        """,
        UNIHAL_STUB_DEVICES="2",
    )


def test_a_choice_that_a_version_cannot_express_is_refused() -> None:
    output = run(
        """
        devices = {name: tf.config.list_physical_devices(name) for name in ("CPU", "POLARIS", "RDNA")}
        tf.config.set_visible_devices([*devices["CPU"], devices["POLARIS"][0], devices["RDNA"][1]])
        try:
            print([device.name for device in tf.config.list_logical_devices()])
        except ValueError as error:
            print(error)
        """,
        UNIHAL_STUB_DEVICES="2",
    )
    if tf.__version__.startswith("2.18."):
        assert "one list of visible devices for all types of plugins" in output
    else:
        assert "['/device:CPU:0', '/device:POLARIS:0', '/device:RDNA:0']" in output


@pytest.mark.parametrize("name", ["RDNA", pytest.param("POLARIS", marks=pytest.mark.whole)])
def test_the_second_device_of_one_type(name: str) -> None:
    run(
        f"""
        import unihal
        devices = tf.config.list_physical_devices("{name}")
        tf.config.set_visible_devices([*tf.config.list_physical_devices("CPU"), devices[1]])
        assert len(tf.config.list_logical_devices()) == 2
        x = tf.zeros([1 << 20])
        assert "{name}:0" in x.device and x.numpy().sum() == 0
        stats = [unihal.Device("{name.lower()}", i).memory_stats() for i in range(2)]
        assert stats[0].allocated_bytes == 0 < stats[1].allocated_bytes
        """,
        UNIHAL_STUB_DEVICES="2",
    )
