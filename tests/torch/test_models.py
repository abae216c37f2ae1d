"""Models of torchvision, transformers and diffusers train and run as they do on PyTorch's CPU, with no fallback."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from typing import Any

import model_zoo
import pytest
import torch
import unihal
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DEVICE = torch._C._get_privateuse1_backend_name()
STEPS = 3

#: Names in `make test`; the others are `whole`.
SAMPLE = ("resnet18", "lstm", "bert", "llama")

#: Relative distance of the gradients of the first step from the CPU's, in float32, where it is more than 1e-3: through
#: many batch norms of few numbers each.
FARTHER = {"resnet50": 5e-2}  # where float32 on the CPU is 0.017 from float64

#: Of weights and inputs, where it is not 0: with that one of ResNet-18 a ReLU's input is within rounding of 0, so that
#: PyTorch's own gradients jump by 6e-3 when inputs move by 3e-7.
SEEDS = {"resnet18": 1}

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9, weight_decay=1e-4, nesterov=True),
    "Adam": lambda p: torch.optim.Adam(p, 1e-3),
    "AdamW": lambda p: torch.optim.AdamW(p, 1e-3, weight_decay=0.1),
    "RMSprop": lambda p: torch.optim.RMSprop(p, 1e-3, momentum=0.5, centered=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, 1e-2),
}
SCHEDULERS: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "StepLR": lambda o: torch.optim.lr_scheduler.StepLR(o, 1, 0.5),
    "CosineAnnealingLR": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 4),
    "OneCycleLR": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 1e-2, total_steps=8, cycle_momentum=False),
}


@pytest.fixture(autouse=True)
def _forbids_fallbacks() -> Iterator[None]:
    before = {(f.op, f.dtype, f.reason): f.count for f in unihal.fallbacks()}
    yield
    after = {(f.op, f.dtype, f.reason): f.count for f in unihal.fallbacks()}
    assert after == before


def _by_name(*names: str) -> list[Any]:
    return [
        pytest.param(name, marks=() if name in SAMPLE else pytest.mark.whole) for name in (names or model_zoo.EXAMPLES)
    ]


def _moved(batch: model_zoo.Batch, device: str) -> model_zoo.Batch:
    return {name: value.to(device) for name, value in batch.items()}


def _train(
    model: nn.Module, example: model_zoo.Example, batch: model_zoo.Batch, device: str, dtype: torch.dtype | None = None
) -> tuple[list[float], torch.Tensor]:
    """The losses of some steps, and the gradients of the first one, all in a row."""
    model = copy.deepcopy(model).to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)
    batch = _moved(batch, device)
    losses, gradients = [], torch.empty(0)
    for step in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast(device, dtype or torch.bfloat16, enabled=dtype is not None):
            loss = example.loss(model, batch)
        loss.backward()
        if step == 0:
            gradients = torch.cat([p.grad.flatten().cpu() for p in model.parameters() if p.grad is not None])
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses, gradients


def _made(name: str, seed: int | None = None) -> tuple[model_zoo.Example, nn.Module, model_zoo.Batch]:
    torch.manual_seed(SEEDS.get(name, 0) if seed is None else seed)
    example = model_zoo.EXAMPLES[name]
    return example, model_zoo.without_chance(example.model()), example.batch()


@pytest.mark.parametrize("name", _by_name())
def test_a_model_trains_as_on_the_cpu(name: str) -> None:
    example, model, batch = _made(name)
    expected, slopes = _train(model, example, batch, "cpu")
    actual, ours = _train(model, example, batch, DEVICE)
    torch.testing.assert_close(actual, expected, rtol=1e-3 if name not in FARTHER else 1e-2, atol=1e-4)
    assert ours.shape == slopes.shape and slopes.norm() > 0
    assert (ours - slopes).norm() <= FARTHER.get(name, 1e-3) * slopes.norm()


def _distance_in_bfloat16(name: str, device: str) -> float:
    """How far the first loss under autocast lies from float32's on the CPU: the root of the mean square over models."""
    squares = []
    for seed in range(6):
        example, model, batch = _made(name, seed)
        losses = []
        for place, enabled in (("cpu", False), (device, True)):
            with torch.autocast(place, torch.bfloat16, enabled=enabled):
                losses.append(example.loss(copy.deepcopy(model).to(place).train(), _moved(batch, place)).item())
        squares.append((losses[1] - losses[0]) ** 2)
    return math.sqrt(sum(squares) / len(squares))


