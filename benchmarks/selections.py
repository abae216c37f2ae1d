"""Orders, places, running extrema, segments, sequences, graphs, detection by the adapters, against the framework's CPU.

    python benchmarks/selections.py [--framework paddle] [--device RDNA:0 or rdna:0] [--only median] [--compiled]

Meant for the stub, with as many threads as the framework takes. Times are lower quartiles of batches that alternate
with the CPU's, in milliseconds, with the operands on the device and the work waited for; the ratio is ours over the
CPU's: at most 1 is wanted. --compiled: each of TensorFlow's calls as one tf.function, as Keras trains.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import partial
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

    put = measure.paddle_operand

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

    def trained(function: Callable[..., Any], *inputs: Any) -> Callable[[], Any]:
        """A loss with its gradient by the first input."""

        def call() -> Any:
            inputs[0].clear_gradient()
            function(*inputs).sum().backward()
            return inputs[0].grad

        return call

    begins = put(np.arange(0, 400001, 20))
    neighbors = put(state.integers(0, 20000, 400000))
    wanted = put(state.permutation(20000)[:512])
    weights = put(state.uniform(0.5, 2, 400000).astype("float32"))
    found, of_each = paddle.geometric.sample_neighbors(neighbors, begins, wanted, 50)
    lattice = put(state.normal(size=(4, 50, 21, 64)).astype("float32"), True)
    transcripts = put(state.integers(1, 64, (4, 20)).astype("int32"))
    of_lattice = [put(np.full(4, n, "int32")) for n in (50, 20)]
    head = put(state.normal(size=(8, 255, 13, 13)).astype("float32"), True)
    objects = put(state.uniform(0.1, 0.9, (8, 20, 4)).astype("float32"))
    classes = put(state.integers(0, 80, (8, 20)).astype("int32"))
    sizes = put(np.full((8, 2), 416, "int32"))
    sound = put(state.normal(size=(8, 16000)).astype("float32"))
    texts = [put(state.integers(0, 30, (64, 40))) for _ in range(2)]
    of_texts = put(np.full(64, 40))
    chances = state.uniform(0, 1, 10000).astype("float32")
    chances = put(np.stack([1 - chances, chances], 1))
    truths = put(state.integers(0, 2, (10000, 1)))
    buckets = [put(np.zeros((1, 4096), "int64")) for _ in range(2)]
    objectness = put(state.uniform(0, 1, (2, 3, 50, 68)).astype("float32"))
    moves = put(state.normal(0, 0.3, (2, 12, 50, 68)).astype("float32"))
    shapes = put(np.float32([[800, 1088]] * 2))
    corner = state.uniform(0, 800, (50, 68, 3, 2))
    anchors = put(np.concatenate([corner, corner + state.uniform(16, 256, (50, 68, 3, 2))], -1).astype("float32"))
    variances = put(np.ones((50, 68, 3, 4), "float32"))
    pyramid = put(np.concatenate([low, low + state.uniform(4, 500, (200, 2))], 1).astype("float32"))
    images = put(state.normal(size=(8, 32, 28, 28)).astype("float32"), True)
    layer = paddle.nn.BatchNorm2D(32) if device == "cpu" else paddle.nn.SyncBatchNorm(32)
    emissions = put(state.normal(size=(32, 50, 20)).astype("float32"))
    transitions = put(state.normal(size=(20, 20)).astype("float32"))
    of_emissions = put(np.full(32, 50))
    offsets = put(state.normal(size=(2, 18, 32, 32)).astype("float32"))
    filters = put(state.normal(size=(64, 64, 3, 3)).astype("float32"))
    smaller = put(state.normal(size=(2, 64, 32, 32)).astype("float32"), True)
    beams = [put(state.integers(0, high, (50, 16, 8))) for high in (1000, 8)]

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
        "sample_neighbors, 512 of 10": lambda: paddle.geometric.sample_neighbors(neighbors, begins, wanted, 10),
        "weighted_sample_neighbors": lambda: paddle.geometric.weighted_sample_neighbors(
            neighbors, begins, weights, wanted, 10
        ),
        "reindex_graph of 10240": lambda: paddle.geometric.reindex_graph(wanted, found, of_each),
        "khop_sampler, 10 and 5": lambda: paddle.incubate.graph_khop_sampler(neighbors, begins, wanted, [10, 5]),
        "rnnt_loss with its gradient": trained(
            lambda x: F.rnnt_loss(x, transcripts, *of_lattice, reduction="none"), lattice
        ),
        "yolo_loss with its gradient": trained(
            lambda x: vision.yolo_loss(x, objects, classes, [10, 13, 16, 30, 33, 23], [0, 1, 2], 80, 0.7, 32), head
        ),
        "yolo_box": lambda: vision.yolo_box(head, sizes, [10, 13, 16, 30, 33, 23], 80, 0.01, 32),
        "stft of 8 seconds": lambda: paddle.signal.stft(sound, 512, 160),
        "edit_distance of 64": lambda: F.loss.edit_distance(*texts, True, None, of_texts, of_texts),
        "auc of 10000": lambda: paddle._C_ops.auc(chances, truths, *buckets, None, "ROC", 4095, 0),
        "generate_proposals": lambda: vision.generate_proposals(
            objectness, moves, shapes, anchors, variances, 2000, 500, 0.7, 1.0, return_rois_num=True
        ),
        "distribute_fpn_proposals": lambda: vision.distribute_fpn_proposals(pyramid, 2, 5, 4, 224, rois_num=counts),
        "sync_batch_norm with its gradient": trained(layer, images),
        "viterbi_decode": lambda: paddle.text.viterbi_decode(emissions, transitions, of_emissions, False),
        "deform_conv2d with its gradient": trained(
            lambda x: vision.deform_conv2d(x, offsets, filters, padding=1), smaller
        ),
        "fractional_max_pool2d with its gradient": trained(lambda x: F.fractional_max_pool2d(x, 13, 2, 0.3), images),
        "gather_tree": lambda: F.gather_tree(*beams),
        "argmax of channels": lambda: paddle.argmax(features, axis=1),
        "nanmedian of rows": lambda: paddle.nanmedian(rows, axis=-1),
    }
    return [(name, on(function)) for name, function in calls.items()]


def of_tensorflow(device: str, compiled: bool = False) -> Calls:
    """Calls of TensorFlow's ops on a device, each as one function if ``compiled``."""
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
    return measure.tensorflow_calls(calls, device, compiled)


def run(text: str | None, makers: dict[str, Callable[..., Calls]]) -> None:
    """Prints the table of one framework, or of all that can share a process."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", choices=(*makers, "both"), default="both", help="both: Paddle and TensorFlow")
    parser.add_argument("--device", default="rdna:0")
    parser.add_argument("--only", default="", help="only ops whose name contains this")
    parser.add_argument("--compiled", action="store_true", help="each of TensorFlow's calls as one tf.function")
    given = parser.parse_args()
    os.environ.setdefault("UNIHAL_BACKEND", "stub")
    os.environ.setdefault("UNIHAL_STRICT", "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # Paddle first: after TensorFlow it cannot be imported.
    for framework in ("paddle", "tensorflow") if given.framework == "both" else (given.framework,):
        device, cpu = given.device.lower(), "cpu"
        maker = makers[framework]
        if framework == "tensorflow":
            device, cpu = f"/device:{given.device.upper()}", "/device:CPU:0"
            maker = partial(maker, compiled=given.compiled)
        print(f"{framework}: ours and the CPU's in ms, the ratio")
        for (name, ours), (_, theirs) in zip(maker(device), maker(cpu)):
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
    run(__doc__, {"paddle": of_paddle, "tensorflow": of_tensorflow})
