"""Small models of families that programs train: language models, vision transformers, diffusion, adversarial and graph
networks. Each is made with a width of a few features, and knows a batch and its loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn


class Family(nn.Layer):
    """A network with a batch of its own."""

    def batch(self, random: np.random.RandomState) -> Sequence[Any]:
        raise NotImplementedError

    def loss(self, *batch: Any) -> Any:
        raise NotImplementedError


# -- language models


class LlamaBlock(nn.Layer):
    """Rotary positions, RMS norms and SwiGLU, with fewer heads of keys than of queries."""

    def __init__(self, width: int = 32, heads: int = 4, key_heads: int = 2) -> None:
        super().__init__()
        self.heads, self.key_heads, self.size = heads, key_heads, width // heads
        self.q = nn.Linear(width, width, bias_attr=False)
        self.k, self.v = (nn.Linear(width, key_heads * self.size, bias_attr=False) for _ in range(2))
        self.o = nn.Linear(width, width, bias_attr=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias_attr=False), nn.Linear(2 * width, width, bias_attr=False)
        self.scales = nn.ParameterList(
            [self.create_parameter([width], default_initializer=nn.initializer.Constant(1.0)) for _ in range(2)]
        )

    def norm(self, x: Any, which: int) -> Any:
        return x * paddle.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.scales[which]

    def rotate(self, x: Any) -> Any:
        places = paddle.arange(x.shape[1], dtype="float32").unsqueeze(-1)
        angles = places * paddle.pow(paddle.to_tensor(1e4), -paddle.arange(0, self.size // 2, dtype="float32"))
        cosine, sine = angles.cos().unsqueeze(1), angles.sin().unsqueeze(1)
        a, b = paddle.chunk(x, 2, axis=-1)
        return paddle.concat([a * cosine - b * sine, a * sine + b * cosine], -1)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        h = self.norm(x, 0)
        q = self.rotate(self.q(h).reshape([batch, length, self.heads, self.size]))
        k = self.rotate(self.k(h).reshape([batch, length, self.key_heads, self.size]))
        v = self.v(h).reshape([batch, length, self.key_heads, self.size])
        k, v = (t.repeat_interleave(self.heads // self.key_heads, axis=2) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.reshape([batch, length, width]))
        return x + self.down(F.swiglu(self.up(self.norm(x, 1))))


class Llama(Family):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(20, 32), nn.Linear(32, 20, bias_attr=False)
        self.blocks = nn.LayerList([LlamaBlock() for _ in range(2)])

    def batch(self, random: np.random.RandomState) -> Sequence[Any]:
        return (random.randint(0, 20, (2, 9)),)

    def loss(self, ids: Any) -> Any:
        x = self.embed(ids[:, :-1])
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x).reshape([-1, 20]), ids[:, 1:].reshape([-1]))


class Gpt(Family):
    """Paddle's own decoder layers with masks; `generate` keeps keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(20, 32), nn.Embedding(16, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, activation="gelu", normalize_before=True)
        self.body, self.norm = nn.TransformerEncoder(layer, 2), nn.LayerNorm(32)

    def batch(self, random: np.random.RandomState) -> Sequence[Any]:
        return (random.randint(0, 20, (2, 9)),)

    def logits(self, x: Any) -> Any:
        return paddle.matmul(self.norm(x), self.tokens.weight, transpose_y=True)

    def loss(self, ids: Any) -> Any:
        length = ids.shape[1] - 1
        mask = paddle.triu(paddle.full([length, length], -1e9), 1)
        x = self.tokens(ids[:, :-1]) + self.places(paddle.arange(length))
        return F.cross_entropy(self.logits(self.body(x, mask)).reshape([-1, 20]), ids[:, 1:].reshape([-1]))

    def generate(self, ids: Any, count: int) -> Any:
        self.eval()
        cache = self.body.gen_cache(paddle.zeros([ids.shape[0], 1, 32]))
        made = ids
        for place in range(ids.shape[1] + count - 1):
            x = self.tokens(made[:, place : place + 1]) + self.places(paddle.full([1], place, "int64"))
            x, cache = self.body(x, None, cache)
            if place >= ids.shape[1] - 1:
                made = paddle.concat([made, self.logits(x)[:, -1].argmax(-1, keepdim=True)], axis=1)
        return made


