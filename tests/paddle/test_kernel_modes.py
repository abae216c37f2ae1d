"""Every kernel of the adapter's table in every mode: eager, in programs of the new representation and of the old;
forward and gradient, in each dtype of the table, of tensors without axes, of nothing, of odd lengths, and of views.

The calls are those of op_calls.py, and Paddle's own definitions of ops say how each mode spells them (op_modes.py). The
adapter notes which kernels Paddle chose, so that a kernel or a dtype that no call of a mode reaches fails the test,
unless a row of UNREACHED says why."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from comparison import DEVICE

pytestmark = pytest.mark.skipif(
    DEVICE != "iluvatar", reason="what the adapter makes of a call does not depend on the backend"
)


class Allowed(NamedTuple):
    """What may differ: ops, variations and findings by regular expressions, and why."""

    op: str
    label: str
    found: str
    why: str


ALLOWED = [
    Allowed(r"argmin", r"nothing", r"", "the CPU returns memory that nobody wrote"),
    Allowed(r"batch_norm", r"", r"result [345]", "saved statistics, which inference does not write"),
    Allowed(r"batch_norm", r"float16", r"running_mean has dtype", "statistics stay float32: test_kernels.py"),
    Allowed(r"cholesky", r"complex", r"not positive definite", "the numbers are made complex each by itself"),
    Allowed(r"(crop|unstack)", r"nothing", r"", "the CPU goes on with parts that are not there"),
    Allowed(r"hsigmoid_loss", r"", r"result 2", "an output that the CPU leaves as memory was"),
    Allowed(
        r"prod", r"complex", r"gradient", "the CPU's is not conjugated, as its other gradients are: test_complex.py"
    ),
    Allowed(r"numbers for rows of .*", r"", r"instead", "the CPU's gradient of the value is what was in memory"),
    Allowed(r"a condition of complex.*", r"", r"greater_than", "an order of complex numbers"),
    Allowed(r"batch norm in inference of b?float16", r"", r"running_mean has dtype", "statistics stay float32"),
    Allowed(r"div.*", r"int", r"dtype", "in old programs the device keeps the dtype that Paddle asks it for"),
    Allowed(r"eig(h|valsh)", r"", r"gradient", "the CPU's gradients are not the derivatives: test_more_kernels.py"),
    Allowed(
        r"eig", r"", r"when casting data type from complex", "Paddle makes no real gradient of it on plugins' devices"
    ),
    Allowed(
        r"matrix_power|spectral_norm", r"", r"gradient", "the CPU's gradients are not the derivatives: test_measures.py"
    ),
    Allowed(r"einsum", r"", r"holds no memory", "a result that is a shape only, which no program fetches"),
    Allowed(r"bincount", r"float", r"one is None", "the CPU's program gives nothing for numbers that are no integers"),
    Allowed(r"nanmedian", r"int", r"result 1", "which of equal elements the CPU names is chance"),
    Allowed(r"histogram", r"nothing", r"dtype", "the CPU has another dtype for nothing"),
    Allowed(r"einsum", r"complex", r"gradient", "that of one operand is conjugated on the CPU: test_einsum.py"),
    Allowed(r"eigvals", r"complex", r"result", "the order of eigenvalues"),
    Allowed(
        r"(a?(cos|sin|tan)h?|sinh|cosh|cumprod|prod|elementwise_pow)_?",
        r"complex",
        r"_grad: ",
        "the gradients of these complex functions have no kernel",
    ),
    Allowed(r"eig", r"", r"gradient|result 1", "of phases, which eigenvectors may choose: test_factor_gradients.py"),
    Allowed(
        r"eig(h|valsh)", r"odd lengths", r"result 1", "of signs, which eigenvectors may choose: test_linear_algebra.py"
    ),
    Allowed(r"svd", r"complex", r"gradient", "the CPU's gradients are not the derivatives: test_factor_gradients.py"),
    Allowed(r"lu_?", r"odd lengths", r"not square", "the gradient of matrices that are not square has no kernel"),
    Allowed(r"(kthvalue|mode|topk)", r"int|odd", r"result 1|gradient", "which of equal elements is chosen"),
    Allowed(r"(topk|qr)", r"nothing", r"one is None", "the CPU's program loses the gradient of nothing"),
    Allowed(r"isclose", r"bfloat16", r"InvalidType", "Paddle's own check in graphs"),
    Allowed(r"instance_norm", r"float16", r"in_param_type", "Paddle's own check in old programs"),
    Allowed(r"lamb_", r"", r"one is None", "an output that is not asked for"),
    Allowed(r"momentum_", r"float16", r"result", "Paddle infers float32 for a velocity of float16"),
    Allowed(r"logical_\w+_", r"", r"", "a bool written over a number, which is read as one"),
    Allowed(r"masked_fill", r"", r"gradient 1", "Paddle's graphs lose the gradient of the number, on the CPU too"),
    Allowed(r"overlap_add", r"", r"dtype float32", "Paddle declares the gradient of overlap_add as float32"),
    Allowed(r"shuffle_channel", r"float64", r"", "the CPU's is what was in memory"),
    Allowed(r"full_batch_size_like", r"nothing", r"shape", "in graphs the CPU's has the shape of x"),
    Allowed(
        r"fake_quantize_range_abs_max", r"", r"holds no memory", "the range's outputs, which inference does not write"
    ),
    Allowed(r"sequence_mask", r"", r"output of this dtype", "Paddle's old programs lose the dtype of the mask"),
    Allowed(r"yolo_loss", r"", r"gradient [12]", "the CPU leaves the gradients of the boxes as memory was"),
    Allowed(r"transpose_", r"", r"result", "the CPU's graph transposes onto its own operand"),
]


class Unreached(NamedTuple):
    """Kernels that no call of a mode chooses: modes, kernels and dtypes by regular expressions, and why."""

    modes: str
    kernels: str
    dtypes: str
    why: str


UNREACHED = [
    Unreached(r".*", r".*_grad", r"u?int.*|bool", "Paddle has gradients of floating and complex numbers only"),
    Unreached(
        r".*",
        r".*_sr|.*_sparse_grad|embedding_sparse_grad|merge_selected_rows|get_tensor_from_selected_rows",
        r".*",
        "rows of sparse gradients: test_optimizers.py",
    ),
    Unreached(
        r"new|old",
        r".*_double_grad",
        r"float16|bfloat16|float64",
        "in graphs in float32; the body is that of eager mode",
    ),
    Unreached(r".*", r".*_double_grad", r"complex.*", "Paddle's CPU composes these of first gradients"),
    Unreached(
        r"eager|new",
        r".*_raw|prod_infer|matmul_with_flatten(_grad)?|(un)?squeeze_with_xshape|tril_triu(_grad)?|grad_add"
        r"|strided_slice_raw_grad",
        r".*",
        "only programs of the old representation have these",
    ),
    Unreached(
        r".*", r"arange.*|sequence_mask.*|masked_fill(_grad)?", r".*", "bounds that are tensors: test_kernels.py"
    ),
    Unreached(
        r".*", r"assign_value|share_data|div_scale|batch_norm_infer", r".*", "Paddle's passes make these of others"
    ),
    Unreached(r".*", r"einsum.*", r".*", "its list of operands has no form in graphs here: test_einsum.py"),
    Unreached(r".*", r"slogdet.*", r".*", "test_measures.py"),
    Unreached(r"old", r"hsigmoid_loss(_grad)?", r".*", "its operands come in another order there"),
    Unreached(r".*", r".*_triple_grad|merged_.*|lars_momentum", r".*", "test_trees_and_paths.py"),
    Unreached(r".*", r"rnn(_grad)?", r".*", "test_recurrent.py"),
    Unreached(r"old", r"yolo_loss(_grad)?", r".*", "Paddle runs the old op on its CPU"),
    Unreached(r"old", r"top_p_sampling", r".*", "its seed has no form there: test_top_p.py"),
    Unreached(r".*", r"collect_fpn_proposals", r".*", "lists of operands: test_proposals.py"),
    Unreached(r"eager|new", r"anchor_generator|sparse_momentum|dpsgd", r".*", "appended to programs: old_programs.py"),
    Unreached(
        r"old", r"anchor_generator|sparse_momentum|dpsgd", r"float64", "appended in float32; the body is that of both"
    ),
    Unreached(r".*", r"uniform_raw|randint_with_seed", r".*", "ops of old programs: test_rows_in_programs.py"),
    Unreached(r".*", r"(\w+_)?(coo|csr)(_\w+)?", r".*", "sparse tensors, in eager mode only: test_sparse.py"),
    Unreached(r".*", r"(generate|distribute_fpn)_proposals", r".*", "lists of results: test_proposals.py"),
    Unreached(r"new|old", r"embedding", r"int8", "in eager mode only"),
    Unreached(
        r".*",
        r"(depthwise_conv2d|conv2d_transpose)_double_grad",
        r".*",
        "Paddle's CPU has none: test_double_gradients.py",
    ),
    Unreached(r".*", r"rms_norm(_grad)?", r".*", "Paddle's CPU has none: test_rms_norm.py"),
    Unreached(
        r".*",
        r"sync_batch_norm(_coo)?(_grad)?",
        r".*",
        "Paddle's CPU has none: test_sync_batch_norm.py, test_sparse_layers.py",
    ),
    Unreached(
        r"eager|new", r"moving_average_abs_max_scale|straight_through_estimator_grad", r".*", "in old programs only"
    ),
    Unreached(
        r"old",
        r"fake_quantize_dequantize_moving_average_abs_max_grad|straight_through_estimator_grad",
        r".*",
        "outputs of the op must be its inputs there, for which op_modes.py has no form",
    ),
    Unreached(
        r".*",
        r"index_elementwise_put.*|masked_fill_grad",
        r"bool|complex128",
        "the CPU refuses bools, and crashes of complex128",
    ),
    Unreached(r"old", r"matrix_nms|multiclass_nms3", r".*", "appended to programs as ops: old_programs.py"),
    Unreached(r".*", r"lu_unpack_grad", r".*", "test_more_kernels.py"),
    Unreached(r".*", r"lstsq|lu_unpack|lu_solve(_grad)?", r".*", "test_factor_gradients.py"),
    Unreached(r".*", r"masked_fill_grad", r"complex.*", "test_complex.py"),
    Unreached(
        r".*", r"(conv3d|log|subtract|multiply|matmul)_double_grad", r".*", "Paddle composes these of first gradients"
    ),
    Unreached(r"new|old", r"index_elementwise_.*", r".*", "parts of tensors, in eager mode only"),
    Unreached(
        r".*", r"(contiguous|strided_copy)", r".*", "views exist in eager mode only, and copies there: test_indexing.py"
    ),
    Unreached(
        r".*", r"cholesky(_solve|_grad)?|solve|svdvals", r"complex.*", "complex matrices: test_linear_algebra.py"
    ),
    Unreached(
        r".*", r"batch_norm(_grad)?|instance_norm(_grad)?", r"b?float16", "parameters stay float32: test_kernels.py"
    ),
    Unreached(
        r".*",
        r"eye|full|full_with_tensor|gaussian|linspace|truncated_gaussian_random|uniform|arange"
        r"|uniform_random_batch_size_like",
        r"b?float16",
        "Paddle's CPU makes none to compare with: test_kernels.py",
    ),
    Unreached(r".*", r"divide", r"u?int.*", "Paddle's functions divide integers as float32"),
    Unreached(
        r"new|old",
        r"(gaussian|uniform)_inplace_grad|random_grad|set_value_with_scalar_grad",
        r".*",
        "gradients of what is written over: in eager mode",
    ),
    Unreached(
        r"new", r"assign.*|isclose", r"u?int.*|bool|b?float16|complex.*", "Paddle's graphs copy without a kernel"
    ),
    Unreached(r"new|old", r"memory_efficient_attention.*|partial_concat.*", r".*", "no form in graphs"),
    Unreached(
        r"old",
        r".*_raw|strided_slice_raw_grad|(squeeze|unsqueeze)_(with_xshape|grad)|(reshape|flatten)_grad|embedding(_grad)?"
        r"|matmul_with_flatten(_grad)?|prod_infer|tril_triu(_grad)?|one_hot_raw|full|full_like|cast|batch_norm|cummin"
        r"|logical_.*",
        r".*",
        "in other dtypes than the one that the old op's own form is tried in; the body is that of all dtypes",
    ),
    Unreached(r".*", r"(nan)?median_grad", r"bfloat16", "the CPU has no bfloat16 to compare with"),
    Unreached(
        r"eager",
        r"(lrn|cross_entropy|flatten2)(_grad)?|(de)?quantize_linear.*",
        r".*",
        "ops of programs: test_low_precision.py and old_programs.py",
    ),
    Unreached(
        r"new",
        r"(lrn|cross_entropy|flatten2)(_grad)?|quantize_linear_.*|dequantize_linear_.*",
        r".*",
        "ops of old programs: old_programs.py",
    ),
    Unreached(r"new", r"(de)?quantize_linear", r".*", "test_low_precision.py"),
    Unreached(r"old", r"(de)?quantize_linear", r".*", "old programs have the deprecated ones"),
    Unreached(
        r"old",
        r"(cross_entropy|flatten2)(_grad)?|dequantize_linear_deprecated|full_batch_size_like",
        r"bool|u?int.*|b?float16|float64",
        "appended in float32; the body is that of all dtypes",
    ),
    Unreached(
        r"old", r"(batch_norm|instance_norm|pool2d)_double_grad", r".*", "old programs make none of these gradients"
    ),
    Unreached(r"new", r"partial_sum(_grad)?|variance|ftrl|decayed_adagrad", r".*", "these graphs have no such op"),
    Unreached(
        r"new", r"range_tensor", r".*", "the bounds of its rows are constants there, for which Paddle has `range`"
    ),
    Unreached(r"old", r"uniform_random_batch_size_like", r".*", "test_kernels.py, in eager mode"),
    Unreached(r"old", r"range_tensor", r".*", "the old op `range` has the kernel of arange"),
    Unreached(r"eager|old", r"range", r".*", "graphs of the new representation choose it where bounds are known"),
    Unreached(r"new", r"range", r"u?int.*|float64", "its row is in float32; the body is that of all dtypes"),
    Unreached(r".*", r"logspace", r"int.*|b?float16", "its dtype is an argument: test_unique.py"),
    Unreached(r"new|old", r"cross_entropy_with_softmax_grad", r"bfloat16", "Paddle declares the loss as float32"),
]
#: Old programs: what their ops need is not in the order of paddle._C_ops's arguments, or Paddle 3.3 no longer builds
#: the op, on the CPU neither. test_old_programs.py and test_static.py run old programs.
UNBUILT_OLD = Path(__file__).with_name("unbuilt_old_kernels.txt").read_text().split()


def run_mode(mode: str, of_each: int, share: int, folder: Path) -> dict[str, Any]:
    progress = folder / "progress"
    program = str(Path(__file__).with_name("kernel_modes.py"))
    command = [sys.executable, "-W", "ignore", program, mode, str(of_each), str(share), str(progress)]
    child = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"GLOG_minloglevel": "3"})
    assert child.returncode == 0, f"{progress.read_text().strip()}: {child.stderr[-3000:]}"
    outcome: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    return outcome


def unexplained(outcome: dict[str, Any]) -> list[str]:
    return [
        f"{f['mode']} {f['op']} | {f['label']} | {f['difference']}"
        for f in outcome["findings"]
        if not any(
            re.fullmatch(a.op, f["op"]) and re.search(a.label, f["label"]) and re.search(a.found, f["difference"])
            for a in ALLOWED
        )
    ]


def is_excused(mode: str, kernel: str, dtype: str) -> bool:
    if mode == "old" and kernel in UNBUILT_OLD:
        return True
    return any(
        re.fullmatch(row.modes, mode) and re.fullmatch(row.kernels, kernel) and re.fullmatch(row.dtypes, dtype)
        for row in UNREACHED
    )


def unreached(mode: str, outcome: dict[str, Any]) -> list[str]:
    chosen = {tuple(row) for row in outcome["chosen"]}
    return [
        f"{mode}: {kernel} of {dtype}"
        for kernel, dtypes in sorted(outcome["table"].items())
        for dtype in dtypes
        if (kernel, dtype) not in chosen and not is_excused(mode, kernel, dtype)
    ]


def test_each_kernel_has_a_call(tmp_path: Path) -> None:
    """In eager mode, in one dtype at least; one op in twelve in all of them."""
    outcome = run_mode("eager", 2, 12, tmp_path)
    assert not unexplained(outcome), "\n".join(unexplained(outcome))
    reached = {kernel for kernel, _dtype in outcome["chosen"]}
    missing = [
        kernel
        for kernel, dtypes in sorted(outcome["table"].items())
        if kernel not in reached and not all(is_excused("eager", kernel, dtype) for dtype in dtypes)
    ]
    assert not missing, "no call of op_calls.py chooses these kernels, and no row of UNREACHED says why"


@pytest.mark.parametrize("mode", ["new", pytest.param("old", marks=pytest.mark.whole)])
def test_a_sample_in_graphs(mode: str, tmp_path: Path) -> None:
    outcome = run_mode(mode, 1, 60, tmp_path)
    assert outcome["chosen"]
    assert not unexplained(outcome), "\n".join(unexplained(outcome))


@pytest.mark.whole
@pytest.mark.parametrize(("mode", "share"), [("new", 12), ("old", 24)])
def test_a_larger_sample_in_graphs(mode: str, share: int, tmp_path: Path) -> None:
    outcome = run_mode(mode, 1, share, tmp_path)
    assert outcome["chosen"]
    assert not unexplained(outcome), "\n".join(unexplained(outcome))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("mode", "of_each"),
    [
        pytest.param("eager", 2, marks=pytest.mark.whole),
        *(pytest.param(mode, 1, marks=pytest.mark.long) for mode in ("new", "old")),
    ],
)
def test_each_kernel_in_each_dtype(mode: str, of_each: int, tmp_path: Path) -> None:
    outcome = run_mode(mode, of_each, 1, tmp_path)
    assert not unexplained(outcome), "\n".join(unexplained(outcome))
    assert not unreached(mode, outcome), "\n".join(unreached(mode, outcome))
