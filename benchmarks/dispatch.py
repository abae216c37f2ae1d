"""Eager dispatch: a 16-element add on a unihal device against the framework's own CPU op.

python benchmarks/dispatch.py paddle|tensorflow
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import measure


def paddle_calls() -> dict[str, Callable[[], Any]]:
    import paddle

    calls = {}
    for name, place in (("cpu", "cpu"), ("device", "iluvatar")):
        paddle.set_device(place)
        a, b = paddle.ones([16]), paddle.ones([16])
        calls[name] = lambda a=a, b=b: paddle.add(a, b)
    return calls


def tensorflow_calls() -> dict[str, Callable[[], Any]]:
    import tensorflow as tf

    calls = {}
    for name, place in (("cpu", "/device:CPU:0"), ("device", "/device:RDNA:0")):
        with tf.device(place):
            a, b = tf.ones([16]), tf.ones([16])

        # Both sides enter a device scope for each call, and both pay for it.
        def call(a: Any = a, b: Any = b, place: str = place) -> Any:
            with tf.device(place):
                return tf.raw_ops.AddV2(x=a, y=b)

        calls[name] = call
    assert "RDNA" in calls["device"]().device, "the op did not run on the device"
    return calls


def main() -> None:
    framework = sys.argv[1]
    calls = paddle_calls() if framework == "paddle" else tensorflow_calls()
    times = measure.alternate(calls)
    measure.report(
        [
            {
                "benchmark": f"{framework}: eager add of 16 float32",
                "unit": "us",
                "device": times["device"] * 1e6,
                "peer": times["cpu"] * 1e6,
                "peer_name": f"{framework} CPU",
                "ratio": times["device"] / times["cpu"],
                "target": 1.5,
            }
        ]
    )


if __name__ == "__main__":
    main()
