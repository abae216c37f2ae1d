"""Plans against runs on the stub: at most 5 % apart, and what is said to fit runs where what is not does not."""

from __future__ import annotations

import copy
import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import unihal
import unihal_workshop as workshop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from measuring import peak_of
from networks import NETWORKS, random_case, resnet
from plannable import small_resnet
from unihal_workshop.cards.profiles import CARDS, find_card
from unihal_workshop.offload_units import groups, layout
from unihal_workshop.optimizer import LayerOffload, quantize
from unihal_workshop.planning.check import measure
from unihal_workshop.planning.offloading import brought
from unihal_workshop.planning.torch_trace import trace_module
from unihal_workshop.planning.trace import replay

SAMPLE = {("resnet50", 0, False), ("transformer", 0, True), ("unet", 1, True), ("unet", 0, False), ("lstm", 1, False)}
#: Rounding to blocks of 256 bytes, in a network of a few KiB.
SMALL = 4096
PLANNABLE = str(Path(__file__).with_name("plannable.py"))


def optimizers() -> list[Any]:
    return [None, torch.optim.Adam, lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9)]


# In float16 the sizes differ, and copies in float32 beside them; ResNet's are many small ones. A sample of each.
CASES = [
    pytest.param(name, dtype, training, marks=[] if (name, half, training) in SAMPLE else [pytest.mark.whole])
    for name in NETWORKS
    for half, dtype in enumerate((torch.float32, torch.float16))
    for training in (False, True)
]


@pytest.mark.parametrize(("name", "dtype", "training"), CASES)
def test_the_peak_is_the_plans(name: str, dtype: torch.dtype, training: bool) -> None:
    make, inputs = NETWORKS[name]
    module = make().train(training).to(dtype)
    tensors = tuple(each.to(dtype) if each.is_floating_point() else each for each in inputs())
    optimizer = torch.optim.Adam if training else None
    planned = replay(
        trace_module(module, tensors, training=training, optimizer=optimizer, repeats=2 if training else 1)
    )
    peak, reserved = peak_of(module, tensors, training=training, optimizer=optimizer)
    assert peak > 1 << 20, "too small to say anything"
    assert planned.peak_allocated == pytest.approx(peak, rel=0.05)
    assert planned.peak_reserved == pytest.approx(reserved, rel=0.05)


def _random_network(pick: Any) -> None:
    torch.manual_seed(0)
    module, inputs, names = random_case(pick)
    training = pick([True, False]) and any(True for _ in module.parameters())
    dtype = pick([torch.float32, torch.float16])
    optimizer = pick(optimizers()) if training else None
    module = module.train(training).to(dtype)
    inputs = tuple(each.to(dtype) for each in inputs)
    try:
        module(*inputs)
    except RuntimeError:
        return  # pictures became too small for a layer
    repeats = 2 if training else 1
    planned = replay(trace_module(module, inputs, training=training, optimizer=optimizer, repeats=repeats))
    peak, _ = peak_of(module, inputs, training=training, optimizer=optimizer)
    assert abs(planned.peak_allocated - peak) <= max(SMALL, 0.05 * peak), (names, dtype, training, inputs[0].shape)


@pytest.mark.whole
@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_random_networks(data: st.DataObject) -> None:
    _random_network(lambda choices: choices[data.draw(st.integers(0, len(choices) - 1))])


@pytest.mark.long
@settings(max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False))
def test_many_random_networks(random: Any) -> None:
    _random_network(lambda choices: random.choice(choices))


@pytest.mark.whole
def test_the_largest_batch_runs_and_one_more_does_not() -> None:
    """On a card with 128 MiB left, so that the test needs no more memory than that."""
    card = CARDS["rx580-4gb"]
    reserve = card.memory - (128 << 20)
    module, inputs = small_resnet()
    plan = workshop.plan(module, inputs, card, reserve=reserve)
    assert plan.available_bytes == 128 << 20
    assert plan.largest_batch is not None and plan.largest_batch > 50
    source = f"{PLANNABLE}:small_resnet"
    most = measure(source, card, reserve=reserve, batch=plan.largest_batch)
    assert most.fits, most.report
    more = measure(source, card, reserve=reserve, batch=plan.largest_batch + 1)
    assert not more.fits
    assert "Out of device memory" in more.report and "Use smaller batches" in more.report
    again = workshop.plan(module, (inputs[0].new_empty(plan.largest_batch + 1, 3, 32, 32),), card, reserve=reserve)
    assert not again.fits and "asks for" in again.failure