@pytest.mark.parametrize("name", _by_name())
def test_a_model_trains_under_autocast(name: str) -> None:
    """Products are of bfloat16, and the losses stay near those of float32 on the CPU."""
    example, model, batch = _made(name)
    expected, _ = _train(model, example, batch, "cpu")
    actual, slopes = _train(model, example, batch, DEVICE, torch.bfloat16)
    assert bool(slopes.isfinite().all()) and slopes.norm() > 0
    assert actual != expected  # or nothing was rounded
    # The first loss tells of one pass; what follows of it in batch norms of few numbers each is chance.
    if abs(actual[0] - expected[0]) > 0.02 + 0.03 * abs(expected[0]):
        # Of a deep one that pass is chance, too: then at most twice as far as PyTorch's own bfloat16 on the CPU.
        assert _distance_in_bfloat16(name, DEVICE) <= 2 * _distance_in_bfloat16(name, "cpu")
    if not any(isinstance(part, nn.BatchNorm2d) for part in model.modules()):
        torch.testing.assert_close(actual, expected, rtol=0.05, atol=0.02)


MODELS_THAT_GENERATE = {"gpt2": model_zoo.gpt2, "llama": model_zoo.llama, "t5": model_zoo.t5}
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beams": {"num_beams": 3},
    "static cache": {"cache_implementation": "static"},
    "penalties": {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2},
}


@pytest.mark.parametrize(
    ("name", "way"),
    [
        pytest.param(name, way, marks=() if (name, way) == ("llama", "greedy") else pytest.mark.whole)
        for name in MODELS_THAT_GENERATE
        for way in WAYS
    ],
)
def test_generation_with_a_cache_gives_the_cpus_tokens(name: str, way: str) -> None:
    torch.manual_seed(0)
    model = MODELS_THAT_GENERATE[name]().eval()
    with torch.no_grad():  # random weights alone would repeat one token
        for parameter in model.parameters():
            parameter.mul_(4 if parameter.dim() > 1 else 1)
    prompt = {"input_ids": torch.randint(3, 96, (2, 5)), "attention_mask": torch.ones(2, 5, dtype=torch.long)}
    options = {"max_new_tokens": 8, "min_new_tokens": 8, "pad_token_id": 0, "do_sample": False, **WAYS[way]}
    expected = model.generate(**prompt, **options)
    actual = copy.deepcopy(model).to(DEVICE).generate(**_moved(prompt, DEVICE), **options)
    assert actual.device.type == DEVICE and len(set(expected.flatten().tolist())) > 3
    assert torch.equal(actual.cpu(), expected)


def test_sampling_draws_tokens_that_the_model_allows() -> None:
    torch.manual_seed(0)
    model = model_zoo.gpt2().eval().to(DEVICE)
    prompt = torch.randint(3, 96, (2, 5), device=DEVICE)
    options = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": True, "top_k": 8, "top_p": 0.9, "pad_token_id": 0}
    drawn = model.generate(prompt, attention_mask=torch.ones_like(prompt), temperature=0.8, **options)
    assert drawn.shape == (2, 11)
    for place in range(5, 11):
        scores = model(drawn[:, :place]).logits[:, -1].cpu()
        scores[:, 2] = -torch.inf  # the end, which is not to come yet
        best = scores.topk(8).indices
        assert all(token in row for token, row in zip(drawn[:, place].tolist(), best.tolist()))


