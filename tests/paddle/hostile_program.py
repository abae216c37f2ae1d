"""Runs a part of the generated calls on CPU and device, and writes what differs: the child of test_hostile.py.

    python hostile_program.py RESULTS PROGRESS START SHARE

One in SHARE of the hostile cases is tried, all ties and special values (NaN, infinities), and per attribute one
variation that changes the CPU's result. The file PROGRESS holds the case at hand, so that the parent knows what ended
the process."""

from __future__ import annotations

import json
import re
import sys
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import old_programs
import paddle
import paddle.nn.functional as F
from calls import CALLS, CUBE, IMAGE, TABLE, Call, indices, is_tensor, ops, random
from comparison import DEVICE, flatten
from paddle.vision import ops as vision
from variations import Case, attribute_variations, tensor_variations

Outcome = dict[str, Any]
paddle.disable_static()  # which old_programs.py turned on


def run_old(op: str, inputs: dict[str, Any], attributes: dict[str, Any], output: str) -> list[Any]:
    """An op that only programs of the old representation have, on the device in force: its results and gradients."""
    arrays = {slot: tensor.numpy() for slot, tensor in inputs.items()}
    place = paddle.framework._current_expected_place()
    paddle.enable_static()
    try:
        with paddle.pir_utils.OldIrGuard():
            return old_programs.run(place, op, arrays, attributes, output)
    finally:
        paddle.disable_static()


def lrn(x: Any, n: int = 3, k: float = 2.0, alpha: float = 0.1, beta: float = 0.75, data_format: str = "NCHW") -> Any:
    attributes = {"n": n, "k": k, "alpha": alpha, "beta": beta, "data_format": data_format}
    return run_old("lrn", {"X": x}, attributes, "Out")


def flatten2(x: Any, axis: int = 2) -> Any:
    return run_old("flatten2", {"X": x}, {"axis": axis}, "Out")


def cross_entropy(x: Any, label: Any, soft_label: bool = False, ignore_index: int = 2) -> Any:
    attributes = {"soft_label": soft_label, "ignore_index": ignore_index}
    return run_old("cross_entropy", {"X": x, "Label": label}, attributes, "Y")


PROBABILITIES = random(3, 5, low=0.1, high=1.0)
#: Ops of old programs.
OLD_CALLS = [
    Call("old_lrn", lrn, {"x": IMAGE}),
    Call("old_flatten2", flatten2, {"x": CUBE}),
    Call("old_cross_entropy", cross_entropy, {"x": PROBABILITIES, "label": np.array([[0], [2], [4]])}),
    Call("old_cross_entropy soft", cross_entropy, {"x": PROBABILITIES, "label": 1 - PROBABILITIES, "soft_label": True}),
]

# Where Paddle's CPU ends the process (Paddle 3.3); the device runs them alone. Below: where Paddle does, on any device.
CRASHES_OF_PADDLE = [
    (r"adaptive_\w+pool2d", r"output_size=(-|\[(-|3, 46|46))"),
    (r"conv2d|depthwise_conv2d", r"dilation=(4|7|100)$"),
    (r"conv2d_transpose", r"dilation=-|padding=(7|100)$"),
    (r"(softmax_with_|old_)?cross_entropy", r"label first=-?1099511627776"),
    (r"embedding (padding|by frequency)", r"x first=|weight empty first"),
    (r"expand_as", r"x empty"),
    (r"gather", r"axis=-3"),
    (r"gaussian|randint|uniform|truncated_gaussian", r"shape=\[-[12], -"),
    (r"label_smooth", r"prior_dist empty"),
    (r"max_pool2d and where", r"kernel_size=|padding=|stride="),  # windows without a pixel are written to
    (r"old_lrn|old_cross_entropy", r"(x|all) empty"),
    # These look at no length or number of their operands, or the CPU has none.
    (
        r"rnnt_loss|yolo_loss|reindex_graph|sample_neighbors|khop_sampler|auc$|stft|edit_distance|top_p_sampling",
        r"",
    ),
    (r"pad ", r"pad=.*46116860"),
    (r"pixel_shuffle", r"upscale_factor=-"),  # goes on for ever
    (r"pow int", r"y=-"),
    (r"prod", r"dtype=.int(32|64)"),
    (r"scatter", r"updates empty (last|middle)"),
    (r"tile", r"repeat_times=\[46"),
]
ABORTS_OF_PADDLE = [
    (r"split", r"num_or_sections=(-|2147483647)"),
    (r"arange", r"(start|end|step)=-?21474"),
    (r"pixel_shuffle", r"upscale_factor=-2147483648"),
    # More memory than many a machine has.
    (
        r"full|uniform|gaussian|truncated_gaussian|randperm|linspace|repeat_interleave",
        r"(shape|n|num|repeats)=.*2147483647",
    ),
    (r"reduce_as", r"x fewer axes"),
]

