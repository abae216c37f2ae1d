"""Ops for all types that their kernels on the device are registered for, against TensorFlow's CPU."""

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from compare import DEVICE, check, on, random
from registry import combinations, problems
from registry_rows import ROWS_OF, WINDOW
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

RAW = tf.raw_ops
KIND = DEVICE.split(":")[1]


@pytest.mark.parametrize("op", ROWS_OF)
def test_op(op: str) -> None:
    assert combinations(op, KIND), f"no kernel of {op} on {KIND}"
    found = list(problems(op, ROWS_OF[op], KIND, every=False))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "op", [pytest.param(op, marks=pytest.mark.long if i % 6 else pytest.mark.whole) for i, op in enumerate(ROWS_OF)]
)
def test_op_of_all_types(op: str) -> None:
    found = list(problems(op, ROWS_OF[op], KIND, every=True))
    assert not found, "\n".join(found)


def test_kinds_of_numbers() -> None:
    with tf.device(DEVICE):
        for values, text in (([1.0, float("nan")], "NaN"), ([float("inf"), float("nan")], "Inf and NaN")):
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"here : Tensor had {text} values"):
                RAW.CheckNumerics(tensor=tf.identity(values), message="here")


def test_gradients_of_pooling() -> None:
    x = random(2, 7, 6, 3)
    for padding in ("SAME", "VALID"):
        window = {**WINDOW, "padding": padding}

        def second_order(x: tf.Tensor, window: dict = window) -> tuple[tf.Tensor, ...]:
            y = RAW.MaxPool(input=x, **window)
            operands = {"orig_input": x, "orig_output": y, "padding": window["padding"]}
            sizes = {"ksize": window["ksize"], "strides": window["strides"]}
            return (
                RAW.MaxPoolGradV2(grad=y + 1, **sizes, **operands),
                RAW.MaxPoolGradGrad(grad=3 * x, **sizes, **operands),
                RAW.MaxPoolGradGradV2(grad=3 * x, **sizes, **operands),
            )

        check(second_order, x)
        for batched in (False, True):

            def by_argmax(x: tf.Tensor, window: dict = window, batched: bool = batched) -> tf.Tensor:
                y, argmax = RAW.MaxPoolWithArgmax(input=x, include_batch_in_index=batched, **window)
                return RAW.MaxPoolGradWithArgmax(
                    input=x, grad=2 * y, argmax=argmax, include_batch_in_index=batched, **window
                )

            check(by_argmax, x)

            # TensorFlow's CPU has no kernel of this one: what lies at the maxima is the maxima.
            def at_maxima(x: tf.Tensor, window: dict = window, batched: bool = batched) -> tuple[tf.Tensor, tf.Tensor]:
                y, argmax = RAW.MaxPoolWithArgmax(input=x, include_batch_in_index=batched, **window)
                arguments = {**window, "argmax": argmax, "include_batch_in_index": batched}
                return y, RAW.MaxPoolGradGradWithArgmax(input=x, grad=x, **arguments)

            y, found = on(DEVICE, at_maxima, [x], ["float32"])
            np.testing.assert_array_equal(found.numpy(), y.numpy())
    volume = random(2, 5, 4, 6, 2)

    def of_volumes(x: tf.Tensor) -> tf.Tensor:
        window = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 1, 2, 2, 1], "padding": "SAME"}
        return RAW.MaxPool3DGradGrad(orig_input=x, orig_output=RAW.MaxPool3D(input=x, **window), grad=3 * x, **window)

    check(of_volumes, volume)


def test_transforms_of_named_axes() -> None:
    """TensorFlow's CPU has no kernels of these."""
    x = random(2, 3, 4, 6) + 1j * random(2, 3, 4, 6, seed=1)
    for axes, lengths in (([0, 1, 2, 3], [2, 3, 4, 6]), ([2, 0], [3, 5]), ([-1], [6])):
        for function, reference in ((tf.signal.fftnd, np.fft.fftn), (tf.signal.ifftnd, np.fft.ifftn)):
            (found,) = on(DEVICE, lambda x, f=function, a=axes, n=lengths: f(x, n, a), [x], ["complex128"])
            np.testing.assert_allclose(found.numpy(), reference(x, lengths, axes), atol=1e-12)
        (half,) = on(DEVICE, lambda x, a=axes, n=lengths: tf.signal.rfftnd(x, n, a), [x.real], ["float64"])
        np.testing.assert_allclose(half.numpy(), np.fft.rfftn(x.real, lengths, axes), atol=1e-12)
        (back,) = on(DEVICE, lambda x, a=axes, n=lengths: tf.signal.irfftnd(x, n, a), [half.numpy()], ["complex128"])
        np.testing.assert_allclose(back.numpy(), np.fft.irfftn(half.numpy(), lengths, axes), atol=1e-12)


