"""What the tables of functions leave out: ops with their arguments, functions, and ops of old programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
from calls import indices
from comparison import Array, random

# Arguments of ops stand in the order of Paddle's YAML definitions.
X, POSITIVE, IMAGE = random(3, 5), random(3, 5, low=0.2, high=2), random(2, 4, 7, 6)
PROBABILITIES = random(3, 5, low=0.1, high=0.9)
SQUARE = random(2, 4, 4) + 3 * np.eye(4, dtype="float32")
DEFINITE = np.asarray(SQUARE @ SQUARE.swapaxes(-1, -2))
HEADS = [random(2, 6, 2, 8, seed=seed) for seed in range(3)]
ROWS_OF_BOXES = np.float32([[0, 0, 4, 3], [1.25, 0.5, 6.5, 4.75], [-2, -1, 3, 2.5]])
COUNTS = np.int32([2, 1])
IDS = np.array([[0, 2], [1, 3], [4, 4]])
ONE = np.array([1.5], "float32")
FOUR = np.array([6, 2, 4, 5])
BUCKETS = np.arange(16)
COUNTS_OF_BUCKETS = [BUCKETS[None] % 3, BUCKETS[None] % 4]
COUNTS_OF_STEPS = [np.concatenate([BUCKETS, BUCKETS + 1, 2 * BUCKETS + 1, [5]])] * 2
LOGARITHMS = np.log(random(2, 4, 3, 5, low=0.05, high=0.3, seed=3))
# Seven edges of four nodes: where the neighbors of each begin.
NEIGHBORS = np.array([3, 1, 0, 2, 3, 1, 0])
GRAPH = (NEIGHBORS, np.array([0, 2, 5, 6, 7]))
IMAGE_OF_HEAD, LABELS = random(2, 14, 4, 4), np.array([[1, 0, 1], [0, 1, 1]], "int32")
BOXES = np.concatenate([random(2, 3, 2, low=0.1, high=0.9), random(2, 3, 2, low=0.1, high=0.6, seed=1)], -1)
SCORES = random(2, 3, low=0.3, high=1.0, seed=2)
MASK, ZERO, THREE = X > 0, np.array(0, "float32"), np.array(3, "float32")

#: Ops of paddle._C_ops with their arguments; arrays become tensors.
ROWS: list[tuple[str, tuple[Any, ...]]] = [
    ("accuracy", (random(6, 2), np.array([[0, 1]] * 6), np.array([[1]] * 3 + [[3]] * 3))),
    ("affine_grid", (random(2, 2, 3), [2, 3, 4, 5], True)),
    ("affine_grid", (random(2, 3, 4), [2, 3, 2, 4, 5], False)),
    ("binomial", (np.full((3, 5), 6.0, "float32"), PROBABILITIES)),
    ("cholesky", (DEFINITE, False)),
    ("clip_by_norm", (X, 1.5)),
    (
        "deformable_conv",
        (IMAGE, random(2, 18, 7, 6), random(3, 4, 3, 3), random(2, 9, 7, 6, low=0), [1, 1], [1, 1], [1, 1], 1, 1, 1),
    ),
    ("dirichlet", (POSITIVE,)),
    ("eig", (SQUARE,)),
    ("einsum", ([random(2, 3, 4), random(2, 4, 5)], "bij,bjk->bik")),
    ("einsum", ([random(3, 4)], "ij->ji")),
    ("eigh", (DEFINITE, "L")),
    ("eigvals", (SQUARE,)),
    ("eigvalsh", (DEFINITE, "L", False)),
    ("fake_channel_wise_quantize_abs_max", (X, 8, 1, 0, False)),
    ("fake_channel_wise_quantize_dequantize_abs_max", (X, 8, 1, 1)),
    ("fake_channel_wise_quantize_dequantize_abs_max", (IMAGE, 4, 0, 1)),
    ("fake_channel_wise_quantize_dequantize_abs_max", (np.float32([[0, 0], [-3, 1], [2, -1e-31]]), 8, 1, 0)),
    ("fake_dequantize_max_abs", (X, np.array([3.5], "float32"), 127.0)),
    ("fake_quantize_abs_max", (X, 8, 1)),
    ("fake_quantize_dequantize_abs_max", (X, 8, 1)),
    ("fake_quantize_dequantize_abs_max", (-POSITIVE, 3, 0)),
    ("fake_quantize_dequantize_abs_max", (0 * X, 8, 0)),
    ("fake_quantize_dequantize_moving_average_abs_max", (X, ONE, 2 * ONE, 3 * ONE, 0.9, 8, False, 1)),
    ("fake_quantize_moving_average_abs_max", (X, ONE, 2 * ONE, 3 * ONE, 0.9, 8, False, 0)),
    ("fake_quantize_moving_average_abs_max", (X, 2 * ONE, None, None, 0.9, 8, True, 0)),
    ("moving_average_abs_max_scale", (X, 2 * ONE, 3 * ONE, 0.9, False)),
    (
        "lp_pool2d",
        (np.abs(IMAGE), [3, 2], [2, 2], [1, 0], False, True, "NCHW", "", False, False, "EXPLICIT", 2.0),
    ),
    ("lp_pool2d", (np.abs(IMAGE), [2, 2], [2, 1], [0, 0], False, True, "NCHW", "", True, False, "EXPLICIT", 3.0)),
    ("random_", (X, 2, 9)),
    ("flash_attn", (*HEADS, None, None, 0.0, False, False, False, "")),
    ("flash_attn", (*HEADS, None, random(2, 1, 6, 6), 0.0, False, False, False, "")),
    ("full_with_tensor", (np.array([2.5], "float32"), [2, 3], paddle.float32)),
    ("fused_softmax_mask_upper_triangle", (random(2, 3, 32, 32),)),
    ("gumbel_softmax", (X, 0.5, False, -1)),
    ("l1_norm", (X,)),
    ("rint", (3 * X,)),
    ("nansum", (X, [1], None, False)),
    ("hinge_loss", (X[:, :1], MASK[:, :1].astype("float32"))),
    ("inverse", (SQUARE,)),
    ("masked_select", (X, MASK)),
    (
        "memory_efficient_attention",
        (*HEADS, *[None] * 5, 0.0, 0.0, False, 0.0, -1.0, True),
    ),
    ("multinomial", (PROBABILITIES, 3, True)),
    ("nms", (ROWS_OF_BOXES, 0.3)),
    (
        "matrix_nms",
        (ROWS_OF_BOXES[None], np.float32([[[0.2, 0.4, 0.3], [0.7, 0.9, 0.1]]]), 0.1, -1, 5, 0.05, True, 2.0, 0, True),
    ),
    (
        "multiclass_nms3",
        (ROWS_OF_BOXES[None], np.float32([[[0.2, 0.4, 0.3], [0.7, 0.9, 0.1]]]), None, 0.1, -1, 5, 0.3, True, 1.0, 0),
    ),
    ("norm", (X, 1, 1e-6, False)),
    ("partial_concat", ([X, random(3, 5, seed=1)], 1, 2)),
    ("poisson", (POSITIVE,)),
    (
        "prior_box",
        (IMAGE, random(2, 3, 28, 24), [4.0], [6.0], [1.0, 2.0], [0.1, 0.1, 0.2, 0.2], True, True, 0.0, 0.0, 0.5, False),
    ),
    ("reverse", (X, [1])),
    ("roi_align", (IMAGE, ROWS_OF_BOXES, COUNTS, 2, 3, 1.0, 2, True)),
    ("searchsorted", (np.sort(X, -1), random(3, 4, seed=3), False, True)),
    ("sequence_mask", (np.array([1, 3, 2]), 4, paddle.int64)),
    ("standard_gamma", (POSITIVE,)),
    ("triangular_solve", (SQUARE, random(2, 4, 3), True, False, False)),
    ("tril_indices", (4, 5, 1, paddle.int64, paddle.CPUPlace())),
    ("triu_indices", (4, 3, -1, paddle.int64, paddle.CPUPlace())),
    *((name, (X,)) for name in ("isfinite", "isinf", "isnan")),
    *((name, (X, 0)) for name in ("tril", "triu")),
    ("fill", (X, 0.5)),
    ("fill_diagonal", (SQUARE[0], 0.5, 0, False)),
    ("fill_diagonal_tensor", (SQUARE[0], random(4), 0, 0, 1)),
    ("index_add", (X, np.array([0, 2]), random(2, 5), 0)),
    ("index_put", (X, [np.array([0, 2])], random(2, 5), False)),
    ("put_along_axis", (X, IDS, random(3, 2), 1, "add", True)),
    ("masked_fill", (X, MASK, np.array(0.5, "float32"))),
    ("set_value", (X, [1], [2], [1], [0], [], [], [1], [0.5])),
    ("set_value_with_tensor", (X, random(5), [1], [2], [1], [0], [], [])),
    ("round", (3 * X, 0)),
    ("real", (X + 1j * POSITIVE,)),
    ("imag", (X + 1j * POSITIVE,)),
    ("amax", (X, [1], False)),
    ("hardshrink", (X, 0.5)),
    ("greater_than", (X, POSITIVE)),
    ("det", (SQUARE,)),
    ("gaussian_inplace_", (X, 0.5, 2.0, 0)),
    ("uniform_inplace_", (X, -1.0, 2.0, 0, 0, 0, 1.0)),
    ("median", (X, [1], False, "avg")),
    ("nanmedian", (X, [0], True, "avg")),
    ("rrelu", (X, 0.125, 0.25, True)),
    ("roi_pool", (IMAGE, ROWS_OF_BOXES, COUNTS, 2, 3, 1.0)),
    ("psroi_pool", (random(2, 8, 7, 6), ROWS_OF_BOXES, COUNTS, 2, 2, 2, 1.0)),
    ("box_coder", (ROWS_OF_BOXES, ROWS_OF_BOXES * 0 + 0.5, ROWS_OF_BOXES + 1, "encode_center_size", True, 0, [])),
    (
        "yolo_box",
        (random(2, 14, 3, 4), np.int32([[64, 48], [32, 40]]), [10, 13, 16, 30], 2, 0.01, 32, True, 1.0, False, 0.5),
    ),
    ("unique", (IDS, True, True, True, [], paddle.int64, True)),
    ("unique", (X, True, True, True, [0], paddle.int64, True)),
    ("unique_consecutive", (IDS, True, True, [], paddle.int64)),
    ("unique_consecutive", (X, True, True, [1], paddle.int64)),
    (
        "logspace",
        (ZERO, THREE, np.array(7, "int32"), THREE, paddle.float32, paddle.CPUPlace()),
    ),
    ("fractional_max_pool2d", (IMAGE, [3, 3], [0, 0], 0.3, True)),
    ("fractional_max_pool3d", (random(2, 3, 5, 7, 6), [3, 3, 2], [2, 2, 2], 0.3, True)),
    ("hsigmoid_loss", (X, np.array([[0], [4], [6]]), random(6, 5, seed=1), random(6, 1, seed=2), None, None, 7, False)),
    (
        "interp_antialias",
        (IMAGE, None, None, None, "NCHW", -1, 4, 3, [], "bilinear", False, 0),
    ),
    ("viterbi_decode", (random(3, 4, 5), random(5, 5, seed=1), np.array([4, 1, 3]), True)),
    *((name, (X, [1], False, True, 1.0)) for name in ("var", "std")),
    *((name, (IMAGE, [], True, True, 0.0)) for name in ("var", "std")),
    ("variance", (X, [0], True)),
    ("shuffle_channel", (IMAGE, 2)),
    ("partial_sum", ([X, random(3, 5, seed=1)], 1, 2)),
    ("full_batch_size_like", (X, [-1, 4], paddle.float32, 1.5, 0, 0, paddle.CPUPlace())),
    (
        "uniform_random_batch_size_like",
        (X, [-1, 4], 0, 0, -1.0, 2.0, 0, 0, 0, 0.0, paddle.float32),
    ),
    ("range_v2", (ZERO, THREE, np.array(0.75, "float32"), paddle.float32, paddle.CPUPlace())),
    *(
        ("range_v2", (*(np.array(n, str(dtype)[7:]) for n in (7, -3, -2)), dtype, paddle.CPUPlace()))
        for dtype in (paddle.int32, paddle.int64)
    ),
    ("dequantize_abs_max", (np.arange(-6, 6, dtype="int8").reshape(3, 4), 2 * ONE, 127.0)),
    ("dequantize_log", (np.arange(-60, 60, 10, dtype="int8").reshape(3, 4), random(128))),
    ("fake_channel_wise_dequantize_max_abs", (X, [random(5, low=0.5)], [8], 1, 1)),
    ("fake_channel_wise_dequantize_max_abs", (IMAGE, [random(4, low=0.5), ONE], [8, 6], 0, 1)),
    ("fake_quantize_range_abs_max", (X, ONE, np.array([3]), 5, 8, True, 0)),
    ("ftrl", (X, POSITIVE, random(3, 5, seed=1), random(3, 5, seed=2), ONE, 0.1, 0.2, -0.5)),
    ("decayed_adagrad", (X, random(3, 5, seed=1), POSITIVE, ONE, 0.95, 1e-6)),
    ("stft", (random(2, 40), random(8, low=0.5), 8, 3, False, True)),
    ("stft", (random(3, 21), random(6, low=0.5), 6, 5, True, False)),
    (
        "yolo_loss",
        (IMAGE_OF_HEAD, BOXES, LABELS, SCORES, [10, 13, 16, 30, 33, 23, 30, 61], [1, 3], 2, 0.3, 8, True, 1.1),
    ),
    ("edit_distance", (indices(4, 5, high=3), indices(4, 6, high=3, seed=1), np.array([5, 0, 3, 4]), FOUR, False)),
    ("edit_distance", (indices(4, 5, high=3), indices(4, 6, high=3, seed=1), np.array([5, 0, 3, 4]), FOUR, True)),
    ("auc", (PROBABILITIES[:, :2], np.array([[1], [0], [1]]), *COUNTS_OF_BUCKETS, None, "ROC", 15, 0)),
    ("auc", (PROBABILITIES[:, :2], np.array([[1], [0], [1]]), *COUNTS_OF_STEPS, None, "ROC", 15, 2)),
    (
        "warprnnt",
        (LOGARITHMS, np.array([[1, 2], [3, 1]], "int32"), np.array([4, 3], "int32"), np.array([2, 1], "int32"), 0, 0.1),
    ),
    ("reindex_graph", (np.array([0, 1, 2]), NEIGHBORS, np.array([2, 3, 2], "int32"), None, None)),
    ("graph_sample_neighbors", (*GRAPH, np.array([0, 2, 1]), np.arange(7), None, 9, True, False)),
    ("weighted_sample_neighbors", (*GRAPH, random(7, low=0.5), np.array([0, 2, 1]), np.arange(7), 9, True)),
    ("graph_khop_sampler", (*GRAPH, np.array([0, 2]), np.arange(7), [9, 9], True)),
    ("embedding_with_scaled_gradient", (IDS, random(6, 3), -1)),
    ("embedding_with_scaled_gradient", (IDS, random(6, 3), 1)),
    ("top_p_sampling", (PROBABILITIES, random(3, low=0.3, high=0.9), None, None, -1, 2, "truncated")),
    (
        "warpctc",
        (random(6, 2, 5), np.array([[1, 2, 2], [3, 1, 0]], "int32"), np.array([6, 6]), np.array([3, 2]), 0, False),
    ),
]


def put(x: Any, index: Any, value: Any) -> Any:
    changed = x * 1
    changed[index] = value
    return changed


def lstm(x: Any, *weights: Any) -> Any:
    state = paddle.zeros([1, 2, 3], x.dtype)
    return list(
        paddle._C_ops.rnn(
            x, [state, state], list(weights), None, paddle.zeros([1], "uint8"), 0.0, False, 4, 3, 1, "LSTM", 0, True
        )[:1]
    )


#: Functions: a name, the function, its inputs, whether gradients are compared.
FUNCTIONS: list[tuple[str, Callable[..., Any], tuple[Array, ...], bool]] = [
    ("rows of an index", lambda x, i: x[i], (X, np.array([0, 2])), True),
    ("rows of two indices", lambda x, i: x[i, i], (X, np.array([0, 2])), True),
    ("rows of a mask", lambda x, m: x[m], (X, MASK), True),
    ("a number for rows", lambda x, i: put(x, i, 1.5), (X, np.array([0, 2])), True),
    ("numbers for rows", lambda x, i, v: put(x, i, v), (X, np.array([0, 2]), random(2, 5)), True),
    ("numbers for a mask", lambda x, m: put(x, m, 0.5), (X, MASK), True),
    ("a number for a slice", lambda x: put(x, (slice(1, 3), 2), 0.5), (X,), True),
    ("numbers for a slice", lambda x, v: put(x, (slice(1, 3), 2), v), (X, random(2)), True),
    ("a sum of many", lambda x, y: paddle.add_n([x * x, x * y, x + y]), (X, random(3, 5, seed=1)), True),
    (
        "LSTM",
        lstm,
        (random(4, 2, 4), random(12, 4), random(12, 3, seed=1), random(12, seed=2), random(12, seed=3)),
        True,
    ),
    ("sparse rows of an embedding", lambda w, i: F.embedding(i, w, sparse=False), (random(6, 3), IDS), True),
    ("a condition", lambda x: paddle.nonzero(x > 0), (X,), False),
    ("batch norm in inference", lambda x, m, v: F.batch_norm(x, m, v), (IMAGE, random(4), random(4, low=0.5)), False),
]

AXES = {"axis": 1}
CUBE, VECTOR = random(2, 3, 4, low=0.5), random(3, low=0.5, seed=2)
#: Ops of programs that were saved long ago: type, inputs, attributes, output (rows of old_programs.py).
OLD_OPS: list[tuple[str, dict[str, Array], dict[str, Any], str]] = [
    *(
        (f"elementwise_{name}", {"X": CUBE, "Y": VECTOR}, AXES, "Out")
        for name in ("add", "sub", "mul", "div", "max", "min", "pow", "mod", "floordiv")
    ),
    *(
        (name, {"X": CUBE, "Y": VECTOR}, AXES, "Out")
        for name in ("equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal")
    ),
]
