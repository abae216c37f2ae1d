"""What surrounds training: recomputation, schedules of the rate, moving averages, mixed precision of level O2 with
every optimizer, and inference by Paddle's Predictor with its passes; against the CPU, with fallbacks forbidden."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import DEVICE, Array, on, random
from paddle import nn
from test_optimizers import SETTINGS
from test_optimizers import optimizer as make_optimizer

pytestmark = pytest.mark.unihal_no_fallback

X, Y = random(8, 6), np.random.RandomState(1).randint(0, 3, (8,))
WEIGHTS = [random(6, 16, seed=2) * 0.3, np.zeros(16, "float32"), random(16, 3, seed=3) * 0.3, np.zeros(3, "float32")]


def network() -> Any:
    made = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
    for parameter, value in zip(made.parameters(), WEIGHTS, strict=True):
        parameter.set_value(value)
    return made


def on_both(work: Any) -> tuple[list[Array], list[Array]]:
    results = []
    for device in (DEVICE, "cpu"):
        with on(device):
            results.append([np.asarray(part) for part in work()])
    return results[0], results[1]


def agree(work: Any, tolerance: float = 2e-5) -> None:
    ours, theirs = on_both(work)
    assert len(ours) == len(theirs) > 0
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def test_recomputed_layers_have_the_same_gradients() -> None:
    from paddle.distributed.fleet.utils import recompute

    def work(again: bool = True) -> list[Array]:
        net = network()
        x = paddle.to_tensor(X, stop_gradient=False)
        hidden = recompute(lambda t: net[1](net[0](t)), x) if again else net[1](net[0](x))
        F.cross_entropy(net[2](hidden), paddle.to_tensor(Y)).backward()
        return [x.grad.numpy(), *(parameter.grad.numpy() for parameter in net.parameters())]

    agree(work)
    with on(DEVICE):
        for recomputed, kept in zip(work(True), work(False), strict=True):
            np.testing.assert_array_equal(recomputed, kept)


def test_recomputed_dropout_draws_the_same_numbers() -> None:
    from paddle.distributed.fleet.utils import recompute

    with on(DEVICE):
        paddle.seed(5)
        x = paddle.ones([64, 64])
        x.stop_gradient = False
        y = recompute(lambda t: F.dropout(t * 1.0, 0.5), x, preserve_rng_state=True)
        y.sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), y.numpy())
        assert 0.3 < float((y == 0).astype("float32").mean()) < 0.7


lr = paddle.optimizer.lr
#: Each schedule of paddle.optimizer.lr with small numbers; the rates of six steps must be those of the CPU.
SCHEDULES: dict[str, Any] = {
    "CosineAnnealingDecay": lambda: lr.CosineAnnealingDecay(0.1, 4),
    "CosineAnnealingWarmRestarts": lambda: lr.CosineAnnealingWarmRestarts(0.1, 2),
    "CyclicLR": lambda: lr.CyclicLR(0.1, 0.5, 2),
    "ExponentialDecay": lambda: lr.ExponentialDecay(0.1, 0.5),
    "InverseTimeDecay": lambda: lr.InverseTimeDecay(0.1, 0.5),
    "LRScheduler": None,  # the others' base
    "LambdaDecay": lambda: lr.LambdaDecay(0.1, lambda step: 0.9**step),
    "LinearLR": lambda: lr.LinearLR(0.1, 4),
    "LinearWarmup": lambda: lr.LinearWarmup(0.1, 3, 0.0, 0.1),
    "MultiStepDecay": lambda: lr.MultiStepDecay(0.1, [2, 4]),
    "MultiplicativeDecay": lambda: lr.MultiplicativeDecay(0.1, lambda step: 0.9),
    "NaturalExpDecay": lambda: lr.NaturalExpDecay(0.1, 0.5),
    "NoamDecay": lambda: lr.NoamDecay(64, 3),
    "OneCycleLR": lambda: lr.OneCycleLR(0.5, 8),
    "PiecewiseDecay": lambda: lr.PiecewiseDecay([2, 4], [0.1, 0.05, 0.01]),
    "PolynomialDecay": lambda: lr.PolynomialDecay(0.1, 4),
    "ReduceOnPlateau": lambda: lr.ReduceOnPlateau(0.1, patience=1),
    "StepDecay": lambda: lr.StepDecay(0.1, 2),
}


def test_each_schedule_is_here() -> None:
    assert set(SCHEDULES) == set(lr.__all__)


@pytest.mark.parametrize("name", [name for name, make in SCHEDULES.items() if make is not None])
def test_schedules_of_the_rate(name: str) -> None:
    def work() -> list[Array]:
        net, schedule = network(), SCHEDULES[name]()
        optimizer = paddle.optimizer.Momentum(schedule, 0.9, parameters=net.parameters())
        rates = []
        for _ in range(6):
            loss = F.cross_entropy(net(paddle.to_tensor(X)), paddle.to_tensor(Y))
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            rates.append(np.float32(optimizer.get_lr()))
            schedule.step(*([loss] if name == "ReduceOnPlateau" else []))
        return [*rates, *(parameter.numpy() for parameter in net.parameters())]

    agree(work)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "LBFGS"])
def test_every_optimizer_trains_at_level_o2(name: str, dtype: str) -> None:
    """In float16 or bfloat16 with master weights and a scaler; the losses follow the CPU's of float32."""

    def losses(device: str, narrow: bool) -> list[float]:
        with on(device):
            net = network()
            optimizer = make_optimizer(name, net.parameters(), **SETTINGS[name][0])
            scaler = paddle.amp.GradScaler(enable=narrow, init_loss_scaling=128.0)
            if narrow:
                net, optimizer = paddle.amp.decorate(net, optimizer, level="O2", dtype=dtype, master_weight=True)
            found = []
            for _ in range(6):
                with paddle.amp.auto_cast(narrow, level="O2", dtype=dtype):
                    loss = F.cross_entropy(net(paddle.to_tensor(X)).astype("float32"), paddle.to_tensor(Y))
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.clear_grad()
                found.append(float(loss))
            return found

    np.testing.assert_allclose(
        losses(DEVICE, True), losses("cpu", False), rtol={"float16": 5e-3, "bfloat16": 3e-2}[dtype]
    )


