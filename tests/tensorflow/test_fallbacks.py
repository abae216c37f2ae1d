"""Ops that TensorFlow runs on the CPU though the device was asked for: each is counted, and an error in strict mode."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import forks
import pytest

STEP = 1  # every so many'th of about 50 ops


def run(arguments: list[str], **environment: str) -> str:
    result = forks.run(arguments, {**os.environ, "UNIHAL_STRICT": "0", **environment}, timeout=300)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout + result.stderr


def read_cases(output: str) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("CASE ")) for line in output.splitlines() if line.startswith("CASE ")]


def run_cases(**environment: str) -> dict[str, dict[str, Any]]:
    return {case["op"]: case for case in read_cases(run(["fallback_cases.py", str(STEP)], **environment))}


@pytest.fixture(scope="module")
def counted_cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return run_cases(UNIHAL_FALLBACK_LOG=str(tmp_path_factory.mktemp("fallbacks") / "log"))


def test_each_is_counted_alike(counted_cases: dict[str, dict[str, Any]]) -> None:
    assert len(counted_cases) >= 20
    wrong = []
    for name, case in counted_cases.items():
        reason = "no kernel for this dtype is registered" if case["ours"] else "no kernel is registered"
        ways = [case["eager"], case["thread"]]
        if case["kept"]:  # TensorFlow may do without it in a graph: a Rank is a constant there
            ways.append(case["function"])
        if any(len(way) != 1 or way[0] != [name, case["eager"][0][1], reason] for way in ways):
            wrong.append(case)
    assert not wrong
    assert sum(case["kept"] for case in counted_cases.values()) >= 20


@pytest.mark.whole
def test_each_is_an_error_in_strict_mode(counted_cases: dict[str, dict[str, Any]]) -> None:
    strict = run_cases(UNIHAL_STRICT="1")
    assert strict.keys() == counted_cases.keys()
    wrong = []
    for name, case in strict.items():
        ways = ["eager", "thread"] + (["function"] if counted_cases[name]["kept"] else [])
        if any(case[way][:1] != ["error"] or name not in case[way][2] for way in ways):
            wrong.append(case)
    assert not wrong


FOUND = """
import threading
import tensorflow as tf
import unihal

STRICT = {strict}

def count(run):
    \"\"\"What a call adds to the counts by op, or "error" with what the message names.\"\"\"
    before = {{f.op: f.count for f in unihal.fallbacks()}}
    try:
        with tf.device("/device:RDNA:0"):
            run()
    except tf.errors.OpError as error:
        return str(error)
    return {{f.op: f.count - before.get(f.op, 0) for f in unihal.fallbacks() if f.count > before.get(f.op, 0)}}

def check(run, op):
    found = count(run)
    assert (type(found) is str and op in found) if STRICT else found == {{op: 1}}, (op, found)

with tf.device("/device:RDNA:0"):
    two = tf.fill([2, 2], 2.0) + tf.eye(2)

OPS = {{
    "IsotonicRegression": lambda: tf.raw_ops.IsotonicRegression(input=two),
    "SparseMatMul": lambda: tf.raw_ops.SparseMatMul(a=two, b=two),
    "FractionalMaxPool": lambda: tf.raw_ops.FractionalMaxPool(
        value=tf.reshape(two, [1, 2, 2, 1]), pooling_ratio=[1.0, 1.5, 1.5, 1.0], deterministic=True, seed=1, seed2=1),
    "MatrixSquareRoot": lambda: tf.linalg.sqrtm(two),
}}
for op, call in OPS.items():
    check(call, op)
    check(tf.function(call, autograph=False), op)

@tf.function
def chain(x):
    y = tf.linalg.sqrtm(x)
    return tf.linalg.sqrtm(tf.raw_ops.SparseMatMul(a=y, b=y))

@tf.function
def another_chain(x):
    y = tf.linalg.sqrtm(x)
    return tf.linalg.sqrtm(tf.raw_ops.SparseMatMul(a=y, b=y))

