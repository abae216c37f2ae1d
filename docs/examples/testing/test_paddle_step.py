"""A training step in Paddle, tested without hardware."""

import paddle
import pytest
from paddle import nn

pytestmark = [pytest.mark.unihal_no_fallback, pytest.mark.unihal_no_race]


class Training:
    """The project's own code, in small."""

    def __init__(self):
        paddle.seed(1)
        self.network = nn.Sequential(
            nn.Conv2D(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2D(2), nn.Flatten(), nn.Linear(8 * 8 * 8, 10)
        )
        self.optimizer = paddle.optimizer.Adam(1e-3, parameters=self.network.parameters())
        self.images = paddle.randn([16, 3, 16, 16])
        self.labels = paddle.arange(16) % 10

    def step(self):
        loss = nn.functional.cross_entropy(self.network(self.images), self.labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()
        return float(loss)


@pytest.fixture
def training():
    paddle.set_device("iluvatar")
    return Training()


def test_it_learns(training):
    losses = [training.step() for _ in range(5)]
    assert losses[-1] < losses[0]


@pytest.mark.unihal_memory(peak="8M")
def test_a_step_keeps_no_memory(training, memory_watermark):
    training.step()  # sets up the optimizer's state
    memory_watermark.begin()
    training.step()


def test_it_goes_on_after_an_error_of_the_device(training, inject_faults):
    with inject_faults("launch:convolution:nth=1"), pytest.raises(Exception, match="launch:convolution:nth=1"):
        training.step()
    training.optimizer.clear_grad()
    assert training.step() > 0
