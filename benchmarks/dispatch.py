"""Eager dispatch: seconds of an add of 16 elements in some places, measured in turn; ``run.py`` makes ratios of them.

python benchmarks/dispatch.py paddle|tensorflow|torch PLACE...     a place is cpu or a type of device

In TensorFlow a place is a device scope, which several places enter for each call (some 5 us); a single one, as in the
comparison with other frameworks on a GPU, is entered once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import measure


def paddle_call(place: str, _is_single: bool) -> Callable[[], Any]:
    import paddle

    paddle.set_device(place)
    return partial(paddle.add, paddle.ones([16]), paddle.ones([16]))


def tensorflow_call(place: str, is_single: bool) -> Callable[[], Any]:
    import tensorflow as tf

    device = f"/device:{place.upper()}:0"
    with tf.device(device):
        a, b = tf.ones([16]), tf.ones([16])

    def add() -> Any:
        return tf.raw_ops.AddV2(x=a, y=b)

    def add_in_scope() -> Any:
        with tf.device(device):
            return add()

    if is_single:
        tf.device(device).__enter__()
    call = add if is_single else add_in_scope
    assert place.upper() in call().device, f"the op did not run on {place}"
    return call


def torch_call(place: str, _is_single: bool) -> Callable[[], Any]:
    import torch

    return partial(torch.add, torch.ones(16, device=place), torch.ones(16, device=place))


CALLS = {"paddle": paddle_call, "tensorflow": tensorflow_call, "torch": torch_call}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=list(CALLS))
    parser.add_argument("places", nargs="+")
    arguments = parser.parse_args()
    is_single = len(arguments.places) == 1
    calls = {place: CALLS[arguments.framework](place, is_single) for place in arguments.places}
    measure.report([{"seconds": measure.alternate(calls)}])


if __name__ == "__main__":
    main()