LOGARITHMS = np.log(random(2, 4, 3, 5, low=0.05, high=0.3, seed=3))
ROW, BEGINS, NODES = np.array([3, 1, 0, 2, 3, 1, 0]), np.array([0, 2, 5, 6, 7]), np.array([0, 2, 1])
BOXES = np.concatenate([random(2, 3, 2, low=0.1, high=0.9), random(2, 3, 2, low=0.1, high=0.6, seed=1)], -1)
#: Functions whose kernels read lengths, counts and places out of their operands.
READING_CALLS = [
    Call(
        "rnnt_loss",
        lambda x, label, steps, counts, blank=0, fast_emit=0.1: F.rnnt_loss(
            x, label, steps, counts, blank, fast_emit, "none"
        ),
        {
            "x": LOGARITHMS,
            "label": np.array([[1, 2], [3, 1]], "int32"),
            "steps": np.array([4, 3], "int32"),
            "counts": np.array([2, 1], "int32"),
        },
    ),
    Call(
        "yolo_loss",
        lambda x, boxes, labels, scores, anchors=(10, 13, 16, 30), mask=(0, 1), classes=2, threshold=0.3, ratio=8: (
            vision.yolo_loss(x, boxes.detach(), labels, list(anchors), list(mask), classes, threshold, ratio, scores)
        ),
        {
            "x": random(2, 14, 4, 4),
            "boxes": BOXES,
            "labels": np.array([[1, 0, 1], [0, 1, 1]], "int32"),
            "scores": random(2, 3, low=0.3, high=1.0),
        },
    ),
    Call(
        "reindex_graph",
        lambda x, neighbors, count: paddle.geometric.reindex_graph(x, neighbors, count),
        {"x": NODES, "neighbors": ROW, "count": np.array([2, 3, 2], "int32")},
    ),
    Call(
        "sample_neighbors",
        lambda row, colptr, nodes, size=2: paddle.geometric.sample_neighbors(row, colptr, nodes, size),
        {"row": ROW, "colptr": BEGINS, "nodes": NODES},
        True,
    ),
    Call(
        "khop_sampler",
        lambda row, colptr, nodes, sizes=(2, 1): paddle.incubate.graph_khop_sampler(row, colptr, nodes, list(sizes)),
        {"row": ROW, "colptr": BEGINS, "nodes": NODES},
        True,
    ),
    Call(
        "auc",
        lambda x, label, positive, negative, thresholds=15, steps=1: ops.auc(
            x, label, positive, negative, None, "ROC", thresholds, steps
        ),
        {
            "x": random(3, 2, low=0.0, high=1.0),
            "label": np.array([[1], [0], [1]]),
            "positive": np.arange(33),
            "negative": np.arange(33),
        },
    ),
    Call(
        "edit_distance",
        lambda h, r, tall, wide, normalized=True: ops.edit_distance(h, r, tall, wide, normalized),
        {
            "h": indices(3, 5, high=3),
            "r": indices(3, 6, high=3, seed=1),
            "tall": np.array([5, 2, 4]),
            "wide": np.array([1, 6, 3]),
        },
    ),
    Call(
        "stft",
        lambda x, window, length=8, hop=3, normalized=False, onesided=True: ops.stft(
            x, window, length, hop, normalized, onesided
        ),
        {"x": random(2, 40), "window": random(8, low=0.5)},
    ),
    Call(
        "embedding by frequency",
        lambda x, weight, padding_idx=1: F.embedding(x, weight, padding_idx, scale_grad_by_freq=True),
        {"x": indices(2, 3, high=7), "weight": TABLE},
    ),
    Call(
        "top_p_sampling",
        lambda x, ps, threshold, seeds, k=2, mode="truncated": paddle.tensor.top_p_sampling(
            x, ps, threshold, seeds, -1, k, mode
        ),
        {
            "x": random(3, 5, low=0.1, high=0.3),
            "ps": random(3, low=0.1, high=1.0),
            "threshold": random(3, low=0.1, high=0.2),
            "seeds": np.array([1, 2, 3]),
        },
        True,
    ),
]


