"""Keras, by what its modules list: every layer, loss, optimizer, op and family of applications, on the device as on the
CPU, forward and backward in a graph, and no op falls back (UNIHAL_STRICT=1).

A class or function that Keras adds fails here until it has a row, or a reason to have none.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from compare import CPU, DEVICE, random
from keras import layers
from keras_layers import LAYERS, LINE

pytestmark = [pytest.mark.whole, pytest.mark.usefixtures("soft_placement")]


def classes_of(module: Any, base: type) -> list[str]:
    """The names of a module's classes, without aliases."""
    names = {}
    for name, value in vars(module).items():
        if inspect.isclass(value) and issubclass(value, base) and value.__name__ == name:
            names[value] = name
    return sorted(names.values())


def assert_close(actual: Any, expected: Any, limit: float = 1e-3) -> None:
    pairs = list(zip(tf.nest.flatten(actual), tf.nest.flatten(expected), strict=True))
    assert pairs
    for a, e in pairs:
        a, e = np.asarray(a), np.asarray(e)
        assert a.shape == e.shape and a.dtype == e.dtype
        if e.dtype.kind in "fc":
            finite = np.abs(e[np.isfinite(e)])
            np.testing.assert_allclose(a, e, rtol=limit, atol=limit * max(1.0, float(finite.max(initial=0))))
        else:
            np.testing.assert_array_equal(a, e)


# -- layers ----------------------------------------------------------------------------------------------------

#: Layers without a row, by why.
WITHOUT: dict[str, list[str]] = {
    "no layer by itself": ["Bidirectional", "GRUCell", "InputLayer", "LSTMCell", "Lambda", "Layer", "Pipeline", "RNN"],
    "the same": ["SimpleRNNCell", "SpectralNormalization", "StackedRNNCells", "TimeDistributed", "Wrapper"],
    "other frameworks' and saved programs": ["FlaxLayer", "JaxLayer", "TFSMLayer", "TorchModuleWrapper"],
    "integers and strings": ["CategoryEncoding", "Discretization", "Embedding", "HashedCrossing", "Hashing"],
    "lookups": ["IntegerLookup", "ReversibleEmbedding", "StringLookup", "TextVectorization"],
    "augmentation of data, in the pipeline on the CPU": ["AugMix", "AutoContrast", "CutMix", "Equalization", "MixUp"],
    "more of it": [
        "ContrastLimitedAdaptiveHistogramEqualization",
        "MaxNumBoundingBoxes",
        "RandAugment",
        "Solarization",
    ],
}


def test_all_layers_have_rows() -> None:
    names = set(classes_of(layers, layers.Layer))
    listed = set(LAYERS) | {name for group in WITHOUT.values() for name in group}
    assert {name for name in names - listed if not name.startswith("Random")} == set()


def run_layer(make: Callable[[], Any], shapes: Any, weights: list[np.ndarray] | None, device: str) -> Any:
    """A layer's output and gradients in inference and, without randomness, in training; and its weights."""
    keras.utils.set_random_seed(5)
    with tf.device(device):
        many = isinstance(shapes, list)
        inputs = [tf.constant(random(*s, seed=i).astype("float32")) for i, s in enumerate(shapes if many else [shapes])]
        layer = make()
        call = (lambda x, **k: layer(*x, **k)) if many and isinstance(layer, ATTENTION) else layer
        operands = inputs if many else inputs[0]
        call(operands)
        if weights is not None:
            layer.set_weights(weights)
        variables = [v.value for v in layer.trainable_variables]

        @tf.function
        def step() -> Any:
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                output = call(operands)
                loss = tf.add_n([tf.reduce_sum(tf.square(tf.cast(o, tf.float32))) for o in tf.nest.flatten(output)])
            return output, [g for g in tape.gradient(loss, inputs + variables) if g is not None]

        return step(), [np.asarray(w) for w in layer.get_weights()]


ATTENTION = (layers.MultiHeadAttention, layers.GroupQueryAttention)


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name: str) -> None:
    arguments, shapes = LAYERS[name]
    make = lambda: getattr(layers, name)(**arguments)  # noqa: E731
    expected, weights = run_layer(make, shapes, None, CPU)
    actual, _ = run_layer(make, shapes, weights, DEVICE)
    assert_close(actual, expected)


