"""Graphs of Paddle's (paddle.device.cuda.graphs.CUDAGraph): a training step captured once and replayed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import paddle
import pytest
from paddle.device.cuda.graphs import CUDAGraph

if tuple(map(int, paddle.__version__.split(".")[:2])) < (3, 3):
    pytest.skip("Paddle captures nothing on custom devices before 3.3", allow_module_level=True)

pytestmark = pytest.mark.unihal_no_fallback

SHAPE = (5, 8)


@pytest.fixture
def place() -> paddle.CustomPlace:
    paddle.set_device("iluvatar")
    paddle.seed(0)
    return paddle.CustomPlace("iluvatar", 0)


def network() -> paddle.nn.Layer:
    return paddle.nn.Sequential(
        paddle.nn.Linear(8, 16), paddle.nn.GELU(), paddle.nn.LayerNorm(16), paddle.nn.Linear(16, 4)
    )


def batch(seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.standard_normal(SHAPE, np.float32), generator.integers(0, 4, SHAPE[0])


def captured(place: paddle.CustomPlace, work: Callable[[], paddle.Tensor]) -> tuple[CUDAGraph, paddle.Tensor]:
    graph = CUDAGraph(place)
    graph.capture_begin()
    result = work()
    graph.capture_end()
    return graph, result


def gradients(model: paddle.nn.Layer) -> list[np.ndarray]:
    return [parameter.grad.numpy() for parameter in model.parameters()]


def test_replays_train_as_eager_steps_do(place: paddle.CustomPlace) -> None:
    eager, replayed = network(), network()
    replayed.set_state_dict(eager.state_dict())
    x, labels = map(paddle.to_tensor, batch(0))

    def forward_and_backward(model: paddle.nn.Layer) -> paddle.Tensor:
        loss = paddle.nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        return loss

    optimizers = [paddle.optimizer.AdamW(0.01, parameters=model.parameters()) for model in (eager, replayed)]
    forward_and_backward(replayed)
    optimizers[1].clear_grad(set_to_zero=False)
    graph, loss = captured(place, lambda: forward_and_backward(replayed))
    for step in range(4):
        new_x, new_labels = batch(step)
        x.set_value(new_x)
        labels.set_value(new_labels)
        expected = forward_and_backward(eager)
        # What lies in memory that the graph does not own must not be touched by a replay, nor the other way round.
        others = [paddle.full([64, 64], float(i)) for i in range(8)]
        graph.replay()
        assert all(bool((other == float(i)).all()) for i, other in enumerate(others))
        np.testing.assert_array_equal(loss.numpy(), expected.numpy())
        for found, wanted in zip(gradients(replayed), gradients(eager)):
            np.testing.assert_array_equal(found, wanted)
        for optimizer in optimizers:
            optimizer.step()
        optimizers[0].clear_grad(set_to_zero=False)
    for found, wanted in zip(replayed.parameters(), eager.parameters()):
        np.testing.assert_array_equal(found.numpy(), wanted.numpy())


def test_inference_and_reset(place: paddle.CustomPlace) -> None:
    model = network()
    x = paddle.to_tensor(batch(0)[0])
    with paddle.no_grad():
        model(x)
        graph, y = captured(place, lambda: model(x))
        x.set_value(batch(1)[0])
        graph.replay()
        np.testing.assert_array_equal(y.numpy(), model(x).numpy())
    graph.reset()


def test_each_replay_draws_other_numbers(place: paddle.CustomPlace) -> None:
    x = paddle.ones([64, 64])
    graph, (dropped, noise, seeded) = captured(
        place,
        lambda: (
            paddle.nn.functional.dropout(x, 0.25),
            paddle.standard_normal([64]),
            paddle.uniform([64], min=0.0, max=1.0, seed=7),
        ),
    )
    seen = []
    for _ in range(3):
        graph.replay()
        seen.append([tensor.numpy() for tensor in (dropped, noise, seeded)])
        assert set(np.unique(seen[-1][0])) == {np.float32(0), np.float32(1 / 0.75)}
        assert 0.2 < np.mean(seen[-1][0] == 0) < 0.3
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert (seen[one][0] != seen[other][0]).mean() > 0.2
        assert (seen[one][1] != seen[other][1]).all()
        np.testing.assert_array_equal(seen[one][2], seen[other][2])
    graph.reset()


#: What replays would get wrong, and a word of the reason.
REFUSALS = {
    "optimizer.step()": "in host memory",
    "float(x.sum())": "captur",
    "paddle.to_tensor(batch)": "captur",
}

#: In a process of its own, for what a refusal leaves behind in Paddle.
PROGRAM = """
import sys
import numpy as np, paddle
from paddle.device.cuda.graphs import CUDAGraph
paddle.set_device("iluvatar")
layer = paddle.nn.Linear(4, 4)
optimizer = paddle.optimizer.Adam(parameters=layer.parameters())
batch = np.ones((4, 4), np.float32)
x = paddle.to_tensor(batch)
for _ in range(2):
    layer(x).sum().backward()
    optimizer.step()
for work in sys.argv[1:]:
    graph = CUDAGraph(paddle.CustomPlace("iluvatar", 0))
    graph.capture_begin()
    try:
        eval(work)
        print("captured")
    except Exception as error:
        print("refused:", " ".join(str(error).split()))
    graph.capture_end()
graph = CUDAGraph(paddle.CustomPlace("iluvatar", 0))
graph.capture_begin()
y = x + x
graph.capture_end()
graph.replay()
print(float(y.sum()))
"""


def test_what_replays_would_get_wrong_is_refused_and_a_graph_may_live_to_the_end() -> None:
    process = subprocess.run([sys.executable, "-c", PROGRAM, *REFUSALS], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    *answers, last = process.stdout.splitlines()
    assert last == "32.0"
    for said, (work, reason) in zip(answers, REFUSALS.items()):
        assert said.startswith("refused:") and reason in said, (work, said)
    assert len(answers) == len(REFUSALS)
