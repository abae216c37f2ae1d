"""The workshop's optimizer: quantization and its errors, offload, fusion, precision, checkpointing, search."""

from __future__ import annotations

import copy
import gc
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
import unihal
from torch import nn
from unihal_workshop.errors import InputError, ModelError
from unihal_workshop.inference import BaseInference, Run
from unihal_workshop.optimizer import (
    LayerOffload,
    Limits,
    Optimizer,
    PartOffload,
    checkpoint,
    fuse,
    quantize,
    set_precision,
    weight_bytes,
)
from unihal_workshop.optimizer.fusion import FusedGroupNorm
from unihal_workshop.optimizer.quantization import relative_error
from unihal_workshop.optimizer.search import error_between
from unihal_workshop.optimizer.weights import Format, quantize_tensor

DEVICE = torch._C._get_privateuse1_backend_name()


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.SiLU(),
        nn.Conv2d(32, 32, 3, padding=1, groups=2, padding_mode="circular"),
        nn.SiLU(),
        nn.Flatten(),
        nn.Linear(32 * 64, 128),
        nn.SiLU(),
        nn.Linear(128, 64),
    ).eval()


# -- quantization ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bits", "block", "most"), [(8, 0, 0.52), (8, 64, 0.52), (4, 64, 0.28), (4, 0, 0.28)])
def test_bytes_and_errors_of_a_quantized_model(bits: int, block: int, most: float) -> None:
    model = network()
    x = torch.randn(4, 3, 8, 8)
    expected = model(x).detach()
    before = unihal.fallbacks()
    report = quantize(model, bits, block_size=block, calibration=[x], min_elements=512)
    assert len(report.layers) == 4 and not report.skipped
    # Biases and the short channels of the first convolutions weigh more here than in a model of use.
    assert report.ratio <= most + 0.015
    assert report.layers[2].stored_bytes / report.layers[2].float16_bytes <= most
    # 8 bits are a step of 1/127 of the largest weight, 4 bits of 1/7.
    limit = 0.01 if bits == 8 else 0.15
    for layer in report.layers:
        assert 0 < layer.weight_error < limit
        assert layer.output_error is not None and 0 < layer.output_error < limit
    moved = model.to(DEVICE)
    found = moved(x.to(DEVICE)).cpu().detach()
    error = relative_error([expected], [found])
    assert report.error is not None and 0 < error < limit
    assert abs(error - report.error) < 1e-4
    assert unihal.fallbacks() == before
    assert report.stored_bytes == weight_bytes(moved)
    table = report.to_markdown(most=2)
    assert "| and 2 more |" in table and f"in {bits} bits" in table


def test_errors_of_layers_are_what_the_layers_do() -> None:
    layer = nn.Linear(256, 64, bias=False)
    model = nn.Sequential(layer)
    x = torch.randn(32, 256)
    exact = x @ layer.weight.detach().T
    report = quantize(model, 4, calibration=[x])
    dense = model[0].weight
    assert report.layers[0].weight_error == pytest.approx(
        float((dense - layer.weight).norm() / layer.weight.norm()), rel=1e-4
    )
    assert report.layers[0].output_error == pytest.approx(float((x @ dense.T - exact).norm() / exact.norm()), rel=1e-4)
    assert report.error == pytest.approx(report.layers[0].output_error, rel=1e-3)


def test_calibration_lowers_the_error_where_inputs_differ() -> None:
    importance = torch.ones(256)
    importance[:16] = 100.0
    x = torch.randn(64, 256) * importance
    errors = []
    for samples in (None, [x]):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(256, 64, bias=False))
        exact = model(x).detach()
        quantize(model, 4, block_size=0, calibration=samples)
        errors.append(relative_error([exact], [model(x)]))
    assert errors[1] < errors[0] * 0.95


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bits", [8, 4])
def test_stored_weights_are_the_nearest_ones(bits: int, symmetric: bool) -> None:
    weight = torch.randn(16, 96) + (0.0 if symmetric else 2.0)
    for block in (0, 32):
        form = Format(bits, block, symmetric)
        stored, scales, zeros = quantize_tensor(weight, form)
        dense = torch.ops.unihal.dequantize_weight(
            stored, scales, zeros, 96, bits, block, form.zero_point, torch.float32
        )
        step = scales.float().repeat_interleave(block or 96, 1)
        # 4 bits take a smaller scale where cutting off the largest weights lowers the error.
        beyond = (dense - weight).abs() > step * (0.51 if symmetric else 1.01)
        assert beyond.float().mean() <= (0.0 if bits == 8 else 0.15)
        assert (zeros is None) == symmetric