@pytest.mark.parametrize("name", ["Bidirectional", "TimeDistributed", "SpectralNormalization", "StackedRNNCells"])
def test_wrapper(name: str) -> None:
    make = {
        "Bidirectional": lambda: layers.Bidirectional(layers.LSTM(3, return_sequences=True)),
        "TimeDistributed": lambda: layers.TimeDistributed(layers.Dense(3)),
        "SpectralNormalization": lambda: layers.SpectralNormalization(layers.Dense(3)),
        "StackedRNNCells": lambda: layers.RNN([layers.GRUCell(3), layers.LSTMCell(4)]),
    }[name]
    expected, weights = run_layer(make, LINE, None, CPU)
    actual, _ = run_layer(make, LINE, weights, DEVICE)
    assert_close(actual, expected)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize(
    "name", ["Dense", "Conv2D", "BatchNormalization", "LayerNormalization", "LSTM", "MultiHeadAttention"]
)
def test_layer_of_mixed_precision(name: str, policy: str) -> None:
    arguments, shapes = LAYERS[name]
    make = lambda: getattr(layers, name)(**arguments, dtype=policy)  # noqa: E731
    expected, weights = run_layer(make, shapes, None, CPU)
    actual, _ = run_layer(make, shapes, weights, DEVICE)
    for a, e in zip(tf.nest.flatten(actual), tf.nest.flatten(expected), strict=True):
        assert a.dtype == e.dtype
        assert_close(tf.cast(a, tf.float32), tf.cast(e, tf.float32), 5e-2)


# -- losses and optimizers ---------------------------------------------------------------------------------------

LOSSES_OF_LABELS = {"SparseCategoricalCrossentropy": {"from_logits": True}, "Circle": {}}
LOSSES_OF_LABELS |= {"CategoricalGeneralizedCrossEntropy": {}}


@pytest.mark.parametrize("name", sorted(set(classes_of(keras.losses, keras.losses.Loss)) - {"Loss", "CTC"}))
def test_loss(name: str) -> None:
    truth = np.abs(random(6, 4, seed=1)).astype("float32") / 2 + 0.01
    truth = truth / truth.sum(-1, keepdims=True)
    if name in LOSSES_OF_LABELS:
        truth = np.array([0, 1, 3, 2, 0, 1])
    if "Hinge" in name:
        truth = np.sign(truth - 0.25)

    def run(device: str) -> Any:
        with tf.device(device):
            loss = getattr(keras.losses, name)(**LOSSES_OF_LABELS.get(name, {}))
            guess = tf.nn.softmax(tf.constant(random(6, 4).astype("float32")))

            @tf.function
            def step() -> Any:
                with tf.GradientTape() as tape:
                    tape.watch(guess)
                    value = loss(truth, guess)
                return value, tape.gradient(value, guess)

            return step()

    assert_close(run(DEVICE), run(CPU))


OPTIMIZERS = sorted(
    set(classes_of(keras.optimizers, keras.optimizers.Optimizer))
    - {"Optimizer", "OptimizerMap", "MultiOptimizer", "LossScaleOptimizer"}
)
#: Arguments with which every optimizer is tried besides its defaults: two at a time, of those that exclude none.
EXTRAS: list[dict[str, Any]] = [
    {},
    {"use_ema": True, "ema_momentum": 0.9, "clipvalue": 0.01, "weight_decay": 0.01},
    {"gradient_accumulation_steps": 2, "global_clipnorm": 0.1},
]
#: And of what Keras' base class does alike for all, the rest on one. `make test-rest` has one for each optimizer.
OPTIMIZER_CASES = [
    *((name, extra) for name in OPTIMIZERS for extra in EXTRAS),
    *(("Adam", extra) for extra in ({"use_ema": True}, {"gradient_accumulation_steps": 2}, {"clipnorm": 0.1})),
]


