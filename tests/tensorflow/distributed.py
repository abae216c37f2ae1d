"""tf.distribute on two devices of one process, against the same strategy on two devices of TensorFlow's CPU.

    python distributed.py TEST

in a process of its own, for the number of devices is read when TensorFlow is imported.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import unihal
from keras import layers

TYPE = {"opencl": "POLARIS", "corex": "ILUVATAR"}.get(os.environ["UNIHAL_BACKEND"], "RDNA")
DEVICES = [f"{TYPE}:0", f"{TYPE}:1"]
TOO_FEW_DEVICES = 77  # an exit status
HOSTS = ["CPU:0", "CPU:1"]
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
tf.config.set_visible_devices([d for d in tf.config.list_physical_devices() if d.device_type in ("CPU", TYPE)])

IMAGES = np.random.default_rng(1).random((32, 6, 6, 3), np.float32)
LABELS = np.random.default_rng(2).integers(0, 4, 32)


def model() -> keras.Model:
    keras.utils.set_random_seed(7)
    return keras.Sequential(
        [
            layers.Input((6, 6, 3)),
            layers.Conv2D(8, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(4),
        ]
    )


def strategy_on(devices: list[str] | None) -> tf.distribute.Strategy:
    """TensorFlow knows a group of devices by a number, which begins with the same one in each strategy."""
    tf.distribute.MirroredStrategy._collective_key_base += 100
    return tf.distribute.MirroredStrategy(devices)


def fitted(strategy: tf.distribute.Strategy, optimizer: Callable[[], keras.Optimizer], steps: int = 4) -> keras.Model:
    with strategy.scope():
        trained = model()
        trained.compile(
            optimizer(),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    trained.fit(IMAGES, LABELS, batch_size=16, epochs=steps // 2, shuffle=False, verbose=0)
    return trained


def weights(trained: keras.Model) -> list[np.ndarray]:
    return [np.asarray(w) for w in trained.get_weights()]


def assert_close(actual: list[np.ndarray], expected: list[np.ndarray], tolerance: float) -> None:
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, tolerance, tolerance)


def calls(profile: unihal.profile, op: str) -> int:
    return sum(total.calls for total in profile.totals if total.op == op)


def fit() -> None:
    def optimizer() -> keras.Optimizer:  # of those that take a gradient's size as it is
        return keras.optimizers.SGD(0.1, momentum=0.9)

    strategy = strategy_on(None)  # TYPE is the only type that is visible
    assert [device.rpartition("device:")[2] for device in strategy.extended.worker_devices] == DEVICES
    with unihal.profile() as profile:
        trained = fitted(strategy, optimizer)
    assert calls(profile, "all_reduce x 5") == 2 * 4, profile.totals  # the gradients of four steps, on two ranks
    assert_close(weights(trained), weights(fitted(strategy_on(HOSTS), optimizer)), 2e-5)
    for variable in trained.variables:  # each device has its own copy, and they are equal
        copies = strategy.experimental_local_results(variable.value)
        for copy, device in zip(copies, DEVICES, strict=True):
            assert device in copy.device
            if variable.trainable:
                np.testing.assert_array_equal(copy.numpy(), copies[0].numpy())

    with tempfile.TemporaryDirectory() as folder:
        trained.save(f"{folder}/model.keras")
        trained.save_weights(f"{folder}/model.weights.h5")
        with strategy.scope():
            again = keras.models.load_model(f"{folder}/model.keras")
        assert_close(weights(again), weights(trained), 0)
        # Keras keeps moving averages by replica and saves the first's, which predicts the first half.
        expected = trained.predict(IMAGES, verbose=0)[:16]
        np.testing.assert_allclose(again.predict(IMAGES, verbose=0)[:16], expected, 1e-6, 1e-6)
        alone = model()
        alone.load_weights(f"{folder}/model.weights.h5")
        np.testing.assert_allclose(alone.predict(IMAGES, verbose=0)[:16], expected, 1e-5, 1e-5)


def whole_batch() -> None:
    """Without batch statistics two halves of a batch train as the whole does on one device, to rounding."""

    def loop(strategy: tf.distribute.Strategy) -> tuple[list[np.ndarray], list[float]]:
        with strategy.scope():
            keras.utils.set_random_seed(3)
            net = keras.Sequential([layers.Input((6, 6, 3)), layers.Conv2D(4, 3), layers.Flatten(), layers.Dense(4)])
            optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
            optimizer.build(
                net.trainable_variables
            )  # not in the function: TensorFlow then feeds its collectives nothing
            seen = tf.Variable(
                0.0,
                trainable=False,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.SUM,
            )

        def step(images: Any, labels: Any) -> Any:
            with tf.GradientTape() as tape:
                losses = keras.losses.sparse_categorical_crossentropy(labels, net(images), from_logits=True)
                loss = tf.reduce_sum(losses) / len(LABELS)
            optimizer.apply_gradients(
                zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables, strict=True)
            )
            seen.assign_add(tf.cast(tf.shape(images)[0], tf.float32))
            return loss

        @tf.function
        def run(images: Any, labels: Any) -> Any:
            return strategy.reduce("sum", strategy.run(step, (images, labels)), axis=None)

        data = tf.data.Dataset.from_tensor_slices((IMAGES, LABELS)).batch(len(LABELS)).repeat(4)
        losses = [float(run(*batch)) for batch in strategy.experimental_distribute_dataset(data)]
        assert float(seen.read_value()) == 4 * len(LABELS)
        checkpoint = tf.train.Checkpoint(net=net, seen=seen)
        with tempfile.TemporaryDirectory() as folder:
            path = checkpoint.save(f"{folder}/checkpoint")
            before = weights(net)
            for variable in net.trainable_variables:
                variable.assign(tf.zeros_like(variable))
            checkpoint.restore(path).assert_consumed()
            assert_close(weights(net), before, 0)
        return before, losses

    trained, losses = loop(strategy_on(DEVICES))
    for other in (tf.distribute.OneDeviceStrategy(DEVICES[0]), strategy_on(DEVICES[1:])):
        alone, its_losses = loop(other)
        assert_close(trained, alone, 1e-5)
        np.testing.assert_allclose(losses, its_losses, 1e-5)


def sparse_gradients() -> None:
    """Of an embedding the ranks gather values and rows. The lengths are constants, which nobody needs to gather."""

    def trained(devices: list[str]) -> keras.Model:
        with (strategy := strategy_on(devices)).scope():
            keras.utils.set_random_seed(3)
            net = keras.Sequential(
                [layers.Input((5,), dtype="int32"), layers.Embedding(20, 4), layers.Flatten(), layers.Dense(4)]
            )
            net.compile(
                keras.optimizers.SGD(0.1, momentum=0.9), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            )
        assert strategy.num_replicas_in_sync == 2
        tokens = np.random.default_rng(4).integers(0, 20, (32, 5)).astype(np.int32)
        net.fit(tokens, LABELS, batch_size=16, epochs=2, shuffle=False, verbose=0)
        return net

    with unihal.profile() as profile:
        net = trained(DEVICES)
    assert calls(profile, "all_gather") == 2 * 2 * 4, profile.totals  # two of each step and rank
    assert calls(profile, "all_reduce x 2") == 2 * 4, profile.totals
    assert not unihal.fallbacks()
    assert_close(weights(net), weights(trained(HOSTS)), 2e-5)
    os.environ["UNIHAL_TENSORFLOW_FUSION"] = "0"
    with unihal.profile() as profile:
        plain = trained(DEVICES)
    del os.environ["UNIHAL_TENSORFLOW_FUSION"]
    assert calls(profile, "all_gather") == 3 * 2 * 4, profile.totals
    assert_close(weights(net), weights(plain), 2e-5)


def mixed_precision() -> None:
    keras.mixed_precision.set_global_policy("mixed_bfloat16")

    def optimizer() -> keras.Optimizer:
        return keras.optimizers.Adam(0.01)

    trained = fitted(strategy_on(DEVICES), optimizer)
    assert trained.layers[0].compute_dtype == "bfloat16" and all(w.dtype == np.float32 for w in weights(trained))
    # bfloat16 has 8 bits; four steps of 0.01 may go either way where a gradient is nothing but rounding.
    assert_close(weights(trained), weights(fitted(strategy_on(HOSTS), optimizer)), 8e-2)


def reductions() -> None:
    """What a replica may ask for, eager and in a graph, of each dtype that TensorFlow's collectives have."""
    strategy = strategy_on(DEVICES)

    def reduced(dtype: tf.DType) -> Any:
        context = tf.distribute.get_replica_context()
        rank = tf.cast(context.replica_id_in_sync_group, tf.int32)
        x = tf.cast(rank * 3 + tf.range(1, 7), dtype)
        return context.all_reduce("sum", x), context.all_reduce("mean", x)

    def gathered(dtype: tf.DType) -> Any:
        context = tf.distribute.get_replica_context()
        rank = tf.cast(context.replica_id_in_sync_group, tf.int32)
        x = tf.cast(rank * 3 + tf.reshape(tf.range(1, 7), [2, 3]), dtype)
        rows = tf.cast(tf.fill([rank + 1, 2], rank), dtype)  # of another size on each
        return context.all_gather(x, 0), context.all_gather(x, 1), context.all_gather(rows, 0)

    first = np.arange(1, 7)
    for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32, tf.int64):
        expected: list[np.ndarray] = [first * 2 + 3]
        square = first.reshape(2, 3)
        if dtype.is_floating:  # of integers it is a quotient, of float64
            expected.append(first + 1.5)
            results = [strategy.run(lambda: reduced(dtype)), tf.function(lambda: strategy.run(reduced, (dtype,)))()]
        else:
            results = [tf.function(lambda: strategy.run(reduced, (dtype,)))()[:1]]
        gathers = [np.concatenate([square, square + 3], axis) for axis in (0, 1)]
        gathers.append(np.array([[0, 0], [1, 1], [1, 1]]))
        wanted_results = [expected] * len(results)
        if dtype != tf.bfloat16:  # which TensorFlow does not gather
            results.append(tf.function(lambda: strategy.run(gathered, (dtype,)))())
            wanted_results.append(gathers)
        for found, wanted in zip(results, wanted_results, strict=True):
            for one, other in zip(found, wanted, strict=True):
                for copy in strategy.experimental_local_results(one):
                    np.testing.assert_array_equal(copy.numpy().astype(np.float64), other)

    sparse = strategy.run(  # rows that each replica has others of
        lambda: tf.distribute.get_replica_context().all_reduce(
            "sum", tf.IndexedSlices(tf.ones([2, 3]), tf.constant([0, 2], tf.int64), tf.constant([4, 3], tf.int64))
        )
    )
    for copy in strategy.experimental_local_results(sparse):
        np.testing.assert_array_equal(tf.convert_to_tensor(copy).numpy()[:, 0], [2, 0, 2, 0])


