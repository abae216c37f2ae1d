"""Models of many families train as on the CPU, in dynamic mode and as graphs, with fallbacks forbidden."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import paddle
import pytest
from comparison import DEVICE, on
from families import FAMILIES, Detector, Diffusion, Family, Gpt
from models import initial_weights, weights_of
from paddle import nn

pytestmark = pytest.mark.unihal_no_fallback

STEPS = 6 if os.environ.get("UNIHAL_STUB") == "strict" or os.environ["UNIHAL_BACKEND"] != "stub" else 20


def made(kind: str) -> Family:
    paddle.seed(0)
    network = FAMILIES[kind]()
    random = np.random.RandomState(3)
    weights = initial_weights(network)
    for name, value in weights.items():
        if value.ndim > 1 and value.dtype.kind == "f":
            weights[name] = random.uniform(-0.3, 0.3, value.shape).astype(value.dtype)
    network.set_state_dict({name: paddle.to_tensor(value) for name, value in weights.items()})
    return network


def put(batch: Any) -> list[Any]:
    return [paddle.to_tensor(part.astype("int64") if part.dtype.kind == "i" else part) for part in batch]


def trained(kind: str, device: str, static: bool) -> tuple[list[float], dict[str, Any]]:
    with on(device):
        network = made(kind)
        batches = [network.batch(np.random.RandomState(seed)) for seed in (11, 12)]
        # Small steps of plain gradients: Adam divides by the size of gradients, those that are but rounding as well.
        optimizer = paddle.optimizer.Momentum(0.002, 0.9, parameters=network.parameters())
        loss_of = paddle.jit.to_static(network.loss, full_graph=True) if static else network.loss
        losses = []
        for step in range(STEPS):
            loss = loss_of(*put(batches[step % 2]))
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(float(loss))
        return losses, weights_of(network)


@pytest.mark.whole
@pytest.mark.parametrize("static", [False, True], ids=["dygraph", "to_static"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_training_tracks_the_cpu(kind: str, static: bool) -> None:
    losses, weights = trained(kind, DEVICE, static)
    expected_losses, expected_weights = trained(kind, "cpu", False)
    # Rounding differences grow with the steps; batch norm over few images amplifies them.
    tolerance = 5e-3 if kind == "dcgan" else 1e-3
    np.testing.assert_allclose(losses, expected_losses, rtol=tolerance)
    assert losses[-2] < losses[0]  # the same batch
    for name, value in weights.items():
        scale = max(float(np.abs(expected_weights[name]).max()), 0.1)
        np.testing.assert_allclose(value, expected_weights[name], rtol=0, atol=tolerance * scale, err_msg=name)


def on_both(work: Any) -> tuple[Any, Any]:
    results = []
    for device in (DEVICE, "cpu"):
        with on(device), paddle.no_grad():
            results.append(work())
    return results[0], results[1]


def test_generation_with_kept_keys_and_values() -> None:
    def work() -> Any:
        network = made("gpt")
        assert isinstance(network, Gpt)
        return network.generate(paddle.to_tensor([[3, 1, 4], [1, 5, 9]]), 6).numpy()

    ours, theirs = on_both(work)
    np.testing.assert_array_equal(ours, theirs)


def test_a_detector_finds_boxes() -> None:
    """The same boxes and scores as on the CPU, in the same order."""
    found = []
    for device in (DEVICE, "cpu"):
        with on(device), paddle.no_grad():
            network = made("detector")
            assert isinstance(network, Detector)
            images = paddle.to_tensor(network.batch(np.random.RandomState(5))[0])
            found.append([part.numpy() for part in network.detect(images)])
    assert len(found[0]) == 5 and len(found[0][0]) > 1
    for ours, theirs in zip(*found, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_steps_of_diffusion() -> None:
    noise = np.random.RandomState(0).standard_normal((2, 1, 8, 8)).astype("float32")

    def work() -> Any:
        network = made("diffusion")
        assert isinstance(network, Diffusion)
        return network.sample(paddle.to_tensor(noise)).numpy()

    ours, theirs = on_both(work)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


#: One of each family of paddle.vision.models, the smallest, and the side of its images.
VISION = {
    "LeNet": 28, "alexnet": 224, "vgg11": 32, "resnet18": 32, "resnet50": 32, "resnext50_32x4d": 32,
    "wide_resnet50_2": 32, "mobilenet_v1": 32, "mobilenet_v2": 32, "mobilenet_v3_small": 32, "densenet121": 32,
    "squeezenet1_0": 64, "shufflenet_v2_x0_25": 32, "googlenet": 224, "inception_v3": 80,
}  # fmt: skip


def gradients(kind: str, device: str) -> tuple[Any, dict[str, Any]]:
    with on(device):
        paddle.seed(0)
        network = getattr(paddle.vision.models, kind)(num_classes=10)
        weights = initial_weights(network)
        # Some draw their biases too, and each device draws others.
        weights |= {name: np.zeros_like(value) for name, value in weights.items() if name.endswith("bias")}
        network.set_state_dict({name: paddle.to_tensor(value) for name, value in weights.items()})
        for layer in network.sublayers():
            if isinstance(layer, nn.Dropout):
                layer.p = 0.0
            if isinstance(layer, (nn.BatchNorm, nn.BatchNorm2D)):
                layer.eval()  # of two images in training it amplifies rounding
        random = np.random.RandomState(1)
        x = paddle.to_tensor(random.rand(2, 1 if kind == "LeNet" else 3, VISION[kind], VISION[kind]).astype("float32"))
        out = network(x)
        outputs = list(out) if isinstance(out, (list, tuple)) else [out]
        sum(y.square().mean() for y in outputs).backward()
        norms = {n: p.grad.square().sum().sqrt() for n, p in network.named_parameters() if p.grad is not None}
        return [y.numpy() for y in outputs], {n: float(norm) for n, norm in norms.items()}


LARGE = ("alexnet", "vgg11", "wide_resnet50_2")  # their weights are drawn and copied for most of the time


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.long if kind in LARGE else pytest.mark.whole) for kind in VISION]
)
def test_vision_models(kind: str) -> None:
    outputs, norms = gradients(kind, DEVICE)
    expected_outputs, expected_norms = gradients(kind, "cpu")
    for ours, theirs in zip(outputs, expected_outputs):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4 * max(1, float(np.abs(theirs).max())))
    assert norms.keys() == expected_norms.keys() and norms
    largest = max(expected_norms.values())
    for name, norm in norms.items():
        assert norm == pytest.approx(expected_norms[name], rel=1e-2, abs=1e-5 * largest), name


def test_each_family_of_vision_models_is_there() -> None:
    """A family is a module of paddle.vision.models."""
    import paddle.vision.models as models

    tested = {getattr(models, kind).__module__ for kind in VISION}
    there = {getattr(models, name).__module__ for name in models.__all__}
    assert there == tested
