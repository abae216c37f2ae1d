"""The workshop's pipelines on small configurations: the device against the CPU, options, seeds, interrupts, folders."""

from __future__ import annotations

import gc
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import unihal

pytest.importorskip("diffusers")
pytest.importorskip("transformers")

from unihal_workshop import create, registered
from unihal_workshop.cards.profiles import find_card
from unihal_workshop.errors import DeviceError, InputError, ModelError
from unihal_workshop.inference import BaseInference, Progress
from unihal_workshop.optimizer import Limits, Optimizer
from unihal_workshop.optimizer.search import error_between
from unihal_workshop.pipelines import ProgressBar, save_image
from unihal_workshop.planning.check import measure
from unihal_workshop.planning.planner import plan

DEVICE = torch._C._get_privateuse1_backend_name()
PICTURE = {"width": 32, "height": 32, "steps": 2}
TEXT = {"prompt": "Once upon", "new_tokens": 6, "temperature": 0}
INPUTS: dict[str, dict[str, Any]] = {
    "stable-diffusion": PICTURE,
    "text-generation": TEXT,
    "image-classification": {"images": 3},
}


def make(name: str, **options: Any) -> Any:
    if name == "image-classification":
        options.setdefault("size", 32)
    return create(name, {"variant": "test"}, **options)


def outcome(model: BaseInference, inputs: dict[str, Any], seed: int = 1) -> np.ndarray[Any, Any]:
    result = model.run(inputs, seed=seed)
    assert result.finished and result.seed == seed and result.seconds > 0
    array = np.asarray(model.output_array(result.output))  # type: ignore[attr-defined]
    assert np.isfinite(array).all()
    return array


@pytest.fixture(autouse=True)
def no_fallback() -> Any:
    """Nothing may run on the host in place of the device."""
    before = unihal.fallbacks()
    yield
    assert unihal.fallbacks() == before


@pytest.fixture(autouse=True, scope="module")
def nothing_left() -> Any:
    """Nothing stays on the device."""
    gc.collect()
    gc.freeze()  # a collection looks at what the tests make alone
    yield
    gc.unfreeze()
    gc.collect()
    torch.rdna.synchronize()
    assert torch.rdna.memory_allocated() == 0


def test_the_registry_has_them() -> None:
    assert set(INPUTS) <= set(registered())
    for name in INPUTS:
        assert make(name).name == name
        assert create(name, variant="test").plan_stages(INPUTS[name])
        with pytest.raises(ModelError, match="one of the two"):
            create(name, {"variant": "test"}, variant="test").load()


@pytest.mark.parametrize("name", sorted(INPUTS))
def test_the_device_computes_what_the_cpu_does(name: str) -> None:
    expected = outcome(make(name, device="cpu"), INPUTS[name])
    assert error_between(expected, outcome(make(name, dtype="float32"), INPUTS[name])) < 1e-5
    assert error_between(expected, outcome(make(name, dtype="float32", fuse=False), INPUTS[name])) < 1e-5
    assert error_between(expected, outcome(make(name), INPUTS[name])) < 0.1  # float16, from end to end


@pytest.mark.parametrize("offload", ["parts", "layers"])
@pytest.mark.parametrize("name", sorted(INPUTS))
def test_offload_changes_nothing_but_memory(name: str, offload: str) -> None:
    here = make(name, dtype="float32")
    expected = outcome(here, INPUTS[name])
    away = make(name, dtype="float32", offload=offload)
    np.testing.assert_array_equal(outcome(away, INPUTS[name]), expected)
    np.testing.assert_array_equal(outcome(away, INPUTS[name]), expected)  # and a second time
    assert away.weight_bytes() == here.weight_bytes()


@pytest.mark.parametrize(
    ("bits", "least", "most"), [(8, 1e-4, 0.1), pytest.param(4, 1e-3, 0.9, marks=pytest.mark.whole)]
)
@pytest.mark.parametrize("name", sorted(INPUTS))
def test_few_bits_take_less_and_err_a_little(name: str, bits: int, least: float, most: float) -> None:
    whole = make(name, dtype="float32")
    expected = outcome(whole, INPUTS[name])
    small = make(name, dtype="float32", bits=bits)
    assert least < error_between(expected, outcome(small, INPUTS[name])) < most
    assert small.weight_bytes() < 0.6 * whole.weight_bytes()
    assert {report.bits for report in small.reports.values()} == {bits}


