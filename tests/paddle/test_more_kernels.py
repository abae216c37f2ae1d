"""Gradients of factorizations, messages in graphs, products, losses and places: against Paddle's CPU, in eager mode and
in graphs, in float32 and float64, with fallbacks forbidden."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import DEVICE, Array, check, check_in_graph, on, random

pytestmark = pytest.mark.unihal_no_fallback

L = paddle.linalg
ops = paddle._C_ops
G = paddle.geometric

#: Sums of some dozens of products, divided by pivots and differences of well-conditioned matrices.
TOLERANCE = {"float32": 2e-4, "float64": 1e-8}


def definite(*shape: int) -> Array:
    """Symmetric matrices whose eigenvalues are well apart."""
    x = np.linalg.qr(random(*shape, shape[-1], seed=3).astype("float64"))[0]
    return ((x * np.arange(1, shape[-1] + 1)) @ np.swapaxes(x, -1, -2)).astype("float32")


def numbers(*shape: int, high: int, seed: int = 0) -> Array:
    return np.random.RandomState(seed).randint(0, high, shape).astype("int64")


EDGES = numbers(9, high=5, seed=1), numbers(9, high=5, seed=2)
NODES, ROWS = random(5, 3), random(9, 3, seed=4)
WIDE, TALL, SQUARE = random(3, 5), random(5, 3), random(2, 4, 4)
IMAGE = random(2, 3, 4, 6)


def of_svd(x: Any) -> Any:
    """What does not depend on the signs of singular vectors."""
    u, s, vh = L.svd(x)
    return s, (u * u) @ s.unsqueeze(-1), (u * s.unsqueeze(-2) ** 2) @ vh, vh.mT**2


def of_qr(x: Any) -> Any:
    q, r = L.qr(x)
    return q @ r, q * q, r * r


def of_eigh(x: Any) -> Any:
    w, v = L.eigh(x)
    return w, v * v, (v * w.unsqueeze(-2) ** 2) @ v.mT


def unpooled(x: Any) -> Any:
    y, places = F.max_pool2d(x, 2, return_mask=True)
    return F.max_unpool2d(y * y, places, 2)


def unpooled3d(x: Any) -> Any:
    y, places = F.max_pool3d(x, 2, return_mask=True)
    return F.max_unpool3d(y * y, places, 2)


#: Name, function, inputs. Each is run forward and backward wherever Paddle has a gradient.
CASES: list[tuple[str, Callable[..., Any], tuple[Array, ...]]] = [
    ("solve", L.solve, (definite(2, 4), random(2, 4, 3))),
    ("solve of a vector", L.solve, (definite(4), random(4))),
    ("cholesky_solve", L.cholesky_solve, (random(4, 2), np.tril(definite(4)) + 3 * np.eye(4, dtype="f"))),
    (
        "cholesky_solve upper",
        lambda b, y: L.cholesky_solve(b, y, upper=True),
        (random(4, 2), np.triu(definite(4)) + 3 * np.eye(4, dtype="f")),
    ),
    ("det", L.det, (definite(2, 3),)),
    ("det of one", L.det, (SQUARE[0],)),
    *((f"matrix_power {n}", lambda x, n=n: L.matrix_power(x / 2, n), (definite(2, 3),)) for n in (-2, -1, 0, 1, 2, 5)),
    *((f"svd {x.shape}", of_svd, (x,)) for x in (TALL, WIDE, SQUARE)),
    *((f"svdvals {x.shape}", L.svdvals, (x,)) for x in (TALL, WIDE, SQUARE)),
    *((f"qr {x.shape}", of_qr, (x,)) for x in (TALL, WIDE, SQUARE)),
    ("lu", lambda x: L.lu(x)[0], (SQUARE,)),
    ("cross", paddle.cross, (random(4, 3), random(4, 3, seed=1))),
    ("cross axis", lambda x, y: paddle.cross(x, y, axis=0), (random(3, 4), random(3, 4, seed=1))),
    ("kron", paddle.kron, (random(2, 3), random(4, 2, seed=1))),
    ("kron of other ranks", paddle.kron, (random(3), random(2, 2, seed=1))),
    ("bilinear", F.bilinear, (random(4, 3), random(4, 2, seed=1), random(5, 3, 2, seed=2), random(1, 5, seed=3))),
    ("bilinear without", F.bilinear, (random(4, 3), random(4, 2, seed=1), random(5, 3, 2, seed=2))),
    (
        "multiplex",
        lambda x, y, ids: paddle.multiplex([x, y], ids),
        (random(4, 3), random(4, 3, seed=1), np.array([[1], [0], [0], [1]], "int32")),
    ),
    *(
        (f"send_ue_recv {m} {r}", lambda x, y, s, d, m=m, r=r: G.send_ue_recv(x, y, s, d, m, r), (NODES, rows, *EDGES))
        for m in ("add", "sub", "mul", "div")
        for r in ("sum", "mean", "max", "min")
        for rows in (ROWS + 3, ROWS[:, :1] + 3)
    ),
    ("send_ue_recv with a size", lambda x, y, s, d: G.send_ue_recv(x, y, s, d, out_size=7), (NODES, ROWS, *EDGES)),
    *(
        (f"send_uv {m}", lambda x, y, s, d, m=m: G.send_uv(x, y, s, d, m), (NODES, other, *EDGES))
        for m in ("add", "sub", "mul", "div")
        for other in (random(5, 3, seed=1) + 3, random(5, 1, seed=1) + 3)
    ),
    (
        "log_loss",
        lambda x, n: F.log_loss(x, n.astype("float32")),
        (random(6, 1, low=0.1, high=0.9), numbers(6, 1, high=2)),
    ),
    ("logit", lambda x: paddle.logit(x, 0.2), (random(3, 5, low=0.05, high=0.95),)),
    ("logit without", paddle.logit, (random(3, 5, low=0.05, high=0.95),)),
    *((f"identity_loss {r}", lambda x, r=r: paddle.incubate.identity_loss(x, r), (WIDE,)) for r in (0, 1, 2)),
    *((f"renorm {p}", lambda x, p=p: paddle.renorm(x, p, 1, 1.5), (random(3, 4, 2),)) for p in (1.0, 2.0, 3.0)),
    ("max_unpool2d", unpooled, (IMAGE,)),
    ("max_unpool3d", unpooled3d, (random(1, 2, 4, 2, 4),)),
    ("repeat_interleave", lambda x, n: paddle.repeat_interleave(x, n, 1), (WIDE, np.array([2, 0, 1, 3, 1]))),
    ("sequence_mask", lambda x: F.sequence_mask(x, 4, "float32"), (numbers(2, 3, high=5),)),
    ("shard_index", lambda x: paddle.shard_index(x, 20, 3, 1), (numbers(6, 1, high=20),)),
    (
        "conv3d_transpose",
        lambda x, w: F.conv3d_transpose(x, w, stride=2, padding=1),
        (random(1, 2, 3, 4, 3), random(2, 3, 2, 3, 2, seed=1)),
    ),
    (
        "depthwise_conv2d_transpose",
        lambda x, w: F.conv2d_transpose(x, w, stride=2, groups=3),
        (IMAGE, random(3, 1, 3, 2, seed=1)),
    ),
]  # fmt: skip

#: Whose place in the table shows what it is, not what it calls: eager calls of kernels that no Python function has.
EAGER_ONLY: list[tuple[str, Callable[..., Any], tuple[Array, ...]]] = [
    ("hinge_loss", lambda x, n: ops.hinge_loss(x, n.astype("float32")), (random(6, 1), numbers(6, 1, high=2))),
    ("clip_by_norm", lambda x: ops.clip_by_norm(x, 1.5), (WIDE,)),
    ("clip_by_norm of a short one", lambda x: ops.clip_by_norm(x, 99.0), (WIDE,)),
    ("norm", lambda x: ops.norm(x, 1, 1e-6, False)[0], (random(3, 4, 2),)),
    ("reverse", lambda x: ops.reverse(x, [0, -1]), (random(3, 4, 2),)),
    ("tril_indices", lambda: paddle.tril_indices(4, 5, 1), ()),
    ("triu_indices", lambda: paddle.triu_indices(4, 3, -1), ()),
    ("sequence_mask of the longest", lambda x: F.sequence_mask(x), (numbers(2, 3, high=5),)),
]


FLOAT32_ONLY = ("shard_index", "tril_indices", "triu_indices", "log_loss", "hinge_loss", "clip_by_norm")


def has_gradient(name: str) -> bool:
    return not name.startswith(("sequence", "shard", "tril", "triu", "clip_by_norm", "matrix_power 0"))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("case", CASES + EAGER_ONLY, ids=lambda case: case[0])
def test_as_on_the_cpu(case: tuple[str, Callable[..., Any], tuple[Array, ...]], dtype: str) -> None:
    name, function, inputs = case
    if dtype == "float64" and name.startswith(FLOAT32_ONLY):
        pytest.skip("Paddle's CPU has it in float32 only, or it has no floating input")
    check(function, *inputs, dtype=dtype, gradient=has_gradient(name), tolerance=TOLERANCE[dtype])


@pytest.mark.whole
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_in_graphs(case: tuple[str, Callable[..., Any], tuple[Array, ...]]) -> None:
    name, function, inputs = case
    check_in_graph(function, *inputs, gradient=has_gradient(name), tolerance=TOLERANCE["float32"])


# Not as on the CPU, whose gradients of both are not the derivatives: that of eigvalsh is not even symmetric.
@pytest.mark.parametrize("function", [of_eigh, lambda x: (L.eigvalsh(x),)], ids=["eigh", "eigvalsh"])
def test_gradients_of_symmetric_eigenvalues_are_derivatives(function: Callable[..., Any]) -> None:
    x, weights = definite(2, 4).astype("float64"), [random(2, 4, 4, seed=seed).astype("float64") for seed in range(3)]
    along = random(2, 4, 4, seed=9).astype("float64")
    along += np.swapaxes(along, -1, -2)

    def value(matrices: Any) -> Any:
        parts = function(matrices)
        return sum(
            (part * paddle.to_tensor(w[..., 0] if part.ndim == 2 else w)).sum() for part, w in zip(parts, weights)
        )

    with on(DEVICE):
        tensor = paddle.to_tensor(x, stop_gradient=False)
        value(tensor).backward()
        step = 1e-5
        slope = (value(paddle.to_tensor(x + step * along)) - value(paddle.to_tensor(x - step * along))) / (2 * step)
        np.testing.assert_allclose((tensor.grad.numpy() * along).sum(), slope.numpy(), rtol=1e-7)


@pytest.mark.parametrize("function", [paddle.cross, paddle.kron])
def test_complex_products(function: Callable[..., Any]) -> None:
    x, y = ((random(4, 3, seed=s) + 1j * random(4, 3, seed=s + 1)).astype("complex64") for s in (1, 3))
    results = []
    for device in ("cpu", DEVICE):
        with on(device):
            tensors = [paddle.to_tensor(array, stop_gradient=False) for array in (x, y)]
            z = function(*tensors)
            paddle.real(z * z).sum().backward()
            results.append([z.numpy(), *(tensor.grad.numpy() for tensor in tensors)])
    for ours, theirs in zip(results[1], results[0], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_errors() -> None:
    with on(DEVICE):
        x = paddle.ones([4, 2])
        with pytest.raises(ValueError):
            paddle.cross(x, x)
        with pytest.raises(ValueError):
            paddle.repeat_interleave(x, paddle.to_tensor([1, 2]), 0)
        with pytest.raises(Exception, match="index|range"):
            paddle.multiplex([x, x], paddle.to_tensor([[0], [1], [2], [0]], "int32")).numpy()


@pytest.mark.parametrize("kind", ["layer", "group", "batch"])
def test_norms_of_an_input_without_a_gradient(kind: str) -> None:
    """Only the parameters have one, as in a model's first layer. Of instance norms Paddle itself refuses that."""
    x = random(2, 4, 3, 3)
    norms: dict[str, Callable[[Any, Any], Any]] = {
        "layer": lambda w, b: F.layer_norm(paddle.to_tensor(x).transpose([0, 2, 3, 1]), 4, w, b),
        "group": lambda w, b: F.group_norm(paddle.to_tensor(x), 2, 1e-5, w, b),
        "batch": lambda w, b: F.batch_norm(
            paddle.to_tensor(x), paddle.zeros([4]), paddle.ones([4]), w, b, training=True
        ),
    }
    check(norms[kind], random(4, low=0.5, high=2), random(4, seed=2))


