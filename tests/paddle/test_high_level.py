"""Paddle's ways to train and to infer that are not a loop of one's own: paddle.Model, the Executor in both
representations, saved and loaded layers, the Predictor with models of both formats; five steps, the CPU's losses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import DEVICE, on, random
from paddle import nn
from processes import run

pytestmark = pytest.mark.unihal_no_fallback

STEPS, BATCH = 5, 8
IMAGES = random(STEPS * BATCH, 1, 8, 8)
LABELS = np.random.RandomState(1).randint(0, 4, (STEPS * BATCH, 1))


class Digits(paddle.io.Dataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, at: int) -> Any:
        return IMAGES[at], LABELS[at]


def network() -> Any:
    net = nn.Sequential(
        nn.Conv2D(1, 4, 3, padding=1, bias_attr=False),
        nn.BatchNorm2D(4),
        nn.ReLU(),
        nn.MaxPool2D(2),
        nn.Flatten(),
        nn.Linear(64, 4),
    )
    state = np.random.RandomState(2)
    for parameter in net.parameters():
        if parameter.ndim > 1:
            parameter.set_value(state.uniform(-0.3, 0.3, parameter.shape).astype("float32"))
    return net


def on_both(work: Callable[[], Any]) -> tuple[Any, Any]:
    outcomes = []
    for device in (DEVICE, "cpu"):
        with on(device), paddle.utils.unique_name.guard():
            outcomes.append(work())
    return outcomes[0], outcomes[1]


class Losses(paddle.callbacks.Callback):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.found: list[float] = []

    def on_train_batch_end(self, step: int, logs: Any = None) -> None:
        self.found.append(float(np.asarray(logs["loss"]).reshape(-1)[0]))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_model_fits_evaluates_and_predicts(workers: int) -> None:
    def work() -> tuple[list[float], Any, Any]:
        net = network()
        model = paddle.Model(net)
        optimizer = paddle.optimizer.Adam(0.01, parameters=net.parameters())
        model.prepare(optimizer, nn.CrossEntropyLoss(), paddle.metric.Accuracy())
        losses = Losses()
        options = {"batch_size": BATCH, "num_workers": workers, "verbose": 0}
        model.fit(Digits(), epochs=1, shuffle=False, callbacks=[losses], **options)
        result = model.evaluate(Digits(), **options)
        (predicted,) = model.predict(Digits(), stack_outputs=True, **options)
        return losses.found, (float(np.asarray(result["loss"]).reshape(-1)[0]), float(result["acc"])), predicted

    (ours, our_result, our_prediction), (theirs, their_result, their_prediction) = on_both(work)
    assert len(ours) == STEPS
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    np.testing.assert_allclose(our_result, their_result, rtol=1e-3)
    np.testing.assert_allclose(our_prediction, their_prediction, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("representation", ["new", "old"])
@pytest.mark.parametrize("optimizer", ["SGD", "Momentum", "Adam", "AdamW"])
def test_an_executor_trains(representation: str, optimizer: str) -> None:
    def work() -> list[Any]:
        device = paddle.get_device().split(":")[0]
        paddle.enable_static()
        guard = paddle.pir_utils.IrGuard if representation == "new" else paddle.pir_utils.OldIrGuard
        try:
            with guard():
                main, startup = paddle.static.Program(), paddle.static.Program()
                with paddle.static.program_guard(main, startup):
                    x = paddle.static.data("x", [BATCH, 64], "float32")
                    y = paddle.static.data("y", [BATCH, 1], "int64")
                    constant = nn.initializer.Assign(random(64, 4, seed=3) * 0.1)
                    out = paddle.static.nn.fc(x, 4, weight_attr=paddle.ParamAttr(initializer=constant))
                    loss = F.cross_entropy(F.relu(out), y)
                    getattr(paddle.optimizer, optimizer)(0.01).minimize(loss)
                place = paddle.CPUPlace() if device == "cpu" else paddle.CustomPlace(device, 0)
                executor = paddle.static.Executor(place)
                executor.run(startup)
                return [
                    executor.run(
                        main,
                        feed={
                            "x": IMAGES[i * BATCH : (i + 1) * BATCH].reshape(BATCH, 64),
                            "y": LABELS[i * BATCH : (i + 1) * BATCH].astype("int64"),
                        },
                        fetch_list=[loss, out],
                    )
                    for i in range(STEPS)
                ]
        finally:
            paddle.disable_static()

    ours, theirs = on_both(work)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine[0], other[0], rtol=1e-5)
        np.testing.assert_allclose(mine[1], other[1], rtol=1e-4, atol=1e-5)
    assert float(ours[0][0]) != float(ours[-1][0])


def test_a_saved_layer_is_loaded_and_trains_on(tmp_path: Path) -> None:
    path = str(tmp_path / "net")
    with on("cpu"):
        paddle.jit.save(network(), path, input_spec=[paddle.static.InputSpec([None, 1, 8, 8], "float32")])

    def work() -> tuple[list[float], Any, Any]:
        layer = paddle.jit.load(path)
        layer.train()
        optimizer = paddle.optimizer.Momentum(0.02, 0.9, parameters=layer.parameters())
        losses = []
        for i in range(STEPS):
            batch = slice(i * BATCH, (i + 1) * BATCH)
            loss = F.cross_entropy(layer(paddle.to_tensor(IMAGES[batch])), paddle.to_tensor(LABELS[batch]))
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(float(loss))
        layer.eval()
        again = str(tmp_path / f"again_{paddle.get_device().split(':')[0]}")
        paddle.jit.save(layer, again, input_spec=[paddle.static.InputSpec([None, 1, 8, 8], "float32")])
        return losses, layer(paddle.to_tensor(IMAGES[:4])).numpy(), paddle.jit.load(again)(paddle.to_tensor(IMAGES[:4]))

    (ours, our_result, reloaded), (theirs, their_result, _) = on_both(work)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    assert ours[-1] != ours[0]
    np.testing.assert_allclose(our_result, their_result, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(reloaded.numpy(), our_result, rtol=1e-5, atol=1e-5)


INFER = """
import numpy as np, paddle
from paddle import inference, nn