def test_an_exponential_moving_average_of_the_weights() -> None:
    """As programs keep it; paddle.static.ExponentialMovingAverage cannot be built in Paddle 3.3, on the CPU neither."""

    def work() -> list[Array]:
        net = network()
        averages = [parameter.detach().clone() for parameter in net.parameters()]
        optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
        for _ in range(3):
            F.cross_entropy(net(paddle.to_tensor(X)), paddle.to_tensor(Y)).backward()
            optimizer.step()
            optimizer.clear_grad()
            with paddle.no_grad():
                for average, parameter in zip(averages, net.parameters(), strict=True):
                    average.lerp_(parameter, paddle.to_tensor(0.1))
        return [average.numpy() for average in averages]

    agree(work)


@pytest.mark.parametrize("optimized", [False, True], ids=["as saved", "with passes"])
def test_the_predictor_infers_what_the_layer_does(optimized: bool, tmp_path: Path) -> None:
    with on("cpu"):
        net = nn.Sequential(nn.Conv2D(3, 4, 3), nn.BatchNorm2D(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 3))
        net.eval()
        image = random(2, 3, 6, 6)
        expected = net(paddle.to_tensor(image)).numpy()
        path = str(tmp_path / "saved")
        paddle.jit.save(net, path, input_spec=[paddle.static.InputSpec([None, 3, 6, 6], "float32")])
    from paddle import inference

    config = inference.Config(f"{path}.json", f"{path}.pdiparams")
    config.enable_custom_device(DEVICE, 0)
    config.switch_ir_optim(optimized)
    config.disable_glog_info()
    predictor = inference.create_predictor(config)
    for _ in range(2):
        handle = predictor.get_input_handle(predictor.get_input_names()[0])
        handle.copy_from_cpu(image)
        predictor.run()
        found = predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
