"""Orders, places, running extrema, segments and sequences by the adapters, against the framework's own CPU.

    python benchmarks/selections.py [--framework paddle] [--device RDNA:0 or rdna:0] [--only median]

Meant for the stub, with as many threads as the framework takes. Times are lower quartiles of batches that alternate
with the CPU's, in milliseconds, with the operands on the device and the work waited for; the ratio is ours over the
CPU's: at most 1 is wanted.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import measure
import numpy as np

Call = Callable[[], Any]
Calls = list[tuple[str, Call]]


def of_paddle(device: str) -> Calls:
    """Calls of Paddle's ops on a device."""
    import paddle
    import paddle.nn.functional as F
    from paddle.vision import ops as vision

    paddle.set_device(device)
    state = np.random.default_rng(1)

    def put(array: Any, gradient: bool = False) -> Any:
        tensor = paddle.to_tensor(np.asarray(array))
        tensor.stop_gradient = not gradient
        return tensor

    rows = put(state.normal(size=(1000, 1000)).astype("float32"))
    repeated = put(state.integers(0, 50, (200, 200)).astype("float32"))
    places = put(state.integers(0, 1000, (1000, 1000)))
    values = put(state.normal(size=(1000, 1000)).astype("float32"))
    table = put(np.sort(state.normal(size=4096)).astype("float32"))
    ids = put(np.sort(state.integers(0, 2000, 20000)))
    edges = [put(state.integers(0, 2000, 20000)) for _ in range(2)]
    nodes = put(state.normal(size=(20000, 64)).astype("float32"))
    graph = put(state.normal(size=(2000, 64)).astype("float32"))
    logits = put(state.normal(size=(200, 16, 40)).astype("float32"), True)
    labels = put(state.integers(1, 40, (16, 30)).astype("int32"))
    lengths = [put(np.full(16, n, "int64")) for n in (200, 30)]
    features = put(state.normal(size=(2, 64, 64, 64)).astype("float32"))
    low = state.uniform(0, 40, (200, 2))
    boxes = put(np.concatenate([low, low + state.uniform(4, 24, (200, 2))], 1).astype("float32"))
    counts = put(np.int32([100, 100]))
    lists = put(state.uniform(0, 1, (1, 2000, 4)).astype("float32"))
    scores = put(state.uniform(0, 1, (1, 8, 2000)).astype("float32"))

    def ctc() -> Any:
        logits.clear_gradient()
        F.ctc_loss(logits, labels, *lengths).backward()
        return logits.grad

    def on(function: Callable[[], Any]) -> Call:
        def call() -> None:
            paddle.set_device(device)
            function()
            if device != "cpu":
                paddle.device.synchronize()

        return call

    calls = {
        "median of rows": lambda: paddle.median(rows, axis=-1),
        "mode of rows of 200": lambda: paddle.mode(repeated, axis=-1),
        "kthvalue of rows": lambda: paddle.kthvalue(rows, 300, axis=-1),
        "searchsorted in 4096": lambda: paddle.searchsorted(table, rows),
        "bucketize in 4096": lambda: paddle.bucketize(rows, table),
        "cummax of rows": lambda: paddle.cummax(rows, axis=-1),
        "cummin of rows": lambda: paddle.cummin(rows, axis=-1),
        "logcumsumexp of rows": lambda: paddle.logcumsumexp(rows, axis=-1),
        "cumprod of rows": lambda: paddle.cumprod(rows, dim=-1),
        "roll of rows": lambda: paddle.roll(rows, 300, axis=-1),
        "flip of rows": lambda: paddle.flip(rows, axis=[-1]),
        "repeat_interleave": lambda: paddle.repeat_interleave(rows, 2, axis=0),
        "take_along_axis": lambda: paddle.take_along_axis(rows, places, 1),
        "put_along_axis": lambda: paddle.put_along_axis(rows, places, values, 1),
        "put_along_axis, sums": lambda: paddle.put_along_axis(rows, places, values, 1, reduce="add"),
        "segment_sum": lambda: paddle.geometric.segment_sum(nodes, ids),
        "segment_mean": lambda: paddle.geometric.segment_mean(nodes, ids),
        "segment_max": lambda: paddle.geometric.segment_max(nodes, ids),
        "send_u_recv, sums": lambda: paddle.geometric.send_u_recv(graph, *edges, reduce_op="sum"),
        "send_ue_recv, sums": lambda: paddle.geometric.send_ue_recv(graph, nodes, *edges, reduce_op="sum"),
        "ctc_loss with its gradient": ctc,
        "roi_pool, 200 of 7x7": lambda: vision.roi_pool(features, boxes, counts, 7),
        "matrix_nms, 8 classes of 2000": lambda: vision.matrix_nms(lists, scores, 0.1, 0.1, 400, 100),
        "unique": lambda: paddle.unique(repeated, return_inverse=True),
        "bincount": lambda: paddle.bincount(places.reshape([-1])),
        "nonzero": lambda: paddle.nonzero(rows > 0),
        "masked_select": lambda: paddle.masked_select(rows, rows > 0),
    }
    return [(name, on(function)) for name, function in calls.items()]


