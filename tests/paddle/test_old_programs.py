"""Programs of the old intermediate representation, where elementwise ops have an axis: in processes of their own, since
the representation is chosen when Paddle is imported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from comparison import DEVICE
from processes import run

PROGRAM = """
import json
import numpy as np
import paddle

paddle.enable_static()
SHAPES = [((3, 3), (3,), 0), ((3, 3), (3,), -1), ((2, 3, 4), (3,), 1), ((2, 3, 4), (2, 3), 0), ((2, 3, 4), (2, 1), 0),
          ((2, 3, 4), (3, 1), 1), ((3,), (2, 3, 4), 1), ((2, 3, 4), (1,), 0), ((2, 3), (2, 3), 0)]

def evaluate(op, x_shape, y_shape, axis, place):
    program = paddle.static.Program()
    with paddle.static.program_guard(program, paddle.static.Program()):
        block = program.global_block()
        x, y = (paddle.static.data(n, s, "float32") for n, s in (("x", x_shape), ("y", y_shape)))
        x.stop_gradient = y.stop_gradient = False
        z, weighted, loss = (block.create_var(name=name, dtype="float32") for name in ("z", "weighted", "loss"))
        block.append_op(type=op, inputs={"X": x, "Y": y}, outputs={"Out": z}, attrs={"axis": axis})
        weights = paddle.static.data("weights", z.shape, "float32")
        product = {"type": "elementwise_mul", "inputs": {"X": z, "Y": weights}, "outputs": {"Out": weighted}}
        block.append_op(**product, attrs={"axis": -1})
        block.append_op(type="reduce_sum", inputs={"X": weighted}, outputs={"Out": loss}, attrs={"reduce_all": True})
        gradients = [] if op in FORWARD_ONLY else paddle.static.gradients([loss], [x, y])
    draw = np.random.RandomState(0)
    feed = {name: draw.uniform(0.5, 2, shape) for name, shape in (("x", x_shape), ("y", y_shape), ("weights", z.shape))}
    executor = paddle.static.Executor(place)
    return executor.run(program, feed={n: v.astype("float32") for n, v in feed.items()}, fetch_list=[z, *gradients])

FORWARD_ONLY = ("elementwise_max", "elementwise_min", "elementwise_pow", "elementwise_mod", "elementwise_floordiv")
failures = []
for op in ("elementwise_add", "elementwise_sub", "elementwise_mul", "elementwise_div", *FORWARD_ONLY):
    for shapes in SHAPES:
        expected = evaluate(op, *shapes, paddle.CPUPlace())
        try:
            actual = evaluate(op, *shapes, paddle.CustomPlace("DEVICE", 0))
            for a, e in zip(actual, expected):
                np.testing.assert_allclose(a, e, rtol=1e-5, atol=1e-5)
        except Exception as error:
            failures.append(f"{op} {shapes}: {' '.join(str(error).split())[:300]}")
print(json.dumps(failures))
"""


@pytest.mark.skipif(DEVICE != "iluvatar", reason="what the adapter makes of a program does not depend on the backend")
def test_elementwise_ops_and_their_gradients_align_at_the_axis(tmp_path: Path) -> None:
    # polaris: the only type that every version's executor takes for feeds.
    result = run(PROGRAM.replace("DEVICE", "polaris"), tmp_path, FLAGS_enable_pir_api="0", GLOG_minloglevel="3")
    assert result.returncode == 0, result.stderr
    failures = json.loads(result.stdout.splitlines()[-1])
    assert not failures, "\n".join(failures)