def matches(table: list[tuple[str, str]], call: Call, label: str) -> bool:
    return any(re.match(name, call.name) and re.search(pattern, label) for name, pattern in table)


def to_tensor(value: Any, gradient: bool) -> Any:
    if isinstance(value, list):
        return [to_tensor(item, gradient) if isinstance(item, np.ndarray) else item for item in value]
    tensor = paddle.to_tensor(value)
    if value.dtype.kind == "f":
        tensor.stop_gradient = not gradient
    return tensor


def to_array(value: Any) -> Any:
    if not isinstance(value, paddle.Tensor):
        return None if value is None else np.asarray(value)
    return value.astype("float32").numpy() if value.dtype in (paddle.float16, paddle.bfloat16) else value.numpy()


def backward(results: list[Any], tensors: list[Any]) -> list[Any]:
    roots = [
        r for r in results if isinstance(r, paddle.Tensor) and not r.stop_gradient and "complex" not in str(r.dtype)
    ]
    if not roots or not tensors:
        return []
    draw = np.random.RandomState(7)
    weights = [paddle.to_tensor(draw.uniform(-2, 2, r.shape).astype("float32")).astype(r.dtype) for r in roots]
    paddle.autograd.backward(roots, weights)
    return [to_array(tensor.grad) for tensor in tensors]


def run(call: Call, arguments: dict[str, Any], device: str) -> Outcome:
    paddle.set_device(device)
    paddle.seed(3)
    done: Outcome = {"error": None, "results": [], "gradients": None, "text": ""}
    try:
        given = {n: to_tensor(v, not call.random) if is_tensor(v) else v for n, v in arguments.items()}
        results = flatten(call.function(**given))
        done["dtypes"] = [str(getattr(r, "dtype", "")) for r in results]
        done["places"] = [str(r.place) for r in results if isinstance(r, paddle.Tensor)]
        done["results"] = [to_array(r) for r in results]
        tensors = [
            t for v in given.values() for t in flatten(v) if isinstance(t, paddle.Tensor) and not t.stop_gradient
        ]
        done["gradients"] = backward(results, tensors)
        done["gradient_dtypes"] = [str(tensor.dtype) for tensor in tensors[: len(done["gradients"])]]
    except Exception as error:
        done["error"], done["text"] = type(error).__name__, str(error)
        if "UNIHAL_STRICT" in done["text"] and done["results"]:
            done["error"] = None  # a gradient that has no kernel
    return done


def arrays_differ(theirs: Any, ours: Any, call: Call, special: bool, dtype: str) -> str:
    if (theirs is None) != (ours is None):
        return "one is None"
    if theirs is None or theirs.dtype == object:
        return ""
    if theirs.shape != ours.shape:
        return f"shape {ours.shape} instead of {theirs.shape}"
    if theirs.dtype != ours.dtype:
        return f"dtype {ours.dtype} instead of {theirs.dtype}"
    if call.random:
        return ""
    if theirs.dtype.kind not in "fc":
        return "" if np.array_equal(theirs, ours) else "values"
    # A float64 of the CPU may be computed with factors in float32; float16 is rounded differently.
    limit = {"float64": 1e-6, "float16": 1e-2, "bfloat16": 5e-2}.get(dtype.split(".")[-1], 2e-5)
    with np.errstate(all="ignore"):
        # Beside the largest of special values all others would be equal.
        scale = np.maximum(
            1.0, np.abs(theirs) if special else np.max(np.abs(theirs), initial=0.0, where=np.isfinite(theirs))
        )
        same = (np.abs(theirs - ours) <= limit * scale) | (theirs == ours) | (np.isnan(theirs) & np.isnan(ours))
    return "" if same.all() else "values"


def difference(call: Call, label: str, theirs: Outcome, ours: Outcome) -> str:
    if theirs["error"] or ours["error"]:
        if theirs["error"] == ours["error"] or "UNIHAL_STRICT" in ours["text"]:
            return ""
        # The CPU has no such kernel; the device may.
        if re.search(
            "is not registered|no kernels which are registered|data we are trying to retrieve", theirs["text"]
        ):
            return "" if ours["error"] or "registered" in theirs["text"] else "no error where the CPU refuses a dtype"
        return f"error {ours['error']} instead of {theirs['error']}: {ours['text'] or theirs['text']}"
    if any(DEVICE not in place for place in ours["places"]):
        return f"computed on {ours['places']}"
    pairs = [("result", a, b, d) for a, b, d in zip(theirs["results"], ours["results"], ours["dtypes"], strict=True)]
    if ours["gradients"] is not None and theirs["gradients"] is not None:
        together = zip(theirs["gradients"], ours["gradients"], ours["gradient_dtypes"], strict=True)
        pairs += [("gradient", *entry) for entry in together]
    for i, (kind, a, b, dtype) in enumerate(pairs):
        found = arrays_differ(a, b, call, "special" in label, dtype)
        if found:
            return f"{kind} {i} differs ({found}): {b!r:.300} instead of {a!r:.300}"
    return ""