def test_weights_of_zero_stay_zero_and_tiny_ones_stay_finite() -> None:
    for value in (0.0, 1e-30):
        for bits in (8, 4):
            form = Format(bits, 32)
            stored, scales, _ = quantize_tensor(torch.full((4, 64), value), form)
            dense = torch.ops.unihal.dequantize_weight(
                stored, scales, None, 64, bits, 32, form.zero_point, torch.float32
            )
            assert torch.equal(dense, torch.zeros(4, 64))


def test_tied_weights_stay_one() -> None:
    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(300, 64)
            self.head = nn.Linear(64, 300, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.embedding(ids))

    model = Decoder()
    ids = torch.randint(0, 300, (2, 5))
    report = quantize(model, 4, calibration=[ids])
    assert report.ratio <= 0.28 and [layer.stored_bytes > 0 for layer in report.layers] == [True, False]
    expected = model(ids)
    model.to(DEVICE)
    assert weight_bytes(model) == report.stored_bytes
    torch.testing.assert_close(model(ids.to(DEVICE)).cpu(), expected, atol=1e-4, rtol=1e-4)


def test_what_is_skipped_stays() -> None:
    model = network()
    first, last = model[0], model[7]
    report = quantize(model, 8, skip=("7",), min_elements=1000)
    assert report.skipped == ["7"] and model[7] is last and model[0] is first  # 864 weights
    assert [layer.name for layer in report.layers] == ["2", "5"]


def test_what_cannot_be_quantized_says_why() -> None:
    for arguments, text in (({"bits": 3}, "8 or 4"), ({"bits": 4, "block_size": 20}, "power of two")):
        with pytest.raises(ValueError, match=text):
            quantize(network(), **arguments)
    with pytest.raises(ModelError, match="single layer"):
        quantize(nn.Linear(128, 128), 8)
    with pytest.raises(InputError, match="no samples"):
        quantize(network(), 8, calibration=[])
    with pytest.raises(ModelError, match=r"torch\.nn\.Module"):
        quantize("model", 8)  # type: ignore[arg-type]


def test_shapes_alone_are_enough_for_a_plan() -> None:
    with torch.device("meta"):
        model = network()
    report = quantize(model, 4, measure=False)
    real = network()
    assert report.stored_bytes == quantize(real, 4).stored_bytes
    assert model(torch.empty(2, 3, 8, 8, device="meta")).shape == (2, 64)


# -- offload -----------------------------------------------------------------------------------------------------------


def layers(count: int = 8) -> nn.Sequential:
    return nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.SiLU()) for _ in range(count)]).eval()


@pytest.mark.parametrize("prefetch", [0, 1, 3])
@pytest.mark.parametrize("resident", [0, 40000, 1 << 20])
def test_layers_come_ahead_and_memory_stays_in_its_slots(prefetch: int, resident: int) -> None:
    gc.collect()
    start = torch.rdna.memory_allocated()
    model = layers()
    x = torch.randn(4, 64)
    expected = model(x).detach()
    offload = LayerOffload(model, DEVICE, prefetch=prefetch, largest_bytes=20000, resident_bytes=resident)
    assert len(offload.units) == 8
    with torch.no_grad():
        for _ in range(3):
            y = model(x.to(DEVICE))
            torch.testing.assert_close(y.cpu(), expected, atol=1e-6, rtol=1e-5)
            del y
            assert torch.rdna.memory_allocated() - start == offload.device_bytes
    moving = len(offload.moving)
    if prefetch and moving:
        assert offload.late == 0
        # Each layer that does not stay is copied once a run; the last run's prefetch is of the next run.
        assert offload.copied_bytes <= sum(u.bytes for u in offload.resident) + (3 * moving + prefetch) * 16640 * 1.01
    else:
        assert offload.late == 3 * moving
    assert offload.device_bytes == min(prefetch + 1, moving) * 16640 * (moving > 0) + sum(
        unit.bytes for unit in offload.resident
    )
    offload.release()
    assert torch.rdna.memory_allocated() == start
    assert next(model.parameters()).device.type == "cpu"
    with torch.no_grad():
        torch.testing.assert_close(model(x.to(DEVICE)).cpu(), expected, atol=1e-6, rtol=1e-5)
    offload.remove()
    torch.testing.assert_close(model(x), expected)
    del offload
    gc.collect()
    assert torch.rdna.memory_allocated() == start