for function in (chain, another_chain):
    found = count(lambda: function(two))
    fallen = {{"MatrixSquareRoot": 2, "SparseMatMul": 1}}
    assert (type(found) is str and "MatrixSquareRoot" in found) if STRICT else found == fallen, found

@tf.function
def asks_for_the_cpu(x):
    with tf.device("/CPU:0"):
        y = tf.linalg.sqrtm(x)
    return y + 1

assert count(lambda: asks_for_the_cpu(two)) == {{}}

check(tf.function(lambda: tf.py_function(tf.linalg.sqrtm, [two], tf.float32)), "MatrixSquareRoot")
reasons = {{f.op: f.reason for f in unihal.fallbacks()}}
assert STRICT or reasons["IsotonicRegression"] == "no kernel is registered", reasons
"""


@pytest.mark.parametrize("strict", [pytest.param(False, marks=pytest.mark.whole), True])
def test_those_that_went_unseen(strict: bool, tmp_path: Path) -> None:
    environment = {"UNIHAL_STRICT": "1"} if strict else {"UNIHAL_FALLBACK_LOG": str(tmp_path / "log")}
    run(["-c", FOUND.format(strict=strict)], **environment)


@pytest.mark.whole
def test_decoders_of_sequences_are_counted_and_right(tmp_path: Path) -> None:
    """Their results have sizes that data says at every step: they run on the CPU."""
    code = """
import numpy as np
import tensorflow as tf
import unihal

logits = np.random.default_rng(3).normal(size=(7, 3, 5)).astype("float32")
def decode(device):
    with tf.device(device):
        given = tf.identity(logits)
        greedy = tf.nn.ctc_greedy_decoder(given, [7, 4, 6])
        beams = tf.nn.ctc_beam_search_decoder(given, [7, 4, 6], beam_width=8, top_paths=2)
    return [t.numpy() for part in (greedy, beams) for t in tf.nest.flatten(part, expand_composites=True)]

expected = decode("/CPU:0")
assert not unihal.fallbacks()
for actual, wanted in zip(decode("/device:RDNA:0"), expected, strict=True):
    np.testing.assert_array_equal(actual, wanted)
counts = {f.op: f.count for f in unihal.fallbacks()}
assert counts == {"CTCGreedyDecoder": 1, "CTCBeamSearchDecoder": 1}, counts
"""
    run(["-c", code], UNIHAL_FALLBACK_LOG=str(tmp_path / "log"))


def test_a_wish_for_a_compiler_is_an_error_that_says_what_to_do() -> None:
    code = """
import keras
import tensorflow as tf
double = tf.function(lambda x: x * 2, jit_compile=True)
with tf.device("/device:RDNA:0"):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")  # "auto"
    assert model.jit_compile is False
    model.fit(tf.ones([2, 2]), tf.ones([2, 1]), verbose=0)
    model.compile("sgd", "mse", jit_compile=True)
    for ask in (
        lambda: model.fit(tf.ones([2, 2]), tf.ones([2, 1]), verbose=0),
        lambda: double(tf.ones(3)),
        lambda: double.get_concrete_function(tf.ones(3)),
        lambda: tf.function(lambda: double(tf.ones(3)))(),
    ):
        try:
            ask()
            raise SystemExit("no error")
        except tf.errors.UnimplementedError as error:
            assert 'unihal: jit_compile=True' in str(error) and 'jit_compile="auto"' in str(error), error
with tf.device("CPU"):
    assert double(tf.ones(3)).numpy().tolist() == [2, 2, 2]  # XLA has a backend for it