def of_tensorflow(device: str) -> Calls:
    """Calls of TensorFlow's ops on a device."""
    import tensorflow as tf

    state = np.random.default_rng(1)
    with tf.device(device):
        rows = tf.constant(state.normal(size=(1000, 1000)).astype("float32"))
        values = tf.constant(state.normal(size=(1000, 1000)).astype("float32"))
        table = tf.constant(np.tile(np.sort(state.normal(size=4096)).astype("float32"), (10, 1)))
        wanted = tf.constant(state.normal(size=(10, 100000)).astype("float32"))
        ids = tf.constant(np.sort(state.integers(0, 2000, 20000)))
        loose = tf.constant(state.integers(0, 2000, 20000))
        nodes = tf.constant(state.normal(size=(20000, 64)).astype("float32"))
        at = tf.constant(state.integers(0, 1000, (1000, 1000)))
        flat = tf.constant(state.integers(0, 2000, 1000000).astype("int32"))
        logits = tf.constant(state.normal(size=(200, 16, 40)).astype("float32"))
    with tf.device("/device:CPU:0"):
        steps = tf.constant(np.full(16, 200, "int32"))
        indices = tf.constant(np.stack(np.unravel_index(np.arange(480), (16, 30)), 1))
        flat_labels = tf.constant(state.integers(1, 40, 480).astype("int32"))

    def on(function: Callable[[], Any]) -> Call:
        def call() -> None:
            with tf.device(device):
                function()
            tf.test.experimental.sync_devices()

        return call

    calls = {
        "top_k of rows": lambda: tf.math.top_k(rows, 10),
        "sort of rows": lambda: tf.sort(rows),
        "searchsorted in 4096": lambda: tf.searchsorted(table, wanted),
        "cumsum of rows": lambda: tf.cumsum(rows, 1),
        "cumulative_logsumexp of rows": lambda: tf.math.cumulative_logsumexp(rows, 1),
        "roll of rows": lambda: tf.roll(rows, 300, 1),
        "reverse of rows": lambda: tf.reverse(rows, [1]),
        "repeat": lambda: tf.repeat(rows, 2, 0),
        "gather along an axis": lambda: tf.gather(rows, at, batch_dims=1),
        "segment_sum": lambda: tf.math.segment_sum(nodes, ids),
        "segment_mean": lambda: tf.math.segment_mean(nodes, ids),
        "segment_max": lambda: tf.math.segment_max(nodes, ids),
        "unsorted_segment_sum": lambda: tf.math.unsorted_segment_sum(nodes, loose, 2000),
        "unsorted_segment_max": lambda: tf.math.unsorted_segment_max(nodes, loose, 2000),
        "tensor_scatter_nd_add": lambda: tf.tensor_scatter_nd_add(nodes, loose[:, None], nodes),
        "CTCLossV2": lambda: tf.raw_ops.CTCLossV2(
            inputs=logits, labels_indices=indices, labels_values=flat_labels, sequence_length=steps
        ),
        "unique": lambda: tf.unique_with_counts(flat),
        "bincount": lambda: tf.math.bincount(flat, minlength=2000, maxlength=2000),
        "where": lambda: tf.where(rows > 0),
        "boolean_mask": lambda: tf.boolean_mask(values, rows > 0),
    }
    return [(name, on(function)) for name, function in calls.items()]


def main() -> None:
    """Prints the table of one framework, or of both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", choices=("tensorflow", "paddle", "both"), default="both")
    parser.add_argument("--device", default="rdna:0")
    parser.add_argument("--only", default="", help="only ops whose name contains this")
    given = parser.parse_args()
    os.environ.setdefault("UNIHAL_BACKEND", "stub")
    os.environ.setdefault("UNIHAL_STRICT", "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    makers: list[tuple[Callable[[str], Calls], str, str]] = []
    if given.framework in ("paddle", "both"):  # first: after TensorFlow it cannot be imported
        makers.append((of_paddle, given.device.lower(), "cpu"))
    if given.framework in ("tensorflow", "both"):
        makers.append((of_tensorflow, f"/device:{given.device.upper()}", "/device:CPU:0"))
    for make, device, cpu in makers:
        print(f"{make.__name__[3:]}: ours and the CPU's in ms, the ratio")
        for (name, ours), (_, theirs) in zip(make(device), make(cpu)):
            if given.only not in name:
                continue
            try:
                times = measure.alternate({"ours": ours, "cpu": theirs}, rounds=3, minimum_time=0.1)
            except Exception as error:  # the others are measured all the same
                print(f"  {name:34} {str(error).splitlines()[0][:90]}", flush=True)
                continue
            ours_ms, theirs_ms = (1e3 * times[side] for side in ("ours", "cpu"))
            print(f"  {name:34} {ours_ms:9.3f} {theirs_ms:9.3f} {ours_ms / theirs_ms:6.2f}", flush=True)


if __name__ == "__main__":
    main()