def test_another_order_of_layers_is_slower_and_right() -> None:
    class Choice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList([nn.Linear(64, 64) for _ in range(4)])

        def forward(self, x: torch.Tensor, order: list[int]) -> torch.Tensor:
            for number in order:
                x = self.parts[number](x).tanh()
            return x

    model = Choice().eval()
    x = torch.randn(2, 64)
    orders = [[0, 1, 2, 3], [3, 1, 1, 0], [2], [0, 2, 0, 2], [1, 3]]
    expected = [model(x, order).detach() for order in orders]
    offload = LayerOffload(model, DEVICE, prefetch=1, largest_bytes=1 << 20)
    with torch.no_grad():
        for order, value in zip(orders, expected):
            torch.testing.assert_close(model(x.to(DEVICE), order).cpu(), value, atol=1e-6, rtol=1e-5)
    assert offload.late > 0
    offload.remove()


def test_quantized_layers_are_offloaded_too() -> None:
    model = layers(4)
    x = torch.randn(4, 64)
    quantize(model, 4)
    expected = model(x).detach()
    offload = LayerOffload(model, DEVICE, largest_bytes=8000)
    with torch.no_grad():
        torch.testing.assert_close(model(x.to(DEVICE)).cpu(), expected, atol=1e-5, rtol=1e-4)
    offload.remove()