@pytest.mark.parametrize("name", sorted(INPUTS))
def test_a_seed_gives_the_same_again(name: str) -> None:
    model = make(name)
    inputs = {**INPUTS[name], "temperature": 1.5} if name == "text-generation" else INPUTS[name]
    one, other, again = (model.run(inputs, seed=seed) for seed in (1, 2, 1))
    assert np.array_equal(one.output, again.output) and not np.array_equal(one.output, other.output)


def planned(name: str, inputs: dict[str, Any], **options: Any) -> tuple[int, int]:
    model = make(name, dtype="float16", **options)
    found = plan(model, inputs, "rx580-4gb").peak_bytes
    model.load()
    gc.collect()
    result = model.run(inputs, seed=1)
    model.unload()
    return found, result.peak_bytes


@pytest.mark.parametrize(
    ("name", "options", "inputs"),
    [
        pytest.param("stable-diffusion", {}, {"width": 64, "height": 64}, marks=pytest.mark.whole),
        ("stable-diffusion", {"bits": 8, "offload": "parts"}, {"width": 64, "height": 64}),
        pytest.param("stable-diffusion", {"vae_tile": 32}, {"width": 64, "height": 64}, marks=pytest.mark.whole),
        pytest.param("text-generation", {"bits": 4}, {"new_tokens": 40}, marks=pytest.mark.whole),
        ("image-classification", {}, {"images": 16}),
    ],
)
def test_the_plan_is_what_a_run_takes(name: str, options: dict[str, Any], inputs: dict[str, Any]) -> None:
    found, peak = planned(name, {**INPUTS[name], **inputs}, **options)
    assert abs(found - peak) <= 0.05 * peak + (64 << 10), (found, peak)


@pytest.mark.long
def test_the_largest_batch_of_a_registered_model_runs_and_one_more_does_not() -> None:
    card = find_card("rx580-4gb")
    reserve = card.memory - (64 << 20)
    options = {"variant": "test", "size": 64}
    found = plan(create("image-classification", **options), {"images": 1}, card, reserve=reserve)
    assert found.batch == 1 and found.largest_batch is not None and found.largest_batch > 20
    for more in (0, 1):
        count = found.largest_batch + more
        measured = measure("image-classification", card, reserve=reserve, inputs={"images": count}, options=options)
        assert measured.fits is not bool(more), measured.report
    assert plan(create("image-classification", **options, batch=4), {"images": 8}, card).largest_batch is None


# -- pictures ----------------------------------------------------------------------------------------------------------


def test_an_interrupt_keeps_the_picture_so_far_and_previews_come() -> None:
    model = make("stable-diffusion")
    seen: list[Progress] = []

    def watch(progress: Progress) -> None:
        seen.append(progress)
        if progress.step == 2:
            model.interrupt()

    result = model.run({**PICTURE, "steps": 5}, seed=1, on_progress=watch, preview_every=2)
    assert not result.finished and result.steps == 2 and result.output.shape == (32, 32, 3)
    assert [progress.preview is None for progress in seen] == [True, False]
    assert seen[1].preview.dtype == np.uint8 and seen[1].preview.shape == (16, 16, 3)
    assert [(p.step, p.total, p.stage) for p in seen] == [(1, 5, "denoise"), (2, 5, "denoise")]
    assert model.run(PICTURE, seed=1).finished


class LinearDecoder:
    """Stands for an autoencoder: each latent is two by two pixels of a colour that is a linear map of it."""

    config = type("Config", (), {"scaling_factor": 0.5})

    def __init__(self) -> None:
        self.colours = torch.tensor([[0.3, 0.1, 0.0, -0.2], [0.0, 0.2, 0.1, 0.1], [-0.1, 0.0, 0.3, 0.2]], device=DEVICE)

    def decode(self, latents: torch.Tensor, return_dict: bool) -> tuple[torch.Tensor]:
        pixels = torch.einsum("ij,njhw->nihw", self.colours, latents * 0.5) + 0.1
        return (torch.nn.functional.interpolate(pixels, scale_factor=2, mode="nearest"),)