def test_largest_and_smallest() -> None:
    """TensorFlow's CPU has the largest along the last axis only."""
    x = random(2, 9, 3)
    for axis, largest in ((-1, True), (1, True), (1, False)):

        def select(x: tf.Tensor, axis: int = axis, largest: bool = largest) -> tuple[tf.Tensor, ...]:
            return RAW.ApproxTopK(input=x, k=2, reduction_dimension=axis, is_max_k=largest)

        values, indices = (result.numpy() for result in on(DEVICE, select, [x], ["float32"]))
        expected = np.argsort(-x if largest else x, axis)
        expected = np.take(expected, range(2), axis)
        np.testing.assert_array_equal(indices, expected)
        np.testing.assert_array_equal(values, np.take_along_axis(x.astype(np.float32), expected, axis))
    check(lambda x: RAW.ApproxTopK(input=x, k=2), x)


def test_stacks_in_parallel() -> None:
    def stack(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return tf.function(lambda: tf.parallel_stack([x, y, x]))()

    for dtype in ("float32", "int64", "complex64"):
        with tf.device(DEVICE):
            x, y = (tf.cast(random(3, 2, seed=i), dtype) for i in range(2))
            np.testing.assert_array_equal(stack(x, y).numpy(), tf.stack([x, y, x]).numpy())


def test_update_at_a_place() -> None:
    """tf.raw_ops lacks this one; keras.ops.slice_update is made of it."""
    for dtype in ("float32", "float16", "int64", "bool", "complex64"):
        for update, start in ((random(2, 1, 3), [0, 2, 1]), (random(1, 2, 4), [-1, 5, 3])):

            def put(x: tf.Tensor, u: tf.Tensor, start: list[int] = start, dtype: str = dtype) -> tf.Tensor:
                return gen_xla_ops.xla_dynamic_update_slice(tf.cast(x, dtype), tf.cast(u, dtype), tf.constant(start))

            check(put, random(2, 3, 4), update)
    with tf.device(DEVICE), pytest.raises(tf.errors.InvalidArgumentError):
        gen_xla_ops.xla_dynamic_update_slice(tf.ones([2]), tf.ones([3]), tf.constant([0]))


def test_rows_outside_their_part() -> None:
    with tf.device(DEVICE), pytest.raises(tf.errors.InvalidArgumentError, match="partitions must be in .0, 2."):
        tf.dynamic_partition(tf.ones([3]), tf.constant([0, 2, 1]), 2)


LOGITS = random(6, 3, 5)
PLACES = [[0, 0], [0, 1], [1, 0], [1, 3], [2, 0], [2, 1], [2, 2]]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "labels, steps, options",
    (
        ([0, 1, 3, 0, 2, 2, 1], [6, 4, 5], {}),
        ([0, 1, 3, 0, 2, 2, 1], [6, 4, 3], {"preprocess_collapse_repeated": True}),
        ([0, 1, 3, 0, 2, 1, 2], [6, 0, 2], {"ignore_longer_outputs_than_inputs": True}),
        ([0, 4, 3, 9, 2, 1, 4], [6, 2, 3], {}),  # what is no class ends the labels
    ),
)
def test_sequences(labels: list[int], steps: list[int], options: dict[str, bool], dtype: str) -> None:
    def run(logits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return RAW.CTCLoss(inputs=logits, labels_indices=PLACES, labels_values=labels, sequence_length=steps, **options)

    # TensorFlow's CPU adds logarithms in float32 for either dtype.
    check(run, LOGITS, dtype=dtype, tolerance=5e-5 if dtype == "float32" else 1e-7)
    check(lambda x: run(x)[0], LOGITS, dtype=dtype, gradients=True, tolerance=5e-5 if dtype == "float32" else 1e-7)


def test_sequences_of_the_second_version() -> None:
    """CTCLossV2 is CTCLoss with the blank as the first class; TensorFlow's CPU has no kernel of it."""
    logits = LOGITS.astype("float32")
    places, labels = [[0, 0], [0, 1], [1, 0], [2, 0]], np.array([0, 3, 2, 2], "int32")
    rest = {"labels_indices": places, "sequence_length": [6, 5, 3]}
    with tf.device(DEVICE):
        loss, gradient = RAW.CTCLossV2(inputs=np.roll(logits, 1, 2), labels_values=labels + 1, **rest)
    with tf.device("CPU:0"):
        wanted, wanted_gradient = RAW.CTCLoss(inputs=logits, labels_values=labels, **rest)
    np.testing.assert_allclose(loss, wanted, rtol=2e-5)
    np.testing.assert_allclose(gradient, np.roll(wanted_gradient, 1, 2), atol=2e-5)


def test_steps_that_a_batch_has_not() -> None:
    """TensorFlow's CPU leaves gates there as memory was; the outputs before are the same, and ours are zeros behind."""
    given = ROWS_OF["BlockLSTMV2"][0]
    names = ("x", "cs_prev", "h_prev", "w", "wci", "wcf", "wco", "b")
    operands = {n: tf.cast(v, tf.float32) for n, v in zip(names, given.inputs[1:], strict=True)}
    results = []
    for device in (DEVICE, "CPU:0"):
        with tf.device(device):
            results.append(RAW.BlockLSTMV2(seq_len_max=3, **operands, **given.attributes))
    for actual, expected in zip(*results, strict=True):
        np.testing.assert_allclose(actual[:3], expected[:3], rtol=1e-5, atol=1e-6)
        assert not np.any(actual[3:])


def _ctc(**arguments: object) -> object:
    given = {"inputs": tf.zeros((4, 2, 3)), "labels_indices": [[0, 0], [1, 0]], "labels_values": [0, 1]}
    return RAW.CTCLoss(**(given | {"sequence_length": [4, 4]} | arguments))


@pytest.mark.parametrize(
    "function",
    (
        lambda: _ctc(inputs=tf.zeros((4, 2))),
        lambda: _ctc(sequence_length=[4]),
        lambda: _ctc(sequence_length=[4, 5]),
        lambda: _ctc(labels_values=[0, 1, 1]),
        lambda: _ctc(labels_values=[0, -1]),
        lambda: _ctc(labels_indices=[[0, 0], [2, 0]]),
        lambda: _ctc(labels_indices=[[1, 0], [0, 0]]),
        lambda: _ctc(labels_indices=[[0, 0], [0, 1]]),
        lambda: _ctc(labels_indices=[[0, 0], [0, 1], [1, 0]], labels_values=[1, 1, 0], sequence_length=[1, 2]),
        lambda: _ctc(labels_indices=[[0, 0], [0, 1], [1, 0]], labels_values=[2, 1, 0]),
        lambda: _ctc(sequence_length=[4, -1]),
        lambda: RAW.QuantizeAndDequantizeV2(input=tf.zeros(3), input_min=2.0, input_max=1.0, range_given=True),
        lambda: RAW.QuantizeAndDequantizeV2(input=tf.zeros(3), input_min=0.0, input_max=1.0, num_bits=64),
        lambda: RAW.QuantizeAndDequantizeV2(input=tf.zeros(3), input_min=0.0, input_max=1.0, round_mode="DOWN"),
        lambda: RAW.QuantizeAndDequantizeV2(input=tf.zeros(3), input_min=0.0, input_max=1.0, axis=1),
        lambda: RAW.QuantizeAndDequantizeV2(input=tf.zeros(3), input_min=[0.0], input_max=[1.0], range_given=True),
        lambda: RAW.QuantizeAndDequantizeV3(input=tf.zeros(3), input_min=0.0, input_max=1.0, num_bits=8, axis=0),
        lambda: RAW.QuantizeAndDequantizeV3(input=tf.zeros(3), input_min=0.0, input_max=1.0, num_bits=0),
        lambda: RAW.QuantizeAndDequantizeV4Grad(gradients=tf.zeros(2), input=tf.zeros(3), input_min=0.0, input_max=1.0),
        lambda: RAW.DataFormatDimMap(x=[0], src_format="NHW", dst_format="NHW"),
        lambda: RAW.DataFormatDimMap(x=[0], src_format="NHWC", dst_format="NCDHW"),
        lambda: RAW.DataFormatVecPermute(x=[1, 2, 3], src_format="NHWC", dst_format="NCHW"),
        lambda: RAW.DataFormatVecPermute(x=[[1, 2, 3]] * 4, src_format="NHWC", dst_format="NCHW"),
        lambda: RAW.DataFormatVecPermute(x=[[[1, 2]]] * 4, src_format="NHWC", dst_format="NCHW"),
        lambda: RAW.Betainc(a=tf.ones(2), b=tf.ones(3), x=0.5),
        lambda: RAW.Multinomial(logits=tf.zeros(3), num_samples=2),
        lambda: RAW.Multinomial(logits=tf.zeros((2, 3)), num_samples=-1),
        lambda: RAW.Multinomial(logits=tf.zeros((2, 0)), num_samples=1),
        lambda: _truncated(stdevs=0.0),
        lambda: _truncated(minvals=2.0),
        lambda: _truncated(means=[0.0, 0.0]),
        lambda: RAW.LSTMBlockCell(
            x=tf.zeros((2, 3)),
            cs_prev=tf.zeros((2, 4)),
            h_prev=tf.zeros((2, 4)),
            w=tf.zeros((6, 16)),
            wci=tf.zeros(4),
            wcf=tf.zeros(4),
            wco=tf.zeros(4),
            b=tf.zeros(16),
        ),
    ),
)
def test_what_the_cpu_refuses_is_refused(function: Callable[[], object]) -> None:
    for device in (DEVICE, "CPU:0"):
        with tf.device(device), pytest.raises((tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError)):
            function()


def _truncated(**arguments: object) -> object:
    given = {"means": 0.0, "stdevs": 1.0, "minvals": -1.0, "maxvals": 1.0}
    return RAW.ParameterizedTruncatedNormal(shape=[3, 2], **(given | arguments))
