"""The graph pass fuses what it knows, exactly, and leaves everything else alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from compare import CPU, DEVICE
from graphs import fused_lists, fused_ops, graph_nodes

pytestmark = pytest.mark.usefixtures("soft_placement")

STEPS = 5


# -- Keras' optimizers


def train(optimizer: keras.optimizers.Optimizer, **compile_options: Any) -> list[np.ndarray]:
    """The weights of a small model after training, and the optimizer's variables."""
    keras.utils.set_random_seed(3)
    generator = np.random.default_rng(5)
    x = generator.normal(size=(8 * STEPS, 6)).astype("float32")
    y = generator.normal(size=(8 * STEPS, 2)).astype("float32")
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(5, activation="tanh"), keras.layers.Dense(2)])
    model.compile(optimizer, "mse", **compile_options)
    model.fit(x, y, batch_size=8, epochs=1, shuffle=False, verbose=0)
    values = [variable.value for variable in model.optimizer.variables]
    return model.get_weights() + [np.asarray(value, "float64") for value in values]


ADAM = {"UnihalAdam": 4, "UnihalAdamRate": 1}
MOMENTUM = {"UnihalMomentum": 4}
UPDATES = {"UnihalScaledUpdate": 4}

# What is fused of each optimizer's step, for the four variables of the model.
OPTIMIZERS: dict[str, tuple[Callable[[], keras.optimizers.Optimizer], dict[str, int]]] = {
    "adam": (lambda: keras.optimizers.Adam(0.01), ADAM),
    "adam with other constants": (lambda: keras.optimizers.Adam(0.01, beta_1=0.5, beta_2=0.9, epsilon=0.1), ADAM),
    "adam with a schedule": (
        lambda: keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.01, 2, 0.5)),
        ADAM,
    ),
    "adamw": (
        lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1),
        {"UnihalAdamWithDecay": 4, "UnihalAdamRate": 1},
    ),
    "adam with clipnorm": (lambda: keras.optimizers.Adam(0.01, clipnorm=0.1), ADAM),
    "adam with clipvalue": (lambda: keras.optimizers.Adam(0.01, clipvalue=0.01), ADAM),
    "adam with global_clipnorm": (lambda: keras.optimizers.Adam(0.01, global_clipnorm=0.1), ADAM),
    "adam with averages": (lambda: keras.optimizers.Adam(0.01, use_ema=True, ema_overwrite_frequency=2), ADAM),
    "amsgrad": (lambda: keras.optimizers.Adam(0.01, amsgrad=True), {"UnihalAdamRate": 1}),
    "momentum": (lambda: keras.optimizers.SGD(0.01, momentum=0.9), MOMENTUM),
    "nesterov": (lambda: keras.optimizers.SGD(0.01, momentum=0.9, nesterov=True), MOMENTUM),
    "momentum with weight decay": (
        lambda: keras.optimizers.SGD(0.01, momentum=0.9, weight_decay=0.1),
        MOMENTUM | UPDATES,
    ),
    "plain sgd": (lambda: keras.optimizers.SGD(0.01), UPDATES),
    "rmsprop": (lambda: keras.optimizers.RMSprop(0.01, momentum=0.9), {"UnihalMovingAverage": 4}),
    "nadam": (lambda: keras.optimizers.Nadam(0.01), {}),
    "adamax": (lambda: keras.optimizers.Adamax(0.01), {}),
    "lamb": (lambda: keras.optimizers.Lamb(0.01), UPDATES),
}


def assert_same(actual: list[np.ndarray], expected: list[np.ndarray], tolerance: float) -> None:
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance)