SCHEDULES = (
    *("DDPMScheduler", "DDIMScheduler", "EulerDiscreteScheduler", "EulerAncestralDiscreteScheduler"),
    *(
        "DPMSolverMultistepScheduler",
        "PNDMScheduler",
        "HeunDiscreteScheduler",
        "UniPCMultistepScheduler",
        "LCMScheduler",
    ),
)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "DDIMScheduler" else pytest.mark.whole) for n in SCHEDULES]
)
def test_images_are_denoised_as_on_the_cpu(name: str) -> None:
    """A loop of a scheduler over a denoiser, and what the decoder makes of it; noise comes from the CPU's generator."""
    torch.manual_seed(0)
    denoiser, decoder = model_zoo.denoiser().eval(), model_zoo.autoencoder().eval()
    start, prompt = torch.randn(1, 4, 16, 16), torch.randn(1, 5, 16)
    found = {}
    for device in ("cpu", DEVICE):
        schedule = getattr(model_zoo.diffusers(), name)()
        schedule.set_timesteps(4, device=device)
        model, decode = copy.deepcopy(denoiser).to(device), copy.deepcopy(decoder).to(device)
        x = (start * schedule.init_noise_sigma).to(device)
        noise = {"generator": torch.Generator().manual_seed(1)}
        takes_noise = "generator" in schedule.step.__code__.co_varnames[: schedule.step.__code__.co_argcount]
        with torch.no_grad():
            for step in schedule.timesteps:
                guess = model(schedule.scale_model_input(x, step), step, prompt.to(device)).sample
                x = schedule.step(guess, step, x, **(noise if takes_noise else {})).prev_sample
            found[device] = decode.decode(x / x.std()).sample
    assert found[DEVICE].device.type == DEVICE
    torch.testing.assert_close(found[DEVICE].cpu(), found["cpu"], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "optimizer", [pytest.param(n, marks=() if n == "AdamW" else pytest.mark.whole) for n in OPTIMIZERS]
)
@pytest.mark.parametrize(
    "scheduler", [pytest.param(n, marks=() if n == "OneCycleLR" else pytest.mark.whole) for n in SCHEDULERS]
)
def test_a_loader_feeds_an_optimizer_with_a_schedule(optimizer: str, scheduler: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.SiLU(), nn.Flatten(), nn.Linear(8 * 36, 4))
    data = TensorDataset(torch.randn(32, 3, 8, 8), torch.arange(32) % 4)
    found = {}
    for device in ("cpu", DEVICE):
        net = copy.deepcopy(model).to(device)
        step = OPTIMIZERS[optimizer](net.parameters())
        schedule = SCHEDULERS[scheduler](step)
        loader = DataLoader(
            data, 8, shuffle=True, generator=torch.Generator().manual_seed(0), pin_memory=device == DEVICE
        )
        losses, rates = [], []
        for x, y in loader:
            step.zero_grad()
            loss = nn.functional.cross_entropy(net(x.to(device, non_blocking=True)), y.to(device, non_blocking=True))
            loss.backward()
            nn.utils.clip_grad_value_(net.parameters(), 0.5)
            step.step()
            schedule.step()
            losses.append(loss.item())
            rates.append(schedule.get_last_lr()[0])
        found[device] = (losses, rates)
    assert found[DEVICE][1] == found["cpu"][1]
    torch.testing.assert_close(found[DEVICE][0], found["cpu"][0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("norm_first", [True, False])
def test_an_encoder_without_gradients_takes_pytorchs_short_way(norm_first: bool) -> None:
    """One op a layer, with masks of sides and of keys."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, activation="gelu", batch_first=True, norm_first=norm_first)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    ours = copy.deepcopy(model).to(DEVICE)
    x, hidden = torch.randn(3, 7, 16), torch.zeros(3, 7, dtype=torch.bool)
    hidden[1, 5:] = True
    later = torch.ones(7, 7, dtype=torch.bool).triu(1)
    for masks in (
        {},
        {"mask": later},
        {"src_key_padding_mask": hidden},
        {"mask": later, "src_key_padding_mask": hidden},
    ):
        with torch.no_grad():
            expected, actual = model(x, **masks), ours(x.to(DEVICE), **_moved(masks, DEVICE))
        shown = ~masks.get("src_key_padding_mask", torch.zeros(3, 7, dtype=torch.bool))
        torch.testing.assert_close(actual.cpu()[shown], expected[shown], rtol=1e-4, atol=1e-5)
