"""Runs a model with random weights on the CPU and on the device, and says what differs: what keras_hub's and tf_keras'
models are compared by (run_keras.py).

Of a model it is the results in inference mode, op by op; results and gradients of a training step in a graph, dropout
included; and, where a model generates, the tokens. Fallbacks are errors (UNIHAL_STRICT=1), and results lie on the
device."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("UNIHAL_BACKEND", "stub")
os.environ.setdefault("UNIHAL_STRICT", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # the reference is TensorFlow's own arithmetic
warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

CPU, DEVICE = "/device:CPU:0", "/device:RDNA:0"
#: Rounding through some dozens of layers of random weights, of which the largest number of a tensor is the measure.
LIMIT = 1e-3

#: A name, and what runs it: "" or what differed or failed, with "cpu:" before what the CPU does not run either.
Case = tuple[str, Callable[[], str]]


class DifferenceError(Exception):
    """What differs."""


def last_words(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[-400:]}"


def failure(device: str, error: Exception) -> str:
    """What is said of an error, whose whole is on stderr."""
    traceback.print_exc(file=sys.stderr)
    return f"{'cpu' if device == CPU else 'device'}: {last_words(error)}"


def compare(what: str, actual: list[Any], expected: list[Any], scale: float = 0.0, limit: float = LIMIT) -> None:
    """Raises DifferenceError where numbers are further apart than this part of the largest, or of `scale`."""
    if len(actual) != len(expected):
        raise DifferenceError(f"{what}: {len(actual)} instead of {len(expected)}")
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        a, e = np.asarray(a), np.asarray(e)
        if a.shape != e.shape or a.dtype != e.dtype:
            raise DifferenceError(f"{what} {i}: {a.dtype}{a.shape} instead of {e.dtype}{e.shape}")
        if e.size == 0:
            continue
        if e.dtype.kind not in "fc":
            if not np.array_equal(a, e):
                raise DifferenceError(f"{what} {i}: {np.count_nonzero(a != e)} of {e.size} differ")
            continue
        if not np.array_equal(np.isfinite(a), np.isfinite(e)):
            raise DifferenceError(f"{what} {i}: other elements are finite")
        finite = np.isfinite(e)
        measure = max(float(np.abs(e[finite]).max(initial=0)), scale, 1e-6)
        difference = float(np.abs(a - e)[finite].max(initial=0)) / measure
        if not difference <= limit:
            raise DifferenceError(f"{what} {i} differs by {difference:.2g}")


def tensors_of(value: Any) -> list[Any]:
    return [item for item in tf.nest.flatten(value) if tf.is_tensor(item)]


def random_weights(weights: list[Any]) -> list[np.ndarray]:
    """What weights have, and noise, without which biases, scales and much else have gradients of a kind. Variances stay
    positive, integers (counts, states of generators) as they are."""
    generator = np.random.default_rng(7)
    values = []
    for weight in weights:
        value = np.array(weight)
        if value.dtype.kind == "f":
            noise = generator.uniform(-0.1, 0.1, value.shape)
            name = getattr(weight, "path", weight.name)
            value = value + (np.abs(noise) if "var" in name.rpartition("/")[2] else noise).astype(value.dtype)
        values.append(value)
    return values


def strides_of(steps: Any, channels: int) -> list[int]:
    """The four strides of an image's axes, of what tf.nn.convolution takes: a number, or one for each of two axes."""
    pair = [steps, steps] if isinstance(steps, int) else list(steps if steps is not None else (1, 1))
    return [1, *pair, 1] if channels == -1 else [1, 1, *pair]


