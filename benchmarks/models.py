"""Seconds of a training step of models of many families, the stub beside Paddle's CPU in the same run.

    python benchmarks/models.py [--only SUBSTRING] [--rounds N] [--json FILE]

The models are those of tests/paddle/families.py (LLaMA, GPT, ViT, Swin, a UNet of diffusion, DCGAN, a graph network),
one of each family of paddle.vision.models, recurrent networks, a Transformer of encoder and decoder, BERT, a detector
with regions and suppression, and speech recognition with CTC: small inputs, float32, dygraph, Momentum SGD. Both places
train in one process on the same cores, in turn, so that what else the machine does meets both alike; the time is the
lower quartile of the rounds. A ratio below 1 says that the stub is faster; none is to be above 1.

Without UNIHAL_BACKEND the stub serves; with it, another backend's device takes the stub's place."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("UNIHAL_BACKEND", "stub")
os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))
os.environ.setdefault("GLOG_minloglevel", "2")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "paddle"))

import numpy as np
import paddle
import paddle.nn.functional as F
from families import FAMILIES
from measure import progress
from paddle import nn
from rich.console import Console
from rich.table import Table

DEVICE = {"opencl": "polaris", "hip": "rdna"}.get(os.environ["UNIHAL_BACKEND"], "iluvatar")
#: One of each family of paddle.vision.models, and the side of its images.
VISION = {
    "LeNet": 28, "alexnet": 224, "vgg11": 64, "resnet18": 64, "resnet50": 64, "resnext50_32x4d": 64,
    "wide_resnet50_2": 64, "mobilenet_v1": 64, "mobilenet_v2": 64, "mobilenet_v3_small": 64, "densenet121": 64,
    "squeezenet1_0": 64, "shufflenet_v2_x1_0": 64, "googlenet": 224, "inception_v3": 128,
}  # fmt: skip
IMAGES, STEPS, BATCH, WIDTH = 4, 32, 8, 128

Step = Callable[[], Any]


def trainer(network: Any, loss: Callable[[], Any]) -> Step:
    """One step of training; what it returns waits for the device."""
    optimizer = paddle.optimizer.Momentum(1e-3, 0.9, parameters=network.parameters())

    def step() -> float:
        value = loss()
        value.backward()
        optimizer.step()
        optimizer.clear_grad()
        return float(value)

    return step


def family(kind: str) -> Step:
    network = FAMILIES[kind]()
    batch = [paddle.to_tensor(part) for part in network.batch(np.random.RandomState(0))]
    return trainer(network, lambda: network.loss(*batch))


def vision(kind: str) -> Step:
    network = getattr(paddle.vision.models, kind)(num_classes=10)
    side = VISION[kind]
    images = np.random.RandomState(0).rand(IMAGES, 1 if kind == "LeNet" else 3, side, side).astype("float32")
    x, labels = paddle.to_tensor(images), paddle.to_tensor(np.arange(IMAGES) % 10)

    def loss() -> Any:
        y = network(x)
        parts = y if isinstance(y, (list, tuple)) else [y]
        return sum(F.cross_entropy(part, labels) for part in parts)

    return trainer(network, loss)


def recurrent(kind: str) -> Step:
    layer = {"LSTM": nn.LSTM, "GRU": nn.GRU, "bidirectional LSTM": nn.LSTM}[kind]
    network = layer(WIDTH, WIDTH, num_layers=2, direction="bidirect" if kind.startswith("bi") else "forward")
    x = paddle.to_tensor(np.random.RandomState(0).rand(BATCH, STEPS, WIDTH).astype("float32"))
    return trainer(network, lambda: network(x)[0].square().mean())


def transformer() -> Step:
    network = nn.Transformer(WIDTH, 4, 2, 2, 4 * WIDTH, dropout=0.0)
    source, target = (
        paddle.to_tensor(np.random.RandomState(seed).rand(BATCH, STEPS, WIDTH).astype("float32")) for seed in (0, 1)
    )
    return trainer(network, lambda: network(source, target).square().mean())


class Speech(nn.Layer):
    """Convolutions over time, a GRU, and classes for CTC."""

    def __init__(self) -> None:
        super().__init__()
        self.front, self.over_time = nn.Conv1D(40, WIDTH, 3, stride=2, padding=1), nn.GRU(WIDTH, WIDTH)
        self.classes = nn.Linear(WIDTH, 29)

    def forward(self, sound: Any) -> Any:
        x = F.relu(self.front(sound)).transpose([0, 2, 1])
        return self.classes(self.over_time(x)[0]).transpose([1, 0, 2])


def speech() -> Step:
    network, draw = Speech(), np.random.RandomState(0)
    sound = paddle.to_tensor(draw.rand(BATCH, 40, 2 * STEPS).astype("float32"))
    labels = paddle.to_tensor(draw.randint(1, 29, (BATCH, 10)).astype("int32"))
    lengths = paddle.to_tensor(np.full(BATCH, STEPS)), paddle.to_tensor(np.full(BATCH, 10))
    return trainer(network, lambda: F.ctc_loss(network(sound), labels, *lengths))


class Detector(nn.Layer):
    """A backbone, boxes of regions that overlap least, and what lies in them."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2D(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2D(32, 64, 3, 2, 1), nn.ReLU())
        self.head, self.box = nn.Linear(64 * 49, 10), nn.Linear(64 * 49, 4)
        self.count = paddle.to_tensor([16] * IMAGES, "int32")

    def forward(self, images: Any, boxes: Any, scores: Any) -> Any:
        kept = paddle.vision.ops.nms(boxes, 0.5, scores, top_k=16 * IMAGES)
        regions = paddle.vision.ops.roi_align(self.backbone(images), boxes[kept], self.count, 7, 0.25).flatten(1)
        return self.head(regions), self.box(regions)