"""
    run(["-c", code])


# -- ops on variables of the device, which TensorFlow could not run on the CPU

# Relative to the largest value: some units in the last place after two steps.
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-12, "complex64": 2e-5}


def is_right(case: dict[str, Any]) -> bool:
    if case["ours"]:
        return case["counted"] == [] and case["distance"] <= TOLERANCE.get(case["dtype"], 0)
    # TensorFlow's own kernel computed on copies.
    return case["distance"] == 0 and [c[:2] + c[3:] for c in case["counted"]] == [[case["op"], case["dtype"], 2]]


@pytest.mark.whole
def test_every_op_on_variables_gives_what_the_cpu_gives() -> None:
    cases = read_cases(run(["variable_cases.py", "5"]))
    assert not [case for case in cases if "cpu" in case]
    assert not [case for case in cases if "error" in case or not is_right(case)]
    assert sum(not case["ours"] for case in cases) >= 20
    assert len({case["op"] for case in cases if not case["ours"]}) >= 15


def test_in_strict_mode_they_are_errors_that_change_nothing() -> None:
    code = """
import numpy as np
import tensorflow as tf
with tf.device("/device:RDNA:0"):
    variables = [tf.Variable([1.0, 2.0]) for _ in range(3)]
    var, accum, update = (v.handle for v in variables)
    for call in (
        lambda: tf.raw_ops.ResourceApplyAdagradDA(
            var=var, gradient_accumulator=accum, gradient_squared_accumulator=update, grad=[1.0, 2.0],
            lr=0.1, l1=0.0, l2=0.0, global_step=1),
        lambda: tf.raw_ops.ResourceApplyAdam(
            var=var, m=accum, v=update, beta1_power=0.9, beta2_power=0.9, lr=0.1, beta1=0.9, beta2=0.9,
            epsilon=0.1, grad=[1.0, 2.0], use_nesterov=True),
    ):
        for function in (call, tf.function(lambda: [call()][:0], autograph=False)):
            try:
                function()
                raise SystemExit("no error")
            except tf.errors.UnimplementedError as error:
                assert "ResourceApplyAda" in str(error), error
    assert all((v.numpy() == np.array([1.0, 2.0], "float32")).all() for v in variables)
"""
    run(["-c", code], UNIHAL_STRICT="1")


@pytest.mark.whole
def test_the_optimizers_of_tensorflow_1() -> None:
    """Dense and sparse gradients, with a global step."""
    code = """
import numpy as np
import tensorflow as tf
v1 = tf.compat.v1
train = v1.train
OPTIMIZERS = {
    "Adadelta": lambda: train.AdadeltaOptimizer(0.5),
    "Adagrad": lambda: train.AdagradOptimizer(0.5),
    "AdagradDA": lambda: train.AdagradDAOptimizer(0.5, tf.constant(1, tf.int64)),
    "Adam": lambda: train.AdamOptimizer(0.5),
    "Ftrl": lambda: train.FtrlOptimizer(0.5, l1_regularization_strength=0.01),
    "GradientDescent": lambda: train.GradientDescentOptimizer(0.5),
    "Momentum": lambda: train.MomentumOptimizer(0.5, 0.9, use_nesterov=True),
    "ProximalAdagrad": lambda: train.ProximalAdagradOptimizer(0.5),
    "ProximalGradientDescent": lambda: train.ProximalGradientDescentOptimizer(0.5),
    "RMSProp": lambda: train.RMSPropOptimizer(0.5, centered=True),
}
def run(device, make, sparse):
    with tf.Graph().as_default(), tf.device(device):
        table = v1.get_variable("table", initializer=np.arange(6, dtype="float32").reshape(3, 2), use_resource=True)
        values = tf.nn.embedding_lookup(table, [2, 0, 2]) if sparse else table
        step = v1.train.get_or_create_global_step()
        update = make().minimize(tf.reduce_sum(values * values), global_step=step)
        with v1.Session(config=v1.ConfigProto(allow_soft_placement=True)) as session:
            session.run(v1.global_variables_initializer())
            for _ in range(3):
                session.run(update)
            return session.run([table, step])
for name, make in OPTIMIZERS.items():
    for sparse in (False, True):
        actual, steps = run("/device:RDNA:0", make, sparse)
        expected, _ = run("/device:CPU:0", make, sparse)
        assert steps == 3
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6, err_msg=f"{name} {sparse}")
"""
    run(["-c", code])
