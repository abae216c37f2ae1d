"""Eager dispatch: seconds of an add of 16 elements in some places, measured in turn; ``run.py`` makes ratios of them.

python benchmarks/dispatch.py paddle|tensorflow|torch PLACE...     a place is cpu or a type of device
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import measure


def paddle_call(place: str) -> Callable[[], Any]:
    import paddle

    paddle.set_device(place)
    return partial(paddle.add, paddle.ones([16]), paddle.ones([16]))


def tensorflow_call(place: str) -> Callable[[], Any]:
    import tensorflow as tf

    device = f"/device:{place.upper()}:0"
    with tf.device(device):
        a, b = tf.ones([16]), tf.ones([16])

    # All places enter a device scope for each call, and pay for it.
    def call() -> Any:
        with tf.device(device):
            return tf.raw_ops.AddV2(x=a, y=b)

    assert place.upper() in call().device, f"the op did not run on {place}"
    return call


def torch_call(place: str) -> Callable[[], Any]:
    import torch

    return partial(torch.add, torch.ones(16, device=place), torch.ones(16, device=place))


CALLS = {"paddle": paddle_call, "tensorflow": tensorflow_call, "torch": torch_call}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=list(CALLS))
    parser.add_argument("places", nargs="+")
    arguments = parser.parse_args()
    calls = {place: CALLS[arguments.framework](place) for place in arguments.places}
    measure.report([{"seconds": measure.alternate(calls)}])


if __name__ == "__main__":
    main()
