"""Attention as Keras and others compose it is one op forward and one back, with the values of the single ops."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import unihal
from compare import CPU, DEVICE
from graphs import graph_ops

pytestmark = pytest.mark.usefixtures("soft_placement")


def kept(*values: Any, quick: bool, whole: bool) -> Any:
    """A case of `make test`, of what `make test-all` runs besides, or of `make test-matrices`."""
    return pytest.param(*values, marks=[] if quick else [pytest.mark.whole if whole else pytest.mark.long])


layers, ops = keras.layers, keras.ops
TOLERANCES = {"float32": 2e-5, "mixed_float16": 4e-3, "mixed_bfloat16": 4e-2}
BOTH = {"UnihalAttention": 1, "UnihalAttentionGrad": 1}
MASKED = BOTH | {"UnihalAttentionMask": 1}
Call = Callable[..., Any]
# What is named is fused where it is slower, too: on the stub gradients mostly are not by default.
ALL = (
    "optimizer,norm,gelu,moving_average,negative_zero,softmax,elementwise,lists,collectives,products,seeds,branches,"
    "attention,waits"
)


@pytest.fixture(autouse=True)
def whatever_it_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", ALL)


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def assert_same(actual: Any, expected: Any, tolerance: float) -> None:
    actual, expected = tf.nest.flatten(actual), tf.nest.flatten(expected)
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert a.shape == e.shape
        scale = max(1.0, float(np.abs(e).max(initial=0)))
        np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance * scale)


def attention_ops(counted: Counter[str]) -> dict[str, int]:
    return {op: count for op, count in counted.items() if op.startswith("UnihalAttention")}


def run(call: Call, inputs: list[np.ndarray], trained: int, batch: int | None, dtype: Any) -> tuple[Any, Counter[str]]:
    """What a call gives, with the gradients of its first `trained` operands; and the ops of its graph."""

    def spec(x: np.ndarray) -> tf.TensorSpec:
        first = batch if x.shape[0] == len(inputs[0]) else x.shape[0]
        return tf.TensorSpec((first, *x.shape[1:]), dtype if x.dtype == np.float32 else x.dtype)

    signature = [spec(x) for x in inputs]

    @tf.function(input_signature=signature)
    def step(*operands: tf.Tensor) -> Any:
        if trained == 0:
            return call(*operands)
        with tf.GradientTape() as tape:
            tape.watch(operands[:trained])
            y = call(*operands)
            loss = tf.reduce_sum(tf.sin(tf.cast(y, tf.float32)))
        return y, tape.gradient(loss, operands[:trained])

    def values() -> Any:
        operands = [tf.cast(x, spec.dtype) for x, spec in zip(inputs, signature, strict=True)]
        return [tf.cast(value, tf.float64).numpy() for value in tf.nest.flatten(step(*operands))]

    return graph_ops(values)


def compare(
    call: Call, inputs: list[np.ndarray], expected: dict[str, int], monkeypatch: pytest.MonkeyPatch, *,
    trains: int = 0, batch: int | None = None, policy: str = "float32",
) -> None:  # fmt: skip
    """Against the single ops on the device and on the CPU."""
    dtype = tf.as_dtype(keras.DTypePolicy(policy).compute_dtype)
    with tf.device(DEVICE):
        fused, counted = run(call, inputs, trains, batch, dtype)
        monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", "0")
        plain, none = run(call, inputs, trains, batch, dtype)
        monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", ALL)
    with tf.device(CPU):
        reference, _ = run(call, inputs, trains, batch, dtype)
    assert attention_ops(counted) == expected
    assert ("Softmax" not in counted) == bool(expected)
    assert not attention_ops(none)
    assert_same(fused, plain, TOLERANCES[policy])
    assert_same(fused, reference, TOLERANCES[policy])


# -- by hand

Q, K, V = normal(1, 2, 3, 6, 4), normal(2, 2, 3, 5, 4), normal(3, 2, 3, 5, 7)
SQUARE = [normal(seed, 2, 3, 6, 4) for seed in (1, 2, 3)]
SEEN = np.random.default_rng(4).integers(0, 2, (2, 1, 6, 5)).astype(bool)
SEEN[0, 0, 2] = False  # a row that sees nothing
HALF = 0.5


def products(q: Any, k: Any, v: Any) -> Any:
    return tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * tf.cast(HALF, q.dtype)), v)


def quotient(q: Any, k: Any, v: Any) -> Any:
    return tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / tf.cast(2.5, q.dtype)), v)


def unscaled(q: Any, k: Any, v: Any) -> Any:
    return tf.matmul(tf.nn.softmax(tf.matmul(q, tf.transpose(k, (0, 1, 3, 2)))), v)


def einsums(q: Any, k: Any, v: Any) -> Any:
    scores = tf.einsum("bhqd,bhkd->bhqk", q, k) * tf.cast(HALF, q.dtype)
    return tf.einsum("bhqk,bhkd->bqhd", tf.nn.softmax(scores), v)


def upside_down(q: Any, k: Any, v: Any) -> Any:
    """Scores with the keys first, which are transposed for the softmax."""
    scores = tf.matmul(k, q, transpose_b=True) * tf.cast(HALF, q.dtype)
    return tf.matmul(tf.nn.softmax(tf.transpose(scores, (0, 1, 3, 2))), v)


def wide(q: Any, k: Any, v: Any) -> Any:
    scores = tf.cast(tf.matmul(q, k, transpose_b=True), tf.float32) * HALF
    return tf.matmul(tf.cast(tf.nn.softmax(scores), v.dtype), v)


def selected(q: Any, k: Any, v: Any, seen: Any) -> Any:
    scores = tf.einsum("bhqd,bhkd->bhqk", q, k) * tf.cast(HALF, q.dtype)
    weights = tf.nn.softmax(tf.where(seen, scores, tf.constant(-3e4, q.dtype)))
    return tf.einsum("bhqk,bhkd->bhqd", weights, v)


def hidden(q: Any, k: Any, v: Any, seen: Any) -> Any:
    scores = tf.matmul(q, k, transpose_b=True) * tf.cast(HALF, q.dtype)
    return tf.matmul(tf.nn.softmax(tf.where(seen, tf.constant(-3e4, q.dtype), scores)), v)


def emptied(q: Any, k: Any, v: Any, seen: Any) -> Any:
    """Rows that see nothing give zeros, as keras.layers.Softmax has it."""
    scores = tf.einsum("bhqd,bhkd->bhqk", q, k) * tf.cast(HALF, q.dtype)
    weights = tf.nn.softmax(tf.where(seen, scores, tf.constant(-3e4, q.dtype)))
    return tf.einsum("bhqk,bhkd->bhqd", tf.where(seen, weights, tf.constant(0, q.dtype)), v)


BY_HAND: dict[str, tuple[Call, list[np.ndarray], dict[str, int]]] = {
    "products": (products, [Q, K, V], BOTH),
    "products of three axes": (products, [Q[:, 0], K[:, 0], V[:, 0]], BOTH),
    "a quotient": (quotient, [Q, K, V], BOTH),
    "unscaled": (unscaled, [Q, K, V], BOTH),
    "einsums": (einsums, [Q, K, V], BOTH),
    "upside down": (upside_down, [Q, K, V], BOTH),
    "a wide softmax": (wide, [Q, K, V], BOTH),
    "where": (selected, [Q, K, V, SEEN], MASKED),
    "where of one row": (selected, [Q, K, V, SEEN[:, :, 2:3]], MASKED),
    "where of a vector": (selected, [Q, K, V, SEEN[1, 0, 0]], MASKED),
    "where, the other way round": (hidden, [Q, K, V, SEEN], MASKED),
    "zeros in empty rows": (emptied, [Q, K, V, SEEN], MASKED),
}
NARROW = {"products", "a wide softmax", "where", "zeros in empty rows"}
QUICK = {"products", "einsums", "where", "zeros in empty rows"}


@pytest.mark.parametrize("trains", [True, False], ids=["training", "inference"])
@pytest.mark.parametrize(
    "name, policy",
    [
        kept(name, policy, quick=name in QUICK and policy == "float32", whole=policy == "float32")
        for name in BY_HAND
        for policy in TOLERANCES
        if policy == "float32" or name in NARROW
    ],
)
def test_by_hand(name: str, policy: str, trains: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    call, inputs, expected = BY_HAND[name]
    if not trains:
        expected = {op: count for op, count in expected.items() if op != "UnihalAttentionGrad"}
    compare(call, inputs, expected, monkeypatch, trains=3 if trains else 0, batch=2, policy=policy)


@pytest.mark.parametrize("name", ["products", "einsums", "where of one row", "zeros in empty rows"])
def test_batches_of_unknown_size(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call, inputs, expected = BY_HAND[name]
    if name == "products":  # of one tensor, so that TensorFlow knows that sizes are the same
        compare(lambda x: products(x, x + 1, x * 2), [Q], expected, monkeypatch, trains=1)
    else:
        compare(call, inputs, expected, monkeypatch, trains=3)


def test_what_is_launched() -> None:
    with tf.device(DEVICE):
        q, k, v = (tf.constant(x) for x in (Q, K, V))
        with unihal.profile() as recording:
            tf.function(products)(q, k, v)
    assert Counter({total.op: total.calls for total in recording.totals if "copy" not in total.op}) == {"attention": 1}


def test_a_bias_in_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    """In training it may want a gradient, and large numbers leave no digits to the logsumexp."""

    def call(q: Any, k: Any, v: Any, bias: Any) -> Any:
        scores = tf.einsum("bhqd,bhkd->bhqk", q, k) * tf.cast(HALF, q.dtype)
        return tf.einsum("bhqk,bhkd->bhqd", tf.nn.softmax(bias + scores), v)

    inputs = [Q, K, V, normal(5, 2, 3, 6, 5)]
    compare(call, inputs, {"UnihalAttention": 1}, monkeypatch, batch=2)
    compare(call, inputs, {"UnihalAttention": 1}, monkeypatch, batch=2, policy="mixed_bfloat16")
    compare(call, inputs, {}, monkeypatch, trains=3, batch=2)
    compare(call, inputs, {}, monkeypatch, trains=4, batch=2)


# -- what must stay


def weights_too(q: Any, k: Any, v: Any) -> Any:
    weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True))
    return tf.concat([tf.matmul(weights, v), weights], -1)


def scores_too(q: Any, k: Any, v: Any) -> Any:
    scores = tf.matmul(q, k, transpose_b=True)
    return tf.concat([tf.matmul(tf.nn.softmax(scores), v), scores], -1)


def dropped_out(q: Any, k: Any, v: Any) -> Any:
    weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True))
    return tf.matmul(weights * tf.cast(tf.random.stateless_uniform(tf.shape(weights), (1, 2)) > 0.5, q.dtype), v)


def over_rows(q: Any, k: Any, v: Any) -> Any:
    return tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True), axis=2), v)


def capped(q: Any, k: Any, v: Any) -> Any:
    return tf.matmul(tf.nn.softmax(tf.tanh(tf.matmul(q, k, transpose_b=True))), v)


def broadcast_keys(q: Any, k: Any, v: Any) -> Any:
    return tf.matmul(tf.nn.softmax(tf.matmul(q, k[:1], transpose_b=True)), v)


def seen_a_little(q: Any, k: Any, v: Any) -> Any:
    scores = tf.matmul(q, k, transpose_b=True)
    return tf.matmul(tf.nn.softmax(tf.where(scores > 0, scores, -1.0)), v)


def by_its_own_scores(q: Any, k: Any, v: Any) -> Any:
    scores = tf.matmul(q, k, transpose_b=True)
    return tf.matmul(tf.nn.softmax(tf.where(scores > 0, scores, -1e9)), v)


@pytest.mark.parametrize("trains", [0, 3])
@pytest.mark.parametrize(
    "call",
    [weights_too, scores_too, dropped_out, over_rows, capped, broadcast_keys, seen_a_little, by_its_own_scores],
)
def test_others_are_left(call: Call, trains: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(call, [Q, K, V], {}, monkeypatch, trains=trains, batch=2)


def test_gradients_of_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    def call(q: Any, k: Any, v: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(q)
            y = tf.reduce_sum(tf.sin(products(q, k, v)))
        return tape.gradient(y, q)

    compare(call, [Q, K, V], BOTH, monkeypatch, batch=2)
    compare(call, [Q, K, V], {}, monkeypatch, trains=3, batch=2)


def test_a_gradient_taken_outside_of_the_graph() -> None:
    """The weights are then what the one graph saves for the other."""
    with tf.device(DEVICE):
        operands = [tf.constant(x) for x in (Q, K, V)]

        def gradients(call: Call) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(operands)
                y = tf.reduce_sum(tf.sin(call(*operands)))
            return [gradient.numpy() for gradient in tape.gradient(y, operands)]

        actual, counted = graph_ops(lambda: gradients(tf.function(products)))
        assert_same(actual, gradients(products), 1e-5)
    assert not attention_ops(counted)


def test_a_mask_of_another_batch_is_an_error_of_shapes() -> None:
    signature = [tf.TensorSpec((None, *x.shape[1:]), tf.float32) for x in (Q, K, V)]
    step = tf.function(selected, input_signature=[*signature, tf.TensorSpec((None, 1, 6, 5), tf.bool)])
    with tf.device(DEVICE), pytest.raises(tf.errors.InvalidArgumentError, match="UnihalAttention: Incompatible shapes"):
        step(Q, K, V, np.ones((3, 1, 6, 5), bool))


def broadcast_by_chance(q: Any, k: Any, v: Any, seen: Any) -> Any:
    scores = tf.matmul(q, k, transpose_b=True) * tf.cast(HALF, q.dtype)
    return tf.matmul(tf.nn.softmax(tf.where(seen, scores, tf.constant(-3e4, q.dtype))), v)


@pytest.mark.parametrize("single", range(4))
def test_batches_of_one_that_meet_larger_ones(single: int) -> None:
    """TensorFlow's products of matrices broadcast, and it does not know the sizes before the call."""
    inputs = [x[:1] if number == single else x for number, x in enumerate((Q, K, V, SEEN))]
    if single == 3:
        inputs = [Q[:1], K[:1], V, SEEN]
    signature = [tf.TensorSpec((None, None, *x.shape[2:]), x.dtype) for x in inputs]

    def step(*operands: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(operands[:3])
            y = broadcast_by_chance(*operands)
            loss = tf.reduce_sum(tf.sin(y))
        return y, *tape.gradient(loss, operands[:3])

    with tf.device(DEVICE):
        fused, counted = graph_ops(lambda: [x.numpy() for x in tf.function(step, input_signature=signature)(*inputs)])
    with tf.device(CPU):
        expected = [x.numpy() for x in step(*(tf.constant(x) for x in inputs))]
    assert attention_ops(counted) == MASKED
    assert_same(fused, expected, 2e-5)


def test_no_keys() -> None:
    with tf.device(DEVICE):
        (y,), counted = run(einsums, [Q, K[:, :, :0], V[:, :, :0]], 0, 2, tf.float32)
    assert attention_ops(counted) == {"UnihalAttention": 1}
    np.testing.assert_array_equal(y, np.zeros((2, 6, 3, 7)))


# -- Keras


def multi_head(**options: Any) -> Callable[[], Call]:
    def make() -> Call:
        layer = layers.MultiHeadAttention(2, 4, **options)
        layer.build((None, 6, 8), (None, 6, 8))
        return layer

    return make


def grouped(**options: Any) -> Callable[[], Call]:
    def make() -> Call:
        layer = layers.GroupQueryAttention(4, 4, 2, **options)
        layer.build((None, 6, 8), (None, 6, 8))
        return layer

    return make


PADDING = np.ones((2, 6), bool)
PADDING[0, 4:] = False
PADDING[1] = False  # nothing is seen
X = normal(6, 2, 6, 8)


def heads(x: Any) -> tuple[Any, Any, Any]:
    split = ops.reshape(x, (-1, 6, 2, 4))
    return split, split + 1, split * 2


OF_KERAS: dict[str, tuple[Callable[[], Call], Callable[..., Any], list[np.ndarray], dict[str, int]]] = {
    "heads": (multi_head(), lambda layer, x: layer(x, x), [X], BOTH),
    "another value": (multi_head(value_dim=3), lambda layer, x: layer(x, x[:, ::-1]), [X], BOTH),
    "causal": (multi_head(), lambda layer, x: layer(x, x, use_causal_mask=True), [X], BOTH),
    "padded keys": (
        multi_head(),
        lambda layer, x, seen: layer(x, x, attention_mask=seen[:, None]),
        [X, PADDING],
        MASKED,
    ),
    "padded": (
        multi_head(),
        lambda layer, x, seen: layer(x, x, attention_mask=seen[:, None] & seen[:, :, None]),
        [X, PADDING],
        MASKED,
    ),
    "configured with dropout": (multi_head(dropout=0.5), lambda layer, x: layer(x, x, training=False), [X], BOTH),
    "configured with dropout, padded": (
        multi_head(dropout=0.5),
        lambda layer, x, seen: layer(x, x, attention_mask=seen[:, None], training=False),
        [X, PADDING],
        MASKED,
    ),
    "groups": (grouped(), lambda layer, x: layer(x, x), [X], BOTH),
    "causal groups": (grouped(), lambda layer, x: layer(x, x, use_causal_mask=True), [X], BOTH),
    "causal, of other keys": (multi_head(), lambda layer, x: layer(x, x[:, :4], use_causal_mask=True), [X], BOTH),
    "causal, of more keys": (
        multi_head(),
        lambda layer, x: layer(x, ops.concatenate([x, x * 2], 1), use_causal_mask=True),
        [X],
        BOTH,
    ),
    "dot_product_attention": (lambda: ops.dot_product_attention, lambda op, x: op(*heads(x)), [X], BOTH),
    "dot_product_attention, causal": (
        lambda: ops.dot_product_attention,
        lambda op, x: op(*heads(x), is_causal=True),
        [X],
        BOTH,
    ),
    "scores are returned": (
        multi_head(),
        lambda layer, x: ops.concatenate(
            [ops.reshape(part, (-1, 2)) for part in layer(x, x, return_attention_scores=True)], 0
        ),
        [X],
        {},
    ),
}


RECTANGULAR = {"causal, of other keys", "causal, of more keys"}


QUICK_OF_KERAS = {"heads", "causal", "padded"}


@pytest.mark.parametrize(
    ("name", "batch", "policy"),
    [
        kept(
            name,
            batch,
            policy,
            quick=name in QUICK_OF_KERAS and (batch is None) == (name == "heads") and policy == "float32",
            whole=i % 2 == 0 and policy == ("mixed_bfloat16" if batch is None else "float32"),
        )
        for i, name in enumerate(OF_KERAS)
        for batch in (2, None)
        for policy in TOLERANCES
    ],
)
def test_of_keras(name: str, batch: int | None, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, call, inputs, expected = OF_KERAS[name]
    if batch is not None and name in RECTANGULAR:  # TensorFlow made it a constant
        expected = MASKED
    keras.config.set_dtype_policy(policy)
    keras.utils.set_random_seed(3)
    layer = make()
    for number, weight in enumerate(getattr(layer, "trainable_variables", [])):
        weight.assign(normal(number, *weight.shape) * 0.4)
    compare(
        lambda *operands: call(layer, *operands), inputs, expected, monkeypatch, trains=1, batch=batch, policy=policy
    )
    forward = {op: count for op, count in expected.items() if op != "UnihalAttentionGrad"}
    compare(lambda *operands: call(layer, *operands), inputs, forward, monkeypatch, batch=batch, policy=policy)


# -- by default


@pytest.mark.parametrize(
    "length, causal, trains, is_fused",
    [(128, False, 0, True), (128, False, 3, False), (64, True, 3, False), (128, True, 3, True)],
)
def test_what_the_stub_is_faster_by(
    length: int, causal: bool, trains: int, is_fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere all of these are fused."""
    monkeypatch.delenv("UNIHAL_TENSORFLOW_FUSION")
    is_fused |= not unihal.devices()[0].properties.is_stub
    inputs = [normal(seed, 2, length, 2, 8) for seed in range(3)]
    with tf.device(DEVICE):
        _, counted = run(
            lambda *operands: ops.dot_product_attention(*operands, is_causal=causal), inputs, trains, 2, tf.float32
        )
    assert ("UnihalAttention" in counted) == is_fused


# -- in the middle of other things


def program(seed: int) -> tuple[Call, bool]:
    """A random graph around attention: what is read in the middle, and what waits for what."""
    chosen = random.Random(seed)
    extra = chosen.choice(["nothing", "nothing", "nothing", "scores", "weights", "scaled"])
    waits = chosen.sample(["before", "scores", "weights", "result"], chosen.choice([0, 1, 2]))
    masked, trains = chosen.random() < 0.5, chosen.random() < 0.6

    def call(counter: tf.Variable, q: Any, k: Any, v: Any, seen: Any) -> Any:
        reads = []

        def note(place: str, *values: Any) -> None:
            """Counts and reads after `values`, before what is made inside."""
            if place in waits:
                with tf.control_dependencies(list(values)):
                    counter.assign(counter * 2 + len(reads))
                    reads.append(counter.read_value())

        with tf.GradientTape() as tape:
            tape.watch([q, k, v])
            note("before", q)
            with tf.control_dependencies(reads):
                scores = tf.matmul(q, k, transpose_b=True)
            note("scores", scores)
            with tf.control_dependencies(reads):
                scaled = scores * HALF
            weights = tf.nn.softmax(tf.where(seen, scaled, -1e9) if masked else scaled)
            note("weights", weights)
            with tf.control_dependencies(reads):
                y = tf.matmul(weights, v)
            note("result", y)
            loss = tf.reduce_sum(tf.sin(y))
        read = {"nothing": y, "scores": scores, "weights": weights, "scaled": scaled}[extra]
        gradients = tape.gradient(loss, [q, k, v]) if trains else []
        return [y, tf.reduce_sum(read, -1), *gradients, *reads, counter.read_value()]

    return call, extra == "nothing"


@pytest.mark.parametrize("seed", [kept(seed, quick=seed < 4, whole=seed < 10) for seed in range(24)])
def test_random_graphs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    call, may_fuse = program(seed)
    results = []
    for fusion in (ALL, "0"):
        monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", fusion)
        with tf.device(DEVICE):
            counter = tf.Variable(1.0)
            step = tf.function(lambda *operands, counter=counter: call(counter, *operands))
            operands = [tf.constant(x) for x in (Q, K, V, SEEN)]
            results.append(graph_ops(lambda: [x.numpy() for _ in range(2) for x in step(*operands)]))
    (fused, counted), (plain, _) = results
    assert ("UnihalAttention" in counted) == may_fuse
    assert_same(fused, plain, 2e-5)


@pytest.mark.parametrize("fetch", ["scores", "weights", "y", "gradient"])
def test_fetched_from_a_session(fetch: str) -> None:
    """Whatever a session fetches is there, and only what nobody asks for goes."""
    graph = tf.Graph()
    with graph.as_default(), graph.device(DEVICE):
        q, k, v = (tf.compat.v1.placeholder(tf.float32, x.shape) for x in (Q, K, V))
        scores = tf.matmul(q, k, transpose_b=True)
        weights = tf.nn.softmax(scores)
        y = tf.matmul(weights, v)
        (gradient,) = tf.gradients(tf.reduce_sum(tf.sin(y)), [q])
        with tf.compat.v1.Session(graph=graph) as session:
            value = {"scores": scores, "weights": weights, "y": y, "gradient": gradient}[fetch]
            actual, again = session.run([y, value], {q: Q, k: K, v: V})
    expected = np.einsum("bhqd,bhkd->bhqk", Q, K)
    if fetch != "scores":
        expected = np.exp(expected - expected.max(-1, keepdims=True))
        expected /= expected.sum(-1, keepdims=True)
    if fetch in ("scores", "weights"):
        assert_same(again, expected, 1e-5)
        expected = np.exp(np.einsum("bhqd,bhkd->bhqk", Q, K))
        expected /= expected.sum(-1, keepdims=True)
    assert_same(actual, expected @ V, 1e-4)
