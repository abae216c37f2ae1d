"""A program: one training step of a small network with each of its device calls failing in turn.

Prints the report of sweeps.py as JSON. An assertion fails if an exception does not say what happened, if memory is
left over, or if the next step without a fault, or a step that got over its fault, is not the step of an undisturbed
run.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import unihal
from paddle import nn

sys.path.insert(0, str(Path(__file__).parents[1]))
import sweeps

Step = dict[str, np.ndarray[Any, Any]]


class Training:
    """A network whose state can be put back to where it was."""

    def __init__(self) -> None:
        paddle.seed(0)
        self.device = unihal.device("iluvatar")
        self.network = nn.Sequential(
            nn.Conv2D(1, 4, 3, padding=1),
            nn.BatchNorm2D(4),
            nn.ReLU(),
            nn.MaxPool2D(2),
            nn.Flatten(),
            nn.Linear(64, 10),
        )
        self.optimizer = paddle.optimizer.SGD(0.1, parameters=self.network.parameters())
        self.images = np.random.RandomState(0).rand(5, 1, 8, 8).astype("float32")
        self.labels = np.arange(5)
        self.last_loss: float | None = None
        self.initial = self.state()
        self.step()  # what is set up at the first step stays
        self.forget_step()
        gc.freeze()  # the modules' own objects need not be looked at after each fault
        self.baseline = self.memory()
        self.expected = self.undisturbed_step()

    def state(self) -> Step:
        return {name: value.numpy() for name, value in self.network.state_dict().items()}

    def step(self) -> None:
        self.last_loss = None
        images, labels = paddle.to_tensor(self.images), paddle.to_tensor(self.labels)
        loss = nn.functional.cross_entropy(self.network(images), labels)
        loss.backward()
        self.optimizer.step()
        self.last_loss = float(loss)

    def forget_step(self) -> None:
        self.optimizer.clear_grad(set_to_zero=False)
        gc.collect()
        paddle.device.empty_cache()
        self.device.empty_cache()

    def memory(self) -> tuple[int, int]:
        stats = self.device.memory_stats()
        return stats.live_allocations, stats.allocated_bytes

    def undisturbed_step(self) -> Step:
        for name, value in self.network.state_dict().items():
            value.set_value(self.initial[name])
        self.step()
        return self.result()

    def result(self) -> Step:
        return {"loss": np.asarray(self.last_loss), **self.state()}

    def check(self, outcome: unihal.FaultOutcome) -> None:
        if outcome.error is None:
            self.compare(self.result(), outcome.rule)
        else:
            assert sweeps.tells_of_the_fault(outcome), outcome.error
        self.forget_step()
        assert self.memory() == self.baseline, f"{outcome.rule}: {self.memory()} is left of {self.baseline}"
        self.compare(self.undisturbed_step(), outcome.rule)
        self.reset()

    def reset(self) -> None:
        for name, value in self.network.state_dict().items():
            value.set_value(self.initial[name])
        self.forget_step()

    def compare(self, result: Step, rule: str) -> None:
        for name, value in self.expected.items():
            np.testing.assert_allclose(result[name], value, rtol=1e-5, atol=1e-6, err_msg=f"{rule}: {name}")


def main() -> None:
    paddle.set_device("iluvatar")
    training = Training()
    report: sweeps.Report = {}
    sweeps.sweep(report, training.device, training.step, training.check, training.reset)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
