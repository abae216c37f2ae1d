"""Ops that write in place never fall back: Paddle's fallback would lose what they write."""

from __future__ import annotations

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


@pytest.mark.parametrize("static", [False, True], ids=["dygraph", "to_static"])
@pytest.mark.parametrize(("op", "outcome"), [("relu", "[0. 2.]"), ("relu_", "True True")])
def test_a_kernel_falls_back_out_of_place_only(op: str, outcome: str, static: bool, tmp_path: Path) -> None:
    program = ONE_CALL_WITHOUT_KERNELS.replace("OP", op).replace("STATIC", str(static))
    (tmp_path / "program.py").write_text(program)
    program = "import runpy; runpy.run_path('program.py')"
    result = run(program, tmp_path, UNIHAL_STRICT="0", UNIHAL_PADDLE_NO_KERNELS="1")
    assert (result.returncode, result.stdout) == (0, outcome + "\n"), result.stderr