def test_previews_are_the_decoders_colours() -> None:
    model = make("stable-diffusion", dtype="float32")
    model.load()
    real = model._pipe.vae
    object.__setattr__(model._pipe, "vae", LinearDecoder())
    model._fit_preview()
    latents = torch.randn(1, 4, 8, 8).to(DEVICE)
    preview = model._preview(latents).astype(np.float64)
    pixels = model._pixels(latents)[::2, ::2].astype(np.float64)
    assert pixels.std() > 10
    np.testing.assert_allclose(preview, pixels, atol=1)
    object.__setattr__(model._pipe, "vae", real)


@pytest.mark.parametrize(
    "scheduler", ["ddim", *(pytest.param(name, marks=pytest.mark.whole) for name in ("dpm++", "lcm"))]
)
def test_schedulers_make_different_pictures(scheduler: str) -> None:
    expected = outcome(make("stable-diffusion", device="cpu", scheduler=scheduler), PICTURE)
    model = make("stable-diffusion", dtype="float32", scheduler=scheduler)
    assert error_between(expected, outcome(model, PICTURE)) < 1e-4
    name = {"ddim": "DDIMScheduler", "dpm++": "DPMSolverMultistepScheduler", "lcm": "LCMScheduler"}[scheduler]
    assert type(model._pipe.scheduler).__name__ == name


@pytest.mark.whole
def test_tiles_and_slices_come_near_the_whole() -> None:
    inputs = {**PICTURE, "width": 64, "height": 64}
    whole = make("stable-diffusion", dtype="float32")
    expected = whole.run(inputs, seed=1)
    sliced = make("stable-diffusion", dtype="float32", attention_slice=1)
    np.testing.assert_allclose(sliced.run(inputs, seed=1).output, expected.output, atol=1)
    tiled = make("stable-diffusion", dtype="float32", vae_tile=32)
    found = tiled.run(inputs, seed=1)
    np.testing.assert_array_equal(tiled.latents, whole.latents)  # the decoder alone is tiled
    assert found.output.shape == (64, 64, 3) and not np.array_equal(found.output, expected.output)


def test_several_pictures_and_no_guidance() -> None:
    model = make("stable-diffusion")
    result = model.run({**PICTURE, "images": 2, "guidance": 1}, seed=1)
    assert result.output.shape == (2, 32, 32, 3) and result.details["size"] == [32, 32]
    assert not np.array_equal(result.output[0], result.output[1])


@pytest.mark.whole
@pytest.mark.parametrize("variant", ["base", "small", "tiny", "lcm", "sd15"])
def test_variants_have_their_shapes(variant: str) -> None:
    model = create("stable-diffusion", {"variant": variant}, dtype="float16")
    parameters = {name: sum(p.numel() for p in part.parameters()) / 1e6 for name, part in model.plan_parts().items()}
    # As their authors tell: 860 millions, 580, 483 and 323 of the UNets; the input of the guidance adds a little.
    expected = {"sd15": 860, "lcm": 860, "base": 580, "small": 483, "tiny": 323}[variant]
    assert parameters["unet"] == pytest.approx(expected, rel=0.01)
    assert parameters["text_encoder"] == pytest.approx(123, rel=0.01)
    assert parameters["vae"] == pytest.approx(84, rel=0.01)
    stages = model.plan_stages({"steps": 4})
    assert [(stage.name, stage.repeats) for stage in stages] == [("text encoder", 1), ("UNet", 4), ("decoder", 1)]
    assert stages[1].args[0].shape[0] == (1 if variant == "lcm" else 2)


