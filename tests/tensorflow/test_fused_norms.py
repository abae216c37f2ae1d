"""Norms, GELU and softmax as Keras composes them become ops of ours, forward and backward, with the same values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from compare import CPU, DEVICE
from graphs import graph_nodes, graph_ops

pytestmark = pytest.mark.usefixtures("soft_placement")

layers = keras.layers


def assert_same(actual: Any, expected: Any, tolerance: float) -> None:
    actual, expected = tf.nest.flatten(actual), tf.nest.flatten(expected)
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        a, e = np.asarray(a, "float64"), np.asarray(e, "float64")
        assert a.shape == e.shape
        scale = max(1.0, float(np.abs(e[np.isfinite(e)]).max(initial=0)))
        np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance * scale)


def compare(run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, tolerance: float = 2e-5) -> Counter[str]:
    """Compares with the pass switched off and with the CPU; gives the ops of the graphs."""
    with tf.device(DEVICE):
        fused, ops = graph_ops(run)
        monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", "0")
        plain, unfused = graph_ops(run)
        monkeypatch.delenv("UNIHAL_TENSORFLOW_FUSION")
    with tf.device(CPU):
        expected = run()
    assert not any(op.startswith("Unihal") for op in unfused)
    assert_same(fused, plain, tolerance)
    assert_same(fused, expected, tolerance)
    return ops


# -- whole models of Keras


def images(norm: Callable[[], Any]) -> keras.Model:
    """Residual blocks, with a norm in the shortcut of one of them."""
    inputs = keras.Input((6, 5, 3))
    x = layers.Conv2D(4, 3, padding="same", use_bias=False)(inputs)
    x = shortcut = layers.ReLU()(norm()(x))
    x = norm()(layers.Conv2D(6, 3, 2, padding="same", use_bias=False)(x))
    x = layers.ReLU()(layers.Add()([x, norm()(layers.Conv2D(6, 1, 2, use_bias=False)(shortcut))]))
    x = layers.ReLU()(layers.Add()([x, norm()(layers.Conv2D(6, 3, padding="same", use_bias=False)(x))]))
    return keras.Model(inputs, layers.Dense(3)(layers.GlobalAveragePooling2D()(x)))


def rows(norm: Callable[[], Any]) -> keras.Model:
    inputs = keras.Input((6, 5, 3))
    x = layers.Dense(8)(layers.Reshape((30, 3))(inputs))
    x = layers.Add()([x, layers.Dense(8, activation="tanh")(norm()(x))])
    return keras.Model(inputs, layers.Dense(3)(layers.GlobalAveragePooling1D()(norm()(x))))


def columns(norm: Callable[[], Any]) -> keras.Model:
    """A norm of tensors with an axis of length 1, over which TensorFlow sums nothing."""
    inputs = keras.Input((6, 5, 3))
    x = norm()(layers.Dense(8)(layers.Reshape((30, 1, 3))(inputs)))
    return keras.Model(inputs, layers.Dense(3)(layers.GlobalAveragePooling2D()(layers.Activation("tanh")(x))))


def flat(norm: Callable[[], Any]) -> keras.Model:
    inputs = keras.Input((6, 5, 3))
    x = norm()(layers.Dense(7)(layers.Flatten()(inputs)))
    return keras.Model(inputs, layers.Dense(3)(layers.Activation("tanh")(x)))


def train(make: Callable[[], keras.Model], mode: str, count: int = 20) -> Callable[[], Any]:
    """Trains, evaluates and predicts; gives weights, the loss and predictions."""

    def run() -> Any:
        keras.utils.set_random_seed(5)
        model = make()
        generator = np.random.default_rng(9)
        for variable in model.trainable_variables:  # scale and offset begin as 1 and 0, which hide faults
            variable.assign(variable + generator.normal(size=variable.shape).astype("float32") * 0.1)
        # The weight of a shortcut's gradient must be seen, so rates are not small.
        model.compile(keras.optimizers.SGD(0.05), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        x = generator.normal(size=(count, 6, 5, 3)).astype("float32")
        y = generator.integers(0, 3, count)
        if mode == "fit":
            model.fit(x, y, batch_size=8, epochs=1, shuffle=False, verbose=0)
        else:
            for _ in range(2):
                model.train_on_batch(x, y)
        return [model.get_weights(), model.evaluate(x, y, verbose=0), model.predict(x, verbose=0)]

    return run


def batch_norm(**options: Any) -> Callable[[], Any]:
    return lambda: layers.BatchNormalization(**options)


def layer_norm(**options: Any) -> Callable[[], Any]:
    return lambda: layers.LayerNormalization(**options)


BATCH = ("UnihalBatchNorm", "UnihalBatchNormGrad", "UnihalBatchNormInference")
LAYER = ("UnihalLayerNorm", "UnihalLayerNormGrad")
RMS = ("UnihalRmsNorm", "UnihalRmsNormGrad")
GELU = ("UnihalGelu", "UnihalGeluGrad")


def gelu_by_tanh(x: Any) -> Any:
    return keras.activations.gelu(x, approximate=True)


# A model, its norm, the ops that must be found, and how many norms it has.
MODELS: dict[str, tuple[Callable[..., Any], Callable[[], Any], tuple[str, ...], int]] = {
    "batch norm": (images, batch_norm(), BATCH, 4),
    "batch norm without scale": (images, batch_norm(scale=False), BATCH, 4),
    "batch norm with other constants": (images, batch_norm(momentum=0.7, epsilon=0.1), BATCH, 4),
    "batch norm of rows": (rows, batch_norm(), BATCH, 2),
    "batch norm of vectors": (flat, batch_norm(), BATCH, 1),
    "layer norm": (rows, layer_norm(), LAYER, 2),
    "layer norm of images": (images, layer_norm(), LAYER, 4),
    "layer norm of vectors": (flat, layer_norm(), LAYER, 1),
    "layer norm with an axis of length 1": (columns, layer_norm(), LAYER, 1),
    "RMS norm with an axis of length 1": (columns, lambda: layers.RMSNormalization(), RMS, 1),
    "layer norm without offset": (rows, layer_norm(center=False), LAYER, 2),
    "layer norm without scale": (rows, layer_norm(scale=False), LAYER, 2),
    "RMS norm": (rows, lambda: layers.RMSNormalization(), RMS, 2),
    "GELU": (rows, lambda: layers.Activation("gelu"), GELU, 2),
    "GELU by tanh": (rows, lambda: layers.Activation(gelu_by_tanh), GELU, 2),
    "softmax": (rows, lambda: layers.Softmax(), ("UnihalSoftmaxGrad",), 2),
}
# The others take too long for every run of the tests.
QUICK = {("batch norm", "fit")}
# What has ops of its own, or makes another graph; the others differ in numbers or in shapes.
DISTINCT = {
    "layer norm",
    "RMS norm",
    "GELU",
    "batch norm without scale",
    "batch norm of rows",
    "layer norm of images",
    "layer norm with an axis of length 1",
    "layer norm without scale",
    "GELU by tanh",
    "softmax",
}
CASES = [
    pytest.param(
        name,
        mode,
        marks=[]
        if (name, mode) in QUICK
        else pytest.mark.whole
        if mode == "train_on_batch" and name in DISTINCT
        else pytest.mark.long,
    )
    for name in MODELS
    for mode in ("fit", "train_on_batch")
]


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_a_model_of_keras(name: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, norm, expected, count = MODELS[name]
    ops = compare(train(lambda: make(norm), mode), monkeypatch, 1e-4)
    if make is columns and mode == "fit":
        # With known sizes TensorFlow sums over the axis of length 1 too, which the pass does not tell from others.
        return
    for op in expected:
        # The forward op is in the step, and of norms without statistics also in evaluation and prediction.
        runs = 1 if op.endswith("Grad") or op == "UnihalBatchNorm" else 2 if op.endswith("Inference") else 3
        assert ops[op] == count * runs, f"{op}: {dict(ops)}"
    assert not {"Rsqrt", "RsqrtGrad", "SquaredDifference", "Square", "Erfc", "Exp", "Pow"} & ops.keys()


# -- mixed precision


def nodes_of(run: Callable[[], Any], policy: str) -> tuple[Any, list[Any]]:
    keras.config.set_dtype_policy(policy)
    with tf.device(DEVICE):
        return graph_nodes(run)


NARROW = {"mixed_bfloat16": (tf.bfloat16, 6e-2), "mixed_float16": (tf.float16, 1e-2)}
MIXED = ("batch norm", "layer norm", "RMS norm", "GELU", "GELU by tanh", "softmax")


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        pytest.param(
            name,
            policy,
            marks=[]
            if (name, policy) == ("layer norm", "mixed_float16")
            else pytest.mark.whole
            if policy == list(NARROW)[i % 2]
            else pytest.mark.long,
        )
        for i, name in enumerate(MIXED)
        for policy in NARROW
    ],
)
def test_a_model_of_mixed_precision(name: str, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, norm, expected, _ = MODELS[name]
    dtype, tolerance = NARROW[policy]
    run = train(lambda: make(norm), "train_on_batch")
    _, wide = nodes_of(run, "float32")
    fused, nodes = nodes_of(run, policy)
    monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", "0")
    plain, _ = nodes_of(run, policy)
    assert_same(fused, plain, tolerance)
    counts = Counter(node.op for node in nodes)
    assert {op: counts[op] for op in expected} == {op: sum(node.op == op for node in wide) for op in expected}
    # They read and write the narrow type.
    assert {node.attr["T"].type for node in nodes if node.op in expected} == {dtype.as_datatype_enum}


def test_a_norm_whose_wide_value_somebody_reads() -> None:
    x = np.random.default_rng(1).normal(size=(4, 8)).astype("float32")

    @tf.function
    def norm(narrow: tf.Tensor, read: bool) -> list[tf.Tensor]:
        wide = tf.cast(narrow, tf.float32)
        mean, variance = tf.nn.moments(wide, [-1], keepdims=True)
        y = (wide - mean) * tf.math.rsqrt(variance + 1e-3)
        return [tf.cast(y, tf.bfloat16), y if read else mean]

    for read in (False, True):
        with tf.device(DEVICE):
            actual, nodes = graph_nodes(lambda read=read: norm(tf.cast(x, tf.bfloat16), read))
        with tf.device(CPU):
            expected = norm(tf.cast(x, tf.bfloat16), read)
        types = [node.attr["T"].type for node in nodes if node.op == "UnihalLayerNorm"]
        assert types == [(tf.float32 if read else tf.bfloat16).as_datatype_enum]
        assert_same(tf.cast(actual[0], tf.float32), tf.cast(expected[0], tf.float32), 1e-2)
        assert_same(actual[1], expected[1], 2e-5)