# -- images


class Vit(Family):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2D(3, 32, 4, stride=4)
        self.token = self.create_parameter([1, 1, 32], default_initializer=nn.initializer.Constant(0.0))
        self.places = self.create_parameter([1, 17, 32])
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, activation="gelu", normalize_before=True)
        self.body, self.norm, self.head = nn.TransformerEncoder(layer, 2), nn.LayerNorm(32), nn.Linear(32, 10)

    def batch(self, random: np.random.RandomState) -> Sequence[Any]:
        return random.rand(2, 3, 16, 16).astype("float32"), random.randint(0, 10, (2,))

    def loss(self, x: Any, y: Any) -> Any:
        x = self.patches(x).flatten(2).transpose([0, 2, 1])
        x = paddle.concat([self.token.expand([x.shape[0], 1, 32]), x], 1) + self.places
        return F.cross_entropy(self.head(self.norm(self.body(x))[:, 0]), y)


class SwinBlock(nn.Layer):
    """Attention in windows of 4 x 4, shifted by half a window or not, with a bias of relative places."""

    def __init__(self, width: int, shift: int) -> None:
        super().__init__()
        self.width, self.shift, self.heads = width, shift, 2
        self.norms = nn.LayerList([nn.LayerNorm(width) for _ in range(2)])
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.bias = self.create_parameter([49, 2])
        places = np.stack(np.meshgrid(range(4), range(4), indexing="ij")).reshape(2, 16)
        apart = places[:, :, None] - places[:, None, :] + 3
        self.register_buffer("apart", paddle.to_tensor((apart[0] * 7 + apart[1]).reshape(-1)))

    def windows(self, x: Any) -> Any:
        b, h, w, c = x.shape
        return x.reshape([b, h // 4, 4, w // 4, 4, c]).transpose([0, 1, 3, 2, 4, 5]).reshape([-1, 16, c])

    def forward(self, x: Any) -> Any:
        b, h, w, c = x.shape
        y = self.norms[0](x)
        if self.shift:
            y = paddle.roll(y, [-self.shift, -self.shift], [1, 2])
        y = self.windows(y)
        qkv = self.qkv(y).reshape([-1, 16, 3, self.heads, c // self.heads]).transpose([2, 0, 3, 1, 4])
        scores = paddle.matmul(qkv[0] * (c // self.heads) ** -0.5, qkv[1], transpose_y=True)
        bias = paddle.index_select(self.bias, self.apart).reshape([16, 16, self.heads]).transpose([2, 0, 1])
        y = paddle.matmul(F.softmax(scores + bias), qkv[2]).transpose([0, 2, 1, 3]).reshape([-1, 16, c])
        y = self.o(y).reshape([b, h // 4, w // 4, 4, 4, c]).transpose([0, 1, 3, 2, 4, 5]).reshape([b, h, w, c])
        if self.shift:
            y = paddle.roll(y, [self.shift, self.shift], [1, 2])
        x = x + y
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Swin(Family):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.merge = nn.Conv2D(3, 16, 2, stride=2), nn.Linear(64, 32, bias_attr=False)
        self.first = nn.LayerList([SwinBlock(16, 0), SwinBlock(16, 2)])
        self.second = nn.LayerList([SwinBlock(32, 0), SwinBlock(32, 2)])
        self.head = nn.Linear(32, 10)

    def batch(self, random: np.random.RandomState) -> Sequence[Any]:
        return random.rand(2, 3, 16, 16).astype("float32"), random.randint(0, 10, (2,))

    def loss(self, x: Any, y: Any) -> Any:
        x = self.patches(x).transpose([0, 2, 3, 1])
        for block in self.first:
            x = block(x)
        x = paddle.concat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        x = self.merge(x)
        for block in self.second:
            x = block(x)
        return F.cross_entropy(self.head(x.mean([1, 2])), y)


class Diffusion(Family):
    """A UNet that predicts the noise of a step; `sample` takes some steps back."""

    def __init__(self, steps: int = 8) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(8, 16), nn.Silu(), nn.Linear(16, 16))
        self.first, self.down = nn.Conv2D(1, 8, 3, padding=1), nn.Conv2D(8, 16, 3, stride=2, padding=1)
        self.norm, self.middle = nn.GroupNorm(4, 16), nn.Conv2D(16, 16, 3, padding=1)
        self.up, self.last = nn.Conv2D(16, 8, 3, padding=1), nn.Conv2D(16, 1, 3, padding=1)
        self.register_buffer("kept", paddle.cumprod(1 - paddle.linspace(0.01, 0.2, steps), 0))

    def batch(self, random: np.random.RandomState) -> Sequence[Any]:
        images = random.standard_normal((2, 2, 1, 8, 8)).astype("float32")
        return images[0], images[1], random.randint(0, 8, (2,))

    def noise(self, x: Any, step: Any) -> Any:
        rates = paddle.exp(-paddle.arange(4, dtype="float32"))
        angles = step.astype("float32").unsqueeze(-1) * rates
        time = self.time(paddle.concat([angles.sin(), angles.cos()], -1))
        a = F.silu(self.first(x))
        b = self.down(a) + time.unsqueeze(-1).unsqueeze(-1)
        b = self.middle(F.silu(self.norm(b)))
        b = self.up(F.interpolate(b, scale_factor=2, mode="nearest"))
        return self.last(paddle.concat([a, b], 1))

    def loss(self, x: Any, noise: Any, step: Any) -> Any:
        kept = paddle.gather(self.kept, step).reshape([-1, 1, 1, 1])
        return F.mse_loss(self.noise(kept.sqrt() * x + (1 - kept).sqrt() * noise, step), noise)

    def sample(self, x: Any) -> Any:
        for step in range(7, 0, -1):
            kept, before = self.kept[step], self.kept[step - 1]
            noise = self.noise(x, paddle.full([x.shape[0]], step, "int64"))
            start = ((x - (1 - kept).sqrt() * noise) / kept.sqrt()).clip(-2, 2)
            x = before.sqrt() * start + (1 - before).sqrt() * noise
        return x


class Dcgan(Family):
    """The generator's and the discriminator's losses in one."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(
            nn.Conv2DTranspose(6, 16, 4, bias_attr=False),
            nn.BatchNorm2D(16),
            nn.ReLU(),
            nn.Conv2DTranspose(16, 1, 4, stride=2, padding=1, bias_attr=False),
            nn.Tanh(),
        )
        self.discriminator = nn.Sequential(
            nn.Conv2D(1, 8, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2D(8, 16, 3, padding=1, bias_attr=False),
            nn.BatchNorm2D(16),
            nn.LeakyReLU(0.2),
            nn.Conv2D(16, 1, 4),
            nn.Flatten(),
        )

    def batch(self, random: np.random.RandomState) -> Sequence[Any]:
        return random.standard_normal((4, 6, 1, 1)).astype("float32"), random.rand(4, 1, 8, 8).astype("float32")

    def loss(self, noise: Any, real: Any) -> Any:
        made = self.generator(noise)
        one, zero = paddle.ones([4, 1]), paddle.zeros([4, 1])
        verdicts = self.discriminator(made.detach()), self.discriminator(real), self.discriminator(made)
        wanted = zero, one, one
        return sum(F.binary_cross_entropy_with_logits(v, w) for v, w in zip(verdicts, wanted))


class Detector(Family):
    """Of two stages: a head that proposes boxes around anchors, regions of the features at the best of them, and what
    is in each; `detect` keeps the boxes of each image that do not overlap better ones."""

    PROPOSALS, CLASSES, SIDE = 6, 4, 32

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2D(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2D(8, 16, 3, stride=2, padding=1), nn.ReLU()
        )
        self.proposed = nn.Conv2D(16, 5, 1)
        self.hidden, self.classes = nn.Linear(16 * 9, 32), nn.Linear(32, self.CLASSES)
        self.boxes = nn.Linear(32, 4)
        centers = np.stack(np.meshgrid(np.arange(8), np.arange(8)), -1).reshape(64, 2) * 4.0 + 2
        corners = paddle.to_tensor(np.concatenate([centers - 6, centers + 6], 1).astype("float32"))
        self.register_buffer("anchors", corners, persistable=False)

    def batch(self, random: np.random.RandomState) -> Sequence[Any]:
        images = random.rand(2, 3, self.SIDE, self.SIDE).astype("float32")
        objects = (random.rand(2, 64) > 0.8).astype("float32")
        count = 2 * self.PROPOSALS
        return images, objects, random.randint(0, self.CLASSES, (count,)), random.rand(count, 4).astype("float32")

    def propose(self, features: Any) -> tuple[Any, Any]:
        """Scores of all anchors, and the best boxes of each image."""
        out = self.proposed(features).flatten(2).transpose([0, 2, 1])
        scores, moves = out[..., 0], out[..., 1:]
        boxes = (self.anchors + 4 * paddle.tanh(moves)).clip(0, self.SIDE).detach()
        _, best = paddle.topk(scores.detach(), self.PROPOSALS)
        return scores, paddle.take_along_axis(boxes, best.unsqueeze(-1).expand([-1, -1, 4]), 1)

    def regions(self, images: Any) -> tuple[Any, Any, Any]:
        features = self.features(images)
        scores, boxes = self.propose(features)
        flat = boxes.reshape([-1, 4])
        counts = paddle.full([images.shape[0]], self.PROPOSALS, "int32")
        regions = paddle.vision.ops.roi_align(features, flat, counts, 3, 0.25)
        return scores, flat, F.relu(self.hidden(regions.flatten(1)))

    def loss(self, images: Any, objects: Any, labels: Any, targets: Any) -> Any:
        scores, _, hidden = self.regions(images)
        proposed = F.binary_cross_entropy_with_logits(scores, objects)
        return proposed + F.cross_entropy(self.classes(hidden), labels) + F.smooth_l1_loss(self.boxes(hidden), targets)

    def detect(self, images: Any) -> list[Any]:
        self.eval()
        _, boxes, hidden = self.regions(images)
        boxes = (boxes + self.boxes(hidden)).reshape([-1, self.PROPOSALS, 4])
        found = F.softmax(self.classes(hidden)).reshape([-1, self.PROPOSALS, self.CLASSES])
        kept = []
        for one, scores in zip(boxes, found):
            best = paddle.vision.ops.nms(one, 0.3, scores.max(-1), scores.argmax(-1), list(range(self.CLASSES)))
            kept += [one[best], scores[best]]
        return [*kept, *paddle.vision.ops.matrix_nms(boxes, found.transpose([0, 2, 1]), 0.1, 0.05, 10, 5)[:1]]


# -- graphs


class GraphNetwork(Family):
    """Messages of nodes, and of nodes with edges, combined in several ways, then pooled by graph."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(6, 16), nn.Linear(16, 16), nn.Linear(48, 3)
        self.edges = nn.Linear(4, 16)

    def batch(self, random: np.random.RandomState) -> Sequence[Any]:
        nodes, links = random.standard_normal((10, 6)), random.standard_normal((24, 4))
        ends = random.randint(0, 10, (2, 24))
        return nodes.astype("float32"), links.astype("float32"), ends[0], ends[1], random.randint(0, 3, (2,))

    def loss(self, nodes: Any, links: Any, sources: Any, targets: Any, labels: Any) -> Any:
        x = F.relu(self.first(nodes))
        x = x + paddle.geometric.send_u_recv(x, sources, targets, "mean")
        e = F.sigmoid(self.edges(links)) + paddle.geometric.send_uv(x, x, sources, targets, "mul")
        x = F.relu(self.second(paddle.geometric.send_ue_recv(x, e, sources, targets, "mul", "sum"))) + x
        graphs = paddle.to_tensor([0] * 5 + [1] * 5)
        pools = paddle.geometric.segment_mean, paddle.geometric.segment_max, paddle.geometric.segment_sum
        return F.cross_entropy(self.head(paddle.concat([pool(x, graphs) for pool in pools], -1)), labels)


FAMILIES: dict[str, type[Family]] = {
    "llama": Llama,
    "gpt": Gpt,
    "vit": Vit,
    "swin": Swin,
    "diffusion": Diffusion,
    "dcgan": Dcgan,
    "detector": Detector,
    "graph": GraphNetwork,
}