def test_a_guidance_that_is_an_input_of_the_unet() -> None:
    source = {"variant": "test", "unet": {"time_cond_proj_dim": 16}, "scheduler": "lcm"}
    one, other = (
        outcome(create("stable-diffusion", source, dtype="float32"), {**PICTURE, "guidance": guidance})
        for guidance in (1.5, 9.0)
    )
    assert not np.array_equal(one, other)


def clip_tokenizer(folder: Path) -> Any:
    """A tokenizer of CLIP's kind with single letters as its tokens."""
    from transformers import CLIPTokenizer

    letters = "abcdefghijklmnopqrstuvwxyz,"
    tokens = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=16)


def test_a_folder_of_diffusers(tmp_path: Path) -> None:
    model = make("stable-diffusion", device="cpu", fuse=False)  # fused parts have other names for their weights
    model.load()
    model._tokenizer = clip_tokenizer(tmp_path)
    model._assemble(model._parts)
    expected = outcome(model, PICTURE)
    model._pipe.save_pretrained(tmp_path / "model", safe_serialization=True)
    loaded = create("stable-diffusion", tmp_path / "model", dtype="float32")
    assert error_between(expected, outcome(loaded, PICTURE)) < 1e-5
    other = outcome(loaded, {**PICTURE, "prompt": "a ship"})
    assert not np.array_equal(other, expected)
    assert [stage.name for stage in loaded.plan_stages(PICTURE)] == ["text encoder", "UNet", "decoder"]
    eighth = create("stable-diffusion", str(tmp_path / "model"), bits=8, offload="layers")
    assert error_between(expected, outcome(eighth, PICTURE)) < 0.2


def test_wrong_pictures_say_why(tmp_path: Path) -> None:
    model = make("stable-diffusion")
    for inputs, text in (
        ({"width": 100}, "multiple of 8"),
        ({"steps": 0}, "whole number from 1"),
        ({"steps": 2000}, "1000"),
        ({"guidance": float("nan")}, "expected a number"),
        ({"prompt": 3}, "expected a text"),
        ({"images": True}, "whole number"),
    ):
        with pytest.raises(InputError, match=text):
            model.run(inputs)
    with pytest.raises(ModelError, match="no input 'promt'.*prompt"):
        model.run({"promt": "a"})
    for options, text in (
        ({"bits": 2}, "expected 0, 8 or 4"),
        ({"offload": "disk"}, "none, parts, layers"),
        ({"scheduler": "euler"}, "the option scheduler"),
        ({"vae_tile": 20}, "multiple of 8"),
        ({"dtype": "float8"}, "expected float32"),
        ({"vae_tiles": 1}, "vae_tile"),
    ):
        with pytest.raises(ModelError, match=text):
            make("stable-diffusion", **options)
    for source, text in (
        ({"variant": "sd3"}, "there is no variant 'sd3'"),
        ({"unett": {}}, "unet"),
        (tmp_path / "nowhere", "no such folder"),
        (tmp_path, "config.json is missing"),
    ):
        with pytest.raises(ModelError, match=text):
            create("stable-diffusion", source).plan_stages(PICTURE)
    with pytest.raises(DeviceError, match="knows no device 'card'"):
        make("stable-diffusion", device="card").load()
    with pytest.raises(DeviceError, match="iluvatar"):
        make("stable-diffusion", device="iluvatar").load()
    with pytest.raises(ModelError, match="in host memory already"):
        make("stable-diffusion", device="cpu", offload="parts").load()


@pytest.mark.whole
def test_other_precision_of_a_part() -> None:
    expected = outcome(make("stable-diffusion", dtype="float32"), PICTURE)
    half = error_between(expected, outcome(make("stable-diffusion"), PICTURE))
    model = make("stable-diffusion", precision={"unet": {"*_blocks.*": "float32"}})
    mixed = error_between(expected, outcome(model, PICTURE))
    assert mixed < half
    with pytest.raises(ModelError, match="the option precision names 'net'"):
        make("stable-diffusion", precision={"net": {"*": "float32"}}).load()


