"""Right arguments of every op that has a kernel of ours: what hostile.py makes hostile calls of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
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


def arguments_of(op: str, dtypes: list[str]) -> list[Arguments]:
    """Those of an op with kernels for these dtypes; one call or a few."""
    return BASES.get(op) or elementwise(op, dtypes)
