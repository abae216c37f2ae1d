"""Graphs with control edges give the same with and without fusion: nothing runs earlier, later or never."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from compare import DEVICE
from tensorflow.python.eager import context

pytestmark = pytest.mark.usefixtures("soft_placement")

GRAPHS = 51  # each pattern begins three
FUSED = (
    "UnihalAdam",
    "UnihalAdamRate",
    "UnihalConvolution",
    "UnihalConvolutionFilterGrad",
    "UnihalElementwise",
    "UnihalGelu",
    "UnihalGeluGrad",
    "UnihalLayerNorm",
    "UnihalLayerNormGrad",
    "UnihalMatMul",
    "UnihalMatMulSum",
    "UnihalMomentum",
    "UnihalMovingAverage",
    "UnihalReplaceNegativeZero",
    "UnihalRmsNorm",
    "UnihalRmsNormGrad",
    "UnihalScaledUpdate",
    "UnihalSoftmaxGrad",
)
SELDOM = {"UnihalGeluGrad", "UnihalLayerNormGrad", "UnihalRmsNormGrad"}  # in these graphs; test_fused_norms.py has them
SHAPE = (3,)
VARIABLES = 4

v1 = tf.compat.v1
ops = tf.raw_ops


def operation(value: Any) -> tf.Operation:
    return value if isinstance(value, tf.Operation) else value.op


class Program:
    """A random graph whose result does not depend on how its operations are scheduled.

    Whatever touches a variable is ordered after what touched it before: by data, or by a control edge, which may lead
    through constants, identities and operations that do nothing.
    """

    def __init__(self, seed: int, handles: list[Any], feeds: bool) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.handles = handles
        self.feeds = feeds
        self.ancestors: dict[str, set[str]] = {}  # by name: what certainly ran before, itself included
        self.accesses: set[str] = set()  # by name: reads and writes of variables
        self.operations: list[tf.Operation] = []
        self.values: list[Any] = []
        self.fed: dict[Any, np.ndarray] = {}
        self.writes: list[tf.Operation] = []
        self.last_write: list[tf.Operation | None] = [None] * len(handles)
        self.reads: list[list[tf.Operation]] = [[] for _ in handles]

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def number(self) -> float:
        return self.random.choice([0.1, 0.25, 0.5, 0.75, 0.9])

    def note(self, made: Any, may_be_fed: bool = False) -> Any:
        """Remembers an operation. What is fed runs nothing before it."""
        node = operation(made)
        before = {operation(i).name for i in node.inputs} | {c.name for c in node.control_inputs}
        self.ancestors[node.name] = {node.name}.union(*(self.ancestors.get(name, set()) for name in before))
        self.operations.append(node)
        if "VariableOp" in node.type:
            self.accesses.add(node.name)
        if may_be_fed and self.feeds and self.honours_feeds(node) and self.chance(0.06):
            self.ancestors[node.name] = {node.name}
            shape = made.shape.as_list()
            self.fed[made] = np.full(shape, self.random.choice([-0.3, 0.2, 0.6]), "float32")
        return made

    def honours_feeds(self, node: tf.Operation) -> bool:
        """Whether TensorFlow's own passes do, on the CPU too.

        They replace x + x by 2 * x even where the sum is fed, and take it that what comes before something fed runs.
        """
        if not self.ancestors[node.name].isdisjoint(self.accesses):
            return False
        if node.type in ("Add", "AddV2", "Sub", "Mul", "Maximum"):
            return any(i.op.type == "Const" for i in node.inputs)
        return node.type in ("Const", "Tanh", "Sqrt", "RealDiv", "Pow", "Square")

    # -- values

    def after(self, waits: list[tf.Operation], make: Callable[[], Any], may_be_fed: bool = True) -> Any:
        with tf.control_dependencies(waits):
            made = make()
        return self.note(made, may_be_fed)

    def some_waits(self, probability: float) -> list[tf.Operation]:
        if not self.operations or not self.chance(probability):
            return []
        return self.random.sample(self.operations, self.random.choice([1, min(2, len(self.operations))]))

    def constant(self, value: Any, dtype: Any = tf.float32, may_be_fed: bool = True) -> Any:
        return self.after(self.some_waits(0.3), lambda: tf.constant(value, dtype), may_be_fed and dtype == tf.float32)

    def apply(self, function: Callable[..., Any], *operands: Any) -> Any:
        return self.after(self.some_waits(0.05), lambda: function(*operands))

    def value(self) -> Any:
        if not self.values or self.chance(0.2):
            return self.constant(np.full(SHAPE, self.number(), "float32"))
        return self.random.choice(self.values[-6:])

    def computed(self) -> Any:
        """A value that TensorFlow cannot fold."""
        return self.value() if self.chance(0.2) else self.read(self.random.randrange(VARIABLES))

    # -- variables

    def waits_for(self, conflicts: list[tf.Operation], known: set[str]) -> list[tf.Operation]:
        """What to wait for so that these run before; some by way of something else."""
        waits = []
        for node in conflicts:
            if node.name in known and self.chance(0.8):
                continue
            for _ in range(self.random.choice([0, 0, 1, 1, 2])):
                with tf.control_dependencies([node]):
                    step = self.random.choice([lambda: tf.constant(self.number()), tf.no_op])
                    node = operation(self.note(step()))
            waits.append(node)
        return waits

    def known_before(self, *operands: Any) -> set[str]:
        return set().union(*(self.ancestors.get(operation(o).name, set()) for o in operands))

    def read(self, index: int) -> Any:
        last = self.last_write[index]
        waits = self.waits_for([last] if last is not None else [], set())
        made = self.after(
            waits, lambda: ops.ReadVariableOp(resource=self.handles[index], dtype=tf.float32), may_be_fed=False
        )
        self.reads[index].append(made.op)
        return made

    def write(self, index: int, kind: Any, value: Any) -> tf.Operation:
        last = self.last_write[index]
        conflicts = [*self.reads[index], *([last] if last is not None else [])]
        waits = self.waits_for(conflicts, self.known_before(value)) + self.some_waits(0.1)
        made = self.after(waits, lambda: kind(resource=self.handles[index], value=value), may_be_fed=False)
        self.last_write[index] = made
        self.reads[index] = []
        self.writes.append(made)
        return made

    def read_after_write(self, index: int) -> Any:
        """As Keras' graphs have it: the read waits for the write itself."""
        last = self.last_write[index]
        assert last is not None
        made = self.after(
            [last], lambda: ops.ReadVariableOp(resource=self.handles[index], dtype=tf.float32), may_be_fed=False
        )
        self.reads[index].append(made.op)
        return made

    # -- what a graph consists of

    def arithmetic(self) -> None:
        function = self.random.choice([tf.add, tf.multiply, tf.subtract, tf.maximum])
        made = self.apply(function, self.value(), self.value())
        self.values.append(self.apply(tf.tanh, made) if self.chance(0.7) else made)

    def read_one(self) -> None:
        self.values.append(self.read(self.random.randrange(VARIABLES)))

    def write_one(self) -> None:
        kind = self.random.choice([ops.AssignVariableOp, ops.AssignAddVariableOp, ops.AssignSubVariableOp])
        self.write(self.random.randrange(VARIABLES), kind, self.apply(tf.tanh, self.value()))

    def twice(self) -> None:
        """Equal nodes, which may be merged."""
        a, b = self.value(), self.value()
        scale = self.constant(self.number())
        made = [self.apply(tf.multiply, self.apply(tf.add, a, b), scale) for _ in range(2)]
        self.values.append(self.apply(tf.tanh, self.apply(tf.subtract, made[0], made[1])))
        self.values.append(made[self.random.randrange(2)])

    def maybe_keep(self, value: Any) -> Any:
        """A value inside a pattern that is used outside too, rarely."""
        if self.chance(0.03) and tuple(value.shape) == SHAPE:
            self.values.append(value)
        return value

    def maybe_between(self) -> None:
        if self.chance(0.08):
            self.write_one()

    def mean(self, index: int, value: Any) -> Any:
        change = self.apply(tf.subtract, value, self.read(index))
        change = self.maybe_keep(self.apply(tf.multiply, change, self.constant(self.number())))
        self.write(index, ops.AssignAddVariableOp, change)
        self.maybe_between()
        return self.maybe_keep(self.read_after_write(index))

    def adam(self) -> None:
        variable, first, second = self.random.sample(range(VARIABLES), 3)
        gradient = self.value()
        moment = self.mean(first, gradient)
        numerator = self.apply(tf.multiply, moment, self.constant(self.number()))
        square = self.apply(tf.square, gradient)
        self.maybe_between()
        root = self.apply(tf.sqrt, self.mean(second, square))
        denominator = self.apply(tf.add, root, self.constant(0.5))
        self.write(variable, ops.AssignSubVariableOp, self.apply(tf.divide, numerator, denominator))

    def adam_rate(self) -> None:
        rate = self.value()
        step = self.apply(tf.add, self.apply(tf.abs, self.computed()), self.constant(1.0))

        def correction() -> Any:
            power = self.apply(tf.pow, self.constant(self.number()), step)
            return self.apply(tf.subtract, self.constant(1.0), power)

        first, second = correction(), correction()
        product = self.apply(tf.multiply, rate, self.apply(tf.sqrt, second))
        self.values.append(self.apply(tf.tanh, self.apply(tf.divide, product, first)))

    def momentum(self) -> None:
        variable, velocity = self.random.sample(range(VARIABLES), 2)
        factor, gradient, rate = self.number(), self.value(), self.constant(self.number())

        def blend(read: Any) -> Any:
            kept = self.apply(tf.multiply, read, self.constant(factor))
            return self.apply(tf.subtract, kept, self.apply(tf.multiply, gradient, rate))

        self.write(velocity, ops.AssignVariableOp, blend(self.read(velocity)))
        self.maybe_between()
        change = self.maybe_keep(self.read_after_write(velocity))
        if self.chance(0.5):
            change = blend(change)
        self.write(variable, ops.AssignAddVariableOp, change)

    def negative_zero(self) -> None:
        x = self.apply(tf.multiply, self.computed(), tf.constant([-0.0, 0.0, 1.0]))
        bits = self.apply(lambda v: tf.bitcast(v, tf.int32), x)
        lowest = self.constant(np.iinfo(np.int32).min, tf.int32)
        sign = self.apply(tf.bitwise.bitwise_and, bits, lowest)
        negative = self.apply(tf.less, sign, self.constant(0, tf.int32))
        zero = self.apply(tf.equal, x, self.constant(0.0))
        both = self.apply(tf.logical_and, zero, negative)
        self.values.append(self.apply(tf.where, both, self.constant(-0.5), x))

    def opaque(self) -> Any:
        """What no formula sees through, as a gradient mostly is."""
        return self.apply(tf.sin, self.value())

    def product_of(self, *operands: Any) -> Any:
        made = operands[0]
        for operand in operands[1:]:
            made = self.apply(tf.multiply, made, operand)
        return self.maybe_keep(made)

    def row(self, function: Callable[..., Any], value: Any) -> Any:
        """A sum or a mean over the last axis."""
        return self.apply(lambda v: function(v, axis=[-1], keepdims=True), value)

    def norm(self, centers: bool, derives: bool) -> None:
        """Layer or RMS normalization, with parameters, or with a gradient as TensorFlow derives it."""
        x = self.apply(tf.add, self.computed(), tf.constant([0.1, -0.2, 0.4]))
        mean = self.row(tf.reduce_mean, x)
        square = self.apply(tf.math.squared_difference, x, mean) if centers else self.apply(tf.square, x)
        variance = self.apply(tf.add, self.row(tf.reduce_mean, square), self.constant(0.5, may_be_fed=False))
        inverse = self.maybe_keep(self.apply(tf.math.rsqrt, variance))
        slope = inverse if derives else self.product_of(self.read(self.random.randrange(VARIABLES)), inverse)
        y = self.product_of(x, slope)
        if centers:
            y = self.apply(tf.subtract, y, self.product_of(slope, mean))
        if not derives:
            y = self.apply(tf.add, y, self.read(self.random.randrange(VARIABLES)))
        self.values.append(self.apply(tf.tanh, y))
        if not derives:
            return
        dy = self.opaque()
        self.maybe_between()
        products = self.product_of(x, dy)
        if centers:
            products = self.apply(tf.subtract, products, self.product_of(mean, dy))
        change = self.apply(lambda a, b: ops.RsqrtGrad(y=a, dy=b), inverse, self.row(tf.reduce_sum, products))
        third = self.constant(1 / 3, may_be_fed=False)
        twice = self.product_of(
            self.apply(tf.tile, change, tf.constant([3])), third, self.constant(2.0, may_be_fed=False)
        )
        by_variance = self.product_of(twice, self.apply(tf.subtract, x, mean) if centers else x)
        dx = self.apply(tf.add, self.product_of(dy, slope), by_variance)
        if centers:
            total = self.apply(tf.negative, self.row(tf.reduce_sum, self.product_of(dy, slope)))
            dx = self.apply(tf.add, dx, self.product_of(self.apply(tf.tile, total, tf.constant([3])), third))
        self.values.append(self.apply(tf.tanh, dx))

    def gelu(self) -> None:
        x = self.computed()
        if self.chance(0.5):
            argument = self.product_of(x, self.constant(-(0.5**0.5), may_be_fed=False))
            function = self.maybe_keep(self.apply(tf.math.erfc, argument))
        else:
            cube = self.product_of(self.constant(0.044715, may_be_fed=False), self.apply(tf.pow, x, tf.constant(3.0)))
            root = self.constant((2 / np.pi) ** 0.5, may_be_fed=False)
            function = self.apply(tf.tanh, self.product_of(self.apply(tf.add, x, cube), root))
            function = self.apply(tf.add, function, self.constant(1.0, may_be_fed=False))
        half = self.product_of(self.constant(0.5, may_be_fed=False), x)
        self.values.append(self.apply(tf.tanh, self.product_of(half, function)))

    def gelu_gradient(self) -> None:
        x, dy = self.computed(), self.opaque()
        argument = self.product_of(x, self.constant(-(0.5**0.5), may_be_fed=False))
        function = self.apply(tf.math.erfc, argument)
        half = self.constant(0.5, may_be_fed=False)
        self.values.append(self.apply(tf.tanh, self.product_of(half, x, function)))
        self.maybe_between()
        exponent = self.apply(tf.negative, self.apply(tf.square, argument))
        density = self.product_of(self.apply(tf.exp, exponent), self.constant(1 / (2 * np.pi) ** 0.5))
        both = self.apply(tf.add, self.product_of(self.product_of(function, half), dy), self.product_of(density, x, dy))
        self.values.append(self.apply(tf.tanh, both))

    def softmax_gradient(self) -> None:
        y, dy = self.apply(tf.nn.softmax, self.computed()), self.value()
        total = self.row(tf.reduce_sum, self.product_of(dy, y))
        self.maybe_between()
        self.values.append(self.product_of(self.apply(tf.subtract, dy, total), y))

    def moving_average(self) -> None:
        index, momentum = self.random.randrange(VARIABLES), self.number()
        kept = self.product_of(self.read(index), self.constant(momentum, may_be_fed=False))
        self.maybe_between()
        added = self.product_of(self.value(), self.constant(1 - momentum, may_be_fed=False))
        self.write(index, ops.AssignVariableOp, self.apply(tf.add, kept, added))

    def scaled_updates(self) -> None:
        """By one rate: several may become one op, if they are not of one variable."""
        rate = self.constant(self.number())
        values = [self.value() for _ in range(self.random.randrange(1, 4))]
        for value in values:
            self.write(self.random.randrange(VARIABLES), ops.AssignSubVariableOp, self.product_of(value, rate))
            if value is not values[-1]:
                self.maybe_between()

    def product(self, reshapes: bool) -> None:
        """A matrix product with a bias, and perhaps an activation."""
        x = self.apply(lambda v: tf.reshape(v, (1, 3)), self.computed())
        made = self.apply(tf.matmul, x, tf.constant(np.eye(3, dtype="float32") * self.number()))
        self.maybe_between()
        if reshapes:
            made = self.apply(lambda v: tf.reshape(v, (1, 1, 3)), made)
        made = self.apply(tf.add, made, self.read(self.random.randrange(VARIABLES)))
        if self.chance(0.5):
            made = self.apply(self.random.choice([tf.nn.relu, tf.tanh]), made)
        self.values.append(self.apply(lambda v: tf.reshape(v, SHAPE), made))

    def convolution(self) -> None:
        """With a bias and perhaps an activation; and the gradients of a filter and a bias."""
        x = self.apply(lambda v: tf.reshape(v, (1, 1, 3, 1)), self.computed())
        filters = tf.constant(np.full((1, 1, 1, 3), self.number(), "float32"))
        made = self.apply(lambda a, b: tf.nn.conv2d(a, b, 1, "VALID"), x, filters)
        self.maybe_between()
        made = self.apply(tf.nn.bias_add, made, self.read(self.random.randrange(VARIABLES)))
        if self.chance(0.5):
            made = self.apply(self.random.choice([tf.nn.relu, tf.tanh]), made)
        dy = self.apply(tf.sin, made)

        def filter_gradient(x: Any, dy: Any) -> Any:
            sizes = tf.constant((1, 1, 1, 3))
            return ops.Conv2DBackpropFilter(
                input=x, filter_sizes=sizes, out_backprop=dy, strides=[1] * 4, padding="VALID"
            )

        dw = self.apply(filter_gradient, x, dy)
        self.maybe_between()
        self.values.append(self.maybe_keep(self.apply(lambda v: ops.BiasAddGrad(out_backprop=v), dy)))
        self.values.append(self.apply(lambda v: tf.reshape(v, SHAPE), dw))

    def summed_products(self) -> None:
        """The gradient of a weight that each matrix of a batch was multiplied by."""
        x, y = (
            self.apply(lambda a, b: tf.reshape(tf.stack([a, b]), (2, 1, 3)), self.computed(), self.opaque())
            for _ in range(2)
        )
        made = self.apply(lambda a, b: tf.matmul(a, b, transpose_a=True), x, y)
        self.maybe_between()
        made = self.apply(lambda v: tf.reduce_sum(v, [0]), made)
        self.values.append(self.apply(lambda v: tf.reshape(tf.slice(v, (1, 0), (1, 3)), SHAPE), made))

    def build(self) -> tuple[list[Any], list[tf.Operation]]:
        """What to fetch (the last of it: all variables at the end), and what must have run."""
        actions = [
            *(self.adam, self.adam_rate, self.momentum, self.moving_average, self.scaled_updates),
            *(partial(self.norm, centers, derives) for centers in (True, False) for derives in (True, False)),
            *(self.gelu, self.gelu_gradient, self.softmax_gradient, self.negative_zero),
            *(partial(self.product, False), partial(self.product, True), self.convolution, self.summed_products),
        ]
        small = [self.arithmetic, self.read_one, self.write_one, self.twice]
        for _ in range(self.random.randrange(4, 9)):
            self.random.choice(small)()
        # Every pattern begins some graphs.
        for number in range(self.random.randrange(2, 6)):
            (actions[self.seed % len(actions)] if number == 0 else self.random.choice(actions))()
            for _ in range(self.random.randrange(3)):
                self.random.choice(small)()
        fetches = self.random.sample(self.values, min(3, len(self.values)))
        final = [self.read(index) for index in range(VARIABLES)]
        return fetches + final, self.random.sample(self.writes, min(2, len(self.writes)))


