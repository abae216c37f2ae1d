"""A program: every op of Paddle that writes in place, on the CPU and on a device, eager and in a graph.

Prints a JSON object: for each op and mode "right", "refused" (an error that names the op), or what was wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
from paddle import _C_ops

Array = np.ndarray[Any, Any]
DEVICE = "iluvatar"
NUMBERS = np.random.RandomState(0)


def real(*shape: int) -> Array:
    """Numbers that every function of the table takes."""
    return NUMBERS.uniform(0.1, 0.9, shape).astype("float32")


def whole(*shape: int) -> Array:
    return NUMBERS.randint(1, 4, shape).astype("int32")


X, Y, Z = real(3, 4), real(3, 4), real(3, 4)
BOOLS = X > 0.5
SQUARE, VECTOR, IDS = real(4, 4), real(4), np.array([[0, 2, 1, 0]])
RATE, ONE = np.array(0.01, "float32"), np.array([1.0], "float32")
POWER = np.array([0.9], "float32")
# As the optimizers of these have it: the CPU's kernels read beyond a single number.
POWERS = np.full((3, 4), 0.9, "float32")

UNARY = [
    "abs",
    "acos",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "digamma",
    "erf",
    "erfinv",
    "exp",
    "expm1",
    "floor",
    "gammaln",
    "i0",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "reciprocal",
    "relu",
    "rsqrt",
    "sigmoid",
    "silu",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
]
BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "floor_divide",
    "remainder",
    "copysign",
    "gammaincc",
]
# Where the result is a boolean, Paddle writes it into a tensor of booleans.
LOGIC = ["logical_and", "logical_or", "logical_xor"]
BITS = ["bitwise_and", "bitwise_or", "bitwise_xor"]

# The arguments of each op; arrays become tensors. The tensors that are written to come first, or are named by WRITTEN.
CALLS: dict[str, tuple[Any, ...]] = {
    **{f"{name}_": (X,) for name in UNARY},
    **{f"{name}_": (X, Y) for name in BINARY},
    **{f"{name}_": (BOOLS, Y > 0.5) for name in LOGIC},
    **{f"{name}_": (whole(3, 4), whole(3, 4)) for name in BITS},
    "acosh_": (X + 1,),
    "bitwise_not_": (whole(3, 4),),
    "bitwise_left_shift_": (whole(3, 4), whole(3, 4), True),
    "bitwise_right_shift_": (whole(3, 4), whole(3, 4), True),
    "logical_not_": (BOOLS,),
    "adadelta_": (X, Y, Z, Z, RATE, None, 0.95, 1e-6, False),
    "adagrad_": (X, Y, Z, RATE, None, 1e-6, False),
    "adam_": (X, Y, RATE, Z, Z, None, POWER, POWER, None, None, 0.9, 0.99, 1e-8, False, 1000, False, False, False),
    "adamw_": (
        X,
        Y,
        RATE,
        Z,
        Z,
        None,
        POWER,
        POWER,
        None,
        None,
        0.9,
        0.99,
        1e-08,
        1.0,
        0.1,
        True,
        False,
        1000,
        False,
        False,
        False,
    ),
    "adamax_": (X, Y, RATE, Z, Z, POWER, None, 0.9, 0.99, 1e-8, False),
    "addmm_": (real(3, 3), real(3, 4), real(4, 3), 0.5, 2.0),
    "asgd_": (X, Y, RATE, Z, Z, ONE, None, False),
    "assign_": (X,),
    "assign_out_": (X, Y),
    "average_accumulates_": (X, Y, Z, Z, *(np.array([n]) for n in (3, 0, 3)), 0.15, 10, 2),
    "baddbmm_": (real(2, 3, 3), real(2, 3, 4), real(2, 4, 3), 0.5, 2.0),
    "bce_loss_": (X, BOOLS.astype("float32")),
    "cast_": (X, paddle.float64),
    "clip_": (X, 0.3, 0.6),
    "cumprod_": (X, 1, False, False),
    "cumsum_": (X, 1, False, False, False),
    "elu_": (X - 0.5, 0.7),
    "fill_": (X, 0.5),
    "fill_diagonal_": (SQUARE, 0.5, 0, False),
    "fill_diagonal_tensor_": (SQUARE, VECTOR, 0, 0, 1),
    "flatten_": (X, 0, 1),
    "hardtanh_": (X, 0.3, 0.6),
    "increment_": (ONE, 2.0),
    "index_add_": (X, np.array([0, 2]), real(2, 4), 0),
    "index_put_": (X, [np.array([0, 2])], real(2, 4), False),
    "lamb_": (X, Y, RATE, Z, Z, POWER, POWER, None, None, 0.01, 0.9, 0.99, 1e-6, False, False),
    "leaky_relu_": (X - 0.5, 0.2),
    "lerp_": (X, Y, Z),
    "logit_": (X, 1e-6),
    "lu_": (SQUARE, True),
    "masked_fill_": (X, BOOLS, np.array(0.5, "float32")),
    "momentum_": (X, Y, Z, RATE, None, 0.9, False, "", 0.0, False, 1.0),
    "nadam_": (X, Y, RATE, POWERS, POWERS, POWERS, Z, Z, None, 0.9, 0.99, 1e-8, 0.004, False),
    "polygamma_": (X, 1),
    "pow_": (X, 2.5),
    "put_along_axis_": (SQUARE[:1], IDS[:, :2], real(1, 2), 1, "assign", True),
    "radam_": (X, Y, RATE, POWERS, POWERS, POWERS, Z, Z, None, 0.9, 0.99, 1e-8, False),
    "renorm_": (X, 2.0, 0, 0.5),
    "reshape_": (X, [4, 3]),
    "rmsprop_": (X, Z, Y, Z, RATE, Z, None, 1e-6, 0.9, 0.5, False, False),
    "round_": (X * 5, 0),
    "rprop_": (X, Y, Z, Z, None, np.array([1e-5, 50], "float32"), np.array([0.5, 1.2], "float32"), False),
    "scale_": (X, 2.0, 1.0, True),
    "scatter_": (X, np.array([2, 0]), real(2, 4), True),
    "set_value_": (X, [1], [2], [1], [0], [], [], [1], [0.5]),
    "set_value_with_tensor_": (X, VECTOR, [1], [2], [1], [0], [], []),
    "sgd_": (X, RATE, Y, None, False),
    "sigmoid_cross_entropy_with_logits_": (X, BOOLS.astype("float32"), None, False, -100),
    "softmax_": (X, 1),
    "squeeze_": (X[None], [0]),
    "thresholded_relu_": (X, 0.5, 0.0),
    "transpose_": (X, [1, 0]),
    "tril_": (X, 0),
    "triu_": (X, 0),
    "trunc_divide_": (whole(3, 4), whole(3, 4)),
    "unsqueeze_": (X, [0]),
    "where_": (BOOLS, X, Y),
    "check_finite_and_unscale_": ([X, Y], np.array([2.0], "float32")),
    "update_loss_scaling_": (
        [X, Y],
        np.array([False]),
        np.array([2.0], "float32"),
        np.array([1], "int32"),
        np.array([0], "int32"),
        10,
        2,
        2.0,
        0.5,
        False,
    ),
}
# Which arguments an op writes to, if not the first.
WRITTEN = {
    "adam_": (0, 3, 4, 6, 7),
    "adamw_": (0, 3, 4, 6, 7),
    "adadelta_": (0, 2, 3),
    "adagrad_": (0, 2),
    "adamax_": (0, 3, 4),
    "asgd_": (0, 3, 4),
    "average_accumulates_": (1, 2, 3, 4, 5, 6),
    "lamb_": (0, 3, 4, 5, 6),
    "momentum_": (0, 2),
    "nadam_": (0, 3, 4, 5, 6, 7),
    "radam_": (0, 3, 4, 5, 6, 7),
    "rmsprop_": (0, 1, 3),
    "rprop_": (0, 2, 3),
    "assign_out_": (1,),
    "where_": (1,),
}

# Not called: the reason.
OTHERS = {
    "gradients, written by Paddle into what it has no more use for": [
        *(name for name in dir(_C_ops) if name.endswith("_grad_")),
        "embedding_grad_add_to_",
    ],
    "random numbers": [
        "dropout_",
        "exponential_",
        "gaussian_inplace_",
        "random_",
        "uniform_inplace_",
    ],
    "several devices": [
        "all_reduce_",
        "broadcast_",
        "c_allreduce_sum_",
        "c_identity_",
        "mp_allreduce_sum_",
        "partial_allgather_",
        "random_routing_",
        "reduce_",
        "sync_calc_stream_",
        "distributed_fused_lamb_init_",
        "nop_",
    ],
    "other devices' kernels, or other tensors": [
        "block_multihead_attention_",
        "block_multihead_attention_xpu_",
        "fp8_gemm_blockwise_",
        "fused_multi_transformer_",
        "masked_multihead_attention_",
        "sparse_batch_norm_",
        "sparse_sync_batch_norm_",
    ],
    "tested with their layers and optimizers": [
        "batch_norm_",
        "cross_entropy_with_softmax_",
        "index_elementwise_put_",
        "index_elementwise_put_with_tensor_",
        "sync_batch_norm_",
    ],
    "lists of optional tensors, which have no kernel here: refused like any other": ["fused_adam_"],
    "lists of parameters: test_trees_and_paths.py": ["lars_momentum_", "merged_adam_", "merged_momentum_"],
    "comparisons, which write booleans into a tensor of numbers: tested as kernels": [
        "equal_",
        "not_equal_",
        "greater_equal_",
        "greater_than_",
        "less_equal_",
        "less_than_",
    ],
    "no eager form": ["share_data_"],
    "quantization": [
        "dequantize_linear_",
        "fake_quantize_dequantize_moving_average_abs_max_",
        "fake_quantize_moving_average_abs_max_",
        "fake_quantize_range_abs_max_",
        "moving_average_abs_max_scale_",
        "quantize_linear_",
    ],
    "no data, or another way to make a tensor": [
        "array_write_",
        "assign_value_",
        "coalesce_tensor_",
        "full_",
        "identity_loss_",
        "l1_norm_",
        "set_",
        "affine_channel_",
        "rint_",
    ],
}


def tensors(value: Any) -> Any:
    if isinstance(value, list):
        return [tensors(part) for part in value]
    return paddle.to_tensor(value) if isinstance(value, np.ndarray) else value


def is_tensor(value: Any) -> bool:
    return isinstance(value, paddle.Tensor)


def flatten(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [part for item in value for part in flatten(item)]
    return [value] if is_tensor(value) and value._is_initialized() else []


def outcome(name: str, device: str, static: bool) -> list[Array]:
    """What the op returned, and what the tensors that it writes to hold then."""
    paddle.set_device(device)
    arguments = [tensors(value) for value in CALLS[name]]
    op = getattr(_C_ops, name)

    def call(inputs: list[Any]) -> Any:
        given = iter(inputs)

        def replaced(value: Any) -> Any:
            if isinstance(value, list):
                return [replaced(part) for part in value]
            return next(given) if is_tensor(value) else value

        return op(*[replaced(value) for value in arguments])

    results = paddle.jit.to_static(call, full_graph=True)(flatten(arguments)) if static else op(*arguments)
    written = flatten([arguments[i] for i in WRITTEN.get(name, (0,))])
    return [value.numpy() for value in flatten(results) + ([] if static else written)]


def verdict(name: str, static: bool, expected: list[Array]) -> str:
    try:
        actual = outcome(name, DEVICE, static)
    except Exception as error:
        return "refused" if f"{name} writes in place" in str(error) else f"error: {str(error).strip()[-300:]}"
    for ours, theirs in zip(actual, expected):
        if ours.shape != theirs.shape or not np.allclose(ours, theirs, rtol=2e-5, atol=2e-5, equal_nan=True):
            return f"wrong: {ours.ravel()[:4]} for {theirs.ravel()[:4]}"
    return "right"


def main() -> None:
    known = {name for names in OTHERS.values() for name in names} | set(CALLS)
    in_place = {name for name in dir(_C_ops) if name.endswith("_") and not name.startswith("_")}
    report: dict[str, Any] = {"unknown": sorted(in_place - known), "gone": sorted(set(CALLS) - in_place)}
    verdicts: dict[str, dict[str, str]] = {}
    for name in sorted(set(CALLS) & in_place):
        verdicts[name] = {}
        modes: dict[str, Callable[[], str]] = {}
        try:
            expected = outcome(name, "cpu", False)
        except Exception as error:
            verdicts[name]["cpu"] = f"error: {str(error).strip()[-300:]}"
            continue
        modes = {"eager": lambda: verdict(name, False, expected), "graph": lambda: verdict(name, True, expected)}
        for mode, run in modes.items():
            verdicts[name][mode] = run()
    print(json.dumps({**report, "verdicts": verdicts}))


if __name__ == "__main__":
    main()
