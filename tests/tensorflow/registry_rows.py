"""The values with which ops are called in test_registry.py, by the op's name."""

from __future__ import annotations

from typing import Any

import numpy as np
from compare import random
from registry import Call, call

X = random(2, 3, 4)
Y = random(2, 3, 4, seed=1)
IMAGES = random(2, 7, 6, 3, seed=2)
VOLUMES, FILTER = random(2, 4, 5, 4, 2), random(2, 2, 2, 2, 4, seed=1)
MATRICES = random(2, 4, 4, seed=3) + 4 * np.eye(4)
IDS = np.array([0, 0, 1, 3, 3, 4])
INDICES = np.array([2, 0, 1, 1, 4, 3])
ROWS = random(5, 3, seed=4)
PLACES = np.array([[0, 2], [1, 0], [1, 3], [3, 1]])
SHAPE = np.array([4, 4])
VALUES = random(4, seed=5)
WINDOW: dict[str, Any] = {"ksize": [1, 3, 2, 1], "strides": [1, 2, 2, 1]}
SEQUENCE = {"seq_dim": 1, "batch_dim": 0}


def _pooled(**attributes: Any) -> list[Call]:
    return [call(IMAGES, padding=padding, **attributes) for padding in ("SAME", "VALID")]


def _fft(rank: int) -> list[Call]:
    return [call(random(2, 3, 4, 6)), call(random(*(5, 6, 3)[3 - rank :], seed=6)), call(np.zeros((0, 3, 4, 6)))]


def _rfft(lengths: list[int]) -> list[Call]:
    return [call(random(2, 4, 5, 6), lengths), call(np.zeros((2, 0, 4, 5, 6)), lengths)]


def _with_segments(count: int | None = None) -> list[Call]:
    counts = [] if count is None else [count]
    return [
        call(ROWS, INDICES, IDS, *counts),
        call(ROWS[:, 0], INDICES, IDS, *counts),
        call(ROWS, [], [], *counts, smooth=False),
    ]  # the CPU's gradient of nothing is what memory held


def _segments_grad() -> list[Call]:
    return [call(random(5, 3, seed=7), INDICES, IDS, 6)]


def _each(ops: str, *rows: Call) -> dict[str, list[Call]]:
    """The same rows for several ops."""
    return {op: list(rows) for op in ops.split()}


def _lstm(*leading: int, tolerance: float = 1, **attributes: Any) -> Call:
    """A cell of four units on three inputs, with or without steps in front."""
    x = random(*leading, 2, 3, seed=11)
    states = [random(2, 4, seed=12), random(2, 4, seed=13) / 2]
    weights = [random(7, 16, seed=14) / 2, *(random(4, seed=15 + i) / 2 for i in range(3)), random(16, seed=18)]
    count = [leading[0]] if leading else []
    return call(*count, x, *states, *weights, tolerance=tolerance, **attributes)


def _lstm_grad(*leading: int, **attributes: Any) -> Call:
    shape = (*leading, 2, 4)
    gates = [(random(*shape, seed=21 + i) + 2) / 4 for i in range(3)]
    states = [random(*shape, seed=24 + i) / 2 for i in range(3)]
    results = [gates[0], states[0], gates[1], gates[2], states[1], states[2]]
    outputs = [random(*shape, seed=27) / 2] if leading else []
    gradients = [random(*shape, seed=28 + i) for i in range(2)]
    return call(*_lstm(*leading).inputs, *results, *outputs, *gradients, tolerance=4, smooth=False, **attributes)


def _lstms(**attributes: Any) -> list[Call]:
    return [
        _lstm(4, tolerance=4, use_peephole=peephole, cell_clip=clip, **attributes)
        for peephole, clip in ((True, 0.5), (False, -1.0))
    ]


_GRU = (random(2, 3, seed=31), random(2, 4, seed=32) / 2, random(7, 8, seed=33) / 2, random(7, 4, seed=34) / 2)
_GRU_BIAS = (random(8, seed=35), random(4, seed=36))


