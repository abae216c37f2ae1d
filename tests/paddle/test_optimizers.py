"""Every optimizer of Paddle trains as on the CPU, fallbacks forbidden: dygraph, to_static and the Executor."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import paddle
import pytest
from comparison import DEVICE, TOLERANCE, on, random
from paddle import nn

STEPS = 20
Array = np.ndarray[Any, Any]

# Settings beyond the defaults that take other paths. AdamW's lr_ratio is below: the CPU has none.
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "ASGD": [{"batch_num": 3}],
    "Adadelta": [{}],
    "Adagrad": [{}],
    "Adam": [{}, {"amsgrad": True}],
    "AdamW": [{"weight_decay": 0.1}, {"weight_decay": 0.1, "amsgrad": True}],
    "Adamax": [{}],
    "LBFGS": [{"max_iter": 2}],
    "Lamb": [{}, {"lamb_weight_decay": 0.0}],
    "Momentum": [{}, {"use_nesterov": True, "weight_decay": 0.01}],
    "NAdam": [{}],
    "RAdam": [{}],
    "RMSProp": [{}, {"centered": True, "momentum": 0.5}],
    "Rprop": [{}],
    "SGD": [{}],
}
CASES = [(name, kwargs) for name, rows in SETTINGS.items() for kwargs in rows]

WEIGHTS = [random(4, 8, low=-0.5, high=0.5), random(8, low=-0.5, high=0.5, seed=1), random(8, 3, seed=2), random(3)]
FEATURES, LABELS = random(16, 4, seed=3), np.arange(16).reshape(16, 1) % 3


class Network(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        first, bias, second, last = (paddle.ParamAttr(initializer=nn.initializer.Assign(value)) for value in WEIGHTS)
        self.layers = nn.Sequential(nn.Linear(4, 8, first, bias), nn.Tanh(), nn.Linear(8, 3, second, last))

    def forward(self, features: Any, labels: Any) -> Any:
        return nn.functional.cross_entropy(self.layers(features), labels)


def optimizer(name: str, parameters: Any, **kwargs: Any) -> Any:
    return getattr(paddle.optimizer, name)(learning_rate=0.01, parameters=parameters, **kwargs)


def train(name: str, device: str, static: bool = False, **kwargs: Any) -> tuple[list[float], list[Array]]:
    with on(device):
        network = Network()
        step = optimizer(name, network.parameters(), **kwargs)
        loss_of = paddle.jit.to_static(network, full_graph=True) if static else network
        features, labels = paddle.to_tensor(FEATURES), paddle.to_tensor(LABELS)
        losses = []

        def closure() -> Any:
            loss = loss_of(features, labels)
            loss.backward()
            return loss

        for _ in range(STEPS):
            if name == "LBFGS":
                losses.append(float(step.step(closure)))
            else:
                losses.append(float(closure()))
                step.step()
            step.clear_grad()
        return losses, [parameter.numpy() for parameter in network.parameters()]


def train_in_executor(name: str, device: str, **kwargs: Any) -> tuple[list[float], list[Array]]:
    paddle.enable_static()
    try:
        main, startup, scope = paddle.static.Program(), paddle.static.Program(), paddle.static.Scope()
        with paddle.static.scope_guard(scope), paddle.static.program_guard(main, startup):
            features = paddle.static.data("features", FEATURES.shape, "float32")
            labels = paddle.static.data("labels", LABELS.shape, "int64")
            network = Network()
            loss = network(features, labels)
            optimizer(name, network.parameters(), **kwargs).minimize(loss)
            place = paddle.CPUPlace() if device == "cpu" else paddle.CustomPlace(device, 0)
            executor = paddle.static.Executor(place)
            executor.run(startup)
            feed = {"features": FEATURES, "labels": LABELS}
            losses = [float(executor.run(main, feed=feed, fetch_list=[loss])[0]) for _ in range(STEPS)]
            names = [parameter.name for parameter in network.parameters()]
            return losses, [np.array(scope.find_var(name).get_tensor()) for name in names]
    finally:
        paddle.disable_static()


def assert_alike(actual: tuple[list[float], list[Array]], expected: tuple[list[float], list[Array]]) -> None:
    limit = TOLERANCE["float32"]
    np.testing.assert_allclose(actual[0], expected[0], rtol=limit, atol=limit)
    for ours, theirs, initial in zip(actual[1], expected[1], WEIGHTS, strict=True):
        assert not np.array_equal(ours, initial), "nothing was trained"
        np.testing.assert_allclose(ours, theirs, rtol=limit, atol=limit)


def test_every_class_is_here() -> None:
    assert set(SETTINGS) == set(paddle.optimizer.__all__) - {"Optimizer", "lr"}


@pytest.mark.parametrize("mode", ["dygraph", "to_static", "executor"])
@pytest.mark.parametrize(("name", "kwargs"), CASES, ids=str)
def test_training_tracks_the_cpu(name: str, kwargs: dict[str, Any], mode: str) -> None:
    if mode != "executor":
        assert_alike(train(name, DEVICE, mode == "to_static", **kwargs), train(name, "cpu", **kwargs))
    elif name != "LBFGS":  # which has no static graph
        assert_alike(train_in_executor(name, DEVICE, **kwargs), train_in_executor(name, "cpu", **kwargs))


def test_lr_ratio_of_adamw_is_a_factor_on_the_rate() -> None:
    with on("cpu"):
        network = Network()
        step = paddle.optimizer.AdamW(0.004, parameters=network.parameters(), weight_decay=0.1)
        features, labels = paddle.to_tensor(FEATURES), paddle.to_tensor(LABELS)
        for _ in range(STEPS):
            network(features, labels).backward()
            step.step()
            step.clear_grad()
        expected = [parameter.numpy() for parameter in network.parameters()]
    _, weights = train("AdamW", DEVICE, weight_decay=0.1, lr_ratio=lambda parameter: 0.4)
    for ours, theirs in zip(weights, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE["float32"], atol=TOLERANCE["float32"])


# -- Steps of all parameters in one op ---------------------------------------------------------------------------------


def own_rate(parameters: list[Any]) -> None:
    parameters[1].optimize_attr = {"learning_rate": 0.5}


def own_regularizers(parameters: list[Any]) -> None:
    parameters[0].regularizer = paddle.regularizer.L2Decay(0.1)
    parameters[2].regularizer = paddle.regularizer.L1Decay(0.1)


def nothing(parameters: list[Any]) -> None:
    pass


TOGETHER: list[tuple[str, bool, Any, dict[str, Any]]] = [
    ("plain", True, nothing, {}),
    ("a name", True, nothing, {"name": "mine"}),
    ("decay", True, nothing, {"weight_decay": 0.1}),
    ("clipped", True, nothing, {"grad_clip": nn.ClipGradByGlobalNorm(0.1)}),
    ("own regularizers", True, own_regularizers, {"weight_decay": 0.2}),
    ("float32 with multi_precision", True, nothing, {"multi_precision": True}),
    ("a scheduler", True, nothing, {"scheduled": True}),
    ("own rate", False, own_rate, {}),
    ("groups", False, nothing, {"groups": True}),
]


class SpiedOps:
    """paddle._C_ops, with a list of the ops that were called."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.called.append(name)
        return getattr(paddle._C_ops, name)