BATCHES = [
    ((3, 1, 2, 3), (2, 3, 4)),
    ((2, 2, 3), (3, 1, 3, 4)),
    ((2, 1, 3, 2, 3), (4, 1, 3, 5)),
    ((0, 1, 2, 3), (2, 3, 4)),
    ((3, 1, 2, 3), (3, 4)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("left", "right"), BATCHES)
def test_products_whose_batches_both_broadcast(left: tuple[int, ...], right: tuple[int, ...], dtype: str) -> None:
    # Paddle's CPU has no gradient where both do.
    check(paddle.matmul, random(*left), random(*right, seed=1), dtype=dtype, gradient=False)


def test_any_part_makes_a_complex_number_true() -> None:
    numbers = np.array([1j, 0, 1, -0.0, 1 + 1j, complex("nan"), complex(0, float("nan"))])
    for dtype in ("complex64", "complex128"):
        with on(DEVICE):
            ours = paddle.to_tensor(numbers.astype(dtype)).cast("bool").numpy()
        np.testing.assert_array_equal(ours, numbers != 0)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 0.6, 0.9])
def test_logit_of_any_epsilon(epsilon: float) -> None:
    check(lambda x: paddle.logit(x, epsilon), np.linspace(-0.5, 2.5, 13), gradient=False)


def test_the_angle_of_a_negative_zero() -> None:
    check(paddle.angle, np.array([-0.0, 0.0, -1.0, 2.0, float("nan")]), gradient=False)


@pytest.mark.parametrize("include_self", [True, False])
def test_means_of_integers_by_place_round_down(include_self: bool) -> None:
    places = np.array([0, 0, 1, 2, 2])
    check(
        lambda x, v: paddle.put_along_axis(x, paddle.to_tensor(places), v, 0, "mean", include_self=include_self),
        np.zeros(4),
        np.array([-1, -2, 5, 3, 4]),
        dtype="int64",
        gradient=False,
        tolerance=0,
    )


@pytest.mark.parametrize("weighted", [True, False])
def test_counts_of_nothing(weighted: bool) -> None:
    results = []
    for place in ("cpu", DEVICE):
        with on(place):
            weights = paddle.zeros([0], "float32") if weighted else None
            results.append(paddle.bincount(paddle.zeros([0], "int32"), weights=weights))
    assert results[0].dtype == results[1].dtype
    assert results[0].shape == results[1].shape