@pytest.mark.long
def test_resnet50_fills_a_card_of_4_gb() -> None:
    card = CARDS["rx580-4gb"]
    module = resnet().eval()
    plan = workshop.plan(module, (torch.empty(1, 3, 64, 64, device="meta"),), card)
    assert plan.largest_batch is not None
    most = measure(f"{PLANNABLE}:resnet50", card, batch=plan.largest_batch)
    assert most.fits, most.report
    planned = workshop.plan(
        module, (torch.empty(plan.largest_batch, 3, 64, 64, device="meta"),), card, find_batch=False
    )
    assert planned.peak_bytes == pytest.approx(most.peak_bytes, rel=0.05)
    assert not measure(f"{PLANNABLE}:resnet50", card, batch=plan.largest_batch + 1).fits


def test_the_ladder() -> None:
    module = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(16))).eval()
    card = find_card("rx580-4gb")
    reserve = card.memory - (90 << 20)
    plan = workshop.plan(module, (torch.empty(4, 2048, device="meta"),), card, reserve=reserve)
    assert not plan.fits and plan.largest_batch == 0
    fits = {rung.name: rung.fits for rung in plan.rungs}
    assert fits == {"as it is": False, "float16": False, "8 bit": True, "4 bit": True, "offload": True, "hybrid": True}
    rungs = {rung.name: rung for rung in plan.rungs}
    half = rungs["float16"].weight_bytes
    assert rungs["8 bit"].weight_bytes <= 0.52 * half
    assert rungs["4 bit"].weight_bytes <= 0.28 * half
    # Two layers are there at a time; and the time is what the link needs.
    assert 2 * 8 << 20 <= rungs["offload"].peak_bytes < 3 * 8 << 20
    assert rungs["offload"].copied_bytes == pytest.approx(half, rel=0.01)
    assert rungs["offload"].seconds == pytest.approx(half / 12e9, rel=0.01)
    assert plan.advice is not None and plan.advice.name == "8 bit"
    text = str(plan)
    assert "DOES NOT FIT" in text and "model.half(); quantize(model, 8)" in text


def offloaded_peak(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], **options: Any) -> tuple[int, int]:
    """The peak of a run under LayerOffload, which knows the order of layers, and what it copied in it."""
    gc.collect()
    device = unihal.device("rdna")
    torch.rdna.synchronize()
    device.empty_cache()
    assert device.memory_stats().allocated_bytes == 0
    offload = LayerOffload(copy.deepcopy(module), "rdna", **options)
    with torch.no_grad():
        for _ in range(2):
            before = offload.copied_bytes
            device.reset_peak_memory_stats()
            offload.module(*(each.to("rdna") for each in inputs))
    torch.rdna.synchronize()
    peak, copied = int(device.memory_stats().peak_allocated_bytes), offload.copied_bytes - before
    offload.remove()
    return peak, copied


# Each network with one of them in `make test`.
@pytest.mark.parametrize(
    ("name", "bits", "prefetch"),
    [
        pytest.param(name, bits, prefetch, marks=() if i % 3 == j else pytest.mark.whole)
        for i, (name, bits) in enumerate([("resnet50", 0), ("transformer", 0), ("transformer", 4), ("unet", 8)])
        for j, prefetch in enumerate((0, 1, 3))
    ],
)
def test_offload_is_planned_as_it_runs(name: str, bits: int, prefetch: int) -> None:
    """The slots of LayerOffload are in the plan, not what another way to offload would take."""
    make, inputs = NETWORKS[name]
    module, tensors = make().eval(), inputs()
    if bits:
        quantize(module, bits)
    whole = trace_module(module, tensors)
    moved = brought(whole, prefetch=prefetch)
    peak, copied = offloaded_peak(module, tensors, prefetch=prefetch)
    assert replay(moved.trace).peak_allocated == pytest.approx(peak, rel=0.05)
    assert replay(moved.trace).peak_allocated <= replay(whole).peak_allocated
    if copied == 0:  # all of it stays
        return
    assert copied == pytest.approx(moved.copied_bytes, rel=0.01)


