"""Keras 2 as tf_keras has it: its layers, a model of each family of its applications, its optimizers, and training by
fit. The rows of layers are those of Keras 3 (tests/tensorflow/keras_layers.py) and what only Keras 2 has."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras
from keras_cases import CPU, DEVICE, Case, DifferenceError, compare, failure, random_weights, run_model
from tf_keras import layers

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tensorflow"))
from keras_layers import IMAGE, LAYERS, LINE, Row

ROWS: dict[str, Row] = LAYERS | {
    "LocallyConnected1D": ({"filters": 3, "kernel_size": 3}, LINE),
    "LocallyConnected2D": ({"filters": 3, "kernel_size": 3}, IMAGE),
    "ThresholdedReLU": ({"theta": 0.5}, LINE),
}  # fmt: skip

#: Layers that are not run by themselves, by why.
WITHOUT: dict[str, list[str]] = {
    "no layer by itself": ["AbstractRNNCell", "GRUCell", "InputLayer", "LSTMCell", "Lambda", "Layer", "RNN"],
    "the same, in WRAPPERS": ["Bidirectional", "SimpleRNNCell", "StackedRNNCells"],
    "wrappers": ["TimeDistributed", "Wrapper"],
    "integers and strings": ["CategoryEncoding", "DenseFeatures", "Discretization", "Embedding", "HashedCrossing"],
    "an error of tf_keras itself on this TensorFlow": ["SpectralNormalization"],
    "lookups": ["Hashing", "IntegerLookup", "StringLookup", "TextVectorization"],
}

WRAPPERS: dict[str, Callable[[], Any]] = {
    "Bidirectional": lambda: layers.Bidirectional(layers.LSTM(3, return_sequences=True)),
    "TimeDistributed": lambda: layers.TimeDistributed(layers.Dense(3)),
    "StackedRNNCells": lambda: layers.RNN([layers.GRUCell(3), layers.LSTMCell(4), layers.SimpleRNNCell(2)]),
}

#: The smallest of each family, and the side of its images: that of the last features is 2 at least.
APPLICATIONS = {
    "ConvNeXtTiny": 64, "DenseNet121": 64, "EfficientNetB0": 64, "EfficientNetV2B0": 64, "InceptionResNetV2": 107,
    "InceptionV3": 107, "MobileNet": 64, "MobileNetV2": 64, "MobileNetV3Small": 64, "NASNetMobile": 64,
    "RegNetX002": 64, "RegNetY002": 64, "ResNet50": 64, "ResNet50V2": 64, "ResNetRS50": 64, "VGG16": 64,
    "Xception": 96,
}  # fmt: skip

#: With dropout: what it draws in a function it does not draw op by op.
DRAWING = ("EfficientNetB0", "EfficientNetV2B0", "MobileNet", "MobileNetV3Small", "ResNetRS50")


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype("float32")


def layer_case(make: Callable[[], Any], shapes: Any) -> str:
    """A layer as a model; attention takes its operands one by one."""
    many = shapes if isinstance(shapes, list) else [shapes]
    given = [numbers(*shape, seed=i) for i, shape in enumerate(many)]

    def model() -> Any:
        inputs = [tf_keras.Input(shape[1:], batch_size=shape[0]) for shape in many]
        layer = make()
        operands = inputs if len(many) > 1 else inputs[0]
        attends = isinstance(layer, layers.MultiHeadAttention)
        return tf_keras.Model(inputs, layer(*operands) if attends else layer(operands))

    return run_model(tf_keras, model, lambda _: given if len(many) > 1 else given[0], traced=True)


def application_case(name: str) -> str:
    side = APPLICATIONS[name]
    make = lambda: getattr(tf_keras.applications, name)(  # noqa: E731
        weights=None, input_shape=(side, side, 3), classes=7
    )
    # Tens of layers of batch norms over a few pixels each make rounding grow; inference has none of that.
    limit = 5e-2
    given = lambda _: numbers(2, side, side, 3)  # noqa: E731
    return run_model(tf_keras, make, given, training_limit=limit, traced=name in DRAWING)


def fit_case(make: Callable[[], Any], optimizer: Callable[[], Any], shape: tuple[int, ...]) -> str:
    """The weights after an epoch of four steps."""

    def trained(device: str) -> list[Any]:
        tf_keras.utils.set_random_seed(3)
        with tf.device(device):
            model = make()
            model.set_weights(random_weights(model.weights))
            model.compile(optimizer(), "mse", metrics=["mae"], jit_compile=False)
            x, y = numbers(16, *shape), numbers(16, *model.output_shape[1:], seed=9)
            model.fit(x, y, batch_size=4, epochs=1, shuffle=False, verbose=0)
            return [*model.get_weights(), *model.evaluate(x, y, verbose=0), model.predict(x, verbose=0)]

    outcome = {}
    found = ""
    # With drawn masks TensorFlow's CPU itself, without a plugin too, gives other numbers in one of some twenty runs on
    # busy cores: its next run counts then.
    for device in (CPU, DEVICE, CPU):
        try:
            outcome[device] = trained(device)
        except Exception as error:
            return failure(device, error)
        if len(outcome) == 2:
            try:
                compare("weight or metric", outcome[DEVICE], outcome[CPU])
                return ""
            except DifferenceError as difference:
                found = str(difference)
    return found


def perceptron() -> Any:
    return tf_keras.Sequential([tf_keras.Input((6,)), layers.Dense(8, activation="tanh"), layers.Dense(4)])


def sequence(layer: Callable[..., Any]) -> Callable[[], Any]:
    return lambda: tf_keras.Sequential(
        [tf_keras.Input((8, 6)), layer(8, return_sequences=True), layers.Dropout(0.2), layer(5), layers.Dense(3)]
    )


def film() -> Any:
    return tf_keras.Sequential(
        [
            tf_keras.Input((3, 8, 8, 2)), layers.ConvLSTM2D(4, 3, padding="same", dropout=0.1),
            layers.BatchNormalization(), layers.GlobalAveragePooling2D(), layers.Dense(3),
        ]
    )  # fmt: skip


def images() -> Any:
    return tf_keras.Sequential(
        [
            tf_keras.Input((8, 8, 3)), layers.Conv2D(8, 3, padding="same"), layers.BatchNormalization(),
            layers.ReLU(), layers.MaxPooling2D(), layers.SeparableConv2D(8, 3), layers.Flatten(), layers.Dropout(0.2),
            layers.Dense(4, activation="softmax"),
        ]
    )  # fmt: skip


FITS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "LSTM": (sequence(layers.LSTM), (8, 6)),
    "GRU": (sequence(layers.GRU), (8, 6)),
    "SimpleRNN": (sequence(layers.SimpleRNN), (8, 6)),
    "ConvLSTM2D": (film, (3, 8, 8, 2)),
    "images": (images, (8, 8, 3)),
}


def adam() -> Any:
    # With Keras' own epsilon a gradient of nothing but rounding is a whole step.
    return tf_keras.optimizers.Adam(0.01, epsilon=1e-4)


def classes_of(module: Any, base: type) -> list[str]:
    """The names of a module's classes, without aliases."""
    classes = {name: value for name, value in vars(module).items() if inspect.isclass(value)}
    return sorted(name for name, value in classes.items() if issubclass(value, base) and value.__name__ == name)


def legacy() -> Iterator[Case]:
    skipped = {name for group in WITHOUT.values() for name in group}
    for name in classes_of(layers, layers.Layer):
        if name in skipped or name.startswith("Random"):
            continue
        yield (
            f"layer {name}",
            lambda name=name: layer_case(lambda: getattr(layers, name)(**ROWS[name][0]), ROWS[name][1]),
        )
    for name, make in WRAPPERS.items():
        yield f"layer {name}", lambda make=make: layer_case(make, LINE)
    for name in classes_of(tf_keras.optimizers, tf_keras.optimizers.Optimizer):
        if name != "Optimizer":
            kind = getattr(tf_keras.optimizers, name)
            yield f"optimizer {name}", lambda kind=kind: fit_case(perceptron, lambda: kind(learning_rate=0.01), (6,))
    for name, (make, shape) in FITS.items():
        yield f"fit {name}", lambda make=make, shape=shape: fit_case(make, adam, shape)
    for name in APPLICATIONS:
        yield f"application {name}", lambda name=name: application_case(name)
