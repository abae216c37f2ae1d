"""tf.profiler.experimental: the device's plane in a profile, as TensorBoard's trace viewer reads it."""

from pathlib import Path

import tensorflow as tf
import unihal as uhal
from compare import DEVICE
from tensorflow.tsl.profiler.protobuf import xplane_pb2


def profile(folder: Path) -> list[xplane_pb2.XPlane]:
    """The planes of our devices in a profile of one step."""

    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(tf.matmul(x, x))

    with tf.device(DEVICE):
        x = tf.ones([32, 16]) @ tf.ones([16, 32])
        step(x)
        tf.profiler.experimental.start(str(folder))
        step(x).numpy()
        tf.profiler.experimental.stop()
    (file,) = folder.glob("**/*.xplane.pb")
    space = xplane_pb2.XSpace.FromString(file.read_bytes())
    return [plane for plane in space.planes if plane.name.startswith("/device:CUSTOM:")]


def test_profile(tmp_path: Path) -> None:
    for run in ("first", "second"):  # a profile has nothing of the one before
        (plane,) = profile(tmp_path / run)
        assert plane.name == f"/device:CUSTOM:{DEVICE.split(':', 1)[1]}"
        events = [event for line in plane.lines for event in line.events]
        found = {}
        for event in events:
            stats = {plane.stat_metadata[s.metadata_id].name: s for s in event.stats}
            found[plane.event_metadata[event.metadata_id].name] = (event, stats)
        event, stats = found["MatMul"]
        assert event.duration_ps > 0
        assert stats["flops"].uint64_value == 2 * 32**3
        assert stats["bytes_accessed"].uint64_value == 3 * 4 * 32**2
        assert stats["op"].str_value == "matmul"
        assert found["Relu"][1]["op"].str_value == "map.relu"
        assert found["Relu"][0].offset_ps >= event.offset_ps + event.duration_ps
        assert sum(plane.event_metadata[e.metadata_id].name == "MatMul" for e in events) == 1


def test_a_recording_of_the_program_goes_on(tmp_path: Path) -> None:
    with uhal.profile() as recording:
        assert profile(tmp_path) == []
    assert "matmul" in {event.op for event in recording.events}
