"""Seconds per training step of whole models on one place; ``run.py`` calls it for the device and its peer.

    python benchmarks/training.py paddle|tensorflow|torch MODEL PLACE [--steps N] [--bfloat16]

The place is cpu or a type of device: iluvatar, rdna or polaris in Paddle and TensorFlow, cuda in PyTorch.

resnet18: batch 32 of 3x32x32; resnet50: batch 8 of 3x224x224; transformer: a BERT-base encoder (12 layers, 768 wide,
12 heads) on 4x128 tokens. For a GPU: resnet50-64 has batch 64, transformer-16 has 16x128 tokens. Momentum SGD (ResNets)
or AdamW (transformer), each framework's usual way of training: dygraph in Paddle, a compiled train_on_batch in Keras,
eager in PyTorch. float32 in each framework's default math mode, or with --bfloat16 its automatic mixed precision.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np

IMAGE_SHAPES = {"resnet18": (32, 3, 32, 32), "resnet50": (8, 3, 224, 224), "resnet50-64": (64, 3, 224, 224)}
BATCHES = {"transformer": 4, "transformer-16": 16}
TOKENS, WIDTH, HEADS, LAYERS, VOCABULARY = 128, 768, 12, 12, 30522

Step = Callable[[], float]


def paddle_step(model_name: str, place: str, bfloat16: bool) -> Step:
    import paddle

    paddle.set_device(place)
    paddle.seed(0)
    generator = np.random.default_rng(0)
    if model_name in BATCHES:
        layer = paddle.nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.1, activation="gelu")
        model = paddle.nn.Sequential(
            paddle.nn.Embedding(VOCABULARY, WIDTH),
            paddle.nn.TransformerEncoder(layer, LAYERS),
            paddle.nn.Linear(WIDTH, 2),
        )
        inputs = paddle.to_tensor(generator.integers(0, VOCABULARY, (BATCHES[model_name], TOKENS)))
        labels = paddle.to_tensor(generator.integers(0, 2, (BATCHES[model_name], TOKENS)))
        optimizer = paddle.optimizer.AdamW(1e-4, parameters=model.parameters())
    else:
        model = getattr(paddle.vision.models, model_name.partition("-")[0])(num_classes=10)
        shape = IMAGE_SHAPES[model_name]
        inputs = paddle.to_tensor(generator.standard_normal(shape, dtype=np.float32))
        labels = paddle.to_tensor(generator.integers(0, 10, (shape[0],)))
        optimizer = paddle.optimizer.Momentum(0.01, 0.9, parameters=model.parameters())

    def step() -> float:
        with paddle.amp.auto_cast(bfloat16, dtype="bfloat16"):
            loss = paddle.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return float(loss)

    return step


def tensorflow_step(model_name: str, place: str, bfloat16: bool) -> Step:
    import keras
    import tensorflow as tf

    device = f"/device:{place.upper()}:0"
    if bfloat16:
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
    keras.utils.set_random_seed(0)
    generator = np.random.default_rng(0)
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
        for _ in range(LAYERS):
            attention = layers.MultiHeadAttention(HEADS, WIDTH // HEADS, dropout=0.1)(x, x)
            x = layers.LayerNormalization()(layers.Add()([x, layers.Dropout(0.1)(attention)]))
            hidden = layers.Dense(WIDTH)(layers.Dense(4 * WIDTH, activation="gelu")(x))
            x = layers.LayerNormalization()(layers.Add()([x, layers.Dropout(0.1)(hidden)]))
        return keras.Model(inputs, layers.Dense(2)(x))

    with tf.device(device):
        if model_name in BATCHES:
            model = transformer()
            inputs = generator.integers(0, VOCABULARY, (BATCHES[model_name], TOKENS)).astype(np.int32)
            labels = generator.integers(0, 2, (BATCHES[model_name], TOKENS))
            optimizer: keras.optimizers.Optimizer = keras.optimizers.AdamW(1e-4)
        else:
            batch, channels, height, width = IMAGE_SHAPES[model_name]
            shape = (height, width, channels)
            model = (
                resnet18(shape)
                if model_name == "resnet18"
                else keras.applications.ResNet50(
                    weights=None, input_shape=shape, classes=10, classifier_activation=None
                )
            )
            inputs = generator.standard_normal((batch, *shape), dtype=np.float32)
            labels = generator.integers(0, 10, (batch,))
            optimizer = keras.optimizers.SGD(0.01, 0.9)
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)

    def step() -> float:
        with tf.device(device):
            return float(model.train_on_batch(inputs, labels))

    return step


def torch_step(model_name: str, place: str, bfloat16: bool) -> Step:
    import torch

    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    if model_name in BATCHES:
        layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, activation="gelu", batch_first=True)
        model = torch.nn.Sequential(
            torch.nn.Embedding(VOCABULARY, WIDTH),
            torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False),
            torch.nn.Linear(WIDTH, 2),
        ).to(place)
        inputs = torch.randint(0, VOCABULARY, (BATCHES[model_name], TOKENS), device=place)
        labels = torch.randint(0, 2, (BATCHES[model_name] * TOKENS,), device=place)
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    else:
        import torchvision

        model = getattr(torchvision.models, model_name.partition("-")[0])(num_classes=10).to(place)
        shape = IMAGE_SHAPES[model_name]
        inputs = torch.randn(shape, device=place)
        labels = torch.randint(0, 10, (shape[0],), device=place)
        optimizer = torch.optim.SGD(model.parameters(), 0.01, 0.9)

    def step() -> float:
        optimizer.zero_grad()
        with torch.autocast(place, torch.bfloat16, enabled=bfloat16):
            loss = torch.nn.functional.cross_entropy(model(inputs).flatten(0, -2), labels)
        loss.backward()
        optimizer.step()
        return float(loss)

    return step


STEPS = {"paddle": paddle_step, "tensorflow": tensorflow_step, "torch": torch_step}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=list(STEPS))
    parser.add_argument("model", choices=[*IMAGE_SHAPES, *BATCHES])
    parser.add_argument("place", help="cpu, or a type of device")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--bfloat16", action="store_true", help="automatic mixed precision")
    arguments = parser.parse_args()
    step = STEPS[arguments.framework](arguments.model, arguments.place, arguments.bfloat16)
    losses = [step(), step()]  # warm-up: allocation, graph building, primitives
    times = []
    for _ in range(arguments.steps):
        start = time.perf_counter()
        losses.append(step())
        times.append(time.perf_counter() - start)
    print(json.dumps({"seconds": statistics.median(times), "losses": losses}))


if __name__ == "__main__":
    main()