def many_at_once() -> None:
    """Collectives that do not depend on each other: the executor's threads come to them in any order."""
    strategy = strategy_on(DEVICES)

    def body() -> Any:
        context = tf.distribute.get_replica_context()
        launcher = strategy.extended._cross_device_ops._launchers[context._replica_id_in_sync_group]
        launcher._prefer_ordering_token = False
        return [launcher.all_reduce(tf.fill([100 + i], float(i))) for i in range(24)]

    run = tf.function(lambda: strategy.run(body))
    for _ in range(8):
        for i, result in enumerate(run()):
            for copy in strategy.experimental_local_results(result):
                np.testing.assert_array_equal(copy.numpy(), np.full(100 + i, 2.0 * i, np.float32))


def failing_rank() -> None:
    """A replica that fails before its collective ends the step with its error, and a late one the time that it had."""
    strategy = strategy_on(DEVICES)
    good = tf.Variable(False)

    @tf.function
    def step() -> Any:
        def body() -> Any:
            context = tf.distribute.get_replica_context()
            x = tf.ones([4])
            if context._replica_id_in_sync_group == 1:
                with tf.control_dependencies([tf.debugging.Assert(good, ["rank 1 fails"])]):
                    x = tf.identity(x)
            return context.all_reduce("sum", x)

        return strategy.run(body)

    started = time.monotonic()
    try:
        step()
        raise SystemExit("no error")
    except tf.errors.InvalidArgumentError as error:
        assert "rank 1 fails" in str(error), error

    from tensorflow.python.ops import collective_ops

    with tf.device(DEVICES[0]):
        try:
            collective_ops.all_reduce_v2(tf.ones(3), 2, 77, 1, communication_hint="nccl", timeout=1)
            raise SystemExit("no error")
        except tf.errors.DeadlineExceededError:
            pass
    assert time.monotonic() - started < 20


TESTS: dict[str, Callable[[], None]] = {
    test.__name__: test
    for test in (fit, sparse_gradients, whole_batch, mixed_precision, reductions, many_at_once, failing_rank)
}

if __name__ == "__main__":
    if len(tf.config.list_physical_devices(TYPE)) < len(DEVICES):
        sys.exit(TOO_FEW_DEVICES)
    for name in sys.argv[1:]:
        TESTS[name]()
        print("passed", name)