@pytest.mark.parametrize(("together", "prepare", "kwargs"), [row[1:] for row in TOGETHER], ids=[r[0] for r in TOGETHER])
@pytest.mark.parametrize("name", ["Momentum", "Adam"])
def test_one_op_steps_as_one_for_each_parameter(
    name: str, together: bool, prepare: Any, kwargs: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit. A class of one's own, whose ops may be anything, has one for each."""
    kind = getattr(paddle.optimizer, name)
    own = {key: value for key, value in kwargs.items() if key not in ("groups", "scheduled")}

    def trained(kind: Any) -> tuple[list[Array], list[str]]:
        with on(DEVICE):
            network = Network()
            parameters = network.parameters()
            prepare(parameters)
            parameter_groups = [{"params": parameters[:2]}, {"params": parameters[2:]}]
            schedule = paddle.optimizer.lr.StepDecay(0.1, 2)
            step = kind(
                schedule if "scheduled" in kwargs else 0.01,
                parameters=parameter_groups if "groups" in kwargs else parameters,
                **own,
            )
            features, labels = paddle.to_tensor(FEATURES), paddle.to_tensor(LABELS)
            ops = SpiedOps()
            with monkeypatch.context() as patch:
                patch.setattr(sys.modules[f"paddle.optimizer.{name.lower()}"], "_C_ops", ops)
                for _ in range(STEPS):
                    network(features, labels).backward()
                    step.step()
                    step.clear_grad()
                    schedule.step()
            return [parameter.numpy() for parameter in parameters], ops.called

    actual, called = trained(kind)
    expected, called_for_each = trained(type("Mine", (kind,), {}))
    one = f"merged_{name.lower()}_"
    assert called == [one] * STEPS if together else one not in called
    assert called_for_each == [f"{name.lower()}_"] * (STEPS * len(WEIGHTS))
    for ours, theirs, initial in zip(actual, expected, WEIGHTS, strict=True):
        assert not np.array_equal(ours, initial), "nothing was trained"
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", ["Momentum", "Adam"])
def test_parameters_of_two_dtypes_step_apart(name: str) -> None:
    def trained(device: str, dtype: str) -> list[Array]:
        with on(device):
            parameters = [paddle.to_tensor(TABLE).astype(dtype) for dtype in ("float32", dtype)]
            for parameter in parameters:
                parameter.stop_gradient = False
            step = optimizer(name, parameters)
            for _ in range(3):
                for parameter in parameters:
                    (parameter.astype("float32") ** 2).sum().backward()
                step.step()
                step.clear_grad()
            return [parameter.astype("float32").numpy() for parameter in parameters]

    for ours, theirs, dtype in zip(
        trained(DEVICE, "float16"), trained("cpu", "float32"), ("float32", "float16"), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("name", ["Momentum", "Adam"])
def test_parameters_of_two_devices_are_refused(name: str) -> None:
    """As Paddle does on its GPUs: an optimizer has one rate, which is on one device."""
    parameters = []
    for place in (f"{DEVICE}:0", f"{DEVICE}:1"):
        with on(place):
            parameters.append(paddle.to_tensor(TABLE, stop_gradient=False))
            (parameters[-1] ** 2).sum().backward()
    with on(f"{DEVICE}:0"), pytest.raises(ValueError, match="belongs to"):
        optimizer(name, parameters).step()


def test_a_step_that_grad_scaler_skips_changes_nothing() -> None:
    with on(DEVICE):
        network = Network()
        step = optimizer("Momentum", network.parameters())
        scaler = paddle.amp.GradScaler(init_loss_scaling=2.0, use_dynamic_loss_scaling=False)
        features, labels = paddle.to_tensor(FEATURES), paddle.to_tensor(LABELS)
        before = [parameter.numpy() for parameter in network.parameters()]
        scaler.scale(network(features * float("inf"), labels)).backward()
        scaler.step(step)
        scaler.update()
        after = [parameter.numpy() for parameter in network.parameters()]
        for ours, theirs in zip(after, before, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        step.clear_grad()
        scaler.scale(network(features, labels)).backward()
        scaler.step(step)
        for parameter, theirs in zip(network.parameters(), before, strict=True):
            assert not np.array_equal(parameter.numpy(), theirs)


# -- Master weights ----------------------------------------------------------------------------------------------------

MULTI_PRECISION = [case for case in CASES if case[0] != "LBFGS"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("name", "kwargs"), MULTI_PRECISION, ids=str)
def test_master_weights_are_trained_in_float32(name: str, kwargs: dict[str, Any], dtype: str) -> None:
    """With gradients that both have exactly, the master copy is what float32 gives."""
    initial, gradients = random(5, 6), [random(5, 6, seed=10 + i) for i in range(5)]

    def run(device: str, narrow: bool) -> tuple[Array, Array]:
        with on(device):
            value = paddle.to_tensor(initial).astype(dtype)
            zero = nn.initializer.Constant(0.0)
            parameter = paddle.create_parameter([5, 6], dtype if narrow else "float32", default_initializer=zero)
            parameter.set_value(value if narrow else value.astype("float32"))
            # A rate that all dtypes have exactly: some optimizers round it to the parameter's.
            step = getattr(paddle.optimizer, name)(learning_rate=2**-7, parameters=[parameter], **kwargs)
            step._multi_precision = narrow  # what paddle.amp.decorate sets
            for gradient in gradients:
                exact = paddle.to_tensor(gradient).astype(dtype).astype(parameter.dtype)
                (parameter * exact).sum().backward()
                step.step()
                step.clear_grad()
            master = step._master_weights[parameter.name] if narrow else parameter
            return master.numpy(), parameter.astype("float32").numpy()

    expected, _ = run("cpu", False)
    master, rounded = run(DEVICE, True)
    # Rprop's limits and factors and ASGD's sums have the parameter's dtype, in Paddle's Python.
    limit = TOLERANCE[dtype if name in ("Rprop", "ASGD") else "float32"]
    np.testing.assert_allclose(master, expected, rtol=limit, atol=limit)
    np.testing.assert_allclose(rounded, master, rtol=TOLERANCE[dtype])


# -- Sparse gradients --------------------------------------------------------------------------------------------------

TABLE = random(12, 4)
# In Paddle other optimizers take no sparse gradients, on any device.
SPARSE: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {}),
    ("Adam", {}),
    ("Adam", {"amsgrad": True}),
    ("Momentum", {}),
    ("Adagrad", {}),
    ("RMSProp", {}),
    ("Adam", {"grad_clip": "global norm"}),
    ("SGD", {"grad_clip": "norm"}),
    ("Adam", {"grad_clip": "norm"}),
]
CLIPS = {"global norm": nn.ClipGradByGlobalNorm, "norm": nn.ClipGradByNorm}


def train_table(name: str, device: str, sparse: bool, static: bool = False, **kwargs: Any) -> Array:
    if kwargs.get("grad_clip"):
        kwargs = {**kwargs, "grad_clip": CLIPS[kwargs["grad_clip"]](0.5)}
    with on(device):
        attribute = paddle.ParamAttr(initializer=nn.initializer.Assign(TABLE))
        table = nn.Embedding(12, 4, sparse=sparse, weight_attr=attribute)
        step = optimizer(name, table.parameters(), **kwargs)
        look_up = paddle.jit.to_static(table, full_graph=True) if static else table
        numbers = np.random.RandomState(3)
        for _ in range(STEPS):
            ids = numbers.randint(0, 9, (3, 4))
            (look_up(paddle.to_tensor(ids)) ** 2).sum().backward()
            step.step()
            step.clear_grad()
        return table.weight.numpy()


@pytest.mark.parametrize("static", [False, True], ids=["dygraph", "to_static"])
@pytest.mark.parametrize(("name", "kwargs"), SPARSE, ids=str)
def test_sparse_gradients_train_as_dense_ones(name: str, kwargs: dict[str, Any], static: bool) -> None:
    expected = train_table(name, "cpu", False, **kwargs)
    actual = train_table(name, DEVICE, True, static, **kwargs)
    assert not np.array_equal(actual[:9], TABLE[:9])
    np.testing.assert_array_equal(actual[9:], TABLE[9:])  # rows that were never looked up
    np.testing.assert_allclose(actual, expected, rtol=TOLERANCE["float32"], atol=TOLERANCE["float32"])


def lazy_adam(batches: list[list[int]], amsgrad: bool) -> Array:
    """Adam on the rows of each batch alone. Paddle's CPU adds up rows that occur twice wrongly."""
    table = TABLE.astype("float64")
    first, second, largest = np.zeros_like(table), np.zeros_like(table), np.zeros_like(table)
    for step, ids in enumerate(batches, 1):
        gradient = np.zeros_like(table)
        np.add.at(gradient, ids, 2 * table[ids])
        rows = sorted(set(ids))
        first[rows] = 0.9 * first[rows] + 0.1 * gradient[rows]
        second[rows] = 0.999 * second[rows] + 0.001 * gradient[rows] ** 2
        largest[rows] = np.maximum(largest[rows], second[rows])
        spread = np.sqrt((largest if amsgrad else second)[rows] / (1 - 0.999**step)) + 1e-8
        table[rows] -= 0.01 * first[rows] / (1 - 0.9**step) / spread
    return table


@pytest.mark.parametrize("amsgrad", [False, True])
def test_lazy_mode_leaves_the_moments_of_other_rows_alone(amsgrad: bool) -> None:
    batches = [[0, 1, 1], [2, 3], [0, 4, 4, 4], [1], [0, 2]]
    with on(DEVICE):
        attribute = paddle.ParamAttr(initializer=nn.initializer.Assign(TABLE))
        table = nn.Embedding(12, 4, sparse=True, weight_attr=attribute)
        step = optimizer("Adam", table.parameters(), lazy_mode=True, amsgrad=amsgrad)
        for ids in batches:
            (table(paddle.to_tensor(np.array(ids))) ** 2).sum().backward()
            step.step()
            step.clear_grad()
        actual = table.weight.numpy()
    np.testing.assert_allclose(
        actual, lazy_adam(batches, amsgrad), rtol=TOLERANCE["float32"], atol=TOLERANCE["float32"]
    )


# -- Steps with noise --------------------------------------------------------------------------------------------------


def test_all_weights_have_the_same_noise() -> None:
    """Of Dpsgd, which without it is that of old_programs.py; another number for each step."""
    rate, batch, sigma = np.float32(0.25), 4.0, 2.0

    def shift(seed: int) -> float:
        with on(DEVICE):
            parameter, gradient = paddle.to_tensor(TABLE), paddle.to_tensor(random(12, 4, seed=1))
            step = [
                paddle._C_ops.dpsgd(parameter, gradient, paddle.to_tensor(rate), 0.5, batch, s, seed)
                for s in (sigma, 0.0)
            ]
            moved = (step[0] - step[1]).numpy()
        np.testing.assert_allclose(moved, np.full_like(moved, moved[0, 0]), rtol=1e-4, atol=1e-6)
        return float(moved[0, 0])

    assert shift(3) == shift(3) != shift(4)
    shifts = [shift(0) for _ in range(200)]
    assert abs(np.std(shifts) / (rate * sigma / batch) - 1) < 0.2 and abs(np.mean(shifts)) < 0.04


# -- ModelAverage ------------------------------------------------------------------------------------------------------


def test_model_average_gives_the_cpus_weights() -> None:
    def averaged(device: str) -> list[Array]:
        with on(device):
            network = Network()
            step = optimizer("SGD", network.parameters())
            average = paddle.incubate.ModelAverage(
                0.15, parameters=network.parameters(), min_average_window=2, max_average_window=5
            )
            features, labels = paddle.to_tensor(FEATURES), paddle.to_tensor(LABELS)
            for _ in range(STEPS):
                network(features, labels).backward()
                step.step()
                average.step()
                step.clear_grad()
                average.clear_grad()
            with average.apply(need_restore=True):
                return [parameter.numpy() for parameter in network.parameters()]

    for ours, theirs in zip(averaged(DEVICE), averaged("cpu"), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE["float32"], atol=TOLERANCE["float32"])


@pytest.mark.parametrize("decay", [0.01, paddle.regularizer.L1Decay(0.02)], ids=["L2", "L1"])
@pytest.mark.parametrize("momentum", [None, 0.9])
def test_decay_of_a_sparse_embedding(decay: Any, momentum: float | None) -> None:
    weights = []
    for place in ("cpu", DEVICE):
        with on(place):
            table = paddle.nn.Embedding(7, 3, sparse=True)
            table.weight.set_value(paddle.arange(21, dtype="float32").reshape([7, 3]) / 10 - 1)
            optimizer = (
                paddle.optimizer.SGD(0.1, table.parameters(), weight_decay=decay)
                if momentum is None
                else paddle.optimizer.Momentum(0.1, momentum, table.parameters(), weight_decay=decay)
            )
            for _ in range(2):
                (table(paddle.to_tensor([1, 2, 2])) ** 2).sum().backward()
                optimizer.step()
                optimizer.clear_grad()
            weights.append(table.weight.numpy())
    np.testing.assert_allclose(weights[1], weights[0], rtol=1e-5, atol=1e-6)