class Tied(nn.Module):
    """A decoder with one matrix for its words and its head, and a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(300, 64)
        self.layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(20)])
        self.head = nn.Linear(64, 300)
        self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x).tanh()
        return self.head(x)


@pytest.mark.parametrize("prefetch", [0, 1, 2])
@pytest.mark.parametrize("bits", [0, 8, 4])
def test_tied_weights_come_for_both_layers(bits: int, prefetch: int) -> None:
    model = Tied().eval()
    ids = torch.randint(0, 300, (2, 5))
    if bits:
        quantize(model, bits)
    expected = model(ids).detach()
    offload = LayerOffload(model, DEVICE, prefetch=prefetch, largest_bytes=8000)
    assert len(offload.moving) > 20
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(model(ids.to(DEVICE)).cpu(), expected, atol=1e-4, rtol=1e-4)
    offload.remove()


def test_a_module_of_two_parents_is_one_unit() -> None:
    shared = nn.Linear(64, 64)
    model = nn.Sequential(
        *[nn.Sequential(nn.Linear(64, 64), nn.Sequential(shared, nn.Tanh())) for _ in range(4)]
    ).eval()
    x = torch.randn(2, 64)
    expected = model(x).detach()
    offload = LayerOffload(model, DEVICE, prefetch=1, largest_bytes=1)
    assert len(offload.units) == 5
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(model(x.to(DEVICE)).cpu(), expected, atol=1e-6, rtol=1e-5)
    offload.remove()


@pytest.mark.parametrize("resident", [0, 1 << 12, 1 << 20])
def test_other_methods_than_forward_find_their_weights(resident: int) -> None:
    """As of autoencoders, whose `decode` is called: no hook of the module itself runs."""

    class Coder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.between, self.decoder = nn.Linear(64, 64), nn.Linear(64, 8), layers(6)

        def decode(self, x: torch.Tensor) -> torch.Tensor:
            self.between(x)
            return self.decoder(x)

    model = Coder().eval()
    x = torch.randn(2, 64)
    expected = model.decode(x).detach()
    offload = LayerOffload(model, DEVICE, largest_bytes=1, resident_bytes=resident)
    late = []
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(model.decode(x.to(DEVICE)).cpu(), expected, atol=1e-6, rtol=1e-5)
            late.append(offload.late)
            offload.release()
    assert late[-1] == late[0]  # what ran first is known from then on
    offload.remove()


def test_one_part_at_a_time() -> None:
    gc.collect()
    start = torch.rdna.memory_allocated()
    model = layers(4)
    x = torch.randn(4, 64)
    expected = model(x).detach()
    parts = PartOffload({"first": model[:2], "second": model[2:]}, DEVICE)
    with torch.no_grad():
        for _ in range(2):
            parts.use("first")
            y = model[:2](x.to(DEVICE))
            parts.use("second")
            one = torch.rdna.memory_allocated() - start
            assert 2 * 64 * 65 * 4 <= one < 3 * 64 * 65 * 4
            torch.testing.assert_close(model[2:](y).cpu(), expected, atol=1e-6, rtol=1e-5)
    with pytest.raises(ModelError, match="there is no part 'third'"):
        parts.use("third")
    parts.release()
    del y
    assert torch.rdna.memory_allocated() == start


def test_accelerates_hooks_serve_too() -> None:
    accelerate = pytest.importorskip("accelerate")
    model = layers(2)
    x = torch.randn(4, 64)
    expected = model(x).detach()
    moved, hook = accelerate.cpu_offload_with_hook(model, torch.device(DEVICE, 0))
    with torch.no_grad():
        torch.testing.assert_close(moved(x.to(DEVICE)).cpu(), expected, atol=1e-6, rtol=1e-5)
    assert next(moved.parameters()).device.type == DEVICE
    hook.offload()
    assert next(moved.parameters()).device.type == "cpu"


def test_what_cannot_be_offloaded_says_why() -> None:
    with pytest.raises(ModelError, match="no streams"):
        LayerOffload(layers(), "cpu")
    with pytest.raises(ModelError, match="no weights"):
        LayerOffload(nn.Sequential(nn.SiLU(), nn.SiLU()), DEVICE)
    with pytest.raises(ModelError, match="prefetch"):
        LayerOffload(layers(), DEVICE, prefetch=-1)


# -- fusion, precision, checkpointing ----------------------------------------------------------------------------------


def test_norms_take_their_activation() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.GroupNorm(4, 8), nn.SiLU(), nn.Conv2d(8, 4, 1), nn.GroupNorm(2, 4)
    ).eval()
    x = torch.randn(2, 3, 6, 6)
    expected = model(x).detach()
    assert fuse(model) == 1 and isinstance(model[1], FusedGroupNorm) and isinstance(model[2], nn.Identity)
    torch.testing.assert_close(model(x), expected)
    with unihal.profile() as recording, torch.no_grad():
        torch.testing.assert_close(model.to(DEVICE)(x.to(DEVICE)).cpu(), expected, atol=1e-5, rtol=1e-4)
    names = [event.name for event in recording.events]
    assert any("group_norm_activation" in name for name in names) and not any("silu" in name for name in names)


def test_parts_in_their_own_precision() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(16, 4)).to(DEVICE, torch.float16).eval()
    assert set_precision(model, {"*": "float16", "1": "float32"}) == {"0": "float16", "1": "float32", "2": "float16"}
    seen: list[torch.dtype] = []
    model[1].register_forward_hook(lambda module, args, output: seen.append(output.dtype))
    y = model(torch.randn(3, 16, device=DEVICE, dtype=torch.float16))
    assert model[1].weight.dtype == torch.float32 and y.dtype == torch.float16
    for rules, text in (({"encoder*": "float16"}, "matches 'encoder"), ({"*": "float8"}, "expected float32")):
        with pytest.raises(ModelError, match=text):
            set_precision(model, rules)


def test_checkpointing_keeps_the_gradients_and_takes_less_memory() -> None:
    def deep() -> nn.Sequential:
        torch.manual_seed(0)
        return nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Tanh(), nn.Tanh()) for _ in range(12)])

    x = torch.randn(256, 64)
    found = []
    for is_checkpointed in (False, True):
        model = deep().to(DEVICE)
        if is_checkpointed:
            assert len(checkpoint(model)) == 12
        torch.rdna.synchronize()
        torch.rdna.reset_peak_memory_stats()
        start = torch.rdna.memory_allocated()
        model(x.to(DEVICE)).square().sum().backward()
        torch.rdna.synchronize()
        peak = torch.rdna.max_memory_allocated() - start
        found.append((peak, [p.grad.cpu() for p in model.parameters() if p.grad is not None]))
    assert found[1][0] < 0.6 * found[0][0]
    assert len(found[0][1]) == 24
    for one, other in zip(found[0][1], found[1][1]):
        torch.testing.assert_close(other, one, atol=1e-6, rtol=1e-5)
    with pytest.raises(ModelError, match="no lists of layers"):
        checkpoint(nn.Linear(2, 2))
    with pytest.raises(ModelError, match="matches 'missing"):
        checkpoint(deep(), ["missing*"])


# -- search ------------------------------------------------------------------------------------------------------------


class Pretended(BaseInference):
    """Takes memory, time and error by its options, without computing."""

    option_defaults: ClassVar[Mapping[str, Any]] = {"bits": 0, "offload": False, "fast": False, "broken": False}
    optimizations: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "8 bit": {"bits": 8},
        "4 bit": {"bits": 4},
        "offload": {"offload": True},
        "fast": {"fast": True},
        "broken": {"broken": True},
    }
    loads = 0

    def _load(self) -> None:
        type(self).loads += 1

    def _run(self, inputs: Mapping[str, Any], run: Run) -> Any:
        if self.options["broken"]:
            raise torch.OutOfMemoryError("too much | here\nand more")
        return np.array([1.0, {0: 0.0, 8: 0.01, 4: 0.1}[self.options["bits"]]])

    def run(self, *args: Any, **kwargs: Any) -> Any:
        result = super().run(*args, **kwargs)
        bits = self.options["bits"] or 16
        result.peak_bytes = 1000 * bits // (4 if self.options["offload"] else 1)
        result.seconds = 1.0 + self.options["offload"] - 0.5 * self.options["fast"] + 0.1 * (bits < 16)
        return result


def test_each_optimization_is_measured_against_the_model_as_it_is() -> None:
    optimizer = Optimizer(Pretended, device="cpu")
    trials = {trial.title: trial for trial in optimizer.each()}
    assert list(trials) == ["as it is", *Pretended.optimizations]
    assert trials["as it is"].error == 0 and trials["4 bit"].error == pytest.approx(0.1, rel=1e-3)
    assert trials["8 bit"].peak_bytes == 8000
    assert trials["broken"].failure == "OutOfMemoryError: too much | here"
    table = optimizer.to_markdown(Limits(error=0.05))
    assert "| 4 bit | 1.100 | 0.0 | 0.0 | 1.00e-01 | error 1.00e-01 of 5.00e-02 |" in table
    assert "too much / here" in table and table.count("\n") == 7
    loads = Pretended.loads
    optimizer.each()
    assert Pretended.loads == loads  # nothing is measured twice


def test_search_keeps_to_limits_and_takes_the_fastest() -> None:
    optimizer = Optimizer(Pretended, device="cpu")
    best = optimizer.search(Limits(memory_bytes=9000, error=0.05))
    assert best is not None and set(best.names) == {"8 bit", "fast"} and best.seconds == pytest.approx(0.6)
    tight = Optimizer(Pretended, device="cpu").search(Limits(memory_bytes=1000))
    assert tight is not None and set(tight.names) == {"4 bit", "offload", "fast"}
    assert Optimizer(Pretended, device="cpu").search(Limits(memory_bytes=10)) is None
    few = Optimizer(Pretended, device="cpu")
    few.search(Limits(memory_bytes=10), most_trials=3)
    assert len(few.trials) == 3


def test_contradictions_and_unknown_names() -> None:
    optimizer = Optimizer(Pretended, device="cpu")
    assert optimizer.try_names("8 bit", "4 bit") is None
    with pytest.raises(ModelError, match="'6 bit' is no optimization"):
        optimizer.try_names("6 bit")
    with pytest.raises(ModelError, match="could not run"):
        Optimizer(Pretended, device="cpu", options={"broken": True}).each()
    rescued = Optimizer(Pretended, device="cpu", options={"broken": True}, reference={"broken": False})
    assert rescued.try_names().failure and rescued.try_options(["mended"], {"broken": False}).error == 0


def test_a_model_that_does_not_fit_as_it_is_is_measured_nevertheless() -> None:
    """Its reference is the model with its weights elsewhere, which computes the same."""

    class TooLarge(Pretended):
        def _run(self, inputs: Mapping[str, Any], run: Run) -> Any:
            if not self.options["offload"] and not self.options["bits"]:
                raise torch.OutOfMemoryError("too much")
            return super()._run(inputs, run)

    optimizer = Optimizer(TooLarge, device="cpu")
    best = optimizer.search(Limits(memory_bytes=9000, error=0.05))
    trials = {trial.title: trial for trial in optimizer.trials}
    assert trials["as it is"].failure.startswith("OutOfMemoryError") and best is not None
    assert trials["8 bit"].error == pytest.approx(0.01, rel=1e-3) and trials["offload"].error == 0


def test_errors_between_arrays() -> None:
    assert error_between([3.0, 4.0], [3.0, 4.5]) == pytest.approx(0.1)
    assert error_between([1.0], [float("nan")]) == float("inf")
    assert error_between([1.0], [1.0, 2.0]) == float("inf")
    assert error_between([0.0], [0.0]) == 0.0


def test_copies_of_models_stay_as_they_were() -> None:
    model = network()
    kept = copy.deepcopy(model)
    quantize(model, 8)
    x = torch.randn(1, 3, 8, 8)
    assert not torch.equal(model(x), kept(x)) and isinstance(kept[5], nn.Linear)