def train(make: Callable[[], Any], device: str) -> list[np.ndarray]:
    """The weights of a small model after four steps."""
    keras.utils.set_random_seed(3)
    with tf.device(device):
        model = keras.Sequential([layers.Input((6,)), layers.Dense(8, activation="tanh"), layers.Dense(4)])
        model.set_weights([random(*w.shape, seed=i) for i, w in enumerate(model.get_weights())])
        model.compile(make(), "mse", jit_compile=False)
        model.fit(random(16, 6), random(16, 4, seed=9), batch_size=4, epochs=1, shuffle=False, verbose=0)
        return list(model.get_weights())


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        pytest.param(
            name,
            extra,
            id=f"{name}-{'-'.join(extra) or 'plain'}",
            marks=() if i % 3 == i // 3 % 3 else pytest.mark.long,
        )
        for i, (name, extra) in enumerate(OPTIMIZER_CASES)
    ],
)
def test_optimizer(name: str, extra: dict[str, Any]) -> None:
    make = lambda: getattr(keras.optimizers, name)(**{"learning_rate": 0.01, **extra})  # noqa: E731
    assert_close(train(make, DEVICE), train(make, CPU))


def test_scaled_losses() -> None:
    make = lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.01), initial_scale=4.0)  # noqa: E731
    assert_close(train(make, DEVICE), train(make, CPU))


# -- ops --------------------------------------------------------------------------------------------------------------

X = random(4, 4).astype("float32")
Y = (np.abs(random(4, 4, seed=1)) + 0.5).astype("float32")
N = np.array([[3, 1, 2], [0, 2, 1]], "int32")
#: What a function is called with: the first that the CPU takes.
PATTERNS: list[tuple[Any, ...]] = [
    (X,),
    (X, Y),
    (N,),
    (N, N + 1),
    (Y + 4 * np.eye(4, dtype="float32"),),
    (X[0],),
    ([X, Y],),
]
IMAGES = random(2, 8, 8, 4).astype("float32")
KERNEL = random(3, 3, 4, 4, seed=2).astype("float32")
SIGNAL = random(2, 64).astype("float32")
IDS = np.array([0, 0, 1, 2])
#: What others are called with.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("adaptive_average_pool", "adaptive_max_pool"), (IMAGES, (3, 3))),
    **dict.fromkeys(("average_pool", "max_pool"), (IMAGES, 2)),
    **dict.fromkeys(("conv", "conv_transpose"), (IMAGES, KERNEL, 2)),
    **dict.fromkeys(("bartlett", "blackman", "hamming", "hanning", "identity"), (5,)),
    **dict.fromkeys(("array_split", "split", "hsplit", "vsplit"), (X, 2)),
    **dict.fromkeys(("segment_max", "segment_min", "segment_prod", "segment_sum"), (X, IDS, 3)),
    **dict.fromkeys(("one_hot", "multi_hot"), (N, 5)),
    **dict.fromkeys(("ones", "zeros"), ((2, 3),)),
    "argpartition": (X, 1),
    "batch_normalization": (X, Y[0], Y[1], -1),
    "broadcast_to": (X[:, :1], (4, 3)),
    "clip": (X, -1.0, 0.5),
    "corrcoef": (X,),
    "correlate": (X[0], Y[0]),
    "depth_to_space": (IMAGES, 2),
    "space_to_depth": (IMAGES, 2),
    "depthwise_conv": (IMAGES, KERNEL[..., :1]),
    "separable_conv": (IMAGES, KERNEL[..., :1], random(1, 1, 4, 5).astype("float32")),
    "digitize": (X, np.array([-1.0, 0.0, 1.0], "float32")),
    "dot_product_attention": (IMAGES, IMAGES[:, ::-1].copy(), IMAGES),
    "dsplit": (IMAGES, 2),
    "einsum": ("ij,kj->ik", X, Y),
    "expand_dims": (X, 1),
    "extract_sequences": (SIGNAL, 16, 8),
    "eye": (3,),
    "full": ((2, 3), 0.5),
    "get_item": (X, 1),
    "isin": (N, np.array([1, 2])),
    "istft": ((random(2, 7, 9).astype("float32"), random(2, 7, 9, seed=1).astype("float32")), 16, 8, 16),
    "stft": (SIGNAL, 16, 8, 16),
    "kaiser": (5, 14.0),
    "kron": (X, Y[:2]),
    "moments": (X, 0),
    "moveaxis": (IMAGES, 1, 3),
    "swapaxes": (IMAGES, 1, 3),
    "pad": (X, ((1, 2), (0, 1)), "reflect"),
    "psnr": (X, Y, 2.0),
    "repeat": (X, 2, 1),
    "reshape": (X, (2, 8)),
    "saturate_cast": (300 * X, "uint8"),
    "scatter": (np.array([[1], [3]]), X[:2], (5, 4)),
    "scatter_update": (X, np.array([[1], [3]]), Y[:2]),
    "searchsorted": (np.sort(X[0]), Y[0]),
    "select": ([X > 0, X > -1], [X, Y], 0.0),
    "slice": (X, (1, 0), (2, 3)),
    "slice_update": (X, (1, 0), Y[:2, :3]),
    "sparse_categorical_crossentropy": (IDS, Y / Y.sum(-1, keepdims=True)),
    "take_along_axis": (X, np.argsort(Y, -1), -1),
    "threshold": (X, 0.2, -1.0),
    "tile": (X, (2, 1)),
    "top_k": (X, 2),
    "tri": (4, 5, 1),
    "unfold": (np.moveaxis(IMAGES, 3, 1).copy(), 3),
    "view_as_complex": (X[:, :2],),
}
#: Functions that need other arguments, that give host values, or whose result is not a number that one can compare.
OTHER = {
    *("append", "arange", "array", "associative_scan", "cast", "cond", "convert_to_numpy", "convert_to_tensor"),
    *("ctc_decode", "ctc_loss", "custom_gradient", "dtype", "empty", "empty_like", "fori_loop", "is_tensor", "jvp"),
    *("map", "ndim", "scan", "shape", "stop_gradient", "switch", "vectorize", "vectorized_map", "view", "while_loop"),
    *("size", "rearrange", "eig", "eigh", "svd", "qr", "unique", "nonzero"),
}
OPS = sorted(
    name for name in dir(keras.ops) if inspect.isfunction(getattr(keras.ops, name)) and not name.startswith("_")
)


