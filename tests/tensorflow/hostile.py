"""Hostile calls of every op that has a kernel of ours, each on TensorFlow's CPU and on the device: sizes, shapes and
attributes that are negative, zero, overflowing, of the wrong rank, duplicate or empty.

A program for test_hostile.py: `python hostile.py FIRST [EVERY [OP]]` runs the cases from number FIRST on and writes a
line of JSON before each half of a case and one after it, so that its reader knows what ended the process. Of the
hostile cases it takes every EVERY-th, and with an OP those of the ops from that name on.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import re
import resource
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import unihal
from compare import CPU, DEVICE
from tensorflow.python.framework import op_def_registry

Arguments = dict[str, Any]


@dataclass
class Variable:
    """A resource variable, made anew for each call; what the call leaves in it is part of the result."""

    value: np.ndarray


def reals(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(0.1, 0.9, shape).astype("float32")


def ints(*values: Any, dtype: str = "int32") -> np.ndarray:
    return np.array(values, dtype)


def scalar(value: float, dtype: str = "int32") -> np.ndarray:
    return np.array(value, dtype)


IMAGE = reals(1, 4, 4, 2)
VOLUME = reals(1, 3, 3, 3, 2)
ROWS = reals(3, 4)
SHAPE = ints(2, 3)
KEY, COUNTER = np.array([7], "uint64"), np.array([1, 2], "uint64")
SLICE = {"begin": ints(0, 1), "end": ints(2, 4), "strides": ints(1, 2)}
SLICE |= {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 0}
WINDOW_2D = {"strides": [1, 2, 2, 1], "padding": "SAME"}
WINDOW_3D = {"strides": [1, 2, 2, 2, 1], "padding": "SAME"}
POOL_2D = WINDOW_2D | {"ksize": [1, 2, 2, 1]}
POOL_3D = WINDOW_3D | {"ksize": [1, 2, 2, 2, 1]}
BOXES = {
    "boxes": np.array([[0, 0.25, 1, 0.75], [0.5, 0.5, 0, 1]], "float32"),
    "box_ind": np.zeros(2, "int32"),
    "method": "bilinear",
}
SUPPRESSED = {
    "boxes": np.array([[0, 0, 2, 2], [0, 1, 2, 3], [0, 0, 2, 1.75]], "float32"),
    "scores": np.array([0.5, 0.75, 0.25], "float32"),
    "max_output_size": scalar(2, "int32"),
    "iou_threshold": scalar(0.5, "float32"),
}
WARPED = {
    "transforms": np.array([[0.8, -0.3, 0.5, 0.2, 0.9, -0.25, 0.01, 0]], "float32"),
    "output_shape": ints(3, 5),
    "interpolation": "BILINEAR",
    "fill_mode": "CONSTANT",
}
MOVED = {
    "scale": np.array([0.75, 1.25], "float32"),
    "translation": np.array([0.5, -0.25], "float32"),
    "kernel_type": "triangle",
    "antialias": True,
}
PIXELS = {"align_corners": False, "half_pixel_centers": True}
STATISTICS = {name: reals(2) for name in ("scale", "offset", "mean", "variance")}
GRADIENT = {
    "y_backprop": IMAGE,
    "x": IMAGE,
    "scale": reals(2),
    "reserve_space_1": reals(2),
    "reserve_space_2": reals(2),
    "epsilon": 1e-3,
    "is_training": True,
}
STEP = {"lr": scalar(0.1, "float32"), "grad": ROWS, "use_locking": False}
INDICES = ints(2, 0, dtype="int64")
POINTS = ints([0], [2], dtype="int64")
STATE = np.arange(3, dtype="int64")


def reductions() -> dict[str, list[Arguments]]:
    names = ("Sum", "Mean", "Prod", "Max", "Min", "EuclideanNorm")
    table = {name: [{"input": reals(2, 3, 2), "axis": ints(0, 2), "keep_dims": False}] for name in names}
    return table | {
        name: [{"input": reals(2, 3) > 0.5, "axis": ints(1), "keep_dims": False}] for name in ("All", "Any")
    }


def randoms() -> dict[str, list[Arguments]]:
    table: dict[str, list[Arguments]] = {}
    limits = {"minval": scalar(-3), "maxval": scalar(5)}
    for name in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal"):
        table[name] = [{"shape": SHAPE, "dtype": tf.float32, "seed": 3, "seed2": 4}]
    table["RandomUniformInt"] = [{"shape": SHAPE, "seed": 3, "seed2": 4} | limits]
    seeded = {"shape": SHAPE, "seed": ints(1, 2)}
    keyed = {"shape": SHAPE, "key": KEY, "counter": COUNTER, "alg": scalar(1)}
    stateful = {"resource": Variable(STATE), "algorithm": scalar(1, "int64"), "shape": ints(2, 3, dtype="int64")}
    kinds = {"Uniform": tf.float32, "Normal": tf.float32, "UniformFullInt": tf.uint32, "UniformInt": None}
    for kind, dtype in kinds.items():
        extra = limits if dtype is None else {"dtype": dtype}
        table[f"StatelessRandom{kind}"] = [seeded | extra]
        table[f"StatelessRandom{kind}V2"] = [keyed | extra]
    table["StatelessTruncatedNormal"] = [seeded | {"dtype": tf.float32}]
    table["StatelessTruncatedNormalV2"] = [keyed | {"dtype": tf.float32}]
    for name in ("StatefulUniform", "StatefulStandardNormalV2", "StatefulTruncatedNormal"):
        table[name] = [stateful | {"dtype": tf.float32}]
    table["StatefulUniformFullInt"] = [stateful | {"dtype": tf.uint32}]
    table["StatefulUniformInt"] = [stateful | limits]
    table["RngSkip"] = [{"resource": Variable(STATE), "algorithm": scalar(1, "int64"), "delta": scalar(5, "int64")}]
    table["RngReadAndSkip"] = [{"resource": Variable(STATE), "alg": scalar(1), "delta": scalar(5, "uint64")}]
    for name in ("StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg"):
        table[name] = [{"seed": ints(1, 2)}]
    table["StatelessRandomGetAlg"] = [{}]
    return table


def indexing() -> dict[str, list[Arguments]]:
    updates = reals(2, 4)
    table: dict[str, list[Arguments]] = {
        "Gather": [{"params": ROWS, "indices": INDICES, "validate_indices": True}],
        "GatherV2": [
            {"params": ROWS, "indices": INDICES, "axis": scalar(1), "batch_dims": 0},
            {"params": ROWS, "indices": ints([0], [1], [2], dtype="int64"), "axis": scalar(1), "batch_dims": 1},
        ],
        "GatherNd": [{"params": ROWS, "indices": POINTS}],
        "ScatterNd": [{"indices": POINTS, "updates": updates, "shape": ints(3, 4, dtype="int64")}],
        "OneHot": [
            {
                "indices": INDICES,
                "depth": scalar(3),
                "on_value": scalar(1, "float32"),
                "off_value": scalar(0, "float32"),
                "axis": -1,
            }
        ],
        "ResourceGather": [{"resource": Variable(ROWS), "indices": INDICES, "dtype": tf.float32, "batch_dims": 0}],
        "ResourceGatherNd": [{"resource": Variable(ROWS), "indices": POINTS, "dtype": tf.float32}],
        "ResourceStridedSliceAssign": [{"ref": Variable(ROWS), "value": reals(2, 2)} | SLICE],
    }
    for name in ("Update", "Add", "Sub", "Max", "Min"):
        table[f"TensorScatter{name}"] = [{"tensor": ROWS, "indices": POINTS, "updates": updates}]
        table[f"ResourceScatterNd{name}"] = [{"ref": Variable(ROWS), "indices": POINTS, "updates": updates}]
    for name in ("Update", "Add", "Sub", "Mul", "Div", "Max", "Min"):
        table[f"ResourceScatter{name}"] = [{"resource": Variable(ROWS), "indices": INDICES, "updates": updates}]
    for name in ("Sum", "Prod", "Max", "Min"):
        table[f"UnsortedSegment{name}"] = [
            {"data": ROWS, "segment_ids": ints(1, 0, 1, dtype="int64"), "num_segments": scalar(2)}
        ]
    return table


def segments() -> dict[str, list[Arguments]]:
    data, ids = {"data": ROWS}, {"segment_ids": ints(0, 0, 1)}
    rows = {"indices": ints(0, 2, 1)} | ids
    gradient = {"grad": reals(2, 4)} | rows
    numbers = {"size": scalar(3, "int64"), "binary_output": False}
    table: dict[str, list[Arguments]] = {
        "Bincount": [{"arr": ints(0, 2, 1), "size": scalar(3), "weights": reals(3)}],
        "DenseBincount": [
            numbers | {"input": ints(0, 2, 1, 2, dtype="int64"), "weights": weights} for weights in (reals(0), reals(4))
        ],
        "ReverseSequence": [{"input": ROWS, "seq_lengths": ints(1, 4, 2), "seq_dim": 1, "batch_dim": 0}],
        "DynamicPartition": [{"data": ROWS, "partitions": ints(0, 1, 0), "num_partitions": 2}],
        "DynamicStitch": [{"indices": [ints(0, 2), ints(1)], "data": [reals(2, 2), reals(1, 2)]}],
        "HistogramFixedWidth": [{"values": ROWS, "value_range": np.float32([0, 1]), "nbins": scalar(4)}],
        "InplaceUpdate": [{"x": ROWS, "i": ints(0, 2), "v": reals(2, 4)}],
    }
    for name in ("Sum", "Mean", "Prod", "Max", "Min"):
        table[f"Segment{name}"] = [data | ids]
    for name in ("Sum", "Mean", "SqrtN"):
        table[f"SparseSegment{name}"] = [data | rows]
        table[f"SparseSegment{name}WithNumSegments"] = [data | rows | {"num_segments": scalar(3)}]
        table[f"SparseSegment{name}Grad"] = [gradient | {"output_dim0": scalar(3)}]
        table[f"SparseSegment{name}GradV2"] = [gradient | {"dense_output_dim0": scalar(3)}]
    return table


def sparse_tensors() -> dict[str, list[Arguments]]:
    places, values, shape = ints([0, 0], [1, 3], [2, 1], dtype="int64"), reals(3), ints(3, 4, dtype="int64")
    tensor = {"indices": places, "values": values, "shape": shape}
    given = {"input_indices": places, "input_shape": shape}
    adjoint = {"adjoint_a": False, "adjoint_b": False}
    zero = {"default_value": scalar(0, "float32")}
    return {
        "SparseTensorDenseMatMul": [
            {"a_indices": places, "a_values": values, "a_shape": shape, "b": reals(4, 2)} | adjoint
        ],
        "SparseToDense": [
            zero
            | {"sparse_indices": places, "output_shape": shape, "sparse_values": values, "validate_indices": checks}
            for checks in (True, False)
        ],
        "SparseReorder": [given | {"input_values": values}],
        "SparseReshape": [given | {"new_shape": ints(2, 6, dtype="int64")}],
        "SparseFillEmptyRows": [zero | {"indices": places, "values": values, "dense_shape": shape}],
        "SparseFillEmptyRowsGrad": [{"reverse_index_map": ints(0, 2, dtype="int64"), "grad_values": values}],
        "RaggedFillEmptyRows": [
            zero | {"value_rowids": ints(0, 2, 2, dtype="int64"), "values": values, "nrows": scalar(4, "int64")}
        ],
        "RaggedFillEmptyRowsGrad": [{"reverse_index_map": ints(0, 2, dtype="int64"), "grad_values": values}],
        "SparseSplit": [tensor | {"split_dim": scalar(1, "int64"), "num_split": 2}],
        "SparseSlice": [tensor | {"start": ints(0, 1, dtype="int64"), "size": ints(2, 3, dtype="int64")}],
        "SparseSliceGrad": [
            {"backprop_val_grad": reals(2), "input_indices": places, "input_start": ints(0, 1, dtype="int64")}
            | {"output_indices": ints([1, 2], [2, 0], dtype="int64")}
        ],
        "SparseConcat": [
            {"indices": [places, places], "values": [values, values], "shapes": [shape, shape], "concat_dim": 0}
        ],
    }


def convolutions() -> dict[str, list[Arguments]]:
    sizes_2d, sizes_3d = ints(1, 4, 4, 2), ints(1, 3, 3, 3, 2)
    dense, dense_sizes = reals(2, 2, 2, 3), ints(2, 2, 2, 3)
    deep, deep_sizes = reals(2, 2, 2, 2, 3), ints(2, 2, 2, 2, 3)
    y_2d, y_3d, y_depthwise = reals(1, 2, 2, 3), reals(1, 2, 2, 2, 3), reals(1, 2, 2, 6)
    more = {"dilations": [1, 1, 1, 1]}
    explicit = more | {"explicit_paddings": []}
    more_3d = {"dilations": [1, 1, 1, 1, 1]}
    padded = {"strides": [1, 2, 2, 1], "padding": "EXPLICIT", "explicit_paddings": [0, 0, 1, 0, 0, 1, 0, 0]}
    return {
        "Conv2D": [
            {"input": IMAGE, "filter": dense} | WINDOW_2D | explicit,
            {"input": IMAGE, "filter": dense} | padded,
        ],
        "Conv2DBackpropInput": [
            {"input_sizes": sizes_2d, "filter": dense, "out_backprop": y_2d} | WINDOW_2D | explicit
        ],
        "Conv2DBackpropFilter": [
            {"input": IMAGE, "filter_sizes": dense_sizes, "out_backprop": y_2d} | WINDOW_2D | explicit
        ],
        "Conv3D": [{"input": VOLUME, "filter": deep} | WINDOW_3D | more_3d],
        "Conv3DBackpropInputV2": [
            {"input_sizes": sizes_3d, "filter": deep, "out_backprop": y_3d} | WINDOW_3D | more_3d
        ],
        "Conv3DBackpropFilterV2": [
            {"input": VOLUME, "filter_sizes": deep_sizes, "out_backprop": y_3d} | WINDOW_3D | more_3d
        ],
        "DepthwiseConv2dNative": [{"input": IMAGE, "filter": dense} | WINDOW_2D | explicit],
        "DepthwiseConv2dNativeBackpropInput": [
            {"input_sizes": sizes_2d, "filter": dense, "out_backprop": y_depthwise} | WINDOW_2D | explicit
        ],
        "DepthwiseConv2dNativeBackpropFilter": [
            {"input": IMAGE, "filter_sizes": dense_sizes, "out_backprop": y_depthwise} | WINDOW_2D | explicit
        ],
        "MaxPool": [
            {"input": IMAGE} | POOL_2D | {"explicit_paddings": []},
            {"input": IMAGE, "ksize": [1, 2, 2, 1]} | padded,
        ],
        "MaxPool3D": [{"input": VOLUME} | POOL_3D],
        "MaxPoolGrad": [
            {
                "orig_input": IMAGE,
                "orig_output": tf.nn.max_pool2d(IMAGE, 2, 2, "SAME").numpy(),
                "grad": reals(1, 2, 2, 2),
                "explicit_paddings": [],
            }
            | POOL_2D
        ],
        "MaxPool3DGrad": [
            {
                "orig_input": VOLUME,
                "orig_output": tf.nn.max_pool3d(VOLUME, 2, 2, "SAME").numpy(),
                "grad": reals(1, 2, 2, 2, 2),
            }
            | POOL_3D
        ],
        "AvgPool": [{"value": IMAGE} | POOL_2D],
        "AvgPool3D": [{"input": VOLUME} | POOL_3D],
        "AvgPoolGrad": [{"orig_input_shape": sizes_2d, "grad": reals(1, 2, 2, 2)} | POOL_2D],
        "AvgPool3DGrad": [{"orig_input_shape": sizes_3d, "grad": reals(1, 2, 2, 2, 2)} | POOL_3D],
        "ResizeBilinear": [{"images": IMAGE, "size": ints(3, 5)} | PIXELS],
        "ResizeNearestNeighbor": [{"images": IMAGE, "size": ints(3, 5)} | PIXELS],
        "ResizeBilinearGrad": [{"grads": reals(1, 3, 5, 2), "original_image": IMAGE} | PIXELS],
        "ResizeNearestNeighborGrad": [{"grads": reals(1, 3, 5, 2), "size": ints(4, 4)} | PIXELS],
        "ResizeBicubic": [{"images": IMAGE, "size": ints(3, 5)} | PIXELS],
        "ResizeBicubicGrad": [{"grads": reals(1, 3, 5, 2), "original_image": IMAGE} | PIXELS],
        "ResizeArea": [{"images": IMAGE, "size": ints(3, 5), "align_corners": False}],
        "ScaleAndTranslate": [{"images": IMAGE, "size": ints(3, 5)} | MOVED],
        "ScaleAndTranslateGrad": [{"grads": reals(1, 3, 5, 2), "original_image": IMAGE} | MOVED],
        **{op: [{"images": reals(2, 3, 4, 3)}] for op in ("RGBToHSV", "HSVToRGB")},
        "AdjustHue": [{"images": reals(2, 3, 4, 3), "delta": scalar(0.25, "float32")}],
        "AdjustSaturation": [{"images": reals(2, 3, 4, 3), "scale": scalar(1.25, "float32")}],
        "AdjustContrastv2": [{"images": IMAGE, "contrast_factor": scalar(1.5, "float32")}],
        "ImageProjectiveTransformV2": [{"images": IMAGE} | WARPED],
        "ImageProjectiveTransformV3": [{"images": IMAGE, "fill_value": scalar(0.5, "float32")} | WARPED],
        "CropAndResize": [{"image": IMAGE, "crop_size": ints(2, 3), "extrapolation_value": 0.5} | BOXES],
        "CropAndResizeGradImage": [
            {"grads": reals(2, 2, 3, 2), "image_size": ints(1, 4, 4, 2), "T": tf.float32} | BOXES
        ],
        "CropAndResizeGradBoxes": [{"grads": reals(2, 2, 3, 2), "image": IMAGE} | BOXES],
        "NonMaxSuppressionV2": [SUPPRESSED],
        "NonMaxSuppressionV3": [SUPPRESSED | {"score_threshold": scalar(0.25, "float32")}],
        "NonMaxSuppressionV4": [
            SUPPRESSED | {"score_threshold": scalar(0.25, "float32"), "pad_to_max_output_size": False}
        ],
        "NonMaxSuppressionV5": [
            SUPPRESSED
            | {name: scalar(value, "float32") for name, value in (("score_threshold", 0.25), ("soft_nms_sigma", 0))}
            | {"pad_to_max_output_size": False}
        ],
        "ExtractImagePatches": [
            {"images": IMAGE, "ksizes": [1, 2, 2, 1], "strides": [1, 1, 2, 1], "rates": [1, 1, 1, 1], "padding": "SAME"}
        ],
        "ExtractVolumePatches": [
            {"input": VOLUME, "ksizes": [1, 2, 2, 1, 1], "strides": [1, 1, 2, 1, 1], "padding": "VALID"}
        ],
        "SpaceToDepth": [{"input": IMAGE, "block_size": 2, "data_format": "NHWC"}],
        "DepthToSpace": [{"input": reals(1, 2, 2, 8), "block_size": 2, "data_format": "NHWC"}],
    }


def movements() -> dict[str, list[Arguments]]:
    square = reals(2, 3, 3)
    aligned = {"align": "RIGHT_LEFT"}
    table: dict[str, list[Arguments]] = {
        "Transpose": [{"x": reals(2, 3, 4), "perm": ints(2, 0, 1)}],
        "Cast": [{"x": ROWS, "DstT": tf.int32}, {"x": ROWS, "DstT": tf.float32}],
        "Fill": [{"dims": SHAPE, "value": scalar(2, "float32")}],
        "Range": [{"start": scalar(1, d), "limit": scalar(9, d), "delta": scalar(2, d)} for d in ("int64", "float32")],
        "Bitcast": [{"input": ROWS, "type": t} for t in (tf.uint8, tf.float64, tf.int32)]
        + [{"input": np.arange(6, dtype="uint16"), "type": t} for t in (tf.quint16, tf.qint16, tf.qint8, tf.quint8)],
        "BroadcastTo": [{"input": reals(1, 3), "shape": ints(2, 3)}],
        "Tile": [{"input": ROWS, "multiples": ints(2, 3)}, {"input": reals(*[2] * 7), "multiples": ints(*[2] * 7)}],
        "ReverseV2": [{"tensor": ROWS, "axis": ints(0, 1)}],
        "DataFormatDimMap": [{"x": ints(0, -1, 3), "src_format": "NHWC", "dst_format": "NCHW"}],
        "DataFormatVecPermute": [{"x": ints(1, 2, 3, 4), "src_format": "NHWC", "dst_format": "NCHW"}],
        "Roll": [{"input": ROWS, "shift": ints(1, 2), "axis": ints(0, 1)}],
        "MatrixBandPart": [{"input": square, "num_lower": scalar(1), "num_upper": scalar(0)}],
        "MatrixDiag": [{"diagonal": ROWS}],
        "MatrixDiagPart": [{"input": square}],
        "MatrixSetDiag": [{"input": square, "diagonal": reals(2, 3)}],
        "Pack": [{"values": [ROWS, ROWS + 1], "axis": 1}],
        "Unpack": [{"value": ROWS, "num": 3, "axis": 0}],
        "Concat": [{"concat_dim": scalar(1), "values": [ROWS, ROWS + 1]}],
        "ConcatV2": [{"values": [ROWS, ROWS + 1], "axis": scalar(1)}],
        "Split": [{"axis": scalar(1), "value": ROWS, "num_split": 2}],
        "SplitV": [{"value": ROWS, "size_splits": ints(1, 3), "axis": scalar(1), "num_split": 2}],
        "Slice": [{"input": ROWS, "begin": ints(0, 1), "size": ints(2, 2)}],
        "StridedSlice": [{"input": ROWS} | SLICE],
        "StridedSliceGrad": [{"shape": ints(3, 4), "dy": reals(2, 2)} | SLICE],
        "Pad": [{"input": ROWS, "paddings": ints([1, 0], [0, 2])}],
        "PadV2": [{"input": ROWS, "paddings": ints([1, 0], [0, 2]), "constant_values": scalar(5, "float32")}],
        "Select": [
            {"condition": ROWS > 0.5, "x": ROWS, "y": ROWS + 1},
            {"condition": ROWS[:, 0] > 0.5, "x": ROWS, "y": ROWS + 1},
        ],
    }
    diagonals = [ints(0), ints(1), ints(-1, 1), ints(-1, 0)]
    several = {1: reals(2, 3), 2: reals(2, 2, 3), 3: reals(2, 3, 3)}
    for version, align in (("V2", {}), ("V3", aligned)):
        padding = {"padding_value": scalar(9, "float32")}
        table[f"MatrixDiagPart{version}"] = [{"input": reals(2, 3, 4), "k": k} | padding | align for k in diagonals]
        table[f"MatrixDiag{version}"] = [
            {"diagonal": several[k[-1] - k[0] + 1], "k": k, "num_rows": scalar(-1), "num_cols": scalar(-1)}
            | padding
            | align
            for k in diagonals
        ]
        table[f"MatrixSetDiag{version}"] = [
            {"input": reals(2, 3, 4), "diagonal": several[k[-1] - k[0] + 1], "k": k} | align for k in diagonals
        ]
    for align in ("LEFT_LEFT", "LEFT_RIGHT", "RIGHT_RIGHT"):
        for name in ("MatrixDiagPartV3", "MatrixDiagV3", "MatrixSetDiagV3"):
            table[name].append(table[name][2] | {"align": align})
    return table


def products() -> dict[str, list[Arguments]]:
    table: dict[str, list[Arguments]] = {
        "MatMul": [{"a": ROWS, "b": reals(4, 2), "transpose_a": False, "transpose_b": False}],
        "BiasAdd": [{"value": IMAGE, "bias": reals(2), "data_format": "NHWC"}],
        "BiasAddV1": [{"value": ROWS, "bias": reals(4)}],
        "BiasAddGrad": [{"out_backprop": IMAGE, "data_format": "NHWC"}],
        "L2Loss": [{"t": ROWS}],
        "Softmax": [{"logits": ROWS}],
        "LogSoftmax": [{"logits": ROWS}],
        "SoftmaxCrossEntropyWithLogits": [{"features": ROWS, "labels": ROWS}],
        "SparseSoftmaxCrossEntropyWithLogits": [{"features": ROWS, "labels": ints(0, 0, 0)}],
        "TopKV2": [{"input": ROWS, "k": scalar(2), "sorted": True}],
        # What is not sorted is searched in each implementation's own way.
        **{
            op: [{"sorted_inputs": np.sort(ROWS, 1), "values": ROWS, "out_type": t} for t in (tf.int32, tf.int64)]
            for op in ("LowerBound", "UpperBound")
        },
        "NthElement": [{"input": ROWS, "n": scalar(1), "reverse": False}],
        "InTopK": [{"predictions": ROWS, "targets": ints(0, 1, 1), "k": 1}],
        "InTopKV2": [{"predictions": ROWS, "targets": ints(0, 1, 1), "k": scalar(1)}],
        "CumulativeLogsumexp": [{"x": ROWS, "axis": scalar(1), "exclusive": False, "reverse": False}],
        "Cumsum": [{"x": ROWS, "axis": scalar(1), "exclusive": False, "reverse": False}],
        "Cumprod": [{"x": ROWS, "axis": scalar(1), "exclusive": False, "reverse": False}],
        "ArgMax": [{"input": ROWS, "dimension": scalar(1), "output_type": t} for t in (tf.int64, tf.int16, tf.uint16)],
        "ArgMin": [{"input": ROWS, "dimension": scalar(1), "output_type": t} for t in (tf.int64, tf.int32)],
        "AddN": [{"inputs": [ROWS, ROWS + 1, ROWS + 2]}, {"inputs": [ROWS]}],
        "ClipByValue": [
            {"t": ROWS, "clip_value_min": scalar(0.3, "float32"), "clip_value_max": scalar(0.6, "float32")}
        ],
    }
    batched = {"x": reals(2, 3, 4), "y": reals(2, 4, 2), "adj_x": False, "adj_y": False}
    table |= {"BatchMatMul": [batched], "BatchMatMulV2": [batched], "BatchMatMulV3": [batched | {"Tout": tf.float32}]}
    one, two = "ab->a b->", "ab,bc"
    equations = ["ab->ba", "ab->a", "ab->", "aab->ab", "a->aa", "...a->a...", "...a->a", one, two]
    table["Einsum"] = [{"inputs": [reals(3, 3, 4) if e.startswith("aab") else ROWS], "equation": e} for e in equations]
    table["Einsum"].append({"inputs": [reals(3)], "equation": "a->aa"})
    pairs = [
        "ab,bc->ac",
        "ab,bc->ca",
        "ab,cb->ac",
        "ab,ab->",
        "...b,bc->...c",
        "...b,bc->c",
        "ab,bc->aac",
        "ab,bc",
        "ab,bc,cd->ad",
    ]
    table["Einsum"] += [{"inputs": [reals(4, 4), reals(4, 4)], "equation": e} for e in pairs]
    for version in ("", "V2", "V3"):
        norm = {"x": IMAGE, "epsilon": 1e-3, "is_training": True, "data_format": "NHWC"} | STATISTICS
        table[f"FusedBatchNorm{version}"] = [norm, norm | {"is_training": False}]
        third = {"reserve_space_3": np.zeros(0, "float32")} if version == "V3" else {}
        table[f"FusedBatchNormGrad{version}"] = [GRADIENT | third, GRADIENT | third | {"is_training": False}]
    return table


def optimizers() -> dict[str, list[Arguments]]:
    def variables(*names: str) -> Arguments:
        return {name: Variable(ROWS) for name in names}

    def coefficients(*names: str) -> Arguments:
        return {name: scalar(0.5, "float32") for name in names}

    nesterov = {"use_nesterov": False}
    rows = STEP | {"grad": reals(2, 4), "indices": INDICES}
    ftrl = variables("var", "accum", "linear") | rows | coefficients("l1", "l2") | {"lr_power": scalar(-0.5, "float32")}
    assign = {"resource": Variable(ROWS), "value": ROWS + 1}
    adam = coefficients("beta1_power", "beta2_power", "beta1", "beta2", "epsilon") | nesterov
    return {
        "AssignVariableOp": [assign | {"validate_shape": True}],
        "AssignAddVariableOp": [assign],
        "AssignSubVariableOp": [assign],
        "ResourceApplyGradientDescent": [variables("var") | coefficients("alpha") | {"delta": ROWS}],
        "ResourceApplyMomentum": [variables("var", "accum") | STEP | coefficients("momentum") | nesterov],
        "ResourceApplyKerasMomentum": [variables("var", "accum") | STEP | coefficients("momentum") | nesterov],
        "ResourceApplyAdam": [variables("var", "m", "v") | STEP | adam],
        "ResourceApplyRMSProp": [variables("var", "ms", "mom") | STEP | coefficients("rho", "momentum", "epsilon")],
        "ResourceApplyAdagrad": [variables("var", "accum") | STEP | {"update_slots": True}],
        "ResourceApplyAdagradV2": [variables("var", "accum") | STEP | coefficients("epsilon") | {"update_slots": True}],
        "ResourceSparseApplyMomentum": [variables("var", "accum") | rows | coefficients("momentum") | nesterov],
        "ResourceSparseApplyKerasMomentum": [variables("var", "accum") | rows | coefficients("momentum") | nesterov],
        "ResourceSparseApplyAdagrad": [variables("var", "accum") | rows | {"update_slots": True}],
        "ResourceSparseApplyAdagradV2": [variables("var", "accum") | rows | coefficients("epsilon")],
        "ResourceSparseApplyAdadelta": [
            variables("var", "accum", "accum_update") | rows | coefficients("rho", "epsilon")
        ],
        "ResourceSparseApplyRMSProp": [
            variables("var", "ms", "mom") | rows | coefficients("rho", "momentum", "epsilon")
        ],
        "ResourceSparseApplyFtrl": [ftrl],
        "ResourceSparseApplyFtrlV2": [ftrl | coefficients("l2_shrinkage")],
        "ResourceSparseApplyProximalAdagrad": [variables("var", "accum") | rows | coefficients("l1", "l2")],
        "ResourceSparseApplyCenteredRMSProp": [
            variables("var", "mg", "ms", "mom") | rows | coefficients("rho", "momentum", "epsilon")
        ],
        "ResourceSparseApplyProximalGradientDescent": [
            variables("var") | coefficients("alpha", "l1", "l2") | {"grad": reals(2, 4), "indices": INDICES}
        ],
    }


def recurrences() -> dict[str, list[Arguments]]:
    x, state, peephole = reals(2, 3), reals(2, 4), reals(4)
    lstm = {"cs_prev": state, "h_prev": state, "w": reals(7, 16), "wci": peephole, "wcf": peephole, "wco": peephole}
    lstm = lstm | {"b": reals(16), "use_peephole": True}
    gru = {"x": x, "h_prev": state, "w_ru": reals(7, 8), "w_c": reals(7, 4), "b_ru": reals(8), "b_c": peephole}
    results = dict.fromkeys(("i", "cs", "f", "o", "ci", "co", "cs_grad", "h_grad"), state)
    return {
        "LSTMBlockCell": [{"x": x, "cell_clip": 0.5} | lstm],
        "LSTMBlockCellGrad": [{"x": x} | lstm | results],
        "GRUBlockCell": [gru],
        "GRUBlockCellGrad": [gru | dict.fromkeys(("r", "u", "c", "d_h"), state)],
        "CTCLoss": [
            {
                "inputs": reals(4, 2, 5),
                "labels_indices": ints([0, 0], [0, 1], [1, 0], dtype="int64"),
                "labels_values": ints(0, 2, 1),
                "sequence_length": ints(4, 3),
            }
        ],
        "QuantizeAndDequantizeV3": [
            {"input": ROWS, "input_min": scalar(0, "float32"), "input_max": scalar(1, "float32"), "num_bits": scalar(6)}
        ],
        **{
            f"QuantizeAndDequantizeV{version}": [
                {"input": ROWS, "input_min": scalar(0, "float32"), "input_max": scalar(1, "float32"), "num_bits": 6}
                | {"range_given": given, "axis": -1}
                for given in (True, False)
            ]
            for version in (2, 4)
        },
        "QuantizeAndDequantizeV4Grad": [
            {"gradients": ROWS, "input": ROWS, "input_min": reals(4), "input_max": reals(4), "axis": 1}
        ],
    }


TABLES = (
    recurrences,
    reductions,
    randoms,
    indexing,
    segments,
    sparse_tensors,
    convolutions,
    movements,
    products,
    optimizers,
)
BASES: dict[str, list[Arguments]] = {op: bases for table in TABLES for op, bases in table().items()}


def elementwise(op: str, dtypes: list[str]) -> list[Arguments]:
    """Arguments of an op that is not in the table: one array for each input."""
    value = ROWS if "float32" in dtypes else (ROWS > 0.5 if not dtypes else (ROWS * 8 + 1).astype(dtypes[-1]))
    arguments: Arguments = {}
    for argument in op_def_registry.get(op).input_arg:
        arguments[argument.name] = value > 0.5 if argument.name == "condition" else value
    return [arguments]


# Data that is no size, place or index: any state will do.
STATES = {"key", "counter"}
HUGE = {"int32": 2**31 - 1, "int64": 2**62}
# More axes than the ABI has.
DEEP = 12


def part(value: np.ndarray, axis: int, count: int) -> np.ndarray:
    """The first `count` entries along an axis."""
    return value[(slice(None),) * axis + (slice(count),)]


def other_shapes(value: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The array in shapes that its op may not expect."""
    for axis in range(value.ndim):
        yield f"axis {axis} empty", part(value, axis, 0)
        yield f"axis {axis} longer", np.concatenate([value, part(value, axis, 1)], axis)
        yield f"axis {axis} one", part(value, axis, 1)
    yield "an axis more in front", value[np.newaxis]
    yield "an axis more at the end", value[..., np.newaxis]
    if value.size > 0:
        yield "a scalar", value.reshape(-1)[0]
    if value.ndim > 1:
        yield "an axis less", value[0]
    yield "deep in front", value.reshape((1,) * (DEEP - value.ndim) + value.shape)
    yield "deep at the end", value.reshape(value.shape + (1,) * (DEEP - value.ndim))


