"""The package tf_rdna, each test in a process of its own: TensorFlow fixes its devices once."""

from __future__ import annotations

import pytest
from test_process import run


def test_visible_devices_memory_and_limits() -> None:
    run(
        """
        import unihal, tf_rdna
        from tf_rdna import config
        assert tf_rdna.is_available() and tf_rdna.device_count() == 2 and tf_rdna.why_unavailable() == ""
        found = config.list_devices()
        assert [device.number for device in found] == [0, 1] and found[1].name == "/physical_device:RDNA:1"
        assert all(device.visible and device.memory_bytes > 0 and device.backend == "stub" for device in found)
        for wrong in (["0"], [2], [True]):
            try:
                config.set_visible_devices(wrong)
                raise SystemExit(f"{wrong} was not refused")
            except ValueError as error:
                assert "TensorFlow sees 2" in str(error)
        try:
            config.set_visible_devices([])  # which TensorFlow would ignore
            raise SystemExit("not refused")
        except ValueError as error:
            assert "empty list" in str(error)
        config.set_memory_growth(True)
        config.set_visible_devices([1])
        assert config.get_visible_devices() == [1] and config.get_memory_growth(1)
        assert [device.visible for device in config.list_devices()] == [False, True]
        with tf_rdna.device(0):
            x = tf.zeros([1 << 20])
            x.numpy()
        assert "RDNA:0" in x.device
        info = config.get_memory_info()
        assert 4 << 20 <= info.current < 5 << 20 and info.peak >= info.current and info.reserved >= info.current
        assert info.total == unihal.Device("rdna", 1).properties.total_memory and info.limit == 0
        assert unihal.Device("rdna", 1).memory_stats().allocated_bytes > 0  # the second card serves
        assert unihal.Device("rdna", 0).memory_stats().allocated_bytes == 0
        del x
        config.reset_memory_stats()
        assert config.get_memory_info().peak < 1 << 20
        # Nothing else is visible: without a scope ops come here too.
        assert "RDNA:0" in tf.reduce_sum(tf.ones(5)).device
        config.set_memory_limit(64 << 20, 1)
        assert config.get_memory_limit(1) == 64 << 20 and config.get_memory_limit(0) == 0
        for call in (lambda: config.set_visible_devices([0]), lambda: config.set_memory_growth(False)):
            try:
                call()
                raise SystemExit("too late, and not refused")
            except RuntimeError as error:
                assert "initialized" in str(error), error
        for call in (lambda: config.get_memory_info(1), lambda: config.set_memory_limit(-1)):
            try:
                call()
                raise SystemExit("not refused")
            except ValueError:
                pass
        """,
        UNIHAL_STUB_DEVICES="2",
    )


@pytest.mark.whole
def test_a_limit_is_an_exhausted_resource() -> None:
    run(
        """
        import tf_rdna
        tf_rdna.config.set_memory_growth(True)
        tf_rdna.config.set_visible_devices([0])
        tf_rdna.config.set_memory_limit(32 << 20)
        with tf_rdna.device(0):
            try:
                tf.zeros([64 << 20]).numpy()
                raise SystemExit("not refused")
            except tf.errors.ResourceExhaustedError:
                pass
            assert tf.reduce_sum(tf.ones(5)).numpy() == 5
        """
    )


@pytest.mark.whole
def test_without_hardware_it_says_why() -> None:
    run(
        """
        import tf_rdna
        assert not tf_rdna.is_available()
        assert "hip" in tf_rdna.why_unavailable()
        assert tf_rdna.config.list_devices() == []
        """,
        UNIHAL_BACKEND="",
    )
