"""Ops that write in place never fall back: Paddle's fallback would lose what they write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from processes import run

ONE_CALL_WITHOUT_KERNELS = """
import numpy
import paddle
paddle.set_device("iluvatar")
x = paddle.to_tensor([-1.0, 2.0])
def call(x):
    return paddle._C_ops.OP(x)
if STATIC:
    call = paddle.jit.to_static(call, full_graph=True)
try:
    print(call(x).numpy())
except NotImplementedError as error:
    print("relu_ writes in place" in str(error), "kernel 'relu'" in str(error))
"""


@pytest.mark.parametrize(
    ("op", "outcome", "static"),
    [
        pytest.param("relu", "[0. 2.]", False, marks=pytest.mark.whole, id="relu-dygraph"),
        pytest.param("relu", "[0. 2.]", True, id="relu-to_static"),
        pytest.param("relu_", "True True", False, id="relu_-dygraph"),
        pytest.param("relu_", "True True", True, marks=pytest.mark.whole, id="relu_-to_static"),
    ],
)
def test_a_kernel_falls_back_out_of_place_only(op: str, outcome: str, static: bool, tmp_path: Path) -> None:
    program = ONE_CALL_WITHOUT_KERNELS.replace("OP", op).replace("STATIC", str(static))
    (tmp_path / "program.py").write_text(program)
    program = "import runpy; runpy.run_path('program.py')"
    result = run(program, tmp_path, UNIHAL_STRICT="0", UNIHAL_PADDLE_NO_KERNELS="1")
    assert (result.returncode, result.stdout) == (0, outcome + "\n"), result.stderr


def test_every_in_place_op_is_right_or_an_error_that_names_it(tmp_path: Path) -> None:
    sweep = Path(__file__).parent / "in_place_sweep.py"
    result = run(f"import runpy; runpy.run_path({str(sweep)!r}, run_name='__main__')", tmp_path, UNIHAL_STRICT="0")
    assert result.returncode == 0, result.stderr[-3000:]
    report = json.loads(result.stdout.splitlines()[-1])
    assert report["unknown"] == [], "ops that write in place, and that no table of in_place_sweep.py has"
    wrong = {
        name: verdicts for name, verdicts in report["verdicts"].items() if set(verdicts.values()) - {"right", "refused"}
    }
    assert wrong == {}
    # What has a kernel is not refused: the optimizers, and writing into parts of a tensor.
    refused = {name for name, verdicts in report["verdicts"].items() if "refused" in verdicts.values()}
    assert not refused & HAVE_KERNELS


HAVE_KERNELS = {
    *("adadelta_", "adagrad_", "adam_", "adamax_", "adamw_", "asgd_", "average_accumulates_", "lamb_", "momentum_"),
    *("nadam_", "radam_", "rmsprop_", "rprop_", "sgd_"),
    *("fill_", "fill_diagonal_", "fill_diagonal_tensor_", "index_add_", "index_put_", "masked_fill_"),
    *("put_along_axis_", "scatter_", "set_value_", "set_value_with_tensor_"),
    *("baddbmm_", "bce_loss_", "bitwise_left_shift_", "bitwise_right_shift_", "copysign_", "cumprod_", "logit_"),
    "trunc_divide_",
}