def detector() -> Step:
    network = Detector()
    random = np.random.RandomState(2)
    corners = random.randint(0, 8, (8, 8, 2)) + 14 * np.stack(np.meshgrid(range(8), range(8)), -1)  # apart: all stay
    boxes = paddle.to_tensor(np.concatenate([corners, corners + 6], -1).reshape(-1, 4).astype("float32"))
    images, scores = paddle.randn([IMAGES, 3, 128, 128]), paddle.rand([64])
    labels = paddle.randint(0, 10, [16 * IMAGES])

    def loss() -> Any:
        classes, offsets = network(images, boxes, scores)
        return F.cross_entropy(classes, labels) + F.smooth_l1_loss(offsets, boxes / 128)

    return trainer(network, loss)


class Bert(nn.Layer):
    """Words, places and segments, an encoder, and a guess of each word."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.segments = (nn.Embedding(n, WIDTH) for n in (1000, STEPS, 2))
        self.norm = nn.LayerNorm(WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, activation="gelu", dropout=0.0)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(WIDTH, 1000)

    def forward(self, words: Any, places: Any, segments: Any) -> Any:
        return self.head(self.encoder(self.norm(self.words(words) + self.places(places) + self.segments(segments))))


def bert() -> Step:
    network = Bert()
    words, segments = paddle.randint(0, 1000, [BATCH, STEPS]), paddle.randint(0, 2, [BATCH, STEPS])
    places = paddle.arange(STEPS)
    return trainer(network, lambda: F.cross_entropy(network(words, places, segments), words))


MODELS: dict[str, Callable[[], Step]] = {
    **{kind: lambda kind=kind: family(kind) for kind in FAMILIES},
    **{kind: lambda kind=kind: vision(kind) for kind in VISION},
    **{kind: lambda kind=kind: recurrent(kind) for kind in ("LSTM", "GRU", "bidirectional LSTM")},
    "transformer": transformer,
    "bert": bert,
    "detector": detector,
    "speech with CTC": speech,
}


def on_place(place: str, make: Callable[[], Any]) -> Any:
    paddle.set_device(place)
    return make()


def seconds(name: str, rounds: int) -> dict[str, float]:
    """The lower quartile of a step's seconds on each place."""
    places = {"device": DEVICE, "cpu": "cpu"}
    steps = {}
    for key, place in places.items():
        paddle.seed(0)
        steps[key] = on_place(place, MODELS[name])
    times: dict[str, list[float]] = {key: [] for key in places}
    for number in range(rounds + 2):
        for key, place in places.items():
            paddle.set_device(place)
            start = time.perf_counter()
            steps[key]()
            if number >= 2:  # the first set up the optimizer and compile
                times[key].append(time.perf_counter() - start)
    return {key: statistics.quantiles(values, n=4)[0] for key, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models whose name has this")
    parser.add_argument("--rounds", type=int, default=12, help="steps that are measured on each place")
    parser.add_argument("--json", type=Path, help="a file for the rows")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in MODELS:
        if arguments.only not in name:
            continue
        progress(name)
        found = seconds(name, arguments.rounds)
        rows.append({"benchmark": f"paddle: {name}, training step", **found, "ratio": found["device"] / found["cpu"]})
    table = Table("model", f"{os.environ['UNIHAL_BACKEND']}, ms", "Paddle's CPU, ms", "ratio", title="Training steps")
    for row in rows:
        table.add_row(row["benchmark"], f"{1e3 * row['device']:.2f}", f"{1e3 * row['cpu']:.2f}", f"{row['ratio']:.2f}")
    Console().print(table)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