# What makes a graph of a shape of its own; the others, in `make test-all`, differ in numbers or leave less to fuse.
DISTINCT = {"adamw", "nesterov", "plain sgd"}
# Of these, what differs in numbers, or in ops that others have too.
ALIKE = {"adam with other constants", "adam with clipvalue", "adam with global_clipnorm", "momentum", "adamax", "nadam"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in DISTINCT else pytest.mark.long if name in ALIKE else pytest.mark.whole)
        for name in OPTIMIZERS
    ],
)
def test_a_fused_step_is_that_of_keras(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, expected = OPTIMIZERS[name]
    with tf.device(DEVICE):
        fused, ops = fused_ops(lambda: train(make()))
        monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", "0")
        plain, none = fused_ops(lambda: train(make()))
    with tf.device(CPU):
        reference = train(make(), run_eagerly=True)  # a trace takes longer than these steps
    assert dict(ops) == expected
    assert not none
    assert_same(fused, plain, 1e-6)
    assert_same(fused, reference, 1e-5)


@pytest.mark.parametrize("jit_compile", ["auto", pytest.param(False, marks=pytest.mark.whole)])
def test_whether_keras_may_ask_for_a_compiler(jit_compile: str | bool) -> None:
    with tf.device(DEVICE):
        _, ops = fused_ops(lambda: train(keras.optimizers.Adam(0.01), jit_compile=jit_compile))
    assert dict(ops) == ADAM


NARROW = {("adam", "mixed_float16")}


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        pytest.param(name, policy, marks=[] if (name, policy) in NARROW else pytest.mark.whole)
        for name in ("adam", "nesterov")
        for policy in ("mixed_float16", "mixed_bfloat16", "float64", "bfloat16")
    ],
)
def test_other_precisions(name: str, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, _ = OPTIMIZERS[name]
    keras.config.set_dtype_policy(policy)
    with tf.device(DEVICE):
        fused, ops = fused_ops(lambda: train(make()))
        # With these on both sides: a bias is added before a product is rounded (test_fused_products.py).
        monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", "products")
        plain = train(make())
    if not policy.startswith("mixed"):  # variables of another dtype than float32
        assert not ops
    # float16 gradients may round the other way when their sum is taken in another order; between the steps of a chain
    # nothing is rounded, so that a variable of bfloat16, below 1, may be off by an ulp.
    assert_same(fused, plain, {"float64": 0, "bfloat16": 2**-8}.get(policy, 1e-3))


@pytest.mark.parametrize(
    ("name", "op"),
    [
        pytest.param("adam", "UnihalAdam", marks=pytest.mark.whole),
        pytest.param("adamw", "UnihalAdamWithDecay", marks=pytest.mark.whole),
        pytest.param("nesterov", "UnihalMomentum", marks=pytest.mark.whole),
        ("plain sgd", "UnihalScaledUpdate"),
    ],
)
def test_gradients_of_mixed_precision_are_read_as_they_are(name: str, op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, _ = OPTIMIZERS[name]
    keras.config.set_dtype_policy("mixed_bfloat16")
    with tf.device(DEVICE):
        fused, nodes = graph_nodes(lambda: train(make()))
        # Of one variable each, with casts of their own.
        monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", "products,optimizer")
        single, others = graph_nodes(lambda: train(make()))
    assert {node.attr["G"].type for node in nodes if node.op == op} == {tf.bfloat16.as_datatype_enum}
    assert {node.attr["G"].type for node in others if node.op == op} == {tf.float32.as_datatype_enum}
    assert_same(fused, single, 1e-6)


@pytest.mark.whole
def test_accumulated_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    def make() -> keras.optimizers.Optimizer:
        return keras.optimizers.Adam(0.01, gradient_accumulation_steps=2)

    with tf.device(DEVICE):
        fused = train(make())
        monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", "0")
        plain = train(make())
    assert_same(fused, plain, 1e-6)


# -- steps of several variables in one op


class Descent:
    """Steps of variables of several shapes, by one rate; methods of subclasses put something between them."""

    def __init__(self) -> None:
        self.variables = [tf.Variable(np.full(shape, 1.0 + i, "float32")) for i, shape in enumerate([(3,), (2, 3), ()])]
        self.rate = tf.Variable(0.25)

    def gradients(self) -> list[tf.Tensor]:
        return [tf.sin(variable) for variable in self.variables]

    def step(self, variable: tf.Variable, gradient: tf.Tensor) -> None:
        variable.assign_sub(gradient * self.rate)

    @tf.function
    def run(self) -> None:
        for variable, gradient in zip(self.variables, self.gradients(), strict=True):
            self.step(variable, gradient)

    def values(self) -> list[np.ndarray]:
        for _ in range(3):
            self.run()
        return [variable.numpy() for variable in self.variables]


class OneAfterTheOther(Descent):
    """Each gradient is of the values that the steps before have left."""

    @tf.function
    def run(self) -> None:
        for i, variable in enumerate(self.variables):
            self.step(variable, tf.sin(variable) + tf.reduce_sum(self.variables[i - 1]))


class TwoStepsOfAVariable(Descent):
    @tf.function
    def run(self) -> None:
        gradients = self.gradients()
        for _ in range(2):
            self.step(self.variables[0], gradients[0])
        self.step(self.variables[1], gradients[1])


class AnotherRate(Descent):
    def step(self, variable: tf.Variable, gradient: tf.Tensor) -> None:
        variable.assign_sub(gradient * (self.rate + float(len(variable.shape))))


@pytest.mark.parametrize(
    ("kind", "lengths"),
    [(Descent, [3]), (OneAfterTheOther, [1, 1, 1]), (TwoStepsOfAVariable, [1, 2]), (AnotherRate, [1, 1, 1])],
)
def test_steps_of_several_variables_are_one_op(kind: type[Descent], lengths: list[int]) -> None:
    with tf.device(DEVICE):
        values, lists = fused_lists(lambda: kind().values())
    with tf.device(CPU):
        expected = kind().values()
    assert sorted(lists["UnihalScaledUpdate"]) == lengths
    assert_same(values, expected, 1e-6)


@pytest.mark.parametrize("name", ["adamw", "momentum"])
def test_optimizers_step_in_one_op(name: str) -> None:
    with tf.device(DEVICE):
        _, lists = fused_lists(lambda: train(OPTIMIZERS[name][0]()))
    assert lists["UnihalAdamWithDecay" if name == "adamw" else "UnihalMomentum"] == [4]


# -- steps that are almost Adam's


class Step:
    """Adam by hand; methods of subclasses change one thing."""

    second_shape: tuple[int, ...] = (3,)
    kept: Any = ()

    def __init__(self) -> None:
        self.variable = tf.Variable([1.0, 2.0, 3.0])
        self.first = tf.Variable([0.1, 0.2, 0.3])
        self.second = tf.Variable(np.full(self.second_shape, 0.5, "float32"))
        self.other = tf.Variable([0.0, 0.0, 0.0])

    def gradient(self) -> tf.Tensor:
        return self.variable * self.other + tf.constant([0.3, -0.2, 0.1])

    def move_first(self, gradient: tf.Tensor) -> None:
        self.first.assign_add((gradient - self.first) * 0.1)

    def between(self) -> None:
        pass

    def move_second(self, gradient: tf.Tensor) -> None:
        self.second.assign_add((tf.square(gradient) - self.second) * 0.01)

    def ratio(self) -> tf.Tensor:
        return self.first * tf.constant(0.5) / (tf.sqrt(self.second) + 1e-3)

    @tf.function
    def run(self) -> Any:
        gradient = self.gradient()
        self.move_first(gradient)
        self.between()
        self.move_second(gradient)
        self.variable.assign_sub(self.ratio())
        return self.kept

    def values(self) -> list[np.ndarray]:
        results = [self.run() for _ in range(3)]
        return [v.numpy() for v in (self.variable, self.first, self.second, self.other)] + [
            np.asarray(kept) for kept in results
        ]


class SecondMomentOfAnotherShape(Step):
    second_shape = ()

    def move_second(self, gradient: tf.Tensor) -> None:
        self.second.assign_add((tf.square(gradient)[0] - self.second) * 0.01)


class AnotherGradient(Step):
    def move_second(self, gradient: tf.Tensor) -> None:
        super().move_second(gradient + 1)


class NoSquare(Step):
    def move_second(self, gradient: tf.Tensor) -> None:
        self.second.assign_add((gradient * tf.abs(self.variable) - self.second) * 0.01)


class OldFirstMoment(Step):
    def move_first(self, gradient: tf.Tensor) -> None:
        self.old = self.first.read_value()
        super().move_first(gradient)

    def ratio(self) -> tf.Tensor:
        return self.old * tf.constant(0.5) / (tf.sqrt(self.second) + 1e-3)


class AWriteBetween(Step):
    def between(self) -> None:
        self.first.assign(self.first * 0.5)


class AReadBetween(Step):
    """The other variable gets the first moment, and the second one's update waits for it."""

    def between(self) -> None:
        self.other.assign(self.first)

    def move_second(self, gradient: tf.Tensor) -> None:
        with tf.control_dependencies([self.other.read_value()]):
            super().move_second(gradient)


class AValueUsedElsewhere(Step):
    def ratio(self) -> tf.Tensor:
        result = super().ratio()
        self.kept = result * 2
        return result


class NoConstantRate(Step):
    def move_first(self, gradient: tf.Tensor) -> None:
        self.first.assign_add((gradient - self.first) * self.other)


ALMOST = [
    SecondMomentOfAnotherShape,
    AnotherGradient,
    NoSquare,
    OldFirstMoment,
    AWriteBetween,
    AReadBetween,
    AValueUsedElsewhere,
    NoConstantRate,
]


@pytest.mark.parametrize("kind", [Step, *ALMOST])
def test_a_step_by_hand(kind: type[Step]) -> None:
    with tf.device(DEVICE):
        values, ops = fused_ops(lambda: kind().values())
    with tf.device(CPU):
        expected = kind().values()
    assert ops["UnihalAdam"] == (kind is Step)
    assert_same(values, expected, 1e-6)


def test_a_gradient_that_broadcasts() -> None:
    class Scalar(Step):
        def gradient(self) -> tf.Tensor:
            return tf.constant(0.25) * self.other[0] + 0.5

    with tf.device(DEVICE):
        values = Scalar().values()
    with tf.device(CPU):
        expected = Scalar().values()
    assert_same(values, expected, 1e-6)


def test_a_variable_that_somebody_still_reads() -> None:
    """The fused step writes in place, so it must not reach what was read before."""

    class Reads(Step):
        @tf.function
        def run(self) -> Any:
            before = [tf.identity(v) for v in (self.variable, self.first, self.second)]
            super().run()
            return before

    with tf.device(DEVICE):
        step = Reads()
        before = step.run()
    np.testing.assert_array_equal(before[0], [1, 2, 3])
    np.testing.assert_array_equal(before[1], np.float32([0.1, 0.2, 0.3]))
    np.testing.assert_array_equal(before[2], np.float32([0.5, 0.5, 0.5]))
    assert (step.variable.numpy() != before[0].numpy()).all()


# -- argmax


@pytest.mark.parametrize("function", [keras.ops.argmax, keras.ops.argmin])
def test_negative_zeros_are_smaller_than_positive_ones(function: Callable[..., Any]) -> None:
    x = np.array([[-0.0, 0.0, -0.0], [0.0, -0.0, 0.0], [-1e-30, -0.0, -1e-37]], "float32")
    run = tf.function(lambda value: function(value, axis=-1))
    with tf.device(DEVICE):
        result, ops = fused_ops(lambda: run(tf.constant(x)).numpy())
    with tf.device(CPU):
        expected = run(tf.constant(x)).numpy()
    np.testing.assert_array_equal(result, expected)
    assert ops == {"UnihalReplaceNegativeZero": 1}


def test_another_choice_between_zeros_is_left_alone() -> None:
    x = np.array([-0.0, 0.0, 1.0, -1.0], "float32")

    @tf.function
    def run(value: tf.Tensor) -> tf.Tensor:
        sign = tf.bitwise.bitwise_and(tf.bitcast(value, tf.int32), tf.constant(1, tf.int32)) < 0
        return tf.where(tf.logical_and(tf.equal(value, 0.0), sign), -1.0, value)

    with tf.device(DEVICE):
        result, ops = fused_ops(lambda: run(tf.constant(x)).numpy())
    np.testing.assert_array_equal(result, x)
    assert not ops
