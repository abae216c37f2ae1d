"""A program: ops of Paddle's old intermediate representation on devices, against the CPU, with gradients.

Paddle's own functions no longer build such programs for most ops, while saved ones still run; so each op is appended to
a program as it is, in the forms whose attributes are tensors too. Prints what went wrong with each op and device type.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle

paddle.enable_static()
R = np.random.RandomState(0)
X, W, V = R.rand(3, 5).astype("float32"), R.rand(5, 4).astype("float32"), R.rand(2, 3, 4).astype("float32")
IMAGE, FILTER = R.rand(2, 4, 6, 6).astype("float32"), R.rand(3, 4, 3, 3).astype("float32")
IDS, ONE, TWO = np.array([0, 2, 1]), np.array([1]), np.array([2])


def sizes(*values: int) -> Any:
    return np.array(values, "int32")


BOXES = np.float32([[[0, 0, 4, 4], [0, 1, 4, 5], [6, 6, 9, 9]]])
SCORES = np.float32([[[0.2, 0.4, 0.3], [0.7, 0.9, 0.15]]])
SUPPRESSION = {
    "background_label": -1,
    "score_threshold": 0.1,
    "nms_top_k": -1,
    "keep_top_k": 5,
    "normalized": True,
}

# type, inputs, attributes, the output that counts
OPS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("relu", {"X": X}, {}, "Out"),
    ("mul", {"X": V, "Y": R.rand(12, 2).astype("float32")}, {"x_num_col_dims": 1, "y_num_col_dims": 1}, "Out"),
    ("mul", {"X": V, "Y": R.rand(4, 2).astype("float32")}, {"x_num_col_dims": 2, "y_num_col_dims": 1}, "Out"),
    ("matmul_v2", {"X": X, "Y": W}, {"trans_x": False, "trans_y": False}, "Out"),
    ("elementwise_add", {"X": X, "Y": X}, {"axis": -1}, "Out"),
    ("elementwise_max", {"X": X, "Y": 1 - X}, {"axis": -1}, "Out"),
    ("reduce_sum", {"X": V}, {"dim": [0, 2], "keep_dim": False, "reduce_all": False}, "Out"),
    ("reduce_mean", {"X": V}, {"dim": [1], "keep_dim": True, "reduce_all": False}, "Out"),
    *(
        (f"reduce_{name}", {"X": V}, {"dim": [0], "keep_dim": False, "reduce_all": True}, "Out")
        for name in ("sum", "mean", "max", "min")
    ),
    *(
        (f"reduce_{name}", {"X": V > 0.5}, {"dim": [0], "keep_dim": False, "reduce_all": True}, "Out")
        for name in ("all", "any")
    ),
    ("softmax", {"X": X}, {"axis": -1}, "Out"),
    ("scale", {"X": X, "ScaleTensor": np.array([2.5], "float32")}, {"bias": 1.0, "bias_after_scale": True}, "Out"),
    (
        "slice",
        {"Input": X, "StartsTensor": ONE, "EndsTensor": np.array([4])},
        {"axes": [1], "starts": [-1], "ends": [-1], "infer_flags": [-1], "decrease_axis": []},
        "Out",
    ),
    (
        "slice",
        {"Input": X},
        {"axes": [0, 1], "starts": [1, 2], "ends": [2, 5], "infer_flags": [1, 1], "decrease_axis": [0]},
        "Out",
    ),
    (
        "strided_slice",
        {"Input": X, "StartsTensor": ONE, "EndsTensor": np.array([5]), "StridesTensor": TWO},
        {"axes": [1], "starts": [-1], "ends": [-1], "strides": [-1], "infer_flags": [-1], "decrease_axis": []},
        "Out",
    ),
    ("gather", {"X": X, "Index": IDS, "Axis": ONE}, {"axis": 0}, "Out"),
    ("gather", {"X": X, "Index": IDS}, {"axis": 1}, "Out"),
    ("gather_nd", {"X": X, "Index": IDS[:, None]}, {}, "Out"),
    ("reshape2", {"X": V, "Shape": sizes(4, 6)}, {"shape": [-1, 6]}, "Out"),
    ("expand_v2", {"X": X[:1], "Shape": sizes(3, 5)}, {"shape": [-1, -1]}, "Out"),
    ("tile", {"X": X, "RepeatTimes": sizes(2, 3)}, {"repeat_times": []}, "Out"),
    ("concat", {"X": [X, X], "AxisTensor": sizes(1)}, {"axis": 0}, "Out"),
    ("stack", {"X": [X, X]}, {"axis": 1}, "Y"),
    ("transpose2", {"X": V}, {"axis": [2, 0, 1]}, "Out"),
    ("unsqueeze2", {"X": X, "AxesTensor": sizes(1)}, {"axes": []}, "Out"),
    (
        "squeeze2",
        {
            "X": V[:1],
        },
        {"axes": [0]},
        "Out",
    ),
    ("top_k_v2", {"X": X, "K": sizes(2)}, {"k": 1, "axis": -1, "largest": True, "sorted": True}, "Out"),
    ("lookup_table_v2", {"W": W, "Ids": IDS}, {"padding_idx": -1}, "Out"),
    ("fill_constant", {"ShapeTensor": sizes(2, 3)}, {"shape": [], "value": 1.5, "dtype": 5}, "Out"),
    ("cast", {"X": X}, {"in_dtype": 5, "out_dtype": 3}, "Out"),
    ("cumsum", {"X": X}, {"axis": 1, "exclusive": False, "reverse": False, "flatten": False}, "Out"),
    ("clip", {"X": X, "Min": np.array([0.25], "float32")}, {"min": 0.0, "max": 0.75}, "Out"),
    (
        "conv2d",
        {"Input": IMAGE, "Filter": FILTER},
        {
            "strides": [1, 1],
            "paddings": [1, 1],
            "dilations": [1, 1],
            "groups": 1,
            "padding_algorithm": "EXPLICIT",
            "data_format": "NCHW",
        },
        "Output",
    ),
    (
        "pool2d",
        {"X": IMAGE},
        {
            "ksize": [2, 2],
            "strides": [2, 2],
            "paddings": [0, 0],
            "pooling_type": "max",
            "global_pooling": False,
            "padding_algorithm": "EXPLICIT",
            "data_format": "NCHW",
            "exclusive": True,
            "adaptive": False,
            "ceil_mode": False,
        },
        "Out",
    ),
    ("where", {"Condition": X > 0.5, "X": X, "Y": -X}, {}, "Out"),
    ("arg_max", {"X": X}, {"axis": 1, "keepdims": False, "flatten": False, "dtype": 3}, "Out"),
    ("flip", {"X": X}, {"axis": [0, 1]}, "Out"),
    ("roll", {"X": X, "ShiftsTensor": np.array([1, 2])}, {"axis": [0, 1], "shifts": []}, "Out"),
    ("tril_triu", {"X": X}, {"diagonal": 0, "lower": True}, "Out"),
    ("pow", {"X": X}, {"factor": 2.5}, "Out"),
    ("leaky_relu", {"X": X - 0.5}, {"alpha": 0.1}, "Out"),
    ("gelu", {"X": X}, {"approximate": False}, "Out"),
    ("layer_norm", {"X": X}, {"epsilon": 1e-5, "begin_norm_axis": 1}, "Y"),
    (
        "fill_constant_batch_size_like",
        {"Input": X},
        {"shape": [-1, 4], "input_dim_idx": 0, "output_dim_idx": 0, "value": 1.5, "dtype": 5},
        "Out",
    ),
    ("range", {"Start": np.float32([1]), "End": np.float32([4]), "Step": np.float32([0.75])}, {}, "Out"),
    ("lrn", {"X": IMAGE}, {"n": 3, "k": 2.0, "alpha": 0.1, "beta": 0.75, "data_format": "NCHW"}, "Out"),
    ("flatten2", {"X": V}, {"axis": 2}, "Out"),
    ("cross_entropy", {"X": X + 0.1, "Label": IDS[:, None]}, {"soft_label": False, "ignore_index": 2}, "Y"),
    ("cross_entropy", {"X": X + 0.1, "Label": 1 - X}, {"soft_label": True, "ignore_index": -100}, "Y"),
    *(
        (
            name,
            {"X": 100 * X - 50, "Scale": scale, "ZeroPoint": np.zeros(scale.shape, "float32")},
            {"quant_axis": axis, "bit_length": 8, "qmin": -128, "qmax": 127, "round_type": rounding, "is_test": True},
            "Y",
        )
        for name in ("quantize_linear", "dequantize_linear")
        for axis, scale in ((-1, R.rand(1).astype("float32") + 0.5), (1, R.rand(5).astype("float32") + 0.5))
        for rounding in (0, 1)
    ),
    *(
        (
            "quantize_linear",
            {"X": 100 * X - 50, "Scale": start, "ZeroPoint": 0 * start, "InAccum": 3 * start, "InState": 2 * start},
            {"quant_axis": axis, "bit_length": 8, "qmin": -128, "qmax": 127, "round_type": 0, "is_test": False},
            "Y",
        )
        for axis, start in ((-1, np.float32([1])), (1, np.ones(5, "float32")))
    ),
    (
        "matrix_nms",
        {"BBoxes": BOXES, "Scores": SCORES},
        SUPPRESSION | {"use_gaussian": True, "gaussian_sigma": 2.0},
        "Out",
    ),
    (
        "multiclass_nms3",
        {"BBoxes": BOXES, "Scores": SCORES},
        SUPPRESSION | {"nms_threshold": 0.3, "nms_eta": 1.0},
        "Out",
    ),
]
OPS += [
    (
        "anchor_generator",
        {"Input": IMAGE},
        {
            "anchor_sizes": [32.0, 50.0, 128.0],
            "aspect_ratios": [0.5, 1.0, 1.7],
            "variances": [0.1, 0.1, 0.2, 0.3],
            "stride": [16.0, 12.0],
            "offset": 0.5,
        },
        output,
    )
    for output in ("Anchors", "Variances")
]
OPS += [
    (
        "sparse_momentum",
        {
            "Param": V[0],
            "Grad": grad,
            "Velocity": V[1],
            "Index": index,
            "LearningRate": np.array([0.25], "float32"),
        },
        {
            "mu": 0.9,
            "axis": axis,
            "use_nesterov": nesterov,
            "regularization_method": "l2_decay" if nesterov else "",
            "regularization_coeff": 0.3,
            "multi_precision": False,
            "rescale_grad": 0.5,
        },
        output,
    )
    for axis, index, grad in ((0, np.array([2, 0, 2, 7]), X[[0, 1, 2, 0]][:, :4]), (1, sizes(3, 1), X[:, :2]))
    for nesterov in (False, True)
    for output in ("ParamOut", "VelocityOut")
]
OPS += [
    (
        "dpsgd",
        {"Param": X, "Grad": X - 0.5, "LearningRate": np.array([0.25], "float32")},
        {"clip": clip, "batch_size": 4.0, "sigma": 0.0, "seed": 3},
        "ParamOut",
    )
    for clip in (0.1, 10.0)
]
# Ops that have no gradient.
WITHOUT_GRADIENT = ("nms", "nms3", "quantize_linear", "anchor_generator", "sparse_momentum", "dpsgd")
# What else an op must be given a place for.
OTHER_OUTPUTS = {
    "top_k_v2": ["Indices"],
    "reshape2": ["XShape"],
    "transpose2": ["XShape"],
    "unsqueeze2": ["XShape"],
    "squeeze2": ["XShape"],
    "layer_norm": ["Mean", "Variance"],
    "lrn": ["MidOut"],
    "anchor_generator": ["Anchors", "Variances"],
    "sparse_momentum": ["ParamOut", "VelocityOut"],
    "flatten2": ["XShape"],
    "quantize_linear": ["OutScale", "OutAccum", "OutState"],
    "matrix_nms": ["Index", "RoisNum"],
    "multiclass_nms3": ["Index", "NmsRoisNum"],
}


def run(place: Any, op: str, inputs: Any, attributes: Any, output: str) -> list[Any]:
    main = paddle.static.Program()
    feed = {}
    with paddle.static.program_guard(main, paddle.static.Program()):
        block = main.global_block()
        given, leaves = {}, []
        for slot, arrays in inputs.items():
            given[slot] = []
            for array in arrays if isinstance(arrays, list) else [arrays]:
                variable = paddle.static.data(f"x{len(feed)}", array.shape, str(array.dtype))
                feed[variable.name] = array
                if array.dtype.kind == "f":
                    variable.stop_gradient = False
                    leaves.append(variable)
                given[slot].append(variable)
        names = dict.fromkeys([output, *OTHER_OUTPUTS.get(op, [])])
        made = {name: [block.create_var(name=f"made_{name}", dtype="float32")] for name in names}
        block.append_op(type=op, inputs=given, outputs=made, attrs=attributes)
        result = made[output][0]
        fetch = [result]
        if leaves and result.dtype == leaves[0].dtype and not op.endswith(WITHOUT_GRADIENT):
            gradients = paddle.static.gradients([result], leaves)
            fetch += [g for g in gradients if g is not None]
    return paddle.static.Executor(place).run(main, feed=feed, fetch_list=fetch)


def main() -> None:
    types = paddle.device.get_all_custom_device_type()
    for case in OPS:
        expected = run(paddle.CPUPlace(), *case)
        for device_type in types:
            try:
                for ours, theirs in zip(run(paddle.CustomPlace(device_type, 0), *case), expected, strict=True):
                    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
                    np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)
            except Exception as error:
                print(f"{device_type}, {case[0]} of {list(case[1])}: {error}")


if __name__ == "__main__":
    main()