def same_outcome(a: Outcome, b: Outcome) -> bool:
    def equal(xs: list[Any] | None, ys: list[Any] | None) -> bool:
        if xs is None or ys is None or len(xs) != len(ys):
            return xs is ys
        return all(
            x is y
            if x is None or y is None
            else x.dtype == y.dtype and np.array_equal(x, y, equal_nan=x.dtype.kind in "fc")
            for x, y in zip(xs, ys, strict=True)
        )

    return equal(a["results"], b["results"]) and equal(a["gradients"], b["gradients"])


def chosen(label: str, name: str, share: int) -> bool:
    return "ties" in label or "special" in label or zlib.crc32(f"{name} {label}".encode()) % share == 0


def cases(share: int, ops: int) -> Iterator[tuple[Case, str]]:
    """The cases of one in so many ops, and the attribute that each is to hold, if any."""
    for call in CALLS + OLD_CALLS + READING_CALLS:
        # All calls of an op: what an attribute changes is asked of them together.
        if zlib.crc32(call.name.split()[0].encode()) % ops:
            continue
        yield (call, "as it is", call.arguments), ""
        for name, variations in attribute_variations(call):
            for case in variations:
                yield case, name
        for case in tensor_variations(call):
            if chosen(case[1], call.name, share):
                yield case, ""


class Run:
    def __init__(self, results: Path, progress: Path, start: int, share: int, ops: int) -> None:
        self.results, self.progress, self.start = results.open("a"), progress.open("w"), start
        self.share, self.ops = share, ops
        #: The call that `base` is the outcome of, as it is on the CPU.
        self.base_of = ""
        self.base: Outcome = {}

    def note(self, text: str) -> None:
        self.progress.seek(0)
        self.progress.write(text.ljust(300))
        self.progress.flush()

    def write(self, **entry: str) -> None:
        self.results.write(json.dumps(entry) + "\n")
        self.results.flush()

    def compare(self, number: int, case: Case, telling: set[tuple[str, str]], attribute: str) -> None:
        call, label, arguments = case
        alone = matches(CRASHES_OF_PADDLE, call, label)
        key = (call.name.split()[0], attribute)
        wanted = chosen(label, call.name, self.share)
        if attribute and not wanted and key in telling:
            return
        self.note(f"{number} cpu {call.name}: {label}")
        theirs = None if alone else run(call, arguments, "cpu")
        if self.base_of != call.name:
            runs = not matches(CRASHES_OF_PADDLE, call, "as it is")
            self.base_of, self.base = call.name, run(call, call.arguments, "cpu") if runs else {}
        if attribute and theirs is not None and not theirs["error"] and not same_outcome(theirs, self.base):
            wanted = wanted or key not in telling
            telling.add(key)
        if not wanted and label != "as it is":
            return
        self.note(f"{number} device {call.name}: {label}")
        ours = run(call, arguments, DEVICE)
        if theirs is None:
            return
        if label == "as it is" and theirs["error"]:
            self.write(call=call.name, label=label, difference=f"fails on the CPU: {theirs['text']}")
        found = difference(call, label, theirs, ours)
        if found:
            self.write(call=call.name, label=label, difference=found)

    def all(self) -> None:
        telling: set[tuple[str, str]] = set()
        asked: dict[tuple[str, str], None] = {}
        for number, (case, attribute) in enumerate(cases(self.share, self.ops)):
            call, label, _arguments = case
            if number < self.start or matches(ABORTS_OF_PADDLE, call, label):
                continue
            if attribute and not matches(CRASHES_OF_PADDLE, call, ""):
                asked[call.name.split()[0], attribute] = None
            self.compare(number, case, telling, attribute)
        for name, attribute in asked:
            if (name, attribute) not in telling:
                self.write(call=name, label=attribute, difference="no variation changes the CPU's result")
        self.note("done")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    Run(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:])).all()