def _result(function: Callable[..., Any], operands: Any) -> Any:
    """In a graph, or where Keras has none for it in eager mode."""
    try:
        return tf.function(lambda: function(*operands))()
    except (TypeError, ValueError, tf.errors.OperatorNotAllowedInGraphError):
        return function(*operands)


def _on_device(value: Any) -> Any:
    return tf.identity(value) if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long if i % 2 else ()) for i, name in enumerate(OPS) if name not in OTHER],
)
def test_op(name: str) -> None:
    function = getattr(keras.ops, name)
    for pattern in [ARGUMENTS[name]] if name in ARGUMENTS else PATTERNS:
        with tf.device(CPU):
            try:
                expected = _result(function, [tf.nest.map_structure(_on_device, operand) for operand in pattern])
            except Exception:  # the next one
                if name in ARGUMENTS:
                    raise
                continue
        with tf.device(DEVICE):
            operands = [tf.nest.map_structure(_on_device, operand) for operand in pattern]
            actual = _result(function, operands)
        if any(tf.is_tensor(e) for e in tf.nest.flatten(expected)):
            assert_close(actual, expected)
        return
    pytest.skip("needs other arguments")


# -- applications -----------------------------------------------------------------------------------------------------

APPLICATIONS = {
    "ConvNeXtTiny": 32,
    "DenseNet121": 32,
    "EfficientNetB0": 32,
    "EfficientNetV2B0": 32,
    "InceptionResNetV2": 75,
    "InceptionV3": 75,
    "MobileNet": 32,
    "MobileNetV2": 32,
    "MobileNetV3Small": 32,
    "NASNetMobile": 32,
    "ResNet50": 32,
    "ResNet50V2": 32,
    "VGG16": 32,
    "Xception": 71,
}


#: With residues and squeezes, and with norms of layers; the others take two minutes.
BUILT = ("ConvNeXtTiny", "EfficientNetB0")


@pytest.mark.parametrize(
    "name", [name if name in BUILT else pytest.param(name, marks=pytest.mark.long) for name in APPLICATIONS]
)
def test_application(name: str) -> None:
    size = APPLICATIONS[name]
    x = random(2, size, size, 3).astype("float32")
    results, weights = [], None
    for device in (CPU, DEVICE):
        keras.utils.set_random_seed(1)
        with tf.device(device):
            model = getattr(keras.applications, name)(weights=None, input_shape=(size, size, 3), classes=7)
            if weights is None:
                weights = model.get_weights()
            else:
                model.set_weights(weights)
            # TensorFlow's CPU has no fused convolution in groups, which its graph pass makes of ConvNeXt's.
            results.append(np.asarray(model(x, training=False)) if device == CPU else model.predict_on_batch(x))
        keras.backend.clear_session()
    assert_close(results[1], results[0])