@contextlib.contextmanager
def convolutions_by_group() -> Iterator[None]:
    """Meanwhile tf.nn.convolution computes each group by itself: TensorFlow's CPU has no gradient of more at once."""
    whole = tf.nn.convolution

    def convolution(
        input: Any,
        filters: Any,
        strides: Any = None,
        padding: Any = "VALID",
        data_format: str | None = None,
        dilations: Any = None,
        name: str | None = None,
    ) -> Any:
        channels = 1 if data_format is not None and data_format.startswith("NC") else -1
        groups = input.shape[channels] // filters.shape[-2]
        if groups == 1:
            return whole(input, filters, strides, padding, data_format, dilations, name)
        if groups == input.shape[channels] and len(filters.shape) == 4:
            by_channel = tf.reshape(filters, [*filters.shape[:2], groups, filters.shape[-1] // groups])
            steps = strides_of(strides, channels)
            return tf.nn.depthwise_conv2d(input, by_channel, steps, padding, data_format, dilations, name)
        pairs = zip(tf.split(input, groups, channels), tf.split(filters, groups, -1), strict=True)
        return tf.concat([whole(i, f, strides, padding, data_format, dilations) for i, f in pairs], channels)

    modules = {id(module): module for module in (tf.nn, tf.compat.v2.nn)}.values()  # Keras 3 and tf_keras
    for module in modules:
        module.convolution = convolution
    try:
        yield
    finally:
        for module in modules:
            module.convolution = whole


def assert_on_device(results: list[Any]) -> None:
    elsewhere = {r.device for r in results if r.dtype.is_floating and DEVICE not in r.device}
    if elsewhere:
        raise DifferenceError(f"results lie on {elsewhere}")


def step_of(model: Any, inputs: Any) -> Callable[[], tuple[list[Any], list[Any]]]:
    """A training step in a graph: results, and the gradient of each trainable weight, of a sum of all results in which
    each number has another weight."""
    variables = [getattr(weight, "value", weight) for weight in model.trainable_weights]
    variables = [variable() if callable(variable) else variable for variable in variables]

    @tf.function(jit_compile=False)
    def step() -> tuple[list[Any], list[Any]]:
        with tf.GradientTape() as tape:
            results = tensors_of(model(inputs, training=True))
            loss = tf.add_n(
                [
                    tf.reduce_mean(r * tf.cast(1 + tf.reshape(tf.range(tf.size(r)) % 7, tf.shape(r)), r.dtype) + r * r)
                    for r in results
                    if r.dtype.is_floating
                ]
            )
        gradients = tape.gradient(loss, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return results, [tf.convert_to_tensor(gradient) for gradient in gradients]

    return step


def run_model(
    keras: Any,
    make: Callable[[], Any],
    inputs: Callable[[Any], Any],
    generate: Callable[[Any], Any] | None = None,
    training_limit: float | None = LIMIT,
    traced: bool = False,
) -> str:
    """Compares what a model gives on both devices; without a limit of training, that is left out.

    `traced`: the CPU trains in a function as the device does. Keras 2 draws other numbers op by op."""
    outcome: dict[str, Any] = {}
    weights: list[np.ndarray] = []
    names: list[str] = []
    for device in (CPU, DEVICE):
        keras.utils.set_random_seed(1)
        try:
            reference = convolutions_by_group() if device == CPU else contextlib.nullcontext()
            with tf.device(device), reference:
                model = make()
                weights = weights or random_weights(model.weights)
                model.set_weights(weights)
                given = inputs(model)
                tensors = tf.nest.map_structure(tf.identity, given)
                inference = tensors_of(model(tensors, training=False))
                results, gradients = [], []
                if training_limit is not None:
                    step = step_of(model, tensors)
                    # The CPU computes op by op: that takes less time than to trace it, and none of its own fusions.
                    results, gradients = (step if traced or device == DEVICE else step.python_function)()
                tokens = [] if generate is None else [np.asarray(v) for v in tf.nest.flatten(generate(model))]
                if device == DEVICE:
                    assert_on_device(inference + results)
                names = [getattr(weight, "path", weight.name) for weight in model.trainable_weights]
                outcome[device] = [[np.asarray(v) for v in values] for values in (inference, results, gradients)]
                outcome[device].append(tokens)
        except DifferenceError as difference:
            return str(difference)
        except Exception as error:
            return failure(device, error)
    ours, theirs = outcome[DEVICE], outcome[CPU]
    try:
        compare("result of inference", ours[0], theirs[0])
        limit = LIMIT if training_limit is None else training_limit
        compare("result of training", ours[1], theirs[1], limit=limit)
        # A gradient that is nothing but rounding has no size of its own.
        largest = max((float(np.abs(g).max(initial=0)) for g in theirs[2]), default=1.0)
        for name, actual, expected in zip(names, ours[2], theirs[2], strict=training_limit is not None):
            compare(f"gradient of {name}", [actual], [expected], largest / 100, limit)
        compare("tokens", ours[3], theirs[3])
    except DifferenceError as difference:
        return str(difference)
    return ""