# -- texts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["test", "gpt2"])
@pytest.mark.parametrize("cache", ["dynamic", "static", "none"])
def test_caches_make_the_same_text(family: str, cache: str) -> None:
    small = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 300}
    source = {"variant": "test"} if family == "test" else small
    expected = create("text-generation", source, device="cpu", cache="none").run(TEXT, seed=1)
    found = create("text-generation", source, dtype="float32", cache=cache).run(TEXT, seed=1)
    assert found.output == expected.output and found.details["tokens"] == 6
    assert found.details["stopped"] == "new_tokens" and found.details["prompt_tokens"] == 9


def test_an_interrupt_keeps_the_text_so_far() -> None:
    model = make("text-generation")
    seen: list[Any] = []

    def watch(progress: Progress) -> None:
        seen.append(progress.preview)
        if progress.step == 3:
            model.interrupt()

    result = model.run(TEXT, seed=1, on_progress=watch, preview_every=1)
    assert not result.finished and result.details["tokens"] == 3 and result.output == seen[-1]


def test_the_context_is_a_limit() -> None:
    model = make("text-generation", context=20)
    assert model.run({**TEXT, "prompt": "a" * 14}, seed=1).details["prompt_tokens"] == 14
    with pytest.raises(InputError, match="15 tokens, and 6 are to be added: together more than the context of 20"):
        model.run({**TEXT, "prompt": "a" * 15})
    cut = model.run({**TEXT, "prompt": "b" * 30 + "a" * 14, "overflow": "end"}, seed=1)
    assert cut.output == model.run({**TEXT, "prompt": "a" * 14}, seed=1).output
    with pytest.raises(InputError, match="no room"):
        model.run({**TEXT, "new_tokens": 20})
    for inputs, text in (
        ({"temperature": -1}, "expected 0 to 100"),
        ({"top_p": 1.5}, "expected 0 to 1"),
        ({"new_tokens": 0}, "from 1"),
        ({"prompt": ""}, "something in it"),
        ({"overflow": "middle"}, "refuse or end"),
    ):
        with pytest.raises(InputError, match=text):
            model.run({**TEXT, **inputs})
    for source, text in (({"hidden_size": 3}, "no model_type"), ({"model_type": "lama"}, "no model_type 'lama'")):
        with pytest.raises(ModelError, match=text):
            create("text-generation", source).load()


def test_tokens_are_drawn_as_the_inputs_say() -> None:
    from unihal_workshop.pipelines.text_generation import choose

    logits = torch.tensor([0.0, 1.0, 2.0, 3.0])
    given = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}

    def counts(**change: Any) -> np.ndarray[Any, Any]:
        generator = torch.Generator().manual_seed(0)
        drawn = [choose(logits, {**given, **change}, generator) for _ in range(800)]
        return np.bincount(drawn, minlength=4) / 800

    np.testing.assert_allclose(counts(), torch.softmax(logits, 0), atol=0.06)
    np.testing.assert_allclose(counts(temperature=2.0), torch.softmax(logits / 2, 0), atol=0.06)
    assert (counts(top_k=2)[:2] == 0).all() and (counts(top_k=2)[2:] > 0).all()
    assert (counts(top_p=0.7)[:2] == 0).all() and counts(top_p=0.1)[3] == 1
    assert counts(temperature=0)[3] == 1
    with pytest.raises(ModelError, match="no finite logits"):
        choose(logits * float("nan"), given, torch.Generator())