def _random_offload(pick: Any) -> None:
    torch.manual_seed(0)
    module, inputs, names = random_case(pick)
    # Weights that are large beside the layers of the case, so that some of them move.
    module = torch.nn.Sequential(module, *(Beside(pick([64, 256, 512])) for _ in range(pick([2, 8])))).eval()
    largest, prefetch, resident = pick([1, 1 << 18, None]), pick([0, 1, 2]), pick([0, 1 << 19])
    try:
        module(*inputs)
    except RuntimeError:
        return  # pictures became too small for a layer
    with torch.no_grad():
        expected = copy.deepcopy(module).to("rdna")(*(each.to("rdna") for each in inputs)).cpu()
    trace = trace_module(module, inputs)
    span = replace(trace.spans[0], resident=False, prefetch=prefetch, resident_bytes=resident)
    pieces = layout(groups(span.part, lambda number: trace.tensors[number].bytes, largest), prefetch, resident)
    offload = LayerOffload(
        copy.deepcopy(module), "rdna", prefetch=prefetch, largest_bytes=largest, resident_bytes=resident
    )
    assert offload.device_bytes == sum(pieces.pieces), (names, largest, prefetch, resident)
    with torch.no_grad():
        found = offload.module(*(each.to("rdna") for each in inputs))
    torch.testing.assert_close(found.cpu(), expected, atol=1e-5, rtol=1e-4, equal_nan=True)
    offload.remove()
    del found, offload
    if largest is None:
        trace.spans = [span]
        planned = replay(brought(trace).trace).peak_allocated
        peak, _ = offloaded_peak(module, inputs, prefetch=prefetch, resident_bytes=resident)
        assert abs(planned - peak) <= max(SMALL, 0.05 * peak), (names, prefetch, resident, inputs[0].shape)


class Beside(torch.nn.Module):
    """Adds nothing, after a product with a large matrix."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.Linear(width, 1, bias=False))
        self.width = width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0 * self.inner(x.new_ones(1, self.width)).sum()


@pytest.mark.whole
@settings(max_examples=10, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_random_networks_offloaded(data: st.DataObject) -> None:
    _random_offload(lambda choices: choices[data.draw(st.integers(0, len(choices) - 1))])


@pytest.mark.long
@settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False))
def test_many_random_networks_offloaded(random: Any) -> None:
    _random_offload(lambda choices: random.choice(choices))


def test_a_small_module_stays() -> None:
    """Where the slots would take no less than the module does, nothing moves."""
    module = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Linear(512, 512))
    trace = trace_module(module, (torch.zeros(1, 512),))
    moved = brought(trace, prefetch=1)
    assert replay(moved.trace).peak_allocated == pytest.approx(replay(trace).peak_allocated, rel=0.1)
    offload = LayerOffload(module, "rdna", prefetch=1)
    assert not offload.moving and offload.device_bytes == moved.copied_bytes


def test_tied_weights_count_once() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.out = torch.nn.Embedding(5000, 256), torch.nn.Linear(256, 5000, bias=False)
            self.out.weight = self.words.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.out(self.words(x))

    plan = workshop.plan(Tied(), (torch.zeros(1, 4, dtype=torch.int64),), "rx580-8gb")
    assert plan.weight_bytes == 5000 * 256 * 4


def test_the_model_stays_as_it_is() -> None:
    module = torch.nn.Linear(64, 64)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    workshop.plan(module, (torch.randn(2, 64),), "rx580-4gb", training=True, optimizer=torch.optim.Adam)
    assert module.weight.grad is None and module.weight.device.type == "cpu"
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_an_exported_program(tmp_path: Path) -> None:
    module = NETWORKS["unet"][0]().eval()
    inputs = NETWORKS["unet"][1]()
    path = tmp_path / "unet.pt2"
    torch.export.save(torch.export.export(module, inputs), path)
    plan = workshop.plan(path, inputs, "rx580-4gb")
    peak, _ = peak_of(module, inputs)
    # A graph lets go of what the module's own variables still hold.
    assert 0.5 * peak < plan.peak_bytes <= 1.05 * peak


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ((torch.nn.Linear(4, 4), (torch.zeros(2, 5),), "rx580-4gb"), workshop.ModelError, "the trace failed"),
        ((torch.nn.Linear(4, 4), (torch.zeros(2, 4),), "rx580-4bg"), workshop.DeviceError, "did you mean rx580-4gb"),
        ((3, (), "rx580-4gb"), workshop.ModelError, "nothing that can be planned"),
        (("model.txt", (), "rx580-4gb"), workshop.ModelError, "ends in .onnx, .pt2 or .keras"),
    ],
)
def test_what_cannot_be_planned(arguments: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said.replace(".", r"\.")):
        workshop.plan(*arguments)


def test_values_that_decide_are_refused() -> None:
    class Decides(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if x.sum() > 0 else x

    with pytest.raises(workshop.ModelError, match="depends on the values"):
        workshop.plan(Decides(), (torch.zeros(3),), "rx580-4gb", find_batch=False)