def _quantized(*bits: int, **attributes: Any) -> list[Call]:
    more = {} if bits else {"num_bits": 6}
    ranges = (
        [call(X, [-1.0, 0.0, -3.0], [0.5, 2.0, 1.0], *bits, range_given=True, axis=1, **attributes)] if bits else []
    )
    return [
        *ranges,
        call(X, -1.5, 1.0, *bits, range_given=True, **attributes, **more),
        call(X, -1.5, 1.0, *bits, range_given=False, narrow_range=True, **attributes, **more),
        call(X, 0.0, 1.5, *bits, range_given=True, signed_input=False, **attributes, **more),
        call(X, [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], *bits, range_given=False, axis=1, **attributes, **more),
    ]


UNARY = call(X)
BINARY = [call(X, Y), call(X, Y[:1, :, :1])]
POSITIVE = call(np.abs(X) + 0.1)
UNIT = call(X / 2.1)

ROWS_OF: dict[str, list[Call]] = {
    # complex numbers
    **_each("Real Imag Angle ComplexAbs Conj", UNARY),
    "Complex": [call(X, Y), call(X, Y[:1])],
    "ConjugateTranspose": [call(X, [2, 0, 1])],
    **_each("Neg Square Exp Expm1 Sin Cos Sinh Cosh Tanh Sigmoid Sign Abs Asinh", UNARY),
    **_each("Log Log1p Sqrt Rsqrt Reciprocal Inv Tan", POSITIVE),
    **_each("Asin Acos Atan Atanh", UNIT),
    "Acosh": [call(np.abs(X) + 1.1)],
    **dict.fromkeys(("Add", "AddV2", "Sub", "Mul", "MulNoNan", "Xlogy"), BINARY),
    **_each("Div RealDiv DivNoNan Xdivy Xlog1py", call(X, np.abs(Y) + 0.5)),
    "SquaredDifference": BINARY,
    "Pow": [call(np.abs(X) + 0.5, np.abs(Y), tolerance=4)],
    **_each("Equal NotEqual", call(np.rint(X), np.rint(Y))),
    **_each("TanhGrad SigmoidGrad SqrtGrad RsqrtGrad ReciprocalGrad InvGrad", call(np.abs(X) + 0.3, Y)),
    "AddN": [call([X, Y, X])],
    "ApproximateEqual": [call(X, X + np.where(Y > 0, 0.1, 0.3), tolerance=1.0)],
    **_each("Sum Mean Prod", call(X, [0, 2]), call(X, 1, keep_dims=True), call(X, [])),
    **_each("Cumsum Cumprod", call(X, 1), call(X, -1, exclusive=True, reverse=True)),
    "MatMul": [call(X[0], Y[0], transpose_b=True)],
    **_each("BatchMatMul BatchMatMulV2", call(X, Y, adj_y=True), call(X, Y, adj_x=True)),
    "BiasAdd": [call(X, VALUES)],
    "BiasAddV1": [call(X, VALUES)],
    "BiasAddGrad": [call(X)],
    "Select": [call(X > 0, X, Y), call(X[:, 0, 0] > 0, X, Y)],
    "SelectV2": [call(X[:, :1] > 0, X, Y)],
    "Where": [call(np.rint(X / 2))],
    # Fourier transforms
    **{f"{name}{suffix}": _fft(rank) for rank, suffix in ((1, ""), (2, "2D"), (3, "3D")) for name in ("FFT", "IFFT")},
    **{f"RFFT{suffix}": _rfft(n) for suffix, n in (("", [5]), ("2D", [5, 6]), ("3D", [3, 4, 6]))},
    **{f"IRFFT{suffix}": _rfft(n) for suffix, n in (("", [7]), ("2D", [5, 6]), ("3D", [3, 4, 10]))},
    # blocks and padding
    "SpaceToBatchND": [
        call(IMAGES, [2, 3], [[1, 0], [2, 1]]),
        call(IMAGES, [7], [[0, 0]]),
        call(IMAGES, [1, 2, 3], [[0, 0], [0, 0], [1, 2]]),
        call(IMAGES, np.zeros(0, np.int64), np.zeros((0, 2), np.int64)),
    ],
    "BatchToSpaceND": [
        call(random(12, 3, 2, 2), [2, 3], [[1, 0], [2, 1]]),
        call(random(4, 3), [2], [[0, 0]]),
        call(random(4, 3, 2), [2, 1], [[0, 6], [0, 0]]),
    ],
    "SpaceToBatch": [call(IMAGES, [[1, 0], [0, 2]], block_size=2)],
    "BatchToSpace": [call(random(8, 3, 2, 2), [[1, 0], [0, 2]], block_size=2)],
    "MirrorPad": [call(X, [[p, 0], [1, 2], [0, 3]], mode=mode) for p, mode in ((1, "REFLECT"), (2, "SYMMETRIC"))],
    "MirrorPadGrad": [call(random(3, 6, 7), [[1, 0], [1, 2], [0, 3]], mode=mode) for mode in ("REFLECT", "SYMMETRIC")],
    # pooling
    "MaxPoolV2": [call(IMAGES, WINDOW["ksize"], WINDOW["strides"], padding=p) for p in ("SAME", "VALID")],
    "MaxPoolWithArgmax": [
        *_pooled(**WINDOW),
        *_pooled(**WINDOW, include_batch_in_index=True),
    ],
    "Dilation2D": [
        call(IMAGES, random(3, 2, 3, seed=8), strides=[1, 2, 1, 1], rates=[1, 1, 2, 1], padding=padding)
        for padding in ("SAME", "VALID")
    ],
    "Conv": [call(IMAGES, random(3, 2, 3, 4), strides=[1, 2, 1, 1], padding=padding) for padding in ("SAME", "VALID")],
    "Conv3DBackpropInput": [call(VOLUMES, FILTER, random(2, 3, 2, 3, 4), strides=[1, 1, 2, 1, 1], padding="VALID")],
    "Conv3DBackpropFilter": [
        call(VOLUMES, FILTER, random(2, 3, 2, 3, 4), strides=[1, 1, 2, 1, 1], padding="VALID", tolerance=4)
    ],
    "Einsum": [call([X, Y], equation="abc,abd->cd", tolerance=4)],
    "Range": [call(1.0, 7.0, 0.75), call(3.0, -3.0, -1.0)],
    "LRN": [call(IMAGES, depth_radius=1, alpha=0.3), call(IMAGES)],
    # indexing
    "ScatterNd": [call([[1], [0], [1]], random(3, 4), [5, 4])],
    "ScatterNdNonAliasingAdd": [call(X, [[1], [0], [1]], random(3, 3, 4))],
    **_each(
        "TensorScatterAdd TensorScatterSub TensorScatterMax TensorScatterMin", call(X, [[1], [0], [1]], random(3, 3, 4))
    ),
    "TensorScatterUpdate": [call(X, [[1, 2], [0, 0]], random(2, 4))],
    "TensorStridedSliceUpdate": [call(X, [0, 1, 0], [2, 3, 4], [1, 1, 2], random(2, 2, 2))],
    "OneHot": [call([[0, 2], [1, 9]], 4, 2.0, -1.0)],
    **_each("UnsortedSegmentSum UnsortedSegmentProd", call(X, [1, 1], 3)),
    "DynamicPartition": [
        call(X, [1, 0], num_partitions=2),
        call(ROWS, [2, 0, 2, 0, 0], num_partitions=4),
        call(X, [[0, 1, 1], [2, 1, 0]], num_partitions=3),
        call(ROWS[:0], np.zeros(0, np.int64), num_partitions=2),
    ],
    "DynamicStitch": [
        call([[0, 2], [1, 0]], [ROWS[:2], ROWS[2:4]]),
        call([3, [[0, 1], [4, 2]]], [ROWS[0], X[:, :2, :3]]),
    ],
    **_each("Unique UniqueWithCounts", call([4, 1, 4, 0, 1, 4, 7]), call(np.zeros(0, np.int64))),
    "ListDiff": [
        call([4, 1, 4, 0, 7], [1, 7, 2]),
        call([4, 1], np.zeros(0, np.int64)),
        call(np.zeros(0, np.int64), [1]),
    ],
    **_each("UniqueV2 UniqueWithCountsV2", call([4, 1, 4, 0, 1, 4, 7], np.zeros(0, np.int64))),
    "ReverseSequence": [call(X, [3, 1], **SEQUENCE), call(X, [2, 0, 4], seq_dim=2, batch_dim=1)],
    "InplaceUpdate": [call(ROWS, [3, 1], random(2, 3))],
    "InplaceAdd": [call(ROWS, [3, -1], random(2, 3))],
    "InplaceSub": [call(ROWS, [3, 3], random(2, 3))],
    "DeepCopy": [call(X)],
    # diagonals and matrices
    "Diag": [call(VALUES), call(X[0])],
    "DiagPart": [call(random(4, 4)), call(random(2, 3, 2, 3)), call(2.0)],
    "MatrixBandPart": [call(MATRICES, 1, -1), call(MATRICES, 0, 2)],
    "TridiagonalMatMul": [call(random(2, 1, 5), random(2, 1, 5, seed=1), random(2, 1, 5, seed=2), random(2, 5, 3))],
    "TridiagonalSolve": [call(random(2, 3, 5) + np.array([[0], [4], [0]]), random(2, 5, 3), tolerance=10)],
    "Cross": [call(random(2, 4, 3), random(2, 4, 3, seed=1))],
    # counts and checks
    "Bincount": [call([1, 2, 2, 9, 0], 5, random(5)), call([1, 2, 2, 9, 0], 5, np.zeros(0))],
    "DenseBincount": [
        call([[1, 2, 2], [9, 0, 1]], 5, random(2, 3), binary_output=False),
        call([[1, 2, 2], [9, 0, 1]], 5, np.zeros(0), binary_output=True),
        call([1, 2, 2, 9, 0], 5, np.zeros(0), binary_output=True),
        call([1, 2, 2, 9, 0], 5, random(5), binary_output=False),
    ],
    # orders of axes
    "DataFormatDimMap": [
        call([[0, 3], [-1, 2], [1, -4]], src_format="NHWC", dst_format="NCHW"),
        call([0, 1, 2, 3, 4, -5, -1], src_format="NDHWC", dst_format="NCDHW"),
        call(1, src_format="NHWC", dst_format="HWNC"),
        call(np.zeros((0, 2), np.int64), src_format="NHWC", dst_format="NCHW"),
    ],
    "DataFormatVecPermute": [
        call([7, 8, 9, 5], src_format="NHWC", dst_format="NCHW"),
        call([[7, 8], [9, 5], [1, 2], [3, 4], [0, 6]], src_format="NCDHW", dst_format="DHWNC"),
        call([7, 8], src_format="NHWC", dst_format="NCWH"),
        call([[1, 2], [3, 4]], src_format="NCWH", dst_format="NHWC"),
    ],
    "Bucketize": [call(4 * X, boundaries=[-2.0, 0.0, 1.5, 3.0]), call(X, boundaries=[])],
    "HistogramFixedWidth": [call(X, [-1, 2], 5), call(np.zeros(0), [0, 1], 3)],
    **_each("CheckNumerics CheckNumericsV2", call(X, message="checked")),
    "DebugNumericSummaryV2": [
        call(values, tensor_debug_mode=mode, tensor_id=7)
        for mode in (2, 3, 4, 5)
        for values in (np.rint(X), np.array([1.0, np.nan, np.inf, -np.inf, -3, 0, 0]))
    ],
    # sparse tensors
    "SparseSegmentSum": _with_segments(),
    "SparseSegmentMean": _with_segments(),
    "SparseSegmentSqrtN": _with_segments(),
    "SparseSegmentSumWithNumSegments": _with_segments(7),
    "SparseSegmentMeanWithNumSegments": _with_segments(7),
    "SparseSegmentSqrtNWithNumSegments": _with_segments(7),
    **dict.fromkeys(
        [f"SparseSegment{mean}Grad{version}" for mean in ("Sum", "Mean", "SqrtN") for version in ("", "V2")],
        _segments_grad(),
    ),
    "SparseToDense": [
        call(PLACES, SHAPE, VALUES, 0.5),
        call([1, 3], [5], 2.0, 1.0, smooth=False),  # TensorFlow's gradient takes matrices
        call(3, [5], 2.0, 1.0, smooth=False),
    ],
    "SparseReorder": [call(PLACES[[2, 0, 3, 1]], VALUES, SHAPE)],
    "SparseReshape": [call(PLACES, SHAPE, [2, -1]), call(PLACES, SHAPE, [2, 2, 4])],
    "SparseSlice": [
        call(PLACES, VALUES, SHAPE, [1, 0], [2, 3], smooth=False),
        call(PLACES, VALUES, SHAPE, [0, 0], [1, 1], smooth=False),
    ],
    "SparseConcat": [
        call([PLACES, PLACES[:3]], [VALUES, VALUES[1:]], [SHAPE, [4, 7]], concat_dim=1),
        call([PLACES, PLACES[:0]], [VALUES, VALUES[:0]], [SHAPE, [2, 4]], concat_dim=-2),
    ],
    "SparseSplit": [call(axis, PLACES, VALUES, SHAPE, num_split=parts) for axis, parts in ((0, 2), (1, 3))],
    "SparseSliceGrad": [call(VALUES[:2], PLACES, [1, 0], [[0, 0], [2, 1]])],
    "SparseFillEmptyRows": [call(PLACES, VALUES, [5, 4], 0.5), call(np.zeros((0, 2), np.int64), VALUES[:0], [2, 4], 1)],
    "RaggedFillEmptyRows": [call([0, 1, 1, 3], VALUES, 5, 0.5)],
    **_each("SparseFillEmptyRowsGrad RaggedFillEmptyRowsGrad", call([1, 0, 3], random(5)), call([], random(2))),
    "Reverse": [call(X, [True, False, True])],
    # special functions, and bits
    **_each("BesselJ0 BesselJ1 FresnelSin FresnelCos Dawsn", call(3 * X), call([0.0, -0.0, 9.5, -20.0, 30.0])),
    **_each(
        "BesselY0 BesselY1 BesselK0 BesselK0e BesselK1 BesselK1e",
        call(np.abs(3 * X) + 0.1),
        call([9.5, 20], smooth=False),
    ),
    "Spence": [call(np.abs(3 * X) + 0.1), call([1.0, 0.0, 9.5, 20.0, -1.0], smooth=False)],
    "Expint": [call(np.abs(2 * X) + 0.5), call([0.2, 0.0, -3.0, 10.0], smooth=False)],
    "Betainc": [
        call(np.abs(X) + 0.2, np.abs(Y) + 0.2, np.abs(X) / 2.5, tolerance=10),
        call(2.0, 3.0, np.abs(X) / 2.5, tolerance=10),
    ],
    "PopulationCount": [call(20 * X)],
    "AdjustContrast": [call(IMAGES, 1.7, -1.0, 2.5, smooth=False)],
    # sequences
    "LSTMBlockCell": [
        _lstm(use_peephole=True, cell_clip=0.4, smooth=False, tolerance=4),
        _lstm(use_peephole=False, forget_bias=0.5, smooth=False, tolerance=4),
    ],
    "LSTMBlockCellGrad": [_lstm_grad(use_peephole=peephole) for peephole in (True, False)],
    "BlockLSTM": _lstms(forget_bias=0.75),
    "BlockLSTMV2": _lstms(),
    **_each("BlockLSTMGrad BlockLSTMGradV2", *(_lstm_grad(4, use_peephole=peephole) for peephole in (True, False))),
    "GRUBlockCell": [call(*_GRU, *_GRU_BIAS, tolerance=4, smooth=False)],
    "GRUBlockCellGrad": [
        call(
            *_GRU,
            *_GRU_BIAS,
            *((random(2, 4, seed=37 + i) + 2) / 4 for i in range(2)),
            random(2, 4, seed=39) / 2,
            random(2, 4, seed=40),
            tolerance=4,
            smooth=False,
        )
    ],
    # quantization
    "QuantizeAndDequantize": [
        call(X, range_given=True, input_min=-1.0, input_max=1.5, num_bits=6),
        call(X, range_given=False, signed_input=False),
    ],
    **_each("QuantizeAndDequantizeV2 QuantizeAndDequantizeV4", *_quantized(), *_quantized(round_mode="HALF_UP")),
    "QuantizeAndDequantizeV3": _quantized(6),
    "QuantizeAndDequantizeV4Grad": [
        call(Y, X, -1.0, 1.5, smooth=False),
        call(Y, X, [-1.0, 0.0, -3.0], [0.5, 2.0, 1.0], axis=1, smooth=False),
    ],
}