def other_values(value: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """A size or an axis with entries that it must not have, or must not have twice."""
    hostile = [-1, -2, -7, 0, 1, 13, HUGE[value.dtype.name]]
    for index in np.ndindex(value.shape):
        for entry in hostile:
            changed = value.copy()
            changed[index] = entry
            yield f"{list(index)} = {entry}", changed
    for entry in [*hostile, 2**20]:
        if value.size > 1:
            yield f"all {entry}", np.full_like(value, entry)
    yield "twice", np.concatenate([value.reshape(-1)] * 2)
    yield "no entry", value.reshape(-1)[:0]
    yield "twelve ones", np.ones(DEEP, value.dtype)
    yield "three hundred ones", np.ones(300, value.dtype)


def other_attributes(value: Any, allowed: list[str]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, bool):
        yield f"{not value}", not value
    elif isinstance(value, int):
        for entry in (-7, -2, -1, 0, 1, 2, 3, 13, 2**31 - 1):
            yield f"{entry}", entry
    elif isinstance(value, float):
        for number in (0.0, -1.0):
            yield f"{number}", number
    elif isinstance(value, str):
        for text in allowed:
            yield text, text
    elif isinstance(value, list):
        for i, entry in itertools.product(range(len(value)), (-1, 0, 2, 3, 1000)):
            yield f"[{i}] = {entry}", [*value[:i], entry, *value[i + 1 :]]
        for entry in (-1, 0, 3):
            yield f"all {entry}", [entry] * len(value)
        yield "longer", [*value, 1]
        yield "shorter", value[:-1]
        yield "empty", []


def mutations(op: str, base: Arguments) -> Iterator[tuple[str, Arguments]]:
    allowed = {a.name: [s.decode() for s in a.allowed_values.list.s] for a in op_def_registry.get(op).attr}
    for name, value in base.items():
        if isinstance(value, Variable):
            for label, changed in other_shapes(value.value):
                yield f"{name}: {label}", base | {name: Variable(changed)}
        elif isinstance(value, np.ndarray):
            for label, changed in other_shapes(value):
                yield f"{name}: {label}", base | {name: changed}
            if value.ndim == 0 and value.dtype == np.float32:
                for number in (-1.0, 0.0):
                    yield f"{name} = {number}", base | {name: np.full_like(value, number)}
            if value.dtype.name in HUGE and name not in STATES:
                for label, changed in other_values(value):
                    yield f"{name}: {label}", base | {name: changed}
        elif isinstance(value, list) and isinstance(value[0] if value else 0, np.ndarray):
            for label, changed in other_shapes(value[-1]):
                yield f"{name}[-1]: {label}", base | {name: [*value[:-1], changed]}
            yield f"{name}: one less", base | {name: value[:-1]}
        elif not isinstance(value, tf.DType):
            for label, changed in other_attributes(value, allowed[name]):
                yield f"{name} = {label}", base | {name: changed}
    for where in ("deep in front", "deep at the end"):
        yield f"all {where}", {name: deep(value, where) for name, value in base.items()}
    for axis in (0, 1):
        yield f"axis {axis} empty in all", {name: emptied(value, axis) for name, value in base.items()}


def deep(value: Any, where: str) -> Any:
    """Data with more axes than the ABI has; scalars and what is no data stay."""
    if isinstance(value, list):
        return [deep(v, where) for v in value]
    if isinstance(value, Variable):
        return Variable(deep(value.value, where))
    if not isinstance(value, np.ndarray) or value.ndim == 0 or value.dtype.name in HUGE:
        return value
    return dict(other_shapes(value))[where]


def emptied(value: Any, axis: int) -> Any:
    if isinstance(value, list):
        return [emptied(v, axis) for v in value]
    if isinstance(value, Variable):
        return Variable(emptied(value.value, axis))
    if not isinstance(value, np.ndarray) or value.ndim <= axis or value.dtype.name in HUGE:
        return value
    return part(value, axis, 0)


def cases(coverage: dict[str, list[str]]) -> Iterator[tuple[str, str, Arguments]]:
    """(op, what is hostile, arguments) for all ops of the coverage; the plain call of each first."""
    for op, dtypes in sorted(coverage.items()):
        for i, base in enumerate(BASES.get(op) or elementwise(op, dtypes)):
            yield op, f"base {i}", base
            for label, arguments in mutations(op, base):
                yield op, f"base {i}, {label}", arguments


def call(device: str, op: str, arguments: Arguments) -> tuple[str, Any]:
    """("", results) or (class of the error, its message)."""
    variables: list[tf.Variable] = []

    def materialize(value: Any) -> Any:
        if isinstance(value, Variable):
            with tf.device(device):
                variables.append(tf.Variable(value.value, shape=tf.TensorShape(None)))
            return variables[-1].handle
        if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
            return [materialize(v) for v in value]
        if not isinstance(value, np.ndarray | np.generic):
            return value
        with tf.device(CPU):
            return tf.constant(value)

    try:
        ready = {name: materialize(value) for name, value in arguments.items()}
        with tf.device(device):
            results = tf.nest.flatten(getattr(tf.raw_ops, op)(**ready))
            results += [v.read_value() for v in variables]
        return "", [tf.identity(r) for r in results if isinstance(r, tf.Tensor)]
    except Exception as error:
        return type(error).__name__, str(error)


# So many outputs are specified; the others hold what an implementation likes: the batch norms' reserved space, and
# vectors whose signs are free (test_linear_algebra.py multiplies them back).
UNSPECIFIED = {"FusedBatchNorm": 3, "FusedBatchNormGrad": 3, "Svd": 1, "SelfAdjointEigV2": 1, "Eig": 1}


def difference(op: str, actual: list[tf.Tensor], expected: list[tf.Tensor]) -> str:
    last = next((n for prefix, n in UNSPECIFIED.items() if op.startswith(prefix)), len(expected))
    for a, e in zip(actual[:last], expected[:last], strict=True):
        if a.dtype != e.dtype or a.shape != e.shape:
            return f"{a.dtype.name} {a.shape}, expected {e.dtype.name} {e.shape}"
        if a.dtype.is_quantized:
            a, e = tf.bitcast(a, tf.uint8), tf.bitcast(e, tf.uint8)
        x, y = a.numpy(), e.numpy()
        if a.dtype.is_floating or a.dtype.is_complex:
            # A few units in the last place of float32, and of a sum's largest term.
            scale = max(1.0, float(np.max(np.abs(y[np.isfinite(y)]), initial=0)))
            same = np.allclose(x, y, rtol=2e-5, atol=2e-5 * scale, equal_nan=True)
        else:
            same = np.array_equal(x, y)
        if not same:
            return f"other values: {str(x)[:200]}, expected {str(y)[:200]}"
    return ""


# Errors that say what the CPU's kernels lack, and others need not.
BEYOND_CPU = (
    "CPU implementation",
    "only supports equal length strides",
    "Unhandled input dimensions",
    "not implemented",
    "not yet supported",
    "is not supported yet",
    "does not support dilations",
    "We only handle up to Tensor::dims() up to 8",
)
NO_CPU_KERNEL = ("No registered", "Could not satisfy device specification")


def compare(op: str, arguments: Arguments, actual: tuple[str, Any], expected: tuple[str, Any]) -> str:
    if actual[0] or expected[0]:
        # Where memory gives out first, one looks at its sizes before and one after what else is wrong.
        if actual[0] == expected[0] or (actual[0] and expected[0] == "ResourceExhaustedError"):
            return ""
        if actual[0] == "UnimplementedError" and any(text in actual[1] for text in VARIABLES_ONLY):
            return ""
        excuses = NO_CPU_KERNEL if actual[0] else BEYOND_CPU
        if expected[0] and any(text in expected[1] for text in excuses):
            return ""
        text = [f"{kind}: {result[:300]}" if kind else "no error" for kind, result in (actual, expected)]
        return f"{text[0]}\n    expected {text[1]}"
    with tf.device(CPU):
        return difference(op, actual[1], expected[1])


# Cases that TensorFlow's CPU gets wrong (2.21), or right by chance: there it is not asked, and what counts is that the
# process lives.
CPU_IS_WRONG = {
    r"(LSTM|GRU)BlockCell\w*: base 0, .*": "ends the process, or reads beyond its tensors",
    r"CTCLoss: .*(labels_indices: |inputs: axis 2 empty|in all).*": "ends the process",
    r"(Avg|Max)Pool(3D)?Grad: .*": "reads and writes beyond its tensors where shapes do not fit",
    r"Depthwise\w+Backprop\w+: .*dilations.*": "ignores dilations",
    r"(Depthwise\w+|\w+Backprop\w+): .*filter.*(empty|= 0|all 0)": "gradients of filters that are refused forward",
    r"\w*Conv\w*: .*in all": "uninitialized memory",
    r"\w*Conv\w*: .*(input|input_sizes): .*(axis [34] empty|\[[34]\] = 0|all 0)": "convolves images without channels",
    r"ResourceGather: .*batch_dims.*": "ends the process",
    r"RngReadAndSkip: .*resource: .*": "ends the process",
    r"Stateless\w+V2: .*counter: axis 0 one": "reads beyond the counter",
    r"TopKV2: .*sorted = False": "has an order of its own",
    r"(Lower|Upper)Bound: .*sorted_inputs: axis 1 longer": "searches in a way of its own what is sorted no more",
    r"ResourceScatter(Update|Add|Sub|Mul|Div|Max|Min): .*": "reads beyond updates that are too small",
    r"ResizeNearestNeighborGrad: .*align_corners = True": "takes both conventions at once",
    r"FusedBatchNorm\w*: .*epsilon = -1.0": "takes a negative epsilon",
    r"SparseTensorDenseMatMul: .*a_shape.*": "ends the process",
    r"ResourceSparseApply\w+: .*grad: .*(an axis|a scalar|deep).*": "ends the process, or takes other shapes",
    r"ResourceSparseApplyProximalGradientDescent: .*(var: |all deep).*": "ends the process, or writes beyond variables",
    r"SparseSlice: .*(shape|start): .*": "takes places outside the shape, and what begins before it",
    r"SparseSliceGrad: .*input_indices: .*= .*": "merges places that are in no order",
    r"Sparse(Reorder|Reshape): .*input_(indices|shape): .*": "takes places outside their shape, and no shapes",
    r"Einsum: .*empty.*": "disregards that lengths differ where one is 0",
    r"(Cholesky|Lu|MatrixInverse|LogMatrixDeterminant): .*axis 0 longer": "finds a pivot of 0 where it rounds so",
}


# What kernels of ours leave to TensorFlow's CPU kernels.
ON_CPU = {
    r".*(deep|twelve ones|three hundred ones).*": "more axes than the ABI has, where they do not merge",
    r"(Max|Avg)Pool(Grad)?: .*(strides|ksize|padding|explicit_paddings) = .*": "windows over channels",
    r"Depthwise\w+: .*dilations = .*": "lists that it disregards",
    r"\w+Grad: .*an axis more.*": "gradients of other shapes with as many elements",
    r"Stateless\w+V2: .*(counter|alg).*": "generators that only it has",
    r"Resource\w+: .*": "attributes that the kernels lack",
    r"CTCLoss: .*(labels_values|inputs|sequence_length): .*": "labels that no path gives, or without a class",
}
# Without a kernel, and out of the CPU's reach.
VARIABLES_ONLY = ("the CPU cannot reach variables of the device", "is not supported; keep the variable on /CPU:0")


# Where the class of error differs: ours, of a window without a size along batch and channels too, is InvalidArgument.
OTHER_CLASS = r"AvgPool: base \d+, ksize = (\[0\] =|all) (-1|0)"


def limit_memory(more: int) -> None:
    """Sizes that memory cannot hold fail at once, on the CPU and on the stub, which has the host's memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def fallback_count() -> int:
    return sum(entry.count for entry in unihal.fallbacks())


def registered() -> dict[str, list[str]]:
    """The adapter's own table: ops and their dtypes."""
    query = ctypes.CDLL(f"{unihal.library_dir()}/libunihal_tensorflow.so").uhal_tensorflow_coverage
    query.restype = ctypes.c_char_p
    return {row["op"]: row["dtypes"] for row in json.loads(query())}


def is_plain(label: str) -> bool:
    return label.startswith("base") and "," not in label


def main(first: int, every: int = 1, wanted: str = "") -> None:
    coverage = registered()
    with tf.device(DEVICE):
        # OpenMP's threads, too: it ends the process where it cannot start them later.
        tf.math.exp(tf.ones([1 << 21])).numpy()
    limit_memory(6 << 30)
    for number, (op, label, arguments) in enumerate(cases(coverage)):
        if number < first or (wanted and op < wanted) or (number % every and not is_plain(label)):
            continue
        say(number=number, op=op, case=label, on="CPU")
        wrong = not is_plain(label) and any(re.fullmatch(pattern, f"{op}: {label}") for pattern in CPU_IS_WRONG)
        expected = None if wrong else call(CPU, op, arguments)
        say(number=number, op=op, case=label, on="device")
        before = fallback_count()
        actual = call(DEVICE, op, arguments)
        fell_back = fallback_count() > before
        error = compare(op, arguments, actual, expected) if expected is not None else ""
        if actual[0] == "InvalidArgumentError" and re.fullmatch(OTHER_CLASS, f"{op}: {label}"):
            error = ""
        say(number=number, error=error, fell_back=fell_back)
    say(end=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