def assert_same(actual: list[np.ndarray], expected: list[np.ndarray], seed: int) -> None:
    for index, (a, e) in enumerate(zip(actual, expected, strict=True)):
        # A fused step rounds otherwise than the composed one; what is lost or runs out of order differs by far more.
        np.testing.assert_allclose(a, e, rtol=1e-4, atol=1e-5, err_msg=f"graph {seed}, result {index}")


def start_values() -> list[np.ndarray]:
    return [np.linspace(0.2, 1.0 + i, 3, dtype="float32") for i in range(VARIABLES)]


# -- graphs of TensorFlow 1


def run_session(seed: int) -> tuple[list[np.ndarray], Counter[str]]:
    """The results of two runs, and the ops of ours that took part."""
    with tf.Graph().as_default(), tf.device(DEVICE):
        handles = [
            ops.VarHandleOp(dtype=tf.float32, shape=SHAPE, shared_name=f"variable_{i}") for i in range(VARIABLES)
        ]
        values = start_values()
        start = [ops.AssignVariableOp(resource=h, value=tf.constant(v)) for h, v in zip(handles, values, strict=True)]
        program = Program(seed, handles, feeds=True)
        fetches, targets = program.build()
        metadata = v1.RunMetadata()
        config = v1.ConfigProto(allow_soft_placement=True)
        config.graph_options.rewrite_options.min_graph_nodes = -1
        with v1.Session(config=config) as session:
            session.run(start)
            options = v1.RunOptions(output_partition_graphs=True)
            results = []
            for _ in range(2):
                results += session.run((fetches, targets), program.fed, options=options, run_metadata=metadata)[0]
        found = Counter(node.op for graph in metadata.partition_graphs for node in graph.node)
        return results, Counter({op: found[op] for op in FUSED})


