"""Seconds per training step of whole models on one place; ``run.py`` calls it for the device and its peer.

    python benchmarks/training.py paddle|tensorflow|torch MODEL PLACE [--steps N] [--bfloat16] [--compiled | --captured]

The place is cpu or a type of device: iluvatar, rdna or polaris in Paddle and TensorFlow, cuda in PyTorch.

resnet18: batch 32 of 3x32x32; resnet50: batch 8 of 3x224x224; transformer: a BERT-base encoder (12 layers, 768 wide,
12 heads) on 4x128 tokens; gpt2: the GPT-2-small decoder (12 layers, 768 wide, 12 heads, 50257 tokens, no dropout) on
1x128 tokens. For a GPU: resnet50-64 and -128 have batches of 64 and 128, transformer-16, -64 and -128 so many times
128 tokens, gpt2-8 has 8x512. Momentum SGD (ResNets) or AdamW, each framework's usual way of training: dygraph in
Paddle, a tf.function of a step in Keras, eager in PyTorch; the batch lies on the device. float32 in each framework's
default math mode, or with --bfloat16 its automatic mixed precision. --compiled puts the model's forward and backward
through paddle.jit.to_static or torch.compile; --captured, in Paddle, replays them as a graph. On a GPU PyTorch and our
device both measure a library's algorithms for each convolution before that (torch.backends.cudnn.benchmark;
UNIHAL_GPU_MEASURE=0 takes what the heuristic chooses).

Prints one JSON object: seconds (the median), losses, and peak_bytes, the most device memory that tensors held at a time
in the steps after the warm-up, as the framework counts it (null on a CPU).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

os.environ.setdefault("UNIHAL_GPU_MEASURE", "1")

IMAGE_SHAPES = {
    "resnet18": (32, 3, 32, 32),
    "resnet50": (8, 3, 224, 224),
    "resnet50-64": (64, 3, 224, 224),
    "resnet50-128": (128, 3, 224, 224),
}
BATCHES = {"transformer": 4, "transformer-16": 16, "transformer-64": 64, "transformer-128": 128}
TOKENS, WIDTH, HEADS, LAYERS, VOCABULARY = 128, 768, 12, 12, 30522
DECODER_TOKENS = {"gpt2": (1, 128), "gpt2-8": (8, 512)}  # batch, length
DECODER_VOCABULARY, DECODER_POSITIONS = 50257, 1024


class Parts(NamedTuple):
    """What a training is made of."""

    model: Any
    inputs: Any
    labels: Any
    optimizer: Callable[[Any], Any]  # of parameters


class Training(NamedTuple):
    step: Callable[[], float]  # trains on one batch, and returns its loss
    reset_peak: Callable[[], object]
    peak_bytes: Callable[[], int | None]


def paddle_decoder() -> Any:
    """GPT-2 small in Paddle: token numbers -> logits, whose matrix is the embedding's."""
    import paddle
    from paddle import nn

    class Block(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.first_norm, self.second_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.queries_keys_values, self.projection = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.widen, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            joined = self.queries_keys_values(self.first_norm(x)).reshape([0, 0, 3, HEADS, WIDTH // HEADS])
            query, key, value = joined.unbind(2)
            seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.projection(seen.reshape([0, 0, WIDTH]))
            return x + self.narrow(nn.functional.gelu(self.widen(self.second_norm(x)), approximate=True))

    class Decoder(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            initial = nn.initializer.Normal(0.0, 0.02)
            self.tokens = nn.Embedding(DECODER_VOCABULARY, WIDTH, weight_attr=initial)
            self.positions = nn.Embedding(DECODER_POSITIONS, WIDTH, weight_attr=initial)
            self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
            self.norm = nn.LayerNorm(WIDTH)

        def forward(self, tokens: Any) -> Any:
            x = self.tokens(tokens) + self.positions(paddle.arange(tokens.shape[1]))
            return paddle.matmul(self.norm(self.blocks(x)), self.tokens.weight, transpose_y=True)

    return Decoder()


def decoder_batch(model_name: str) -> tuple[Any, Any]:
    """Token numbers, and for each the one that follows."""
    batch, length = DECODER_TOKENS[model_name]
    text = np.random.default_rng(0).integers(0, DECODER_VOCABULARY, (batch, length + 1))
    return text[:, :-1], text[:, 1:]


def paddle_parts(model_name: str, dropout: float = 0.1) -> Parts:
    """On the current place."""
    import paddle

    paddle.seed(0)
    generator = np.random.default_rng(0)

    def adamw(parameters: Any) -> Any:
        return paddle.optimizer.AdamW(1e-4, parameters=parameters)

    if model_name in BATCHES:
        layer = paddle.nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=dropout, activation="gelu")
        model = paddle.nn.Sequential(
            paddle.nn.Embedding(VOCABULARY, WIDTH),
            paddle.nn.TransformerEncoder(layer, LAYERS),
            paddle.nn.Linear(WIDTH, 2),
        )
        inputs = paddle.to_tensor(generator.integers(0, VOCABULARY, (BATCHES[model_name], TOKENS)))
        labels = paddle.to_tensor(generator.integers(0, 2, (BATCHES[model_name], TOKENS)))
        return Parts(model, inputs, labels, adamw)
    if model_name in DECODER_TOKENS:
        inputs, labels = map(paddle.to_tensor, decoder_batch(model_name))
        return Parts(paddle_decoder(), inputs, labels, adamw)
    model = getattr(paddle.vision.models, model_name.partition("-")[0])(num_classes=10)
    shape = IMAGE_SHAPES[model_name]
    inputs = paddle.to_tensor(generator.standard_normal(shape, dtype=np.float32))
    labels = paddle.to_tensor(generator.integers(0, 10, (shape[0],)))
    return Parts(model, inputs, labels, lambda parameters: paddle.optimizer.Momentum(0.01, 0.9, parameters=parameters))


def paddle_training(model_name: str, place: str, bfloat16: bool, mode: str) -> Training:
    import paddle

    paddle.set_device(place)
    model, inputs, labels, make_optimizer = paddle_parts(model_name)
    optimizer = make_optimizer(model.parameters())
    if mode == "compiled":
        model = paddle.jit.to_static(model)

    def forward_and_backward() -> Any:
        with paddle.amp.auto_cast(bfloat16, dtype="bfloat16"):
            loss = paddle.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        return loss

    def step() -> float:
        loss = forward_and_backward()
        optimizer.step()
        optimizer.clear_grad(set_to_zero=False)  # as PyTorch does: gradients are made anew
        return float(loss)

    def captured_step() -> Callable[[], float]:
        step()
        graph = paddle.device.cuda.graphs.CUDAGraph(paddle.CustomPlace(place, 0))
        graph.capture_begin()
        loss = forward_and_backward()
        graph.capture_end()

        def replay() -> float:
            graph.replay()
            optimizer.step()
            return float(loss)

        return replay

    chosen = captured_step() if mode == "captured" else step
    if place == "cpu":
        return Training(chosen, lambda: None, lambda: None)
    device = f"{place}:0"
    memory = paddle.device
    return Training(
        chosen,
        lambda: memory.reset_max_memory_allocated(device),
        lambda: int(memory.max_memory_allocated(device)),
    )


def tensorflow_model(model_name: str, depth: int = LAYERS, dropout: float = 0.1) -> Any:
    """A Keras model; `depth` and `dropout` are the transformer's."""
    import keras

    layers = keras.layers

    def residual_block(x: object, filters: int, stride: int) -> object:
        shortcut = x
        x = layers.Conv2D(filters, 3, stride, "same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
        x = layers.BatchNormalization()(layers.Conv2D(filters, 3, 1, "same", use_bias=False)(x))
        if stride != 1 or shortcut.shape[-1] != filters:
            shortcut = layers.BatchNormalization()(layers.Conv2D(filters, 1, stride, use_bias=False)(shortcut))
        return layers.ReLU()(layers.Add()([x, shortcut]))

    def resnet18(shape: tuple[int, ...]) -> keras.Model:
        inputs = keras.Input(shape)
        x = layers.Conv2D(64, 7, 2, "same", use_bias=False)(inputs)
        x = layers.ReLU()(layers.BatchNormalization()(x))
        x = layers.MaxPooling2D(3, 2, "same")(x)
        for filters, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            x = residual_block(residual_block(x, filters, stride), filters, 1)
        return keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))

    def transformer() -> keras.Model:
        inputs = keras.Input((TOKENS,), dtype="int32")
        x = layers.Embedding(VOCABULARY, WIDTH)(inputs)
        for _ in range(depth):
            attention = layers.MultiHeadAttention(HEADS, WIDTH // HEADS, dropout=dropout)(x, x)
            x = layers.LayerNormalization()(layers.Add()([x, layers.Dropout(dropout)(attention)]))
            hidden = layers.Dense(WIDTH)(layers.Dense(4 * WIDTH, activation="gelu")(x))
            x = layers.LayerNormalization()(layers.Add()([x, layers.Dropout(dropout)(hidden)]))
        return keras.Model(inputs, layers.Dense(2)(x))

    class Positions(layers.Layer):  # type: ignore[misc]
        def build(self, shape: Any) -> None:
            self.table = self.add_weight(shape=(DECODER_POSITIONS, WIDTH), initializer=initial())

        def call(self, x: Any) -> Any:
            return x + keras.ops.cast(self.table[: x.shape[1]], x.dtype)

    def initial() -> Any:
        return keras.initializers.RandomNormal(stddev=0.02)

    def decoder(length: int) -> keras.Model:
        inputs = keras.Input((length,), dtype="int32")
        tokens = layers.ReversibleEmbedding(DECODER_VOCABULARY, WIDTH, embeddings_initializer=initial())
        x = Positions()(tokens(inputs))
        for _ in range(LAYERS):
            normed = layers.LayerNormalization(epsilon=1e-5)(x)
            x = layers.Add()(
                [x, layers.MultiHeadAttention(HEADS, WIDTH // HEADS)(normed, normed, use_causal_mask=True)]
            )
            wide = layers.Dense(4 * WIDTH)(layers.LayerNormalization(epsilon=1e-5)(x))
            gelu = layers.Activation(lambda y: keras.activations.gelu(y, approximate=True))(wide)
            x = layers.Add()([x, layers.Dense(WIDTH)(gelu)])
        return keras.Model(inputs, tokens(layers.LayerNormalization(epsilon=1e-5)(x), reverse=True))

    if model_name in DECODER_TOKENS:
        return decoder(DECODER_TOKENS[model_name][1])
    if model_name in BATCHES:
        return transformer()
    _, channels, height, width = IMAGE_SHAPES[model_name]
    if model_name == "resnet18":
        return resnet18((height, width, channels))
    return keras.applications.ResNet50(
        weights=None, input_shape=(height, width, channels), classes=10, classifier_activation=None
    )


def tensorflow_training(model_name: str, place: str, bfloat16: bool, mode: str) -> Training:
    if mode != "eager":
        raise SystemExit(f"--{mode} is not for TensorFlow: the step is a graph in any case")
    import keras
    import tensorflow as tf

    device = f"/device:{place.upper()}:0"
    if bfloat16:
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
    keras.utils.set_random_seed(0)
    generator = np.random.default_rng(0)

    with tf.device(device):
        model = tensorflow_model(model_name)
        if model_name in DECODER_TOKENS:
            inputs, labels = decoder_batch(model_name)
            inputs = inputs.astype(np.int32)
            optimizer: keras.optimizers.Optimizer = keras.optimizers.AdamW(1e-4)
        elif model_name in BATCHES:
            inputs = generator.integers(0, VOCABULARY, (BATCHES[model_name], TOKENS)).astype(np.int32)
            labels = generator.integers(0, 2, (BATCHES[model_name], TOKENS))
            optimizer = keras.optimizers.AdamW(1e-4)
        else:
            batch, channels, height, width = IMAGE_SHAPES[model_name]
            inputs = generator.standard_normal((batch, height, width, channels), dtype=np.float32)
            labels = generator.integers(0, 10, (batch,))
            optimizer = keras.optimizers.SGD(0.01, 0.9)
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        # train_on_batch would bring the batch by way of the host each time, which is no part of a step elsewhere.
        inputs, labels = tf.convert_to_tensor(inputs), tf.convert_to_tensor(labels)

        @tf.function
        def train() -> Any:
            with tf.GradientTape() as tape:
                loss = loss_of(labels, model(inputs, training=True))
            optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
            return loss

    def step() -> float:
        with tf.device(device):
            return float(train())

    if place == "cpu":
        return Training(step, lambda: None, lambda: None)
    memory = tf.config.experimental
    return Training(
        step,
        lambda: memory.reset_memory_stats(f"{place.upper()}:0"),
        lambda: int(memory.get_memory_info(f"{place.upper()}:0")["peak"]),
    )


def torch_parts(model_name: str, place: str, dropout: float = 0.1) -> Parts:
    """Weights, inputs and labels are made on the CPU, so that they are the same on each place."""
    import torch
    import torch_models

    torch.manual_seed(0)

    def adamw(parameters: Any) -> Any:
        return torch.optim.AdamW(parameters, 1e-4)

    if model_name in BATCHES:
        model = torch_models.encoder(VOCABULARY, WIDTH, HEADS, LAYERS, 2, dropout)
        inputs = torch.randint(0, VOCABULARY, (BATCHES[model_name], TOKENS))
        labels = torch.randint(0, 2, (BATCHES[model_name] * TOKENS,))
        return Parts(model.to(place), inputs.to(place), labels.to(place), adamw)
    if model_name in DECODER_TOKENS:
        model = torch_models.Decoder(DECODER_VOCABULARY, DECODER_POSITIONS, WIDTH, HEADS, LAYERS)
        inputs, labels = (torch.from_numpy(part.copy()).to(place) for part in decoder_batch(model_name))
        return Parts(model.to(place), inputs, labels.flatten(), adamw)
    depth = int(model_name.removeprefix("resnet").partition("-")[0])
    shape = IMAGE_SHAPES[model_name]
    model, inputs, labels = torch_models.resnet(depth, 10), torch.randn(shape), torch.randint(0, 10, (shape[0],))
    return Parts(
        model.to(place),
        inputs.to(place),
        labels.to(place),
        lambda parameters: torch.optim.SGD(parameters, 0.01, 0.9),
    )


def torch_training(model_name: str, place: str, bfloat16: bool, mode: str) -> Training:
    import torch

    if mode == "captured":
        raise SystemExit("--captured is for Paddle")

    torch.backends.cudnn.benchmark = True
    model, inputs, labels, make_optimizer = torch_parts(model_name, place)
    optimizer = make_optimizer(model.parameters())
    if mode == "compiled":
        model = torch.compile(model)

    def step() -> float:
        optimizer.zero_grad()
        with torch.autocast(place, torch.bfloat16, enabled=bfloat16):
            loss = torch.nn.functional.cross_entropy(model(inputs).flatten(0, -2), labels)
        loss.backward()
        optimizer.step()
        return float(loss)

    if place == "cpu":
        return Training(step, lambda: None, lambda: None)
    return Training(step, torch.cuda.reset_peak_memory_stats, torch.cuda.max_memory_allocated)


TRAININGS = {"paddle": paddle_training, "tensorflow": tensorflow_training, "torch": torch_training}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=list(TRAININGS))
    parser.add_argument("model", choices=[*IMAGE_SHAPES, *BATCHES, *DECODER_TOKENS])
    parser.add_argument("place", help="cpu, or a type of device")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--bfloat16", action="store_true", help="automatic mixed precision")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument(
        "--compiled", action="store_const", const="compiled", dest="mode", help="paddle.jit.to_static or torch.compile"
    )
    modes.add_argument(
        "--captured", action="store_const", const="captured", dest="mode", help="Paddle: replays of a graph"
    )
    arguments = parser.parse_args()
    make = TRAININGS[arguments.framework]
    training = make(arguments.model, arguments.place, arguments.bfloat16, arguments.mode or "eager")
    losses = [training.step(), training.step()]  # warm-up: allocation, graph building, primitives
    training.reset_peak()
    times = []
    for _ in range(arguments.steps):
        start = time.perf_counter()
        losses.append(training.step())
        times.append(time.perf_counter() - start)
    print(
        json.dumps(
            {"seconds": statistics.median(times), "losses": losses, "peak_bytes": training.peak_bytes()},
            allow_nan=False,
        )
    )


if __name__ == "__main__":
    main()