paddle.seed(1)
paddle.set_device("cpu")
net = nn.Sequential(nn.Conv2D(3, 4, 3), nn.BatchNorm2D(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3), nn.Softmax())
net.eval()
image = np.random.RandomState(0).rand(2, 3, 6, 6).astype("float32")
expected = net(paddle.to_tensor(image)).numpy()
paddle.jit.save(net, "net", input_spec=[paddle.static.InputSpec([None, 3, 6, 6], "float32")])
import os
model = next(name for name in ("net.pdmodel", "net.json") if os.path.exists(name))
for optimized in (False, True):
    config = inference.Config(model, "net.pdiparams")
    config.enable_custom_device("iluvatar", 0)
    config.switch_ir_optim(optimized)
    config.disable_glog_info()
    predictor = inference.create_predictor(config)
    for count in (2, 1):
        handle = predictor.get_input_handle(predictor.get_input_names()[0])
        handle.reshape([count, 3, 6, 6])
        handle.copy_from_cpu(image[:count])
        predictor.run()
        found = predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()
        np.testing.assert_allclose(found, expected[:count], rtol=1e-4, atol=1e-5)
print(model)
"""


@pytest.mark.skipif(DEVICE != "iluvatar", reason="the program names the type")
@pytest.mark.parametrize(
    ("new", "file"), [("1", "net.json"), pytest.param("0", "net.pdmodel", marks=pytest.mark.whole)]
)
def test_the_predictor_takes_models_of_both_formats(tmp_path: Path, new: str, file: str) -> None:
    result = run(INFER, tmp_path, FLAGS_enable_pir_api=new)
    assert (result.returncode, result.stdout.strip()) == (0, file), result.stderr