# Of each pattern one graph, and all: these in sessions in `make test-rest`, which has the former in functions, and in
# functions in `make test-long`.
NUMBERS = [pytest.param(GRAPHS // 3, marks=pytest.mark.whole), pytest.param(GRAPHS, marks=pytest.mark.long)]


def assert_fused(fused: Counter[str], graphs: int) -> None:
    """All graphs have every op of fusions; a third of them lacks three at most."""
    missed = {op for op in set(FUSED) - SELDOM if fused[op] == 0}
    assert len(missed) <= (0 if graphs == GRAPHS else 3), (missed, fused)


@pytest.mark.parametrize("graphs", [pytest.param(GRAPHS, marks=pytest.mark.whole)])
def test_random_graphs_in_sessions(graphs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fused: Counter[str] = Counter()
    for seed in range(graphs):
        monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", "0")
        expected, none = run_session(seed)
        assert not none.total()
        monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", "1")
        actual, taken = run_session(seed)
        assert_same(actual, expected, seed)
        fused += taken
    assert_fused(fused, graphs)


# -- functions


def run_function(seed: int) -> tuple[list[np.ndarray], Counter[str]]:
    with tf.device(DEVICE):
        variables = [tf.Variable(v) for v in start_values()]

        # AutoGraph would convert all of Program, which takes longer than everything else.
        @tf.function(autograph=False)
        def inner() -> Any:
            with tf.device(DEVICE):
                return Program(seed, [v.handle for v in variables], feeds=False).build()[0]

        @tf.function(autograph=False)
        def step() -> Any:
            """Every other program is a function that is called twice; TensorFlow puts it in the caller's place."""
            return [*inner(), *inner()] if seed % 2 else inner()

        context.context().enable_graph_collection()
        try:
            results = [*step(), *step(), *variables]
            graphs = context.context().export_run_metadata().function_graphs
        finally:
            context.context().disable_graph_collection()
    found = Counter(node.op for graph in graphs for node in graph.post_optimization_graph.node)
    return [r.numpy() for r in results], Counter({op: found[op] for op in FUSED})


@pytest.mark.parametrize("graphs", NUMBERS)
def test_random_graphs_in_functions(graphs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fused: Counter[str] = Counter()
    for seed in range(graphs):
        monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", "0")
        expected, none = run_function(seed)
        assert not none.total()
        monkeypatch.setenv("UNIHAL_TENSORFLOW_FUSION", "1")
        actual, taken = run_function(seed)
        assert_same(actual, expected, seed)
        fused += taken
    assert_fused(fused, graphs)


# -- what users wrote


def in_session(build: Callable[[], tuple[Any, Any]], feed: dict[str, Any] | None = None) -> Any:
    """Runs the first thing that `build` made, then fetches the second."""
    with tf.Graph().as_default(), tf.device(DEVICE):
        run, fetch = build()
        with v1.Session(config=v1.ConfigProto(allow_soft_placement=True)) as session:
            session.run(v1.global_variables_initializer())
            first = session.run(run, feed)
            return first, session.run(fetch)


def variable(name: str, value: Any) -> Any:
    return v1.get_variable(name, initializer=value, use_resource=True)


V1_OPTIMIZERS: dict[str, tuple[Callable[[], Any], list[float]]] = {
    "sgd": (lambda: v1.train.GradientDescentOptimizer(0.1), [0.8, 1.6]),
    "momentum": (lambda: v1.train.MomentumOptimizer(0.1, 0.9), [0.8, 1.6]),
    "nesterov": (lambda: v1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True), [0.62, 1.24]),
    "adam": (lambda: v1.train.AdamOptimizer(0.1), [0.9, 1.9]),
}


@pytest.mark.parametrize("name", V1_OPTIMIZERS)
def test_minimize_with_a_global_step(name: str) -> None:
    make, expected = V1_OPTIMIZERS[name]

    def build() -> tuple[Any, Any]:
        weights = variable("weights", [1.0, 2.0])
        step = v1.train.get_or_create_global_step()
        train = make().minimize(tf.reduce_sum(weights * weights), global_step=step)
        return train, [weights.read_value(), step.read_value()]

    _, (weights, step) = in_session(build)
    assert step == 1
    np.testing.assert_allclose(weights, expected, rtol=1e-5)


def test_one_update_after_the_other() -> None:
    def build() -> tuple[Any, Any]:
        counter = variable("counter", 3.0)
        return counter.assign_add(1.0).assign_add(1.0), counter.read_value()

    assert in_session(build) == (5.0, 5.0)


def test_a_constant_that_waits_for_a_write() -> None:
    """Also where the constant is all that is fetched, or what a read waits for."""

    def build() -> tuple[Any, Any]:
        counter = variable("counter", 3.0)
        with tf.control_dependencies([counter.assign(7.0)]):
            done = tf.constant(1.0)
        with tf.control_dependencies([done + 1.0]):
            read = counter.read_value()
        return [done, read], counter.read_value()

    assert in_session(build) == ([1.0, 7.0], 7.0)


def test_a_constant_may_be_fed() -> None:
    """Fusion takes constants as what they are, unless somebody gives them another value."""

    def build() -> tuple[Any, Any]:
        x = tf.constant([-0.0, 0.0, 1.0], name="x")
        sign = tf.bitwise.bitwise_and(tf.bitcast(x, tf.int32), tf.constant(np.iinfo(np.int32).min)) < 0
        smallest = tf.constant(-1.0, name="smallest")
        return tf.where(tf.logical_and(tf.equal(x, 0.0), sign), smallest, x), tf.constant(0.0)

    result, _ = in_session(build, {"smallest:0": -7.0, "x:0": [-0.0, 0.0, 2.0]})
    np.testing.assert_array_equal(result, [-7, 0, 2])


def test_one_variable_in_two_places_of_a_step() -> None:
    """A fused op writes its variables in place; here they are one, which the step op by op can do."""
    with tf.device(DEVICE):
        variable = tf.Variable([1.0, 2.0])

        @tf.function
        def step(v: Any, velocity: Any) -> None:
            velocity.assign(0.5 * velocity - 0.1 * tf.constant([1.0, 1.0]))
            v.assign_add(velocity)

        step(variable, variable)
        np.testing.assert_allclose(variable.numpy(), [0.8, 1.8], rtol=1e-6)
        with pytest.raises(tf.errors.InvalidArgumentError, match="one variable twice"):
            ops.ResourceApplyMomentum(var=variable.handle, accum=variable.handle, lr=0.1, grad=[1.0, 1.0], momentum=0.9)