def test_a_folder_of_transformers(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    model = make("text-generation", device="cpu")
    model.load()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(tmp_path)
    model._parts["decoder"].save_pretrained(tmp_path)
    expected = create("text-generation", tmp_path, device="cpu")
    array = outcome(expected, TEXT)
    loaded = create("text-generation", tmp_path, dtype="float32")
    assert error_between(array, outcome(loaded, TEXT)) < 1e-5
    assert loaded.run(TEXT, seed=1).output == expected.run(TEXT, seed=1).output
    assert loaded.context == 64 and [stage.name for stage in loaded.plan_stages(TEXT)] == ["prompt", "tokens"]


# -- classes -----------------------------------------------------------------------------------------------------------


def test_pictures_come_from_files_arrays_and_noise(tmp_path: Path) -> None:
    from PIL import Image

    array = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    paths = []
    for number, picture in enumerate(array):
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(picture).save(paths[-1])
    model = make("image-classification", batch=1)
    expected = outcome(model, {"images": array})
    np.testing.assert_array_equal(outcome(model, {"images": paths}), expected)
    np.testing.assert_array_equal(outcome(model, {"images": str(paths[1])}), expected[1:])
    output = model.run({"images": array, "top": 3}).output
    assert len(output) == 2 and len(output[0]) == 3
    assert output[0][0]["index"] == int(expected[0].argmax())
    assert output[0][0]["probability"] >= output[0][1]["probability"]
    wide = np.zeros((1, 40, 80, 3), np.uint8)
    assert outcome(model, {"images": wide}).shape == (1, 10)
    for images, text in (
        (0, "1 or more"),
        ([], "empty list"),
        (array.astype(np.float32), "expected uint8"),
        (str(tmp_path / "none.png"), "no picture"),
        ([3], "paths of files"),
    ):
        with pytest.raises(InputError, match=text):
            model.run({"images": images})


def test_an_interrupt_keeps_the_pictures_so_far() -> None:
    model = make("image-classification", batch=2)
    result = model.run({"images": 6}, seed=1, on_progress=lambda progress: model.interrupt())
    assert not result.finished and len(result.output) == 2


@pytest.mark.whole
def test_vit_runs_in_few_bits() -> None:
    source = {
        "model_type": "vit",
        "num_labels": 10,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "image_size": 32,
        "patch_size": 8,
    }
    expected = outcome(create("image-classification", source, device="cpu", size=32), {"images": 3})
    for options, most in (({"dtype": "float32"}, 1e-5), ({"bits": 8}, 0.05), ({"bits": 4}, 0.5)):
        model = create("image-classification", source, size=32, **options)
        assert error_between(expected, outcome(model, {"images": 3})) < most


# -- around them -------------------------------------------------------------------------------------------------------


def test_parts_can_be_replaced() -> None:
    model = make("stable-diffusion", dtype="float32")
    expected = outcome(model, PICTURE)
    unet = model.modules()["unet"]
    other = type(unet)(**{k: v for k, v in unet.config.items() if not k.startswith("_")}).eval()
    model.replace_module("unet", other)
    assert not np.array_equal(outcome(model, PICTURE), expected)
    model.replace_module("unet", unet)
    np.testing.assert_array_equal(outcome(model, PICTURE), expected)
    with pytest.raises(ModelError, match="no part 'net'"):
        model.replace_module("net", other)


def test_a_bar_shows_progress_and_writes_previews(tmp_path: Path) -> None:
    from rich.console import Console

    text = io.StringIO()
    model = make("stable-diffusion")
    with ProgressBar(tmp_path / "preview.png", Console(file=text, width=120)) as bar:
        model.run(PICTURE, seed=1, on_progress=bar, preview_every=1)
    assert "denoise" in text.getvalue() and "2/2" in text.getvalue()
    from PIL import Image

    with Image.open(tmp_path / "preview.png") as picture:
        assert picture.size == (16, 16)
    assert [path.name for path in tmp_path.iterdir()] == ["preview.png"]
    with pytest.raises(ValueError, match="uint8 pixels"):
        save_image(np.zeros((2, 2, 3)), tmp_path / "wrong.png")


@pytest.mark.long
def test_a_search_over_a_pipeline(tmp_path: Path) -> None:
    optimizer = Optimizer("stable-diffusion", {"variant": "test"}, DEVICE, "float32", inputs=PICTURE)
    limits = Limits(memory_bytes=5 << 20, error=0.2)
    best = optimizer.search(limits, most_trials=16)
    assert best is not None and best.peak_bytes <= limits.memory_bytes and best.error <= 0.2
    optimizer.save(tmp_path / "trials.md", limits)
    table = (tmp_path / "trials.md").read_text()
    assert "| as it is |" in table and "| kept |" in table
    assert not any(trial.failure for trial in optimizer.trials)
